//! Attribute keys by handle, with callbacks in C and other languages (sections 6.7 and 17.2.7).

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_core::attr::{CopyFn, DeleteFn, Keyval};
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::{Type, predefined_index};
use parking_lot::Mutex;

use crate::abi::{
    self, MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_KEYVAL_INVALID,
    MPI_SUCCESS,
};
use crate::keyval::Key;
pub use crate::keyval::{CopyProxy, DeleteProxy, ObjectKind};
use crate::library::LIBRARY;
use crate::outward::Outward;
pub use mpi_runtime::handles::attribute_value::{Form, Store, Value};

/// The handle of a key, which is freed with the key.
struct Given(Arc<AtomicI32>);

impl Drop for Given {
    fn drop(&mut self) {
        LIBRARY.keyvals.remove(self.0.load(Ordering::Relaxed));
    }
}

/// A pointer of the program that is only passed back to it.
#[derive(Clone, Copy)]
struct Extra(*mut c_void);

// SAFETY: the library does not dereference the pointer; the program's callbacks, which it is passed
// to, may be called by any of its threads.
unsafe impl Send for Extra {}
// SAFETY: a shared reference only copies the pointer, which the library does not dereference.
unsafe impl Sync for Extra {}

impl Extra {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Makes a key with callbacks and their extra state. Returns its handle.
pub fn create(
    kind: ObjectKind,
    copy: Option<MPI_Comm_copy_attr_function>,
    delete: Option<MPI_Comm_delete_attr_function>,
    extra: *mut c_void,
) -> Result<c_int> {
    let extra = Extra(extra);
    let proxies = Arc::new(OnceLock::<(CopyProxy, DeleteProxy)>::new());
    // Callbacks need the key's handle, which exists only after they do.
    let own = Arc::new(AtomicI32::new(MPI_KEYVAL_INVALID));
    let (handle, others) = (own.clone(), proxies.clone());
    let copy = copy.map(|function| -> Arc<CopyFn<c_int, Value>> {
        Arc::new(move |object: &c_int, _: &Keyval<c_int, Value>, value| {
            let (mut out, mut flag) = (null_mut::<c_void>(), 0);
            let key = handle.load(Ordering::Relaxed);
            let form = value.form();
            let (code, form) = match others.get() {
                Some((proxy, _)) => {
                    let bits = std::ptr::with_exposed_provenance_mut(value.bits() as usize);
                    let (out, flag) = (&raw mut out, &raw mut flag);
                    let (number, object) = (form.number(), kind.number(*object));
                    // SAFETY: the companion library that made the key provided the proxy for the
                    // program's function, with these arguments.
                    let code = unsafe {
                        proxy(function, object, key, extra.get(), number, bits, out, flag)
                    };
                    (code, form)
                }
                // The address of an integer in the old attribute would not be a copy of it.
                None if form != Form::Pointer && is_dup(function) => {
                    let bits = std::ptr::with_exposed_provenance_mut(value.bits() as usize);
                    return Ok(Some(Value::new(form, bits)));
                }
                None => {
                    let place = (&raw mut out).cast();
                    let (value, flag) = (value.pointer(), &raw mut flag);
                    let object = kind.outward(*object);
                    // SAFETY: the program provided this function as an attribute copy callback; the
                    // arguments are those of section 6.7.2.
                    let code = unsafe { function(object, key, extra.get(), value, place, flag) };
                    (code, Form::Pointer)
                }
            };
            match code {
                MPI_SUCCESS => Ok((flag != 0).then(|| Value::new(form, out))),
                code => Err(failed("copy", code)),
            }
        })
    });
    let (handle, others) = (own.clone(), proxies.clone());
    let delete = delete.map(|function| -> Arc<DeleteFn<c_int, Value>> {
        Arc::new(move |object: &c_int, _: &Keyval<c_int, Value>, value| {
            let key = handle.load(Ordering::Relaxed);
            let code = match others.get() {
                Some((_, proxy)) => {
                    let bits = std::ptr::with_exposed_provenance_mut(value.bits() as usize);
                    let (form, object) = (value.form().number(), kind.number(*object));
                    // SAFETY: the companion library that made the key provided the proxy for the
                    // program's function, with these arguments.
                    unsafe { proxy(function, object, key, form, bits, extra.get()) }
                }
                None => {
                    let object = kind.outward(*object);
                    // SAFETY: the program provided this function as an attribute delete callback;
                    // the arguments are those of section 6.7.2.
                    unsafe { function(object, key, value.pointer(), extra.get()) }
                }
            };
            match code {
                MPI_SUCCESS => Ok(()),
                code => Err(failed("delete", code)),
            }
        })
    });
    let keyval = Keyval::holding(copy, delete, Box::new(Given(own.clone())));
    let key = Arc::new(Key {
        kind,
        keyval: keyval.downgrade(),
        own: Mutex::new(Some(keyval.clone())),
        proxies,
    });
    // The address by which `mark` finds the key from its handle. It is valid until the key is
    // freed.
    keyval.set_mark(Arc::as_ptr(&key).addr());
    let given = LIBRARY.keyvals.insert(key).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 attribute keys are in use; free some",
        )
    })?;
    own.store(given, Ordering::Relaxed);
    Ok(given)
}

