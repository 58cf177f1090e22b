//! Words on the command line of a spawned job's launcher, where a word `:` separates the commands of a job.
//!
//! An argument of a program may be `:` as well. So words of colons alone have one more there than they mean.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

fn is_of_colons(word: &OsStr) -> bool {
    !word.is_empty() && word.as_bytes().iter().all(|byte| *byte == b':')
}

/// A word that is none of the separators.
pub fn protect(word: &OsStr) -> OsString {
    let mut word = word.to_owned();
    if is_of_colons(&word) {
        word.push(":");
    }
    word
}

/// The word that [`protect`] was given.
pub fn unprotect(word: &OsStr) -> OsString {
    match is_of_colons(word) {
        true => OsStr::from_bytes(&word.as_bytes()[1..]).to_owned(),
        false => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_colons_come_back() {
        for word in ["", ":", "::", ":::", "a:", ":a", "a"] {
            let protected = protect(OsStr::new(word));
            assert_ne!(protected, ":");
            assert_eq!(unprotect(&protected), word);
        }
        assert_eq!(protect(OsStr::new("a:")), "a:");
    }
}
