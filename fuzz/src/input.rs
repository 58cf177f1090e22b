//! Readers of a fuzzer's input.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Reads numbers and chunks from the front of an input, and zeros behind its end.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// Returns whether the input is used up.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the rest.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Takes `count` bytes, or the rest if it is shorter.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// Takes a byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Takes a number of two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Takes a number of four bytes.
    pub fn long(&mut self) -> u32 {
        u32::from(self.short()) | u32::from(self.short()) << 16
    }

    /// Takes a number of eight bytes.
    pub fn word(&mut self) -> u64 {
        u64::from(self.long()) | u64::from(self.long()) << 32
    }

    /// Takes a chunk: a byte with the length, where 255 means the rest, and the bytes.
    pub fn piece(&mut self) -> &'a [u8] {
        match self.byte() {
            255 => self.rest(),
            length => self.bytes(length.into()),
        }
    }
}

/// Reads variables from lines `NAME=VALUE`. If the input has zero bytes, these end the lines instead
/// of newlines, so values may contain newlines.
pub fn variables(bytes: &[u8]) -> Vec<(String, OsString)> {
    let ends = if bytes.contains(&0) { 0 } else { b'\n' };
    let lines = bytes.split(|byte| *byte == ends);
    let one = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let name = String::from_utf8_lossy(&line[..at]).into_owned();
        Some((name, OsString::from_vec(line[at + 1..].to_vec())))
    };
    lines.filter_map(one).collect()
}
