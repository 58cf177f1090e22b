//! The objects behind handles: communicators, groups, datatypes, requests, windows, files, infos, error handlers and
//! sessions, each with its table; and the [runtime](runtime::Runtime), which holds those that exist only while MPI is up.
//!
//! Here is no function of the C interface, and no number in which the ABIs differ, so that this is compiled once
//! for the libraries of all ABIs. What a program gave a function for is called by them: through a closure, a trait, or
//! a [function without type](handler::Function).

pub mod attribute_value;
pub mod bsend;
pub mod colors;
pub mod comms;
pub mod counts;
pub mod datareps;
pub mod departed;
pub mod destructors;
pub mod dynamic;
pub mod errhandler;
pub mod exchange;
mod failures;
pub mod fatal;
pub mod files;
pub mod flushing;
pub mod grequests;
pub mod groups;
pub mod handler;
pub mod handles;
pub mod helper;
pub mod identity;
pub mod infos;
pub mod init;
pub mod interrupted;
pub mod library;
pub mod memory;
pub mod messages;
pub mod own_request;
pub mod partitioned;
pub mod persistent;
pub mod persistent_collective;
pub mod polled_requests;
pub mod polling;
pub mod predefined;
pub mod psets;
pub mod pvars;
pub mod report;
pub mod request_any;
pub mod request_lists;
pub mod request_object;
pub mod requests;
pub mod runtime;
pub mod session_object;
pub mod sessions;
pub mod starting;
pub mod streams;
pub mod thread_level;
pub mod threadcomms;
pub mod tuning;
pub mod type_object;
pub mod types;
pub mod wins;
