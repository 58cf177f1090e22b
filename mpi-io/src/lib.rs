//! Files (MPI-3.1 chapter 13).
//!
//! This crate stands above `mpi-core` and uses nothing of it but its public functions: a file has a
//! communicator of its own, threads of its own that read and write for nonblocking calls
//! ([`Files`] hands their results to the process as a source of progress), and a driver for the file
//! system that it is on.
//!
//! A walk: [`File`] checks what the access mode allows and where the access begins
//! (`position`), the view says which bytes of the file these are (`view`), the data is converted if
//! it has another representation in the file (`datarep`), and then moved: by this process alone
//! (`access`), by threads (`pool`), or together with the others (`collective`, and `phases`, two of them, with
//! aggregators). What moves bytes between memory and the file is a [`driver::Storage`].
//!
//! Ranks of a node share work through common memory: `combine` merges their writes, `read_once`
//! their reads of the same stretch, `writers` makes data sieving sound beside writes without locks.
//! Nonblocking and split collective accesses are the steps of blocking ones, as futures that the
//! source of progress polls (`talk`, `files`).

mod access;
mod agree;
mod amode;
mod collective;
mod combine;
mod datarep;
mod direction;
mod domains;
pub mod driver;
mod exchange;
mod file;
mod files;
mod hints;
mod lent;
mod locks;
mod memory;
mod nfs;
mod open;
mod patience;
mod phases;
mod plain;
mod pool;
mod position;
mod posix;
mod read_once;
mod room;
mod runs;
mod shared_pointer;
mod sieve;
mod split;
mod system;
mod talk;
mod view;
mod writers;

pub use amode::Amode;
pub use datarep::{Conversions, Representation};
pub use direction::Direction;
pub use file::{At, File};
pub use files::Files;
pub use memory::Memory;
pub use open::{Opening, delete};
pub use position::Whence;
pub use split::SplitKind;
