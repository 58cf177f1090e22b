//! Accesses to the program's own memory in another process of the node: CMA copies, and requests in
//! shared memory.

pub(crate) mod accumulate;
pub(crate) mod deferred;
pub(crate) mod hit_rate;
pub(crate) mod inbox;
pub(crate) mod kernel_copy;
pub(crate) mod outbox;
pub(crate) mod rings;
pub(crate) mod transfer;
