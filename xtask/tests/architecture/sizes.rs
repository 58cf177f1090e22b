//! Checks that crates have at most 20,000 lines of code, and prints files of more than 900 lines.

use std::fs;
use std::path::{Path, PathBuf};

use super::packages;

/// Most lines of code of a crate, without comments, blank lines and tests.
const CRATE: usize = 20_000;

/// Lines of a file above which it is printed.
const FILE: usize = 900;

/// Collects the Rust files below a folder.
pub(super) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Returns whether a file contains only tests, as `tests.rs` and `loom_tests.rs` do.
pub(super) fn is_of_tests(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.is_some_and(|stem| stem.ends_with("tests"))
}

/// Returns the text above the tests at a file's end.
pub(super) fn code_of(text: &str) -> &str {
    let code = text.split("\n#[cfg(test)]\nmod tests").next();
    code.unwrap_or_default()
}

/// Counts the lines of code above the tests at a file's end.
fn code_lines(text: &str) -> usize {
    let lines = code_of(text).lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[test]
fn crates_are_not_too_large() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut too_large, mut checked) = (Vec::new(), 0);
    for package in packages() {
        let mut files = Vec::new();
        sources(&package.folder.join("src"), &mut files);
        let mut lines = 0;
        for path in files.iter().filter(|path| !is_of_tests(path)) {
            let text = fs::read_to_string(path).unwrap();
            checked += 1;
            lines += code_lines(&text);
            let length = text.lines().count();
            if length > FILE {
                let path = path.strip_prefix(root).unwrap().display();
                println!("{path} has {length} lines: which subjects are in it?");
            }
        }
        if lines > CRATE {
            too_large.push(format!("{} has {lines} lines of code", package.name));
        }
    }
    assert!(checked > 500, "only {checked} files were found");
    assert!(too_large.is_empty(), "{too_large:#?}");
}

#[test]
fn comments_blank_lines_and_tests_are_no_code() {
    let text = "//! Doc.\n\nfn code() {\n    // why\n}\n\n#[cfg(test)]\nmod tests {\n    fn test() {}\n}\n";
    assert_eq!(code_lines(text), 2);
}
