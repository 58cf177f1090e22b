//! Replays the corpus, so that inputs that once revealed a defect stay harmless.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use weft_fuzz::TARGETS;

/// Most bytes of all inputs.
const MOST: u64 = 1 << 20;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Lists the files of a folder by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn targets_take_their_corpus() {
    let mut failed = Vec::new();
    let mut bytes = 0;
    for (name, run) in TARGETS {
        let inputs = files(&folder("corpus").join(name));
        assert!(!inputs.is_empty(), "corpus/{name} has no seed");
        for path in inputs {
            let input = fs::read(&path).unwrap();
            bytes += input.len() as u64;
            // If a target kills the process, the last printed line names the input.
            println!("{}", path.display());
            if catch_unwind(|| run(&input)).is_err() {
                failed.push(path);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(bytes < MOST, "{bytes} bytes; minimise them by -merge=1");
}

#[test]
fn programs_and_folders_are_those_of_the_targets() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.0).collect();
    names.sort_unstable();
    let stems = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    for place in ["corpus", "fuzz_targets"] {
        let found: Vec<String> = files(&folder(place)).into_iter().map(stems).collect();
        assert_eq!(found, names, "{place}");
    }
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    let listed = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
    let mut listed: Vec<&str> = listed
        .filter_map(|line| line.strip_suffix(".rs\""))
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, names, "Cargo.toml");
}
