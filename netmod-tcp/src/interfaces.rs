//! The network interfaces of this host, and the choice among them.

use std::net::IpAddr;

use netmod::OpenError;
use netmod_kit::interfaces::{self, is_bridge};

use crate::config::{Config, INTERFACE, Wanted};
use crate::subnet::Subnet;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub name: String,
    pub address: IpAddr,
    pub subnet: Subnet,
}

impl std::fmt::Display for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.address)
    }
}

/// Returns the prefix length of a mask.
fn bits(mask: IpAddr) -> u32 {
    match mask {
        IpAddr::V4(mask) => u32::from(mask).leading_ones(),
        IpAddr::V6(mask) => u128::from(mask).leading_ones(),
    }
}

/// Lists the addresses of all interfaces that are up, except link-local ones, which other hosts
/// cannot use without knowing the link.
pub(crate) fn all() -> std::io::Result<Vec<Interface>> {
    let of_link =
        |address: IpAddr| matches!(address, IpAddr::V4(address) if address.is_link_local());
    let all = interfaces::all()?.into_iter();
    let usable = all.filter(|one| !of_link(one.address));
    let with_subnet = usable.filter_map(|one| {
        Some(Interface {
            subnet: Subnet::new(one.address, one.mask.map(bits))?,
            name: one.name,
            address: one.address,
        })
    });
    Ok(with_subnet.collect())
}

/// Returns the addresses at which a port of this process listens: those of the interfaces that
/// `chosen`, the value of `WEFT_TCP_INTERFACE`, names, or that ranks use between hosts by default.
///
/// # Errors
/// The value is malformed, names an interface that does not exist, or there is none at all.
pub fn addresses(chosen: Option<&str>) -> Result<Vec<IpAddr>, OpenError> {
    let mut config = Config::new(0);
    config.set_interfaces(chosen.unwrap_or_default())?;
    let (used, _) = choose(&all().unwrap_or_default(), &config.interfaces)?;
    Ok(used.iter().map(|interface| interface.address).collect())
}

/// Chooses the interfaces to use, in the order in which they are published. Also returns the
/// reasons why the others are not used.
///
/// # Errors
/// A requested interface does not exist, or there is none at all.
pub(crate) fn choose(
    all: &[Interface],
    wanted: &[Wanted],
) -> Result<(Vec<Interface>, Vec<String>), OpenError> {
    if all.is_empty() {
        return Err(OpenError(
            "this host or container has no network interface that is up and has an address (not even lo): \
             ip link set lo up"
                .to_string(),
        ));
    }
    let known = || {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    let mut used: Vec<Interface> = Vec::new();
    for item in wanted {
        let fits = |interface: &&Interface| match item {
            Wanted::Name(name) => interface.name == *name,
            Wanted::Subnet(subnet) => subnet.contains(interface.address),
        };
        let before = used.len();
        for interface in all.iter().filter(fits) {
            if !used.contains(interface) {
                used.push(interface.clone());
            }
        }
        if used.len() == before {
            return Err(OpenError(format!(
                "no interface that is up and has an address fits {item:?} of {}; there are {}",
                INTERFACE.name,
                known()
            )));
        }
    }
    if wanted.is_empty() {
        let outward = |it: &&Interface| !it.address.is_loopback();
        let plain = |it: &&Interface| outward(it) && !is_bridge(&it.name);
        used = all.iter().filter(plain).cloned().collect();
        if used.is_empty() {
            // The only interface of a container may have any name.
            used = all.iter().filter(outward).cloned().collect();
        }
        if used.is_empty() {
            used = all.to_vec();
        }
    }
    if used.iter().all(|it| it.address.is_loopback()) {
        // One address suffices within a host, and the port is then closed to other hosts.
        used.truncate(1);
    }
    let left_out = all.iter().filter(|it| !used.contains(it));
    let why = |it: &Interface| match wanted.is_empty() {
        true if it.address.is_loopback() => format!("{it}: reaches this host only"),
        true => format!(
            "{it}: a bridge to containers, by its name ({} may name it)",
            INTERFACE.name
        ),
        false => format!("{it}: not among those to be used"),
    };
    let left_out = left_out.map(why).collect();
    Ok((used, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str, bits: u32) -> Interface {
        let address = address.parse().expect("an address");
        Interface {
            name: name.into(),
            address,
            subnet: Subnet::new(address, Some(bits)).expect("a subnet"),
        }
    }

    #[test]
    fn loopback_is_there() {
        let all = all().expect("a list of interfaces");
        assert!(all.iter().any(|it| it.address.is_loopback()), "{all:?}");
    }

    #[test]
    fn those_that_reach_others_are_chosen() {
        let all = [
            interface("lo", "127.0.0.1", 8),
            interface("docker0", "172.17.0.1", 16),
            interface("eth0", "10.1.2.3", 16),
            interface("eth0", "fd00::3", 64),
        ];
        let names = |wanted: &str| {
            let mut config = crate::Config::new(0);
            config.set_interfaces(wanted).expect("a list");
            choose(&all, &config.interfaces).map(|(used, left)| {
                let used = used.into_iter().map(|it| it.address.to_string());
                (used.collect::<Vec<_>>(), left.len())
            })
        };
        assert_eq!(
            names("").unwrap(),
            (vec!["10.1.2.3".into(), "fd00::3".into()], 2)
        );
        assert_eq!(names("docker0").unwrap(), (vec!["172.17.0.1".into()], 3));
        assert_eq!(
            names("fd00::/8,lo").unwrap(),
            (vec!["fd00::3".into(), "127.0.0.1".into()], 2)
        );
        let error = names("eth1").unwrap_err().0;
        assert!(
            error.contains("eth1") && error.contains("eth0 (10.1.2.3)"),
            "{error}"
        );
        let (used, _) = choose(&all[..2], &[]).unwrap();
        assert_eq!(used[0].name, "docker0");
        let (used, _) = choose(&all[..1], &[]).unwrap();
        assert_eq!(used[0].name, "lo");
        assert!(choose(&[], &[]).is_err());
    }
}
