//! The callbacks and constants that the runtime gets from this library.

use mpi_runtime::lifecycle::runtime::Binding;
use mpi_runtime::tool::events;

use crate::abi::{MPI_BSEND_OVERHEAD, MPI_IN_PLACE};
use crate::{abi_conflict, debugger, version};

/// The binding of this library.
pub const BINDING: Binding = Binding {
    version: version::LIBRARY_VERSION,
    bsend_overhead: MPI_BSEND_OVERHEAD as usize,
    is_in_place: |address| address == MPI_IN_PLACE.cast_const(),
    check: abi_conflict::check,
    wants_locks: mpi_runtime::tool::wants_locks,
    up: debugger::tell,
    down: debugger::forget,
    on_comm: |elements| events::raise(events::COMM, elements),
};
