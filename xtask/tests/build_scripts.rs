//! Checks that an unchanged build script does not run again, which would recompile its crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Checks that files in `rerun-if-changed` exist: cargo treats a missing one as changed. If packages
/// share a script, its names are relative to each package's folder.
#[test]
fn build_scripts_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--locked", "--offline"]);
    command.arg("--no-deps");
    let output = command.current_dir(root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (mut scripts, mut wrong) = (0, Vec::new());
    for package in metadata["packages"].as_array().unwrap() {
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent();
        for target in package["targets"].as_array().unwrap() {
            if target["kind"][0] != "custom-build" {
                continue;
            }
            scripts += 1;
            let script = target["src_path"].as_str().unwrap();
            let text = fs::read_to_string(script).unwrap();
            for rest in text.split("rerun-if-changed=").skip(1) {
                let name = rest.split('"').next().unwrap();
                if !folder.unwrap().join(name).exists() {
                    let package = package["name"].as_str().unwrap();
                    wrong.push(format!("{package}: {script}: there is no {name}"));
                }
            }
        }
    }
    assert!(scripts > 6, "only {scripts} build scripts were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
