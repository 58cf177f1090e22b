//! Published names, as a launcher or a name server keeps them.

use std::collections::BTreeMap;

use crate::wire::Line;

/// The key under which a launcher that knows this host only says which network it is in. Processes in the same one reach
/// all processes that they spawn by the loopback interface.
pub const NETWORK: &str = "weft-network";

/// The name of the network namespace that this process is in; `None` if the system doesn't say.
pub fn network() -> Option<String> {
    let name = std::fs::read_link("/proc/self/ns/net").ok()?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{}/{}", boot.trim(), name.to_str()?))
}

/// Ports by the names of services.
#[derive(Debug, Default)]
pub struct Names {
    /// Kept in order, so that nothing depends on a hash.
    ports: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Whether a line is about published names.
pub fn is_about_names(line: &Line) -> bool {
    [&b"publish_name"[..], b"unpublish_name", b"lookup_name"].contains(&line.command())
}

impl Names {
    /// The answer to a line about names, its newline included; none to any other.
    pub fn answer(&mut self, line: &Line) -> Option<Vec<u8>> {
        let (service, port) = (line.raw("service"), line.raw("port"));
        let (text, value): (&str, &[u8]) = match (line.command(), service) {
            (b"publish_name", Some(name)) => match port {
                _ if self.ports.contains_key(name) => (
                    "cmd=publish_result rc=1 info=fail msg=service_is_published_already",
                    b"",
                ),
                Some(port) => {
                    self.ports.insert(name.to_vec(), port.to_vec());
                    ("cmd=publish_result rc=0 info=ok msg=success", b"")
                }
                None => (
                    "cmd=publish_result rc=1 info=fail msg=service_or_port_missing",
                    b"",
                ),
            },
            (b"publish_name", None) => (
                "cmd=publish_result rc=1 info=fail msg=service_or_port_missing",
                b"",
            ),
            (b"unpublish_name", name) => match name.and_then(|name| self.ports.remove(name)) {
                Some(_) => ("cmd=unpublish_result rc=0 info=ok msg=success", b""),
                None => (
                    "cmd=unpublish_result rc=1 info=fail msg=service_not_found",
                    b"",
                ),
            },
            (b"lookup_name", name) => match name.and_then(|name| self.ports.get(name)) {
                // It travels as it came, so that any escapes of the sender reach the receiver.
                Some(port) => ("cmd=lookup_result rc=0 info=ok port=", port),
                None => (
                    "cmd=lookup_result rc=1 info=fail msg=service_not_found",
                    b"",
                ),
            },
            _ => return None,
        };
        Some([text.as_bytes(), value, b"\n"].concat())
    }
}
