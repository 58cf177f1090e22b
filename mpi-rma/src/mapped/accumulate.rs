//! Accumulates in windows whose members' memory is mapped in all of them.

use crate::locks::control::{CHUNK, Control};
use crate::window::accumulate::{Accumulate, Atomicity, CompareAndSwap, MappedDomain};
use crate::window::apply::{self, Reduction};
use crate::window::buffers::{ResultBuffer, Target, skip};
use crate::window::runs::Run;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;
use mpi_types::op::PredefinedOp;

impl Atomicity for MappedDomain<'_> {
    unsafe fn accumulate(self, call: &Accumulate<'_>) -> Result<Option<RequestId>> {
        let Accumulate { origin, target, .. } = call;
        let here = call.window.mapped_memory(target.rank)?;
        // SAFETY: the origin's buffer is readable by this function's contract.
        let input = origin.as_ref().map(|origin| unsafe { origin.packed() });
        let input = input
            .as_ref()
            .map_or(std::ptr::null(), |data| data.as_ptr());
        let mut result = ResultBuffer::new(call.result);
        let output = result.as_mut_ptr();
        if is_scattered(target, &call.reduction) {
            // SAFETY: input and output hold all elements (`Window::accumulate` has compared the
            // lengths); the target's data lies within its memory, by this function's contract.
            unsafe { self.reduce_scattered(call, here, input, output) };
        } else {
            let runs = apply::runs(target.datatype, target.count, call.at, &call.reduction);
            // SAFETY: as for `reduce_scattered`; `runs` are the blocks of the target's data.
            unsafe { self.reduce_blocks(call, here, &runs, input, output) };
        }
        // SAFETY: the result's buffer is writable by this function's contract.
        unsafe { result.unpack() };
        Ok(None)
    }

    unsafe fn compare_and_swap(self, call: &CompareAndSwap<'_>) -> Result<()> {
        let CompareAndSwap {
            compare, new, size, ..
        } = *call;
        let (MappedDomain(control), member) = (self, call.target.rank as usize);
        let here = call.window.mapped_memory(call.target.rank)?;
        let place = here.wrapping_offset(call.at as isize);
        let found = if size <= 8 && place.addr() & (size - 1) == 0 {
            // SAFETY: an aligned element of the target's memory, by this function's contract; all
            // members change such elements by the processor's atomic operations only.
            control.with_atomics(member, control.me(), || unsafe {
                apply::compare_and_swap(place, compare, new, size, true)
            })
        } else {
            // SAFETY: an element of the target's memory, by this function's contract; all members
            // change such elements only under the target's lock.
            control.with_busy(member, || unsafe {
                apply::compare_and_swap(place, compare, new, size, false)
            })
        };
        // SAFETY: the result's buffer is writable by this function's contract.
        unsafe { call.write_result(found) };
        Ok(())
    }
}

