//! Detection of members that called different collectives.

pub(crate) mod inquiry;
pub(crate) mod mismatch_word;
pub(crate) mod signature;