/// `MPIR_Dup_fn`: the predefined attribute copy function (`MPI_COMM_DUP_FN` and the like).
///
/// # Safety
/// Called as an attribute copy function: `attribute_val_out` is the address of a pointer.
pub unsafe fn dup_fn(
    _oldcomm: MPI_Comm,
    _keyval: c_int,
    _extra_state: *mut c_void,
    attribute_val_in: *mut c_void,
    attribute_val_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller guarantees the addresses of a pointer and a flag.
    unsafe {
        flag.write(1);
        attribute_val_out
            .cast::<*mut c_void>()
            .write(attribute_val_in);
    }
    MPI_SUCCESS
}

/// `MPIR_Dup_fn` as a callback (section 6.7.2).
unsafe extern "C" fn dup(
    _object: Outward,
    _keyval: c_int,
    _extra_state: *mut c_void,
    attribute_val_in: *mut c_void,
    attribute_val_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are those of a copy callback, whose caller guarantees them.
    unsafe { dup_fn(0, 0, null_mut(), attribute_val_in, attribute_val_out, flag) }
}

/// The value of `MPI_COMM_DUP_FN` and the like within the library.
pub const DUP: MPI_Comm_copy_attr_function = dup;

/// Returns whether a copy callback is the predefined copy function.
#[cfg(pointer_abi)]
fn is_dup(function: MPI_Comm_copy_attr_function) -> bool {
    std::ptr::fn_addr_eq(function, DUP)
}

/// Returns whether a copy callback is the predefined copy function.
#[cfg(not(pointer_abi))]
fn is_dup(function: MPI_Comm_copy_attr_function) -> bool {
    std::ptr::eq(
        function as *const c_void,
        crate::shims::MPIR_Dup_fn as *const c_void,
    )
}

/// Converts a copy function as programs of the standard ABI pass it; 1 stands for `MPI_COMM_DUP_FN`
/// and the like.
#[cfg(standard_abi)]
pub fn copy_function(
    function: Option<MPI_Comm_copy_attr_function>,
) -> Option<MPI_Comm_copy_attr_function> {
    match function {
        Some(function) if function as usize == 1 => Some(DUP),
        other => other,
    }
}

/// Makes the callbacks of a key be called through proxies of another language. To be called once.
pub fn set_proxies(handle: c_int, copy: CopyProxy, delete: DeleteProxy) -> Result<()> {
    let key = LIBRARY.keyvals.get_arc(handle);
    let key = key.ok_or_else(|| invalid(handle))?;
    key.proxies
        .set((copy, delete))
        .map_err(|_| Error::new(Class::Keyval, "the key has proxies already"))
}

#[cold]
fn failed(what: &str, code: c_int) -> Error {
    Error::new(
        Class::User(code),
        format!("the {what} callback of an attribute returned {code}"),
    )
}

