//! Selects the runs of programs: all, one over each of two transports, or by name.

use std::env;

use libtest_mimic::Trial;

use crate::Result;
use crate::job::Variant;
use crate::program::Program;

/// Set by `cargo xtask test` without `--full`: each program runs once over shared memory and once over TCP.
const SHORT: &str = "WEFT_TEST_SHORT";

/// Set by `cargo xtask test NAME…`: parts of names, or whole ones behind `=`, with spaces between them.
const NAMES: &str = "WEFT_TEST_NAMES";

/// Most ranks of the short run's jobs if a program offers a choice: twice its two cores.
const SHORT_RANKS: usize = 4;

/// Runs that are left out because others run the same code: program, case, variants, numbers of
/// ranks, and the reason. `WEFT_TEST_ALL_VERBS` includes them.
type Repeated = (
    &'static str,
    &'static str,
    &'static [Variant],
    &'static [usize],
    &'static str,
);
const REPEATED: &[Repeated] = &[
    (
        "rma_atomics",
        "messages",
        &[Variant::VerbsHosts, Variant::OfiVerbs, Variant::UcxVerbs],
        &[2, 4],
        "atomics by messages use no remote memory; they run over verbs, ofi, ucx, tcp and between hosts",
    ),
    (
        "rma_atomics",
        "auto",
        &[Variant::OfiVerbs, Variant::UcxVerbs],
        &[2],
        "auto is network or messages there, which run by name over the same transports",
    ),
    (
        "rma_native",
        "messages",
        &[Variant::VerbsHosts, Variant::OfiVerbs, Variant::UcxVerbs],
        &[2],
        "puts and gets by messages use no remote memory; they run over verbs, ofi, ucx and between hosts",
    ),
    (
        "coll_node_slots",
        "threads",
        &[Variant::VerbsHosts],
        &[3],
        "slots are within a node: which transport joins the nodes is tried with 4 ranks, which have slots on both",
    ),
    (
        "coll_node_slots",
        "messages",
        &[Variant::VerbsHosts],
        &[3],
        "as for its case threads",
    ),
];

/// Returns whether [`REPEATED`] names a run.
pub fn is_repeated(program: &str, case: Option<&str>, variant: Variant, ranks: usize) -> bool {
    let names = |(name, one, variants, sizes, _): &Repeated| {
        *name == program
            && Some(*one) == case
            && variants.contains(&variant)
            && sizes.contains(&ranks)
    };
    env::var_os("WEFT_TEST_ALL_VERBS").is_none() && REPEATED.iter().any(names)
}

/// Returns whether only the short run's tests are selected.
pub fn is_short() -> bool {
    env::var_os(SHORT).is_some()
}

/// Returns the variants and numbers of ranks of each case of a program.
pub fn runs(program: &Program) -> Vec<(Variant, usize)> {
    let of_variant = |variant: Variant| {
        let ranks = program.ranks.iter().copied();
        ranks.filter(move |ranks| variant.takes(*ranks))
    };
    if !is_short() {
        let variants = program.variants.iter();
        let all = variants.flat_map(|&variant| of_variant(variant).map(move |n| (variant, n)));
        return all.collect();
    }
    if program.is_foreign() {
        return Vec::new();
    }
    let once = |variant: Variant| {
        let few = of_variant(variant).filter(|ranks| *ranks <= SHORT_RANKS);
        let ranks = few.max().or_else(|| of_variant(variant).min())?;
        program
            .variants
            .contains(&variant)
            .then_some((variant, ranks))
    };
    let mut runs: Vec<_> = [Variant::Shm, Variant::Tcp]
        .into_iter()
        .filter_map(once)
        .collect();
    if runs.is_empty() {
        runs.extend(once(Variant::Single));
    }
    runs
}

/// Keeps the trials that [`NAMES`] selects. Fails if one of its names matches no trial.
pub fn named(mut trials: Vec<Trial>) -> Result<Vec<Trial>> {
    let Ok(names) = env::var(NAMES) else {
        return Ok(trials);
    };
    let names: Vec<&str> = names.split_whitespace().collect();
    let has = |trial: &Trial, name: &&str| match name.strip_prefix('=') {
        Some(exact) => trial.name() == exact,
        None => trial.name().contains(*name),
    };
    let idle = |name: &&&str| !trials.iter().any(|trial| has(trial, name));
    if let Some(name) = names.iter().find(idle) {
        return Err(format!(
            "no crate and no test of a program has '{name}' in its name; `cargo test -p weft-tests -- --list` prints all"
        ));
    }
    trials.retain(|trial| names.iter().any(|name| has(trial, name)));
    Ok(trials)
}
