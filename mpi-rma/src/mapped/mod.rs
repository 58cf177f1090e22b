//! Accesses to windows whose memory is mapped in this process: the short paths.

pub(crate) mod accumulate;
pub(crate) mod fast_locks;
pub(crate) mod fast_path;
pub(crate) mod fast_targets;
pub(crate) mod transfer;
