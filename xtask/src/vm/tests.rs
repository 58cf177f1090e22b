//! The tests that need RDMA devices, in the virtual machine.
//!
//! All is built outside and run inside, where it is some ten times slower: four ranks share two emulated
//! cores, often with builds and other tests on the real ones. So time limits are much longer here; they are
//! to end what hangs. All of them run with the optimized library, which takes half the time there; one alone
//! with that of development.
//!
//! Of the programs in `tests/c` those run that name a variant with RDMA devices (`verbs`, `verbs-hosts`,
//! `ofi-verbs`, `ucx-verbs`); `WEFT_TEST_ALL_VERBS=1` makes it all.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{Options, status};
use crate::{Result, workspace};

/// The longest that all of them may take, in seconds. Alone on a machine they take a tenth; they run beside builds and
/// other tests.
const LIMIT: u64 = 2700;

/// How much longer each may take than outside (the factor `WEFT_TEST_PATIENCE`).
const PATIENCE: u32 = 12;

/// What the machine says of a failure besides the test itself: what its kernel has logged, and what its devices have
/// counted (packets sent, received and repeated).
const AFTERWARDS: &str = "afterwards() {
    echo 'the kernel:'; dmesg | tail -n 20
    for device in rxe0 rxe1; do
        echo \"$device:\" $(cd /sys/class/infiniband/$device/ports/1/hw_counters && grep -vx 0 $(ls))
    done
    exit 1
}
";

/// Builds and runs the tests whose names contain `filter`.
pub fn run(filter: Option<&str>) -> Result {
    let mut script = String::from("export WEFT_TEST_VERBS=1\n");
    script += AFTERWARDS;
    for binary in test_binaries("netmod-verbs")? {
        let name = filter.unwrap_or_default();
        script += &format!(
            "echo {0}\n{0} --test-threads 1 {name} || afterwards\n",
            binary.display()
        );
    }
    let prefix = prefix(filter.is_none())?;
    let suite = test_binaries("weft-tests")?;
    for binary in &suite {
        workspace::run(
            std::process::Command::new(binary)
                .arg("verbs")
                .current_dir(workspace::root())
                .env("WEFT_TEST_COMPILE", "1")
                .env("WEFT_TEST_PREFIX", &prefix)
                .stdout(Stdio::null()),
            "compiling the programs for the virtual machine",
        )?;
        script += &format!(
            "export WEFT_TEST_PREFIX={} WEFT_TEST_PATIENCE=${{WEFT_TEST_PATIENCE:-{PATIENCE}}}\n\
             {} --test-threads 1 {} || afterwards\n",
            prefix.display(),
            binary.display(),
            filter.unwrap_or("verbs"),
        );
    }
    println!("xtask: running tests on RDMA devices, in a virtual machine");
    let options = Options {
        timeout: LIMIT,
        memory: 3072,
        command: vec!["bash".to_owned(), "-c".to_owned(), script],
        ..Options::default()
    };
    match status(&options)? {
        0 => Ok(()),
        super::TIMED_OUT => Err(format!(
            "the tests on RDMA devices took more than {LIMIT} s"
        )),
        status => Err(format!(
            "the tests on RDMA devices ended with status {status}; one alone: cargo xtask \
             rdma-test NAME"
        )),
    }
}

/// Where Weft is installed for them.
fn prefix(optimized: bool) -> Result<PathBuf> {
    if optimized {
        return crate::instructions::optimized("rdma-prefix");
    }
    let prefix = workspace::target()?.join("test-prefix");
    crate::install::run(&prefix, true)?;
    Ok(prefix)
}

/// The test programs of a package, which are built.
fn test_binaries(package: &str) -> Result<Vec<PathBuf>> {
    if crate::install::is_built() {
        // They have been built with the whole workspace; by themselves they would be built again, with other features.
        return crate::test::units::built(package);
    }
    let output = workspace::cargo()
        .args(["test", "--no-run", "--message-format=json", "--package"])
        .arg(package)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("building the tests of {package} failed; see above"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let binaries = text.lines().filter_map(executable).map(PathBuf::from);
    let binaries: Vec<_> = binaries.filter(|path| is_test(path)).collect();
    if binaries.is_empty() {
        return Err(format!("{package} has no tests"));
    }
    Ok(binaries)
}

/// The executable that a line of cargo's messages names.
fn executable(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("\"executable\":\"")?;
    rest.split('"').next()
}

/// Whether cargo has built it for tests: those lie in a folder of their own.
fn is_test(path: &Path) -> bool {
    path.parent().is_some_and(|dir| dir.ends_with("deps"))
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn executables_are_found_in_messages() {
        let line =
            r#"{"reason":"compiler-artifact","executable":"/t/debug/deps/a-1","fresh":true}"#;
        assert_eq!(executable(line), Some("/t/debug/deps/a-1"));
        assert_eq!(executable(r#"{"executable":null}"#), None);
        assert!(is_test(Path::new("/t/debug/deps/a-1")));
        assert!(!is_test(Path::new("/t/debug/a")));
    }
}
