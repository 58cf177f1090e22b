//! MPI through the C ABI of MPICH: the library opened at run time, its function table, and the
//! calls that the benchmarks make.

pub mod constants;
mod counter;
mod file;
mod form;
mod partitioned;
mod table;
mod window;
mod world;

pub use counter::Counter;
pub use file::{Access, SharedFile};
pub use form::{Collective, Shape, share};
pub use partitioned::Partitioned;
pub use table::{Request, Table};
pub use window::{Epochs, Memory, Window};
pub use world::{Combine, Totals, World, library_version};
