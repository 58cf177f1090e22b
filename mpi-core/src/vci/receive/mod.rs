//! Receives: inline ones from the ring, and the data of matched rendezvous messages.

mod fetch;
mod inline;
mod pull;

pub(crate) use inline::Front;
