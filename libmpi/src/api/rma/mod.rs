//! One-sided communication: windows, transfers, synchronization.

pub mod data;
pub(crate) mod element;
pub(crate) mod fast_path;
pub mod sync;
pub mod window;
