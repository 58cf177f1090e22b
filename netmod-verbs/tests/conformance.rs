//! The conformance suite, on two devices joined by a cable (or both ends on the only one).

mod common;

use std::any::Any;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use common::{config, devices};
use netmod_kit::conformance::{self, Effort, End, LossDetection, Topic, Variant};
use netmod_verbs::{Atomics, Config, Sharing, VerbsTransport};

type Change = fn(&mut Config);

fn variant(name: &str, change: Change) -> Variant {
    let mut variant = Variant::new(name, move |opening| {
        let devices = devices();
        let device = match opening.end {
            End::First => devices.first(),
            End::Second => devices.last(),
        };
        let mut config = config(opening.peer, device.map_or("", String::as_str));
        change(&mut config);
        Ok(Arc::new(VerbsTransport::open(config, opening.resolver)?))
    });
    variant.effort = Effort::SLOW;
    variant.backlog = Config::new(0).window as u64;
    // Credit messages wake, too.
    variant.false_alarms = 4;
    variant.loss_detection = LossDetection::Always;
    // Time-outs of adapters, in a virtual machine that may wait for its processors.
    variant.patience = Duration::from_secs(40);
    if devices() == ["rxe0", "rxe1"] {
        // The cable is one of the virtual machine.
        variant.cut = Some(|| Box::new(Cut::new()) as Box<dyn Any>);
    }
    variant.lacking(
        &["a_peer_that_was_killed_before_the_first_contact_is_noticed"],
        "who does not poll answers no request for a connection either",
    )
}

/// A cut in the cable of the virtual machine, mended on drop.
struct Cut;

impl Cut {
    fn new() -> Cut {
        tc(&[
            "qdisc", "add", "dev", "rdma0", "root", "netem", "loss", "100%",
        ]);
        Cut
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        tc(&["qdisc", "del", "dev", "rdma0", "root"]);
    }
}

fn tc(args: &[&str]) {
    let status = Command::new("tc").args(args).status().unwrap();
    assert!(status.success(), "tc {args:?}: {status}");
}

/// Registered memory, copies through buffers in pieces, the simplest posts, and each level of sharing.
const CONFIGS: [(&str, Change); 7] = [
    ("in place", |config| config.copy_most = 0),
    ("copied", |config| config.copy_most = 1 << 20),
    ("simple posts", |config| {
        (config.inline, config.signal_every) = (false, 1);
    }),
    ("a context each", |config| config.sharing = Sharing::Context),
    ("shared doorbells", |config| config.sharing = Sharing::Uar),
    ("shared completions", |config| config.sharing = Sharing::Cq),
    ("shared queue pairs", |config| config.sharing = Sharing::Qp),
];

fn main() -> ExitCode {
    let mut variants = Vec::new();
    if !devices().is_empty() {
        variants.push(variant("plain", |_| {}).only(&[
            Topic::WakeUp,
            Topic::Addresses,
            Topic::Signals,
            Topic::Processes,
            Topic::Loss,
            Topic::LossDuringAccess,
        ]));
        for (name, change) in CONFIGS {
            let topics: &[Topic] = match name {
                "in place" => &[Topic::Messages, Topic::Lanes, Topic::Memory, Topic::Atomics],
                "shared queue pairs" => &[
                    Topic::Messages,
                    Topic::Lanes,
                    Topic::WakeUp,
                    Topic::Memory,
                    Topic::Atomics,
                    Topic::Processes,
                ],
                _ => &[Topic::Messages, Topic::Lanes, Topic::Memory],
            };
            variants.push(variant(name, change).only(topics));
        }
        // Small parts, so that operations are split and queued.
        macro_rules! scarce {
            ($($place:literal)*) => {$({
                const NAME: &str = CONFIGS[$place].0;
                let scarce: Change = |config| {
                    CONFIGS[$place].1(config);
                    config.max_part = 10_001;
                    config.operations = 16;
                };
                let name = format!("{NAME}, scarce");
                variants.push(variant(&name, scarce).only(&[Topic::Memory]));
            })*};
        }
        scarce!(0 1 2 3 4 5 6);
        variants.push(
            variant("emulated atomics", |config| {
                config.atomics = Atomics::Emulated;
            })
            .only(&[Topic::Atomics, Topic::Protection, Topic::LossDuringAccess]),
        );
        variants.push(
            variant("shared completions, emulated atomics", |config| {
                config.sharing = Sharing::Cq;
                config.atomics = Atomics::Emulated;
            })
            .only(&[Topic::Processes]),
        );
    }
    conformance::main(variants, "no RDMA device")
}
