//! Packs memory keys into the contract's 16 bytes.
//!
//! UCX's packed keys have no fixed length: a few bytes where memory needs no registration, about 18
//! per network adapter otherwise, many of them zero. A key travels without its zeros if it fits;
//! otherwise a number names it, and a peer requests it at first use.

/// First byte of the words of a key that must be requested.
const NAMED: u8 = 0xff;

/// The content of a key's words.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Key {
    /// UCX's packed key.
    Inline(Vec<u8>),
    /// The number for requesting the key.
    Named(u64),
    /// Words that this crate did not make.
    Invalid,
}

/// Packs a key into two words: its length, one bit for each non-zero byte, and those bytes. Returns
/// `None` if it does not fit.
pub(crate) fn pack(key: &[u8]) -> Option<[u64; 2]> {
    let mut bytes = [0_u8; 16];
    let len = u8::try_from(key.len()).ok().filter(|&len| len != NAMED)?;
    bytes[0] = len;
    let mut end = 1 + key.len().div_ceil(8);
    for (i, &byte) in key.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        *bytes.get_mut(1 + i / 8)? |= 1 << (i % 8);
        *bytes.get_mut(end)? = byte;
        end += 1;
    }
    (end <= bytes.len()).then(|| words(&bytes))
}

/// Makes the words of a key that must be requested by `number`.
pub(crate) fn named(number: u64) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[0] = NAMED;
    bytes[8..].copy_from_slice(&number.to_ne_bytes());
    words(&bytes)
}

/// Unpacks the words of a key; the reverse of [`pack`] and [`named`].
pub(crate) fn unpack(words: [u64; 2]) -> Key {
    if words.map(u64::to_ne_bytes)[0][0] == NAMED {
        return Key::Named(words[1]);
    }
    match inline(words) {
        Some(key) if !key.is_empty() => Key::Inline(key),
        _ => Key::Invalid,
    }
}

fn inline(words: [u64; 2]) -> Option<Vec<u8>> {
    let bytes = words.map(u64::to_ne_bytes).concat();
    let len = usize::from(bytes[0]);
    let mut rest = bytes.get(1 + len.div_ceil(8)..)?.iter();
    let mut key = vec![0; len];
    for (i, byte) in key.iter_mut().enumerate() {
        if bytes[1 + i / 8] & 1 << (i % 8) != 0 {
            *byte = *rest.next()?;
        }
    }
    Some(key)
}

fn words(bytes: &[u8; 16]) -> [u64; 2] {
    let word = |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
    [word(0), word(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_survive(key in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 1..60)) {
            if let Some(words) = pack(&key) {
                prop_assert_eq!(unpack(words), Key::Inline(key.clone()));
            }
            let rest = key.iter().filter(|&&byte| byte != 0).count();
            let fits = 1 + key.len().div_ceil(8) + rest <= 16;
            prop_assert_eq!(pack(&key).is_some(), fits);
        }

        #[test]
        fn any_words_are_unpacked_or_refused(words: [u64; 2]) {
            let _ = unpack(words);
        }
    }

    #[test]
    fn numbers_survive() {
        assert_eq!(unpack(named(u64::MAX - 5)), Key::Named(u64::MAX - 5));
        assert_eq!(unpack([0, 0]), Key::Invalid);
    }
}
