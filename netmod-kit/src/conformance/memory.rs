//! Get and put between two nodes of one process.

use netmod::{Header, IoVec, Issued, LaneError, MAX_IOVECS, RemoteAccess, RemoteAddr};

use super::case::{Case, Claims, Need, has_get};
use super::node::{PEERS, Random, connect, finish, flush, pair, poll_until, send_polling};
use super::variant::{Topic, Variant};

const fn case(name: &'static str, run: fn(&Variant)) -> Case {
    Case::new(name, Topic::Memory, has_get, run)
}

pub(super) const CASES: &[Case] = &[
    case("get_and_put_move_any_size_at_any_offset", any_size),
    case("many_puts_and_gets_at_once", many_at_once),
    case("a_flush_of_nothing_completes", flush_nothing),
    case("an_empty_exposure_is_allowed", empty_exposure),
    Case::new(
        "a_message_does_not_overtake_a_put",
        Topic::Memory,
        orders_puts,
        ordered_puts,
    ),
    Case::new(
        "direct_copies_are_complete_at_once",
        Topic::Memory,
        copies,
        direct_copies,
    ),
];

fn copies(claims: &Claims) -> Need {
    claims.need(|_| claims.copies, "no direct copies")
}

fn orders_puts(claims: &Claims) -> Need {
    has_get(claims)?;
    claims.need(|limits| limits.ordered_put, "no order of puts")
}

fn any_size(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 1);
    let most = variant.effort.memory;
    let mut memory = random.bytes(most + 64);
    let mut expected = memory.clone();
    let key = nodes[1].expose(&mut memory);
    let sizes = [
        0,
        1,
        7,
        8,
        100,
        4096,
        4097,
        16_384,
        65_537,
        300_001,
        1 << 20,
    ];
    let sizes = sizes.into_iter().filter(|&len| len < most - 3);
    for len in sizes.chain([most - 3, most]) {
        let offset = random.below(63);
        let shift = random.below(7);
        let remote = RemoteAddr {
            key,
            offset: offset as u64,
        };
        let mut local = vec![0xAA; len + 16];
        let place = local.as_mut_ptr();
        // SAFETY: `local` lives until completion.
        finish(&mut nodes, |lane, token| unsafe {
            lane.access(
                PEERS[1],
                0,
                RemoteAccess::get(place.add(shift), len, remote),
                token,
            )
        })
        .unwrap();
        assert!(local[shift..shift + len] == expected[offset..offset + len]);
        let mut around = local[..shift].iter().chain(&local[shift + len..]);
        assert!(around.all(|&b| b == 0xAA));

        let data = random.bytes(len + 16);
        // SAFETY: `data` lives until completion.
        finish(&mut nodes, |lane, token| unsafe {
            lane.access(
                PEERS[1],
                0,
                RemoteAccess::put(data.as_ptr().add(shift), len, remote),
                token,
            )
        })
        .unwrap();
        flush(&mut nodes).unwrap();
        expected[offset..offset + len].copy_from_slice(&data[shift..shift + len]);
        assert!(memory == expected, "put of {len} bytes at {offset}");
    }
    nodes[1].transport.withdraw(&key);
}

fn many_at_once(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 1);
    let slots = variant.effort.accesses;
    let width = 5000;
    let mut memory = vec![0_u8; slots * width];
    let key = nodes[1].expose(&mut memory);
    let data = random.bytes(slots * width);
    let mut back = vec![0_u8; slots * width];
    for round in ["put", "get"] {
        let mut next = 0;
        let mut waiting = Vec::new();
        poll_until(&mut nodes, round, |nodes| {
            while next < slots {
                let remote = RemoteAddr {
                    key,
                    offset: (next * width) as u64,
                };
                let len = if next % 2 == 0 { width } else { 77 };
                let token = nodes[0].token();
                let lane = &mut nodes[0].lanes[0];
                // SAFETY: both live until completion; blocks of different operations do not
                // overlap.
                let issued = unsafe {
                    if round == "put" {
                        let local = data.as_ptr().add(next * width);
                        lane.access(PEERS[1], 0, RemoteAccess::put(local, len, remote), token)
                    } else {
                        let local = back.as_mut_ptr().add(next * width);
                        lane.access(PEERS[1], 0, RemoteAccess::get(local, len, remote), token)
                    }
                };
                match issued {
                    Ok(Issued::Complete) => {}
                    Ok(Issued::Pending) => waiting.push(token.0),
                    Err(LaneError::Again) => break,
                    Err(error) => panic!("{error}"),
                }
                next += 1;
            }
            let completed = &mut nodes[0].sinks[0].completed;
            waiting.retain(|token| match completed.remove(token) {
                Some(result) => {
                    result.unwrap();
                    false
                }
                None => true,
            });
            next == slots && waiting.is_empty()
        });
        flush(&mut nodes).unwrap();
        let got = if round == "put" { &memory } else { &back };
        for slot in 0..slots {
            let len = if slot % 2 == 0 { width } else { 77 };
            let range = slot * width..slot * width + len;
            assert!(got[range.clone()] == data[range], "{round} of slot {slot}");
        }
    }
}

