//! The conformance suite that every transport must pass.
//!
//! A transport's `tests/conformance.rs` (with `harness = false`) describes its [`Variant`]s,
//! configurations in which it is opened, and calls [`main`]. Each case runs with each variant that
//! covers its topic: in one process, in two, or between two network namespaces. Cases for features
//! that the transport does not claim by its [`Limits`](netmod::Limits) or cannot pass
//! ([`Variant::lacks`]) are listed as ignored, with the reason; all others must pass.
//!
//! To run one case: `cargo test -p netmod-ofi --test conformance -- tcp/many_puts`. Random values
//! come from a seed that is printed with a failure; `WEFT_TEST_SEED` repeats it.

mod case;
mod child;
mod lanes;
mod memory;
mod messages;
mod namespaces;
mod node;
mod processes;
mod remote;
mod variant;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use case::Claims;

pub use child::child_variant;
pub use node::{Directory, LIMIT, Node, Recorder, poll_until};
pub use variant::{Effort, End, LossDetection, Opening, Topic, Variant};

/// Runs the suite, or the cases that the command line names. Without variants it runs nothing and
/// prints `skipped` as the reason.
pub fn main(variants: Vec<Variant>, skipped: &str) -> ExitCode {
    if child::is_child() {
        child::main(&variants);
        return ExitCode::SUCCESS;
    }
    if variants.is_empty() {
        eprintln!("skipped: {skipped}");
        return ExitCode::SUCCESS;
    }
    let mut trials = Vec::new();
    for variant in variants {
        let claims = Claims::of(&variant);
        let variant = Arc::new(variant);
        let cases = [
            messages::CASES,
            lanes::CASES,
            memory::CASES,
            remote::CASES,
            processes::CASES,
        ];
        let cases = cases.into_iter().flatten();
        for case in cases.filter(|case| variant.topics.contains(&case.topic)) {
            let lacks = variant.lacks.iter().find(|(name, _)| *name == case.name);
            let need = lacks.map_or_else(|| (case.need)(&claims), |(_, why)| Err(*why));
            let name = format!("{}/{}", variant.name, case.name);
            let (variant, run) = (variant.clone(), case.run);
            let trial = Trial::test(name, move || {
                run(&variant);
                Ok(())
            });
            trials.push(match need {
                Ok(()) => trial,
                Err(why) => trial.with_kind(why).with_ignored_flag(true),
            });
        }
        for (name, _) in &variant.lacks {
            let known = trials.iter().any(|trial| trial.name().ends_with(name));
            assert!(
                known,
                "{}: `lacks` names {name}, which is no case",
                variant.name
            );
        }
    }
    let mut arguments = Arguments::from_args();
    // Ignored cases cannot be run.
    arguments.include_ignored = false;
    arguments.ignored = false;
    libtest_mimic::run(&arguments, trials).exit_code()
}
