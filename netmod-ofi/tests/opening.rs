//! Failures to open or to reach a peer are explained.

mod common;

use std::sync::Arc;

use common::{config, providers};
use netmod::{Header, LaneError, Payload};
use netmod_kit::conformance::{Directory, Node};
use netmod_ofi::{Config, OfiTransport};

fn open_error(config: Config) -> String {
    match OfiTransport::open(config, Arc::new(Directory::default())) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn failures_to_open_say_what_was_tried() {
    let mut missing = Config::new(0);
    missing.library = "/nonexistent/libfabric.so.1".to_string();
    let text = open_error(missing);
    assert!(text.contains("/nonexistent/libfabric.so.1"), "{text}");
    assert!(text.contains("apt install libfabric1"), "{text}");

    let mut other = Config::new(0);
    other.library = "libc.so.6".to_string();
    let text = open_error(other);
    assert!(
        text.contains("fi_version") && text.contains("not libfabric"),
        "{text}"
    );
}

#[test]
fn unusable_settings_are_explained() {
    if !weft_needs::LIBFABRIC.met() {
        return;
    }
    let mut provider = Config::new(0);
    provider.provider = Some("nosuch".to_string());
    let text = open_error(provider);
    assert!(
        text.contains("nosuch") && text.contains("WEFT_OFI_PROVIDER"),
        "{text}"
    );

    let mut interface = Config::new(0);
    interface.interface = Some("nosuch0".to_string());
    let text = open_error(interface);
    assert!(
        text.contains("nosuch0") && text.contains("lo (127.0.0.1)"),
        "{text}"
    );

    let mut size = Config::new(0);
    size.buffer_size = Some(17);
    assert!(open_error(size).contains("17"));
}

#[test]
fn unusable_addresses_are_explained() {
    let providers = providers();
    let Some(provider) = providers.first() else {
        return;
    };
    let directory = Arc::new(Directory::default());
    let mut nodes = [3, 8].map(|peer| {
        let config = config(peer, provider);
        let transport = Arc::new(OfiTransport::open(config, directory.clone()).unwrap());
        Node::new(peer, transport, directory.clone(), 1)
    });
    let header = Header::default();
    let mut why = |peer| match nodes[0].lanes[0].send(peer, 0, &header, Payload::Bytes(&[])) {
        Err(LaneError::PeerLost(lost)) if lost.peer == peer => lost.why,
        other => panic!("{other:?}"),
    };
    assert!(why(50).contains("no VCI 0"));
    let mut abroad = nodes[1].transport.address(0);
    let ip = abroad
        .windows(4)
        .position(|bytes| bytes == [127, 0, 0, 1])
        .unwrap();
    abroad[ip] = 10;
    let mut why = |address: &[u8]| {
        directory.add(51, 0, address.to_vec());
        match nodes[0].lanes[0].send(51, 0, &header, Payload::Bytes(&[])) {
            Err(LaneError::PeerLost(lost)) if lost.peer == 51 => lost.why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why(&[]).contains("not one of libfabric"));
    assert!(why(b"\xff123").contains("not one of libfabric"));
    assert!(why(b"\x05verbs12345678").contains("verbs"));
    assert!(why(&abroad).contains("loopback"));
}
