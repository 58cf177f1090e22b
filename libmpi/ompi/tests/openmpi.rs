//! Compares the library with lists of what programs built for Open MPI need from `libmpi.so.40`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use mpi_table::Table;

const NAMES: &str = include_str!("names.txt");
const OBJECTS: &str = include_str!("objects.txt");

/// Symbols that C++ programs need when they include `mpi.h`.
const CXX: [&str; 5] = [
    "_ZN3MPI4CommC2Ev",
    "_ZN3MPI3Win4FreeEv",
    "_ZN3MPI8Datatype4FreeEv",
    "ompi_mpi_cxx_op_intercept",
    "ompi_op_set_cxx_callback",
];

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn stdout(command: &mut Command) -> String {
    let output = command.output().expect("a program to run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    test.with_file_name("libmpi_ompi.so")
}

/// Returns the symbols that the library exports, with their sizes.
fn exported() -> BTreeMap<String, usize> {
    let text = stdout(
        Command::new("readelf")
            .args(["--dyn-syms", "--wide"])
            .arg(library()),
    );
    let symbol = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, _, size, _, "GLOBAL" | "WEAK", _, section, name] if section != "UND" => {
                // readelf prints large sizes in hexadecimal.
                let size = match size.strip_prefix("0x") {
                    Some(digits) => usize::from_str_radix(digits, 16),
                    None => size.parse(),
                };
                Some((name.to_owned(), size.expect("a size")))
            }
            _ => None,
        }
    };
    text.lines().filter_map(symbol).collect()
}

#[test]
fn functions_have_both_names() {
    let found = exported();
    let mut problems = String::new();
    for name in lines(NAMES) {
        let names = match name.starts_with("MPI_") || name.starts_with("MPIX_") {
            true => vec![name.to_owned(), format!("P{name}")],
            false => vec![name.to_owned()],
        };
        for name in names {
            if !found.contains_key(&name) {
                let _ = writeln!(problems, "{name} is missing");
            }
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// Programs that are not position-independent have copies of the objects; the dynamic linker
/// complains if these have other sizes.
#[test]
fn objects_have_the_sizes_that_programs_know() {
    let found = exported();
    let mut problems = String::new();
    let mut known = BTreeSet::new();
    for line in lines(OBJECTS) {
        let (name, size) = line.split_once(' ').expect("name and size");
        known.insert(name);
        let size: usize = size.parse().expect("a number");
        if found.get(name) != Some(&size) {
            let _ = writeln!(problems, "{name}: {:?}, not {size}", found.get(name));
        }
    }
    for name in found.keys().filter(|name| name.starts_with("ompi_")) {
        if !CXX.contains(&name.as_str()) && !known.contains(name.as_str()) {
            let _ = writeln!(problems, "{name} is not an object of Open MPI");
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn programs_in_cxx_find_what_they_need() {
    let found = exported();
    let missing: Vec<_> = CXX
        .iter()
        .filter(|name| !found.contains_key(**name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn nothing_else_is_exported() {
    let table = Table::load().expect("good tables");
    let names: BTreeSet<&str> = table.openmpi_names().collect();
    let old: BTreeSet<String> = table.openmpi_old_names().map(|(old, _)| old).collect();
    let is_known = |name: &str| {
        names.contains(name.strip_prefix('P').unwrap_or(name))
            || CXX.contains(&name)
            || old.contains(name.strip_prefix('P').unwrap_or(name))
            || name == "OMPI_Affinity_str"
            // For debuggers.
            || ["weft_places", "MPIR_dll_name"].contains(&name)
            || ["ompi_", "OMPI_C_MPI_", "MPII_", "MPI_F_STATUS"]
                .iter()
                .any(|start| name.starts_with(start))
    };
    let found = exported();
    let others: Vec<&String> = found.keys().filter(|name| !is_known(name)).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn soname_is_that_of_open_mpi() {
    let text = stdout(Command::new("readelf").arg("-d").arg(library()));
    assert!(text.contains("[libmpi.so.40]"), "{text}");
    assert!(!text.contains("VERDEF"), "{text}");
}
