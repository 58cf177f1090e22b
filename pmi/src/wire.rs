//! Lines of PMI-1: `cmd=put kvsname=k key=a value=b`, ended by a newline.
//!
//! Reading is lenient, as launchers differ: keys come in any order, unknown keys are ignored, of
//! two equal keys the first counts, runs of blanks separate, a word without `=` continues the value
//! before it, and a backslash escapes the byte after it. Parsing never fails: a line is a list of
//! fields, perhaps an empty one.

use std::borrow::Cow;

/// A parsed line, which borrows the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    fields: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Line<'a> {
    /// Parses a line; `bytes` is without its newline.
    pub fn parse(bytes: &'a [u8]) -> Line<'a> {
        let mut fields: Vec<(&[u8], &[u8])> = Vec::new();
        // Start of the last field's value, so that a word without '=' can lengthen it.
        let mut value_start = 0;
        let mut at = 0;
        while at < bytes.len() {
            if is_blank(bytes[at]) {
                at += 1;
                continue;
            }
            let end = word_end(bytes, at);
            let word = &bytes[at..end];
            match word.iter().position(|&b| b == b'=') {
                Some(eq) if eq > 0 => {
                    value_start = at + eq + 1;
                    fields.push((&word[..eq], &word[eq + 1..]));
                }
                _ => {
                    if let Some(last) = fields.last_mut() {
                        last.1 = &bytes[value_start..end];
                    }
                }
            }
            at = end;
        }
        Line { fields }
    }

    /// Returns the command: the value of `cmd` (or `mcmd`), empty if there is none.
    pub fn command(&self) -> &'a [u8] {
        self.raw("cmd").or_else(|| self.raw("mcmd")).unwrap_or(b"")
    }

    /// Returns the value of `key` as received, escapes included.
    pub fn raw(&self, key: &str) -> Option<&'a [u8]> {
        let key = key.as_bytes();
        self.fields.iter().find(|f| f.0 == key).map(|f| f.1)
    }

    /// Returns the value of `key`, escapes resolved.
    pub fn bytes(&self, key: &str) -> Option<Cow<'a, [u8]>> {
        self.raw(key).map(unescape)
    }

    /// Returns the value of `key` as text, escapes resolved; bytes that are not UTF-8 are replaced.
    pub fn text(&self, key: &str) -> Option<String> {
        self.bytes(key)
            .map(|b| String::from_utf8_lossy(&b).into_owned())
    }

    /// Returns the value of `key` as a decimal number, or `None` if it is absent or not a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        std::str::from_utf8(self.raw(key)?).ok()?.parse().ok()
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < bytes.len() && !is_blank(bytes[at]) {
        // An escaped byte never ends the word; a backslash at the very end stands for itself.
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// Resolves escapes: a backslash and a byte are that byte, a lone last backslash is itself.
pub fn unescape(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'\\') {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => out.push(*bytes.next().unwrap_or(&b'\\')),
            _ => out.push(byte),
        }
    }
    Cow::Owned(out)
}

/// Escapes a value; the reverse of [`unescape`]. Line breaks, which no escape can carry, become
/// blanks.
pub fn escape(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for &byte in value {
        match byte {
            b'\n' | b'\r' | b'\0' => out.extend_from_slice(b"\\ "),
            b' ' | b'\t' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out
}

/// Collects received bytes and returns complete lines.
#[derive(Debug, Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Length of the consumed part of the buffer.
    taken: usize,
}

impl Lines {
    /// Longest line accepted, in bytes: far above what the protocol's limits allow.
    pub const MAX: usize = 1 << 20;

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete line, without its newline.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let rest = &self.buffer[self.taken..];
        let length = rest.iter().position(|&b| b == b'\n')?;
        let start = self.taken;
        self.taken += length + 1;
        Some(&self.buffer[start..start + length])
    }

    /// Returns whether the incomplete rest is longer than any line may be.
    pub fn overlong(&self) -> bool {
        self.buffer.len() - self.taken > Self::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_fields_in_any_order_and_ignores_what_it_does_not_know() {
        let line = Line::parse(b"  rc=0 extra=1  cmd=get_result\tvalue=x rc=9 ");
        assert_eq!(line.command(), b"get_result");
        assert_eq!(line.number::<i32>("rc"), Some(0));
        assert_eq!(line.text("value").as_deref(), Some("x"));
        assert_eq!(line.text("none"), None);
    }

    #[test]
    fn values_keep_equal_signs_escaped_blanks_and_loose_words() {
        let line = Line::parse(br"cmd=a value=b=c;d\ e\\f msg=key not found");
        assert_eq!(line.text("value").as_deref(), Some(r"b=c;d e\f"));
        assert_eq!(line.text("msg").as_deref(), Some("key not found"));
        assert_eq!(line.raw("value"), Some(&br"b=c;d\ e\\f"[..]));
    }

    #[test]
    fn odd_lines_are_harmless() {
        for line in [&b""[..], b"=", b"\\", b"a", b"=x", b"cmd=", b"x=\\"] {
            assert_eq!(Line::parse(line).command(), b"");
        }
        assert_eq!(Line::parse(b"x=\\").text("x").as_deref(), Some("\\"));
    }

    #[test]
    fn lines_come_whole_however_they_arrive() {
        let mut lines = Lines::default();
        for byte in b"ab\n\nc" {
            lines.push(&[*byte]);
        }
        assert_eq!(lines.next_line(), Some(&b"ab"[..]));
        assert_eq!(lines.next_line(), Some(&b""[..]));
        assert_eq!(lines.next_line(), None);
        lines.push(b"d\n");
        assert_eq!(lines.next_line(), Some(&b"cd"[..]));
        assert_eq!(lines.next_line(), None);
    }
}
