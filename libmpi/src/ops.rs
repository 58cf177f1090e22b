//! Reduction operations by handle.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_core::datatype::Datatype;
use mpi_core::op::{Op, PredefinedOp, Reduce};
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::destructors::OwnedState;
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::types;
use mpi_runtime::handles::{Type, predefined_index};

use crate::abi::{self, MPI_Count, MPI_Datatype, MPI_OP_NULL, MPI_Op, MPI_User_function};
pub use crate::library::OpProxy as Proxy;
pub use crate::library::UserFunction;
use crate::library::{LIBRARY, UserCall, UserOp};
use crate::outward::Outward;

/// The predefined operations with their handles, in the order of their indices, which begin at 1.
const PREDEFINED: [(MPI_Op, PredefinedOp); 14] = [
    (abi::MPI_MAX, PredefinedOp::Max),
    (abi::MPI_MIN, PredefinedOp::Min),
    (abi::MPI_SUM, PredefinedOp::Sum),
    (abi::MPI_PROD, PredefinedOp::Prod),
    (abi::MPI_LAND, PredefinedOp::Land),
    (abi::MPI_BAND, PredefinedOp::Band),
    (abi::MPI_LOR, PredefinedOp::Lor),
    (abi::MPI_BOR, PredefinedOp::Bor),
    (abi::MPI_LXOR, PredefinedOp::Lxor),
    (abi::MPI_BXOR, PredefinedOp::Bxor),
    (abi::MPI_MINLOC, PredefinedOp::Minloc),
    (abi::MPI_MAXLOC, PredefinedOp::Maxloc),
    (abi::MPI_REPLACE, PredefinedOp::Replace),
    (abi::MPI_NO_OP, PredefinedOp::NoOp),
];

/// Returns the predefined operations, by index.
fn predefined() -> &'static [Op] {
    let all = || PREDEFINED.iter().map(|row| Op::predefined(row.1)).collect();
    LIBRARY.predefined_ops.get_or_init(all)
}

/// Returns the operation behind a handle, for a datatype that has been checked.
///
/// # Errors
/// Of class `Op` if the operation does not exist or is not defined on the datatype.
#[inline]
pub fn checked<'c>(
    handle: MPI_Op,
    datatype: MPI_Datatype,
    found: &Datatype,
    call: InCall<'c>,
) -> Result<&'c Op> {
    match predefined_index(handle, Type::Op) {
        Some(_) => {
            let op = lookup(handle, call)?;
            op.check(found)?;
            Ok(op)
        }
        None => {
            let made = LIBRARY.ops.get(handle, call);
            let made = made.ok_or_else(|| invalid(handle))?;
            made.call.datatype.store(datatype, Ordering::Relaxed);
            Ok(&made.op)
        }
    }
}

/// Returns the operation behind a handle.
pub fn lookup<'c>(handle: MPI_Op, call: InCall<'c>) -> Result<&'c Op> {
    let found = match predefined_index(handle, Type::Op) {
        Some(index) => (index as usize)
            .checked_sub(1)
            .and_then(|index| predefined().get(index)),
        None => LIBRARY.ops.get(handle, call).map(|made| &made.op),
    };
    found.ok_or_else(|| invalid(handle))
}

impl UserFunction {
    /// Returns the greatest number of elements in one call.
    fn most(self) -> usize {
        match self {
            UserFunction::Int(_) => c_int::MAX as usize,
            UserFunction::Large(_) | UserFunction::WithState(_) => MPI_Count::MAX as usize,
        }
    }

    /// Reduces `len` elements, at most [`most`](Self::most), by `proxy` if there is one.
    ///
    /// # Safety
    /// Both buffers have `len` elements of the datatype with this handle, for which the function is
    /// defined.
    unsafe fn call(
        self,
        proxy: Option<&(Proxy, Option<MPI_User_function>)>,
        state: Option<&OwnedState>,
        input: *const u8,
        inout: *mut u8,
        len: usize,
        handle: MPI_Datatype,
    ) {
        let mut told = Outward::datatype(handle);
        // SAFETY: the caller guarantees buffers of `len` elements, as the standard requires for
        // such a function (section 5.9.5); the C++ library provided the proxy for this function.
        unsafe {
            match (self, proxy) {
                (UserFunction::Int(function), None) => {
                    let (mut len, handle) = (len as c_int, &raw mut told);
                    function(input.cast_mut().cast(), inout.cast(), &raw mut len, handle);
                }
                (UserFunction::Int(function), Some((proxy, other))) => {
                    let function = other.unwrap_or(function);
                    // Other languages have integer handles.
                    let handle = Outward::datatype_to_int(handle);
                    proxy(input.cast(), inout.cast(), len as c_int, handle, function);
                }
                (UserFunction::Large(function), _) => {
                    let (mut len, handle) = (len as MPI_Count, &raw mut told);
                    function(input.cast_mut().cast(), inout.cast(), &raw mut len, handle);
                }
                (UserFunction::WithState(function), _) => {
                    let state = state.map_or(std::ptr::null_mut(), OwnedState::state);
                    let len = len as MPI_Count;
                    function(input.cast_mut().cast(), inout.cast(), len, told, state);
                }
            }
        }
    }
}

