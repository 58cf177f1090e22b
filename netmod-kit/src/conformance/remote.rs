//! Atomics, signals and forbidden access, between two nodes of one process.

use std::sync::atomic::{AtomicU64, Ordering};

use netmod::{AtomicOp, LaneError, MAX_WORDS, RemoteAddr, RemoteKey};

use super::case::{Case, Claims, Need, has_atomics};
use super::node::{PEERS, Random, finish, flush, pair, poll_until};
use super::variant::{Topic, Variant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "atomics_return_the_value_found",
        Topic::Atomics,
        has_atomics,
        atomics,
    ),
    Case::new(
        "access_beyond_what_is_exposed_is_an_error_and_harmless",
        Topic::Protection,
        emulates_atomics,
        beyond,
    ),
    Case::new(
        "access_to_withdrawn_memory_is_an_error_and_harmless",
        Topic::Protection,
        emulates_atomics,
        withdrawn,
    ),
    Case::new(
        "who_sees_the_signal_sees_the_data",
        Topic::Signals,
        signals,
        signal,
    ),
];

/// Messages carry atomics out, so that the target can look whether memory is exposed; adapters do as they
/// do.
fn emulates_atomics(claims: &Claims) -> Need {
    has_atomics(claims)?;
    let by_messages = |atomics: netmod::Atomics| !atomics.passive_target;
    claims.need(
        |limits| limits.atomics.is_some_and(by_messages),
        "native atomics",
    )
}

fn signals(claims: &Claims) -> Need {
    claims.need(|limits| limits.signals.is_some(), "no signals")
}

fn atomics(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    let mut words = [0_u64; 4];
    let key = nodes[1].expose(&mut words);
    let place_of_word = &raw const words[2];
    let remote = RemoteAddr { key, offset: 16 };
    let mut atomic = |op, operand, compare| {
        let mut found = !0_u64;
        let place = &raw mut found;
        // SAFETY: `found` lives until completion.
        finish(&mut nodes, |lane, token| unsafe {
            lane.atomic(PEERS[1], 0, op, operand, compare, place, remote, token)
        })
        .unwrap();
        found
    };
    assert_eq!(atomic(AtomicOp::Load, 9, 9), 0);
    assert_eq!(atomic(AtomicOp::Swap, 0xF0, 9), 0);
    assert_eq!(atomic(AtomicOp::Add, u64::MAX, 0), 0xF0);
    assert_eq!(atomic(AtomicOp::Add, 1, 0), 0xEF);
    assert_eq!(atomic(AtomicOp::And, 0x3C, 0), 0xF0);
    assert_eq!(atomic(AtomicOp::Or, 0x03, 0), 0x30);
    assert_eq!(atomic(AtomicOp::Xor, 0x11, 0), 0x33);
    assert_eq!(atomic(AtomicOp::CompareSwap, 77, 1), 0x22);
    assert_eq!(atomic(AtomicOp::CompareSwap, 1 << 63 | 5, 0x22), 0x22);
    assert_eq!(atomic(AtomicOp::Load, 0, 0), 1 << 63 | 5);
    let times = variant.effort.accesses as u64 * 5 / 6;
    for _ in 0..times {
        atomic(AtomicOp::Add, 3, 0);
    }
    flush(&mut nodes).unwrap();
    // SAFETY: `words` is alive; it is read as memory that others changed.
    let now = unsafe { place_of_word.read_volatile() };
    assert_eq!(now, (1 << 63 | 5) + 3 * times);
    nodes[1].transport.withdraw(&key);
}

