//! Compares the library and its header with lists from the standard (MPI-5.0 chapter 21, annex A).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpi_table::Table;

const NAMES: &str = include_str!("names.txt");
const VALUES: &str = include_str!("values.txt");

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
    test.with_file_name("libmpi_abi.so")
}

/// The library exports both names of a function, since programs link to no other library.
#[test]
fn the_library_has_both_names_of_each_function_and_no_others() {
    let text = stdout(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library()),
    );
    let found: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let mut problems = String::new();
    for name in lines(NAMES) {
        let here = [name.to_owned(), format!("P{name}")].map(|name| found.contains(name.as_str()));
        if here != [true, true] {
            let _ = writeln!(problems, "{name}: {here:?}");
        }
    }
    let standard: BTreeSet<&str> = lines(NAMES).collect();
    for name in found {
        let plain = name.strip_prefix('P').unwrap_or(name);
        // The Fortran library needs the MPII_ functions for attributes, as MPICH's does.
        let extra = plain.starts_with("MPIX_") || name.starts_with("MPII_");
        let for_debuggers = ["weft_places", "MPIR_dll_name"].contains(&name);
        if !standard.contains(plain) && !extra && !for_debuggers {
            let _ = writeln!(problems, "{name} is not in the standard ABI");
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn soname_is_that_of_the_standard() {
    let text = stdout(Command::new("readelf").arg("-d").arg(library()));
    assert!(text.contains("[libmpi_abi.so.1]"), "{text}");
    assert!(!text.contains("VERDEF"), "{text}");
}

#[test]
fn constants_have_the_standards_values() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("values");
    fs::create_dir_all(&dir).expect("a folder");
    let table = Table::load().expect("good tables");
    fs::write(dir.join("mpi.h"), table.standard_header()).expect("a file");
    let mut text = String::from("#include <mpi.h>\n#include <stdio.h>\n#include <stddef.h>\n");
    text.push_str("int main(void) {\n");
    for line in lines(VALUES) {
        let name = line.split(' ').next().expect("a name");
        let _ = writeln!(
            text,
            "#ifdef {name}\n printf(\"{name} %lld\\n\", (long long)({name}));\n#endif"
        );
    }
    text.push_str(
        "printf(\"%zu %zu %zu %zu\\n\", sizeof(MPI_Status), offsetof(MPI_Status, MPI_SOURCE), \
         offsetof(MPI_Status, MPI_TAG), offsetof(MPI_Status, MPI_ERROR));\n\
         printf(\"%zu %zu %zu %zu\\n\", sizeof(MPI_Comm), sizeof(MPI_Aint), sizeof(MPI_Offset), \
         sizeof(MPI_Count));\nreturn 0;\n}\n",
    );
    let (source, program) = (dir.join("values.c"), dir.join("values"));
    fs::write(&source, text).expect("a file");
    stdout(
        Command::new("cc")
            .arg("-I")
            .arg(&dir)
            .arg("-w")
            .arg("-o")
            .arg(&program)
            .arg(&source),
    );
    let printed = stdout(&mut Command::new(&program));
    let mut expected: Vec<&str> = lines(VALUES).collect();
    expected.extend(["32 0 4 8", "8 8 8 8"]);
    let printed: Vec<&str> = printed.lines().collect();
    for line in &expected {
        assert!(printed.contains(line), "{line} is not what the header says");
    }
    assert_eq!(printed.len(), expected.len());
}
