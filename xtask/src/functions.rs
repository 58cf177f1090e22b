//! Lists the functions of Weft's that run between an MPI call and the lane.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::features::Features;
use crate::instructions::{Counted, Options, calls};
use crate::{Result, install, workspace};

/// Starts of the names of functions in which a walk ends: the lane, and what lies below it.
const LANE: [&str; 6] = [
    "shmmod::",
    "shmring::",
    "netmod::",
    "<shmmod::",
    "<shmring::",
    "<netmod::",
];

/// A call graph: how often each function has called each other one.
#[derive(Default)]
struct Graph {
    calls: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What a walk has found.
#[derive(Debug, PartialEq)]
struct Chain {
    /// Functions that call others of Weft's, in the order of the walk, and how often they ran.
    layers: Vec<(String, u64)>,
    /// Functions that call no other of Weft's.
    leaves: Vec<(String, u64)>,
}

impl Graph {
    /// Parses a file of callgrind, written without compression.
    fn parse(text: &str) -> Graph {
        let mut graph = Graph::default();
        let (mut caller, mut callee) = ("", "");
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                caller = name;
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = name;
            } else if let Some(rest) = line.strip_prefix("calls=") {
                let number = rest
                    .split(' ')
                    .next()
                    .and_then(|number| number.parse().ok());
                let callees = graph.calls.entry(caller.to_owned()).or_default();
                *callees.entry(callee.to_owned()).or_default() += number.unwrap_or(0);
            }
        }
        graph
    }

    fn callees(&self, name: &str) -> impl Iterator<Item = &String> {
        self.calls.get(name).into_iter().flat_map(BTreeMap::keys)
    }

    /// Returns how often a function ran.
    fn entered(&self, name: &str) -> u64 {
        self.calls
            .values()
            .filter_map(|callees| callees.get(name))
            .sum()
    }

    /// Walks from an MPI function to the lane.
    fn chain(&self, root: &str) -> Chain {
        let mut order = vec![root];
        let mut seen = BTreeSet::from([root]);
        let mut next = 0;
        while let Some(&name) = order.get(next) {
            next += 1;
            if !is_lane(name) {
                order.extend(
                    self.callees(name)
                        .map(String::as_str)
                        .filter(|name| seen.insert(name)),
                );
            }
        }
        let own = order.into_iter().filter(|name| is_own(name));
        let counted = own.map(|name| (name.to_owned(), self.entered(name)));
        let (layers, leaves) = counted.partition(|(name, _)| self.calls_own(name));
        Chain { layers, leaves }
    }

    /// Whether a function calls one of Weft's, itself or through closures and Rust's library.
    fn calls_own(&self, name: &str) -> bool {
        let mut left: Vec<&String> = self.callees(name).collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = left.pop() {
            if is_own(name) || is_lane(name) {
                return true;
            }
            if seen.insert(name) {
                left.extend(self.callees(name));
            }
        }
        false
    }
}

fn is_lane(name: &str) -> bool {
    LANE.iter().any(|start| name.starts_with(start))
}

/// Whether a function is Weft's, above the lane, with a name of its own.
fn is_own(name: &str) -> bool {
    let is_weft = ["mpi::", "mpi_", "netmod_kit::", "MPI_", "PMPI_"];
    is_weft.iter().any(|start| name.starts_with(start)) && !name.contains("{{closure}}")
}

/// Prints the functions of each counted call, of another library or of this source tree's.
pub fn print(options: &Options) -> Result {
    let target = workspace::target()?;
    let counted = match &options.lib {
        Some(lib) => Counted::installed(lib, options.launcher.as_deref())?,
        None => Counted {
            libraries: libraries()?,
            mpiexec: install::build(true, &Features::default())?.join("mpiexec"),
            work: target.join("entered"),
        },
    };
    let program = counted.compile("entered", "include", "libmpi.so.12")?;
    let details = ["--compress-strings=no", "--compress-pos=no"];
    for calls::Dump { name, file, .. } in calls::dumps(&counted, &program, &[], 0, &details)? {
        let text = fs::read_to_string(&file);
        let graph = Graph::parse(&text.map_err(|error| format!("{}: {error}", file.display()))?);
        let function = name.split(' ').next().unwrap_or_default();
        let Chain { layers, leaves } = graph.chain(&format!("PMPI_{function}"));
        let all = layers.len() + leaves.len();
        println!("{name}: {all} functions, {} of them layers", layers.len());
        for (name, entered) in &layers {
            println!("  {entered} x {name}");
        }
        for (name, entered) in &leaves {
            println!("  {entered} x {name} (leaf)");
        }
    }
    Ok(())
}

/// Builds the unoptimized library with nothing inlined, and returns its folder.
fn libraries() -> Result<PathBuf> {
    let target = workspace::target()?.join("entered");
    let mut command = workspace::cargo();
    command.args(["build", "--package", "libmpi", "--target-dir"]);
    // Without the passes of LLVM that even an unoptimized build has, functions that ask to be inlined
    // are called. What checks the library itself is no part of a release.
    command.arg(&target).env(
        "RUSTFLAGS",
        "-C no-prepopulate-passes -C debug-assertions=off",
    );
    workspace::run(&mut command, "building the library with nothing inlined")?;
    let (built, library) = (target.join("debug/libmpi.so"), target.join("libmpi.so.12"));
    fs::copy(built, &library).map_err(|error| format!("{}: {error}", library.display()))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_above_the_lane_are_found_through_closures() {
        let graph = Graph::parse(
            "fn=PMPI_Isend\n3 5\ncfn=mpi::api::send\ncalls=1 0 \n3 90\n\n\
             fn=mpi::api::send\ncfn=core::option::Option<T>::map\ncalls=2 0 \n5 9\n\
             cfn=mpi_core::length\ncalls=2 0 \n6 9\n\
             fn=core::option::Option<T>::map\ncfn=mpi::api::send::{{closure}}\ncalls=2 0 \n7 7\n\
             fn=mpi::api::send::{{closure}}\ncfn=shmring::ring::TxRing::send\ncalls=2 0 \n8 8\n\
             fn=shmring::ring::TxRing::send\ncfn=mpi_core::below\ncalls=1 0 \n9 9\n",
        );
        let chain = graph.chain("PMPI_Isend");
        let expected = [("PMPI_Isend", 0), ("mpi::api::send", 1)];
        assert_eq!(chain.layers, expected.map(|(name, n)| (name.to_owned(), n)));
        assert_eq!(chain.leaves, [("mpi_core::length".to_owned(), 2)]);
    }
}
