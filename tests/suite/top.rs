//! Tests `mpiexec -top`: its picture on an emulated terminal, and its output without a terminal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use weft_needs::{MOUNTS, NAMESPACES, OPENMPI, SSHD, TERMINALS};

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::sshd::Cluster;
use crate::terminal::Terminal;
use crate::{Result, lacks, patience, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let left_out = lacks::any(name, &[&TERMINALS]);
        timed(name.to_owned(), Company::Any, test).with_ignored_flag(left_out)
    };
    let openmpi = "top/hang-openmpi/3";
    let hosts = "top/hosts/4";
    let left_out = lacks::any(hosts, &[&MOUNTS, &NAMESPACES, &SSHD, &TERMINALS]);
    vec![
        trial("top/hang/3", || hang("mpicc")),
        trial("top/hang-standard/3", || hang("mpicc_abi")),
        timed(openmpi.to_owned(), Company::Any, || {
            hang("/usr/bin/mpicc.openmpi")
        })
        .with_ignored_flag(lacks::any(openmpi, &[&OPENMPI, &TERMINALS])),
        trial("top/ends/2", ends),
        trial("top/leave/2", leave),
        timed("top/plain/2".to_owned(), Company::Any, plain),
        timed("top/refused/1".to_owned(), Company::Any, refused),
        timed(hosts.to_owned(), Company::Any, several_hosts).with_ignored_flag(left_out),
    ]
}

/// Compiles the program, separately for each test.
fn build(compiler: &str, name: &str) -> Result<PathBuf> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join(format!("watched-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/watched.c");
    let mut build = Command::new(prefix.join("bin").join(compiler));
    compile(build.arg("-o").arg(&binary).arg(source))?;
    Ok(binary)
}

/// Returns `mpiexec -top` with a program.
fn mpiexec(room: &Room, ranks: u32, program: &Path, words: &[&str]) -> Result<Command> {
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-top", "-timeout", "120", "-n", &ranks.to_string()]);
    command.arg(program).args(words);
    Ok(command)
}

/// A hanging job must be shown at any size of the terminal, and Ctrl-C must end it.
fn hang(compiler: &str) -> Result {
    let name = Path::new(compiler).file_name().unwrap_or_default();
    let program = build(compiler, &format!("hang-{}", name.display()))?;
    let room = Room::new()?;
    let mut terminal = Terminal::start(mpiexec(&room, 3, &program, &["hang"])?, 30, 120)?;
    terminal.wait(&[
        "MPI_Recv",
        "from 1",
        "MPI_Wait",
        "MPI_Irecv from 0",
        "MPI_Allreduce",
        "solver",
        "MPI_COMM_WORLD",
        "rank 2 is here",
        "100 %",
    ])?;
    if !terminal.is_drawn_on() {
        return Err(format!("no picture, but\n{}", terminal.text()));
    }
    terminal.wait(&[
        "no call of any rank has returned for",
        "they wait for each other: 0 -> 1 -> 0",
        "rank 2 in MPI_Allreduce on 'solver'",
    ])?;
    terminal.resize(20, 170)?;
    // The title's bar goes from edge to edge.
    let until = Instant::now() + patience(20.0);
    while !terminal
        .text()
        .lines()
        .any(|line| line.starts_with("─") || line.contains(&"─".repeat(150)))
    {
        if Instant::now() >= until {
            return Err(format!(
                "not drawn anew after a resize:\n{}",
                terminal.text()
            ));
        }
        thread::sleep(Duration::from_millis(50));
    }
    terminal.wait(&["MPI_Recv", "they wait for each other"])?;
    terminal.press(b"s")?;
    terminal.wait(&["sort by rank"])?;
    terminal.press(b"\x03")?;
    terminal.end(&room, 130)?;
    terminal.wait(&["rank 0 is here", "rank 1 is here", "rank 2 is here"])
}

