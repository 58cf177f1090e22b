//! Accesses to created windows that are left to the target, unless they are long, until an epoch ends or they are flushed.
//!
//! The kernel copies such memory without its owner's help, but a system call takes longer than some words through shared
//! memory and back. So an origin publishes what it wants in the ring to its target (`rings.rs`), and goes on. Whenever the
//! target is in the library, waiting for something, it carries out what it finds in rings. What ends an epoch waits until that
//! has been done: for as long as somebody who is there takes. Then the origin takes back what the target has not taken, and
//! has the kernel do it. Nothing depends on the target: one that computes holds nobody up.
//!
//! Accumulates are made under the target's lock by both, so both ways are one domain, and in the order in which they were
//! begun: before one that goes another way, those that were left are completed.

use mpi_core::process::Process;
use mpi_types::error::Result;

use crate::copied::outbox::{Outbox, RequestPath};
use crate::copied::request_slot::{self, SmallAccess};
use crate::copied::rings::mapped::Mapped;
use crate::copied::rings::published::{Entry, Published, Side};
use crate::copied::rings::{PIECE, Ring, Wish, kind};
use crate::copied::target_requests;
use crate::epochs::sync_error;
use crate::window::Window;
use crate::window::apply::{LONGEST_COMPARED, Reduction};
use crate::window::buffers::{Completion, Target};
use crate::window::members::{Copied, Route};
use crate::window::registry::Windows;

/// So often an origin looks whether more of what it has left is done: about as long as the kernel would take, or, where the
/// target is about to come to the end of the epoch, longer.
const LOOKS: u32 = 100;
const LOOKS_WHERE_TARGETS_COME: u32 = 1000;

/// Before it leaves so many bytes, or one more of so many accesses, an origin looks into its own rings: who has left something
/// there waits no longer than this takes.
const LOOKS_FIRST: usize = 512;
const LOOKS_EVERY: usize = 16;

/// Whether a target comes to the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comes {
    /// It does, to end its side of the epoch.
    Surely,
    /// It may be computing.
    Perhaps,
}

/// An access to leave.
pub(crate) struct Deferred<'a> {
    pub what: SmallAccess,
    /// Where in the target's memory.
    pub at: i64,
    pub input: &'a [u8],
    /// Where what was there goes, and how many bytes; NULL for nothing.
    pub output: (*mut u8, usize),
}

/// Keeps the first error.
fn keep_first(result: &mut Result<()>, next: Result<()>) {
    if result.is_ok() {
        *result = next;
    }
}