impl Reduce for UserCall {
    fn reduce(&self, input: *const u8, inout: *mut u8, count: usize, datatype: &Datatype) {
        let reduce = |handle| {
            let (mut input, mut inout, mut left) = (input, inout, count);
            while left > 0 {
                let now = left.min(self.function.most());
                let (proxy, state) = (self.proxy.get(), self.state.as_ref());
                // SAFETY: the program provided this function to reduce elements of a datatype from
                // one buffer to another (section 5.9.5); the caller of `Op::apply` guarantees the
                // buffers.
                unsafe { (self.function).call(proxy, state, input, inout, now, handle) };
                left -= now;
                let distance = datatype.extent().wrapping_mul(now as isize);
                input = input.wrapping_offset(distance);
                inout = inout.wrapping_offset(distance);
            }
        };
        let likely = self.datatype.load(Ordering::Relaxed);
        if types::with_handle(datatype, likely, reduce).is_err() {
            reduce(abi::MPI_DATATYPE_NULL);
        }
    }
}

/// Makes an operation of a function, with the function's state.
pub fn create(function: UserFunction, state: Option<OwnedState>, commute: bool) -> Result<MPI_Op> {
    let has_state = state.is_some();
    let call = Arc::new(UserCall {
        function,
        state,
        datatype: AtomicI32::new(abi::MPI_DATATYPE_NULL),
        proxy: OnceLock::new(),
    });
    let op = match has_state {
        true => Op::with_destructor(call.clone(), commute),
        false => Op::user_with(call.clone(), commute),
    };
    LIBRARY
        .ops
        .insert(Arc::new(UserOp { op, call }))
        .ok_or_else(|| {
            Error::new(
                Class::NoMem,
                "all 67,108,864 operation handles are in use; free some",
            )
        })
}

/// Makes an operation's function be called through `proxy`. To be called once.
pub fn set_proxy(handle: MPI_Op, proxy: Proxy) -> Result<()> {
    set_proxy_for(handle, proxy, None)
}

/// Makes an operation's function be called through `proxy`, with `function`, if given, in place of
/// the operation's. To be called once.
pub fn set_proxy_for(
    handle: MPI_Op,
    proxy: Proxy,
    function: Option<MPI_User_function>,
) -> Result<()> {
    let made = LIBRARY.ops.get_arc(handle);
    let made = made.ok_or_else(|| invalid(handle))?;
    let twice = |_| Error::new(Class::Op, "the operation has a proxy already");
    made.call.proxy.set((proxy, function)).map_err(twice)
}

/// Frees a handle. The operation lives on where it is used.
pub fn free(handle: MPI_Op) -> Result<()> {
    if predefined_index(handle, Type::Op).is_some() {
        return Err(Error::new(
            Class::Op,
            "a predefined operation cannot be freed",
        ));
    }
    LIBRARY
        .ops
        .remove(handle)
        .map(drop)
        .ok_or_else(|| invalid(handle))
}

#[cold]
fn invalid(handle: MPI_Op) -> Error {
    let what = if handle == MPI_OP_NULL {
        "op is MPI_OP_NULL".to_string()
    } else {
        format!("operation {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Op, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_handles_find_their_operations() {
        // SAFETY: no operation is freed.
        let call = unsafe { InCall::begin() };
        for (index, (handle, op)) in PREDEFINED.iter().enumerate() {
            assert_eq!(predefined_index(*handle, Type::Op), Some(index as u32 + 1));
            assert_eq!(lookup(*handle, call).unwrap().as_predefined(), Some(*op));
            assert!(free(*handle).is_err());
        }
        for wrong in [
            0,
            -1,
            MPI_OP_NULL,
            abi::MPI_MAX - 1,
            abi::MPI_NO_OP + 1,
            abi::MPI_INT,
        ] {
            assert_eq!(
                lookup(wrong, call).err().map(|e| e.class()),
                Some(Class::Op),
                "{wrong:#x}"
            );
        }
    }

    #[test]
    fn made_operations_see_the_handle_and_every_element() {
        unsafe extern "C" fn add(
            input: *mut std::ffi::c_void,
            inout: *mut std::ffi::c_void,
            len: *mut c_int,
            datatype: *mut Outward,
        ) {
            // SAFETY: the test calls it with arrays of three ints.
            unsafe {
                assert_eq!((*len, (*datatype).inward()), (3, abi::MPI_INT));
                for i in 0..3 {
                    *inout.cast::<c_int>().add(i) += *input.cast::<c_int>().add(i);
                }
            }
        }
        let handle = create(UserFunction::Int(add), None, false).unwrap();
        // SAFETY: the operation is not used after it is freed below.
        let call = unsafe { InCall::begin() };
        let int = &types::object(abi::MPI_INT, call).unwrap().datatype;
        let op = checked(handle, abi::MPI_INT, int, call).unwrap();
        assert!(!op.is_commutative());
        let (input, mut inout) = ([1, 2, 3], [10, 20, 30]);
        // SAFETY: both are arrays of three ints.
        unsafe { op.apply(input.as_ptr().cast(), inout.as_mut_ptr().cast(), 3, int) };
        assert_eq!(inout, [11, 22, 33]);
        free(handle).unwrap();
        assert!(lookup(handle, call).is_err());
    }
}
