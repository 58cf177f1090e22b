//! Crates and files stay small enough to be read: 20,000 lines of source in a crate, 700 in a file.
//!
//! A file that is larger is named here with a bound of its own, which only goes down.

use std::fs;
use std::path::{Path, PathBuf};

use super::packages;

const CRATE: usize = 20_000;
const FILE: usize = 700;

/// Declarations of C libraries and of Fortran routines, which are looked up and not read.
const LARGER_FILES: &[(&str, usize)] = &[
    ("netmod-ofi/src/ffi.rs", 881),
    ("netmod-verbs/src/ffi.rs", 1146),
];

fn bound(path: &str) -> usize {
    let found = LARGER_FILES.iter().find(|(larger, _)| *larger == path);
    found.map_or(FILE, |(_, bound)| *bound)
}

/// The Rust files of a folder with their lengths.
fn lengths(dir: &Path, found: &mut Vec<(PathBuf, usize)>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            lengths(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text.lines().count()));
        }
    }
}

#[test]
fn crates_and_files_are_not_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for package in packages() {
        let name = &package.name;
        let mut files = Vec::new();
        lengths(&package.folder.join("src"), &mut files);
        let lines: usize = files.iter().map(|(_, lines)| lines).sum();
        if lines > CRATE {
            wrong.push(format!(
                "{name} has {lines} lines: what can be a crate of its own?"
            ));
        }
        lengths(&package.folder.join("tests"), &mut files);
        for (path, lines) in files {
            let path = path.strip_prefix(root).unwrap().to_str().unwrap();
            checked += 1;
            if lines > bound(path) {
                wrong.push(format!(
                    "{path} has {lines} lines: which subjects are in it?"
                ));
            }
        }
    }
    assert!(checked > 500, "only {checked} files were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