fn flush_nothing(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    flush(&mut nodes).unwrap();
    connect(&mut nodes);
    flush(&mut nodes).unwrap();
}

fn empty_exposure(variant: &Variant) {
    let nodes = pair(variant, 1);
    let empty = nodes[1].expose::<u8>(&mut []);
    nodes[1].transport.withdraw(&empty);
}

fn ordered_puts(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    let mut words = [0_u64; 1];
    let key = nodes[1].expose(&mut words);
    let word = words.as_ptr();
    for value in 1..=200_u64 {
        let remote = RemoteAddr { key, offset: 0 };
        let local = (&raw const value).cast();
        // SAFETY: `value` lives until completion.
        finish(&mut nodes, |lane, token| unsafe {
            lane.access(PEERS[1], 0, RemoteAccess::put(local, 8, remote), token)
        })
        .unwrap();
        send_polling(&mut nodes, Header([value, 0, 0]), &[]);
        poll_until(&mut nodes, "the message", |nodes| {
            !nodes[1].sinks[0].messages.is_empty()
        });
        nodes[1].sinks[0].messages.clear();
        // SAFETY: `words` is alive; the read is volatile because the transport changes it.
        assert_eq!(unsafe { word.read_volatile() }, value);
    }
    nodes[1].transport.withdraw(&key);
}

/// Copies of one and of many blocks, to and from memory that is not exposed.
fn direct_copies(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 1);
    let mut memory = random.bytes(100_000);
    let mut expected = memory.clone();
    let address = memory.as_mut_ptr() as u64;
    let lane = &mut nodes[0].lanes[0];
    let direct = lane.node().unwrap().direct_copy().unwrap();
    for round in 0..50 {
        let count = 1 + random.below(if round % 5 == 0 { MAX_IOVECS } else { 5 });
        let lens: Vec<usize> = (0..count).map(|_| random.length(390)).collect();
        let total: usize = lens.iter().sum();
        let offset = random.below(memory.len() - total);
        let at = address + offset as u64;
        let mut local = vec![0_u8; total];
        // SAFETY: `local` and `memory` are valid for `total` bytes.
        unsafe { direct.read(PEERS[1], 0, local.as_mut_ptr(), total, at) }.unwrap();
        assert!(local == expected[offset..offset + total]);
        let data = random.bytes(total);
        // SAFETY: `data` and `memory` are valid for `total` bytes.
        unsafe { direct.write(PEERS[1], 0, data.as_ptr(), total, at) }.unwrap();
        expected[offset..offset + total].copy_from_slice(&data);
        assert!(memory == expected);

        let mut rows: Vec<Vec<u8>> = lens.iter().map(|&len| vec![0; len]).collect();
        let pieces = |rows: &mut [Vec<u8>]| -> Vec<IoVec> {
            let piece = |row: &mut Vec<u8>| IoVec {
                ptr: row.as_mut_ptr(),
                len: row.len(),
            };
            rows.iter_mut().map(piece).collect()
        };
        // SAFETY: the rows are valid and have `total` bytes together.
        unsafe { direct.readv(PEERS[1], 0, &pieces(&mut rows), at) }.unwrap();
        assert!(rows.concat() == data);
        rows.iter_mut().flatten().for_each(|byte| *byte = !*byte);
        // SAFETY: the rows are valid and have `total` bytes together.
        unsafe { direct.writev(PEERS[1], 0, &pieces(&mut rows), at) }.unwrap();
        expected[offset..offset + total].copy_from_slice(&rows.concat());
        assert!(memory == expected);
    }
}
