//! Levels of thread support in the ABI's numbers.

use std::ffi::c_int;

use mpi_runtime::lifecycle::thread_level::ThreadLevel;

use crate::abi::{
    MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_SINGLE,
};

const _: () = assert!(
    MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED
        && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED
        && MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE
);

/// Returns the number of a level.
pub fn number(level: ThreadLevel) -> c_int {
    match level {
        ThreadLevel::Single => MPI_THREAD_SINGLE,
        ThreadLevel::Funneled => MPI_THREAD_FUNNELED,
        ThreadLevel::Serialized => MPI_THREAD_SERIALIZED,
        ThreadLevel::Multiple => MPI_THREAD_MULTIPLE,
    }
}

/// Returns the lowest level that provides a requested number; `None` if the number is below or
/// above all.
pub fn granting(required: c_int) -> Option<ThreadLevel> {
    let mut all = ThreadLevel::ALL.into_iter();
    all.find(|level| (MPI_THREAD_SINGLE..=number(*level)).contains(&required))
}
