//! Errors between a rank and its launcher.

use std::io;

/// An error of the exchange with the launcher. Its text says what was wrong and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmiError {
    /// The environment shows an unsupported launcher, or contradicts itself.
    #[error("{0}")]
    Environment(String),

    /// The socket to the launcher failed.
    #[error("the connection to the launcher failed while {doing}: {source}")]
    Io {
        /// The step that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// The launcher closed the connection.
    #[error(
        "the launcher closed the connection while {doing}; it has probably ended or was killed"
    )]
    Closed {
        /// The step that failed.
        doing: &'static str,
    },

    /// The launcher has violated the protocol.
    #[error("the launcher's answer to {command} is malformed ({detail}): '{line}'")]
    Protocol {
        /// The command that was sent.
        command: &'static str,
        /// The problem of the answer.
        detail: String,
        /// The answer, with unprintable bytes replaced.
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

    /// A key, value or name that the protocol cannot carry.
    #[error("{0}")]
    Unfit(String),

    /// The call came after `finalize`, or after an earlier error that broke the exchange.
    #[error("the exchange with the launcher is over: {0}")]
    Over(String),
}
