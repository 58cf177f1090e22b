//! Files (MPI-3.1 chapter 13).
//!
//! The crate uses only public functions of `mpi-core`: a file has its own communicator, its own
//! threads for nonblocking calls (their results reach the process through [`Files`], a source of
//! progress), and a driver for its file system.
//!
//! An access passes through these modules: [`File`] checks the access mode and the position
//! (`position`), the view maps it to bytes of the file (`view`), data is converted if its
//! representation in the file differs (`datarep`), and then moved: by this process alone
//! (`access`), by threads (`pool`), or together with the others (`collective`, with the two phases
//! of the aggregators in `phases`). A [`driver::Storage`] moves bytes between memory and the file.
//!
//! Ranks of a node share work through common memory: `combine` merges their writes, `writers` makes
//! data sieving sound beside writes without locks.
//! Nonblocking and split collective accesses are the steps of blocking ones, as futures that a
//! source of progress polls (`exchange`, `files`).

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
mod messages;
mod nfs;
mod one_run;
mod open;
mod patience;
mod phases;
mod pool;
mod position;
mod posix;
mod runs;
mod shared_area;
mod shared_pointer;
mod sieve;
mod split;
mod system;
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
