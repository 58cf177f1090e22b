//! The messages between the first machine of a job and the others before the plan (`-join`).

use netmod_kit::admission::Protocol;

use crate::wire::frames::fields;

/// The handshake before these messages.
pub const PROTOCOL: Protocol = Protocol::new(*b"WeftJoi\x01", 0);

/// Most bytes of a frame.
const LONGEST: usize = 64 << 10;

/// The message of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// It wants to join as `index`, or as one that it gets.
    Join {
        /// The version of its program.
        version: String,
        /// The value of its `-size`.
        size: u32,
        /// Its index, if it knows that.
        index: Option<u32>,
        /// Its host name.
        name: String,
    },
}

fields! { enum Request { 1 Join { version, size, index, name } } }

impl Request {
    fn longest_frame(_kind: u8, _ranks: usize) -> usize {
        LONGEST
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It has joined; the plan follows once all have.
    Welcome {},
    /// It can't join, for the reason `text`.
    Refused {
        /// For people.
        text: String,
    },
}

fields! { enum Reply { 1 Welcome {}, 2 Refused { text } } }

impl Reply {
    fn longest_frame(_kind: u8, _ranks: usize) -> usize {
        LONGEST
    }
}
