//! Tests the wrappers with other compilers than GNU's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::Trial;
use weft_needs::{CLANG, FLANG, FORTRAN};

use crate::company::Company;
use crate::job::clear;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::{Result, lacks, patience, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, need, test: fn() -> Result| {
        let left_out = lacks::any(name, &[need]);
        timed(name.to_owned(), Company::Any, test).with_ignored_flag(left_out)
    };
    vec![
        trial("compilers/clang/2", &CLANG, clang),
        trial("compilers/flang/2", &FLANG, flang),
        trial("compilers/without-modules/1", &FORTRAN, without_modules),
    ]
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name)
}

fn output(command: &mut Command) -> Result<Output> {
    let done = command.output();
    done.map_err(|error| format!("{command:?}: {error}"))
}

/// Compiles C and C++ by clang without a warning, selected by each variable and option of the
/// wrappers.
fn clang() -> Result {
    let prefix = prefix::get()?;
    let dir = programs(prefix)?;
    let ways = [
        ("mpicc", "MPICH_CC", "clang", "isendrecv.c"),
        ("mpicc", "OMPI_CC", "clang", "isendrecv.c"),
        ("mpicc_abi", "I_MPI_CC", "clang", "isendrecv.c"),
        ("mpicxx", "MPICH_CXX", "clang++", "cxx.cpp"),
    ];
    for (wrapper, variable, compiler, name) in ways {
        let binary = dir.join(format!("clang-{variable}"));
        let mut build = Command::new(prefix.join("bin").join(wrapper));
        build.env(variable, compiler);
        build.args(["-Wall", "-Wextra", "-Werror", "-o"]);
        let done = output(build.arg(&binary).arg(source(name)))?;
        let said = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() {
            return Err(format!("{wrapper}, {variable}={compiler}: {said}"));
        }
        let mut show = Command::new(prefix.join("bin").join(wrapper));
        let shown = output(show.env(variable, compiler).arg("-show"))?;
        let shown = String::from_utf8_lossy(&shown.stdout);
        if !shown.starts_with(&format!("{compiler} ")) {
            return Err(format!("{variable} is not heeded: {shown}"));
        }
        let comment = fs::read(&binary).map_err(|error| error.to_string())?;
        if !comment.windows(6).any(|part| part == b"clang ") {
            return Err(format!("{} was not made by clang", binary.display()));
        }
        runs(&binary)?;
    }
    Ok(())
}

/// Runs the program on two ranks.
fn runs(binary: &Path) -> Result {
    let room = Room::new()?;
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-timeout", "60", "-n", "2"]).arg(binary);
    let outcome = Outcome::of(&mut command, patience(70.0))?;
    outcome.judge(&Case::default(), &room.leftovers())
}

/// Compiles Fortran by flang: both modules of both ABIs, compiled at first use, and mpif.h.
fn flang() -> Result {
    let prefix = prefix::get()?;
    let dir = programs(prefix)?;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("f");
    let ways = [
        ("mpifort", "mpicc", "f08.F90", None),
        ("mpifort", "mpicc", "basics.F90", Some("-DMPIF")),
        ("mpifort_abi", "mpicc_abi", "basics.F90", None),
        ("mpifort_abi", "mpicc_abi", "f08.F90", None),
    ];
    for (wrapper, c, name, word) in ways {
        let way = format!("flang-{wrapper}-{name}");
        let binary = dir.join(&way);
        let part = dir.join(format!("{way}.o"));
        let mut build = Command::new(prefix.join("bin").join(c));
        let source = tests.join("parts/attributes.c");
        compile(build.arg("-c").arg("-o").arg(&part).arg(source))?;
        // A separate folder for modules: gfortran, running at the same time, must not find flang's.
        let modules = dir.join(format!("{way}.modules"));
        fs::create_dir_all(&modules).map_err(|error| error.to_string())?;
        let mut build = Command::new(prefix.join("bin").join(wrapper));
        build.current_dir(&modules);
        build.env("MPICH_FC", "flang-new-19").args(word);
        let sources = [tests.join(name), part];
        compile(build.arg("-o").arg(&binary).args(sources))?;
        // The only mark of flang in a program is the names of its runtime library.
        let names = fs::read(&binary).map_err(|error| error.to_string())?;
        if !names.windows(9).any(|part| part == b"_FortranA") {
            return Err(format!("{} was not made by flang", binary.display()));
        }
        runs(&binary)?;
    }
    Ok(())
}

/// Uses a compiler that can't compile the modules, as some versions of flang can't: the wrapper
/// prints a line with the first error, and programs with mpif.h compile.
fn without_modules() -> Result {
    let prefix = prefix::get()?;
    let dir = programs(prefix)?;
    let compiler = dir.join("no-modules");
    let script = "#!/bin/sh\nfor word do case $word in *mpi_f08_types.f90) printf 'a dump\\nof the stack\\n' >&2\n\
                  echo 'no-modules: error: cannot do it' >&2; exit 1 ;; esac; done\nexec gfortran \"$@\"\n";
    let failed = |error: std::io::Error| format!("{}: {error}", compiler.display());
    fs::write(&compiler, script).map_err(failed)?;
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let file = dir.join("old.f");
    let text = "      PROGRAM OLD\n      INCLUDE 'mpif.h'\n      INTEGER IERROR\n      \
                CALL MPI_INIT(IERROR)\n      CALL MPI_FINALIZE(IERROR)\n      END\n";
    fs::write(&file, text).map_err(failed)?;
    let binary = dir.join("old");
    let build = |words: &[&str]| {
        // A child of another test may still hold the new file open.
        let name = format!("sh {}", compiler.display());
        let mut command = Command::new(prefix.join("bin/mpif90"));
        output(command.env("MPICH_FC", name).args(words))
    };
    let words = [file.display().to_string(), binary.display().to_string()];
    let done = build(&[&words[0], "-o", &words[1]])?;
    let said = String::from_utf8_lossy(&done.stderr);
    let told = said
        .contains("cannot compile the modules mpi and mpi_f08 (no-modules: error: cannot do it)");
    if !done.status.success() || !told || said.contains("of the stack") {
        return Err(format!("{}: {said}", done.status));
    }
    let room = Room::new()?;
    let outcome = Outcome::of(&mut room.command(&binary), patience(20.0))?;
    outcome.judge(&Case::default(), &room.leftovers())?;
    let all = build(&["-modules"])?;
    let said = String::from_utf8_lossy(&all.stderr);
    match !all.status.success() && said.contains("of the stack") {
        true => Ok(()),
        false => Err(format!("-modules: {}: {said}", all.status)),
    }
}
