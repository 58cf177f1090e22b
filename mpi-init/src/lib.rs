//! From the launcher's environment to a process with transports: control variables, hints, the list of
//! transports, address records, and the ports by which jobs meet.
//!
//! What is here knows no ABI, so it is compiled once for the libraries of all ABIs.

pub mod bootstrap;
pub mod dynamic;
pub mod hardware;
pub mod hints;
pub mod host;
pub mod loaded;
pub mod netmods;
mod node_table;
mod scheduling;
pub mod settings;
mod standstill;
pub mod text;

#[doc(hidden)]
pub mod fuzzing {
    //! Entry points of the fuzz targets; not part of the interface.

    pub use crate::dynamic::fuzzing::port;
    pub use crate::hints::fuzzing::hint;
}
