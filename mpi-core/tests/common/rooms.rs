//! Looks for rooms of a crate that use others above them.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The first words after `crate::` in a text, those in braces too.
fn mentioned(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, what) in text.match_indices("crate::") {
        let rest = &text[at + what.len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => rest
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default(),
        };
        words.extend(list.split(',').map(|word| {
            let word = word.trim();
            word.split("::").next().unwrap_or_default()
        }));
    }
    words
}

/// Rooms are given from the ground up. Fails if one uses one above it, or if there are fewer than `least`
/// uses, which would mean that they are not found any more.
pub fn check(crate_folder: &str, rooms: &[&str], least: usize) {
    let root = Path::new(crate_folder).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap();
        let room = room.trim_end_matches(".rs");
        // Tests of a room may build things of higher ones.
        let is_test = file
            .file_stem()
            .is_some_and(|name| name.to_string_lossy().ends_with("tests"));
        if room == "lib" || is_test {
            continue;
        }
        let floor = |name: &str| rooms.iter().position(|known| *known == name);
        let own = floor(room).unwrap_or_else(|| panic!("{room} has no floor in this test's list"));
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for word in mentioned(text) {
            if let Some(used) = floor(word) {
                checked += 1;
                if used > own {
                    wrong.push(format!("{} uses {word}", inside.display()));
                }
            }
        }
    }
    assert!(checked > least, "only {checked} uses were found");
    assert!(
        wrong.is_empty(),
        "rooms that use one above them: {wrong:#?}"
    );
}
