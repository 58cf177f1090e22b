//! The hand-over protocol: long messages by turns, whose memory changes hands, between two lanes of
//! one process.

mod book;

use netmod::{Lane, Peer, Pipe, PipeReader, PipeRequest, PullProgress, PushProgress, Source};
use shmmod::{Shm, SingleCopy};

const UNIT: usize = 16 << 10;
/// Most units that change hands.
const MOST: usize = 32 * UNIT;

/// The lanes of processes 0, 1 and 2.
struct Lanes {
    lanes: [Box<dyn Lane>; 3],
    _transports: [Shm; 3],
}

impl Lanes {
    fn new(single_copy: SingleCopy) -> Lanes {
        let (lanes, _transports) = book::lanes(single_copy);
        Lanes { lanes, _transports }
    }

    /// Opens a pipe for a message that is never sent.
    fn open(&mut self, from: usize, to: usize, len: usize) -> Option<Pipe> {
        let pipes = self.lanes[from].node().unwrap().pipes().unwrap();
        let none = Source::Bytes(&[]);
        let begun = pipes.begin(to as Peer, 0, len, PipeRequest::IfFaster, none, false);
        let (pipe, is_written) = begun.ok()?;
        assert!(!is_written);
        Some(pipe)
    }

    /// Sends a whole message. Returns `None` if there is no space.
    fn send(&mut self, from: usize, to: usize, data: &[u8]) -> Option<Pipe> {
        let pipes = self.lanes[from].node().unwrap().pipes().unwrap();
        let (to, all) = (to as Peer, Source::Bytes(data));
        let begun = pipes.begin(to, 0, data.len(), PipeRequest::IfFaster, all, false);
        let (pipe, is_written) = begun.ok()?;
        if !is_written {
            let pushed = pipes.push(pipe, &mut 0, Source::Bytes(data));
            assert_eq!(pushed, Ok(PushProgress::Whole));
        }
        Some(pipe)
    }

    /// Receives the first `len` bytes of a message of `total` bytes.
    fn receive(
        &mut self,
        (from, to): (usize, usize),
        pipe: Pipe,
        len: usize,
        total: usize,
    ) -> Vec<u8> {
        let mut got = vec![0; len];
        let mut reading = PipeReader::new(from as Peer, 0, pipe, (len, total), false);
        let mut take = |at: usize, data: &[u8]| got[at..at + data.len()].copy_from_slice(data);
        let pipes = self.lanes[to].node().unwrap().pipes().unwrap();
        let taken = pipes.take_written(from as Peer, 0, pipe, (len, total), &mut take);
        if taken == Ok(false) {
            assert_eq!(pipes.pull(&mut reading, &mut take), Ok(PullProgress::Whole));
        }
        assert!(taken.is_ok());
        got
    }

    /// Exchanges a message in each direction; `round` makes the data unique.
    fn turn(&mut self, [one, other]: [usize; 2], len: usize, round: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let sent = data(len, 2 * round + from);
            let pipe = self.send(from, to, &sent).unwrap();
            assert!(
                self.receive((from, to), pipe, len, len) == sent,
                "{len} bytes"
            );
        }
    }

    /// Exchanges messages until the second process's memory changes hands, since it is the first to
    /// detect turns; at the end the first process has it.
    fn turns(&mut self, pair: [usize; 2], len: usize, rounds: usize) {
        for round in 0..rounds {
            self.turn(pair, len, round);
        }
    }

    /// Counts the free units of process 0 by opening pipes of one unit each to process 2.
    fn free(&mut self) -> usize {
        let mut pipes = Vec::new();
        // Two messages in a row are no turns.
        while let Some(pipe) = self.open(0, 2, UNIT) {
            pipes.push(pipe);
        }
        for &pipe in &pipes {
            self.lanes[0].node().unwrap().pipes().unwrap().abandon(pipe);
        }
        pipes.len()
    }
}

fn data(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 31 + at / 251 + seed * 7) as u8)
        .collect()
}

#[test]
fn messages_by_turns_arrive_whole_whatever_their_lengths() {
    for mode in [SingleCopy::Never, SingleCopy::Measured] {
        let mut lanes = Lanes::new(mode);
        let mut round = 0;
        for len in [UNIT, 100_000, MOST, 9000, MOST - 1, 3 * UNIT] {
            // Where protocols are measured, some messages use another one.
            for _ in 0..70 {
                round += 1;
                for (from, to) in [(0, 1), (1, 0)] {
                    let sent = data(len, round);
                    if let Some(pipe) = lanes.send(from, to, &sent) {
                        assert!(lanes.receive((from, to), pipe, len, len) == sent);
                    }
                }
            }
        }
    }
}

#[test]
fn handed_over_memory_is_not_taken_from_other_peers() {
    let mut lanes = Lanes::new(SingleCopy::Never);
    assert_eq!(lanes.free(), 128);
    lanes.turns([1, 0], MOST, 10);
    assert_eq!(lanes.free(), 128 - 32);
    // With another peer, too: half of the memory stays.
    lanes.turns([2, 0], MOST, 10);
    assert!(lanes.free() >= 64);
    lanes.turns([1, 0], MOST, 100);
}

