//! Extensions that MPICH has, too: streams, thread communicators, functions that progress calls.

pub mod polling;
pub mod streams;
pub mod threadcomms;
