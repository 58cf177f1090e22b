//! Whether long data goes between ranks of this node more quickly by one copy of the kernel's than by two through slots.
//!
//! That depends on what the kernel's copy costs, and on how quickly one core fetches what another has written: on some
//! processors one copy of 64 KiB takes half as long as two, on others twice. So it is measured, when a communicator of the
//! process gets slots for the first time, and all members of a communicator go by what all of them have found.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use netmod::SharedMemory;

use super::exchange::gather_all_u64;
use super::nearness::store;
use super::setup::common_piece;
use mpi_core::comm::{Comm, single_copy};
use mpi_core::error::Result;
use mpi_core::process::Process;

/// Bytes of a copy that is timed, and how many are: the quickest counts.
const LEN: usize = 64 << 10;
const TIMES: usize = 3;
const ALL: usize = LEN * TIMES;

/// What a process has found.
#[derive(Default)]
pub(super) struct Copying(AtomicU8);

/// What is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Found {
    /// Nothing yet.
    Nothing = 0,
    /// Two copies are quicker, or it can't be found out.
    Two = 1,
    /// One is.
    One = 2,
}

impl Copying {
    pub fn found(&self) -> Found {
        match self.0.load(Ordering::Relaxed) {
            0 => Found::Nothing,
            2 => Found::One,
            _ => Found::Two,
        }
    }

    fn set(&self, found: Found) {
        self.0.store(found as u8, Ordering::Relaxed);
    }
}

/// Finds it out. All members of the communicator call this, share a node, and can read each other's memory.
pub(super) fn measure(
    process: &Process,
    comm: &Comm,
    memory: &dyn SharedMemory,
    copying: &Copying,
) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let next = (rank + 1) % size;
    let (mut own, mut taken) = (vec![0; ALL], vec![1; ALL]);
    let piece = common_piece(process, comm, memory, ALL)?;
    let own_at = own.as_ptr().expose_provenance() as u64;
    let told = gather_all_u64(process, comm, [own_at, u64::from(piece.is_some())])?;
    let is_possible = told.iter().all(|member| member[1] != 0);
    let (Some(piece), true) = (piece, is_possible) else {
        copying.set(Found::Two);
        return Ok(());
    };
    let (mut works, mut one) = (true, u64::MAX);
    // The first time is that of cold memory.
    for is_warm in [false, true] {
        // Written, so that it lies in this core's cache and in no other's.
        own.fill(u8::from(is_warm));
        gather_all_u64(process, comm, [0])?;
        let reading = quickest(|at| {
            let to = taken[at..at + LEN].as_mut_ptr();
            let from = told[next as usize][0] + at as u64;
            // SAFETY: `LEN` bytes of a vector; the member keeps its own, and writes there when all have come together.
            works &=
                unsafe { single_copy::copy(process, comm, next, false, to, LEN, from) }.is_ok();
        });
        if is_warm {
            one = reading;
        }
        gather_all_u64(process, comm, [0])?;
    }
    let mut two = u64::MAX;
    for far in [false, true] {
        // The second time each line has been read by the one and is written by the other, as with slots in use.
        for is_warm in [false, true] {
            let place = |of: u32, at: usize| piece.as_ptr().wrapping_add(of as usize * ALL + at);
            gather_all_u64(process, comm, [0])?;
            let writing = quickest(|at| {
                // SAFETY: this rank's part of the piece, which nobody reads before all have come together; the other is a
                // vector as long.
                unsafe { store(far, own[at..at + LEN].as_ptr(), place(rank, at), LEN) };
            });
            gather_all_u64(process, comm, [0])?;
            let reading = quickest(|at| {
                // SAFETY: the next rank's part, which it has written and leaves alone until all have come together again.
                unsafe { netmod_kit::copy(place(next, at), taken[at..at + LEN].as_mut_ptr(), LEN) };
            });
            if is_warm {
                two = two.min(writing + reading);
            }
        }
    }
    // Nobody unmaps or frees what others still read.
    gather_all_u64(process, comm, [0])?;
    piece.settle();
    std::hint::black_box(&taken);
    copying.set(match works && is_worth_it(one, two) {
        true => Found::One,
        false => Found::Two,
    });
    Ok(())
}

/// Whether one copy is so much quicker that what else it costs, a word from all that they have read, doesn't matter.
fn is_worth_it(one: u64, two: u64) -> bool {
    one + one / 4 < two
}

/// The time of the quickest of some copies in nanoseconds, each of its own part of the memory.
fn quickest(mut copy: impl FnMut(usize)) -> u64 {
    let time = |at: usize| {
        let begun = Instant::now();
        copy(at);
        begun.elapsed().as_nanos() as u64
    };
    (0..ALL).step_by(LEN).map(time).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_kept() {
        let copying = Copying::default();
        assert_eq!(copying.found(), Found::Nothing);
        for found in [Found::One, Found::Two] {
            copying.set(found);
            assert_eq!(copying.found(), found);
        }
    }

    #[test]
    fn one_copy_must_be_quicker_by_a_quarter() {
        assert!(is_worth_it(3000, 4000) && !is_worth_it(3300, 4000) && !is_worth_it(0, 0));
    }

    #[test]
    fn the_quickest_copy_counts_and_all_parts_are_copied() {
        let mut parts = Vec::new();
        let time = quickest(|at| {
            parts.push(at);
            if at != LEN {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        assert_eq!(parts, [0, LEN, 2 * LEN]);
        assert!(time < 20_000_000, "{time}");
    }
}
