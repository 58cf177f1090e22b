//! The state of MPI in a process, independent of the ABI.
//!
//! - [`lifecycle`]: start and end of MPI, for the world and for sessions; the [`lifecycle::runtime`]
//!   that every call begins with.
//! - [`bootstrap`]: from the launcher's environment to open transports and the peers' addresses.
//! - [`handles`]: from the integers of the C binding to objects; [`requests`]: the same for requests.
//! - [`settings`]: the control variables, and the hints of info objects.
//! - [`dynamic`]: ports, spawned processes. [`mpix`]: extensions. [`tool`]: `MPI_T`.
//!
//! The crate has no C entry points and no ABI-specific constants, so it is compiled once for all
//! ABIs. Callbacks of the program arrive as closures, trait objects, or [untyped
//! functions](handles::handler::Function).

pub mod bootstrap;
pub mod dynamic;
pub mod handles;
pub mod lifecycle;
pub mod mpix;
pub mod requests;
pub mod settings;
pub mod tool;

#[doc(hidden)]
pub mod fuzzing {
    //! Entry points of the fuzz targets; not part of the interface.

    pub use crate::dynamic::fuzzing::port;
    pub use crate::settings::hints::fuzzing::hint;
}
