//! The commands that start agents on other hosts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use super::greeting::OPTION;
use super::messages::{Boot, Member};
use super::wire::Bytes;

/// What `-bootstrap` knows.
pub const KINDS: &[&str] = &[
    "ssh", "rsh", "fork", "slurm", "pbs", "lsf", "sge", "k8s", "manual",
];

/// The kind that fits the surroundings if none was asked for.
pub fn usual(variable: impl Fn(&str) -> bool) -> &'static str {
    match () {
        () if variable("SLURM_JOB_ID") && variable("SLURM_JOB_NODELIST") => "slurm",
        () if variable("LSB_MCPU_HOSTS") => "lsf",
        () if variable("PE_HOSTFILE") => "sge",
        () => "ssh",
    }
}

fn os(bytes: &Bytes) -> OsString {
    OsString::from_vec(bytes.0.clone())
}

/// The command that starts the agent of `member`; `None` if a person is to do it.
pub fn command(boot: &Boot, member: &Member) -> Option<Command> {
    let kind = boot.kind.as_str();
    let agent = os(&boot.agent);
    let usual = match kind {
        "fork" => return Some(with(&agent, &[OPTION])),
        "manual" => return None,
        "slurm" => "srun",
        "pbs" => "pbs_tmrsh",
        "lsf" => "blaunch",
        "sge" => "qrsh",
        "k8s" => "kubectl",
        kind => kind,
    };
    let exec = boot.exec.as_ref().map_or_else(|| usual.into(), os);
    let mut command = Command::new(&exec);
    // A wrapper gets what all of its kind understand: host and command.
    let is_usual = exec.as_bytes().rsplit(|b| *b == b'/').next() == Some(usual.as_bytes());
    if is_usual {
        match kind {
            "ssh" => {
                // It must never ask anybody for anything.
                command.args(["-x", "-T", "-oBatchMode=yes"]);
                command.arg(format!("-oConnectTimeout={}", boot.patience.max(1)));
                command.arg("-oLogLevel=ERROR");
            }
            "slurm" => {
                command.args(["--nodes=1", "--ntasks=1", "--ntasks-per-node=1"]);
                command.args(["--overlap", "--mpi=none"]);
                command.args(["--cpu-bind=none", "--quiet", "--export=ALL"]);
            }
            "sge" => {
                command.arg("-inherit");
            }
            "k8s" => {
                command.args(["exec", "-i"]);
            }
            _ => {}
        }
    }
    command.args(boot.words.iter().map(os));
    if matches!(kind, "ssh" | "rsh") {
        if let Some(port) = member.port {
            command.arg(format!("-p{port}"));
        }
        if let Some(user) = &member.user {
            command.arg(format!("-l{user}"));
        }
    }
    match kind {
        "slurm" if is_usual => {
            command.arg(format!("--nodelist={}", member.name));
            command.arg(agent).arg(OPTION);
        }
        "k8s" if is_usual => {
            command.args([member.name.as_str(), "--"]);
            command.arg(agent).arg(OPTION);
        }
        _ => {
            command.arg(&member.name).arg(remote(&agent));
        }
    }
    Some(command)
}

fn with(program: &OsStr, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// The words for the shell of the other host.
pub fn remote(agent: &OsStr) -> OsString {
    let mut words = quoted(agent.as_bytes());
    words.push(b' ');
    words.extend_from_slice(OPTION.as_bytes());
    OsString::from_vec(words)
}

fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+,:@%".contains(b);
    if word.iter().all(plain) {
        return word.to_vec();
    }
    let mut text = vec![b'\''];
    for &byte in word {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
    text
}

/// What to do about a host whose agent did not start.
pub fn advice(boot: &Boot, member: &Member, code: Option<i32>) -> String {
    let name = &member.name;
    let agent = os(&boot.agent);
    let agent = agent.to_string_lossy();
    match (boot.kind.as_str(), code) {
        (_, Some(126 | 127)) => format!(
            "'{agent}' must be there: install Weft in the same folder on all hosts, or name the \
             folder by -prefix"
        ),
        ("ssh", _) => format!(
            "'ssh -o BatchMode=yes {name} true' must work from here without a question; keys, \
             user and port belong into ~/.ssh/config or the file of hosts"
        ),
        ("slurm", _) => format!("try 'srun --nodelist={name} -n 1 --overlap true' in this job"),
        (kind, _) => format!("try its command ({kind}) by hand with 'true' in place of '{agent}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: &str, exec: Option<&str>, member: &Member) -> String {
        let boot = Boot {
            kind: kind.to_owned(),
            exec: exec.map(|exec| Bytes(exec.into())),
            words: vec![Bytes(b"-v".to_vec())],
            agent: Bytes(b"/opt/we ft/bin/mpiexec".to_vec()),
            patience: 9,
            ..Boot::default()
        };
        let Some(command) = command(&boot, member) else {
            return String::new();
        };
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        words.join("|")
    }

    #[test]
    fn each_kind_has_its_command() {
        let member = Member {
            name: "b".into(),
            user: Some("me".into()),
            port: Some(2222),
            ..Member::default()
        };
        let plain = Member {
            name: "b".into(),
            ..Member::default()
        };
        let remote = "'/opt/we ft/bin/mpiexec' -weft-agent";
        assert_eq!(
            words("ssh", None, &member),
            format!(
                "ssh|-x|-T|-oBatchMode=yes|-oConnectTimeout=9|-oLogLevel=ERROR|-v|-p2222|-lme|b|{remote}"
            )
        );
        // A wrapper for kubectl, as mpi-operator has it, gets the host first.
        assert_eq!(
            words("ssh", Some("/etc/mpi/kubexec.sh"), &plain),
            format!("/etc/mpi/kubexec.sh|-v|b|{remote}")
        );
        assert!(words("ssh", Some("/opt/bin/ssh"), &plain).contains("BatchMode"));
        assert!(
            words("slurm", None, &plain)
                .ends_with("--export=ALL|-v|--nodelist=b|/opt/we ft/bin/mpiexec|-weft-agent")
        );
        assert!(words("k8s", None, &plain).starts_with("kubectl|exec|-i|-v|b|--|"));
        assert_eq!(words("lsf", None, &plain), format!("blaunch|-v|b|{remote}"));
        assert_eq!(
            words("fork", None, &plain),
            "/opt/we ft/bin/mpiexec|-weft-agent"
        );
        assert_eq!(words("manual", None, &plain), "");
    }

    #[test]
    fn nothing_secret_is_on_a_command_line() {
        for kind in KINDS {
            let text = words(kind, None, &Member::default());
            assert!(!text.contains("weft-agent "), "{text}");
        }
    }

    #[test]
    fn shells_get_one_word() {
        assert_eq!(quoted(b"/a/b-c"), b"/a/b-c");
        assert_eq!(quoted(b"a'b"), b"'a'\\''b'");
        assert_eq!(quoted(b"$(x)"), b"'$(x)'");
    }

    #[test]
    fn the_surroundings_decide() {
        assert_eq!(usual(|_| false), "ssh");
        assert_eq!(usual(|name| name.starts_with("SLURM_")), "slurm");
        assert_eq!(usual(|name| name == "PE_HOSTFILE"), "sge");
    }
}
