//! Accumulates in windows on the program's own memory, within a node: all of them under the target's lock.

use crate::copied::deferred::{Deferred, SmallAccess};
use crate::window::accumulate::{Accumulate, Atomicity, CompareAndSwap, CopiedDomain};
use crate::window::apply::{self, LONGEST_COMPARED};
use crate::window::buffers::{Completion, ResultBuffer, skip};
use crate::window::members::{Copied, Mapped, Route};
use crate::window::not_on_node;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

impl Atomicity for CopiedDomain<'_> {
    unsafe fn accumulate(self, call: &Accumulate<'_>) -> Result<Option<RequestId>> {
        let Accumulate { origin, target, .. } = call;
        // SAFETY: the origin's buffer is readable by this function's contract.
        let input = origin.as_ref().map(|origin| unsafe { origin.packed() });
        let mut result = ResultBuffer::new(call.result);
        let output = result.as_mut_ptr();
        let route = call.window.members.get(target.rank).route;
        if let Route::Copied(_) = route {
            let input = input.as_deref().unwrap_or_default();
            // SAFETY: the result's buffer is writable by this function's contract.
            if unsafe { offer(call, input)? } {
                return Ok(None);
            }
            call.window.settle_before(call.process, target.rank)?;
        }
        let input = input
            .as_ref()
            .map_or(std::ptr::null(), |data| data.as_ptr());
        // SAFETY: input and output hold all elements (`Window::accumulate` has compared the
        // lengths); the target's data lies within its memory, by this function's contract.
        unsafe { self.reduce(call, route, input, output)? };
        // SAFETY: the result's buffer is writable by this function's contract.
        unsafe { result.unpack() };
        Ok(None)
    }

    unsafe fn compare_and_swap(self, call: &CompareAndSwap<'_>) -> Result<()> {
        let CompareAndSwap {
            compare, new, size, ..
        } = *call;
        let (CopiedDomain(control), rank) = (self, call.target.rank);
        let found = match call.window.members.get(rank).route {
            Route::Mapped(Mapped(here)) => {
                let place = here.wrapping_offset(call.at as isize);
                // SAFETY: an element of this process's memory, by this function's contract; all
                // members change it only under its lock.
                control.with_busy(rank as usize, || unsafe {
                    apply::compare_and_swap(place, compare, new, size, false)
                })
            }
            Route::Copied(Copied(start)) => {
                // SAFETY: the result's buffer is writable by this function's contract.
                if unsafe { offer_swap(call)? } {
                    return Ok(());
                }
                let place = (rank, start.wrapping_add(call.at as u64));
                // SAFETY: the element lies in the target's memory, by this function's contract.
                unsafe {
                    call.window
                        .swap_by_kernel(call.process, place, [compare, new], size)?
                }
            }
            Route::Network(_) | Route::Messages(_) => return Err(not_on_node(rank)),
        };
        // SAFETY: the result's buffer is writable by this function's contract.
        unsafe { call.write_result(found) };
        Ok(())
    }
}

impl CopiedDomain<'_> {
    /// Reduces elements in this process's memory, or by CMA copies in another's.
    ///
    /// # Safety
    /// `input` and `output` are NULL or hold all elements in packed form; the target's data lies
    /// within its memory.
    unsafe fn reduce(
        &self,
        call: &Accumulate<'_>,
        route: Route,
        input: *const u8,
        output: *mut u8,
    ) -> Result<()> {
        let Accumulate {
            target, reduction, ..
        } = call;
        let (control, member) = (self.0, target.rank as usize);
        let mut done = 0;
        for &(at, count) in &*apply::runs(target.datatype, target.count, call.at, reduction) {
            let (input, output) = (skip(input, done), skip(output, done).cast_mut());
            match route {
                Route::Mapped(Mapped(here)) => {
                    let place = here.wrapping_offset(at as isize);
                    // SAFETY: all hold `count` elements by this function's contract; all members
                    // change them only under the target's lock.
                    control.with_busy(member, || unsafe {
                        reduction.apply_exclusive(place, count, input, output);
                    });
                }
                Route::Copied(Copied(start)) => {
                    let place = (target.rank, start.wrapping_add(at as u64));
                    // SAFETY: all hold `count` elements by this function's contract.
                    unsafe {
                        let (window, process) = (call.window, call.process);
                        window.reduce_by_kernel(
                            process,
                            place,
                            reduction,
                            count,
                            (input, output),
                        )?;
                    }
                }
                Route::Network(_) | Route::Messages(_) => return Err(not_on_node(target.rank)),
            }
            done += count * reduction.packed();
        }
        Ok(())
    }
}

/// Offers an accumulate to its target, if its elements have no gaps and the result is contiguous.
/// Returns whether the target has carried it out, or will.
///
/// # Safety
/// The result's buffer is writable, and not used before the call is complete.
unsafe fn offer(call: &Accumulate<'_>, input: &[u8]) -> Result<bool> {
    let Accumulate {
        target, reduction, ..
    } = call;
    let output = match &call.result {
        None => Some((std::ptr::null_mut(), 0)),
        Some(result) => result.contiguous().map(|data| (data, result.len())),
    };
    let gapless = reduction.packed() == reduction.extent();
    let Some(output) = output.filter(|_| gapless && target.datatype.as_predefined().is_some())
    else {
        return Ok(false);
    };
    let access = Deferred {
        what: SmallAccess::Accumulate(reduction.op, reduction.element as u8),
        at: call.at,
        input,
        output,
    };
    // SAFETY: the result's buffer is writable, and not used before the call is complete (# Safety).
    unsafe {
        call.window
            .offer(call.process, target, access, call.completion)
    }
}

/// Offers a compare-and-swap to its target. Returns whether the target has carried it out, or will.
///
/// # Safety
/// The result's buffer is writable, and not used before the call is complete.
unsafe fn offer_swap(call: &CompareAndSwap<'_>) -> Result<bool> {
    let mut both = [0u8; 2 * LONGEST_COMPARED];
    both[..LONGEST_COMPARED].copy_from_slice(&call.compare.to_le_bytes());
    both[LONGEST_COMPARED..].copy_from_slice(&call.new.to_le_bytes());
    let access = Deferred {
        what: SmallAccess::CompareAndSwap,
        at: call.at,
        input: &both,
        output: (call.result, call.size),
    };
    let completion = Completion::Blocking;
    // SAFETY: the result's buffer is writable, and not used before the call is complete (# Safety).
    unsafe {
        call.window
            .offer(call.process, &call.target, access, completion)
    }
}
