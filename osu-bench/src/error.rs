//! The one error type: a text that says what was wrong and what to do.

use std::fmt;

/// A failure, described for the person who runs the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    text: Box<str>,
    everywhere: bool,
}

/// The result of everything that may fail here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into().into_boxed_str(),
            everywhere: false,
        }
    }

    /// An error that every rank of the job meets alike, before any of them waits for another.
    pub fn everywhere(text: impl Into<String>) -> Self {
        Self {
            everywhere: true,
            ..Self::new(text)
        }
    }

    /// Whether every rank meets this error alike.
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
