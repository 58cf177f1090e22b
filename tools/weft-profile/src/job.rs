//! Communication of the results to rank 0.

use std::ffi::c_int;

use crate::abi::Abi;
use crate::clock;
use crate::pmpi::{self, Handle};

/// The tag of this library's messages, on a communicator of its own.
const TAG: c_int = 1;
/// Round trips per comparison of clocks; the shortest one counts.
const QUESTIONS: usize = 20;

/// A communicator of all ranks. The default error handler applies: an error here aborts the job.
pub struct Job {
    abi: Abi,
    comm: Handle,
    /// The rank of this process.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
}

impl Job {
    /// Creates the communicator; all ranks call it.
    pub fn new() -> Job {
        let abi = Abi::get();
        let comm = pmpi::comm_dup(abi.world);
        Job {
            abi,
            comm,
            rank: pmpi::comm_rank(comm),
            size: pmpi::comm_size(comm),
        }
    }

    /// Gathers the numbers of all ranks at rank 0, in the order of ranks.
    pub fn gather(&self, own: &[u64]) -> Vec<u64> {
        let ranks = if self.rank == 0 { self.size } else { 0 };
        let mut all = vec![0; own.len() * ranks];
        pmpi::gather(own, &mut all, self.abi.byte, self.comm);
        all
    }

    /// Sends bytes to a rank.
    pub fn send(&self, bytes: &[u8], to: usize) {
        pmpi::send(bytes, self.abi.byte, to, TAG, self.comm);
    }

    /// Receives bytes from a rank.
    pub fn receive(&self, place: &mut [u8], from: usize) {
        let (byte, ignore) = (self.abi.byte, self.abi.status_ignore);
        pmpi::recv(place, byte, from, TAG, self.comm, ignore);
    }

    /// Measures by how many nanoseconds the clock of rank `of` is ahead of rank 0's; both ranks
    /// call it.
    ///
    /// Rank 0 gets the result, other ranks 0. Differences below the round-trip time count as 0.
    pub fn clock_of(&self, of: usize) -> i64 {
        if self.rank == of {
            for _ in 0..QUESTIONS {
                self.receive(&mut [0; 8], 0);
                self.send(&clock::nanoseconds().to_ne_bytes(), 0);
            }
            return 0;
        }
        let mut best = (u64::MAX, 0);
        for _ in 0..QUESTIONS {
            let mut answer = [0; 8];
            let asked = clock::nanoseconds();
            self.send(&[0; 8], of);
            self.receive(&mut answer, of);
            let took = clock::nanoseconds() - asked;
            let there = u64::from_ne_bytes(answer) as i64;
            best = best.min((took, there - (asked + took / 2) as i64));
        }
        if best.1.unsigned_abs() <= best.0 {
            0
        } else {
            best.1
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        pmpi::comm_free(self.comm);
    }
}
