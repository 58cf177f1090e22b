//! The conformance suite, with and without CMA.

use std::process::ExitCode;
use std::sync::Arc;

use netmod_kit::conformance::{self, LossDetection, Topic, Variant};
use shmmod::{Config, Shm};

fn variant(name: &str, single_copy: bool) -> Variant {
    let mut variant = Variant::new(name, move |opening| {
        let config = Config {
            me: opening.peer,
            single_copy: single_copy.into(),
        };
        Ok(Arc::new(Shm::open(config, opening.resolver)))
    });
    variant.effort.per_sender = 20_000;
    variant.effort.process_messages = 20_000;
    variant.effort.rounds = 4000;
    variant.loss_detection = LossDetection::OnCheck;
    variant.advice = "has ended without MPI_Finalize";
    variant.lacking(
        &[
            "everything_works_between_two_namespaces",
            "a_killed_peer_in_another_namespace_is_noticed",
        ],
        "shared memory stays on one host",
    )
}

fn main() -> ExitCode {
    let variants = vec![
        variant("single copy", true),
        variant("copied twice", false).only(&[Topic::Messages, Topic::Memory, Topic::Processes]),
    ];
    conformance::main(variants, "")
}
