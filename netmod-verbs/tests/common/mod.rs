//! Helpers of the tests: the devices, and opening them.
#![allow(dead_code)]

use std::sync::Arc;

use netmod::Peer;
use netmod_kit::conformance::{Directory, Node};
use netmod_verbs::{Config, VerbsTransport};

/// Lists the devices of this machine. Without any the tests are skipped; it is an error if
/// `WEFT_TEST_VERBS` requires one.
pub fn devices() -> Vec<String> {
    let mut devices: Vec<String> = std::fs::read_dir("/sys/class/infiniband")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    devices.sort();
    if devices.is_empty() {
        assert!(
            std::env::var_os("WEFT_TEST_VERBS").is_none(),
            "there is no RDMA device"
        );
        eprintln!(
            "skipped: no RDMA device (run by `cargo xtask test --full` in a virtual machine)"
        );
    }
    devices
}

/// Makes a configuration for tests on a device.
pub fn config(peer: Peer, device: &str) -> Config {
    let mut config = Config::new(peer);
    config.device = Some(device.to_string());
    config
}

/// Opens two nodes in this process, on the first and the last device, and their transports.
pub fn pair(
    mut change: impl FnMut(&mut Config),
    lanes: u16,
) -> Option<([Node; 2], [Arc<VerbsTransport>; 2])> {
    let devices = devices();
    let directory = Arc::new(Directory::default());
    let ends = [(3, devices.first()?), (8, devices.last()?)];
    let transports = ends.map(|(peer, device)| {
        let mut config = config(peer, device);
        change(&mut config);
        Arc::new(VerbsTransport::open(config, directory.clone()).unwrap())
    });
    let node = |i: usize| {
        let peer = ends[i].0;
        Node::new(peer, transports[i].clone(), directory.clone(), lanes)
    };
    Some(([node(0), node(1)], transports))
}
