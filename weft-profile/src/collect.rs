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
use crate::{pvars, stats, trace};

static BEGIN: OnceLock<Moment> = OnceLock::new();

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
