//! Tests spawned processes and connected jobs under Weft's mpiexec on several hosts.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use libtest_mimic::Trial;
use weft_needs::{MOUNTS, NAMESPACES, Need, SSHD};

use crate::company::Company;
use crate::hosts::Hosts;
use crate::launchers::tool;
use crate::outcome::Outcome;
use crate::program::{Case, Program};
use crate::sshd::Cluster;
use crate::{Result, lacks, patience, prefix, timed};

const NEEDS: &[&Need] = &[&MOUNTS, &NAMESPACES, &SSHD];
/// The exit code of a job that ends by `MPI_ERR_PORT`, its error class.
const NO_PORT: i32 = 38;
/// Time limit of each command.
const SOON: f64 = 3.0;

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let name = format!("agents/spawn-{name}");
        let left_out = lacks::any(&name, NEEDS);
        timed(name, Company::Any, test).with_ignored_flag(left_out)
    };
    vec![
        trial("places/4", places),
        trial("refused/2", refused),
        trial("ends/4", ends),
        trial("names/4", names),
        trial("replace/3", replaced),
    ]
}

fn case(exit: i32, out: &[&str], err: &[&str]) -> Case {
    Case {
        exit,
        stdout: out.iter().map(|line| (*line).to_owned()).collect(),
        stderr: err.iter().map(|line| (*line).to_owned()).collect(),
        ..Case::default()
    }
}

/// Returns the program with these options.
fn command(cluster: &Cluster, options: &[&str], words: &[&str]) -> Result<Command> {
    let mut command = cluster.mpiexec()?;
    command.args(["-timeout", "60"]).args(options);
    command.arg(tool("spawner")?).args(words);
    Ok(command)
}

fn run(cluster: &Cluster, options: &[&str], words: &[&str], expected: &Case) -> Result {
    judge(cluster, &mut command(cluster, options, words)?, expected)
        .map_err(|error| format!("{options:?} {words:?}: {error}"))
}

fn judge(cluster: &Cluster, command: &mut Command, expected: &Case) -> Result {
    let outcome = Outcome::of(command, patience(70.0))?;
    outcome.judge(expected, &[])?;
    cluster.gone(SOON).map(drop)
}

/// Checks the hosts of spawned processes.
fn places() -> Result {
    let cluster = Cluster::start(3)?;
    let (a, b, c) = (cluster.name(0), cluster.name(1), cluster.name(2));
    let two = format!("{a}:2,{b}:2");
    let two: &[&str] = &["-hosts", &two, "-n", "2"];
    let children = |hosts: &[&str]| case(0, &[&format!("children: {}", hosts.join(" "))], &[]);
    // Free slots are used first.
    run(&cluster, two, &["plain", "2"], &children(&[b, b]))?;
    let all = format!("{a}:1,{b}:2,{c}:1");
    let four: &[&str] = &["-hosts", &all, "-n", "2"];
    run(&cluster, four, &["plain", "2"], &children(&[b, c]))?;
    // More processes than slots.
    run(&cluster, two, &["plain", "4"], &children(&[b, b, a, a]))?;
    // Children of children.
    let line = format!("children: {b}");
    let again = case(0, &[&line, &line], &[]);
    let three = format!("{a}:1,{b}:2");
    run(
        &cluster,
        &["-hosts", &three, "-n", "1"],
        &["again", "1"],
        &again,
    )?;
    // By name, on hosts outside the job, and from a job on one host only.
    run(
        &cluster,
        two,
        &["plain", "2", "host", c],
        &children(&[c, c]),
    )?;
    let both = format!("{c}:1,{b}:2");
    run(
        &cluster,
        &["-n", "2"],
        &["plain", "3", "host", &both],
        &children(&[c, b, b]),
    )?;
    run(
        &cluster,
        &["-n", "1"],
        &["plain", "1", "host", a],
        &children(&[a]),
    )?;
    run(
        &cluster,
        two,
        &["plain", "3", "host", b, "map_by", "node"],
        &children(&[b, b, b]),
    )?;
    let file = cluster.dir().join("spawn-hosts");
    fs::write(&file, format!("{c} slots=1\n{b} slots=1\n")).map_err(|error| error.to_string())?;
    let file = file.display().to_string();
    for key in ["hostfile", "add-hostfile"] {
        run(
            &cluster,
            two,
            &["plain", "2", key, &file],
            &children(&[c, b]),
        )?;
    }
    let added = Hosts::address(2);
    run(
        &cluster,
        two,
        &["plain", "1", "add-host", &added],
        &children(&[c]),
    )?;
    // Variables of the parent's section; the working folder; a program by `path`, which exists on the
    // other host only.
    let set = [two, &["-env", "WEFT_TEST_A", "1"]].concat();
    let words = ["variables", "2", "wdir", "/usr/lib"];
    run(&cluster, &set, &words, &children(&[b, b]))?;
    // A folder whose name is no UTF-8, and an argument of two lines.
    let folder = cluster.dir().join(OsStr::from_bytes(b"\xff\xfe"));
    fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let mut bytes = command(&cluster, two, &["folder", "2", "wdir"])?;
    judge(&cluster, bytes.arg(&folder), &children(&[b, b]))?;
    let words = ["lines", "1", "host", b];
    run(&cluster, two, &words, &children(&[b]))?;
    let program = tool("spawner")?;
    let (folder, name) = match (program.parent(), program.file_name()) {
        (Some(folder), Some(name)) => (folder.display().to_string(), name),
        _ => return Err("the program has no folder".to_owned()),
    };
    let words = ["plain", "1", "host", b, "path", &folder];
    let mut by_path = command(&cluster, two, &words)?;
    by_path.env("WEFT_TEST_PROGRAM", name);
    judge(&cluster, &mut by_path, &children(&[b]))?;
    // The size of the universe.
    let universe = |options: &[&str], size: &str| {
        let line = format!("universe {size}");
        run(
            &cluster,
            options,
            &["universe", "1"],
            &case(0, &[&line], &[]),
        )
    };
    universe(two, "4")?;
    universe(&["-hosts", b, "-ppn", "3", "-n", "1"], "3")?;
    universe(&["-usize", "17", "-hosts", b, "-n", "1"], "17")?;
    universe(&["-usize", "infinite", "-n", "1"], "-1")?;
    universe(&["-usize", "9", "-n", "1"], "9")
}