#[test]
fn memory_is_returned_without_a_reply() {
    for len in [UNIT, MOST] {
        let mut lanes = Lanes::new(SingleCopy::Never);
        lanes.turns([1, 0], len, 5);
        assert_eq!(lanes.free(), 128 - len / UNIT);
        for message in 0..2 {
            let sent = data(len, message);
            let pipe = lanes.send(0, 1, &sent).unwrap();
            assert!(lanes.receive((0, 1), pipe, len, len) == sent);
        }
        assert_eq!(lanes.free(), 128);
    }
    // A reply of another length uses another protocol.
    let mut lanes = Lanes::new(SingleCopy::Never);
    lanes.turns([1, 0], 2 * UNIT, 5);
    assert_eq!(lanes.free(), 126);
    let pipe = lanes.send(1, 0, &data(UNIT, 0)).unwrap();
    assert_eq!(lanes.free(), 128);
    assert!(lanes.receive((1, 0), pipe, UNIT, UNIT) == data(UNIT, 0));
}

#[test]
fn memory_is_returned_with_an_unread_reply() {
    let mut lanes = Lanes::new(SingleCopy::Never);
    let len = 4 * UNIT;
    for who in 0..3 {
        lanes.turns([1, 0], len, 5);
        let answer = lanes.send(1, 0, &data(len, 9)).unwrap();
        assert_eq!(lanes.free(), 124, "it is written in process 0's memory");
        match who {
            0 => lanes.lanes[1]
                .node()
                .unwrap()
                .pipes()
                .unwrap()
                .abandon(answer),
            1 => lanes.lanes[0]
                .node()
                .unwrap()
                .pipes()
                .unwrap()
                .release(1, 0, answer),
            // The receive is shorter than the message.
            _ => {
                let got = lanes.receive((1, 0), answer, UNIT, len);
                assert!(got == data(UNIT, 9));
            }
        }
        // Process 1 takes the units back at its next send or poll.
        assert!(lanes.lanes[1].node().unwrap().pipes().unwrap().is_drained());
        assert_eq!(lanes.free(), 128, "{who}");
    }
}

#[test]
fn crossing_messages_are_written_before_they_are_announced() {
    let mut lanes = Lanes::new(SingleCopy::Never);
    for len in [UNIT, 4 * UNIT, 100_000, 20 * UNIT] {
        for round in 0..400 {
            let sent = [data(len, round), data(len, round + 7)];
            let mut pipes = Vec::new();
            for (from, to) in [(0, 1), (1, 0)] {
                let lane = lanes.lanes[from].node().unwrap().pipes().unwrap();
                let all = Source::Bytes(&sent[from]);
                let (pipe, is_written) = lane
                    .begin(to, 0, len, PipeRequest::IfFaster, all, false)
                    .expect("there is room");
                assert_eq!(is_written, round > 0 && len <= 16 * UNIT, "{len} {round}");
                if !is_written {
                    let all = Source::Bytes(&sent[from]);
                    assert_eq!(lane.push(pipe, &mut 0, all), Ok(PushProgress::Whole));
                }
                pipes.push(pipe);
            }
            for (from, to) in [(0, 1), (1, 0)] {
                assert!(lanes.receive((from, to), pipes[from], len, len) == sent[from]);
            }
        }
        // A replying process is waited for, so it announces the message first.
        lanes.turn([0, 1], len, 1);
        lanes.turn([0, 1], len, 2);
        let all = data(len, 3);
        let lane = lanes.lanes[0].node().unwrap().pipes().unwrap();
        let (pipe, is_written) = lane
            .begin(1, 0, len, PipeRequest::IfFaster, Source::Bytes(&all), false)
            .expect("there is room");
        assert!(!is_written);
        assert_eq!(
            lane.push(pipe, &mut 0, Source::Bytes(&all)),
            Ok(PushProgress::Whole)
        );
        assert!(lanes.receive((0, 1), pipe, len, len) == all);
        lanes.turn([1, 0], len, 4);
    }
    assert!(
        lanes
            .lanes
            .iter_mut()
            .all(|lane| lane.node().unwrap().pipes().unwrap().is_drained())
    );
}

#[test]
fn claims_to_memory_that_was_never_kept_are_refused() {
    let mut lanes = Lanes::new(SingleCopy::Never);
    lanes.turns([1, 0], UNIT, 5);
    let answer = lanes.send(1, 0, &data(UNIT, 1)).unwrap();
    assert!(lanes.receive((1, 0), answer, UNIT, UNIT) == data(UNIT, 1));
    // A second claim: the memory is process 0's again.
    let mut reading = PipeReader::new(1, 0, answer, (UNIT, UNIT), false);
    let pipes = lanes.lanes[0].node().unwrap().pipes().unwrap();
    assert!(pipes.pull(&mut reading, &mut |_, _| {}).is_err());
    // Nor is a process believed that announces a message in memory that it was never given.
    let row = 1 << 30 | (128 | 5) << 8;
    let name = Pipe(answer.0 & !0xff00 | row);
    let taken = pipes.take_written(1, 0, name, (UNIT, UNIT), &mut |_, _| {});
    assert!(taken.is_err());
}
