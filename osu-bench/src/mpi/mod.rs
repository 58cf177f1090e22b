//! MPI through the C ABI of MPICH: the library opened at run time, its function table, and the
//! calls that the benchmarks make.

pub mod constants;
mod entry;
mod file;
mod file_table;
mod form;
mod partitioned;
mod table;
mod window;
mod world;

pub use entry::Request;
pub use file::{SharedFile, Way};
pub use form::{Collective, Shape};
pub use partitioned::Partitioned;
pub use table::{
    Accumulate, Allreduce, Barrier, Bcast, CompareAndSwap, Exchange, FetchAndOp, Get, Irecv, Isend,
    Put, Recv, Reduce, RootedExchange, Table, Wait, Waitall, WinLock, WinTwo,
};
pub use window::{Epochs, Memory, Window};
pub use world::{Combine, World, library_version};
