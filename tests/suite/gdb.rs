//! Tests `mpiexec -gdb` and `-gdba`: gdb for each rank, on an emulated terminal and with commands from
//! a file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use weft_needs::{GDB, TERMINALS};

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::terminal::Terminal;
use crate::{Result, lacks, patience, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let left_out = lacks::any(name, &[&GDB, &TERMINALS]);
        timed(name.to_owned(), Company::Any, test).with_ignored_flag(left_out)
    };
    vec![
        trial("gdb/typed/2", typed),
        trial("gdb/file/2", from_file),
        trial("gdb/attach/2", attach),
        timed("gdb/refused/1".to_owned(), Company::Any, refused),
    ]
}

/// Compiles the program, separately for each test.
fn build(name: &str) -> Result<PathBuf> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join(format!("debugged-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/debugged.c");
    let mut build = Command::new(prefix.join("bin/mpicc"));
    compile(build.args(["-g", "-O0", "-o"]).arg(&binary).arg(source))?;
    Ok(binary)
}

fn mpiexec(room: &Room) -> Result<Command> {
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    // gdb would ask for confirmation, and servers for symbols.
    command
        .env("DEBUGINFOD_URLS", "")
        .env("HOME", room.folder());
    command.args(["-timeout", "120"]);
    Ok(command)
}

/// Input must go to all ranks' gdb; lines of output must begin with the rank.
fn typed() -> Result {
    let (program, room) = (build("typed")?, Room::new()?);
    let mut command = mpiexec(&room)?;
    command.args(["-gdb", "-n", "2"]).arg(&program);
    let mut terminal = Terminal::start(command, 200, 150)?;
    terminal.wait(&["[0] (gdb)", "[1] (gdb)"])?;
    terminal.press(b"break work\n")?;
    terminal.wait(&["[0] Breakpoint 1 at ", "[1] Breakpoint 1 at "])?;
    terminal.press(b"run\n")?;
    terminal.wait(&[
        "[0] rank 0 is here",
        "[1] rank 1 is here",
        "number=0)",
        "number=1)",
    ])?;
    terminal.press(b"print 1000 + number\n")?;
    terminal.wait(&["$1 = 1000", "$1 = 1001"])?;
    terminal.press(b"continue\n")?;
    terminal.wait(&[
        "rank 0 has 40 of 81",
        "rank 1 has 41 of 81",
        "exited normally",
    ])?;
    terminal.press(b"quit\n")?;
    terminal.end(&room, 0)
}

/// The commands may come from a file.
fn from_file() -> Result {
    let (program, room) = (build("file")?, Room::new()?);
    let script = program.with_extension("gdb");
    let text = "break work\nrun\nprint 1000 + number\nfinish\nprint 2000 + $\ncontinue\nquit\n";
    fs::write(&script, text).map_err(|error| format!("{}: {error}", script.display()))?;
    let mut command = mpiexec(&room)?;
    command.args(["-gdb", "-n", "2"]).arg(&program);
    let input = File::open(&script).map_err(|error| format!("{}: {error}", script.display()))?;
    let outcome = Outcome::reading(&mut command, Stdio::from(input), patience(120.0))?;
    let case = Case {
        stdout: [
            "[0] (gdb) Breakpoint 1 at ",
            "[1] (gdb) Breakpoint 1 at ",
            "$1 = 1000",
            "$1 = 1001",
            "$3 = 2040",
            "$3 = 2041",
            "[0] rank 0 has 40 of 81",
            "[1] rank 1 has 41 of 81",
        ]
        .map(str::to_owned)
        .into(),
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}

/// A running job must continue when gdb leaves it by `detach`, or by `quit` alone.
fn attach() -> Result {
    let (program, room) = (build("attach")?, Room::new()?);
    let file = program.with_extension(format!("go-{}", std::process::id()));
    let mut command = mpiexec(&room)?;
    command.args(["-n", "2"]).arg(&program).arg(&file);
    let mut job = Terminal::start(command, 30, 100)?;
    job.wait(&["rank 0 is here", "rank 1 is here"])?;
    // The commands before mpiexec have replaced themselves by it.
    let pid = job.child.id().to_string();
    for words in ["detach\nquit\n", "quit\n"] {
        let own = Room::new()?;
        let mut command = mpiexec(&own)?;
        command.args(["-gdba", &pid]);
        let mut debugger = Terminal::start(command, 200, 150)?;
        debugger.wait(&["[0] (gdb)", "[1] (gdb)"])?;
        debugger.press(b"print 1000 + world_rank\n")?;
        debugger.wait(&["$1 = 1000", "$1 = 1001"])?;
        debugger.press(words.as_bytes())?;
        debugger.end(&own, 0)?;
        let goes_on = Instant::now() + Duration::from_millis(500);
        while Instant::now() < goes_on {
            if let Ok(Some(status)) = job.child.try_wait() {
                return Err(format!("the job ended with {status}\n{}", job.text()));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let ended = job.end(&room, 0);
    let _ = fs::remove_file(&file);
    ended?;
    job.wait(&["rank 0 has 40 of 81", "rank 1 has 41 of 81"])
}

/// Attaching to another program than mpiexec must fail with the reason.
fn refused() -> Result {
    let own = std::process::id().to_string();
    let room = Room::new()?;
    for (pid, message) in [
        (
            "nobody",
            "takes the process number of a running mpiexec, not 'nobody'",
        ),
        (
            "0",
            "takes the process number of a running mpiexec, not '0'",
        ),
        (
            "-7",
            "takes the process number of a running mpiexec, not '-7'",
        ),
        ("999999999", "process 999999999 can't be read: No such file"),
        (&own, "not an mpiexec"),
    ] {
        for option in ["-gdba", "-report"] {
            let mut command = mpiexec(&room)?;
            let outcome = Outcome::of(command.args([option, pid]), patience(20.0))?;
            let case = Case {
                exit: 2,
                stderr: vec![format!("option {option}"), message.to_owned()],
                ..Case::default()
            };
            outcome.judge(&case, &room.leftovers())?;
        }
    }
    Ok(())
}
