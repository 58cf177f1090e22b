//! Target: requests to a window, with their layouts, from a hostile origin.

use mpi_core::process::source::Sources;
use mpi_rma::fuzzing::{Served, is_too_long};
use netmod::{Header, LaneError, Peer, Sink, Token};

use crate::Input;
use crate::engine::{network, process};

/// The packet kind of an eager message.
const EAGER: u64 = 1;
/// The packet kind of a rendezvous' first message.
const READY_TO_SEND: u64 = 3;
/// Lengths that a target can reserve but that need too much memory here; not generated.
const RESERVED: std::ops::Range<u64> = 1 << 20..1 << 48;
/// Flag in the number of blocks: each is a group of four words.
const GROUPED: u64 = 1 << 63;

struct Ignore;

impl Sink for Ignore {
    fn message(&mut self, _from: Peer, _header: &Header, _payload: &[u8]) {}
    fn complete(&mut self, _token: Token, _result: Result<(), LaneError>) {}
    fn peer_lost(&mut self, _peer: Peer, _why: String) {}
}

/// Reads a number: small, near a bound, in the window, or any.
fn number(input: &mut Input, origin: u64) -> u64 {
    match input.byte() {
        0xff => input.word(),
        code @ 0xf0.. => u64::MAX - u64::from(code - 0xf0),
        code @ 0xe0.. => origin.wrapping_sub(u64::from(code - 0xe0)),
        code @ 0xc0.. => 1 << (code - 0xc0 + 32),
        code @ 0x80.. => origin + 2 * u64::from(code - 0x80),
        code => code.into(),
    }
}

/// Builds a request of words, blocks and data.
fn request(input: &mut Input, origin: u64) -> Vec<u8> {
    let code = input.byte();
    let mut words = vec![u64::from(code % 12), u64::from(input.byte() % 3)];
    words.extend([number(input, origin), number(input, origin)]);
    let is_grouped = code & 0x80 != 0;
    let runs = u64::from(input.byte() % 6);
    words.push(runs | if is_grouped { GROUPED } else { 0 });
    for _ in 0..runs * if is_grouped { 4 } else { 2 } {
        words.push(number(input, origin));
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let data = usize::from(input.byte());
    bytes.resize(bytes.len() + data, input.byte());
    match code & 0x40 {
        0 => {}
        // One byte is overwritten.
        _ => {
            let at = usize::from(input.byte()) % bytes.len();
            bytes[at] = input.byte();
        }
    }
    bytes
}

/// Has a window perform the requests of another process.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sim = network();
    let process = process(&sim, Sources::default());
    let served = Served::new(input.byte() & 1 != 0);
    let mut lane = sim.transport(1).open_lane(0).expect("a lane");
    let mut count = 0;
    while !input.is_empty() && count < 64 {
        count += 1;
        let code = input.byte();
        let (kind, payload) = match code % 8 {
            // A rendezvous of any length whose data never arrives.
            0 => {
                let len = number(&mut input, 0);
                // The target allocates memory for the data before it arrives.
                if RESERVED.contains(&len) {
                    continue;
                }
                let words = [len, 7 | 1 << 25, 0, 0, 0];
                (
                    READY_TO_SEND,
                    words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
                )
            }
            1 => (EAGER, input.piece().to_vec()),
            _ => (EAGER, request(&mut input, served.origin())),
        };
        if is_too_long(&payload) {
            continue;
        }
        let source = match code & 0xe0 {
            0xe0 => u64::from(input.byte()),
            _ => 1,
        };
        let header = Header([served.context(), source, kind]);
        let _ = lane.send(0, 0, &header, netmod::Payload::Bytes(&payload));
        for _ in 0..2 {
            while sim.step().is_some() {}
            process.poll_all().expect("no peer ends the process");
            served.advance(&process).expect("no peer ends the process");
            while lane.poll(&mut Ignore, 64) {}
        }
        assert!(served.is_sound(), "memory around the window was written");
    }
    // The process must be dropped before the memory that it may write.
    drop((process, lane));
    drop(served);
}
