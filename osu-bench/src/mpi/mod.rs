//! MPI through the C ABI of MPICH: the library opened at run time, its function table, and the
//! calls that the benchmarks make.

pub mod constants;
mod table;
mod world;

pub use table::{Request, Table};
pub use world::{Combine, World, library_version};
