//! Tests `mpiexec -join`: machines that nobody has started from outside, each with the same command, as
//! the pods of an Indexed Job on Kubernetes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::hosts::{Hosts, ip};
use crate::job::clear;
use crate::launchers::program;
use crate::many::ranks;
use crate::outcome::Outcome;
use crate::program::Case;
use crate::room::Room;
use crate::{Result, patience, prefix};

/// The user and group of the pods.
const USER: u32 = 1000;
/// The port of the first machine.
const PORT: u16 = 7711;

/// A file with a secret as Kubernetes mounts it: it belongs to root, and the pods' group can read it.
pub struct Secret(PathBuf);

impl Secret {
    pub fn new(name: &str) -> Result<Secret> {
        let path = prefix::target()?
            .join("test-rooms")
            .join(format!("{name}-secret"));
        let failed = |error| format!("{}: {error}", path.display());
        fs::write(&path, "a secret of the test's machines").map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).map_err(failed)?;
        chown(&path, Some(0), Some(USER)).map_err(failed)?;
        Ok(Secret(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Hosts that have IPv6 only, not even IPv4's loopback address.
fn hosts(count: usize) -> Result<Hosts> {
    let hosts = Hosts::new(count)?;
    for index in 0..count {
        let name = hosts.name(index);
        ip(&format!("-n {name} -4 addr flush dev weft0"))?;
        ip(&format!("-n {name} -4 addr flush dev lo"))?;
        ip(&format!(
            "-n {name} addr add {}/64 dev weft0 nodad",
            address(index)
        ))?;
    }
    Ok(hosts)
}

fn address(index: usize) -> String {
    format!("fd99::{}", index + 1)
}

/// Returns the command of a pod, which is the same for all but for the index in its environment.
fn pod(room: &Room, hosts: &Hosts, index: usize, secret: &Path, words: &[&str]) -> Result<Command> {
    let mut command = room.command("ip".as_ref());
    clear(&mut command);
    let id = USER.to_string();
    let size = hosts.count().to_string();
    command.args(&hosts.prefix(index)[1..]);
    command.args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
    command.args(["env", "HOME=/", &format!("JOB_COMPLETION_INDEX={index}")]);
    command.arg(prefix::get()?.join("bin/mpiexec"));
    command.args([
        "-timeout",
        "60",
        "-join",
        &format!("[{}]:{PORT}", address(0)),
    ]);
    command.args(["-size", &size, "-secret"]).arg(secret);
    command.args(words).arg(program()?);
    Ok(command)
}

/// Starts four machines in random order.
pub fn in_any_order() -> Result {
    let hosts = hosts(4)?;
    let secret = Secret::new(hosts.name(0))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let first = now.subsec_nanos() as usize % 4;
    let rooms: Vec<Room> = (0..4).map(|_| Room::new()).collect::<Result<_>>()?;
    let outcomes: Vec<(usize, Result<Outcome>)> = thread::scope(|scope| {
        // A number that has no divisor in common with 4, so that each comes once.
        let order = (0..4).map(|turn| (first + 3 * turn) % 4);
        let (hosts, secret) = (&hosts, &secret.0);
        let started: Vec<_> = order
            .zip(&rooms)
            .map(|(index, room)| {
                let run = move || {
                    let mut command = pod(room, hosts, index, secret, &["-ppn", "2"])?;
                    Outcome::of(command.stdin(Stdio::null()), patience(80.0))
                };
                let started = scope.spawn(run);
                thread::sleep(Duration::from_millis(150));
                (index, started)
            })
            .collect();
        let ended = |thread: thread::ScopedJoinHandle<_>| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err("a machine's thread has panicked".to_owned()),
        };
        let all = started.into_iter();
        all.map(|(index, thread)| (index, ended(thread))).collect()
    });
    for ((index, outcome), room) in outcomes.into_iter().zip(&rooms) {
        // All output comes to the first machine.
        let expected = match index {
            0 => ranks(8, 2),
            _ => Case::default(),
        };
        let judged = outcome?.judge(&expected, &room.leftovers());
        judged.map_err(|why| format!("machine {index}, with {first} first: {why}"))?;
    }
    Ok(())
}
