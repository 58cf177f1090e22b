//! Lossless conversion between C strings, which need not be UTF-8, and Rust strings.
//!
//! Each byte outside valid UTF-8 maps to one of the last 128 code points of Unicode (a private-use
//! area). If a program's string contains such a code point itself, each of its bytes is mapped, so
//! that two different C strings never convert to the same Rust string.

/// The code point of byte 0 in the mapping; only those of 0x80 and above are used.
const FIRST: u32 = 0x10_ff00;

/// Converts a C string.
pub fn of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match byte(character) {
                None => text.push(character),
                Some(_) => text.extend(character.encode_utf8(&mut [0; 4]).bytes().map(stands_for)),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(stands_for));
    }
    text
}

/// Converts the longest prefix of a C string that has at most `room` bytes and splits no character.
pub fn beginning(bytes: &[u8], room: usize) -> String {
    let mut left = room;
    let fits = |character: &char| {
        let length = byte(*character).map_or(character.len_utf8(), |_| 1);
        let fits = length <= left;
        left = if fits { left - length } else { 0 };
        fits
    };
    of(bytes).chars().take_while(fits).collect()
}

/// Converts back to the C string that [`of`] was given.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

fn stands_for(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the byte that a mapped character represents, or `None` for an ordinary character.
fn byte(character: char) -> Option<u8> {
    let byte = u32::from(character).checked_sub(FIRST)?;
    u8::try_from(byte).ok().filter(|byte| *byte >= 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_back() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let one = [first, second];
                assert_eq!(bytes(&of(&one)), one);
                let four = [0xf4, 0x8f, first, second, b'x'];
                assert_eq!(bytes(&of(&four)), four);
                assert_eq!(of(&bytes(&of(&four))), of(&four));
            }
        }
        assert_eq!(of("é €".as_bytes()), "é €");
    }

    #[test]
    fn no_character_is_cut() {
        assert_eq!(beginning("aé".as_bytes(), 3), "aé");
        assert_eq!(beginning("aéb".as_bytes(), 2), "a");
        assert_eq!(bytes(&beginning(b"a\xe4\xe4\xe4", 3)), b"a\xe4\xe4");
        assert_eq!(beginning(b"", 0), "");
    }
}