/// For a job that ends while shown, mpiexec must return its exit code and print its output.
fn ends() -> Result {
    let program = build("mpicc", "ends")?;
    let room = Room::new()?;
    let mut terminal = Terminal::start(mpiexec(&room, 2, &program, &["ends"])?, 24, 100)?;
    terminal.wait(&["2 ranks", "MPI_Bcast", "root 0", "computes"])?;
    terminal.end(&room, 5)?;
    terminal.wait(&["rank 0 is here", "rank 1 has done its work"])
}

/// The key q must end the view but not the job.
fn leave() -> Result {
    let program = build("mpicc", "leave")?;
    let room = Room::new()?;
    let file = programs(prefix::get()?)?.join(format!("leave-{}", std::process::id()));
    let path = file.display().to_string();
    let command = mpiexec(&room, 2, &program, &["file", &path])?;
    let mut terminal = Terminal::start(command, 24, 100)?;
    terminal.wait(&["2 ranks", "MPI_Bcast"])?;
    terminal.press(b"q")?;
    let until = Instant::now() + patience(10.0);
    while terminal.is_drawn_on() {
        if Instant::now() >= until {
            return Err(format!("still drawn on:\n{}", terminal.text()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    terminal.wait(&["rank 1 is here"])?;
    if let Ok(Some(status)) = terminal.child.try_wait() {
        return Err(format!("the job ended with {status}"));
    }
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let ended = terminal.end(&room, 5);
    let _ = fs::remove_file(&file);
    ended?;
    terminal.wait(&["rank 0 has done its work"])
}

/// Without a terminal the view prints lines, and standard output is the program's only.
fn plain() -> Result {
    let program = build("mpicc", "plain")?;
    let room = Room::new()?;
    let mut command = mpiexec(&room, 2, &program, &["ends"])?;
    let outcome = Outcome::of(&mut command, patience(60.0))?;
    let case = Case {
        exit: 5,
        stdout: vec!["rank 1 has done its work".to_owned()],
        stderr: vec![
            "mpiexec: option -top: standard output is not a terminal; printing a line every 5 seconds instead".to_owned(),
            "mpiexec: top: rank".to_owned(),
        ],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}

/// Wrong options must be reported as without -top, and nothing drawn.
fn refused() -> Result {
    let room = Room::new()?;
    for (words, message) in [
        (&["-top", "-n", "0", "true"][..], "option -n is 0"),
        (
            &["-top", "-check", "true"],
            "-check can't be used together with -top",
        ),
        (
            &["-top", "-gdb", "true"],
            "-gdb can't be used together with -top",
        ),
    ] {
        let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
        clear(&mut command);
        let outcome = Outcome::of(command.args(words), patience(20.0))?;
        let case = Case {
            exit: 2,
            stderr: vec![message.to_owned()],
            ..Case::default()
        };
        outcome.judge(&case, &room.leftovers())?;
    }
    Ok(())
}

/// Ranks on other hosts must be shown, too.
fn several_hosts() -> Result {
    let program = build("mpicc", "hosts")?;
    let cluster = Cluster::start(2)?;
    let mut command = cluster.mpiexec()?;
    let program = program.display().to_string();
    let file = cluster.dir().join("go");
    let path = file.display().to_string();
    command.args(["-top", "-timeout", "60", "-hosts", &cluster.names()]);
    command.args(["-ppn", "2", "-n", "4", &program, "file", &path]);
    let mut terminal = Terminal::start(command, 30, 140)?;
    terminal.wait(&[
        "4 ranks",
        "host",
        cluster.name(0),
        cluster.name(1),
        "MPI_Bcast",
    ])?;
    let seen = |rank: u32| {
        let text = terminal.text();
        text.lines()
            .any(|line| line.starts_with(&format!("{rank} ")))
    };
    let until = Instant::now() + patience(10.0);
    while !(0..4).all(seen) {
        if Instant::now() >= until {
            return Err(format!("a rank is missing in\n{}", terminal.text()));
        }
        thread::sleep(Duration::from_millis(50));
    }
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let room = Room::new()?;
    terminal.end(&room, 5)?;
    cluster.gone(5.0).map(drop)
}
