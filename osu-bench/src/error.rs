//! The error type: a text with what is wrong and what to do.

use std::fmt;

/// A failure, described for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    text: Box<str>,
    everywhere: bool,
}

/// The result type of this program.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into().into_boxed_str(),
            everywhere: false,
        }
    }

    /// Creates an error that all ranks of the job find before any of them communicates.
    pub fn everywhere(text: impl Into<String>) -> Self {
        Self {
            everywhere: true,
            ..Self::new(text)
        }
    }

    /// Returns whether all ranks find this error.
    pub fn is_everywhere(&self) -> bool {
        self.everywhere
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}
