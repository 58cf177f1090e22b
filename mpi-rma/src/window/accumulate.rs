//! Accumulates (section 11.3.4): reductions into a target's memory, and compare-and-swap.
//!
//! A call is checked here, and carried out by the window's domain of atomicity (`accumulate.rs` in
//! its folder).

use std::sync::Arc;

use netmod::AtomicOp;

use crate::locks::control::Control;
use crate::messages::service::Service;
use crate::network::capabilities::Domain;
use crate::window::apply::{LONGEST_COMPARED, Reduction};
use crate::window::buffers::{Completion, Origin, Target, same_length};
use crate::window::{AccessMode, Window};
use mpi_core::process::Process;
use mpi_core::pt2pt::operations::Atomic;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::{Op, PredefinedOp};

/// An accumulate of at least one element, with checked arguments.
pub(crate) struct Accumulate<'a> {
    pub window: &'a Window,
    pub process: &'a Process,
    /// `None` for `MPI_NO_OP`.
    pub origin: Option<Origin<'a>>,
    /// The buffer for the target's old content, if that is wanted.
    pub result: Option<Origin<'a>>,
    pub target: Target<'a>,
    /// Offset in the target's memory, in bytes.
    pub at: i64,
    pub reduction: Reduction,
    pub completion: Completion,
}

/// A compare-and-swap with checked arguments.
pub(crate) struct CompareAndSwap<'a> {
    pub window: &'a Window,
    pub process: &'a Process,
    pub compare: u128,
    pub new: u128,
    /// The address for the target's old value.
    pub result: *mut u8,
    pub target: Target<'a>,
    /// Offset in the target's memory, in bytes.
    pub at: i64,
    /// Bytes of the element, up to [`LONGEST_COMPARED`].
    pub size: usize,
}

impl CompareAndSwap<'_> {
    /// Returns the buffer for the target's old value.
    pub fn result(&self) -> Origin<'_> {
        Origin {
            base: self.result,
            count: 1,
            datatype: self.target.datatype,
        }
    }

    /// Returns the operation on a word of 8 bytes.
    pub fn on_word(&self) -> Atomic {
        Atomic {
            op: AtomicOp::CompareSwap,
            operands: [self.new as u64].into(),
            compare: self.compare as u64,
        }
    }

    /// Writes the target's old value to the result.
    ///
    /// # Safety
    /// The result's buffer is writable.
    pub unsafe fn write_result(&self, found: u128) {
        let found = found.to_le_bytes();
        // SAFETY: the buffer holds `size` bytes, which are at most `LONGEST_COMPARED`.
        unsafe { netmod_kit::copy(found.as_ptr(), self.result, self.size) };
    }
}

/// A window's domain of atomicity: all accumulates on the window are carried out by it.
pub(crate) trait Atomicity {
    /// Carries out an accumulate. Returns the request, if the call has one and is not complete.
    ///
    /// # Safety
    /// The origin's buffer is readable, and not written to before the data has left it; the
    /// result's is writable, and not used before the call is complete; the target's data lies
    /// within its memory.
    unsafe fn accumulate(self, call: &Accumulate<'_>) -> Result<Option<RequestId>>;

    /// Carries out a compare-and-swap.
    ///
    /// # Safety
    /// The result's buffer is writable, and not used before the call is complete; the target's
    /// element lies within its memory.
    unsafe fn compare_and_swap(self, call: &CompareAndSwap<'_>) -> Result<()>;
}

/// The domain of atomicity of a window, with what the domain needs.
pub(crate) enum WindowDomain<'a> {
    Mapped(MappedDomain<'a>),
    Copied(CopiedDomain<'a>),
    Network(NetworkDomain<'a>),
    Turns(TurnDomain),
    Messages(MessageDomain<'a>),
}

/// Atomic operations of the processor, and locks in shared memory for all other accumulates.
pub(crate) struct MappedDomain<'a>(pub &'a Control);

/// Locks in shared memory.
pub(crate) struct CopiedDomain<'a>(pub &'a Control);

/// Atomic operations of the network, to which the program has promised to keep.
pub(crate) struct NetworkDomain<'a>(pub &'a Domain);

/// Turns at a target's memory, which the network's atomics give.
pub(crate) struct TurnDomain;

/// The target's process, which serves messages one by one.
pub(crate) struct MessageDomain<'a>(pub &'a Arc<Service>);

impl Atomicity for WindowDomain<'_> {
    #[inline]
    unsafe fn accumulate(self, call: &Accumulate<'_>) -> Result<Option<RequestId>> {
        // SAFETY: each domain has the contract of this function.
        unsafe {
            match self {
                WindowDomain::Mapped(domain) => domain.accumulate(call),
                WindowDomain::Copied(domain) => domain.accumulate(call),
                WindowDomain::Network(domain) => domain.accumulate(call),
                WindowDomain::Turns(domain) => domain.accumulate(call),
                WindowDomain::Messages(domain) => domain.accumulate(call),
            }
        }
    }

