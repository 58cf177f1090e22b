//! Start of the measurements after `MPI_Init`, and their output in `MPI_Finalize`.

use std::env;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::abi::Abi;
use crate::clock::{Moment, Scale};
use crate::job::Job;
use crate::pmpi::SUCCESS;
use crate::record::{COUNTING, MODE, TRACING, WATCHING};
use crate::{pvars, stats, trace, watch};

static BEGIN: OnceLock<Moment> = OnceLock::new();

/// Starts what the variables request, after `MPI_Init` has returned `code`.
pub fn begin(code: c_int) {
    let wanted = ["WEFT_STATS", "WEFT_TRACE", "WEFT_TOP"]
        .into_iter()
        .any(wants);
    if code != SUCCESS || !wanted || BEGIN.get().is_some() {
        return;
    }
    if wants("WEFT_STATS") {
        pvars::begin(&Abi::get());
    }
    let now = Moment::now();
    let _ = BEGIN.set(now);
    let mut mode = COUNTING;
    if wants("WEFT_TRACE") {
        mode |= TRACING;
    }
    if wants("WEFT_TOP") && watch::begin(now) {
        mode |= WATCHING;
    }
    MODE.store(mode, Ordering::Relaxed);
}

fn wants(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Ends the measurements and prints or writes them, in `MPI_Finalize`.
pub fn end() {
    let mode = MODE.swap(0, Ordering::Relaxed);
    if mode == 0 {
        return;
    }
    let Some(begin) = BEGIN.get() else { return };
    watch::finalize(false);
    if !wants("WEFT_STATS") && mode & TRACING == 0 {
        return;
    }
    let scale = Scale::between(*begin, Moment::now());
    let counted = pvars::read();
    let job = Job::new();
    if wants("WEFT_STATS") {
        let all = job.gather(&stats::own(&scale, &counted));
        if job.rank == 0 {
            eprint!("{}", stats::table(&all, job.size));
        }
    }
    if let Some(path) = env::var_os("WEFT_TRACE").filter(|_| mode & TRACING != 0) {
        trace::write(&job, *begin, &scale, path.as_ref());
    }
}
