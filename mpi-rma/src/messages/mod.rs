//! Windows whose targets carry out what origins ask for by messages.

pub(crate) mod accumulate;
pub(crate) mod counters;
pub(crate) mod lock_grants;
pub(crate) mod lock_queue;
pub(crate) mod message;
pub(crate) mod pending;
pub(crate) mod progress_thread;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod service_signal;
pub(crate) mod transfer;