    #[inline]
    unsafe fn compare_and_swap(self, call: &CompareAndSwap<'_>) -> Result<()> {
        // SAFETY: each domain has the contract of this function.
        unsafe {
            match self {
                WindowDomain::Mapped(domain) => domain.compare_and_swap(call),
                WindowDomain::Copied(domain) => domain.compare_and_swap(call),
                WindowDomain::Network(domain) => domain.compare_and_swap(call),
                WindowDomain::Turns(domain) => domain.compare_and_swap(call),
                WindowDomain::Messages(domain) => domain.compare_and_swap(call),
            }
        }
    }
}

impl Window {
    /// Returns the window's domain of atomicity, on which all members have agreed.
    #[inline]
    fn atomicity(&self) -> Result<WindowDomain<'_>> {
        Ok(match (self.mode, self.domain()) {
            (AccessMode::Mapped, _) => WindowDomain::Mapped(MappedDomain(self.control()?)),
            (AccessMode::Copied, _) => WindowDomain::Copied(CopiedDomain(self.control()?)),
            (_, Some(promised)) => WindowDomain::Network(NetworkDomain(promised)),
            (AccessMode::Network, None) => WindowDomain::Turns(TurnDomain),
            (AccessMode::Messages, None) => WindowDomain::Messages(MessageDomain(self.service()?)),
        })
    }

    /// Reduces data into a target's memory, and reads its old content if there is a `result`.
    ///
    /// Serves `MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op`, and those with requests.
    /// Without an `origin`, for `MPI_NO_OP`, only reads.
    ///
    /// # Errors
    /// The errors of [`Window::put`]; `MPI_ERR_OP` for an operation that accumulates don't have on
    /// this datatype, `MPI_ERR_TYPE` if the two sides' elements differ.
    ///
    /// # Safety
    /// The origin's buffer is readable, and not written to before the data has left it; the
    /// result's is writable, and not used before the call is complete.
    #[inline]
    pub unsafe fn accumulate(
        &self,
        process: &Process,
        origin: Option<Origin<'_>>,
        result: Option<Origin<'_>>,
        target: Target<'_>,
        op: &Op,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let reduction = Reduction::new(op, target.datatype)?;
        let origin = origin.filter(|_| reduction.op != PredefinedOp::NoOp);
        let begun = self.begin(process, &target, completion)?;
        if origin.is_none() && reduction.op != PredefinedOp::NoOp {
            return Err(Error::new(
                Class::Op,
                "without data from the origin the operation must be MPI_NO_OP",
            ));
        }
        for buffer in origin.iter().chain(&result) {
            same_length(buffer, &target)?;
        }
        // No elements: their types need not match.
        let Some(at) = begun else {
            return Ok(None);
        };
        for buffer in origin.iter().chain(&result) {
            same_elements(buffer, &reduction)?;
        }
        let call = Accumulate {
            window: self,
            process,
            origin,
            result,
            target,
            at,
            reduction,
            completion,
        };
        // SAFETY: the buffers are valid by this function's contract; `begin` has found the target's
        // data within its memory.
        unsafe { self.atomicity()?.accumulate(&call) }
    }

    /// Replaces the target's element by `new` if it equals `compare`, and writes its old value to
    /// `result` (`MPI_Compare_and_swap`).
    ///
    /// # Errors
    /// The errors of [`Window::put`].
    ///
    /// # Safety
    /// The buffers hold one element of the target's datatype, which is an integer, a logical or a
    /// byte; `result` is not used before the call is complete.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        process: &Process,
        new: *const u8,
        compare: *const u8,
        result: *mut u8,
        target: Target<'_>,
    ) -> Result<()> {
        let Some(at) = self.begin(process, &target, Completion::Blocking)? else {
            return Ok(());
        };
        let size = target.datatype.size();
        if size > LONGEST_COMPARED {
            return Err(Error::new(
                Class::Type,
                format!(
                    "elements of {size} bytes can't be compared and swapped; use elements of up to \
                     {LONGEST_COMPARED} bytes"
                ),
            ));
        }
        let word = |from: *const u8| {
            let mut bytes = [0; LONGEST_COMPARED];
            // SAFETY: the buffers hold an element by this function's contract, and `size` is at
            // most `LONGEST_COMPARED`.
            unsafe { netmod_kit::copy(from, bytes.as_mut_ptr(), size) };
            u128::from_le_bytes(bytes)
        };
        let call = CompareAndSwap {
            window: self,
            process,
            compare: word(compare),
            new: word(new),
            result,
            target,
            at,
            size,
        };
        // SAFETY: the result's buffer is valid by this function's contract; `begin` has found the
        // target's element within its memory.
        unsafe { self.atomicity()?.compare_and_swap(&call) }
    }
}

fn same_elements(origin: &Origin<'_>, reduction: &Reduction) -> Result<()> {
    match origin.datatype.element() {
        Some(element) if element.kind() == reduction.element.kind() => Ok(()),
        _ => Err(Error::new(
            Class::Type,
            format!(
                "the target's elements are {}, but the origin's are not; use the same predefined \
                 datatype on both sides",
                reduction.element.name()
            ),
        )),
    }
}
