//! What tasks give.

/// What a task gives: the text says what went wrong and what to do.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// Why this machine can't do a part of a task.
pub(crate) struct Lacking {
    /// The name that `WEFT_TEST_ALLOW_SKIP` has for it.
    pub need: &'static str,
    /// What is lacking, for people.
    pub why: String,
}