/// Returns the key behind a handle, for objects of this kind.
pub fn key(handle: c_int, kind: ObjectKind) -> Result<Keyval<c_int, Value>> {
    match LIBRARY.keyvals.get_arc(handle) {
        Some(key) if key.kind == kind => key.keyval.upgrade().ok_or_else(|| invalid(handle)),
        Some(key) => Err(Error::new(
            Class::Keyval,
            format!(
                "the key is for {}; this needs one for {}",
                key.kind.name(),
                kind.name()
            ),
        )),
        None => Err(invalid(handle)),
    }
}

/// Returns the [mark](Keyval::set_mark) of the key behind a handle, if there is one.
#[inline]
fn mark(handle: c_int) -> Option<usize> {
    LIBRARY.keyvals.address_early(handle)
}

/// Returns the value of an attribute if no lock is needed; `None` if the slow path must search.
#[inline]
pub fn peek(
    store: &Store,
    handle: c_int,
    kind: ObjectKind,
    call: InCall,
) -> Option<Option<*mut c_void>> {
    let found = store.peek(mark(handle)?)?;
    let Some(bits) = found else {
        let is_right = LIBRARY.keyvals.get_early(handle, call)?.kind == kind;
        return is_right.then_some(None);
    };
    // Only keys of this kind are set on the store.
    Some(Some(std::ptr::with_exposed_provenance_mut(bits)))
}

/// Replaces an attribute set by C if no callback must be called. Returns whether it did.
#[inline]
pub fn replace(store: &Store, handle: c_int, value: *mut c_void) -> bool {
    mark(handle).is_some_and(|mark| store.replace(mark, Value::new(Form::Pointer, value)))
}

/// Frees the program's handle of a key. Key and handle live on while attributes use them; freeing
/// the handle again meanwhile is no error, as in other libraries of this ABI.
pub fn free(handle: c_int, kind: ObjectKind) -> Result<()> {
    let used = key(handle, kind)?;
    let own = LIBRARY
        .keyvals
        .get_arc(handle)
        .and_then(|key| key.own.lock().take());
    drop((own, used));
    Ok(())
}

/// Converts a copy function as programs of Open MPI's ABI pass it: `MPI_COMM_DUP_FN` and the like
/// are functions of this library there.
#[cfg(openmpi_abi)]
pub fn copy_function(
    function: Option<MPI_Comm_copy_attr_function>,
) -> Option<MPI_Comm_copy_attr_function> {
    let is_given = |own: &MPI_Comm_copy_attr_function| {
        function.is_some_and(|given| std::ptr::fn_addr_eq(given, *own))
    };
    match crate::shims::DUP_FUNCTIONS.iter().any(is_given) {
        true => Some(DUP),
        false => function,
    }
}

fn is_predefined(handle: c_int) -> bool {
    const ALL: [c_int; 12] = [
        abi::MPI_TAG_UB,
        abi::MPI_HOST,
        abi::MPI_IO,
        abi::MPI_WTIME_IS_GLOBAL,
        abi::MPI_UNIVERSE_SIZE,
        abi::MPI_LASTUSEDCODE,
        abi::MPI_APPNUM,
        abi::MPI_WIN_BASE,
        abi::MPI_WIN_SIZE,
        abi::MPI_WIN_DISP_UNIT,
        abi::MPI_WIN_CREATE_FLAVOR,
        abi::MPI_WIN_MODEL,
    ];
    // In the MPICH ABI all predefined keys have the same type bits, including those of other
    // languages.
    let alike = cfg!(not(pointer_abi)) && predefined_index(handle, Type::Keyval).is_some();
    alike || ALL.contains(&handle)
}

#[cold]
fn invalid(handle: c_int) -> Error {
    let what = if handle == MPI_KEYVAL_INVALID {
        "the key is MPI_KEYVAL_INVALID".to_string()
    } else if is_predefined(handle) {
        format!("the attributes of predefined keys ({handle:#x}) can only be read")
    } else {
        format!("attribute key {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Keyval, what)
}
