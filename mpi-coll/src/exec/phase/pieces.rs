//! Long data by pieces: each is told of when it is there, so that who waits for it copies one while the next is stored.
//!
//! Between cores that share no near cache both copies take about as long as what they wait for, lines of the other's, and so
//! much of their time is had back (docs/decisions/long-messages.md). Who tells of no pieces is understood, too: all is there
//! when the slot's flag is up.

use super::flags::Phase;
use crate::slots::nearness;
use crate::slots::shared::{PIECE, SharedSlots};

/// Data of so many bytes may go by pieces.
pub(super) const LEAST: usize = 2 * PIECE;

impl Phase<'_> {
    /// As [`Phase::store`] of [`LEAST`] bytes or more, which may go by pieces.
    ///
    /// # Safety
    /// As there; nothing else is stored in this phase.
    #[inline(never)]
    pub unsafe fn store_pieces(&self, from: *const u8, to: *mut u8, len: usize) {
        let shared = self.at.way.shared;
        // SAFETY: the caller's contract; the rest is told of by the slot's flag.
        unsafe {
            let told = match netmod_kit::keeps_stores_cached() && shared.nearness.is_far() {
                true => store(shared, self.at.number, from, to, len),
                false => 0,
            };
            self.store(from.add(told), to.add(told), len - told);
        }
    }

    /// Copies what rank `of` tells of by pieces, of `len` bytes at `offset` of its slot, as far as they come soon. Returns how
    /// many bytes that were. The slot's flag is to be waited for then.
    ///
    /// # Safety
    /// `len` bytes are writable at `to`.
    #[inline(never)]
    pub unsafe fn take_pieces(&self, of: u32, offset: isize, to: *mut u8, len: usize) -> usize {
        let at = &self.at;
        let flag = at.flags.of(of);
        let from = || self.places(offset).of(of).cast_const();
        let has_come = |piece: usize| {
            let told = at.way.shared.piece_flag(of, at.number, piece);
            for _ in 0..=at.way.process.flag_polls() {
                if told.is(at.number) {
                    return true;
                }
                if flag.is(at.flag) {
                    return false;
                }
                std::hint::spin_loop();
            }
            false
        };
        // SAFETY: the caller's contract.
        unsafe { take(has_come, from, to, len) }
    }
}

/// Stores all but the last piece of the data of phase `number` in this rank's slot. Returns how many bytes that are.
///
/// # Safety
/// As for [`Phase::store_pieces`].
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
        // SAFETY: the caller's contract, for a part of it.
        unsafe { nearness::store(true, from.add(at), to.add(at), PIECE) };
        shared
            .piece_flag(shared.slots.rank, number, piece)
            .raise(number);
    }
    count * PIECE
}

/// Copies all but the last piece of data, up to the first that has not come. Returns how many bytes that are. Where it lies is
/// known only when a piece has come.
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
        // SAFETY: it has come, and is not written again before this rank raises the flag of the next phase; the caller's
        // contract.
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
                    // SAFETY: there is room for so many bytes, and the other has read what was there.
                    unsafe {
                        let told = match call % 3 {
                            0 => 0,
                            _ => store(&one, number, data.as_ptr(), to, len),
                        };
                        to.add(told).copy_from(data.as_ptr().add(told), len - told);
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
                    let told = other.piece_flag(0, number, piece);
                    (0..call % 50).any(|_| told.is(number))
                };
                // SAFETY: there is room for so many bytes; flags say what is there.
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
