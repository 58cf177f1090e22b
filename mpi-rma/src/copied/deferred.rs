//! Deferred accesses to created windows within a node: requests in rings that the target serves, or
//! that the origin carries out itself at the next flush or end of an epoch.
//!
//! The kernel copies such memory without the target's help, but a system call costs more than a few
//! words through shared memory and back. So an origin publishes short accesses in the ring to their
//! target (`rings.rs`) and continues. A target that makes progress carries out the requests in its
//! rings. A flush waits for as long as a target in the library needs. Then it takes back the requests
//! that the target has not taken, and carries them out by CMA copies. So no access depends on the
//! target: one that computes delays no origin.
//!
//! Both sides accumulate under the target's lock, so both belong to one domain of atomicity. An
//! origin's accumulates keep their order: before one that cannot be deferred, the deferred ones are
//! completed.

use mpi_core::process::Process;
use mpi_types::error::Result;
use mpi_types::op::PredefinedOp;

use crate::copied::outbox::Outbox;
use crate::copied::rings::mapped::Mapped;
use crate::copied::rings::published::{Entry, Published, Side};
use crate::copied::rings::{EntryRequest, PIECE, Ring, kind};
use crate::epochs::sync_error;
use crate::window::Window;
use crate::window::apply::{LONGEST_COMPARED, Reduction};
use crate::window::buffers::{Completion, Target};
use crate::window::members::{Copied, Route};
use crate::window::registry::Windows;

/// Number of fruitless polls of a ring before its requests are taken back: about the time of a CMA
/// copy.
const POLLS: u32 = 100;
/// Number of fruitless polls if the target is about to call the library.
const POLLS_FOR_EXPECTED_TARGET: u32 = 1000;

/// Bytes. An origin serves its own rings before it defers an access of at least this length, so that
/// other origins do not wait for longer than such a copy takes.
const SERVE_BEFORE: usize = 512;
/// Number of deferred accesses after which an origin serves its own rings.
const SERVE_EVERY: usize = 16;

/// Whether the caller knows that the target is about to call the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetProgress {
    /// It is: it ends its side of the epoch.
    Expected,
    /// It may be computing.
    Unknown,
}

/// The operation of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SmallAccess {
    Put,
    Get,
    Accumulate(PredefinedOp, u8),
    /// The data is the compared value and the new value, [`LONGEST_COMPARED`] bytes each.
    CompareAndSwap,
}

/// An access to defer.
pub(crate) struct Deferred<'a> {
    pub what: SmallAccess,
    /// Offset in the target's memory.
    pub at: i64,
    pub input: &'a [u8],
    /// Address and length of the buffer for data that is read; NULL for none.
    pub output: (*mut u8, usize),
}

/// Keeps the first error.
fn keep_first(result: &mut Result<()>, next: Result<()>) {
    if result.is_ok() {
        *result = next;
    }
}

impl Window {
    /// Offers a small access to one block to the target: publishes it in the ring to it, in order
    /// with earlier ones. Returns whether the target will carry it out.
    ///
    /// # Errors
    /// Those of earlier deferred accesses, if these had to be completed first.
    ///
    /// # Safety
    /// The output is writable, and not used before the access is complete.
    pub(crate) unsafe fn offer(
        &self,
        process: &Process,
        target: &Target<'_>,
        access: Deferred<'_>,
        completion: Completion,
    ) -> Result<bool> {
        let Some(outbox) = &self.outbox else {
            return Ok(false);
        };
        let accumulates = !matches!(access.what, SmallAccess::Put | SmallAccess::Get);
        // SAFETY: the output is writable, and not used before the access is complete
        // (`Window::offer`).
        let left = unsafe { self.leave(process, outbox, target, &access)? };
        if !left && accumulates {
            self.settle_before(process, target.rank)?;
        }
        if left && completion == Completion::Request {
            self.settle(process, Some(target.rank), TargetProgress::Unknown)?;
        }
        Ok(left)
    }

    /// Completes the deferred accesses to a target before an accumulate that is not deferred, which
    /// would overtake them.
    pub(crate) fn settle_before(&self, process: &Process, target: u32) -> Result<()> {
        match &self.outbox {
            Some(outbox) if outbox.has_left(target) => {
                self.settle(process, Some(target), TargetProgress::Unknown)
            }
            _ => Ok(()),
        }
    }

