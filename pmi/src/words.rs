//! Options of a spawned job's launcher, which reads them from a descriptor, since every user of the
//! host can read a command line.
//!
//! A word `:` separates the commands of a job. An argument of a program may be `:` as well, so a
//! word that consists of colons is sent with one more.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

fn is_of_colons(word: &OsStr) -> bool {
    !word.is_empty() && word.as_bytes().iter().all(|byte| *byte == b':')
}

/// Makes a word that cannot be a separator.
pub fn protect(word: &OsStr) -> OsString {
    let mut word = word.to_owned();
    if is_of_colons(&word) {
        word.push(":");
    }
    word
}

/// Returns the word that was given to [`protect`].
pub fn unprotect(word: &OsStr) -> OsString {
    match is_of_colons(word) {
        true => OsStr::from_bytes(&word.as_bytes()[1..]).to_owned(),
        false => word.to_owned(),
    }
}

/// Encodes words for a descriptor: their number and each of them, with a zero byte at the end.
pub fn encode<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Vec<u8> {
    let mut list = Vec::new();
    let mut count = 0;
    for word in words {
        list.extend_from_slice(word.as_bytes());
        list.push(0);
        count += 1;
    }
    [format!("{count}\0").into_bytes(), list].concat()
}

/// Decodes the result of [`encode`]. Returns `None` if it is incomplete.
pub fn decode(bytes: &[u8]) -> Option<Vec<OsString>> {
    let mut words = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
    let count: usize = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let words: Vec<OsString> = words.map(|word| OsString::from_vec(word.into())).collect();
    (words.len() == count).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_words_come_back_whole_or_not_at_all() {
        for words in [vec![], vec![""], vec!["-n", "1", "", ":", "a\nb"]] {
            let bytes = encode(words.iter().map(OsStr::new));
            assert_eq!(decode(&bytes).unwrap(), words);
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), None, "{words:?} {end}");
            }
        }
        let bytes = encode([OsStr::from_bytes(b"\xff")]);
        assert_eq!(decode(&bytes).unwrap(), [OsStr::from_bytes(b"\xff")]);
    }

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
