//! Extensions of MPICH: streams, thread communicators, and functions that progress calls.

pub mod polling;
pub mod streams;
pub mod threadcomms;
