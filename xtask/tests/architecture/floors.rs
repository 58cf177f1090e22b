//! Checks the layers of folders in mpi-core and mpi-comm: a folder uses only lower ones.

use super::modules::Crate;
use super::packages;

/// Crates with the fewest uses that the test must find between their folders, and the folders and
/// files beside `lib.rs` from the lowest layer up.
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

/// Returns the uses of higher folders, and the number of all uses between folders.
fn uses_above(krate: &Crate, floors: &[&str]) -> (Vec<String>, usize) {
    let floor = |name: &str| floors.iter().position(|known| *known == name);
    let (mut above, mut checked) = (Vec::new(), 0);
    for (module, path) in krate.named() {
        let (Some(own), Some(used)) = (module.first(), path.first()) else {
            continue;
        };
        let height =
            floor(own).unwrap_or_else(|| panic!("{own} has no layer; add it to this test's list"));
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
            "{name}: folders that use a higher one: {above:#?}"
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
