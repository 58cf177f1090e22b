//! Published names, as a launcher or a name server keeps them.

use std::collections::BTreeMap;

use crate::port_name::PortName;
use crate::wire::{Line, escape};

/// The key of the launcher's network namespace, set if the launcher knows this host only. Processes
/// in the same namespace reach all processes that they spawn over the loopback interface.
pub const NETWORK: &str = "weft-network";

/// Returns the name of this process's network namespace, or `None` if the system doesn't show it.
pub fn network() -> Option<String> {
    let name = std::fs::read_link("/proc/self/ns/net").ok()?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{}/{}", boot.trim(), name.to_str()?))
}

/// Most names that a server keeps.
pub const MAX_NAMES: usize = 4096;
/// Longest name of a service or a port, in bytes, escapes included.
pub const MAX_LENGTH: usize = 2048;

/// The rights of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Look names up without the secrets of their ports.
    LookUp,
    /// Everything.
    All,
}

/// Ports by the names of services.
#[derive(Debug, Default)]
pub struct Names {
    /// Sorted, so that no behaviour depends on a hash.
    ports: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Returns a port's name for clients that may not connect. Returns `None` if its secret part can't
/// be identified.
fn without_secret(port: &[u8]) -> Option<Vec<u8>> {
    let name = PortName::parse(std::str::from_utf8(port).ok()?)?;
    Some(name.without_secret().to_text(usize::MAX).into_bytes())
}

fn refused(command: &str, why: &str) -> Vec<u8> {
    let why = escape(why.as_bytes());
    [
        format!("cmd={command} rc=1 info=fail msg=").as_bytes(),
        &why,
        b"\n",
    ]
    .concat()
}

impl Names {
    /// Returns the answer to a line about names, with its newline. Returns `None` for any other
    /// line.
    pub fn answer(&mut self, line: &Line, rights: Rights) -> Option<Vec<u8>> {
        let service = line.raw("service").unwrap_or_default();
        let (result, done) = match line.command() {
            b"publish_name" => (
                "publish_result",
                self.publish(service, line.raw("port"), rights),
            ),
            b"unpublish_name" => ("unpublish_result", self.unpublish(service, rights)),
            b"lookup_name" => ("lookup_result", self.look_up(service, rights)),
            _ => return None,
        };
        Some(match done {
            Ok(rest) => [
                format!("cmd={result} rc=0 info=ok ").as_bytes(),
                &rest,
                b"\n",
            ]
            .concat(),
            Err(why) => refused(result, why),
        })
    }

    fn publish(
        &mut self,
        service: &[u8],
        port: Option<&[u8]>,
        rights: Rights,
    ) -> Result<Vec<u8>, &'static str> {
        let port = port.unwrap_or_default();
        if rights != Rights::All {
            return Err(NOT_ALLOWED);
        }
        if service.is_empty() || port.is_empty() {
            return Err("the name of the service or the port is missing");
        }
        if service.len() > MAX_LENGTH || port.len() > MAX_LENGTH {
            return Err(
                "the name of the service or the port is too long; at most 2048 bytes are kept",
            );
        }
        if self.ports.contains_key(service) {
            return Err("the service is already published");
        }
        if self.ports.len() >= MAX_NAMES {
            return Err("4096 names are already published; unpublish some");
        }
        self.ports.insert(service.to_vec(), port.to_vec());
        Ok(b"msg=success".to_vec())
    }

    fn unpublish(&mut self, service: &[u8], rights: Rights) -> Result<Vec<u8>, &'static str> {
        if rights != Rights::All {
            return Err(NOT_ALLOWED);
        }
        let found = self.ports.remove(service);
        found.map(|_| b"msg=success".to_vec()).ok_or(NOT_FOUND)
    }

    fn look_up(&self, service: &[u8], rights: Rights) -> Result<Vec<u8>, &'static str> {
        let port = self.ports.get(service).ok_or(NOT_FOUND)?;
        let port = match rights {
            // Passed on unchanged, so that any escapes of the sender reach the receiver.
            Rights::All => Some(port.clone()),
            Rights::LookUp => without_secret(port),
        };
        Ok([&b"port="[..], &port.ok_or(NOT_ALLOWED)?].concat())
    }
}

const NOT_FOUND: &str = "the service is not published";
const NOT_ALLOWED: &str = "this job has proved neither the name server's secret nor its user";

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(names: &mut Names, line: &str, rights: Rights) -> String {
        let answer = names.answer(&Line::parse(line.as_bytes()), rights).unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn without_rights_there_is_no_secret_and_no_change() {
        let mut names = Names::default();
        let secret = "a5".repeat(32);
        let port = format!("weft2/{secret}/7/4711/10.0.0.1,127.0.0.1");
        for (line, rights, expected) in [
            (
                format!("publish_name service=a port={port}"),
                Rights::LookUp,
                "rc=1",
            ),
            (
                format!("publish_name service=a port={port}"),
                Rights::All,
                "rc=0",
            ),
            (
                format!("publish_name service=a port={port}"),
                Rights::All,
                "rc=1",
            ),
            (
                "publish_name service=b port=anything".into(),
                Rights::All,
                "rc=0",
            ),
            ("publish_name service=a".into(), Rights::All, "rc=1"),
            ("unpublish_name service=a".into(), Rights::LookUp, "rc=1"),
            ("lookup_name service=a".into(), Rights::All, &port),
            (
                "lookup_name service=a".into(),
                Rights::LookUp,
                "port=weft2/-/7/4711/10.0.0.1,127.0.0.1",
            ),
            ("lookup_name service=b".into(), Rights::All, "port=anything"),
            ("lookup_name service=b".into(), Rights::LookUp, "rc=1"),
            ("lookup_name service=c".into(), Rights::All, "rc=1"),
            ("unpublish_name service=a".into(), Rights::All, "rc=0"),
            ("unpublish_name service=a".into(), Rights::All, "rc=1"),
            ("lookup_name".into(), Rights::All, "rc=1"),
        ] {
            let said = answer(&mut names, &format!("cmd={line}"), rights);
            assert!(said.contains(expected), "{line} {rights:?}: {said}");
            assert!(
                rights == Rights::All || !said.contains(&secret),
                "{line}: {said}"
            );
        }
        assert_eq!(names.answer(&Line::parse(b"cmd=get"), Rights::All), None);
    }

    #[test]
    fn names_are_bounded_in_number_and_length() {
        let mut names = Names::default();
        let long = "x".repeat(MAX_LENGTH + 1);
        for line in [
            format!("service={long} port=p"),
            format!("service=s port={long}"),
        ] {
            let said = answer(&mut names, &format!("cmd=publish_name {line}"), Rights::All);
            assert!(said.contains("too\\ long"), "{said}");
        }
        for number in 0..=MAX_NAMES {
            let line = format!("cmd=publish_name service={number} port=p");
            let is_kept = answer(&mut names, &line, Rights::All).contains("rc=0");
            assert_eq!(is_kept, number < MAX_NAMES);
        }
    }
}
