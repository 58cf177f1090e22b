//! What is said of buffers that aren't all there, or can't be written.

#![deny(unsafe_code)]

use super::request::Record;
use crate::error::{Class, Error};

fn place(record: &Record) -> String {
    let start = record.buffer.start().addr();
    format!("{} bytes at {start:#x}", record.buffer.len())
}

/// The error of a receive whose buffer can't be written.
#[cold]
pub(crate) fn own_receive(record: &Record, address: u64) -> Error {
    let key = &record.key;
    Error::new(
        Class::Buffer,
        format!(
            "this rank's receive buffer (argument buf: {}) can't be written at {address:#x}, by a message of {} bytes \
             from rank {} with tag {}; allocate as much as count and datatype say, and keep it until the receive \
             is complete",
            place(record),
            record.total,
            key.source,
            key.tag
        ),
    )
}

/// The error of a send whose buffer can't be read.
#[cold]
pub(crate) fn own_send(record: &Record, address: u64) -> Error {
    Error::new(
        Class::Buffer,
        format!(
            "the send buffer of this rank, {} (argument buf: {}, tag {}), can't be read at {address:#x}; allocate as \
             much as count and datatype say, and keep it until the send is complete",
            record.key.source,
            place(record),
            record.key.tag
        ),
    )
}

/// The error of a receive whose sender has no such data.
#[cold]
pub(crate) fn their_send(record: &Record, address: u64) -> Error {
    let key = &record.key;
    Error::new(
        Class::Buffer,
        format!(
            "the send buffer of rank {} (argument buf there, {} bytes wanted, tag {}) can't be read at its address \
             {address:#x}; it must be as large as count and datatype of the send say",
            key.source, record.total, key.tag
        ),
    )
}
