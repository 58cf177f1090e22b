//! Checks the layers of crates by cargo's graph, those of a crate's folders and files by the paths
//! in their code, sizes, and `unsafe` code.

mod circles;
mod crates;
mod floors;
mod modules;
mod sizes;
mod unsafety;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A package of the workspace.
struct Package {
    name: String,
    folder: PathBuf,
    /// Its dependencies in the workspace, without dev-dependencies.
    uses: Vec<String>,
}

/// Returns the packages of the workspace by cargo's graph.
fn packages() -> Vec<Package> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let output = command.current_dir(root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let names: Vec<String> = packages.iter().map(|one| text(&one["name"])).collect();
    let package = |one: &Value| {
        let manifest = text(&one["manifest_path"]);
        let dependencies = one["dependencies"].as_array().unwrap().iter();
        let built_from = dependencies.filter(|other| other["kind"] != "dev");
        let uses = built_from.map(|other| text(&other["name"]));
        Package {
            name: text(&one["name"]),
            folder: Path::new(&manifest).parent().unwrap().to_owned(),
            uses: uses.filter(|name| names.contains(name)).collect(),
        }
    };
    packages.iter().map(package).collect()
}
