//! The conformance suite.

use std::process::ExitCode;
use std::sync::Arc;

use netmod_kit::conformance::{self, Topic, Variant};
use netmod_kit::variables::Reader;
use netmod_tcp::{Config, TcpTransport};

/// The transport over loopback, or over the interface that it finds where there is a cable, with
/// one more variable set.
fn variant(name: &str, set: &'static [(&'static str, &'static str)]) -> Variant {
    let mut variant = Variant::new(name, move |opening| {
        let value = |asked: &str| {
            let mut named = set.iter().filter(|(name, _)| *name == asked);
            let loopback = asked == "WEFT_TCP_INTERFACE" && !opening.cable;
            let value = named.next().map(|(_, value)| *value);
            value.or(loopback.then_some("lo")).map(str::to_owned)
        };
        let config = Config::read(opening.peer, &Reader::new(&value)).expect("good values");
        Ok(Arc::new(TcpTransport::open(config, opening.resolver)?))
    });
    variant.at_cable = "10.9.0.";
    variant
}

fn main() -> ExitCode {
    let mut variants = vec![
        variant("lo", &[]),
        // Few connections, so that they are parked and reopened all the time.
        variant("two connections", &[("WEFT_TCP_CONNECTIONS", "2")]).only(&[
            Topic::Messages,
            Topic::Lanes,
            Topic::Memory,
            Topic::Atomics,
            Topic::Processes,
        ]),
    ];
    let encrypted = variant("encrypted", &[("WEFT_TCP_ENCRYPT", "1")]);
    variants.push(encrypted);
    // Records are cut and delayed where the connection is.
    let several = &[("WEFT_TCP_ENCRYPT", "1"), ("WEFT_TCP_STREAMS", "3")];
    variants.push(variant("encrypted streams", several).only(&[Topic::Messages, Topic::Memory]));
    conformance::main(variants, "")
}
