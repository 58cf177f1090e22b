//! Checks that no crate, including dependencies, needs a newer Rust than the manifest names.
//!
//! Clippy's `incompatible_msrv`, an error in `cargo xtask test --full`, compares the sources' use of
//! the standard library with the same version. Neither needs that toolchain.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Parses `1.89` or `1.89.1`.
fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().expect("a number"));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[test]
fn the_oldest_rust_is_that_of_all_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--locked", "--offline"]);
    // Crates for other systems and processors are not fetched on this machine.
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.current_dir(root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("rust-version = \"").unwrap();
    let oldest = rest.split('"').next().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.contains(&format!("With Rust {oldest} or newer")));
    let (mut own, mut others, mut wrong) = (0, 0, Vec::new());
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let needs = package["rust_version"].as_str();
        if package["source"].is_null() {
            own += 1;
            if needs != Some(oldest) {
                wrong.push(format!(
                    "{name} says {needs:?}: it needs rust-version.workspace = true"
                ));
            }
        } else {
            others += 1;
            if needs.is_some_and(|needs| version(needs) > version(oldest)) {
                wrong.push(format!("{name} needs Rust {}", needs.unwrap_or_default()));
            }
        }
    }
    assert!(own > 20 && others > 50, "{own} and {others} crates only");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
