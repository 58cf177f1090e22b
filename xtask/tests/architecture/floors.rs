//! The folders of mpi-core and mpi-comm lie one above the other: each uses only those below it.

use super::modules::Crate;
use super::packages;

/// Crates with the fewest uses between their folders that a test may find, and with the folders and files beside
/// `lib.rs` from the ground up.
const FLOORS: &[(&str, usize, &[&str])] = &[
    (
        "mpi-core",
        100,
        &[
            "layout",
            "sync",
            "lock",
            "wait",
            "info",
            "attr",
            "group",
            "pt2pt",
            "vci",
            "process",
            "comm",
            "partitioned",
        ],
    ),
    ("mpi-comm", 5, &["creation", "dynamic", "failure", "topo"]),
];

/// Uses of a folder above, and how many uses there are between folders.
fn uses_above(krate: &Crate, floors: &[&str]) -> (Vec<String>, usize) {
    let floor = |name: &str| floors.iter().position(|known| *known == name);
    let (mut above, mut checked) = (Vec::new(), 0);
    for (module, path) in krate.named() {
        let (Some(own), Some(used)) = (module.first(), path.first()) else {
            continue;
        };
        let height = floor(own).unwrap_or_else(|| panic!("{own} has no floor in this test's list"));
        if let Some(other) = floor(used).filter(|_| own != used) {
            checked += 1;
            if other > height {
                above.push(format!("{} uses {}", module.join("/"), path.join("::")));
            }
        }
    }
    (above, checked)
}

#[test]
fn no_folder_uses_one_above_it() {
    let packages = packages();
    for (name, fewest, floors) in FLOORS {
        let package = packages
            .iter()
            .find(|package| package.name == *name)
            .unwrap();
        let krate = Crate::read(&package.folder.join("src/lib.rs"));
        let (above, checked) = uses_above(&krate, floors);
        assert!(
            checked > *fewest,
            "only {checked} uses were found in {name}"
        );
        assert!(
            above.is_empty(),
            "{name}: folders that use one above them: {above:#?}"
        );
    }
}

#[test]
fn uses_above_are_found() {
    let krate = Crate::of(&[
        ("low", "use super::high::Thing; fn low() {}"),
        (
            "high",
            "use crate::low; #[cfg(test)] mod tests { use crate::top::Other; }",
        ),
        ("top", "macro_rules! go { () => { $crate::high::go() } }"),
    ]);
    let (above, checked) = uses_above(&krate, &["low", "high", "top"]);
    assert_eq!(above, ["low uses high::Thing"]);
    assert_eq!(checked, 3);
}
