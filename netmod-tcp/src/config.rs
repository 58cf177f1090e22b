//! Control variables of the transport.

use netmod::{OpenError, Peer};
use netmod_kit::variables::{Reader, Variable};

use crate::congestion;
use crate::subnet::Subnet;

/// `WEFT_TCP_INTERFACE`.
pub const INTERFACE: Variable = Variable {
    name: "WEFT_TCP_INTERFACE",
    kind: "list",
    default: "lo when all ranks share this node and no container separates them, otherwise all that are up but lo and bridges to containers",
    help: "Network interfaces that TCP uses, by name or subnet, IPv4 or IPv6, for instance eth0 or \
           10.1.0.0/16,fd00::/8. Their addresses are published in this order; a connecting process first tries \
           those on a network of its own host.",
};

/// `WEFT_TCP_PORTS`.
pub const PORTS: Variable = Variable {
    name: "WEFT_TCP_PORTS",
    kind: "list",
    default: "any that is free",
    help: "The ports on which TCP connections are accepted, for firewalls: FIRST-LAST, for instance 40000-40999. \
           Each rank takes one per VCI.",
};

/// `WEFT_TCP_CONNECTIONS`.
pub const CONNECTIONS: Variable = Variable {
    name: "WEFT_TCP_CONNECTIONS",
    kind: "count",
    default: "as many as there are descriptors",
    help: "The most TCP connections of a VCI. Beyond it, and where descriptors run out, the connection that \
           was idle for longest is closed, and reopened when it is needed.",
};

/// `WEFT_TCP_STREAMS`.
pub const STREAMS: Variable = Variable {
    name: "WEFT_TCP_STREAMS",
    kind: "count",
    default: "1",
    help: "Connections that share messages of 1 MiB and more, 1 to 8. Each goes over another of the networks \
           that both hosts have, as far as there are so many. Worth it where one connection does not fill \
           the network: several adapters, or a network that limits each connection.",
};

/// `WEFT_TCP_CONGESTION`.
pub const CONGESTION: Variable = Variable {
    name: "WEFT_TCP_CONGESTION",
    kind: "name",
    default: "auto",
    help: "The kernel's congestion control for TCP connections: auto (reno within a host, which takes the least time; \
           otherwise the system's), system (always the system's), or the name of one, as in \
           /proc/sys/net/ipv4/tcp_allowed_congestion_control.",
};

/// `WEFT_TCP_ENCRYPT`.
pub const ENCRYPT: Variable = Variable {
    name: "WEFT_TCP_ENCRYPT",
    kind: "0 or 1",
    default: "0",
    help: "1: TCP connections between ranks are encrypted and authenticated (AES-256-GCM), and no other network is \
           used; 0: they are not. Alike for all jobs that communicate; mpiexec -encrypt sets it.",
};

/// The variables of this transport.
pub const VARIABLES: &[Variable] = &[INTERFACE, PORTS, CONNECTIONS, STREAMS, CONGESTION, ENCRYPT];

/// A choice of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// By name.
    Name(String),
    /// By address.
    Subnet(Subnet),
}

/// How to open a [`TcpTransport`](crate::TcpTransport).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of this process.
    pub peer: Peer,
    /// Interfaces to use; empty: chosen automatically.
    pub(crate) interfaces: Vec<Wanted>,
    /// First and last port for accepting connections.
    pub(crate) ports: Option<(u16, u16)>,
    /// Most connections of a lane.
    pub(crate) most: usize,
    /// Connections over which long gets are split.
    pub(crate) streams: u8,
    /// Whether connections are encrypted.
    pub(crate) encrypts: bool,
    /// Congestion control of connections.
    pub(crate) congestion: congestion::Wanted,
    /// Number of connections that each poll reads directly.
    pub(crate) direct: usize,
}

impl Config {
    /// Returns the defaults for process `peer`.
    pub fn new(peer: Peer) -> Self {
        Config {
            peer,
            interfaces: Vec::new(),
            ports: None,
            most: usize::MAX,
            streams: 1,
            encrypts: false,
            congestion: congestion::Wanted::Auto,
            direct: 2,
        }
    }