    /// Publishes an access in the ring to its target. Returns false if the ring is not usable for it.
    ///
    /// # Safety
    /// That of [`Window::offer`].
    unsafe fn leave(
        &self,
        process: &Process,
        outbox: &Outbox,
        target: &Target<'_>,
        access: &Deferred<'_>,
    ) -> Result<bool> {
        let Some((skip, len)) = target.datatype.as_block(target.count) else {
            return Ok(false);
        };
        let rank = target.rank as usize;
        let Some(ring) = self.control()?.ring(self.rank() as usize, rank) else {
            return Ok(false);
        };
        let (input, (output, out_len)) = (access.input, access.output);
        let data = input.len().max(out_len);
        if data > ring.room() || !self.hit_rate.may_ask() {
            return Ok(false);
        }
        // Bytes of an element.
        let size = match access.what {
            SmallAccess::Accumulate(..) => len.checked_div(target.count).unwrap_or(1).max(1),
            _ => 1,
        };
        let (kind, op, element, count) = match access.what {
            SmallAccess::Put => (kind::PUT, 0, 0, len),
            SmallAccess::Get => (kind::GET, 0, 0, len),
            SmallAccess::Accumulate(op, element) => {
                let kind = match output.is_null() {
                    true => kind::ACCUMULATE,
                    false => kind::GET_ACCUMULATE,
                };
                (kind, op as u8, element, target.count)
            }
            SmallAccess::CompareAndSwap => (kind::COMPARE_AND_SWAP, 0, 0, len),
        };
        let request = |from: usize, count: usize, len: usize| EntryRequest {
            at: (access.at + skip as i64) as u64 + from as u64,
            count: count as u32,
            len: len as u16,
            kind,
            op,
            element,
            refused: false,
        };
        let windows = process.source::<Windows>();
        outbox.leave(target.rank, |published| {
            let mut push = |request: EntryRequest, input: &[u8], output| {
                if usize::from(request.len) >= SERVE_BEFORE
                    || published.len() % SERVE_EVERY == SERVE_EVERY - 1
                {
                    windows.serve_rings();
                }
                // SAFETY: this process is the ring's origin; the input is a slice; the output is
                // writable until the access is complete, by this function's contract.
                while unsafe {
                    !published.push(ring, request, (input.as_ptr(), input.len()), output)
                } {
                    self.settle_with(process, target.rank, published, TargetProgress::Unknown)?;
                }
                Ok(())
            };
            let piece = ring.most().min(PIECE);
            if data <= piece {
                return push(request(0, count, data), input, output);
            }
            let piece = piece / size * size;
            for from in (0..data).step_by(piece) {
                let len = piece.min(data - from);
                let input = input.get(from..from + len).unwrap_or(&[]);
                let output = match output.is_null() {
                    true => output,
                    false => output.wrapping_add(from),
                };
                push(request(from, len / size, len), input, output)?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Completes the deferred accesses to a target, or to all.
    ///
    /// # Errors
    /// A target's memory can't be accessed, or its process has failed.
    #[inline]
    pub(crate) fn settle(
        &self,
        process: &Process,
        target: Option<u32>,
        progress: TargetProgress,
    ) -> Result<()> {
        match &self.outbox {
            Some(outbox) if !outbox.is_empty() => {
                self.settle_some(process, outbox, target, progress)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn settle_some(
        &self,
        process: &Process,
        outbox: &Outbox,
        target: Option<u32>,
        progress: TargetProgress,
    ) -> Result<()> {
        outbox.settle(target, |rank, published| {
            self.settle_with(process, rank, published, progress)
        })
    }

    /// Waits until a target has served its ring, and carries out the requests that it has not taken.
    fn settle_with(
        &self,
        process: &Process,
        target: u32,
        published: &mut Published,
        progress: TargetProgress,
    ) -> Result<()> {
        let control = self.control()?;
        let Some(ring) = control.ring(self.rank() as usize, target as usize) else {
            return Ok(());
        };
        let windows = process.source::<Windows>();
        let (mut polls, mut result) = (0u32, Ok(()));
        let most = match progress {
            TargetProgress::Expected => POLLS_FOR_EXPECTED_TARGET,
            TargetProgress::Unknown => POLLS,
        };
        loop {
            let before = published.len();
            let all = published.end_served(ring, |entry| {
                keep_first(&mut result, self.take_in(process, target, ring, entry));
            });
            if published.len() < before {
                polls = 0;
            }
            if all {
                self.hit_rate.note(true);
                return result;
            }
            polls += 1;
            if polls >= most {
                break;
            }
            // The target may be waiting for this process to serve its rings, or for a core.
            if !windows.serve_rings() {
                match polls > POLLS && polls.is_multiple_of(64) {
                    true => process.yield_or_nap(),
                    false => std::hint::spin_loop(),
                }
            }
        }
        if progress == TargetProgress::Unknown {
            self.hit_rate.note(false);
        }
        published.end_all(
            ring,
            |entry, side| {
                let done = match side {
                    Side::Target => self.take_in(process, target, ring, entry),
                    Side::Origin => {
                        let (request, data) = (ring.request(entry.number), ring.data(entry.number));
                        self.do_by_kernel(process, target, request, data, entry)
                    }
                };
                keep_first(&mut result, done);
            },
            |tries| {
                // The target has taken the request, but does not run at the moment.
                std::thread::yield_now();
                match tries.is_multiple_of(1 << 10) && control.is_dead(target as usize) {
                    true => Err(control.failure(process, target as usize)),
                    false => Ok(()),
                }
            },
        )?;
        result
    }

    /// Completes an entry that the target has served or refused.
    fn take_in(
        &self,
        process: &Process,
        target: u32,
        ring: Ring<Mapped<'_>>,
        entry: Entry,
    ) -> Result<()> {
        let (request, data) = (ring.request(entry.number), ring.data(entry.number));
        if request.refused {
            return self.do_by_kernel(process, target, request, data, entry);
        }
        if !entry.output.is_null() {
            let len = self.output_len(request);
            // SAFETY: `output` is writable until the access is complete (contract of `offer`); a served
            // entry's data belongs to the origin.
            unsafe { netmod_kit::copy(data, entry.output, len) };
        }
        Ok(())
    }

    /// Bytes that a request writes to its output.
    fn output_len(&self, request: EntryRequest) -> usize {
        match request.kind {
            kind::COMPARE_AND_SWAP => request.count as usize,
            _ => request.len.into(),
        }
    }

    /// Carries out a request by CMA copies.
    fn do_by_kernel(
        &self,
        process: &Process,
        target: u32,
        request: EntryRequest,
        data: *mut u8,
        Entry { output, .. }: Entry,
    ) -> Result<()> {
        let Route::Copied(Copied(start)) = self.members.get(target).route else {
            return Err(sync_error(
                "internal error: the target of a deferred access has no mapped address",
            ));
        };
        let address = start.wrapping_add(request.at);
        let len = usize::from(request.len);
        let copy = |write: bool, local: *mut u8| {
            // SAFETY: `local` is the entry's data, or the output, which is valid until the access is
            // complete (contract of `offer`); the origin has checked the target's range.
            unsafe { self.copy_by_kernel(process, target, write, (local, len), address) }
        };
        let count = request.count as usize;
        match request.kind {
            kind::PUT => copy(true, data),
            kind::GET => copy(false, output),
            kind::ACCUMULATE | kind::GET_ACCUMULATE => {
                let reduction = Reduction::from_numbers(request.op.into(), request.element.into());
                let Some(reduction) = reduction else {
                    return Ok(());
                };
                let (place, buffers) = ((target, address), (data.cast_const(), output));
                // SAFETY: the entry and the output (contract of `offer`) have `count` elements each.
                unsafe { self.reduce_by_kernel(process, place, &reduction, count, buffers) }
            }
            kind::COMPARE_AND_SWAP => {
                let mut both = [[0u8; LONGEST_COMPARED]; 2];
                let bytes = both.as_flattened_mut();
                // SAFETY: such an entry holds both values (`offer_swap`).
                unsafe { netmod_kit::copy(data, bytes.as_mut_ptr(), bytes.len()) };
                let (place, both) = ((target, address), both.map(u128::from_le_bytes));
                // SAFETY: the element lies in the window's memory, as the origin has checked.
                let found = unsafe { self.swap_by_kernel(process, place, both, count)? };
                // SAFETY: the output is an element (contract of `offer`).
                unsafe { netmod_kit::copy(found.to_le_bytes().as_ptr(), output, count) };
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
