//! The commands that start agents on other hosts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use crate::children::keys::Keys;
use crate::wire::frames::Bytes;
use crate::wire::greeting::OPTION;
use crate::wire::messages::{Boot, Member};

/// The kinds of `-bootstrap`.
pub const KINDS: &[&str] = &[
    "ssh", "rsh", "fork", "slurm", "pbs", "lsf", "sge", "k8s", "manual",
];

/// Returns the kind for this environment if the user has not chosen one.
pub fn usual(variable: impl Fn(&str) -> bool) -> &'static str {
    match () {
        () if variable("SLURM_JOB_ID") && variable("SLURM_JOB_NODELIST") => "slurm",
        () if variable("LSB_MCPU_HOSTS") => "lsf",
        () if variable("PE_HOSTFILE") => "sge",
        () => "ssh",
    }
}

pub(super) fn os(bytes: &Bytes) -> OsString {
    OsString::from_vec(bytes.0.clone())
}

/// A shell script that calls ssh with its slow key exchange behind the others.
///
/// OpenSSH before 9.9 prefers a hybrid (sntrup761) that protects today's traffic from later computers. It
/// takes five times as long as the rest of a connection, on both sides, and the only secret of this
/// traffic is worth nothing once the job has ended. Only the order is changed: what ssh's own files
/// leave out for a host stays out.
const QUICKLY: &str = r#"ssh=$1; shift
list=$("$ssh" -G "$@" 2>/dev/null </dev/null | while read -r name value; do
  [ "$name" = kexalgorithms ] && echo "$value"
done)
IFS=,; quick=; slow=
for one in $list; do
  case $one in sntrup*) slow=$slow,$one ;; *) quick=$quick,$one ;; esac
done
if [ -n "$quick" ] && [ -n "$slow" ]; then exec "$ssh" "-oKexAlgorithms=${quick#,}$slow" "$@"; fi
exec "$ssh" "$@""#;

/// Returns whether a program exists, by its path or in `PATH`.
fn is_there(program: &OsStr) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    program.as_bytes().contains(&b'/') && Path::new(program).exists()
        || std::env::split_paths(&folders).any(|dir| dir.join(program).is_file())
}

/// Returns the command that starts the agent of `member`; `None` if the user starts it. `keys` is ssh's
/// order of key exchanges.
pub fn command(boot: &Boot, keys: &Keys, member: &Member) -> Option<Command> {
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
    // A wrapper gets what all of its kind understand: host and command.
    let is_usual = exec.as_bytes().rsplit(|b| *b == b'/').next() == Some(usual.as_bytes());
    let chosen = |word: &Bytes| {
        word.0
            .windows(3)
            .any(|part| part.eq_ignore_ascii_case(b"kex"))
    };
    let mut command = match kind {
        "ssh"
            if is_usual
                && *keys == Keys::Unknown
                && !boot.words.iter().any(chosen)
                && is_there(&exec) =>
        {
            let mut command = with(OsStr::new("/bin/sh"), &["-c", QUICKLY, "sh"]);
            command.arg(&exec);
            command
        }
        _ => Command::new(&exec),
    };
    if is_usual {
        match kind {
            "ssh" => {
                // It must never ask anybody for anything.
                command.args(["-x", "-T", "-oBatchMode=yes"]);
                command.arg(format!("-oConnectTimeout={}", boot.patience.max(1)));
                command.arg("-oLogLevel=ERROR");
                if let (Keys::List(list), false) = (keys, boot.words.iter().any(chosen)) {
                    command.arg(format!("-oKexAlgorithms={list}"));
                }
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

/// The kind of the agent of the root's own host, which is a fork of the root.
pub const OWN: &str = "own";

/// Returns whether the hosts of a kind have names of the network: pods may not, and people know others.
pub fn has_host_name(boot: &Boot) -> bool {
    !matches!(boot.kind.as_str(), "k8s" | "manual")
}

/// The kind of agents that nobody starts (`-join`).
pub const JOIN: &str = "join";

/// Returns whether the process that runs an agent has nothing more to do after the agent's farewell,
/// so that it need not end by itself.
pub fn may_be_ended(boot: &Boot) -> bool {
    boot.kind == OWN || boot.kind == "ssh" && boot.exec.is_none()
}

/// Returns the command line for the shell of the other host.
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

/// Returns the advice for a host whose agent did not start.
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
        let Some(command) = command(&boot, &Keys::Unknown, member) else {
            return String::new();
        };
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        // The words are the same with and without the shell that asks ssh first.
        let words = words.join("|");
        let shell = format!("/bin/sh|-c|{QUICKLY}|sh|");
        words.strip_prefix(&shell).unwrap_or(&words).to_owned()
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
    fn ssh_agrees_on_keys_quickly_as_far_as_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let ssh = dir.path().join("ssh");
        let run = |list: &str| {
            let script = format!(
                "#!/bin/sh\nif [ \"$1\" = -G ]; then printf 'port 22\\nkexalgorithms {list}\\n'; else printf '%s|' \"$@\"; fi\n"
            );
            std::fs::write(&ssh, script).unwrap();
            // The script is run by a shell, since it was just written and may still be held open elsewhere.
            let quickly = QUICKLY.replace("\"$ssh\"", "sh \"$ssh\"");
            let mut command = with(OsStr::new("/bin/sh"), &["-c", &quickly, "sh"]);
            let output = command
                .arg(&ssh)
                .args(["-x", "a b", "c,d"])
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let slow = "sntrup761x25519-sha512,sntrup761x25519-sha512@openssh.com";
        assert_eq!(
            run(&format!("{slow},curve25519-sha256,ecdh")),
            format!("-oKexAlgorithms=curve25519-sha256,ecdh,{slow}|-x|a b|c,d|")
        );
        // Nothing else is allowed, or nothing is slow, or an old ssh says nothing.
        for list in [slow, "mlkem768x25519-sha256,curve25519-sha256", ""] {
            assert_eq!(run(list), "-x|a b|c,d|");
        }
        let boot = Boot {
            kind: "ssh".to_owned(),
            words: vec![Bytes(b"-oKexAlgorithms=x".to_vec())],
            ..Boot::default()
        };
        let list = Keys::List("a,b".to_owned());
        for keys in [&Keys::Unknown, &list] {
            let asked = command(&boot, keys, &Member::default()).unwrap();
            assert_eq!(asked.get_program(), "ssh");
            assert!(asked.get_args().all(|word| word != "-oKexAlgorithms=a,b"));
        }
        // What was asked once counts for all.
        let boot = Boot {
            words: Vec::new(),
            ..boot
        };
        for (keys, there) in [(Keys::Usual, false), (list, true)] {
            let known = command(&boot, &keys, &Member::default()).unwrap();
            assert_eq!(known.get_program(), "ssh");
            let mut words = known.get_args();
            assert_eq!(words.any(|word| word == "-oKexAlgorithms=a,b"), there);
        }
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
