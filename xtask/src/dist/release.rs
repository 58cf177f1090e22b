//! The files of a release: packages, sources, a bill of materials and checksums.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{VERSION, failed, source_time, text_of};
use crate::{Result, workspace};

/// The glibc that releases are linked for: that of Rocky Linux 8 and Debian 10.
const GLIBC: &str = "2.28";
/// Packages of this source tree that are not part of an installation.
const NOT_SHIPPED: &[&str] = &[
    "xtask",
    "weft-tests",
    "weft-fuzz",
    "netmod-sim",
    "netmod-unix",
];

/// Makes all files of a release in `to`, by default `release-files` in cargo's target folder.
/// Must be called before other threads run.
///
/// # Errors
/// If the tree has changes that are not committed, since the sources would not be those of the
/// packages, or if a file needs a newer glibc than [`GLIBC`].
pub fn run(to: Option<&Path>) -> Result {
    let root = workspace::root();
    let root = root.to_string_lossy();
    let changes = text_of("git", &["-C", &root, "status", "--porcelain"])?;
    if !changes.is_empty() {
        return Err(format!(
            "the source tree has changes that are not committed; commit or remove them:\n{changes}"
        ));
    }
    let to = match to {
        Some(to) => to.to_owned(),
        None => workspace::target()?.join("release-files"),
    };
    if to.exists() {
        fs::remove_dir_all(&to).map_err(|error| failed(&to, error))?;
    }
    let mut made = super::run(Some(&to), false, Some(GLIBC))?;
    let to = fs::canonicalize(&to).map_err(|error| failed(&to, error))?;
    made.push(sources(&to, &root)?);
    made.push(bill_of_materials(&to)?);
    made.push(checksums(&to, &made)?);
    for file in &made[made.len() - 3..] {
        println!("xtask: {}", file.display());
    }
    Ok(())
}

/// Packs the committed sources as `weft-VERSION.tar.gz`.
fn sources(to: &Path, root: &str) -> Result<PathBuf> {
    let tree = to.join(format!("weft-{VERSION}.tar"));
    let mut git = Command::new("git");
    git.args(["-C", root, "archive", "--format=tar", "--output"]);
    git.arg(&tree)
        .args([&format!("--prefix=weft-{VERSION}/"), "HEAD"]);
    workspace::run(&mut git, "packing the sources")?;
    let mut gzip = Command::new("gzip");
    gzip.args(["--no-name", "--best", "--force"]).arg(&tree);
    workspace::run(&mut gzip, "compressing the sources")?;
    Ok(tree.with_extension("tar.gz"))
}

/// Writes the bill of materials, in the JSON form of CycloneDX 1.5: all crates that are compiled into
/// an installation, with versions, licences and the registry's checksums.
fn bill_of_materials(to: &Path) -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["metadata", "--locked", "--format-version=1"]);
    command.args([
        "--filter-platform",
        &format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
    ]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{command:?} can't be run: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{command:?} prints no JSON: {error}"))?;
    let lock = workspace::root().join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|error| failed(&lock, error))?;
    let checksums = checksums_of(&lock);
    let time = source_time()?;
    let components = components(&metadata, &checksums);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": text_of("date", &["--utc", "--date", &format!("@{time}"), "+%Y-%m-%dT%H:%M:%SZ"])?,
            "component": {
                "type": "library",
                "name": "weft",
                "version": VERSION,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            },
        },
        "components": components,
    });
    let path = to.join(format!("weft-{VERSION}.cdx.json"));
    let mut file = fs::File::create(&path).map_err(|error| failed(&path, error))?;
    writeln!(file, "{bill:#}").map_err(|error| failed(&path, error))?;
    Ok(path)
}

/// Returns the components of a bill: the crates of others that shipped crates use at run time or
/// while they are built, in order of their names.
fn components(metadata: &Value, checksums: &HashMap<(String, String), String>) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: HashMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let nodes: HashMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (text(&node["id"]), node))
        .collect();
    let mut next: Vec<String> = list(&metadata["workspace_members"])
        .iter()
        .map(text)
        .filter(|id| {
            let name = packages.get(id).map(|package| text(&package["name"]));
            name.is_some_and(|name| !NOT_SHIPPED.contains(&&*name))
        })
        .collect();
    let mut seen: BTreeSet<String> = next.iter().cloned().collect();
    while let Some(id) = next.pop() {
        for dependency in nodes
            .get(&id)
            .map_or(Vec::new(), |node| list(&node["deps"]))
        {
            let kinds = list(&dependency["dep_kinds"]);
            let shipped = kinds
                .iter()
                .any(|kind| kind["kind"].as_str() != Some("dev"));
            let id = text(&dependency["pkg"]);
            if shipped && seen.insert(id.clone()) {
                next.push(id);
            }
        }
    }
    let mut found: Vec<Value> = seen
        .iter()
        .filter_map(|id| packages.get(id))
        .filter(|package| !package["source"].is_null())
        .map(|package| {
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            let purl = format!("pkg:cargo/{name}@{version}");
            let mut component = json!({
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"expression": text(&package["license"]).replace('/', " OR ")}],
            });
            if let Some(checksum) = checksums.get(&(name, version)) {
                component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
            }
            component
        })
        .collect();
    found.sort_by_key(|component| text(&component["bom-ref"]));
    found
}

/// Returns the checksums in a `Cargo.lock` by name and version.
fn checksums_of(lock: &str) -> HashMap<(String, String), String> {
    let value = |entry: &str, key: &str| {
        let prefix = format!("{key} = ");
        let line = entry.lines().find_map(|line| line.strip_prefix(&prefix));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let entries = lock.split("[[package]]").skip(1);
    entries
        .filter_map(|entry| {
            let key = (value(entry, "name")?, value(entry, "version")?);
            Some((key, value(entry, "checksum")?))
        })
        .collect()
}

/// Writes `SHA256SUMS`, which `sha256sum --check` reads.
fn checksums(to: &Path, made: &[PathBuf]) -> Result<PathBuf> {
    let mut sum = Command::new("sha256sum");
    sum.current_dir(to);
    let mut names: Vec<_> = made.iter().filter_map(|file| file.file_name()).collect();
    names.sort_unstable();
    let output = sum.args(names).output();
    let output = output.map_err(|error| format!("{sum:?} can't be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{sum:?} ended with {}", output.status));
    }
    let path = to.join("SHA256SUMS");
    fs::write(&path, output.stdout).map_err(|error| failed(&path, error))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_has_what_is_compiled_into_an_installation() {
        let package = |id: &str, source: Value| json!({"id": id, "name": id, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source});
        let dependency = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let registry = || json!("registry");
        let metadata = json!({
            "packages": [
                package("libmpi", Value::Null), package("xtask", Value::Null), package("used", registry()),
                package("below", registry()), package("tests", registry()), package("tool", registry()),
            ],
            "workspace_members": ["libmpi", "xtask"],
            "resolve": {"nodes": [
                {"id": "libmpi", "deps": [dependency("used", Value::Null), dependency("tests", json!("dev"))]},
                {"id": "used", "deps": [dependency("below", json!("build"))]},
                {"id": "xtask", "deps": [dependency("tool", Value::Null)]},
            ]},
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let found = components(&metadata, &checksums_of(lock));
        let names: Vec<_> = found
            .iter()
            .map(|component| component["name"].as_str())
            .collect();
        assert_eq!(names, [Some("below"), Some("used")]);
        assert_eq!(found[1]["hashes"][0]["content"], "abc");
        assert_eq!(found[1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
