//! Encodes values for the wire.
//!
//! A PMI-1 value is a word: blanks, line breaks and, with some launchers, backslashes or `=` and
//! `;` get lost. [`protect`] turns any text into such a word and leaves plain ones unchanged, so
//! that Weft's values and others' (`PMI_process_mapping`) look alike; [`encode`] does it for bytes,
//! four characters for three.

use std::borrow::Cow;

/// Prefix of protected text.
const MARK: &str = "weft%";

/// Returns text as a word: unchanged if it is a plain one, otherwise marked and percent-encoded.
pub fn protect(text: &str) -> Cow<'_, str> {
    if !text.is_empty() && text.bytes().all(is_plain) && !text.starts_with(MARK) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{MARK}{}", percent_encode(text.as_bytes())))
}

/// Returns the text of a word from [`protect`]. Unmarked and malformed words are returned
/// unchanged.
pub fn unprotect(word: &str) -> Cow<'_, str> {
    let inner = word.strip_prefix(MARK).map(str::as_bytes);
    let text = inner.and_then(percent_decode).map(String::from_utf8);
    match text {
        Some(Ok(text)) => Cow::Owned(text),
        _ => Cow::Borrowed(word),
    }
}

/// Percent-encodes bytes that are not plain characters, as `%` and two digits.
pub fn percent_encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for &byte in bytes {
        if is_plain(byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'=' | b';' | b'"' | b'\'')
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Decodes the result of [`percent_encode`]. Returns `None` if digits are missing after a `%`.
pub fn percent_decode(word: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(word.len());
    let mut bytes = word.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// 64 characters that all launchers pass on; the length of the text determines the number of bytes.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes bytes as a word, in base 64 with `-` and `_` and without padding (RFC 4648, section 5).
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .enumerate()
            .fold(0u32, |group, (i, &b)| group | u32::from(b) << (16 - 8 * i));
        for i in 0..=chunk.len() {
            let digit = (group >> (18 - 6 * i)) & 63;
            out.push(char::from(ALPHABET[digit as usize]));
        }
    }
    out
}

/// Decodes the result of [`encode`]. Returns `None` for any other word.
pub fn decode(word: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(word.len() / 4 * 3 + 2);
    for chunk in word.as_bytes().chunks(4) {
        let mut group = 0u32;
        for (i, &c) in chunk.iter().enumerate() {
            group |= digit_value(c)? << (18 - 6 * i);
        }
        let bytes = [(group >> 16) as u8, (group >> 8) as u8, group as u8];
        let (length, rest) = match chunk.len() {
            4 => (3, 0),
            3 => (2, group & 0xff),
            2 => (1, group & 0xffff),
            _ => return None,
        };
        if rest != 0 {
            return None;
        }
        out.extend_from_slice(&bytes[..length]);
    }
    Some(out)
}

fn digit_value(c: u8) -> Option<u32> {
    Some(match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_readable() {
        assert_eq!(protect("(vector,(0,1,2))"), "(vector,(0,1,2))");
        assert_eq!(protect("tcp://10.0.0.1:99"), "tcp://10.0.0.1:99");
        assert_eq!(protect("a b=c;\n\\"), "weft%a%20b%3dc%3b%0a%5c");
        assert_eq!(protect(""), "weft%");
        assert_eq!(unprotect("weft%zz%g"), "weft%zz%g");
        assert_eq!(unprotect("100%20"), "100%20");
    }

    #[test]
    fn base_64_is_that_of_the_rfc() {
        for (bytes, word) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (&[0xfb, 0xff], "-_8"),
        ] {
            assert_eq!(encode(bytes), word);
            assert_eq!(decode(word).as_deref(), Some(bytes));
        }
        for bad in ["A", "Zh", "Z g", "Zg==", "AAAAA", "\u{e9}"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
