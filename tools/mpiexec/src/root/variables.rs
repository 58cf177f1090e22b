//! Variables of other launchers, which users and mpi-operator set, for hosts and the start of agents. An
//! option overrides a variable.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::children::KINDS;
use crate::hosts::batch::Surroundings;
use crate::options::{Many, split};

/// Variables with host files. mpi-operator sets one of each launcher.
pub const FILES: &[&str] = &[
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
];

/// Variables with a command in place of ssh.
const COMMANDS: &[&str] = &[
    "HYDRA_LAUNCHER_EXEC",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",
    "OMPI_MCA_plm_rsh_agent",
    "PRTE_MCA_plm_ssh_agent",
];

/// Variables with arguments for ssh.
const WORDS: &[&str] = &[
    "HYDRA_LAUNCH_EXTRA_ARGS",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
    "OMPI_MCA_plm_rsh_args",
    "PRTE_MCA_plm_ssh_args",
];

/// Variables with the kind of `-bootstrap`.
const BOOTSTRAPS: &[&str] = &["HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP"];
/// Variables with the batch system to ask.
const SYSTEMS: &[&str] = &["HYDRA_RMK", "I_MPI_HYDRA_RMK"];
/// Variables with the network interface of agents.
const INTERFACES: &[&str] = &["HYDRA_IFACE", "I_MPI_HYDRA_IFACE"];
/// Variables that encrypt the ranks' connections.
const ENCRYPT: &[&str] = &["WEFT_TCP_ENCRYPT"];
/// Variables with the number of ranks on each host.
const PER_HOST: &[&str] = &["I_MPI_PERHOST"];

/// Returns the names of all variables, for the manual.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    let all = [
        FILES, COMMANDS, WORDS, BOOTSTRAPS, SYSTEMS, INTERFACES, ENCRYPT, PER_HOST,
    ];
    all.into_iter().flatten().copied()
}

/// Takes the settings of variables that no option sets.
pub fn take(many: &mut Many, around: &impl Surroundings) -> Result<(), String> {
    let find = |names: &[&'static str]| {
        let found = names
            .iter()
            .find_map(|&name| Some((name, around.variable(name)?)));
        // This value stands for no setting.
        found.filter(|(_, value)| value != "default")
    };
    let find_text = |names: &[&'static str]| {
        let (_, value) = find(names)?;
        Some(value.to_string_lossy().into_owned())
    };
    if many.bootstrap.is_none()
        && many.exec.is_none()
        && let Some(kind) = find_text(BOOTSTRAPS)
        && KINDS.contains(&kind.as_str())
    {
        many.bootstrap = Some(kind);
    }
    if many.exec.is_none()
        && let Some((_, command)) = find(COMMANDS)
    {
        // Open MPI's may list some, of which the first that is there counts.
        let mut all = command.as_bytes().split(|byte| *byte == b':');
        let first = all.next().unwrap_or_default().trim_ascii();
        let words = split(first).unwrap_or_default();
        let mut words = words.into_iter();
        if let Some(program) = words.next() {
            if program != "ssh" {
                many.exec = Some(program);
            }
            many.words.splice(0..0, words);
        }
    }
    if let Some((name, text)) = find(WORDS) {
        let words = split(text.as_bytes());
        let words: Vec<OsString> =
            words.ok_or_else(|| format!("{name}: a quotation mark lacks its partner"))?;
        many.words.splice(0..0, words);
    }
    if many.rmk.is_none()
        && let Some(system) = find_text(SYSTEMS)
        && (system == "user" || crate::hosts::batch::SYSTEMS.contains(&system.as_str()))
    {
        many.rmk = Some(system);
    }
    if many.interface.is_none() {
        many.interface = find_text(INTERFACES);
    }
    many.encrypt |= find_text(ENCRYPT).as_deref() == Some("1");
    if many.per_host.is_none()
        && let Some(count) = find_text(PER_HOST)
    {
        // Words like `all` mean the hosts' own slots.
        many.per_host = count.parse().ok().filter(|count| *count > 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    struct Around;

    impl Surroundings for Around {
        fn variable(&self, name: &str) -> Option<OsString> {
            let value: &[u8] = match name {
                "HYDRA_LAUNCHER_EXEC" => b"/\xff/agent -x : ssh",
                "HYDRA_LAUNCH_EXTRA_ARGS" => b"-i '\xfe a'",
                _ => return None,
            };
            Some(OsStr::from_bytes(value).to_owned())
        }
        fn file(&self, _path: &OsStr) -> Result<String, String> {
            Err(String::new())
        }
        fn flux(&self) -> Result<String, String> {
            Err(String::new())
        }
    }

    #[test]
    fn commands_and_their_words_are_bytes() {
        let mut many = Many::default();
        take(&mut many, &Around).unwrap();
        assert_eq!(
            many.exec,
            Some(OsStr::from_bytes(b"/\xff/agent").to_owned())
        );
        let words = [&b"-i"[..], b"\xfe a", b"-x"].map(OsStr::from_bytes);
        assert_eq!(many.words, words);
    }
}
