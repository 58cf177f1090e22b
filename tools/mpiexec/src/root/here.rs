//! Recognizes the names of this machine.

use std::net::{IpAddr, UdpSocket};

use crate::report;

/// Returns whether a name or an address is this machine's, without a name server.
pub fn is_here(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match host.parse::<IpAddr>() {
        // A socket can be bound to this machine's addresses only.
        Ok(address) => address.is_loopback() || UdpSocket::bind((address, 0)).is_ok(),
        // The domain follows a name's first dot.
        Err(_) => same(host, &report::host()),
    }
}

fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    match (one.contains('.'), other.contains('.')) {
        (true, true) => one == other,
        _ => short(&one) == short(&other),
    }
}

/// Returns the same name for all names of one host.
pub fn canonical(host: &str) -> String {
    match is_here(host) {
        true => "localhost".to_owned(),
        false => host.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_are_known() {
        let own = report::host();
        for name in ["localhost", "127.0.0.1", "[::1]", "127.9.9.9", own.as_str()] {
            assert!(is_here(name), "{name}");
        }
        assert!(
            is_here(&format!(
                "{}.domain.example",
                own.split('.').next().unwrap()
            )) || own.contains('.')
        );
        // An address for examples, which nobody has.
        for name in ["192.0.2.7", "2001:db8::7", "elsewhere.example"] {
            assert!(!is_here(name), "{name}");
        }
        assert!(same("a", "A.b") && !same("a.b", "a.c") && !same("a", "b"));
    }
}
