//! Atomics, signals and forbidden access, between two nodes of one process.

use std::sync::atomic::{AtomicU64, Ordering};

use netmod::{
    AtomicOp, Issued, Lane, LaneError, MAX_WORDS, RemoteAccess, RemoteAddr, RemoteKey, Signal,
    Token,
};

use super::case::{Case, Claims, Need, has_atomics};
use super::node::{Node, PEERS, Random, finish, flush, pair, poll_until};
use super::variant::{Topic, Variant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "atomics_return_the_previous_value",
        Topic::Atomics,
        has_atomics,
        atomics,
    ),
    Case::new(
        "atomics_that_nobody_waits_for_keep_their_order",
        Topic::Atomics,
        orders_atomics,
        ordered_atomics,
    ),
    Case::new(
        "small_accesses_and_atomics_keep_their_order",
        Topic::Atomics,
        orders_accesses,
        ordered_accesses,
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
        "a_seen_signal_implies_its_data",
        Topic::Signals,
        signals,
        signal,
    ),
];

/// Needs atomics by messages, whose target checks that the memory is exposed; adapters have their
/// own checks.
fn emulates_atomics(claims: &Claims) -> Need {
    has_atomics(claims)?;
    let by_messages = |atomics: netmod::Atomics| !atomics.passive_target;
    claims.need(
        |limits| limits.atomics.is_some_and(by_messages),
        "native atomics",
    )
}

fn orders_atomics(claims: &Claims) -> Need {
    has_atomics(claims)?;
    claims.need(
        |limits| limits.atomics.is_some_and(|atomics| atomics.ordered),
        "no order of atomics",
    )
}

fn orders_accesses(claims: &Claims) -> Need {
    has_atomics(claims)?;
    let orders = |atomics: netmod::Atomics| atomics.ordered_access > 0;
    claims.need(
        |limits| limits.atomics.is_some_and(orders),
        "no order of accesses",
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
            lane.access(
                PEERS[1],
                0,
                RemoteAccess::atomic(op, [operand, compare], place, remote),
                token,
            )
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
    // SAFETY: `words` is alive; the read is volatile because the transport changes it.
    let now = unsafe { place_of_word.read_volatile() };
    assert_eq!(now, (1 << 63 | 5) + 3 * times);
    nodes[1].transport.withdraw(&key);
}

/// Changes a word in several ways, some of which adapters may carry out in several steps, and reads
/// it, again and again without waiting.
fn ordered_atomics(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    let mut words = [0_u64; 1];
    let key = nodes[1].expose(&mut words);
    let word = RemoteAddr { key, offset: 0 };
    let rounds = variant.effort.accesses as u64;
    let mut issued = Vec::new();
    let mut turns = Turns(&mut nodes, 0);
    for round in 0..rounds {
        for (op, operand) in [
            (AtomicOp::Swap, round << 8),
            (AtomicOp::Add, 7),
            (AtomicOp::And, !4),
            (AtomicOp::Add, 1),
            (AtomicOp::Xor, 8),
            (AtomicOp::Load, 0),
        ] {
            let mut found = Box::new(!0_u64);
            let place = &raw mut *found;
            // SAFETY: `issued` keeps `found` until the operation has completed.
            let token = turns.issue(|lane, token| unsafe {
                let access = RemoteAccess::atomic(op, [operand, 0], place, word);
                lane.access(PEERS[1], 0, access, token)
            });
            issued.push((token, found));
        }
    }
    issued.iter().for_each(|(token, _)| turns.wait(*token));
    for (round, atomics) in (0..rounds).zip(issued.chunks_exact(6)) {
        let found: Vec<u64> = atomics.iter().skip(1).map(|(_, found)| **found).collect();
        let wanted = [0, 7, 3, 4, 12].map(|low| round << 8 | low);
        assert_eq!(found, wanted, "round {round}");
    }
    nodes[1].transport.withdraw(&key);
}

/// Two lanes guard some bytes by a lock word. Each repeats an attempt to take the lock, followed by
/// a read of the bytes without waiting; then it writes others, followed by the release of the lock,
/// and waits for neither. A lane that has taken the lock must have read what the other wrote.
fn ordered_accesses(variant: &Variant) {
    let mut nodes = pair(variant, 2);
    let most = nodes[0].transport.limits().atomics.unwrap().ordered_access;
    let mut random = Random::new();
    let most = most.min(variant.effort.memory / 2) & !7;
    let mut memory = vec![0_u64; 1 + most / 8];
    let key = nodes[1].expose(&mut memory);
    let guard = RemoteAddr { key, offset: 0 };
    let guarded = RemoteAddr { key, offset: 8 };
    let mut written = vec![0_u8; most];
    let mut sent = Vec::new();
    for turn in 0..variant.effort.accesses {
        let (lane, len) = (turn % 2, 1 + random.below(most));
        let mut turns = Turns(&mut nodes, lane);
        let mut read = vec![0xAA_u8; len];
        loop {
            let (mut found, room) = (!0_u64, read.as_mut_ptr());
            let place = &raw mut found;
            // SAFETY: `found` lives until completion.
            let take = turns.issue(|lane, token| unsafe {
                let op = AtomicOp::CompareSwap;
                lane.access(
                    PEERS[1],
                    0,
                    RemoteAccess::atomic(op, [1, 0], place, guard),
                    token,
                )
            });
            // SAFETY: `read` lives until completion.
            let look = turns.issue(|lane, token| unsafe {
                lane.access(PEERS[1], 0, RemoteAccess::get(room, len, guarded), token)
            });
            turns.wait(take);
            turns.wait(look);
            if found == 0 {
                break;
            }
        }
        assert!(read == written[..len], "turn {turn}: {len} bytes");
        let data = random.bytes(len);
        written[..len].copy_from_slice(&data);
        let (local, mut found) = (data.as_ptr(), Box::new(0_u64));
        let place = &raw mut *found;
        // SAFETY: `sent` keeps the data until the operation has completed.
        let write = turns.issue(|lane, token| unsafe {
            lane.access(PEERS[1], 0, RemoteAccess::put(local, len, guarded), token)
        });
        // SAFETY: `sent` keeps `found` until the operation has completed.
        let give = turns.issue(|lane, token| unsafe {
            let (op, less) = (AtomicOp::Add, u64::MAX);
            lane.access(
                PEERS[1],
                0,
                RemoteAccess::atomic(op, [less, 0], place, guard),
                token,
            )
        });
        sent.push((lane, [write, give], data, found));
    }
    for (lane, tokens, ..) in &sent {
        let mut turns = Turns(&mut nodes, *lane);
        tokens.iter().for_each(|token| turns.wait(*token));
    }
    nodes[1].transport.withdraw(&key);
}

/// The nodes, and the lane by which the first one issues operations.
struct Turns<'a>(&'a mut [Node], usize);

