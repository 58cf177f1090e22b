//! MPI's state in a process: control variables, the transports that a launcher's job talks by, the objects behind handles,
//! requests of all kinds, bringing MPI up and down, processes that come and go, and the tool information interface.
//!
//! Here is no function of the C interface, and no number in which the ABIs differ, so that this is compiled once
//! for the libraries of all ABIs. What a program gave a function for is called by them: through a closure, a trait, or
//! a [function without type](handles::handler::Function).

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
