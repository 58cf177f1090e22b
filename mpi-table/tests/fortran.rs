//! The Fortran bindings of all functions of the table, also those that are missing from the library.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpi_table::Table;

/// The table as if every function were implemented.
fn complete() -> Table {
    let mut table = Table::load().expect("good tables");
    for chapter in &mut table.functions.chapters {
        for function in &mut chapter.functions {
            function.implement(format!("all::{}", function.name));
        }
    }
    table
}

fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).expect("a temporary folder");
    dir
}

fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("left out: there is no {program}");
    }
    there
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("a compiler");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn modules_with_all_functions_compile() {
    modules_compile("modules", &complete());
}

#[test]
fn modules_of_the_standard_abi_compile() {
    modules_compile("standard", &complete().for_standard_fortran());
}

fn modules_compile(name: &str, table: &Table) {
    for compiler in ["gfortran", "gfortran-11"] {
        if !has(compiler) {
            continue;
        }
        let dir = folder(&format!("{name}-{compiler}"));
        for (name, text) in [
            ("mpi_f08_types.f90", table.f08_types()),
            ("mpi.f90", table.mpi_f90()),
            ("mpi_f08.F90", table.mpi_f08_f90()),
        ] {
            fs::write(dir.join(name), text).expect("a source");
            let mut command = Command::new(compiler);
            command
                .args(["-w", "-Werror", "-c", name])
                .current_dir(&dir);
            run(&mut command);
        }
    }
}

#[test]
fn mpif_h_fits_both_source_forms() {
    if !has("gfortran") {
        return;
    }
    let dir = folder("forms");
    let text = complete().mpif_h();
    assert!(
        text.lines().all(|line| line.len() <= 72),
        "a line is too long"
    );
    fs::write(dir.join("mpif.h"), text).expect("a header");
    let source = "      subroutine s\n      implicit none\n      include 'mpif.h'\n      end\n";
    for name in ["fixed.f", "free.f90"] {
        fs::write(dir.join(name), source).expect("a source");
        let mut command = Command::new("gfortran");
        command.args(["-Wall", "-Werror", "-Wno-unused", "-c", name]);
        run(command.current_dir(&dir));
    }
}

/// A program that prints constants by name.
fn printer(names: &[String], head: &str, tail: impl Fn(&str) -> String) -> String {
    let mut text = format!("program p\n{head}\n");
    for name in names {
        let _ = writeln!(text, "print '(a,i0)', '{name} ', {}", tail(name));
    }
    text.push_str("end program\n");
    text
}

