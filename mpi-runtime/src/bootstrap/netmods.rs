//! The transports between nodes and the choice among them.

use std::sync::Arc;

use netmod::{OpenError, Peer, Resolver, Transport};
use netmod_kit::variables::{Reader, Variable};
use netmod_kit::{Netmod, Open, Start};

/// The transports between nodes, in the order in which they are tried.
///
/// A new transport is a crate that depends on `netmod` and `netmod-kit`, and one line here. Its
/// control variables, their help and its category in the tool interface come from the crate. One that
/// needs a library of the system has a Cargo feature of its name.
pub const NETMODS: &[Netmod] = &[
    #[cfg(feature = "verbs")]
    netmod_verbs::NETMOD,
    netmod_tcp::NETMOD,
    #[cfg(feature = "ucx")]
    netmod_ucx::NETMOD,
    #[cfg(feature = "ofi")]
    netmod_ofi::NETMOD,
];

/// The transport between nodes that can encrypt.
const ENCRYPTING: &str = netmod_tcp::NETMOD.name;

/// Returns whether connections between nodes must be encrypted.
fn is_encrypted(variables: &Reader) -> bool {
    variables.text(netmod_tcp::ENCRYPT_VARIABLE).as_deref() == Some("1")
}

/// The value of `WEFT_NETMOD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The best transport that can be opened.
    Auto,
    /// The transport of this name.
    Only(&'static str),
    /// No transport between nodes.
    None,
}

impl Choice {
    /// Reads `WEFT_NETMOD`.
    ///
    /// # Errors
    /// No transport has this name.
    pub fn read(variables: &Reader) -> Result<Choice, String> {
        let encrypts = is_encrypted(variables);
        match variables.text("WEFT_NETMOD").as_deref() {
            None | Some("auto") => Ok(Choice::Auto),
            Some("none") => Ok(Choice::None),
            Some(other) => match NETMODS.iter().find(|netmod| netmod.name == other) {
                Some(_) if encrypts && other != ENCRYPTING => Err(format!(
                    "WEFT_NETMOD is {other:?} and {} (mpiexec -encrypt) is 1, but only {ENCRYPTING} encrypts; leave \
                     one of them out",
                    netmod_tcp::ENCRYPT_VARIABLE
                )),
                Some(netmod) => Ok(Choice::Only(netmod.name)),
                None => Err(format!(
                    "WEFT_NETMOD is {other:?}; it can be {}",
                    variable().kind
                )),
            },
        }
    }
}

/// Returns the names of all transports, with `word` before the last.
pub fn names(word: &str) -> String {
    let names: Vec<&str> = NETMODS.iter().map(|netmod| netmod.name).collect();
    enumerate(&names, word)
}

fn enumerate(names: &[&str], word: &str) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() => format!("{} {word} {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Returns the description of the control variable `WEFT_NETMOD`.
pub fn variable() -> Variable {
    let mut values = vec!["auto"];
    values.extend(NETMODS.iter().map(|netmod| netmod.name));
    values.push("none");
    let titles: Vec<String> = NETMODS
        .iter()
        .map(|netmod| format!("{} ({})", netmod.title, netmod.name))
        .collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let of = |can: fn(&Netmod) -> bool| {
        let netmods = NETMODS.iter().filter(|netmod| can(netmod));
        netmods.map(|netmod| netmod.name).collect::<Vec<_>>()
    };
    let help = format!(
        "The transport between nodes, the same on all ranks: {}. With auto it is the first of {} that \
         has an RDMA device to use, otherwise the first of {} that can be opened; none is opened if the \
         launcher says that all ranks share this node.",
        enumerate(&titles, "or"),
        enumerate(&of(|netmod| netmod.open_rdma.is_some()), "and"),
        enumerate(&of(|netmod| netmod.open.is_some()), "and"),
    );
    Variable {
        name: "WEFT_NETMOD",
        kind: enumerate(&values, "or").leak(),
        default: "auto",
        help: help.leak(),
    }
}

/// The parameters that all transports are opened with.
pub struct Place<'a> {
    /// The rank of this process.
    pub me: Peer,
    /// The control variables.
    pub variables: Reader<'a>,
    /// See [`Start::one_machine`].
    pub one_machine: bool,
    /// See [`Start::may_sleep`].
    pub may_sleep: bool,
    /// Returns the resolver for the transport of this name.
    pub resolver: &'a dyn Fn(&'static str) -> Arc<dyn Resolver>,
}

