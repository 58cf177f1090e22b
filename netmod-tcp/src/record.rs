//! The address record of a VCI, as peers get it from the launcher: secret, port, addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netmod_kit::admission::Secret;

/// First byte of a record, for plain and for encrypted connections.
const VERSION: [u8; 2] = [1, 2];

/// Largest address record, in bytes.
const MOST: usize = 320;

/// The addresses of a VCI, and the secret of its process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Whether the process encrypts its connections.
    pub encrypts: bool,
    pub secret: Secret,
    pub port: u16,
    pub addresses: Vec<IpAddr>,
}

impl Record {
    /// Returns the record as bytes. Addresses that do not fit are left out.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION[usize::from(self.encrypts)]];
        bytes.extend(self.secret.as_bytes());
        bytes.extend(self.port.to_le_bytes());
        for address in &self.addresses {
            let (family, octets) = match address {
                IpAddr::V4(address) => (4, address.octets().to_vec()),
                IpAddr::V6(address) => (6, address.octets().to_vec()),
            };
            if bytes.len() + 1 + octets.len() <= MOST {
                bytes.push(family);
                bytes.extend(octets);
            }
        }
        bytes
    }

    /// Parses a record. Returns `None` if it is malformed.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Record> {
        let (version, rest) = bytes.split_first()?;
        let (secret, rest) = rest.split_first_chunk::<{ Secret::LENGTH }>()?;
        let (port, mut rest) = rest.split_first_chunk::<2>()?;
        let encrypts = VERSION.iter().position(|it| it == version)? == 1;
        let mut addresses = Vec::new();
        while let Some((family, after)) = rest.split_first() {
            rest = match family {
                4 => {
                    let (octets, after) = after.split_first_chunk::<4>()?;
                    addresses.push(Ipv4Addr::from(*octets).into());
                    after
                }
                6 => {
                    let (octets, after) = after.split_first_chunk::<16>()?;
                    addresses.push(Ipv6Addr::from(*octets).into());
                    after
                }
                _ => return None,
            };
        }
        (!addresses.is_empty()).then_some(Record {
            encrypts,
            secret: Secret::from_bytes(*secret),
            port: u16::from_le_bytes(*port),
            addresses,
        })
    }

    /// Lists the socket addresses to connect to.
    pub(crate) fn places(&self) -> impl Iterator<Item = SocketAddr> {
        let port = self.port;
        self.addresses
            .iter()
            .map(move |address| SocketAddr::new(*address, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_other_bytes_are_refused() {
        let record = Record {
            encrypts: true,
            secret: Secret::from_bytes([9; Secret::LENGTH]),
            port: 40_000,
            addresses: vec!["10.1.2.3".parse().unwrap(), "fd00::1".parse().unwrap()],
        };
        let bytes = record.to_bytes();
        assert_eq!(Record::parse(&bytes), Some(record.clone()));
        for end in 0..bytes.len() {
            if let Some(part) = Record::parse(&bytes[..end]) {
                assert!(part.addresses.len() < 2);
            }
        }
        let many = Record {
            addresses: vec!["fd00::1".parse().unwrap(); 40],
            ..record
        };
        assert!(many.to_bytes().len() <= MOST);
        assert!(Record::parse(&many.to_bytes()).is_some_and(|it| it.addresses.len() > 10));
        assert_eq!(Record::parse(&[3; 100]), None);
    }
}
