//! Checks the layers of docs/design.md: a crate uses only crates of lower layers.

use super::packages;

/// Layers from the lowest up. Crates of one layer do not use each other.
const FLOORS: &[&[&str]] = &[
    &["shmring", "mpi-types", "pmi", "mpi-table", "weft-needs"],
    &["netmod", "mpi-sched"],
    &["netmod-kit", "netmod-sim"],
    &[
        "shmmod",
        "netmod-tcp",
        "netmod-verbs",
        "netmod-ucx",
        "netmod-ofi",
        "netmod-unix",
        "mpi-core",
    ],
    &["mpi-coll"],
    &["mpi-comm"],
    &["mpi-rma", "mpi-io"],
    &["mpi-runtime"],
    &["libmpi", "libmpi-abi", "libmpi-ompi"],
    &["mpifort", "libmpifort-abi", "libmpifort-ompi", "weft-pmpi"],
    &[
        "mpiexec",
        "osu-bench",
        "weft-info",
        "weft-profile",
        "weft-top",
        "weft-check",
        "weft-mqs",
    ],
    &["xtask", "weft-tests", "weft-fuzz"],
];

/// Returns the layer of a crate.
fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

#[test]
fn no_crate_uses_one_above_it() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for package in packages() {
        let name = &package.name;
        let own = floor(name)
            .unwrap_or_else(|| panic!("{name} has no layer; add it to this test's list"));
        for used in &package.uses {
            checked += 1;
            if floor(used).is_none_or(|floor| floor >= own) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(checked > 80, "only {checked} uses were found");
    assert!(
        wrong.is_empty(),
        "crates that use a crate of a higher or the same layer: {wrong:#?}"
    );
}