fn beyond(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    let mut words = [7_u64; 2];
    let key = nodes[1].expose(&mut words);
    let mut found = 0_u64;
    let place = &raw mut found;
    let unknown = RemoteKey {
        address: 1,
        words: [2, 999],
    };
    for remote in [
        RemoteAddr { key, offset: 16 },
        RemoteAddr { key, offset: 4 },
        RemoteAddr {
            key,
            offset: u64::MAX - 3,
        },
        RemoteAddr {
            key: unknown,
            offset: 0,
        },
    ] {
        // SAFETY: `found` lives until completion.
        let result = finish(&mut nodes, |lane, token| unsafe {
            lane.atomic(PEERS[1], 0, AtomicOp::Swap, 1, 0, place, remote, token)
        });
        assert!(
            matches!(&result, Err(LaneError::PeerLost(lost)) if lost.peer == PEERS[1]),
            "{remote:?}: {result:?}"
        );
    }
    let local = [0_u8; 9];
    let remote = RemoteAddr { key, offset: 8 };
    // SAFETY: `local` lives until the flush.
    let put = finish(&mut nodes, |lane, token| unsafe {
        lane.put(PEERS[1], 0, local.as_ptr(), 9, remote, token)
    });
    // Told now or by the flush.
    let told = put.and_then(|()| flush(&mut nodes));
    assert!(
        matches!(&told, Err(LaneError::PeerLost(lost)) if lost.peer == PEERS[1]),
        "{told:?}"
    );
    if nodes[0].sinks[0].lost.is_empty() {
        flush(&mut nodes).unwrap();
    }
    assert_eq!(words, [7; 2]);
}

fn withdrawn(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    let mut words = [7_u64; 2];
    let key = nodes[1].expose(&mut words);
    nodes[1].transport.withdraw(&key);
    let mut found = 0_u64;
    let place = &raw mut found;
    let wrong = RemoteKey {
        address: key.address,
        words: [0, 0],
    };
    for key in [key, wrong] {
        let remote = RemoteAddr { key, offset: 0 };
        // SAFETY: `found` lives until completion.
        let result = finish(&mut nodes, |lane, token| unsafe {
            lane.atomic(PEERS[1], 0, AtomicOp::Swap, 1, 0, place, remote, token)
        });
        assert!(
            matches!(&result, Err(LaneError::PeerLost(lost)) if lost.peer == PEERS[1])
                || result == Err(LaneError::Unsupported),
            "{result:?}"
        );
    }
    assert_eq!(words, [7; 2]);
}

/// Where the data of a signal lies; the words are at the beginning.
const DATA: usize = 4096;

fn signal(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 1);
    let most = nodes[0]
        .transport
        .limits()
        .signals
        .map_or(0, |signals| signals.max_data);
    let mut memory = vec![0_u64; (DATA + most).div_ceil(8)];
    let key = nodes[1].expose(&mut memory);
    let base: *mut u8 = memory.as_mut_ptr().cast();
    for round in 1..=200_u64 {
        let len = [0, 8, 100, random.length(most), most][random.below(5)].min(most);
        let count = 1 + random.below(MAX_WORDS);
        let data = random.bytes(len);
        let words: Vec<u64> = (0..count as u64).map(|i| round << 8 | i).collect();
        let to = RemoteAddr {
            key,
            offset: DATA as u64,
        };
        let at = RemoteAddr { key, offset: 0 };
        poll_until(&mut nodes, "signalling", |nodes| {
            match nodes[0].lanes[0].signal(PEERS[1], 0, &data, to, &words, at) {
                Ok(()) => true,
                Err(LaneError::Again) => false,
                Err(error) => panic!("{error}"),
            }
        });
        poll_until(&mut nodes, "the words", |_| {
            words.iter().enumerate().all(|(i, &word)| {
                // SAFETY: `memory` is alive and aligned; others write it at the same time, by words.
                let seen = unsafe { &*base.cast::<AtomicU64>().add(i) }.load(Ordering::Acquire);
                let old = seen >> 8 < round;
                assert!(old || seen == word, "word {i} is {seen:#x}, not {word:#x}");
                seen == word
            })
        });
        // SAFETY: `memory` is alive, and nobody writes it until the next signal.
        let seen = unsafe { std::slice::from_raw_parts(base.add(DATA), len) };
        assert!(seen == data, "{len} bytes with {count} words");
    }
    nodes[1].transport.withdraw(&key);
}
