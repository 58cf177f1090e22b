//! Checks that the files of a crate use one another without cycles, except small ones.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, Module};
use super::packages;

/// Largest allowed cycle of files: types that need each other, each in its own file.
const MOST: usize = 4;

type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Returns the files that each file uses.
fn graph(krate: &Crate) -> Graph {
    let mut graph = Graph::new();
    for (file, used) in krate.uses_by_file() {
        if *file != used {
            graph.entry(file.clone()).or_default().insert(used);
        }
    }
    graph
}

/// Returns the files that can be reached from a file.
fn reach<'a>(graph: &'a Graph, from: &'a Module) -> BTreeSet<&'a Module> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(file) = left.pop() {
        for next in graph.get(file).into_iter().flatten() {
            if found.insert(next) {
                left.push(next);
            }
        }
    }
    found
}

/// Returns the cycles of more than one file.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<&Module>> {
    let reach: BTreeMap<_, _> = graph
        .keys()
        .map(|file| (file, reach(graph, file)))
        .collect();
    let mut found = BTreeSet::new();
    for (file, reached) in &reach {
        let is_back =
            |other: &&Module| reach.get(other).is_some_and(|theirs| theirs.contains(file));
        let circle: BTreeSet<_> = reached.iter().copied().filter(is_back).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found
}

#[test]
fn files_have_no_large_cycles() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for package in packages() {
        let source = package.folder.join("src");
        let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
        for root in roots.iter().filter(|root| root.exists()) {
            let graph = graph(&Crate::read(root));
            checked += graph.values().map(BTreeSet::len).sum::<usize>();
            for circle in circles(&graph).iter().filter(|circle| circle.len() > MOST) {
                let circle: Vec<String> = circle.iter().map(|file| file.join("/")).collect();
                wrong.push(format!("{}: {}", package.name, circle.join(", ")));
            }
        }
    }
    assert!(checked > 2000, "only {checked} uses were found");
    assert!(
        wrong.is_empty(),
        "cycles of more than {MOST} files: {wrong:#?}"
    );
}

#[test]
fn circles_are_found() {
    let krate = Crate::of(&[
        ("", "mod a; mod b; mod c; mod d; pub use b::B;"),
        (
            "a",
            "use crate::{B, c::{self, C as Other}}; #[cfg(test)] mod tests { use crate::d::D; }",
        ),
        (
            "b",
            "// crate::d\nmod inner { use super::super::c::C; } pub struct B;",
        ),
        (
            "c",
            "fn c() { assert!(super::a::A); } #[cfg(all(loom, test))] mod loom_tests { use crate::d; }",
        ),
        ("d", "use crate::a::A; pub use crate::c::C;"),
    ]);
    let graph = graph(&krate);
    let names = ["a", "b", "c"].map(|name| vec![name.to_owned()]);
    assert_eq!(circles(&graph), BTreeSet::from([names.iter().collect()]));
}
