//! Errors of buffers that are not accessible.

#![deny(unsafe_code)]

use super::request::Record;
use crate::error::{Class, Error};

fn place(record: &Record) -> String {
    let start = record.buffer.start().addr();
    format!("{} bytes at {start:#x}", record.buffer.len())
}

/// Makes the error of a receive whose buffer is not writable.
#[cold]
pub(crate) fn own_receive(record: &Record, address: u64) -> Error {
    let key = &record.key;
    Error::new(
        Class::Buffer,
        format!(
            "this rank's receive buffer (argument buf: {}) is not writable at {address:#x}, by a message of {} bytes \
             from rank {} with tag {}; allocate as much as count and datatype say, and keep it until the receive \
             is complete",
            place(record),
            record.total,
            key.source,
            key.tag
        ),
    )
}

/// Makes the error of a send whose buffer is not readable.
#[cold]
pub(crate) fn own_send(record: &Record, address: u64) -> Error {
    Error::new(
        Class::Buffer,
        format!(
            "the send buffer of this rank, {} (argument buf: {}, tag {}), is not readable at {address:#x}; allocate as \
             much as count and datatype say, and keep it until the send is complete",
            record.key.source,
            place(record),
            record.key.tag
        ),
    )
}

/// Makes the error of a receive whose sender's buffer is not readable.
#[cold]
pub(crate) fn their_send(record: &Record, address: u64) -> Error {
    let key = &record.key;
    Error::new(
        Class::Buffer,
        format!(
            "the send buffer of rank {} (argument buf there, {} bytes wanted, tag {}) is not readable at its address \
             {address:#x}; it must be as large as count and datatype of the send say",
            key.source, record.total, key.tag
        ),
    )
}
