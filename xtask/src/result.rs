//! What tasks give.

/// What a task gives: the text says what went wrong and what to do.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;
