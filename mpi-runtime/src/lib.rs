//! The state of MPI in a process, independent of the ABI.
//!
//! Control variables, bootstrap from the launcher to open transports, the objects behind handles,
//! requests of all kinds, start and end of MPI, dynamic processes, and the tool information
//! interface.
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