/// A spawn that is impossible must fail the call, and the job must continue.
fn refused() -> Result {
    let cluster = Cluster::start(2)?;
    let b = cluster.name(1);
    let both = cluster.names();
    let two: &[&str] = &["-hosts", &both, "-n", "2"];
    let refused = |parts: &[&str]| case(0, parts, &[]);
    let words = ["plain", "1", "host", "no-such-host"];
    run(
        &cluster,
        two,
        &words,
        &refused(&["refused: ", "'no-such-host'"]),
    )?;
    let words = ["plain", "1", "host", b, "wdir", "/no/such/folder"];
    run(
        &cluster,
        two,
        &words,
        &refused(&["refused: ", b, "'/no/such/folder'"]),
    )?;
    let words = ["plain", "1", "hostfile", "/no/such/file"];
    run(
        &cluster,
        two,
        &words,
        &refused(&["refused: ", "'/no/such/file'"]),
    )?;
    let words = ["plain", "1", "host", "a;b"];
    run(&cluster, two, &words, &refused(&["refused: ", "key host"]))?;
    let strict = [two, &["-nooversubscribe"]].concat();
    run(
        &cluster,
        &strict,
        &["plain", "1"],
        &refused(&["refused: ", "0 free slots"]),
    )?;
    let mut missing = command(&cluster, two, &["plain", "1", "host", b])?;
    missing.env("WEFT_TEST_PROGRAM", "/no/such/program");
    judge(
        &cluster,
        &mut missing,
        &refused(&["refused: ", "'/no/such/program'"]),
    )?;
    // A program that ends without MPI_Init.
    let mut silent = command(&cluster, two, &["plain", "2", "host", &both])?;
    silent.env("WEFT_TEST_PROGRAM", "/bin/true");
    judge(&cluster, &mut silent, &refused(&["refused: ", "MPI_Init"]))?;
    // No host has this address: other ranks continue meanwhile, and Ctrl-C works.
    let began = Instant::now();
    let nobody = ["plain", "1", "host", "10.99.0.200"];
    let options = [two, &["-bootstrap-timeout", "2"]].concat();
    run(
        &cluster,
        &options,
        &nobody,
        &refused(&["refused: ", "'10.99.0.200'"]),
    )?;
    if began.elapsed() > patience(15.0) {
        return Err(format!("it took {:?}", began.elapsed()));
    }
    Ok(())
}

/// Checks the ends of spawned jobs.
fn ends() -> Result {
    let cluster = Cluster::start(2)?;
    let b = cluster.name(1).to_owned();
    let both = format!("{}:2,{b}:2", cluster.name(0));
    let two: &[&str] = &["-hosts", &both, "-n", "2"];
    // The exit code is that of the first failed job; its parents continue.
    let lost = case(5, &["lost"], &["aborted with code 5", &b]);
    run(&cluster, two, &["abort", "2", "host", &b], &lost)?;
    let lost = case(3, &["lost"], &["exited with code 3", &b]);
    run(&cluster, two, &["leave", "1", "host", &b], &lost)?;
    // A killed agent of the spawned job, a killed launcher of it, and one of all.
    for (host, part, code, text) in [
        (1, "-weft-agent", Some(1), "is lost"),
        (0, "-spawned-by", Some(137), ""),
        (0, "-timeout", None, ""),
    ] {
        let mut sleeping = command(&cluster, &["-n", "1"], &["sleep", "2", "host", &b])?;
        sleeping
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = sleeping.spawn().map_err(|error| error.to_string())?;
        let mut first = String::new();
        let out = child.stdout.take().ok_or("no output")?;
        let mut out = BufReader::new(out);
        out.read_line(&mut first)
            .map_err(|error| error.to_string())?;
        if first != "sleeping\n" {
            return Err(format!("it says '{first}'"));
        }
        let all = cluster.processes(host);
        let found = all.iter().find(|one| one.1.contains(part));
        let (pid, _) = found.ok_or(format!("no process has '{part}': {all:?}"))?;
        let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
        status.map_err(|error| error.to_string())?;
        let took = cluster
            .gone(SOON)
            .map_err(|error| format!("{part}: {error}"))?;
        let output = child
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if !errors.contains(text) || (code.is_some() && output.status.code() != code) {
            return Err(format!("{part}: {}, {errors}", output.status));
        }
        println!("killed {part}: all gone after {:.2} s", took.as_secs_f64());
    }
    Ok(())
}

