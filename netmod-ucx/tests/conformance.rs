//! The conformance suite, over the transports of UCX that work on every machine, or over those of
//! `WEFT_UCX_TLS`.

mod common;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use common::{config, tls};
use netmod_kit::conformance::{self, Topic, Variant};
use netmod_ucx::{Config, UcxTransport};

fn variant(way: &str, change: fn(&mut Config)) -> Variant {
    let is_tcp = tls().contains("tcp");
    let mut variant = Variant::new(format!("{}{way}", tls()), move |opening| {
        let mut config = config(opening.peer);
        if opening.cable {
            // The transport must find the cable by itself.
            config.devices = None;
        }
        change(&mut config);
        Ok(Arc::new(UcxTransport::open(config, opening.resolver)?))
    });
    variant.false_alarms = 19;
    // TCP reports a killed peer immediately, other networks after repeated attempts.
    variant.patience = Duration::from_secs(if is_tcp { 15 } else { 50 });
    variant
}

fn main() -> ExitCode {
    let mut topics = Topic::ALL.to_vec();
    // UCX checks nothing if keys travel inline.
    topics.retain(|topic| *topic != Topic::Protection);
    let mut plain = variant("", |_| {}).only(topics.leak());
    if !tls().contains("tcp") {
        let cases = &[
            "everything_works_between_two_namespaces",
            "a_killed_peer_in_another_namespace_is_noticed",
        ];
        plain = plain.lacking(cases, "adapters stay outside of namespaces");
    }
    let variants = vec![
        plain,
        variant(" scarce", |config| {
            config.send_buffers = 8;
            config.operations = 4;
        })
        .only(&[Topic::Messages, Topic::Lanes, Topic::Memory]),
        // Keys that are requested by message.
        variant(" long keys", |config| config.long_keys = true)
            .only(&[
                Topic::Memory,
                Topic::Atomics,
                Topic::Protection,
                Topic::Processes,
                Topic::LossDuringAccess,
            ])
            .lacking(
                &["access_beyond_what_is_exposed_is_an_error_and_harmless"],
                "UCX looks only whether the key is known",
            ),
        variant(" long keys scarce", |config| {
            config.long_keys = true;
            config.operations = 4;
        })
        .only(&[Topic::Memory]),
    ];
    conformance::main(variants, "")
}
