//! Bounds the `unsafe` blocks of library code, their length in `mpi-rma`, and `SAFETY:` lines that
//! name no invariant.

use std::fs;
use std::path::{Path, PathBuf};

use super::packages;
use super::sizes::{code_of, is_of_tests, sources};

/// Most `unsafe` blocks in library code.
const BLOCKS: usize = 1_850;

/// Most `SAFETY:` lines in library code that only point elsewhere.
const POINTERS: usize = 40;

/// Most lines of an `unsafe` block in `mpi-rma`.
const BLOCK: usize = 20;

/// Folders of packages that no program links.
const NO_LIBRARY: [&str; 6] = ["tools", "osu-bench", "xtask", "tests", "fuzz", "examples"];

/// Words of which a `SAFETY:` line consists that only points to a contract.
const POINTING: [&str; 48] = [
    "a",
    "above",
    "all",
    "and",
    "are",
    "as",
    "asks",
    "below",
    "block",
    "by",
    "call",
    "caller",
    "callers",
    "chapter",
    "contract",
    "contracts",
    "for",
    "function",
    "functions",
    "guarantees",
    "has",
    "have",
    "in",
    "is",
    "it",
    "its",
    "keeps",
    "kept",
    "line",
    "method",
    "module",
    "of",
    "on",
    "passed",
    "promise",
    "promised",
    "s",
    "same",
    "see",
    "states",
    "that",
    "the",
    "there",
    "these",
    "this",
    "to",
    "unchanged",
    "upholds",
];

/// A file of a library.
struct Source {
    path: PathBuf,
    code: String,
}

/// Returns the files of the libraries, without tests.
fn libraries() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths = Vec::new();
    for package in packages() {
        let folder = package.folder.strip_prefix(root).unwrap();
        if !NO_LIBRARY.iter().any(|no| folder.starts_with(no)) {
            sources(&package.folder.join("src"), &mut paths);
        }
    }
    // Packages of other ABIs compile the files of `libmpi` and `mpifort`.
    paths.sort();
    paths.dedup();
    let paths = paths.into_iter().filter_map(|path| {
        let inside = path.strip_prefix(root).unwrap().to_owned();
        let is_test = inside.ancestors().any(is_of_tests);
        (!is_test).then(|| Source {
            code: code_of(&fs::read_to_string(&path).unwrap()).to_owned(),
            path: inside,
        })
    });
    paths.collect()
}

/// Returns the first line and the length of each `unsafe` block.
fn blocks(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = code.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for (at, begin) in line.match_indices("unsafe {") {
            let first = &line[at + begin.len()..];
            let mut depth = 1;
            let rest = std::iter::once(first).chain(lines[number + 1..].iter().copied());
            let length = rest.take_while(|line| {
                let is_inside = depth > 0;
                for char in line.chars().filter(|_| is_inside) {
                    depth += i32::from(char == '{') - i32::from(char == '}' && depth > 0);
                }
                is_inside
            });
            found.push((number + 1, length.count()));
        }
    }
    found
}

/// Returns the line number and text of each comment that begins with `SAFETY:`.
fn arguments(code: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_inside = false;
    for (number, line) in code.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("// ");
        match comment.map(|comment| (comment.strip_prefix("SAFETY:"), comment)) {
            Some((Some(begin), _)) => found.push((number + 1, begin.to_owned())),
            Some((None, more)) if is_inside => {
                let (_, text) = found.last_mut().unwrap();
                text.push(' ');
                text.push_str(more);
            }
            _ => {
                is_inside = false;
                continue;
            }
        }
        is_inside = true;
    }
    found
}

/// Returns whether an argument only says where the invariant stands, and not which it is.
fn points_elsewhere(argument: &str) -> bool {
    let outside_names = argument.split('`').step_by(2);
    let mut words = outside_names.flat_map(|text| text.split(|char: char| !char.is_alphabetic()));
    words.all(|word| word.is_empty() || POINTING.contains(&word.to_lowercase().as_str()))
}

#[test]
fn unsafe_blocks_are_few() {
    let count = |source: &Source| blocks(&source.code).len();
    let all: usize = libraries().iter().map(count).sum();
    println!("{all} unsafe blocks in library code");
    assert!(all > 500, "only {all} unsafe blocks were found");
    assert!(
        all <= BLOCKS,
        "{all} unsafe blocks in library code; {BLOCKS} are allowed: merge those that rest on the \
         same argument"
    );
}

#[test]
fn unsafe_blocks_of_one_sided_operations_are_short() {
    let mut long = Vec::new();
    for source in libraries() {
        if source.path.starts_with("mpi-rma") {
            let blocks = blocks(&source.code);
            let blocks = blocks.iter().filter(|(_, length)| *length > BLOCK);
            long.extend(blocks.map(|(line, length)| {
                format!("{}:{line} has {length} lines", source.path.display())
            }));
        }
    }
    assert!(
        long.is_empty(),
        "unsafe blocks of more than {BLOCK} lines: {long:#?}"
    );
}

#[test]
fn arguments_for_safety_name_their_invariant() {
    let mut pointers = Vec::new();
    for source in libraries() {
        let arguments = arguments(&source.code);
        let arguments = arguments.iter().filter(|(_, text)| points_elsewhere(text));
        pointers.extend(
            arguments.map(|(line, text)| format!("{}:{line}:{text}", source.path.display())),
        );
    }
    println!("{} SAFETY lines only point elsewhere", pointers.len());
    assert!(
        pointers.len() <= POINTERS,
        "{} SAFETY lines only point elsewhere; {POINTERS} are allowed: {pointers:#?}",
        pointers.len()
    );
}

#[test]
fn blocks_and_arguments_are_found() {
    let code = "fn f() {\n    // SAFETY: the caller's contract, which is that of [`g`],\n    \
                // as above.\n    let one = unsafe { g() };\n    // SAFETY: `one` is open.\n    \
                unsafe {\n        if one {\n        }\n    }\n}\n// unsafe { }\n";
    assert_eq!(blocks(code), [(4, 1), (6, 4)]);
    let arguments = arguments(code);
    assert_eq!(arguments.len(), 2);
    assert_eq!(arguments[0].0, 2);
    assert!(points_elsewhere(" the caller's contract, as above."));
    assert!(points_elsewhere(
        " this function has the contract of [`g`]."
    ));
    assert!(!points_elsewhere(&arguments[1].1));
}
