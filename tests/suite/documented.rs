//! Runs the commands of README.md and the pages in docs: blocks indented by four spaces, in a folder
//! with the programs that the pages mention. A block behind `<!-- not run: why -->` is left out. Of
//! commands that take minutes (osu-bench) the options are compared with the help.
//!
//! The tutorial has a separate test. The variables in `docs/tuning.md` are compared with the tool
//! interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use weft_needs::FORTRAN;

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::{Result, patience, prefix, timed};

/// Lists the tests: one per page with commands, and one for the variables.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![timed(
        "documented/variables".to_owned(),
        Company::Any,
        variables,
    )];
    for page in pages() {
        let name = page.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("documented/{}", name.to_lowercase());
        trials.push(timed(name, Company::Any, move || run(&page)));
    }
    trials
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the pages that have blocks of commands.
fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).into_iter().flatten();
    let pages = entries.flatten().map(|entry| entry.path());
    let mut pages: Vec<PathBuf> = pages.chain([root().join("README.md")]).collect();
    pages.retain(|path| {
        path.extension().is_some_and(|ending| ending == "md")
            && fs::read_to_string(path).is_ok_and(|text| !commands(&text).is_empty())
    });
    pages.sort();
    pages
}

/// Returns the commands of a page to be run, without explanations.
fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut fenced, mut left_out, mut in_block, mut goes_on) = (false, false, false, false);
    let mut before = "";
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        match line.strip_prefix("    ") {
            Some(command) if !fenced && (in_block || before.is_empty()) => {
                in_block = true;
                // Explanations are indented further.
                let explains = command.starts_with(' ') && !goes_on;
                if !left_out && !explains {
                    let command = command.trim_start();
                    let command = command.split("   ").next().unwrap_or_default();
                    let (command, more) = match command.strip_suffix('\\') {
                        Some(command) => (command, true),
                        None => (command, false),
                    };
                    match commands.last_mut() {
                        Some(last) if goes_on => last.push_str(command),
                        _ => commands.push(command.to_owned()),
                    }
                    goes_on = more;
                }
            }
            _ => {
                in_block = false;
                if !line.is_empty() {
                    left_out = line.starts_with("<!-- not run: ");
                }
            }
        }
        before = line;
    }
    commands
}

/// Returns the files of a page by name: ` ```c hints.c `.
fn named_files(text: &str) -> Vec<(&str, &str)> {
    let blocks = text.split("\n```c ").skip(1);
    let blocks = blocks.filter_map(|block| block.split("\n```").next()?.split_once('\n'));
    blocks.collect()
}

const HELLO: &str = "#include <mpi.h>\n#include <stdio.h>\nint main(void) {\n    MPI_Init(0, 0);\n    \
     MPI_Barrier(MPI_COMM_WORLD);\n    MPI_Finalize();\n    return 0;\n}\n";

/// Makes a folder with the files that the commands name.
fn prepare(dir: &Path, prefix: &Path, text: &str) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(failed)?;
    }
    fs::create_dir_all(dir).map_err(failed)?;
    let program = dir.join("program");
    fs::write(dir.join("hello.c"), HELLO).map_err(failed)?;
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    compile(mpicc.arg("-o").arg(&program).arg(dir.join("hello.c")))?;
    for name in ["a", "b", "hello", "program-built-with-mpich"] {
        fs::copy(&program, dir.join(name)).map_err(failed)?;
    }
    let of_open_mpi = dir.join("program-built-with-open-mpi");
    if weft_needs::OPENMPI.met() {
        let mut mpicc = Command::new("mpicc.openmpi");
        compile(mpicc.arg("-o").arg(&of_open_mpi).arg(dir.join("hello.c")))?;
    } else {
        fs::copy(&program, &of_open_mpi).map_err(failed)?;
    }
    fs::write(dir.join("FILE"), "-n 1 ./a\n-n 2 ./b\n").map_err(failed)?;
    let fortran = "program hello\n  use mpi\n  integer :: error\n  call MPI_Init(error)\n  \
                   call MPI_Finalize(error)\nend program\n";
    fs::write(dir.join("program.f90"), fortran).map_err(failed)?;
    for (name, text) in named_files(text) {
        fs::write(dir.join(name), text).map_err(failed)?;
    }
    Ok(())
}

/// Checks that a command's help has all options that a page passes.
fn helps(program: &Path, line: &str) -> Result {
    let mut words = line.split_whitespace();
    let command = words.next().unwrap_or_default();
    let output = Command::new(program).args([command, "--help"]).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let help = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("it knows no {command}"));
    }
    let known: Vec<&str> = help.split([' ', ',', '\n']).collect();
    match words.find(|word| word.starts_with('-') && !known.contains(word)) {
        Some(word) => Err(format!("{command} has no option {word}")),
        None => Ok(()),
    }
}

fn run(page: &Path) -> Result {
    let prefix = prefix::get()?;
    let text = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let name = page.file_stem().unwrap_or_default().to_string_lossy();
    let dir = prefix::target()?.join("test-documented").join(&*name);
    prepare(&dir, prefix, &text)?;
    let bin = prefix.join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", bin.display());
    for command in commands(&text) {
        let failed = |error: String| format!("{}: {command}\n{error}", page.display());
        if let Some((_, line)) = command.split_once("osu-bench ") {
            helps(&bin.join("osu-bench"), line).map_err(failed)?;
            continue;
        }
        // `xtask/tests/documents.rs` checks these.
        let elsewhere = command.starts_with("cargo xtask ");
        if elsewhere || command.contains("mpifort") && FORTRAN.lacking().is_some() {
            continue;
        }
        let prefix = prefix.display().to_string();
        let line = command
            .replace("~/weft", &prefix)
            .replace("PREFIX", &prefix);
        let line = line
            .replace("eth0", "lo")
            .replace('…', "mpiexec -n 2 ./program");
        let room = Room::new()?;
        let mut shell = room.command(Path::new("/bin/sh"));
        clear(&mut shell);
        shell
            .arg("-ec")
            .arg("exec > log.txt 2>&1; eval \"$0\"")
            .arg(&line);
        shell.env("PATH", &path).current_dir(&dir);
        let outcome = Outcome::of(&mut shell, patience(60.0))?;
        let said = fs::read_to_string(dir.join("log.txt")).unwrap_or_default();
        let judged = outcome.judge(&Case::default(), &room.leftovers());
        judged.map_err(|error| failed(format!("{error}\n{said}")))?;
    }
    Ok(())
}

/// Compares the control variables of the tool interface with those in `docs/tuning.md`.
fn variables() -> Result {
    let prefix = prefix::get()?;
    let program = programs(prefix)?.join("cvar-names");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/cvar_names.c");
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    compile(
        mpicc
            .args(["-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(source),
    )?;
    let output = Command::new(&program).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let told: Vec<&str> = told.lines().collect();
    let page = root().join("docs/tuning.md");
    let page = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `WEFT_"));
    let rows = rows.filter_map(|row| row.split('`').next());
    let rows: Vec<String> = rows.map(|name| format!("WEFT_{name}")).collect();
    if rows.len() < 30 || !output.status.success() || told != rows {
        return Err(format!("MPI_T has {told:?}, docs/tuning.md {rows:?}"));
    }
    Ok(())
}
