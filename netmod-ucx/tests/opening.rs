//! Failures to open or to reach a peer are explained.

mod common;

use std::sync::Arc;

use common::config;
use netmod::{Header, LaneError, Payload};
use netmod_kit::conformance::{Directory, Node};
use netmod_ucx::{Config, UcxTransport};

fn open_error(config: Config) -> String {
    match UcxTransport::open(config, Arc::new(Directory::default())) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn failures_to_open_say_what_was_tried() {
    let mut missing = Config::new(0);
    missing.library = "/nonexistent/libucp.so.0".to_string();
    let text = open_error(missing);
    assert!(text.contains("/nonexistent/libucp.so.0"), "{text}");
    assert!(text.contains("apt install libucx0"), "{text}");

    let mut other = Config::new(0);
    other.library = "libc.so.6".to_string();
    let text = open_error(other);
    assert!(
        text.contains("ucp_get_version") && text.contains("not UCP"),
        "{text}"
    );
}

#[test]
fn unusable_settings_are_explained() {
    if !weft_needs::UCX.met() {
        return;
    }
    let mut tls = Config::new(0);
    tls.tls = Some("nosuch".to_string());
    let text = open_error(tls);
    assert!(
        text.contains("nosuch") && text.contains("WEFT_UCX_TLS"),
        "{text}"
    );

    let mut devices = Config::new(0);
    devices.devices = Some("nosuch0".to_string());
    let text = open_error(devices);
    assert!(
        text.contains("nosuch0") && text.contains("WEFT_UCX_DEVICES"),
        "{text}"
    );

    let mut size = Config::new(0);
    size.buffer_size = Some(17);
    assert!(open_error(size).contains("17"));
}

#[test]
fn unusable_addresses_are_explained() {
    if !weft_needs::UCX.met() {
        return;
    }
    let directory = Arc::new(Directory::default());
    let transport = Arc::new(UcxTransport::open(config(3), directory.clone()).unwrap());
    let mut node = Node::new(3, transport, directory.clone(), 1);
    let header = Header::default();
    let mut why = |address: Option<&[u8]>| {
        if let Some(address) = address {
            directory.add(51, 0, address.to_vec());
        }
        match node.lanes[0].send(51, 0, &header, Payload::Bytes(&[])) {
            Err(LaneError::PeerLost(lost)) if lost.peer == 51 => lost.why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why(None).contains("no VCI 0"));
    assert!(why(Some(&[])).contains("not one of UCX"));
    assert!(why(Some(b"\x05verbs12345678")).contains("not one of UCX"));
}
