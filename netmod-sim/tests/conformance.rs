//! The conformance suite, over simulated networks of several kinds.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use netmod::Resolver;
use netmod_kit::conformance::{self, Topic, Variant};
use netmod_sim::{Get, Latency, SimConfig, Simulation};

const TOPICS: &[Topic] = &[
    Topic::Messages,
    Topic::Lanes,
    Topic::WakeUp,
    Topic::Memory,
    Topic::Atomics,
    Topic::Signals,
];

fn variant(name: &str, config: SimConfig) -> Variant {
    let config = SimConfig {
        // Only polls move the clock.
        poll_steps: true,
        depth: 64,
        ..config
    };
    // A network for each test, identified by its directory.
    let networks: Mutex<Vec<(Arc<dyn Resolver>, Simulation)>> = Mutex::default();
    Variant::new(name, move |opening| {
        let mut networks = networks.lock().unwrap();
        let same = |(known, _): &&(Arc<dyn Resolver>, _)| Arc::ptr_eq(known, &opening.resolver);
        let network = match networks.iter().find(same) {
            Some((_, network)) => network.clone(),
            None => {
                let network = Simulation::new(networks.len() as u64, config);
                networks.push((opening.resolver.clone(), network.clone()));
                network
            }
        };
        Ok(network.transport(opening.peer))
    })
    .only(TOPICS)
}

fn main() -> ExitCode {
    let plain = SimConfig::default();
    let latency = Latency {
        base: 1000,
        per_byte: 1000,
        jitter: 100_000,
    };
    let variants = vec![
        variant("plain", plain),
        variant(
            "jittery",
            SimConfig {
                latency,
                reorder: true,
                again: 20,
                ordered_access: 256,
                ..plain
            },
        ),
        variant(
            "delayed",
            SimConfig {
                latency,
                get: Get::Mixed,
                ordered_put: false,
                put_held: true,
                put_delayed: 50,
                ..plain
            },
        ),
        variant("in bursts", SimConfig { burst: 4, ..plain }),
        variant(
            "no remote memory",
            SimConfig {
                get: Get::Unsupported,
                ..plain
            },
        ),
    ];
    conformance::main(variants, "")
}
