//! Failures to open or to reach a peer are explained; the levels of sharing use the stated
//! resources.

mod common;

use std::sync::Arc;

use common::{devices, pair};
use netmod::{Header, LaneError};
use netmod_kit::conformance::{Directory, poll_until};
use netmod_verbs::{Config, Sharing, VerbsTransport};

fn open_error(config: Config) -> String {
    match VerbsTransport::open(config, Arc::new(Directory::default())) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn failures_to_open_say_what_was_tried() {
    let mut missing = Config::new(0);
    missing.library = "/nonexistent/libibverbs.so.1".to_string();
    let text = open_error(missing);
    assert!(text.contains("/nonexistent/libibverbs.so.1"), "{text}");
    assert!(text.contains("ibverbs-providers"), "{text}");

    let mut other = Config::new(0);
    other.library = "libc.so.6".to_string();
    let text = open_error(other);
    assert!(
        text.contains("ibv_get_device_list") && text.contains("not libibverbs"),
        "{text}"
    );

    let mut size = Config::new(0);
    size.buffer_size = 17;
    assert!(open_error(size).contains("17"));
}

#[test]
fn unusable_devices_are_explained() {
    if !weft_needs::IBVERBS.met() {
        return;
    }
    let devices = devices();
    let mut device = Config::new(0);
    device.device = Some("nosuch_0".to_string());
    let text = open_error(device);
    assert!(text.to_lowercase().contains("no rdma device"), "{text}");
    let Some(first) = devices.first() else {
        return;
    };
    assert!(
        text.contains(first) && text.contains("WEFT_VERBS_DEVICE"),
        "{text}"
    );
    let mut port = Config::new(0);
    port.device = Some(format!("{first}:7"));
    let text = open_error(port);
    assert!(text.contains("port"), "{text}");
    let mut gid = Config::new(0);
    gid.gid_index = Some(200);
    let text = open_error(gid);
    assert!(text.contains("WEFT_VERBS_GID_INDEX"), "{text}");
}

#[test]
fn unusable_addresses_are_explained() {
    let Some((mut nodes, _)) = pair(|_| {}, 1) else {
        return;
    };
    let header = Header::default();
    let mut why = |peer| match nodes[0].lanes[0].send(peer, 0, &header, netmod::Payload::Bytes(&[]))
    {
        Err(LaneError::PeerLost(lost)) if lost.peer == peer => lost.why,
        other => panic!("{other:?}"),
    };
    assert!(why(50).contains("no VCI 0"));
    let address = nodes[1].transport.address(0);
    let [mut infiniband, mut shared] = [address.clone(), address];
    infiniband[1] ^= 1;
    shared[2] ^= 1;
    let directory = nodes[0].directory.clone();
    let mut why = |address: &[u8]| {
        directory.add(51, 0, address.to_vec());
        match nodes[0].lanes[0].send(51, 0, &header, netmod::Payload::Bytes(&[])) {
            Err(LaneError::PeerLost(lost)) if lost.peer == 51 => lost.why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why(&[]).contains("not one of verbs"));
    assert!(why(b"\xff123").contains("not one of verbs"));
    assert!(why(&infiniband).contains("InfiniBand"));
    assert!(why(&shared).contains("WEFT_VERBS_SHARING"));
}

#[test]
fn levels_of_sharing_use_the_stated_resources() {
    let lanes = 3;
    let mut last = None;
    for level in Sharing::ALL {
        let change = |config: &mut Config| config.sharing = level;
        let Some((mut nodes, [transport, _])) = pair(change, lanes) else {
            return;
        };
        // Each lane connects to its twin.
        for vci in 0..lanes {
            poll_until(&mut nodes, "sending", |nodes| {
                let lane = &mut nodes[0].lanes[usize::from(vci)];
                match lane.send(8, vci, &Header::default(), netmod::Payload::Bytes(&[])) {
                    Ok(_) => true,
                    Err(LaneError::Again) => false,
                    Err(error) => panic!("{error}"),
                }
            });
        }
        let used = transport.resources();
        eprintln!("{}: {used:?}", level.name());
        let each = usize::from(lanes);
        let only = |shared: bool| if shared { 1 } else { each };
        assert_eq!(used.contexts, only(level != Sharing::Context));
        let no_queue = matches!(level, Sharing::Cq | Sharing::Qp);
        assert_eq!(used.completion_queues, only(no_queue));
        assert_eq!(used.receive_queues, only(level == Sharing::Qp));
        // One queue pair for datagrams and one to the peer.
        assert_eq!(used.queue_pairs, 2 * only(level == Sharing::Qp));
        let domains = transport.sharing() == Sharing::Domain;
        assert_eq!(used.thread_domains, if domains { each } else { 0 });
        assert!(last.is_none_or(|last| used.buffer_bytes <= last));
        last = Some(used.buffer_bytes);
    }
}
