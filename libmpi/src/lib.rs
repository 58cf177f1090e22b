//! The C ABIs of Weft, and the front page of its internal documentation.
//!
//! # The crates
//!
//! Each box is a crate, or a folder of them; it uses those below it, never one above:
//!
//! ```text
//!   programs and tools
//!         |        \
//!         |     mpifort, mpicxx    Fortran and C++, over the C interface
//!         |        /
//!       libmpi                     C entry points, checks, error codes     (this crate)
//!         |
//!    mpi-runtime                   handles, start and end, settings  -->  pmi (launchers)
//!      /     \
//!  mpi-rma  mpi-io                 windows; files
//!      \     /
//!     mpi-comm                     creation, topologies, losses
//!         |
//!     mpi-coll  -->  mpi-sched     collectives; their algorithms as data
//!         |             |
//!     mpi-core  -->  mpi-types     processes, VCIs, matching; datatypes, operations, errors
//!         |
//!    netmod-kit                    code that transports share: shmmod, netmod-tcp, -verbs, -ofi, -ucx
//!         |
//!      netmod                      the contract: active messages and remote memory
//!         |
//!      shmring                     rings in shared memory
//! ```
//!
//! | to learn | begin with |
//! | --- | --- |
//! | what a transport offers the core | [`netmod`](../netmod/index.html) |
//! | how a message finds its receive | [`mpi_core`](../mpi_core/index.html), then its `pt2pt` |
//! | how a collective is built and run | [`mpi_sched`](../mpi_sched/index.html), then [`mpi_coll`](../mpi_coll/index.html) |
//! | what a put or a lock does | [`mpi_rma`](../mpi_rma/index.html) |
//! | what happens in `MPI_Init` | [`mpi_runtime`](../mpi_runtime/index.html), [`pmi`](../pmi/index.html), [`mpiexec`](../mpiexec/index.html) |
//! | how a transport is written | `netmod-unix` in `examples`, [`netmod_kit`](../netmod_kit/index.html) |
//!
//! `docs/design.md` follows a message, a put, a collective and a file access from file to file.
//! Section numbers without a version are those of MPI-3.1.
//!
//! # This crate
//!
//! The package builds `libmpi.so.12`, the MPICH ABI. Other packages compile the same sources
//! again: `libmpi-abi`, with `cfg(standard_abi)`, for `libmpi_abi.so.1`, the standard ABI of
//! MPI-5.0, and `libmpi-ompi`, with `cfg(openmpi_abi)`, for `libmpi.so.40`, the ABI of Open MPI.
//! Both have `cfg(pointer_abi)`: their handles are pointers.
//!
//! The crate has no MPI semantics: handles become references to objects of `mpi-runtime`, arguments
//! are checked, the crates below do the work, and a `Result` becomes an error code, through an
//! error handler ([`raise`]). The exported functions ("shims") are generated from
//! `mpi-table/functions.mpi`; each calls the function of [`api`] that the table names.
//!
//! The Cargo features `io`, `tool` and `fault-tolerance` are for those who embed the library: without
//! one of them its functions, which the table names, are not exported. `verbs`, `ofi` and `ucx` are
//! transports. All are on by default.

pub mod abi;
mod abi_conflict;
pub mod api;
pub mod args;
pub mod attributes;
pub mod binding;
#[cfg(feature = "breakdown")]
pub mod breakdown;
pub mod class_texts;
pub mod codes;
pub mod data;
#[cfg(feature = "io")]
mod datareps;
pub mod debugger;
pub mod grequest_calls;
pub mod keyval;
mod library;
pub mod ops;
pub mod outward;
#[cfg(pointer_abi)]
pub mod peers;
pub mod raise;
pub mod status;
pub mod thread_levels;
#[cfg(feature = "tool")]
mod tool_calls;
#[cfg(feature = "tool")]
mod tool_codes;
pub mod version;
pub mod win_values;

/// The exported functions: `PMPI_X`, with `MPI_X` as weak aliases.
#[allow(
    unused_unsafe,
    unused_variables,
    clippy::redundant_closure_call,
    clippy::undocumented_unsafe_blocks,
    reason = "generated: the table doesn't say which implementations are safe functions, and may \
                  leave arguments out; a SAFETY comment above each call has its argument"
)]
mod shims {
    #[allow(clippy::wildcard_imports, reason = "all types and constants of mpi.h")]
    use crate::abi::*;
    use crate::api::coll::{Blocks, How};
    use crate::api::rma::data::target;
    use crate::args::{Late, OutInt, StatusField, array, array_mut, buffer, given, kind};
    use crate::attributes::{Form, ObjectKind};
    #[cfg(all(feature = "io", pointer_abi))]
    use crate::outward::OutwardFile;
    #[cfg(pointer_abi)]
    use crate::outward::{self, Outward};
    use crate::raise::{Arg, On, raise};
    use mpi_core::group::Group;
    use mpi_core::process::Mode;
    #[cfg(feature = "io")]
    use mpi_io::{At, Direction, SplitKind};
    use mpi_rma::Window;
    use mpi_runtime::handles::counts::{IntArray, IntOut};
    use mpi_runtime::handles::handler::Handler;
    use mpi_runtime::requests::persistent::Transfer;
    use std::ffi::{c_char, c_double, c_int, c_void};
    #[cfg(feature = "tool")]
    use {
        crate::tool_codes::with_tool,
        mpi_runtime::tool::categories::{self, Category},
        mpi_runtime::tool::outputs::{Output, TextOutput},
    };

    include!(concat!(env!("OUT_DIR"), "/shims.rs"));
}
