//! Messages of PMI-2: six characters of decimal length, then `cmd=kvs-put;key=a;value=b;`.
//!
//! A semicolon in a value is doubled. Reading is as lenient as with PMI-1: fields come in any
//! order, unknown ones are ignored, of two equal keys the first counts, and parsing never fails.

use std::borrow::Cow;

use crate::channel;

/// Characters of the length before a message.
pub(crate) const HEAD: usize = 6;

/// A parsed message, which borrows the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    fields: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Message<'a> {
    /// Parses a message; `bytes` is without its length.
    pub fn parse(bytes: &'a [u8]) -> Message<'a> {
        let mut fields = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let end = field_end(bytes, start);
            let field = &bytes[start..end];
            if let Some(eq) = field.iter().position(|&b| b == b'=').filter(|&eq| eq > 0) {
                fields.push((&field[..eq], &field[eq + 1..]));
            }
            start = end + 1;
        }
        Message { fields }
    }

    /// Returns the command, empty if there is none.
    pub fn command(&self) -> &'a [u8] {
        self.raw("cmd").unwrap_or(b"")
    }

    fn raw(&self, key: &str) -> Option<&'a [u8]> {
        let key = key.as_bytes();
        self.fields.iter().find(|f| f.0 == key).map(|f| f.1)
    }

    /// Returns the value of `key`, with single semicolons.
    pub fn bytes(&self, key: &str) -> Option<Cow<'a, [u8]>> {
        self.raw(key).map(unescape)
    }

    /// Returns the value of `key` as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self, key: &str) -> Option<String> {
        self.bytes(key)
            .map(|b| String::from_utf8_lossy(&b).into_owned())
    }

    /// Returns the value of `key` as a decimal number, or `None` if it is absent or not a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        std::str::from_utf8(self.raw(key)?)
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Returns whether the value of `key` is `TRUE`, in any case.
    pub fn is_true(&self, key: &str) -> bool {
        self.raw(key)
            .is_some_and(|value| value.eq_ignore_ascii_case(b"true"))
    }
}

/// Returns the end of the field that starts at `start`: a single semicolon.
fn field_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b';', Some(b';')) => at += 2,
            (b';', _) => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn unescape(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b';') {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if byte == b';' {
            bytes.next_if(|&&next| next == b';');
        }
        out.push(byte);
    }
    Cow::Owned(out)
}

/// Longest message without its length, in bytes.
pub const LONGEST: usize = 999_999;

/// Writes a message with its length before it.
pub fn message(command: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    message_of(command, fields.iter().copied())
}

/// Writes a message of any keys and values, with its length before it. Callers must check for more
/// than [`LONGEST`] bytes.
pub fn message_of<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    command: &str,
    fields: impl IntoIterator<Item = (K, V)>,
) -> Vec<u8> {
    let mut body = format!("cmd={command};").into_bytes();
    for (key, value) in fields {
        body.extend_from_slice(key.as_ref());
        body.push(b'=');
        for &byte in value.as_ref() {
            body.extend(std::iter::repeat_n(byte, 1 + usize::from(byte == b';')));
        }
        body.push(b';');
    }
    let mut message = format!("{:HEAD$}", body.len()).into_bytes();
    message.append(&mut body);
    message
}

/// Collects received bytes and returns complete messages.
#[derive(Debug, Default)]
pub struct Messages {
    buffer: Vec<u8>,
}

impl Messages {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete message, without its length.
    ///
    /// # Errors
    /// The length is malformed; then no further message can be read.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        let Some(head) = self.buffer.get(..HEAD) else {
            return Ok(None);
        };
        let length = std::str::from_utf8(head)
            .ok()
            .and_then(|text| text.trim_matches([' ', '\0']).parse::<usize>().ok())
            .ok_or("a message must begin with its length in six characters")?;
        if self.buffer.len() < HEAD + length {
            return Ok(None);
        }
        let rest = self.buffer.split_off(HEAD + length);
        let mut message = std::mem::replace(&mut self.buffer, rest);
        message.drain(..HEAD);
        Ok(Some(message))
    }
}

impl channel::Frames for Messages {
    fn push(&mut self, bytes: &[u8]) {
        Messages::push(self, bytes);
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        self.next_message()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_semicolons_and_equal_signs() {
        let bytes = message(
            "kvs-put",
            &[("key", "a"), ("value", "x=1;y;;"), ("empty", "")],
        );
        let body = &bytes[HEAD..];
        assert_eq!(&bytes[..HEAD], format!("{:6}", body.len()).as_bytes());
        let read = Message::parse(body);
        assert_eq!(read.command(), b"kvs-put");
        assert_eq!(read.text("value").as_deref(), Some("x=1;y;;"));
        assert_eq!(read.text("empty").as_deref(), Some(""));
        assert_eq!(read.text("none"), None);
    }

    #[test]
    fn messages_come_whole_however_they_arrive() {
        let bytes = [message("a", &[]), message("b", &[("x", "1")])].concat();
        let mut messages = Messages::default();
        let mut got = Vec::new();
        for byte in bytes {
            messages.push(&[byte]);
            got.extend(messages.next_message().unwrap());
        }
        assert_eq!(got, [&b"cmd=a;"[..], b"cmd=b;x=1;"]);
        messages.push(b"12    cmd=padded;;");
        assert_eq!(messages.next_message().unwrap().unwrap(), b"cmd=padded;;");
        messages.push(b"twelve");
        assert!(messages.next_message().is_err());
    }

    #[test]
    fn odd_messages_are_harmless() {
        for bytes in [&b""[..], b";", b";;", b";;;", b"=", b"=a;", b"cmd", b"cmd="] {
            assert_eq!(Message::parse(bytes).command(), b"");
        }
        assert!(Message::parse(b"found=true;rc= 0").is_true("found"));
        assert_eq!(Message::parse(b"found=true;rc= 0").number("rc"), Some(0));
    }
}