fn values(dir: &Path, name: &str, text: &str, include: &str) -> BTreeMap<String, String> {
    let source = format!("{name}.f90");
    fs::write(dir.join(&source), text).expect("a source");
    let mut command = Command::new("gfortran");
    command.args(["-w", "-I", include, "-o", name, &source]);
    run(command.current_dir(dir));
    let text = run(&mut Command::new(dir.join(name)));
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// All three bindings have the same values, and they are those of another library of the ABI.
#[test]
fn constants_are_those_of_the_abi() {
    if !has("gfortran") {
        return;
    }
    let dir = folder("constants");
    let table = complete();
    for (name, text) in [
        ("mpif.h", table.mpif_h()),
        ("mpi_f08_types.f90", table.f08_types()),
        ("mpi.f90", table.mpi_f90()),
        ("mpi_f08.F90", table.mpi_f08_f90()),
    ] {
        fs::write(dir.join(name), text).expect("a source");
        if name.to_lowercase().ends_with("f90") {
            run(Command::new("gfortran")
                .args(["-w", "-c", name])
                .current_dir(&dir));
        }
    }
    let constants = table.fortran_constants();
    assert!(constants.len() > 250);
    let names: Vec<String> = constants.iter().map(|one| one.name.clone()).collect();
    let here = ".";
    let text = printer(&names, "implicit none\ninclude 'mpif.h'", str::to_owned);
    let header = values(&dir, "with_header", &text, here);
    let text = printer(&names, "use mpi\nimplicit none", str::to_owned);
    let module = values(&dir, "with_module", &text, here);
    assert_eq!(header, module);
    let text = printer(&names, "use mpi_f08\nimplicit none", |name| {
        let is_handle = constants
            .iter()
            .any(|one| one.name == name && one.handle.is_some());
        let end = if is_handle { "%MPI_VAL" } else { "" };
        format!("{name}{end}")
    });
    assert_eq!(header, values(&dir, "with_f08", &text, here));

    // Values in C, but for keys and lengths, are compared elsewhere.
    for constant in &constants {
        assert_eq!(header[&constant.name], constant.value.to_string());
    }
    let other = "/usr/include/x86_64-linux-gnu/mpich";
    let Ok(text) = fs::read_to_string(format!("{other}/mpif.h")) else {
        println!("left out: there is no other library's mpif.h");
        return;
    };
    // The other library has no integers of 16 bytes.
    let different = ["MPI_VERSION", "MPI_SUBVERSION", "MPI_INTEGER16"];
    let known: Vec<String> = names
        .iter()
        .filter(|name| text.contains(&format!("({name}=")))
        .filter(|name| !different.contains(&name.as_str()))
        .cloned()
        .collect();
    assert!(known.len() > 250, "only {} in common", known.len());
    let text = printer(&known, "implicit none\ninclude 'mpif.h'", str::to_owned);
    let theirs = values(&folder("constants/other"), "theirs", &text, other);
    for name in &known {
        assert_eq!(header[name], theirs[name], "{name}");
    }
}

/// The declarations of `mpi_f08` for these routines (annex A.4 of MPI-4.1, A.5 of MPI-5.0), in lower case.
#[test]
fn arguments_are_declared_as_the_standard_does() {
    let table = complete();
    let routines = mpi_table::fortran::routines(&table);
    let lacks = |name: &str, declaration: &str| {
        let routine = routines.iter().find(|one| one.function.name == name);
        let routine = routine.unwrap_or_else(|| panic!("there is no {name}"));
        let text =
            mpi_table::fortran::interfaces::synopsis(routine, true, usize::MAX).to_lowercase();
        let found = text.lines().any(|line| line.trim() == declaration);
        (!found).then(|| format!("{name} lacks {declaration}:\n{text}"))
    };
    let mut wrong: Vec<String> = [
        ("MPI_Status_get_error", "integer, intent(out) :: err"),
        ("MPI_Status_set_error", "integer, intent(in) :: err"),
        (
            "MPI_Abi_get_fortran_booleans",
            "logical, intent(out) :: logical_true",
        ),
        (
            "MPI_Abi_get_fortran_booleans",
            "logical, intent(out) :: is_set",
        ),
        (
            "MPI_Abi_set_fortran_booleans",
            "logical, intent(in) :: logical_false",
        ),
        ("MPI_Cancel", "type(mpi_request), intent(in) :: request"),
        (
            "MPI_Comm_idup",
            "type(mpi_comm), intent(out), asynchronous :: newcomm",
        ),
        (
            "MPI_Comm_idup_with_info",
            "type(mpi_comm), intent(out), asynchronous :: newcomm",
        ),
        ("MPI_Comm_dup", "type(mpi_comm), intent(out) :: newcomm"),
        ("MPI_Dist_graph_neighbors", "integer :: sourceweights(*)"),
        ("MPI_Dist_graph_neighbors", "integer :: destweights(*)"),
        (
            "MPI_Dist_graph_create_adjacent",
            "integer, intent(in) :: sourceweights(*)",
        ),
        (
            "MPI_Free_mem",
            "type(*), dimension(..), intent(in), asynchronous :: base",
        ),
        (
            "MPI_Status_f2f08",
            "type(mpi_status), intent(out) :: f08_status",
        ),
        ("MPI_Recv", "type(mpi_status) :: status"),
    ]
    .into_iter()
    .filter_map(|(name, declaration)| lacks(name, declaration))
    .collect();
    for way in ["all", "at_all", "ordered"] {
        for end in ["begin", "begin_c", "end"] {
            let read = format!("MPI_File_read_{way}_{end}");
            wrong.extend(lacks(&read, "type(*), dimension(..), asynchronous :: buf"));
            let write = format!("MPI_File_write_{way}_{end}");
            let declaration = "type(*), dimension(..), intent(in), asynchronous :: buf";
            wrong.extend(lacks(&write, declaration));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The version of the ABI (MPI-5.0 section 21.2) is among the constants of that ABI, and of no other.
#[test]
fn the_standard_abi_tells_its_version() {
    let version = |table: &Table| {
        let constants = table.fortran_constants().into_iter();
        constants
            .filter(|one| one.name.starts_with("MPI_ABI_"))
            .map(|one| (one.name, one.value))
            .collect::<Vec<_>>()
    };
    let expected = [("MPI_ABI_VERSION", 1), ("MPI_ABI_SUBVERSION", 0)];
    let found = version(&complete().for_standard_fortran());
    let found: Vec<(&str, i64)> = found
        .iter()
        .map(|(name, value)| (&**name, *value))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(version(&complete()), []);
}

/// `mpif.h` is for compilers that take the standard's Fortran alone (section 19.1.4 of MPI-4.1), in both source forms.
#[test]
fn mpif_has_no_extensions() {
    for table in [complete(), complete().for_standard_fortran()] {
        let text = table.mpif_h();
        assert!(
            !text.contains("INTEGER*"),
            "a length is no standard Fortran"
        );
        for line in text.lines() {
            assert!(line.len() <= 72, "too long for fixed form: {line}");
        }
    }
}
