//! MPI through the C ABI of MPICH: the library opened at run time, its function table, and the
//! calls that the benchmarks make.

pub mod constants;
mod form;
mod table;
mod window;
mod world;

pub use form::{Collective, Shape};
pub use table::{Irecv, Isend, LIBRARY_NAMES, Request, Table, Wait};
pub use window::Window;
pub use world::{Combine, World, library_version};