impl MappedDomain<'_> {
    /// Reduces blocks of elements.
    ///
    /// # Safety
    /// `input` and `output` are NULL or hold all elements in packed form; the blocks lie in the
    /// target's memory, which begins at `here`.
    unsafe fn reduce_blocks(
        &self,
        call: &Accumulate<'_>,
        here: *mut u8,
        runs: &[Run],
        input: *const u8,
        output: *mut u8,
    ) {
        /// Blocks that are reduced before other members are let in.
        const BLOCKS_PER_HOLD: usize = 256;
        let (control, member) = (self.0, call.target.rank as usize);
        let reduction = &call.reduction;
        let mut done = 0;
        for some in runs.chunks(BLOCKS_PER_HOLD) {
            let long = some.iter().any(|run| run.1 * reduction.extent() > CHUNK);
            let together = some.len() > 8 && !long;
            let reduce = |exclusive: bool, done: &mut usize| {
                for &(at, count) in some {
                    let place = here.wrapping_offset(at as isize);
                    let (input, output) = (skip(input, *done), skip(output, *done).cast_mut());
                    // SAFETY: the block, and the buffers from `done` on, hold `count` elements by
                    // the contract of `reduce_blocks`. If `exclusive`, other members are kept out.
                    unsafe {
                        match exclusive {
                            true => reduction.apply_exclusive(place, count, input, output),
                            false => reduce_block(
                                control,
                                reduction,
                                member,
                                place,
                                count,
                                (input, output),
                            ),
                        }
                    }
                    *done += count * reduction.packed();
                }
            };
            if together {
                // Many short blocks, native or not: one lock for all.
                control.with_exclusive(member, || reduce(true, &mut done));
                control.give_way(member);
            } else {
                reduce(false, &mut done);
            }
        }
    }

    /// Reduces elements that lie apart.
    ///
    /// Collects them, reduces them as one block and puts them back, with the other members kept
    /// out.
    ///
    /// # Safety
    /// That of [`MappedDomain::reduce_blocks`], for the target's data.
    unsafe fn reduce_scattered(
        &self,
        call: &Accumulate<'_>,
        here: *mut u8,
        input: *const u8,
        output: *mut u8,
    ) {
        let (control, member) = (self.0, call.target.rank as usize);
        let Accumulate {
            target, reduction, ..
        } = call;
        let place = here.wrapping_offset(call.at as isize);
        let size = reduction.packed();
        let (len, piece) = (target.len(), CHUNK / size * size);
        let mut elements = vec![0u8; piece.min(len)];
        let mut done = 0;
        while done < len {
            let now = piece.min(len - done);
            let elements = &mut elements[..now];
            let (input, output) = (skip(input, done), skip(output, done).cast_mut());
            // SAFETY: the target's data lies within its memory, and the buffers hold the elements
            // from `done` on, by this function's contract; `with_exclusive` keeps other members
            // out. Gaps between the elements are not written to.
            control.with_exclusive(member, || unsafe {
                target.datatype.pack(place, target.count, done, elements);
                reduction.apply_exclusive(elements.as_mut_ptr(), now / size, input, output);
                if reduction.op != PredefinedOp::NoOp {
                    target.datatype.unpack(place, target.count, done, elements);
                }
            });
            done += now;
            if done < len {
                control.give_way(member);
            }
        }
    }
}

/// Reduces a block of elements.
///
/// Few elements that the processor can change atomically are changed one by one, and many with the
/// other members kept out (see [`crate::locks::control`]); all others only under the target's lock.
///
/// # Safety
/// `place` is in the target's memory and holds `count` elements; the buffers are NULL or hold as
/// many in packed form.
unsafe fn reduce_block(
    control: &Control,
    reduction: &Reduction,
    member: usize,
    place: *mut u8,
    count: usize,
    (input, output): (*const u8, *mut u8),
) {
    if !reduction.is_native(place) {
        // SAFETY: all hold `count` elements by this function's contract; all members change such
        // elements only under the target's lock.
        control.with_busy(member, || unsafe {
            reduction.apply_exclusive(place, count, input, output);
        });
        return;
    }
    // Exclusive access costs a look at a word of each member.
    if count <= 8 + control.members() / 2 {
        // SAFETY: the elements are native, and all hold `count` by this function's contract;
        // exclusive holders wait for `with_atomics` to end.
        control.with_atomics(member, control.me(), || unsafe {
            reduction.apply_atomic(place, count, input, output);
        });
        return;
    }
    let piece = (CHUNK / reduction.packed()).max(1);
    let mut done = 0;
    while done < count {
        let now = piece.min(count - done);
        let bytes = done * reduction.packed();
        let place = place.wrapping_add(bytes);
        let (input, output) = (skip(input, bytes), skip(output, bytes).cast_mut());
        // SAFETY: all hold `count` elements by this function's contract; `with_exclusive` keeps
        // every other member out.
        control.with_exclusive(member, || unsafe {
            reduction.apply_exclusive(place, now, input, output);
        });
        done += now;
        if done < count {
            control.give_way(member);
        }
    }
}

/// Whether the target has many elements in short blocks.
fn is_scattered(target: &Target<'_>, reduction: &Reduction) -> bool {
    /// Elements up to which each is changed atomically, with no member kept out.
    const MAX_ONE_BY_ONE: usize = 8;
    /// Bytes. Longer blocks are reduced in place.
    const MAX_SHORT: usize = 512;
    let size = reduction.packed();
    let null = std::ptr::null_mut();
    size == reduction.extent()
        && target.len() > MAX_ONE_BY_ONE * size
        && target.datatype.as_block(target.count).is_none()
        && target
            .datatype
            .blocks(null, target.count, 0, 1)
            .next()
            .is_some_and(|(_, len)| len <= MAX_SHORT)
}
