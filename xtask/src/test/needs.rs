//! Checks at the start of a run whether the machine has what the run needs.

use std::process::{Command, Stdio};

use weft_needs::{VARIABLE, is_optional};

use crate::{Result, fuzz, packages, races, vm};

/// Needs of the full run besides [`weft_needs::ALL`]. Stages named by one of the first five in
/// `WEFT_TEST_ALLOW_SKIP` do not run. The others are tried and may fail for lack of a network.
pub const RDMA_VM: &str = "rdma-vm";
pub const RACES: &str = "races";
pub const DENY: &str = "deny";
pub const OLDEST: &str = "oldest-rust";
pub const FUZZ: &str = "fuzz";
/// The oldest toolchain and the standard library's source, which rustup fetches.
pub const RUSTUP: &str = "rustup";
/// The source of cargo-deny.
pub const CARGO_DENY: &str = "cargo-deny";
/// The database of advisories on dependencies.
pub const ADVISORIES: &str = "advisories";

const OTHERS: &[&str] = &[
    RDMA_VM,
    RACES,
    DENY,
    OLDEST,
    FUZZ,
    RUSTUP,
    CARGO_DENY,
    ADVISORIES,
    "libfabric-providers",
];

/// Fails if there is no C compiler, which every run needs.
pub fn compiler() -> Result {
    let mut cc = Command::new("cc");
    let status = cc.arg("--version").stdout(Stdio::null()).status();
    match status.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => {
            Err("there is no C compiler (cc); on Debian: apt-get install build-essential".into())
        }
    }
}

/// Installs packages and checks the other needs of the full run. Returns the parts that will be
/// skipped. Fails if a need is lacking that may not be skipped.
pub fn prepare() -> Result<Vec<String>> {
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
    // The build's error explains more than the missing program does.
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
        let why = format!("{RACES}: ThreadSanitizer needs x86-64 Linux");
        lacking.push((RACES, why));
    } else if is_optional(RACES) {
        lacking.push((RACES, format!("{RACES}: by {VARIABLE}")));
    }
    if !fuzz::is_possible() {
        let why = format!("{FUZZ}: libFuzzer needs x86-64 or aarch64 Linux");
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

/// Prepares the virtual machine with RDMA devices. Returns the reason if it is impossible.
fn lacks_vm() -> Option<String> {
    if is_optional(RDMA_VM) {
        return Some(format!("by {VARIABLE}"));
    }
    if !cfg!(target_arch = "x86_64") {
        return Some("the virtual machine needs x86-64".to_owned());
    }
    let prepared = packages::install(vm::PACKAGES).and_then(|()| vm::prepare());
    prepared.err()
}
