//! One-sided communication: windows, transfers, synchronization.

pub mod data;
pub(crate) mod fast_path;
pub(crate) mod single;
pub mod sync;
pub mod window;
