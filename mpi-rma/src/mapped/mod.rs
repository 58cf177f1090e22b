//! Accesses to memory that is mapped in this process: fast paths, transfers, accumulates.

pub(crate) mod accumulate;
pub(crate) mod fast_locks;
pub(crate) mod fast_path;
pub(crate) mod fast_targets;
pub(crate) mod transfer;