impl Turns<'_> {
    /// Issues an operation as soon as there is space. Returns its token if it is pending.
    fn issue(
        &mut self,
        operation: impl Fn(&mut dyn Lane, Token) -> Result<Issued, LaneError>,
    ) -> Option<Token> {
        let (token, mut issued) = (self.0[0].token(), None);
        poll_until(self.0, "room", |nodes| {
            issued = match operation(&mut *nodes[0].lanes[self.1], token) {
                Ok(issued) => Some(issued),
                Err(LaneError::Again) => None,
                Err(error) => panic!("{error}"),
            };
            issued.is_some()
        });
        issued.filter(|issued| *issued == Issued::Pending)?;
        Some(token)
    }

    fn wait(&mut self, token: Option<Token>) {
        let Some(token) = token else { return };
        poll_until(self.0, "completion", |nodes| {
            let result = nodes[0].sinks[self.1].completed.remove(&token.0);
            result.map(Result::unwrap).is_some()
        });
    }
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
            lane.access(
                PEERS[1],
                0,
                RemoteAccess::atomic(AtomicOp::Swap, [1, 0], place, remote),
                token,
            )
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
        lane.access(
            PEERS[1],
            0,
            RemoteAccess::put(local.as_ptr(), 9, remote),
            token,
        )
    });
    // Reported now or by the flush.
    let reported = put.and_then(|()| flush(&mut nodes));
    assert!(
        matches!(&reported, Err(LaneError::PeerLost(lost)) if lost.peer == PEERS[1]),
        "{reported:?}"
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
            lane.access(
                PEERS[1],
                0,
                RemoteAccess::atomic(AtomicOp::Swap, [1, 0], place, remote),
                token,
            )
        });
        assert!(
            matches!(&result, Err(LaneError::PeerLost(lost)) if lost.peer == PEERS[1])
                || result == Err(LaneError::Unsupported),
            "{result:?}"
        );
    }
    assert_eq!(words, [7; 2]);
}

/// Offset of a signal's data; its words are at the beginning.
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
        let place = |offset| RemoteAddr { key, offset };
        let signal = Signal {
            data: &data,
            remote: place(DATA as u64),
            words: &words,
            at: place(0),
        };
        poll_until(&mut nodes, "signalling", |nodes| {
            match nodes[0].lanes[0].signal(PEERS[1], 0, signal) {
                Ok(()) => true,
                Err(LaneError::Again) => false,
                Err(error) => panic!("{error}"),
            }
        });
        poll_until(&mut nodes, "the words", |_| {
            words.iter().enumerate().all(|(i, &word)| {
                // SAFETY: `memory` is alive and aligned; concurrent writes are those of the signal,
                // word by word.
                let seen = unsafe { &*base.cast::<AtomicU64>().add(i) }.load(Ordering::Acquire);
                let old = seen >> 8 < round;
                assert!(old || seen == word, "word {i} is {seen:#x}, not {word:#x}");
                seen == word
            })
        });
        // SAFETY: `memory` is alive and not written until the next signal.
        let seen = unsafe { std::slice::from_raw_parts(base.add(DATA), len) };
        assert!(seen == data, "{len} bytes with {count} words");
    }
    nodes[1].transport.withdraw(&key);
}