impl Place<'_> {
    fn open(&self, netmod: &Netmod, open: Open) -> Result<Arc<dyn Transport>, OpenError> {
        if netmod.name != ENCRYPTING && is_encrypted(&self.variables) {
            let variable = netmod_tcp::ENCRYPT_VARIABLE;
            return Err(OpenError(format!("it does not encrypt ({variable}=1)")));
        }
        open(&Start {
            me: self.me,
            resolver: (self.resolver)(netmod.name),
            variables: self.variables,
            one_machine: self.one_machine,
            may_sleep: self.may_sleep,
        })
    }
}

/// Returns the candidates to open with their names, best first. A transport that has a function for
/// RDMA devices is a candidate twice.
fn candidates() -> impl Iterator<Item = (String, &'static Netmod, Open)> {
    let rdma = NETMODS.iter().filter_map(|netmod| {
        let name = match netmod.open {
            Some(_) => format!("{} for RDMA", netmod.name),
            None => netmod.name.to_string(),
        };
        Some((name, netmod, netmod.open_rdma?))
    });
    let any = NETMODS
        .iter()
        .filter_map(|netmod| Some((netmod.name.to_string(), netmod, netmod.open?)));
    rdma.chain(any)
}

/// Opens the first transport between nodes that can be opened, and notes the candidates refused
/// before it.
///
/// # Errors
/// The text has the reasons of all candidates.
pub fn open(
    place: &Place,
    choice: Choice,
    notes: &mut Vec<String>,
) -> Result<Arc<dyn Transport>, String> {
    let mut refused = Vec::new();
    for (name, netmod, open) in candidates() {
        if choice != Choice::Auto && choice != Choice::Only(netmod.name) {
            continue;
        }
        match place.open(netmod, open) {
            Ok(transport) => {
                notes.extend(refused);
                return Ok(transport);
            }
            Err(error) => refused.push(format!("{name} is not used: {error}")),
        }
    }
    Err(refused.join("; "))
}

/// Tries each transport between nodes that is not open, and notes the result.
pub fn try_others(place: &Place, opened: &[Arc<dyn Transport>], notes: &mut Vec<String>) {
    let mut known: Vec<&str> = opened.iter().map(|transport| transport.name()).collect();
    for (name, netmod, open) in candidates() {
        match place.open(netmod, open) {
            Ok(transport) if known.contains(&transport.name()) => {}
            Ok(transport) => {
                known.push(transport.name());
                notes.push(format!("could be used: {}", transport.describe()));
                let considered = transport.considered().into_iter();
                notes.extend(considered.map(|other| format!("  not chosen: {other}")));
            }
            Err(error) => {
                let note = format!("{name} is not used: {error}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_transport_bear_its_name() {
        for netmod in NETMODS {
            let prefix = format!("WEFT_{}_", netmod.name.to_uppercase());
            for variable in netmod.variables {
                assert!(variable.name.starts_with(&prefix), "{}", variable.name);
            }
            assert!(netmod.open.is_some() || netmod.open_rdma.is_some());
        }
    }

    #[test]
    fn encryption_leaves_tcp_alone() {
        let read = |netmod: &str, encrypt: &str| {
            let value = |name: &str| match name {
                "WEFT_NETMOD" => Some(netmod.to_string()),
                netmod_tcp::ENCRYPT_VARIABLE => Some(encrypt.to_string()),
                _ => None,
            };
            Choice::read(&Reader::new(&value))
        };
        assert_eq!(read("auto", "1"), Ok(Choice::Auto));
        assert_eq!(read("tcp", "1"), Ok(Choice::Only("tcp")));
        assert_eq!(read("none", "1"), Ok(Choice::None));
        assert_eq!(read("verbs", "0"), Ok(Choice::Only("verbs")));
        let error = read("verbs", "1").unwrap_err();
        assert!(error.contains("WEFT_TCP_ENCRYPT") && error.contains("only tcp encrypts"));
        let value = |name: &str| (name == netmod_tcp::ENCRYPT_VARIABLE).then(|| "1".to_string());
        let place = Place {
            me: 0,
            variables: Reader::new(&value),
            one_machine: true,
            may_sleep: true,
            resolver: &|_| unreachable!("no other transport is opened"),
        };
        for (name, netmod, open) in candidates().filter(|(_, netmod, _)| netmod.name != "tcp") {
            let error = place.open(netmod, open).err().unwrap();
            assert!(error.0.contains("does not encrypt"), "{name}: {}", error.0);
        }
    }

    #[test]
    fn the_best_candidate_comes_first() {
        let names: Vec<String> = candidates().map(|(name, ..)| name).collect();
        assert_eq!(
            names,
            ["verbs", "ucx for RDMA", "ofi for RDMA", "tcp", "ucx", "ofi"]
        );
        assert_eq!(variable().kind, "auto, verbs, tcp, ucx, ofi or none");
    }
}
