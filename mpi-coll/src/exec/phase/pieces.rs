//! Long data in pieces: each piece has a flag, so that the reader copies one while the next is stored.
//!
//! Between cores without a common cache near them, loading lines that the other core wrote takes about
//! as long as either copy. Pieces let both copies overlap (docs/decisions/long-messages.md). A writer
//! that uses no pieces is understood, too: all data is there when the slot's flag is up.

use super::flags::PhaseView;
use crate::slots::nearness;
use crate::slots::shared::{PIECE, SharedSlots};

/// Bytes from which on data may be stored in pieces.
pub(super) const MIN_BYTES: usize = 2 * PIECE;

impl PhaseView<'_> {
    /// Stores [`MIN_BYTES`] bytes or more, in pieces if the readers' caches are far.
    ///
    /// # Safety
    /// That of [`PhaseView::store`]; nothing else is stored in this phase.
    #[cold]
    #[inline(never)]
    pub unsafe fn store_pieces(self, from: *const u8, to: *mut u8, len: usize) {
        let shared = self.node.shared;
        // SAFETY: this function's contract.
        unsafe {
            let stored = match netmod_kit::keeps_stores_cached() && shared.nearness.is_far() {
                true => store(shared, self.number, from, to, len),
                false => 0,
            };
            self.store(from.add(stored), to.add(stored), len - stored);
        }
    }

    /// Copies those pieces of `len` bytes at `offset` of rank `of`'s slot whose flags rise within a few
    /// polls each. Returns their bytes; the rest is there when the slot's flag is up.
    ///
    /// # Safety
    /// `len` bytes are writable at `to`.
    #[cold]
    #[inline(never)]
    pub unsafe fn take_pieces(self, of: u32, offset: isize, to: *mut u8, len: usize) -> usize {
        let flag = self.flags.of(of);
        let from = || self.addresses(offset).of(of).cast_const();
        let has_come = |piece: usize| {
            let piece_flag = self.node.shared.piece_flag(of, self.number, piece);
            for _ in 0..=self.node.process.flag_polls() {
                if piece_flag.is(self.number) {
                    return true;
                }
                if flag.is(self.flag) {
                    return false;
                }
                std::hint::spin_loop();
            }
            false
        };
        // SAFETY: `len` bytes are writable at `to`, by this function's contract.
        unsafe { take(has_come, from, to, len) }
    }
}

/// Stores all but the last piece of the data of phase `number` in this rank's slot. Returns their
/// bytes.
///
/// # Safety
/// That of [`PhaseView::store_pieces`].
unsafe fn store(
    shared: &SharedSlots,
    number: u64,
    from: *const u8,
    to: *mut u8,
    len: usize,
) -> usize {
    let count = len.saturating_sub(1) / PIECE;
    for piece in 0..count {
        let at = piece * PIECE;
        // SAFETY: a part of the data, for which this function's contract holds.
        unsafe { nearness::store(true, from.add(at), to.add(at), PIECE) };
        shared
            .piece_flag(shared.slots.rank, number, piece)
            .raise(number);
    }
    count * PIECE
}

/// Copies the pieces of data, but for the last, up to the first that has not come. Returns their
/// bytes. `from` may be called only when a piece has come: the slot's address depends on it.
///
/// # Safety
/// `len` bytes are writable at `to`, and pieces that have come are readable.
unsafe fn take(
    has_come: impl Fn(usize) -> bool,
    from: impl Fn() -> *const u8,
    to: *mut u8,
    len: usize,
) -> usize {
    let count = len.saturating_sub(1) / PIECE;
    for piece in 0..count {
        let at = piece * PIECE;
        if !has_come(piece) {
            return at;
        }
        // SAFETY: the piece has come, and is not written again before this rank raises the flag of the
        // next phase; `to` is writable, by this function's contract.
        unsafe { netmod_kit::copy(from().add(at), to.add(at), PIECE) };
    }
    count * PIECE
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::agreement::signature::CallSignature;
    use crate::slots::shared::{DEPTHS, Ring, tests::two};

    const ROOM: usize = 4 * PIECE;
    const CALLS: u64 = 20_000;

    fn len(call: u64) -> usize {
        [1, PIECE, PIECE + 1, 2 * PIECE, ROOM - 1, ROOM][call as usize % 6]
    }

    fn byte(call: u64, at: usize) -> u8 {
        (call as usize * 7 + at / 100) as u8
    }

    /// One rank stores, by pieces or not, and the other takes what has come, at any time.
    #[test]
    fn pieces_that_have_come_are_those_of_the_phase() {
        let (room, depth) = (ROOM, DEPTHS.0);
        let [one, other] = two(Ring {
            room,
            depth,
            data_slots: depth,
        });
        let signature = CallSignature::from_word(7);
        let up = |slots: &SharedSlots, of: u32, number: u64| {
            use mpi_sched::run::Flag;
            while !matches!(slots.is_up(of, number, 100, Some(signature)), Flag::Up) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for call in 0..CALLS {
                    let number = one.take(1);
                    // Not more than the slots allow, and now and then as much.
                    let before = number.wrapping_sub(u64::from(depth) - 2);
                    if call >= u64::from(depth) {
                        up(&one, 1, before);
                    }
                    let (len, to) = (len(call), one.place(0, number, 64));
                    let data: Vec<u8> = (0..len).map(|at| byte(call, at)).collect();
                    // SAFETY: the slot has `len` bytes, and the other rank has read its earlier content.
                    unsafe {
                        let stored = match call % 3 {
                            0 => 0,
                            _ => store(&one, number, data.as_ptr(), to, len),
                        };
                        to.add(stored)
                            .copy_from(data.as_ptr().add(stored), len - stored);
                    }
                    one.raise(number, signature);
                }
            });
            let mut by_pieces = 0;
            for call in 0..CALLS {
                let number = other.take(1);
                let len = len(call);
                let mut data = vec![0; len];
                let from = || other.place(0, number, 64).cast_const();
                let has_come = |piece: usize| {
                    let flag = other.piece_flag(0, number, piece);
                    (0..call % 50).any(|_| flag.is(number))
                };
                // SAFETY: `data` has `len` bytes; pieces are read only when their flags are up.
                unsafe {
                    let done = take(has_come, from, data.as_mut_ptr(), len);
                    by_pieces += usize::from(done > 0);
                    up(&other, 0, number);
                    data.as_mut_ptr()
                        .add(done)
                        .copy_from(from().add(done), len - done);
                }
                for (at, found) in data.iter().enumerate() {
                    assert_eq!(*found, byte(call, at), "{call} {at}");
                }
                other.raise(number, signature);
            }
            assert!(by_pieces > 0);
        });
    }
}
