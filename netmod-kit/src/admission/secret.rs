//! A secret that two ends of a connection share, and random numbers.

use std::fmt;
use std::io;

/// Returns random bytes from the kernel.
///
/// # Errors
/// The kernel has no random number generator, or a filter of system calls denies it.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// A shared secret. Its content is compared in constant time and not shown by `Debug`.
#[derive(Clone, Copy)]
pub struct Secret([u8; Secret::LENGTH]);

impl Secret {
    /// Bytes of a secret.
    pub const LENGTH: usize = 32;

    /// Draws a new secret.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn random() -> io::Result<Secret> {
        random().map(Secret)
    }

    /// Derives a secret from a text that only its users know. `purpose` keeps secrets of different
    /// uses apart.
    pub fn derive(purpose: &str, text: &[u8]) -> Secret {
        Secret(blake3::derive_key(purpose, text))
    }

    /// Takes a secret that was received by a trusted channel.
    pub const fn from_bytes(bytes: [u8; Secret::LENGTH]) -> Secret {
        Secret(bytes)
    }

    /// The content.
    pub const fn as_bytes(&self) -> &[u8; Secret::LENGTH] {
        &self.0
    }

    /// Writes the content as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        let pairs = self.0.iter();
        pairs
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect()
    }

    /// Reads 64 hexadecimal digits. Returns `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Secret> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Secret::LENGTH {
            return None;
        }
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let mut bytes = [0; Secret::LENGTH];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(Secret(bytes))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        // `blake3::Hash` compares in constant time.
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_give_the_same_secret() {
        let secret = Secret::random().unwrap();
        assert_eq!(Secret::from_hex(&secret.to_hex()), Some(secret));
        assert_eq!(Secret::from_bytes([0xa5; 32]).to_hex(), "a5".repeat(32));
        let upper = Secret::from_bytes([0xab; 32]).to_hex().to_uppercase();
        assert_eq!(
            Secret::from_hex(&upper),
            Some(Secret::from_bytes([0xab; 32]))
        );
        for wrong in ["", "a5", &"+5".repeat(32), &"ä".repeat(32), &"a".repeat(65)] {
            assert_eq!(Secret::from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_differ_and_are_not_printed() {
        let secret = Secret::random().unwrap();
        assert_ne!(secret, Secret::random().unwrap());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
