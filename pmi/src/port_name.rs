//! Names of ports (`MPI_Open_port`): the addresses at which the port listens, and the secret by
//! which its clients prove themselves.
//!
//! A name is passed on by the program, a name server or a launcher's key-value space. Every holder
//! of a name with a secret can connect; a name without one only shows where the port is.

use std::fmt::Write as _;
use std::net::IpAddr;

/// The beginning of all names.
const SCHEME: &str = "weft2";
/// Stands for a secret that was withheld.
const WITHHELD: &str = "-";
/// Hexadecimal digits of a secret.
const DIGITS: usize = 64;

/// The label of the handshake on a port (`netmod_kit::admission`), whose context is [`CLIENT`] or
/// [`ENDED`].
pub const LABEL: [u8; 8] = *b"WeftPrt\x01";
/// The context of a client that wants to be accepted.
pub const CLIENT: u8 = b'c';
/// The context of a launcher that sends one frame: the reason why a spawned job has ended before it
/// connected.
pub const ENDED: u8 = b'e';
/// The frame of a port to a client or launcher that it has let in. A client sends it back.
pub const TAKEN: &[u8] = b"taken";
/// Most bytes of the text in a launcher's frame.
pub const MAX_TEXT: usize = 900;

/// The parts of a port's name.
#[derive(Clone, PartialEq, Eq)]
pub struct PortName {
    /// 64 hexadecimal digits; `None` if it was withheld.
    pub secret: Option<String>,
    /// The node of the process that opened it.
    pub node: u64,
    /// The TCP port.
    pub port: u16,
    /// The addresses at which it listens, at least one.
    pub addresses: Vec<IpAddr>,
}

impl std::fmt::Debug for PortName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.without_secret().to_text(usize::MAX))
    }
}

impl PortName {
    /// Returns the name as text shorter than `most` bytes, with as many addresses as fit.
    pub fn to_text(&self, most: usize) -> String {
        let secret = self.secret.as_deref().unwrap_or(WITHHELD);
        let mut text = format!("{SCHEME}/{secret}/{:x}/{}/", self.node, self.port);
        for (number, address) in self.addresses.iter().enumerate() {
            let address = address.to_string();
            if text.len() + 1 + address.len() >= most {
                break;
            }
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(text, "{comma}{address}");
        }
        text
    }

    /// Parses a name. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<PortName> {
        let parts: Vec<&str> = text.split('/').collect();
        let [SCHEME, secret, node, port, addresses] = parts[..] else {
            return None;
        };
        let is_secret =
            secret.len() == DIGITS && secret.bytes().all(|digit| digit.is_ascii_hexdigit());
        let addresses = addresses.split(',').map(|one| one.parse().ok());
        (is_secret || secret == WITHHELD).then_some(())?;
        Some(PortName {
            secret: is_secret.then(|| secret.to_owned()),
            node: u64::from_str_radix(node, 16).ok()?,
            port: port.parse().ok().filter(|port| *port > 0)?,
            addresses: addresses.collect::<Option<_>>()?,
        })
    }

    /// Returns the same name without its secret.
    pub fn without_secret(&self) -> PortName {
        PortName {
            secret: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 256;

    #[test]
    fn names_come_back_and_other_texts_are_refused() {
        let name = PortName {
            secret: Some("a5".repeat(32)),
            node: 77,
            port: 4711,
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        };
        let text = name.to_text(MOST);
        assert!(text.len() < MOST);
        assert_eq!(PortName::parse(&text), Some(name.clone()));
        for end in 0..=text.rfind('/').unwrap() {
            assert_eq!(PortName::parse(&text[..end]), None);
        }
        let many = PortName {
            addresses: vec!["fd00::1234:5678:9abc:def0".parse().unwrap(); 40],
            ..name.clone()
        };
        let many = PortName::parse(&many.to_text(MOST)).unwrap();
        assert!(many.addresses.len() >= 3 && many.to_text(usize::MAX).len() < MOST);
        for wrong in [
            &text.replace("weft2", "weft1")[..],
            &text.replace("a5/", "a/"),
            &text.replace("a5/", "ax/"),
            &text.replace("4711", "0"),
            &format!("{text},"),
            &format!("{text}/"),
        ] {
            assert_eq!(PortName::parse(wrong), None, "{wrong}");
        }
        let without = name.without_secret();
        assert_eq!(PortName::parse(&without.to_text(MOST)), Some(without));
        assert!(!format!("{name:?}").contains("a5a5"));
    }
}
