//! From `MPI_Init` to `MPI_Finalize`: what is asked for, and what is told in the end.

use std::env;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::abi::Abi;
use crate::clock::{Moment, Scale};
use crate::job::Job;
use crate::pmpi::SUCCESS;
use crate::record::{COUNTING, TRACING};
use crate::{board, pmpi, pvars, stats, trace};

static BEGIN: OnceLock<Moment> = OnceLock::new();
/// What asks for something.
const WAYS: [&str; 3] = ["WEFT_STATS", "WEFT_TRACE", "WEFT_TOP"];

/// `MPI_Init` has returned this code.
pub fn begin(code: c_int) {
    let wants =
        |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    if code != SUCCESS || !WAYS.iter().any(|name| wants(name)) || BEGIN.get().is_some() {
        return;
    }
    if wants("WEFT_STATS") {
        pvars::begin(&Abi::get());
    }
    if let Some(folder) = env::var_os("WEFT_TOP").filter(|folder| !folder.is_empty()) {
        let world = Abi::get().world;
        board::begin(&folder, pmpi::comm_rank(world), pmpi::comm_size(world));
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
    if !WAYS[..2].iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
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
