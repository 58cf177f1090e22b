//! Everything that must pass before a change is good.

use std::env;

use weft_needs::{VARIABLE, is_optional};

use crate::beside::Beside;
use crate::{
    Result, deny, fuzz, headers, instructions, loom, oldest, packages, races, vm, workspace,
};

/// Needs that only this program has, besides those of [`weft_needs::ALL`].
const RDMA_VM: &str = "rdma-vm";
const RACES: &str = "races";
const DENY: &str = "deny";
const OLDEST: &str = "oldest-rust";
const FUZZ: &str = "fuzz";
const OTHERS: &[&str] = &[RDMA_VM, RACES, DENY, OLDEST, FUZZ, "libfabric-providers"];

/// How long each program runs under ThreadSanitizer. `cargo xtask races` gives it more.
const RACES_SECONDS: u32 = 10;

/// How long each fuzz target runs. `cargo xtask fuzz` gives it more.
const FUZZ_SECONDS: u32 = 10;

/// Stretches the time limits of the programs' tests, which are to end what hangs, on machines that are slow or busy.
const PATIENCE: &str = "WEFT_TEST_PATIENCE";
const SUITE_PATIENCE: &str = "4";

/// Installs what is missing, if it may, and runs all checks.
pub fn run(only_prepare: bool) -> Result {
    let mut left_out = prepare()?;
    if only_prepare {
        return Ok(());
    }
    let result = checks(&mut left_out);
    for line in &left_out {
        eprintln!("xtask: *** LEFT OUT: {line}");
    }
    result
}

/// Sees to it that all is there before the long runs begin. Gives what will be left out.
fn prepare() -> Result<Vec<String>> {
    let unknown = weft_needs::unknown(OTHERS);
    if !unknown.is_empty() {
        let known = weft_needs::ALL.iter().map(|need| need.name);
        let known: Vec<&str> = known.chain(OTHERS.iter().copied()).collect();
        return Err(format!(
            "{VARIABLE} names {}; there are: {}",
            unknown.join(", "),
            known.join(", ")
        ));
    }
    packages::run()?;
    let mut lacking = Vec::new();
    // Why it can't be had says more than that it isn't there.
    let prrte = packages::prrte().err();
    for need in weft_needs::ALL {
        let said = match (need.name, &prrte) {
            ("prrte", Some(error)) => format!("{} ({error})", need.explain()),
            _ => need.explain(),
        };
        if need.lacking().is_some() {
            lacking.push((need.name, said));
        }
    }
    if let Some(why) = lacks_vm() {
        let what = "For: tests on RDMA devices (verbs, and libfabric and UCX over verbs)";
        lacking.push((RDMA_VM, format!("{RDMA_VM}: {why}. {what}")));
    }
    if !races::possible() {
        let why = format!("{RACES}: ThreadSanitizer is used on x86-64 Linux only");
        lacking.push((RACES, why));
    } else if is_optional(RACES) {
        lacking.push((RACES, format!("{RACES}: by {VARIABLE}")));
    }
    if !fuzz::is_possible() {
        let why = format!("{FUZZ}: libFuzzer is used on x86-64 and aarch64 Linux only");
        lacking.push((FUZZ, why));
    } else if is_optional(FUZZ) {
        lacking.push((FUZZ, format!("{FUZZ}: by {VARIABLE}")));
    }
    for name in [DENY, OLDEST] {
        if is_optional(name) {
            lacking.push((name, format!("{name}: by {VARIABLE}")));
        }
    }
    let (left_out, fatal): (Vec<_>, Vec<_>) =
        lacking.into_iter().partition(|(name, _)| is_optional(name));
    for (_, said) in &left_out {
        eprintln!("xtask: *** will be left out: {said}");
    }
    if fatal.is_empty() {
        println!("xtask: this machine has what the other tests need");
        return Ok(left_out.into_iter().map(|(_, said)| said).collect());
    }
    let mut text = String::from("this machine lacks what some tests need:\n");
    for (_, said) in &fatal {
        text += &format!("  - {said}\n");
    }
    let names = fatal.iter().chain(&left_out).map(|(name, _)| *name);
    let names = names.collect::<Vec<_>>().join(",");
    Err(format!("{text}To run the others: {VARIABLE}={names}"))
}

/// Why there can't be the virtual machine with RDMA devices. Prepares it.
fn lacks_vm() -> Option<String> {
    if is_optional(RDMA_VM) {
        return Some(format!("by {VARIABLE}"));
    }
    if !cfg!(target_arch = "x86_64") {
        return Some("the virtual machine is one of x86-64".to_owned());
    }
    let prepared = packages::install(vm::PACKAGES).and_then(|()| vm::prepare());
    prepared.err()
}

/// Runs all checks, also after one has failed: who reads the output learns of everything that fails.
/// What turns out to be impossible, though nothing that the machine has to have lacks, is added to `left_out`.
fn checks(left_out: &mut Vec<String>) -> Result {
    let mut failures = Vec::new();
    let mut note = |result: Result| {
        if let Err(error) = result {
            eprintln!("xtask: *** FAILED: {error}");
            failures.push(error);
        }
    };
    note(workspace::run(
        workspace::cargo().args(["fmt", "--all", "--check"]),
        "checking the format",
    ));
    note(workspace::run(
        workspace::cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "--deny=warnings",
        ]),
        "looking for questionable code",
    ));
    note(headers::run(true));
    if !is_optional(DENY) {
        note(deny::run().map(|lacking| left_out.extend(lacking)));
    }
    if !is_optional(OLDEST) {
        note(oldest::run().map(|lacking| left_out.extend(lacking)));
    }
    note(workspace::run(
        workspace::cargo()
            .args(["doc", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "--deny=warnings"),
        "building the documentation",
    ));
    note(workspace::run_within(
        workspace::cargo().args([
            "test",
            "--workspace",
            "--exclude",
            "weft-tests",
            "--no-fail-fast",
        ]),
        "running the tests",
        workspace::TESTS,
    ));
    note(workspace::run_within(
        workspace::cargo()
            .args(["test", "--package", "weft-tests", "--no-fail-fast"])
            .env(
                PATIENCE,
                env::var(PATIENCE).unwrap_or(SUITE_PATIENCE.into()),
            ),
        "running MPI programs on several ranks, over every transport",
        workspace::TESTS,
    ));
    note(release());
    // Its ranks wait for each other for the most part, and what follows uses one core for the most part.
    let rdma = match is_optional(RDMA_VM) {
        true => Ok(None),
        false => Beside::start("rdma-test").map(Some),
    };
    note(loom::run());
    if !is_optional(RACES) {
        note(races::run(RACES_SECONDS).map(|lacking| left_out.extend(lacking)));
    }
    if !is_optional(FUZZ) {
        note(fuzz::run_all(FUZZ_SECONDS));
    }
    if weft_needs::VALGRIND.lacking().is_none() {
        note(instructions::run(false));
    }
    note(rdma.and_then(|rdma| rdma.map_or(Ok(()), Beside::end)));
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("what failed:\n{}", failures.join("\n")))
}

/// Checks what is installed: link-time optimization must not lose symbols that only assembler mentions.
fn release() -> Result {
    instructions::libraries()?;
    workspace::run(
        // Of the whole workspace, as before: with other packages cargo would build most of them anew.
        workspace::cargo()
            .args(["test", "--workspace", "--exclude", "weft-tests"])
            .args(["--test", "symbols"])
            .env(
                "WEFT_TEST_LIBRARY",
                workspace::target()?.join("release/libmpi.so"),
            ),
        "checking its symbols",
    )
}