    /// Returns the defaults, changed by the variables of [`VARIABLES`].
    ///
    /// # Errors
    /// A value is malformed.
    pub fn read(peer: Peer, variables: &Reader) -> Result<Self, String> {
        let mut config = Config::new(peer);
        if let Some(list) = variables.text(INTERFACE.name) {
            config.set_interfaces(&list).map_err(|error| error.0)?;
        }
        if let Some(text) = variables.text(PORTS.name) {
            let (first, last) = text.split_once('-').unwrap_or((&text, &text));
            let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
            config.ports = match (port(first), port(last)) {
                (Some(first), Some(last)) if first <= last => Some((first, last)),
                _ => {
                    return Err(format!(
                        "{} is {text:?}; it can be FIRST-LAST, two ports from 1 to 65535, as in \
                         40000-40999",
                        PORTS.name
                    ));
                }
            };
        }
        if let Some(text) = variables.text(CONNECTIONS.name) {
            let count = text.parse().ok().filter(|count| *count >= 2);
            config.most = count.ok_or_else(|| {
                format!(
                    "{} is {text:?}; it can be a whole number from 2 on",
                    CONNECTIONS.name
                )
            })?;
        }
        if let Some(text) = variables.text(STREAMS.name) {
            let count = text.parse().ok();
            let count = count.filter(|count| (1..=crate::hello::STREAMS).contains(count));
            config.streams = count.ok_or_else(|| {
                format!(
                    "{} is {text:?}; it can be a whole number from 1 to {}",
                    STREAMS.name,
                    crate::hello::STREAMS
                )
            })?;
        }
        config.encrypts = match variables.text(ENCRYPT.name).as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => {
                return Err(format!("{} is {other:?}; it can be 0 or 1", ENCRYPT.name));
            }
        };
        if let Some(text) = variables.text(CONGESTION.name) {
            config.congestion = match text.as_str() {
                "auto" => congestion::Wanted::Auto,
                "system" => congestion::Wanted::System,
                _ => congestion::Wanted::Named(text),
            };
        }
        Ok(config)
    }

    /// Chooses interfaces by a list of names and subnets.
    ///
    /// # Errors
    /// A subnet can't be read.
    pub fn set_interfaces(&mut self, list: &str) -> Result<(), OpenError> {
        let items = list.split(',').map(str::trim);
        self.interfaces = items
            .filter(|item| !item.is_empty())
            .map(|item| {
                if !item.contains(['/', ':']) && item.parse::<std::net::IpAddr>().is_err() {
                    return Ok(Wanted::Name(item.to_string()));
                }
                let subnet = Subnet::parse(item).ok_or_else(|| {
                    OpenError(format!(
                        "{} has {item:?}; it can hold names of interfaces (eth0) and subnets \
                         (10.1.0.0/16, fd00::/8)",
                        INTERFACE.name
                    ))
                })?;
                Ok(Wanted::Subnet(subnet))
            })
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Returns whether interfaces were named.
    pub fn names_interfaces(&self) -> bool {
        !self.interfaces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_and_wrong_ones_named() {
        let with = |name: &'static str, value: &'static str| {
            Config::read(
                0,
                &Reader::new(&move |asked| (asked == name).then(|| value.to_string())),
            )
        };
        let config = with(INTERFACE.name, "eth0, 10.1.0.0/16,fd00::/8,192.0.2.7").unwrap();
        assert_eq!(config.interfaces.len(), 4);
        assert_eq!(config.interfaces[0], Wanted::Name("eth0".into()));
        assert_eq!(
            with(PORTS.name, "40000-40999").unwrap().ports,
            Some((40000, 40999))
        );
        assert_eq!(with(PORTS.name, "99").unwrap().ports, Some((99, 99)));
        assert_eq!(with(PORTS.name, "").unwrap(), Config::new(0));
        let congestion = |value| with(CONGESTION.name, value).unwrap().congestion;
        assert_eq!(congestion("auto"), congestion::Wanted::Auto);
        assert_eq!(congestion("system"), congestion::Wanted::System);
        assert_eq!(
            congestion("reno"),
            congestion::Wanted::Named("reno".to_string())
        );
        assert!(with(ENCRYPT.name, "1").unwrap().encrypts);
        for (name, value) in [
            (PORTS.name, "0"),
            (PORTS.name, "70000"),
            (PORTS.name, "9-8"),
            (PORTS.name, "a-b"),
            (CONNECTIONS.name, "1"),
            (STREAMS.name, "0"),
            (STREAMS.name, "9"),
            (ENCRYPT.name, "yes"),
            (INTERFACE.name, "10.1.0.0/33"),
            (INTERFACE.name, "fd00::/x"),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
