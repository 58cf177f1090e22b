//! Tests core files of ranks: mpiexec renames them by rank and prints the names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use weft_needs::{CORES, MOUNTS, NAMESPACES, SSHD};

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::sshd::Cluster;
use crate::{Result, lacks, patience, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let left_out = lacks::any(name, &[&CORES]);
        timed(name.to_owned(), Company::Any, test).with_ignored_flag(left_out)
    };
    let hosts = "cores/hosts/2";
    let left_out = lacks::any(hosts, &[&CORES, &MOUNTS, &NAMESPACES, &SSHD]);
    vec![
        trial("cores/named/3", named),
        trial("cores/several/3", several),
        trial("cores/kept/2", kept),
        trial("cores/elsewhere/2", elsewhere),
        timed(hosts.to_owned(), Company::Any, several_hosts).with_ignored_flag(left_out),
    ]
}

/// Compiles the program, separately for each test.
fn build(name: &str) -> Result<PathBuf> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join(format!("crash-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/crash.c");
    let mut build = Command::new(prefix.join("bin/mpicc"));
    compile(build.arg("-o").arg(&binary).arg(source))?;
    Ok(binary)
}

/// Runs a job that dies by SIGABRT and checks that its messages have these parts.
fn run(room: &Room, program: &Path, ranks: u32, words: &[&str], said: &[&str]) -> Result<String> {
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-timeout", "60", "-n", &ranks.to_string()]);
    command.arg(program).args(words);
    judged(&mut command, said)
}

fn judged(command: &mut Command, said: &[&str]) -> Result<String> {
    let outcome = Outcome::of(command, patience(70.0))?;
    let case = Case {
        exit: 128 + libc::SIGABRT,
        stderr: said.iter().map(|part| (*part).to_owned()).collect(),
        ..Case::default()
    };
    outcome.judge(&case, &[])?;
    Ok(outcome.stderr().to_owned())
}

/// Returns the names of a folder's files, sorted.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Compares the process of a core by readelf with that in the message of the rank's death.
fn must_be_of(core: &Path, said: &str, rank: u32) -> Result {
    let words = format!("rank {rank} on ");
    let pid = said.split(&words).nth(1).and_then(|rest| {
        let pid = rest.split_once("(pid ")?.1.split_once(')')?.0;
        pid.parse::<u32>().ok()
    });
    let pid = pid.ok_or_else(|| format!("no process of rank {rank} in\n{said}"))?;
    // Other notes have the thread ids.
    let bytes = fs::read(core).map_err(|error| format!("{}: {error}", core.display()))?;
    let is_core = bytes.starts_with(b"\x7fELF") && bytes.get(16) == Some(&4);
    let head = &bytes[..bytes.len().min(1 << 16)];
    let has = head.windows(4).any(|word| word == pid.to_le_bytes());
    match is_core && has {
        true => Ok(()),
        false => Err(format!("{} is no core of process {pid}", core.display())),
    }
}

fn must_be(found: Vec<String>, expected: &[&str]) -> Result {
    match found == expected {
        true => Ok(()),
        false => Err(format!("the folder has {found:?}, not {expected:?}")),
    }
}

/// The message must have the rank and the core's path.
fn named() -> Result {
    let (program, room) = (build("named")?, Room::new()?);
    let core = room.folder().join("core.rank1");
    let told = format!(
        "was killed by signal 6, SIGABRT, core dumped to {}",
        core.display()
    );
    let said = run(&room, &program, 3, &["1"], &[&told])?;
    must_be_of(&core, &said, 1)?;
    must_be(files(room.folder()), &["core.rank1"])
}

/// Cores of other ranks, written while the job ends, must be reported, too.
fn several() -> Result {
    let (program, room) = (build("several")?, Room::new()?);
    let place = |name: &str| room.folder().join(name).display().to_string();
    let told = format!("core dumped to {}", place("core.rank0"));
    let others = format!("further core files: {}", place("core.rank2"));
    run(&room, &program, 3, &["0", "2."], &[&told, &others])?;
    must_be(files(room.folder()), &["core.rank0", "core.rank2"])
}

/// A core of an earlier job must not be replaced.
fn kept() -> Result {
    let (program, room) = (build("kept")?, Room::new()?);
    let old = room.folder().join("core.rank0");
    fs::write(&old, "of a job before").map_err(|error| error.to_string())?;
    let told = format!("core dumped to {}.", old.display());
    let said = run(&room, &program, 2, &["0"], &[&told])?;
    if fs::read(&old).is_ok_and(|text| text != b"of a job before") {
        return Err("the old core was replaced".to_owned());
    }
    let names = files(room.folder());
    let [_, new] = &names[..] else {
        return Err(format!("the folder has {names:?}"));
    };
    must_be_of(&room.folder().join(new), &said, 0)
}

/// A core of another process must not be renamed, even if a rank has died with one in another folder.
fn elsewhere() -> Result {
    let (program, room) = (build("elsewhere")?, Room::new()?);
    run(&room, &program, 2, &["0"], &["core.rank0"])?;
    let (ours, another) = (room.folder().join("core.rank0"), room.folder().join("core"));
    fs::rename(&ours, &another).map_err(|error| error.to_string())?;
    let said = run(&room, &program, 2, &["1/"], &["SIGABRT, core dumped"])?;
    if said.contains("dumped to") {
        return Err(format!("which core is it?\n{said}"));
    }
    must_be(files(room.folder()), &["1", "core"])?;
    must_be_of(&room.folder().join("1/core"), &said, 1)
}

/// On other hosts the agents must rename and report cores.
fn several_hosts() -> Result {
    let program = build("hosts")?;
    let cluster = Cluster::start(2)?;
    let folder = cluster.dir().join("cores");
    fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let mut command = cluster.mpiexec()?;
    command.args(["-timeout", "60", "-hosts", &cluster.names(), "-ppn", "1"]);
    command.arg("-wdir").arg(&folder);
    command.args(["-n", "2"]).arg(&program).arg("1");
    let core = folder.join("core.rank1");
    let told = format!("core dumped to {}", core.display());
    let host = format!("rank 1 on {} (pid ", cluster.name(1));
    let said = judged(&mut command, &[&told, &host])?;
    must_be_of(&core, &said, 1)?;
    must_be(files(&folder), &["core.rank1"])
}
