//! Chooses the kernel's congestion control for connections.
//!
//! A control that paces (BBR) releases data by timers, at the rate that it believes the network to
//! carry. Within a host there is no network: the timers only delay long messages, and the control's
//! computations for each packet only cost time. Such a connection gets the simplest control,
//! `reno`. Between hosts it is the system's, unless the user names another.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use netmod::OpenError;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::config::CONGESTION;
use crate::interfaces::Interface;

/// The simplest control, and another one without pacing for systems that refuse it.
const UNPACED: [&str; 2] = ["reno", "cubic"];

/// The user's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A simple control within a host, otherwise the system's.
    Auto,
    /// Always the system's control.
    System,
    /// The named control.
    Named(String),
}

/// Controls that replace the system's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Congestion {
    /// For connections within this host.
    near: Option<String>,
    /// For all other connections.
    far: Option<String>,
    system: String,
}

/// Returns whether a congestion control paces by timers.
fn paces(name: &str) -> bool {
    name.starts_with("bbr")
}

impl Congestion {
    /// Chooses among the controls that the kernel allows.
    ///
    /// # Errors
    /// The kernel refuses the named control.
    pub fn new(wanted: &Wanted) -> Result<Congestion, OpenError> {
        let plain = Congestion {
            near: None,
            far: None,
            system: String::new(),
        };
        let socket = || rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let system = match socket().and_then(sockopt::tcp_congestion) {
            Ok(name) if *wanted != Wanted::System => name,
            _ => return Ok(plain),
        };
        let allowed = |name: &str| socket().and_then(|it| sockopt::set_tcp_congestion(it, name));
        let (near, far) = match wanted {
            Wanted::System => (None, None),
            Wanted::Auto => {
                let count = if paces(&system) { UNPACED.len() } else { 1 };
                let mut some = UNPACED[..count].iter();
                let first = some.find(|name| allowed(name).is_ok());
                let other = first.filter(|name| **name != system);
                (other.map(ToString::to_string), None)
            }
            Wanted::Named(name) => {
                allowed(name).map_err(|error| {
                    let list = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
                    let list = std::fs::read_to_string(list).unwrap_or_default();
                    OpenError(format!(
                        "tcp: {} is {name:?}, which the kernel refuses ({error}); it allows: {}",
                        CONGESTION.name,
                        list.trim()
                    ))
                })?;
                (Some(name.clone()), Some(name.clone()))
            }
        };
        Ok(Congestion { near, far, system })
    }

    /// Sets the control of a socket before it listens. The peers are unknown yet, and a control
    /// that was once active leaves its pacing behind, so the listener gets the control for
    /// connections within the host.
    pub fn listen(&self, listener: &TcpListener) {
        if let Some(name) = &self.near {
            let _ = sockopt::set_tcp_congestion(listener, name);
        }
    }

    /// Sets the control of a socket before it connects.
    pub fn call(&self, socket: impl AsFd, to: IpAddr, interfaces: &[Interface]) {
        let wanted = match is_near(to, interfaces) {
            true => &self.near,
            false => &self.far,
        };
        if let Some(name) = wanted {
            let _ = sockopt::set_tcp_congestion(socket, name);
        }
    }

    /// Sets the control of an admitted connection.
    pub fn admit(&self, stream: &TcpStream, interfaces: &[Interface]) {
        let (Some(near), Ok(from)) = (&self.near, stream.peer_addr()) else {
            return;
        };
        if !is_near(from.ip(), interfaces) && self.far.as_ref() != Some(near) {
            let name = self.far.as_ref().unwrap_or(&self.system);
            let _ = sockopt::set_tcp_congestion(stream, name);
        }
    }
}

/// Returns whether an address is this host's own.
fn is_near(address: IpAddr, interfaces: &[Interface]) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || interfaces.iter().any(|it| it.address == address)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::subnet::Subnet;

    fn interfaces() -> [Interface; 1] {
        [Interface {
            name: "eth0".to_string(),
            address: "10.1.2.3".parse().unwrap(),
            subnet: Subnet::parse("10.1.0.0/16").unwrap(),
        }]
    }

    #[test]
    fn addresses_of_this_host_are_near() {
        let near = |text: &str| is_near(text.parse().unwrap(), &interfaces());
        assert!(near("127.0.0.1") && near("127.1.2.3") && near("::1") && near("10.1.2.3"));
        assert!(near("::ffff:10.1.2.3") && near("::ffff:127.0.0.1"));
        assert!(!near("10.1.2.4") && !near("::ffff:10.1.2.4") && !near("fd00::1"));
    }

    #[test]
    fn connections_within_a_host_use_a_simple_control() {
        assert!(paces("bbr") && paces("bbr2") && !paces("cubic") && !paces("dctcp"));
        let auto = Congestion::new(&Wanted::Auto).unwrap();
        let near = auto.near.as_deref().unwrap_or(&auto.system);
        assert!(UNPACED.contains(&near), "{near}");
        assert_eq!(auto.far, None);
        let system = Congestion::new(&Wanted::System).unwrap();
        assert_eq!((system.near, system.far), (None, None));
    }

    #[test]
    fn a_refused_control_is_named_with_the_allowed_ones() {
        let error = Congestion::new(&Wanted::Named("nonsense".to_string())).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("nonsense") && text.contains(CONGESTION.name),
            "{text}"
        );
        assert!(text.contains("reno"), "{text}");
    }

    /// Returns the controls of both ends of a connection within the host, and of one from another
    /// host.
    fn of_connections(congestion: &Congestion) -> [String; 3] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        congestion.listen(&listener);
        let to = listener.local_addr().unwrap();
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        congestion.call(&socket, to.ip(), &[]);
        rustix::net::connect(&socket, &to).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        congestion.admit(&accepted, &[]);
        let far = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        congestion.call(
            &far,
            Ipv6Addr::from(0xfd00_u128 << 112 | 7).into(),
            &interfaces(),
        );
        let of = |name: Result<String, _>| name.unwrap();
        [
            of(sockopt::tcp_congestion(&socket)),
            of(sockopt::tcp_congestion(&accepted)),
            of(sockopt::tcp_congestion(&far)),
        ]
    }

    #[test]
    fn both_ends_use_the_chosen_control() {
        let system = Congestion::new(&Wanted::Auto).unwrap().system;
        let within = Congestion {
            near: Some("reno".to_string()),
            far: None,
            system: system.clone(),
        };
        assert_eq!(of_connections(&within), ["reno", "reno", &system]);
        let named = Congestion::new(&Wanted::Named("reno".to_string())).unwrap();
        assert_eq!(of_connections(&named), ["reno"; 3]);
        let own = Congestion::new(&Wanted::System).unwrap();
        assert_eq!(
            of_connections(&own),
            [&system, &system, &system].map(String::as_str)
        );
    }
}
