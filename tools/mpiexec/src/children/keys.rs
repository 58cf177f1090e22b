//! The order in which ssh tries key exchanges; asked once for all hosts where that is right.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::wire::messages::Boot;

/// The order of key exchanges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// Unknown: ssh is asked for each host.
    #[default]
    Unknown,
    /// The order of ssh itself.
    Usual,
    /// This list.
    List(String),
}

/// The file for all users of Debian's, Fedora's and SUSE's ssh, which may include a folder.
const SYSTEM: &str = "/etc/ssh/ssh_config";
const FOLDER: &str = "/etc/ssh/ssh_config.d";
/// The ssh that reads them.
const PROGRAMS: [&str; 2] = ["/usr/bin/ssh", "/bin/ssh"];

/// Puts the slow key exchanges of a list behind the others. Returns `None` if that changes nothing.
fn reordered(list: &str) -> Option<String> {
    let is_slow = |one: &&str| one.starts_with("sntrup");
    let (slow, quick): (Vec<&str>, Vec<&str>) = list.split(',').partition(is_slow);
    let some = !slow.is_empty() && !quick.is_empty();
    some.then(|| [quick, slow].concat().join(","))
}

/// Returns whether a file of ssh has the same key exchanges for all hosts, which is quick to find out.
fn is_alike(text: &str) -> bool {
    let mut lines = text.lines().map(|line| line.trim().to_ascii_lowercase());
    lines.all(|line| {
        let words = ["kexalgorithms", "match", "canonical", "include"];
        let allowed = format!("include {FOLDER}/*.conf");
        line.starts_with('#')
            || line.split_whitespace().eq(allowed.split_whitespace())
            || !words.iter().any(|word| line.contains(word))
    })
}

/// Returns [`is_alike`] of a file; `true` if it is missing.
fn file_is_alike(path: &Path) -> bool {
    match fs::read_to_string(path) {
        Ok(text) => is_alike(&text),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Returns the files that ssh reads if it is called with these arguments.
fn files(words: &[OsString]) -> Vec<PathBuf> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(name) = word.as_bytes().strip_prefix(b"-F") {
            let name = match name {
                [] => words.next().map_or(OsStr::new(""), |next| next.as_os_str()),
                name => OsStr::from_bytes(name),
            };
            return vec![name.into()];
        }
    }
    let mut all = vec![SYSTEM.into()];
    all.extend(std::env::home_dir().map(|home| home.join(".ssh/config")));
    let folder = fs::read_dir(FOLDER).into_iter().flatten();
    all.extend(folder.flatten().map(|entry| entry.path()));
    all
}

/// Returns whether the program `exec` is the ssh whose files are known.
fn is_known(exec: &OsStr) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = match exec.as_bytes().contains(&b'/') {
        true => Some(PathBuf::from(exec)),
        false => std::env::split_paths(&folders)
            .map(|folder| folder.join(exec))
            .find(|path| path.is_file()),
    };
    found.is_some_and(|path| PROGRAMS.iter().any(|known| path == Path::new(known)))
}

/// Asks ssh about `host` for all hosts, if its files treat all alike. It costs as much as a third of what
/// starting an agent costs.
pub fn ask(boot: &Boot, host: &str) -> Keys {
    let words: Vec<OsString> = boot.words.iter().map(crate::children::boot::os).collect();
    let exec = boot
        .exec
        .as_ref()
        .map_or("ssh".into(), crate::children::boot::os);
    if boot.kind != "ssh"
        || !is_known(&exec)
        || !files(&words).iter().all(|file| file_is_alike(file))
    {
        return Keys::Unknown;
    }
    let mut command = Command::new(exec);
    command.args(&words).args(["-G", host]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return Keys::Unknown;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("kexalgorithms "));
    list.and_then(reordered).map_or(Keys::Usual, Keys::List)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frames::Bytes;

    #[test]
    fn slow_ones_go_behind() {
        let slow = "sntrup761x25519-sha512@openssh.com";
        assert_eq!(
            reordered(&format!("{slow},curve25519-sha256,ecdh")),
            Some(format!("curve25519-sha256,ecdh,{slow}"))
        );
        for list in [slow, "mlkem768x25519-sha256,curve25519-sha256", ""] {
            assert_eq!(reordered(list), None);
        }
    }

    #[test]
    fn files_that_tell_hosts_apart_are_noticed() {
        for text in [
            "",
            "Host a\n  Port 22\n",
            "Include /etc/ssh/ssh_config.d/*.conf\nHost *\n",
            "# KexAlgorithms x",
        ] {
            assert!(is_alike(text), "{text}");
        }
        for text in [
            "Host a\n  KexAlgorithms curve25519-sha256",
            "kexalgorithms=-sntrup*",
            "Match exec \"sleep 9\"",
            "CanonicalizeHostname yes",
            "Include ~/more",
        ] {
            assert!(!is_alike(text), "{text}");
        }
    }

    #[test]
    fn the_named_file_counts_alone() {
        let words = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(files(&words(&["-v", "-F", "/a b"])), [Path::new("/a b")]);
        assert_eq!(files(&words(&["-F/c"])), [Path::new("/c")]);
        assert!(files(&words(&["-v"])).contains(&PathBuf::from(SYSTEM)));
    }

    #[test]
    fn others_than_the_usual_ssh_are_not_asked() {
        let boot = |kind: &str, exec: &str| Boot {
            kind: kind.to_owned(),
            exec: Some(Bytes(exec.into())),
            ..Boot::default()
        };
        assert_eq!(ask(&boot("ssh", "/opt/bin/ssh"), "a"), Keys::Unknown);
        assert_eq!(ask(&boot("slurm", PROGRAMS[0]), "a"), Keys::Unknown);
        // A file that can't be read as text leaves it to ssh.
        let mut odd = boot("ssh", PROGRAMS[0]);
        odd.words = vec![Bytes(b"-F/".to_vec())];
        assert_eq!(ask(&odd, "a"), Keys::Unknown);
    }
}
