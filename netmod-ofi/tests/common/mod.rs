//! Helpers of the tests: the available providers, and opening them.
#![allow(dead_code)]

use std::sync::Arc;

use netmod::{Peer, Transport};
use netmod_kit::conformance::{self, Directory};
use netmod_kit::variables::Reader;
use netmod_ofi::{Config, OfiTransport};

/// Returns the default configuration for tests: loopback, and the environment's settings.
pub fn config(peer: Peer, provider: &str) -> Config {
    let mut config = Config::read(peer, &Reader::new(&|name| std::env::var(name).ok())).unwrap();
    config.provider = Some(provider.to_string());
    if config.interface.is_none() && provider != "shm" {
        config.interface = Some("lo".to_string());
    }
    config
}

/// Lists the providers to test: `WEFT_OFI_PROVIDER`, or those that work on every machine, which the
/// library has unless it may lack some of `libfabric-providers`. Returns none if there is no library.
pub fn providers() -> Vec<String> {
    if let Some(variant) = conformance::child_variant() {
        // The provider of the process that has started this one.
        return vec![variant.split(' ').next().unwrap_or_default().to_string()];
    }
    if !weft_needs::LIBFABRIC.met() {
        return Vec::new();
    }
    let wanted = match std::env::var("WEFT_OFI_PROVIDER") {
        Ok(provider) => vec![provider],
        Err(_) => ["tcp", "tcp;ofi_rxm", "net"].map(str::to_string).to_vec(),
    };
    let mut found: Vec<String> = Vec::new();
    for provider in wanted {
        match OfiTransport::open(config(0, &provider), Arc::new(Directory::default())) {
            Ok(transport) => {
                // libfabric falls back from "tcp" to "tcp;ofi_rxm".
                let name = provider_of(&transport);
                if !found.contains(&name) {
                    found.push(name);
                }
            }
            Err(why) => weft_needs::leave_out("libfabric-providers", &format!("{provider}: {why}")),
        }
    }
    assert!(!found.is_empty(), "no provider to test");
    found
}

fn provider_of(transport: &OfiTransport) -> String {
    let line = transport.describe();
    let (_, rest) = line.split_once("provider ").unwrap();
    rest.split(' ').next().unwrap().to_string()
}