/// Jobs of two launchers on different hosts must connect by a name server on a third.
fn names() -> Result {
    let cluster = Cluster::start(3)?;
    let mut server = cluster.within(2);
    let own = cluster.mpiexec()?;
    let program = own
        .get_args()
        .nth(cluster.within(0).get_args().count())
        .ok_or("no mpiexec")?;
    let secret = cluster.dir().join("secret");
    let written = fs::write(&secret, "a secret of all three hosts");
    written.map_err(|error| error.to_string())?;
    let private = fs::set_permissions(&secret, Permissions::from_mode(0o600));
    private.map_err(|error| error.to_string())?;
    let secret = secret.display().to_string();
    let secret: &[&str] = &["-name-server-secret", &secret];
    server.arg(program).arg("-name-server").args(secret);
    server.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = server.spawn().map_err(|error| error.to_string())?;
    let mut line = String::new();
    let out = server.stdout.take().ok_or("no output")?;
    let mut out = BufReader::new(out);
    out.read_line(&mut line)
        .map_err(|error| error.to_string())?;
    let place = Hosts::address(2);
    let result = (|| {
        let hosts = [
            cluster.names(),
            format!("{},{}", cluster.name(1), cluster.name(2)),
        ];
        for options in [
            // On several hosts; in sections with hosts of their own; on the first alone.
            [
                &["-hosts", &hosts[0], "-n", "3"][..],
                &["-hosts", &hosts[1], "-n", "4"],
            ],
            [&["-n", "2"][..], &["-host", cluster.name(1), "-n", "2"]],
        ] {
            let plain = [&["-nameserver", &place], options[1]].concat();
            let options = options.map(|words| [&["-nameserver", &place], secret, words].concat());
            let mut accept = command(&cluster, &options[0], &["accept", "a service"])?;
            let accept = accept
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| error.to_string())?;
            // A job without the secret finds the port, and its error says what is missing.
            let mut without = command(&cluster, &plain, &["connect", "a service"])?;
            let refused = Outcome::of(&mut without, patience(70.0))?;
            let lacks = ["the port's name has no secret", "-name-server-secret FILE"];
            refused.judge(&case(NO_PORT, &[], &lacks), &[])?;
            let mut connect = command(&cluster, &options[1], &["connect", "a service"])?;
            let connected = Outcome::of(&mut connect, patience(70.0));
            let accepted = accept.wait_with_output().map_err(|error| error.to_string());
            connected?.judge(&case(0, &["connect done"], &[]), &[])?;
            let accepted = accepted?;
            let text = String::from_utf8_lossy(&accepted.stdout);
            if text != "accept done\n" || !accepted.status.success() {
                return Err(format!("{options:?}: {} '{text}'", accepted.status));
            }
        }
        Ok(())
    })();
    let all = cluster.processes(2);
    if let Some((pid, _)) = all.iter().find(|one| one.1.contains("-name-server")) {
        let _ = Command::new("kill").arg(pid.to_string()).status();
    }
    let _ = server.wait();
    result?;
    cluster.gone(SOON).map(drop)
}

/// Killed ranks of two hosts must be replaced by spawned ones, many times (`dyn_replace.c`).
fn replaced() -> Result {
    let cluster = Cluster::start(2)?;
    let programs = Program::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("c"))?;
    let program = programs.iter().find(|one| one.name == "dyn_replace");
    let program = program.ok_or("there is no dyn_replace.c")?;
    let hosts = format!("{}:2,{}:2", cluster.name(0), cluster.name(1));
    let mut command = cluster.mpiexec()?;
    command.args(["-timeout", "90", "-disable-auto-cleanup", "-hosts", &hosts]);
    command.args(["-genv", "WEFT_NETMOD", "tcp", "-n", "3"]);
    command.arg(program.binary(prefix::get()?)?);
    let outcome = Outcome::of(command.args(["others", "50"]), patience(100.0))?;
    let killed = "was killed by signal 9, SIGKILL";
    outcome.judge(&case(137, &["replaced 50 times"], &[killed]), &[])?;
    cluster.gone(SOON).map(drop)
}