impl Window {
    /// Offers a small access to one block to the target, by the path that the window has. Returns
    /// whether the target has carried it out, or will.
    ///
    /// # Errors
    /// Those of accesses that were left before, where these had to be completed first.
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
        match &self.requests {
            // SAFETY: this function has the same contract.
            RequestPath::Rings(outbox) => unsafe {
                self.defer(process, outbox, target, access, completion)
            },
            // SAFETY: this function has the same contract.
            RequestPath::Slots => unsafe { self.ask_slot(process, target, access) },
            RequestPath::None => Ok(false),
        }
    }

    /// # Safety
    /// That of [`Window::offer`].
    unsafe fn defer(
        &self,
        process: &Process,
        outbox: &Outbox,
        target: &Target<'_>,
        access: Deferred<'_>,
        completion: Completion,
    ) -> Result<bool> {
        let accumulates = !matches!(access.what, SmallAccess::Put | SmallAccess::Get);
        // SAFETY: this function has the same contract.
        let left = unsafe { self.leave(process, outbox, target, &access)? };
        if !left && accumulates {
            self.settle_before(process, target.rank)?;
        }
        if left && completion == Completion::Request {
            self.settle(process, Some(target.rank), Comes::Perhaps)?;
        }
        Ok(left)
    }

    /// Asks for an access by the target's request slot. Returns whether it has been carried out.
    ///
    /// # Safety
    /// The output is writable.
    unsafe fn ask_slot(
        &self,
        process: &Process,
        target: &Target<'_>,
        access: Deferred<'_>,
    ) -> Result<bool> {
        let Some((skip, len)) = target.datatype.as_run(target.count) else {
            return Ok(false);
        };
        let (output, output_len) = access.output;
        if len > request_slot::ROOM || output_len > request_slot::ROOM {
            return Ok(false);
        }
        let count = match access.what {
            SmallAccess::Accumulate(..) => target.count,
            _ => len,
        };
        let output = match output.is_null() {
            true => &mut [],
            // SAFETY: the output is writable, by this function's contract.
            false => unsafe { std::slice::from_raw_parts_mut(output, output_len) },
        };
        let windows = process.source::<Windows>();
        Ok(target_requests::ask(
            self.control()?,
            &self.hit_rate,
            target.rank as usize,
            access.what,
            ((access.at + skip as i64) as u64, count),
            access.input,
            output,
            || windows.serve_slots(),
        ))
    }

    /// The accesses left to targets, if the window has rings.
    #[inline]
    pub(crate) fn outbox(&self) -> Option<&Outbox> {
        match &self.requests {
            RequestPath::Rings(outbox) => Some(outbox),
            RequestPath::Slots | RequestPath::None => None,
        }
    }

    /// Completes what was left to a target before an accumulate that goes another way, which would overtake it.
    pub(crate) fn settle_before(&self, process: &Process, target: u32) -> Result<()> {
        match self.outbox() {
            Some(outbox) if outbox.has_left(target) => {
                self.settle(process, Some(target), Comes::Perhaps)
            }
            _ => Ok(()),
        }
    }

    /// # Safety
    /// That of [`Window::offer`].
    unsafe fn leave(
        &self,
        process: &Process,
        outbox: &Outbox,
        target: &Target<'_>,
        access: &Deferred<'_>,
    ) -> Result<bool> {
        let Some((skip, len)) = target.datatype.as_run(target.count) else {
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
        // Elements, each of so many bytes.
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
        let wish = |from: usize, count: usize, len: usize| Wish {
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
            let mut push = |wish: Wish, input: &[u8], output| {
                if usize::from(wish.len) >= LOOKS_FIRST
                    || published.len() % LOOKS_EVERY == LOOKS_EVERY - 1
                {
                    windows.serve_slots();
                }
                // SAFETY: this process is the ring's origin; the input is a slice; the output is writable until the
                // access is complete, by this function's contract.
                while unsafe { !published.push(ring, wish, (input.as_ptr(), input.len()), output) }
                {
                    self.settle_with(process, target.rank, published, Comes::Perhaps)?;
                }
                Ok(())
            };
            let piece = ring.most().min(PIECE);
            if data <= piece {
                return push(wish(0, count, data), input, output);
            }
            let piece = piece / size * size;
            for from in (0..data).step_by(piece) {
                let len = piece.min(data - from);
                let input = input.get(from..from + len).unwrap_or(&[]);
                let output = match output.is_null() {
                    true => output,
                    false => output.wrapping_add(from),
                };
                push(wish(from, len / size, len), input, output)?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Completes what was left to a target, or to all.
    ///
    /// # Errors
    /// A target's memory can't be reached, or it has died.
    #[inline]
    pub(crate) fn settle(
        &self,
        process: &Process,
        target: Option<u32>,
        comes: Comes,
    ) -> Result<()> {
        match self.outbox() {
            Some(outbox) if !outbox.is_empty() => self.settle_some(process, outbox, target, comes),
            _ => Ok(()),
        }
    }

    #[cold]
    fn settle_some(
        &self,
        process: &Process,
        outbox: &Outbox,
        target: Option<u32>,
        comes: Comes,
    ) -> Result<()> {
        outbox.settle(target, |rank, published| {
            self.settle_with(process, rank, published, comes)
        })
    }

    fn settle_with(
        &self,
        process: &Process,
        target: u32,
        published: &mut Published,
        comes: Comes,
    ) -> Result<()> {
        let control = self.control()?;
        let Some(ring) = control.ring(self.rank() as usize, target as usize) else {
            return Ok(());
        };
        let windows = process.source::<Windows>();
        let (mut looks, mut result) = (0u32, Ok(()));
        let most = match comes {
            Comes::Surely => LOOKS_WHERE_TARGETS_COME,
            Comes::Perhaps => LOOKS,
        };
        loop {
            let before = published.len();
            let all = published.end_served(ring, |entry| {
                keep_first(&mut result, self.take_in(process, target, ring, entry));
            });
            if published.len() < before {
                looks = 0;
            }
            if all {
                self.hit_rate.note(true);
                return result;
            }
            looks += 1;
            if looks >= most {
                break;
            }
            // The target may be waiting for this process in the same way, or for its core.
            if !windows.serve_slots() {
                match looks > LOOKS && looks.is_multiple_of(64) {
                    true => process.yield_or_nap(),
                    false => std::hint::spin_loop(),
                }
            }
        }
        if comes == Comes::Perhaps {
            self.hit_rate.note(false);
        }
        published.end_all(
            ring,
            |entry, side| {
                let done = match side {
                    Side::Target => self.take_in(process, target, ring, entry),
                    Side::Origin => {
                        let (wish, data) = (ring.wish(entry.number), ring.data(entry.number));
                        self.do_by_kernel(process, target, wish, data, entry)
                    }
                };
                keep_first(&mut result, done);
            },
            |tries| {
                // The target is at it, but has lost its core.
                std::thread::yield_now();
                match tries.is_multiple_of(1 << 10) && control.is_dead(target as usize) {
                    true => Err(control.failure(process, target as usize)),
                    false => Ok(()),
                }
            },
        )?;
        result
    }

    /// Takes in what came of an entry that the target has served.
    fn take_in(
        &self,
        process: &Process,
        target: u32,
        ring: Ring<Mapped<'_>>,
        entry: Entry,
    ) -> Result<()> {
        let (wish, data) = (ring.wish(entry.number), ring.data(entry.number));
        if wish.refused {
            return self.do_by_kernel(process, target, wish, data, entry);
        }
        if !entry.output.is_null() {
            let len = self.output_len(wish);
            // SAFETY: the program has lent the memory for what it asked for; the data is this process's again.
            unsafe { netmod_kit::copy(data, entry.output, len) };
        }
        Ok(())
    }

    fn output_len(&self, wish: Wish) -> usize {
        match wish.kind {
            kind::COMPARE_AND_SWAP => wish.count as usize,
            _ => wish.len.into(),
        }
    }

    /// Carries out by the kernel's copies what the target has not.
    fn do_by_kernel(
        &self,
        process: &Process,
        target: u32,
        wish: Wish,
        data: *mut u8,
        Entry { output, .. }: Entry,
    ) -> Result<()> {
        let Route::Copied(Copied(start)) = self.members.get(target).route else {
            return Err(sync_error("a target's memory is not where it was"));
        };
        let address = start.wrapping_add(wish.at);
        let len = usize::from(wish.len);
        let copy = |write: bool, local: *mut u8| {
            // SAFETY: the entry's data, or memory that the program has lent; the target's is the window's.
            unsafe { self.copy_by_kernel(process, target, write, (local, len), address) }
        };
        let count = wish.count as usize;
        match wish.kind {
            kind::PUT => copy(true, data),
            kind::GET => copy(false, output),
            kind::ACCUMULATE | kind::GET_ACCUMULATE => {
                let reduction = Reduction::from_numbers(wish.op.into(), wish.element.into());
                let Some(reduction) = reduction else {
                    return Ok(());
                };
                let (place, buffers) = ((target, address), (data.cast_const(), output));
                // SAFETY: the entry has `count` elements, and the program has lent space for as many.
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
                // SAFETY: the program has lent an element's memory.
                unsafe { netmod_kit::copy(found.to_le_bytes().as_ptr(), output, count) };
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
