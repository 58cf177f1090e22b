//! Runs the tests that need RDMA devices in the virtual machine.
//!
//! Tests are built outside and run inside, some ten times slower: four ranks share two emulated
//! cores, often beside builds and other tests on the real ones. So time limits are much longer; they
//! only end tests that hang. The whole set runs with the optimized library, which halves its time; a
//! selection runs with the development build.
//!
//! The programs of `tests/c` that name a variant with RDMA devices (`verbs`, `verbs-hosts`,
//! `ofi-verbs`, `ucx-verbs`) run; with `WEFT_TEST_ALL_VERBS=1` all programs do.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{Options, status};
use crate::features::Features;
use crate::{Result, workspace};

/// Time limit of all tests in seconds: ten times their time on a quiet machine, since they run beside
/// builds and other tests.
const LIMIT: u64 = 2700;

/// Factor of the tests' time limits in the machine (`WEFT_TEST_PATIENCE`).
const PATIENCE: u32 = 12;

/// Script that prints the kernel's log and the devices' packet counters after a failure.
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

/// Returns the folder to which Weft is installed for the machine.
fn prefix(optimized: bool) -> Result<PathBuf> {
    if optimized {
        return crate::instructions::optimized("rdma-prefix");
    }
    let prefix = workspace::target()?.join("test-prefix");
    crate::install::run(&prefix, true, &Features::default())?;
    Ok(prefix)
}

/// Builds the test executables of a package.
fn test_binaries(package: &str) -> Result<Vec<PathBuf>> {
    if crate::install::is_built() {
        // They were built with the whole workspace; a build of one package would unify other
        // features and compile them again.
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

/// Parses the executable from a line of cargo's messages.
fn executable(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("\"executable\":\"")?;
    rest.split('"').next()
}

/// Returns whether an executable is a test, which cargo puts into the folder `deps`.
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
