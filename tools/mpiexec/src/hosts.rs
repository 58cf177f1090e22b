//! Hosts of a job: their names in lists, files and batch systems, and the placement of ranks.
//! The module parses and computes only; it starts no process and opens no connection.

pub mod batch;
pub mod file;
pub mod list;
pub mod place;
pub mod rankfile;

/// Most hosts in one list; a longer list is an error.
pub const MOST_HOSTS: usize = 65_536;

/// Most bytes of the name of a host or user. DNS allows 253 (RFC 1035, section 2.3.4).
pub const LONGEST_NAME: usize = 255;

/// Most ranks of a job; a larger number is an error.
pub const MAX_RANKS: usize = 65_536;

/// Most slots of a host. Larger numbers are cut to this one, so that sums of slots don't overflow.
pub const MOST_SLOTS: usize = 1 << 30;

/// A host with the settings of its list, file or batch system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// Ranks that it should get, if given.
    pub slots: Option<usize>,
    /// Ranks that it may get at most.
    pub most: Option<usize>,
    /// The user for ssh.
    pub user: Option<String>,
    /// The port for ssh.
    pub port: Option<u16>,
}

impl Host {
    /// Creates a host without settings.
    pub fn named(name: &str) -> Host {
        Host {
            name: name.to_owned(),
            ..Host::default()
        }
    }
}

/// Parses `[user@]host[:ranks]`, where `host` may have ranges, and an IPv6 address is in brackets.
pub fn word(text: &str) -> Result<Vec<Host>, String> {
    let (user, rest) = match text.split_once('@') {
        Some(("", _)) => return Err(format!("'{text}' has nothing before its '@'")),
        Some((name, rest)) => (Some(user(name)?), rest),
        None => (None, text),
    };
    let (name, slots) = name_and_slots(rest)?;
    let names = match list::is_address(name) {
        true => vec![name.trim_matches(['[', ']']).to_owned()],
        false => list::expand(name)?,
    };
    for name in &names {
        check_name(name)?;
    }
    let host = |name| Host {
        name,
        slots,
        user: user.clone(),
        ..Host::default()
    };
    Ok(names.into_iter().map(host).collect())
}

fn name_and_slots(text: &str) -> Result<(&str, Option<usize>), String> {
    // In an IPv6 address without brackets no colon separates the number of ranks.
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    let after = text.rfind(']').map_or(0, |at| at + 1);
    match text[after..].find(':') {
        None => Ok((text, None)),
        Some(at) => {
            let (name, number) = (&text[..after + at], &text[after + at + 1..]);
            Ok((name, Some(ranks(number)?)))
        }
    }
}

/// Parses a number of ranks, 1 or more.
pub fn ranks(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("a host has 0 ranks; leave the host out".to_owned()),
        Ok(n) => Ok(n.min(MOST_SLOTS)),
        Err(_) => Err(format!("'{text}' is not a number of ranks")),
    }
}

/// Checks the name of a user, which becomes an argument of ssh.
pub fn user(name: &str) -> Result<String, String> {
    let is_fine = |c: char| c.is_alphanumeric() || "._-+$\\".contains(c);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_fine) {
        return Err(format!("'{name}' can't be the name of a user"));
    }
    if name.len() > LONGEST_NAME {
        return Err(format!(
            "the name of a user has more than {LONGEST_NAME} characters"
        ));
    }
    Ok(name.to_owned())
}

/// Checks the name of a host. It becomes an argument of ssh, so it must not look like an option.
fn check_name(name: &str) -> Result<(), String> {
    let marks = match list::is_address(name) {
        true => "._-:%",
        false => "._-",
    };
    let is_fine = |c: char| c.is_alphanumeric() || marks.contains(c);
    if name.is_empty() {
        return Err("a host has no name".to_owned());
    }
    if name.starts_with('-') || !name.chars().all(is_fine) {
        return Err(format!("'{name}' can't be the name of a host"));
    }
    Ok(())
}

/// Parses a comma-separated list of hosts.
pub fn list(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for part in list::split(text)? {
        let part = part.trim();
        if !part.is_empty() {
            hosts.extend(word(part)?);
        }
        list::check_count(hosts.len())?;
    }
    match hosts.is_empty() {
        true => Err(format!("'{text}' names no host")),
        false => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(hosts: &[Host]) -> Vec<String> {
        let one = |host: &Host| {
            let user = host
                .user
                .as_ref()
                .map_or(String::new(), |u| format!("{u}@"));
            let slots = host.slots.map_or(String::new(), |n| format!("={n}"));
            format!("{user}{}{slots}", host.name)
        };
        hosts.iter().map(one).collect()
    }

    #[test]
    fn lists_are_read() {
        for (text, expected) in [
            ("a", vec!["a"]),
            ("a:4,b:4", vec!["a=4", "b=4"]),
            ("me@a:2, b ,", vec!["me@a=2", "b"]),
            ("n[1-3]:2,x", vec!["n1=2", "n2=2", "n3=2", "x"]),
            ("[::1]:4,fe80::1", vec!["::1=4", "fe80::1"]),
            ("10.0.0.1:3,a.b.c", vec!["10.0.0.1=3", "a.b.c"]),
            ("n[08,10]r", vec!["n08r", "n10r"]),
        ] {
            assert_eq!(show(&list(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_in_lists_are_named() {
        for (text, part) in [
            ("", "names no host"),
            (",", "names no host"),
            ("a:0", "0 ranks"),
            ("a:x", "'x' is not a number"),
            ("a:", "'' is not a number"),
            ("@a", "before its '@'"),
            ("-oProxyCommand=x", "can't be the name"),
            ("a;b", "can't be the name"),
            ("-l@a", "'-l' can't be the name of a user"),
            ("a#b@c", "'a#b' can't be the name of a user"),
            ("a$(b)", "can't be the name"),
            ("n[1-", "without its"),
            ("a:[1-2]:3", "can't be the name"),
            ("a%[1-2]", "can't be the name"),
            ("a[1-65536],b", "more than 65536 hosts"),
        ] {
            let error = list(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
