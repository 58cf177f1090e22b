//! Tests ranks of one machine that can't open each other's memory: each in its own namespaces, or with
//! an executable that their user can't read. They use TCP and print one warning.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use weft_needs::{CONTAINERS, HYDRA, Need};

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::{Result, lacks, patience, prefix, timed};

const SAID: &str = "can't open each other's shared memory (containers, user namespaces, or an executable that users \
                    can't read) and use tcp instead";

/// Script that sets a host name and runs the program.
const OTHER_NAME: [&str; 5] = [
    "unshare",
    "-u",
    "sh",
    "-c",
    "hostname h$$; exec \"$0\" \"$@\"",
];

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, needs: &[&'static Need], test: fn() -> Result| {
        let left_out = lacks::any(name, needs);
        timed(name.to_owned(), Company::Any, test).with_ignored_flag(left_out)
    };
    let needs: &[&'static Need] = &[&CONTAINERS];
    vec![
        trial("containers/user/3", needs, || {
            apart(&["unshare", "-U", "-r"])
        }),
        trial("containers/pid/3", needs, || {
            apart(&["unshare", "-p", "-f", "--mount-proc"])
        }),
        trial("containers/name/3", needs, || apart(&OTHER_NAME)),
        trial("containers/unreadable/3", needs, unreadable),
        trial("containers/mixed/4", needs, mixed),
        trial("containers/no-way/3", needs, no_way),
        trial("containers/hydra/3", &[&CONTAINERS, &HYDRA], by_hydra),
    ]
}

/// Compiles the program, separately for each test.
fn build(name: &str) -> Result<PathBuf> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join(format!("contained-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/contained.c");
    let mut build = Command::new(prefix.join("bin/mpicc"));
    compile(build.arg("-o").arg(&binary).arg(source))?;
    Ok(binary)
}

fn mpiexec(room: &Room) -> Result<Command> {
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-timeout", "60"]);
    Ok(command)
}

/// Checks that the job succeeds and prints the line on stderr once.
fn judge(room: &Room, command: &mut Command) -> Result {
    let outcome = Outcome::of(command, patience(70.0))?;
    let case = Case {
        stdout: vec!["all is well".into()],
        stderr: vec![SAID.into()],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())?;
    match outcome.stderr().matches(SAID).count() {
        1 => Ok(()),
        count => Err(format!("it is said {count} times")),
    }
}

/// Runs three ranks, each in its own container.
fn apart(wrap: &[&str]) -> Result {
    let (room, program) = (Room::new()?, build(wrap[1])?);
    let mut command = mpiexec(&room)?;
    command.args(["-n", "3"]).args(wrap).arg(program).arg("1");
    judge(&room, &mut command)
}

/// Runs two ranks that share memory, and two in a container each.
fn mixed() -> Result {
    let (room, program) = (Room::new()?, build("mixed")?);
    let mut command = mpiexec(&room)?;
    command
        .args(["-n", "2"])
        .arg(&program)
        .args(["2", ":", "-n", "2"]);
    command.args(["unshare", "-U", "-r"]).arg(&program).arg("1");
    judge(&room, &mut command)
}

/// Runs an executable that only root can read: the kernel hides such a process's memory from its own
/// user.
fn unreadable() -> Result {
    let (room, program) = (Room::new()?, build("unreadable")?);
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711)).map_err(failed)?;
    let mut command = mpiexec(&room)?;
    command.args([
        "-n",
        "3",
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
    ]);
    command.arg("env").arg("HOME=/").arg(&program).arg("1");
    judge(&room, &mut command)
}

fn by_hydra() -> Result {
    let (room, program) = (Room::new()?, build("hydra")?);
    let mut command = room.command(Path::new("/usr/bin/mpiexec.hydra"));
    clear(&mut command);
    command.env("MPIEXEC_TIMEOUT", "60");
    command
        .args(["-n", "3", "unshare", "-U", "-r"])
        .arg(program)
        .arg("1");
    judge(&room, &mut command)
}

/// Without another transport the first call that needs one must end the job, in each combined call.
fn no_way() -> Result {
    let (room, program) = (Room::new()?, build("no-way")?);
    let mut command = mpiexec(&room)?;
    command.args([
        "-genv",
        "WEFT_NETMOD",
        "none",
        "-n",
        "3",
        "unshare",
        "-U",
        "-r",
    ]);
    command.arg(program).arg("1");
    let outcome = Outcome::of(&mut command, patience(70.0))?;
    let case = Case {
        exit: 101,
        stderr: vec![
            "no transport of this rank reaches it: no transport between nodes is open: WEFT_NETMOD=none"
                .into(),
        ],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}
