//! Splitting and quoting of words, lists and assignments in option values and configuration files,
//! byte-exact.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Reads the file that an option names.
pub fn contents(option: &str, file: &OsStr) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| {
        format!(
            "option -{option}: the file '{}' can't be read: {error}",
            file.display()
        )
    })
}

/// Parses a file with a section per line into a command line.
pub fn config(option: &str, file: &OsStr) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let text = contents(option, file)?;
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let line = split(line).ok_or_else(|| {
            format!(
                "option -{option}: line {number} of '{}' has a quotation mark that is not closed",
                file.display()
            )
        })?;
        if !words.is_empty() {
            words.push(OsString::from(":"));
        }
        words.extend(line);
    }
    Ok(words)
}

/// Splits a line at blanks outside single or double quotation marks. Returns `None` if one stays
/// open.
pub fn split(line: &[u8]) -> Option<Vec<OsString>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut open: Option<u8> = None;
    for &byte in line {
        match open {
            Some(mark) if byte == mark => open = None,
            Some(_) => word.get_or_insert_default().push(byte),
            None if byte == b'"' || byte == b'\'' => {
                open = Some(byte);
                word.get_or_insert_default();
            }
            None if byte.is_ascii_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    let words = words.into_iter().map(OsString::from_vec);
    open.is_none().then(|| words.collect())
}

/// Quotes a word so that [`split`] returns it unchanged.
pub fn quoted(word: &OsStr) -> OsString {
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\"'\"'"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

/// Splits `NAME=VALUE`. Returns `None` for other words.
pub fn assignment(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    (at > 0).then(|| (part(&bytes[..at]), part(&bytes[at + 1..])))
}

/// Splits a list at commas, without empty parts.
pub fn parts(list: &OsStr) -> impl Iterator<Item = &OsStr> {
    let parts = list.as_bytes().split(|byte| *byte == b',');
    parts.filter(|part| !part.is_empty()).map(OsStr::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_come_back() {
        let words = ["", "a", "a b", "it's", "\"", "'\"'", "é"].map(OsString::from);
        let mut words = words.to_vec();
        words.push(OsString::from_vec(b"\xff'\xfe \n".to_vec()));
        let line: Vec<OsString> = words.iter().map(|word| quoted(word)).collect();
        let line = line.join(OsStr::new(" "));
        assert_eq!(split(line.as_bytes()), Some(words));
        assert_eq!(split(b"a 'b"), None);
        assert_eq!(
            split(b" a\t'b c'd\"\" "),
            Some(vec!["a".into(), "b cd".into()])
        );
    }
}
