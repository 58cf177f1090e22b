//! The conformance suite, over those of libfabric's providers that work on every machine, or over
//! the one of `WEFT_OFI_PROVIDER`.

mod common;

use std::process::ExitCode;
use std::sync::Arc;

use common::{config, providers};
use netmod_kit::conformance::{self, Topic, Variant};
use netmod_ofi::{Config, Offload, OfiTransport};

type Change = fn(&mut Config);

const CASES_OF_LOSS: &[&str] = &[
    "a_killed_peer_is_noticed",
    "a_peer_that_was_killed_before_the_first_contact_is_noticed",
    "pending_accesses_to_a_killed_peer_complete",
    "a_waiter_for_a_killed_peer_is_notified",
    "a_waiter_at_another_lane_is_notified",
    "an_idle_receiver_is_notified",
    "an_idle_receiver_at_another_lane_is_notified",
];

fn variant(provider: &str, suffix: &str, change: Change) -> Variant {
    let name = format!("{provider}{suffix}");
    let provider = provider.to_string();
    let chosen = provider.clone();
    let mut variant = Variant::new(name, move |opening| {
        let mut config = config(opening.peer, &chosen);
        if opening.cable {
            // The transport must find the cable by itself.
            config.interface = None;
        }
        change(&mut config);
        Ok(Arc::new(OfiTransport::open(config, opening.resolver)?))
    });
    variant.at_cable = "10.9.0.";
    if provider == "net" {
        // This provider of 1.17 causes spurious wake-ups.
        variant.false_alarms = 20;
    }
    if provider.starts_with("udp") || provider == "shm" {
        // Providers without connections do not report losses.
        variant = variant.lacking(CASES_OF_LOSS, "no connections");
    }
    if provider.starts_with("verbs") {
        // Without pending operations of the provider a peer must be probed, which needs a TCP
        // socket.
        let sleeper = &[
            "a_waiter_for_a_killed_peer_is_notified",
            "a_waiter_at_another_lane_is_notified",
            "an_idle_receiver_is_notified",
            "an_idle_receiver_at_another_lane_is_notified",
        ];
        variant = variant.lacking(sleeper, "no TCP socket");
    }
    variant
}

const EMULATED: Change = |config| {
    config.rma = Offload::Emulated;
    config.atomics = Offload::Emulated;
};

/// Few buffers and small parts, so that messages are refused and operations are split and queued.
const SCARCE: Change = |config| {
    config.send_buffers = 8;
    config.recv_buffers = 8;
    config.operations = 16;
    config.max_part = 100_001;
};

fn main() -> ExitCode {
    let memory = &[Topic::Memory];
    let messages = &[Topic::Messages, Topic::Memory];
    let by_messages = &[
        Topic::Memory,
        Topic::Atomics,
        Topic::Protection,
        Topic::Processes,
        Topic::LossDuringAccess,
    ];
    let variants = providers().into_iter().flat_map(|provider| {
        let provider = provider.as_str();
        let plain = variant(provider, "", |_| {});
        let plain = if provider == "shm" {
            let cases = &[
                "everything_works_between_two_namespaces",
                "a_killed_peer_in_another_namespace_is_noticed",
            ];
            plain.lacking(cases, "stays on one host")
        } else {
            plain
        };
        [
            plain,
            variant(provider, " scarce", SCARCE).only(&[
                Topic::Messages,
                Topic::Lanes,
                Topic::Memory,
            ]),
            variant(provider, " registered", |config| {
                config.register_local = true
            })
            .only(messages),
            variant(provider, " registered scarce", |config| {
                SCARCE(config);
                config.register_local = true;
            })
            .only(memory),
            variant(provider, " emulated", EMULATED).only(by_messages),
            variant(provider, " emulated scarce", |config| {
                SCARCE(config);
                EMULATED(config);
            })
            .only(memory),
            // The provider's own atomics, if it has them.
            variant(provider, " native atomics", |config| {
                config.atomics = Offload::Native;
            })
            .only(&[Topic::Atomics]),
        ]
    });
    conformance::main(variants.collect(), "")
}
