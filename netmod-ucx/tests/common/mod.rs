//! Helpers of the tests: opening UCX.
#![allow(dead_code)]

use netmod::Peer;
use netmod_ucx::Config;

/// Returns the default configuration for tests: the transports of [`tls`] over loopback, or over
/// `WEFT_UCX_DEVICES`.
pub fn config(peer: Peer) -> Config {
    let mut config = Config::new(peer);
    config.tls = Some(tls());
    config.devices = std::env::var("WEFT_UCX_DEVICES")
        .ok()
        .or_else(|| Some("lo".to_string()));
    config
}

/// Returns UCX's transports to test: `WEFT_UCX_TLS`, or the one that works on every machine.
pub fn tls() -> String {
    std::env::var("WEFT_UCX_TLS").unwrap_or_else(|_| "tcp,self".to_string())
}
