//! Subnets.

use std::net::IpAddr;

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    address: IpAddr,
    bits: u32,
}

/// Returns an address as a number, with its length in bits.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl Subnet {
    /// Parses `ADDRESS/BITS`, or a single address.
    pub(crate) fn parse(text: &str) -> Option<Subnet> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        Subnet::new(address.parse().ok()?, bits)
    }

    /// Makes the subnet of an address; without `bits`, the address alone.
    pub(crate) fn new(address: IpAddr, bits: Option<u32>) -> Option<Subnet> {
        let (_, most) = number(address);
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Subnet { address, bits })
    }

    /// Returns whether the subnet contains an address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let ((ours, length), (theirs, other)) = (number(self.address), number(address));
        let rest = length - self.bits;
        length == other && (rest == 128 || (ours ^ theirs) >> rest == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_their_subnets() {
        let holds = |subnet: &str, address: &str| {
            let subnet = Subnet::parse(subnet).expect("a subnet");
            subnet.contains(address.parse().expect("an address"))
        };
        assert!(holds("10.1.0.0/16", "10.1.255.3"));
        assert!(!holds("10.1.0.0/16", "10.2.0.1"));
        assert!(holds("0.0.0.0/0", "192.0.2.1") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("fd00::/8", "fd12::7") && !holds("fd00::/8", "fe80::1"));
        assert!(holds("::/0", "fe80::1"));
        assert!(holds("192.0.2.7", "192.0.2.7") && !holds("192.0.2.7", "192.0.2.6"));
        for wrong in [
            "",
            "/",
            "10.0.0.0/33",
            "::1/129",
            "eth0",
            "10.0.0/8",
            "1.2.3.4/",
        ] {
            assert_eq!(Subnet::parse(wrong), None, "{wrong}");
        }
    }
}
