//! The conformance suite.

use std::process::ExitCode;
use std::sync::Arc;

use netmod_kit::conformance::{self, LossDetection, Variant};
use netmod_unix::UnixTransport;

fn main() -> ExitCode {
    let variants = [("plain", 16 << 10), ("short messages", 1024)].map(|(name, longest)| {
        let mut variant = Variant::new(name, move |opening| {
            let transport = UnixTransport::open(opening.peer, longest, opening.resolver);
            Ok(Arc::new(transport))
        });
        variant.loss_detection = LossDetection::OnCheck;
        variant.lacking(
            &[
                "everything_works_between_two_namespaces",
                "a_killed_peer_in_another_namespace_is_noticed",
            ],
            "abstract names stay in one namespace",
        )
    });
    conformance::main(variants.into(), "")
}
