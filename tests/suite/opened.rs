//! Tests Fortran libraries that a program without MPI opens one by one, as Python opens extension
//! modules: constants known by their addresses must be the same in all.

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use weft_needs::FORTRAN;

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::{Result, lacks, patience, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let left_out = lacks::any(name, &[&FORTRAN]);
        timed(name.to_owned(), Company::Any, test).with_ignored_flag(left_out)
    };
    let by_name = timed("opened/by-name/2".to_owned(), Company::Any, by_name);
    vec![
        by_name,
        trial("opened/mpich/2", || opened("mpifort")),
        trial("opened/standard/2", || opened("mpifort_abi")),
    ]
}

/// A program that opens `libmpi.so` must get Weft's under Weft's launcher, whichever are installed.
fn by_name() -> Result {
    let prefix = prefix::get()?;
    let program = programs(prefix)?.join("by_name");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/by_name.c");
    let mut build = Command::new("cc");
    compile(
        build
            .args(["-Wall", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-ldl"),
    )?;
    let room = Room::new()?;
    let mut command = room.command(&prefix.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-timeout", "60", "-n", "2"]).arg(&program);
    let outcome = Outcome::of(&mut command, patience(70.0))?;
    let case = Case {
        stdout: vec!["Weft 2".to_owned(); 2],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}

/// The libraries in the order of opening.
const LIBRARIES: [(&str, &[&str]); 6] = [
    // It has no such constants, so those of the MPI library are found first.
    ("first", &["-DFIRST"]),
    ("mpif", &["-DMPIF"]),
    ("mpi", &[]),
    ("f08", &["-DF08"]),
    ("other-f08", &["-DF08"]),
    ("last", &["-DMPIF", "-DLAST"]),
];

fn opened(wrapper: &str) -> Result {
    let prefix = prefix::get()?;
    let dir = programs(prefix)?.join(format!("opened-{wrapper}"));
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("f/parts");
    let program = dir.join("opens");
    let mut build = Command::new("cc");
    build.arg(parts.join("opens.c")).arg("-o").arg(&program);
    compile(build.arg("-ldl"))?;
    let mut orders = vec![Vec::new(), Vec::new()];
    for (name, flags) in LIBRARIES {
        let library = dir.join(format!("{name}.so"));
        let mut build = Command::new(prefix.join("bin").join(wrapper));
        build.args(["-fPIC", "-shared", "-o"]).arg(&library);
        compile(build.args(flags).arg(parts.join("opened.F90")))?;
        orders[0].push(library);
    }
    // The first library, which has constants.
    let library = dir.join("both.so");
    let mut build = Command::new(prefix.join("bin").join(wrapper));
    build.args(["-fPIC", "-shared", "-DBEGINS", "-o"]);
    compile(build.arg(&library).arg(parts.join("opened.F90")))?;
    orders[1].push(library);
    let others = orders[0][1..].to_vec();
    orders[1].extend(others);
    for libraries in orders {
        let room = Room::new()?;
        let mut command = room.command(&prefix.join("bin/mpiexec"));
        clear(&mut command);
        command.args(["-timeout", "60", "-n", "2"]);
        command.arg(&program).args(libraries);
        let outcome = Outcome::of(&mut command, patience(70.0))?;
        outcome.judge(&Case::default(), &room.leftovers())?;
    }
    Ok(())
}
