//! Results of tasks.

/// The result of a task. The error text says what is wrong and what to do.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// A part of a task that this machine can't do.
pub(crate) struct Lacking {
    /// Its name in `WEFT_TEST_ALLOW_SKIP`.
    pub need: &'static str,
    /// The reason as a text.
    pub why: String,
}
