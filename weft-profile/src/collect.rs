//! From `MPI_Init` to `MPI_Finalize`: what is asked for, and how rank 0 comes to know of all.

use std::env;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::clock::{self, Moment, Scale};
use crate::pmpi::{self, Handle, SUCCESS};
use crate::record::{self, COUNTING, TRACING};
use crate::{pvars, stats, trace};

/// The tag of this library's messages, on a communicator of its own.
const TAG: c_int = 1;
/// Questions about a rank's clock; the quickest answer counts.
const QUESTIONS: usize = 20;

static BEGIN: OnceLock<Moment> = OnceLock::new();

/// Constants that differ between the ABIs.
pub struct Abi {
    world: Handle,
    byte: Handle,
    /// `MPI_UNSIGNED_LONG`.
    pub unsigned_long: Handle,
    status_ignore: Handle,
    /// Classes of performance variables that count up: counter, aggregate.
    pub counters: [c_int; 2],
}

impl Abi {
    fn get() -> Abi {
        match weft_pmpi::is_standard_abi() {
            false => Abi {
                world: 0x4400_0000,
                byte: 0x4c00_010d,
                unsigned_long: 0x4c00_0808,
                status_ignore: 1,
                counters: [246, 247],
            },
            true => Abi {
                world: 0x101,
                byte: 0x247,
                unsigned_long: 0x20e,
                status_ignore: 0,
                counters: [7, 8],
            },
        }
    }
}

/// `MPI_Init` has returned this code.
pub fn begin(code: c_int) {
    let wants =
        |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    if code != SUCCESS || !(wants("WEFT_STATS") || wants("WEFT_TRACE")) || BEGIN.get().is_some() {
        return;
    }
    if wants("WEFT_STATS") {
        pvars::begin(&Abi::get());
    }
    let _ = BEGIN.set(Moment::now());
    TRACING.store(wants("WEFT_TRACE"), Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
}

/// `MPI_Finalize` has been called.
pub fn end() {
    if !COUNTING.swap(false, Ordering::Relaxed) {
        return;
    }
    let Some(begin) = BEGIN.get() else { return };
    let scale = Scale::between(*begin, Moment::now());
    let counted = pvars::read();
    let job = Job::new();
    if env::var_os("WEFT_STATS").is_some_and(|value| !value.is_empty() && value != "0") {
        let all = job.gather(&stats::own(&scale, &counted));
        if job.rank == 0 {
            eprint!("{}", stats::table(&all, job.size));
        }
    }
    if let Some(path) = env::var_os("WEFT_TRACE").filter(|_| TRACING.load(Ordering::Relaxed)) {
        trace::write(&job, *begin, &scale, path.as_ref());
    }
}

/// Bytes of so many elements.
pub fn bytes(count: i64, datatype: Handle) -> u64 {
    match u64::try_from(count) {
        Ok(count) if count > 0 => pmpi::type_size(datatype).unwrap_or(0).saturating_mul(count),
        _ => 0,
    }
}

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
    fn new() -> Job {
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
    fn gather(&self, own: &[u64]) -> Vec<u64> {
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

/// Sums over all threads of this process.
pub fn sums() -> Vec<[u64; 3]> {
    let mut sums = vec![[0; 3]; crate::functions::NAMES.len()];
    for thread in record::threads() {
        for (sum, counter) in sums.iter_mut().zip(&thread.counters) {
            sum[0] += counter.calls.load(Ordering::Relaxed);
            sum[1] += counter.ticks.load(Ordering::Relaxed);
            sum[2] += counter.bytes.load(Ordering::Relaxed);
        }
    }
    sums
}
