//! What can go wrong between a rank and its launcher.

use std::io;

/// An error of the exchange with the launcher; its text says what was wrong and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmiError {
    /// The environment speaks of a launcher that can't be talked to, or contradicts itself.
    #[error("{0}")]
    Environment(String),

    /// The socket to the launcher failed.
    #[error("the connection to the launcher failed while {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// The launcher closed the connection.
    #[error(
        "the launcher closed the connection while {doing}; it has probably ended or was killed"
    )]
    Closed {
        /// What was being done.
        doing: &'static str,
    },

    /// The launcher said something that the protocol doesn't foresee.
    #[error("the launcher's answer to {command} makes no sense ({detail}): '{line}'")]
    Protocol {
        /// The command that was sent.
        command: &'static str,
        /// What is wrong with the answer.
        detail: String,
        /// The answer, with bytes that can't be printed replaced.
        line: String,
    },

    /// The launcher refused a command.
    #[error("the launcher refused {command}: {reason}")]
    Refused {
        /// The command that was sent.
        command: &'static str,
        /// The launcher's reason, or its code.
        reason: String,
    },

    /// A key, value or name that the protocol can't carry.
    #[error("{0}")]
    Unfit(String),

    /// The call came after `finalize`, or after an earlier error that broke the exchange.
    #[error("the exchange with the launcher is over: {0}")]
    Over(String),
}
