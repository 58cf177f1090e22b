//! Detection of members that called different collectives.
//!
//! Each call has a `signature`: collective, root, phases, bytes. Slots carry a mark of it below the
//! number of the phase, so that comparing costs nothing. Where that finds a difference, or a rank
//! has waited for a while, `mismatch_word` publishes it to all members of the node. Calls that go
//! by messages ask the awaited ranks by notices (`inquiry`).

pub(crate) mod inquiry;
pub(crate) mod mismatch_word;
pub(crate) mod signature;
