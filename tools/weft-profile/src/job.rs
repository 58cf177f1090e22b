//! How rank 0 comes to know of all.

use std::ffi::c_int;

use crate::abi::Abi;
use crate::clock;
use crate::pmpi::{self, Handle};

/// The tag of this library's messages, on a communicator of its own.
const TAG: c_int = 1;
/// Questions about a rank's clock; the quickest answer counts.
const QUESTIONS: usize = 20;

/// The processes that end together. Errors of MPI go to the error handler of the communicator, which
/// ends the job: then the job is broken anyhow.
pub struct Job {
    abi: Abi,
    comm: Handle,
    /// The number of this process.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
}

impl Job {
    /// All of them call this together.
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

    /// All processes' numbers, one process after the other, at rank 0.
    pub fn gather(&self, own: &[u64]) -> Vec<u64> {
        let ranks = if self.rank == 0 { self.size } else { 0 };
        let mut all = vec![0; own.len() * ranks];
        pmpi::gather(own, &mut all, self.abi.byte, self.comm);
        all
    }

    /// Sends to a process.
    pub fn send(&self, bytes: &[u8], to: usize) {
        pmpi::send(bytes, self.abi.byte, to, TAG, self.comm);
    }

    /// Fills the place with what a process sends.
    pub fn receive(&self, place: &mut [u8], from: usize) {
        let (byte, ignore) = (self.abi.byte, self.abi.status_ignore);
        pmpi::recv(place, byte, from, TAG, self.comm, ignore);
    }

    /// How much the clock of process `of` is ahead of that of rank 0, in nanoseconds; both call it. Rank
    /// 0 gets the answer; smaller differences than the messages' own time are none.
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
