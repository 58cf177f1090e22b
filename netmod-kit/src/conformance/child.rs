//! Cases with two processes: the children's side.

mod deaths;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netmod::{
    AtomicOp, Header, Issued, Lane, LaneError, Payload, RemoteAccess, RemoteAddr, RemoteKey, Token,
};

use super::node::{Directory, LIMIT, Node, Random, is_woken};
use super::variant::{End, LossDetection, Opening, Variant};

// Environment variables of the children.
pub(super) const ROLE: &str = "WEFT_CONFORMANCE_ROLE";
pub(super) const SCENARIO: &str = "WEFT_CONFORMANCE_SCENARIO";
pub(super) const VARIANT: &str = "WEFT_CONFORMANCE_VARIANT";
pub(super) const CABLE: &str = "WEFT_CONFORMANCE_CABLE";
pub(super) const DRIVES: &str = "driver";
pub(super) const SERVES: &str = "server";

/// Line that the server prints before it stops polling for a while.
pub(super) const ASLEEP: &str = "asleep";

const LANES: u16 = 5;
const DRIVER: u32 = 0;
const SERVER: u32 = 1;

// Requests of the driver, in the first word of a header.
const NUMBERED: u64 = 1;
const SLEEP: u64 = 2;
const REPORT: u64 = 3;
const LEAVE: u64 = 4;
/// The server's answer to REPORT: numbered messages taken and a checksum of them.
const REPORTED: u64 = 5;
const PING: u64 = 6;

/// The scenarios of two processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scenario {
    Everything,
    /// Both sleep while they wait.
    Sleepers,
    /// The server is killed while messages are sent to it.
    Death,
    /// The server is killed before the first contact.
    DeathBeforeContact,
    /// The server is killed while its memory is accessed.
    DeathDuringAccess,
    /// The server stops polling and is killed while the driver waits for its answer.
    DeathOfSleeper,
    /// The same; another lane than the one that waits detects the loss.
    DeathOfSleeperElsewhere,
    /// The server is killed while no operation is pending.
    DeathOfTalker,
    /// The same; another lane detects the loss first.
    DeathOfTalkerElsewhere,
    /// The network to the server is cut.
    PulledCable,
}

impl Scenario {
    const ALL: [Scenario; 10] = [
        Scenario::Everything,
        Scenario::Sleepers,
        Scenario::Death,
        Scenario::DeathBeforeContact,
        Scenario::DeathDuringAccess,
        Scenario::DeathOfSleeper,
        Scenario::DeathOfSleeperElsewhere,
        Scenario::DeathOfTalker,
        Scenario::DeathOfTalkerElsewhere,
        Scenario::PulledCable,
    ];

    pub(super) fn name(self) -> String {
        format!("{self:?}")
    }
}

/// Returns whether a case has started this process.
pub(super) fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Returns the name of the variant for which a case has started this process.
pub fn child_variant() -> Option<String> {
    std::env::var(VARIANT).ok()
}

/// A child process.
struct Actor<'a> {
    node: Node,
    variant: &'a Variant,
    /// Time of the last check whether the peer lives.
    asked: Instant,
}

/// Runs a child.
pub(super) fn main(variants: &[Variant]) {
    let of = |name| std::env::var(name).unwrap();
    let name = of(VARIANT);
    let variant = variants
        .iter()
        .find(|variant| variant.name == name)
        .unwrap();
    let name = of(SCENARIO);
    let scenario = Scenario::ALL
        .into_iter()
        .find(|scenario| scenario.name() == name);
    let scenario = scenario.unwrap();
    let drives = of(ROLE) == DRIVES;
    let (me, other, end) = if drives {
        (DRIVER, SERVER, End::First)
    } else {
        (SERVER, DRIVER, End::Second)
    };
    let cable = std::env::var_os(CABLE).is_some();
    let directory = Arc::new(Directory::default());
    let transport = variant.open(Opening {
        peer: me,
        end,
        resolver: directory.clone(),
        cable,
    });
    let line = transport.describe();
    assert!(
        !cable || line.contains(variant.at_cable),
        "not the cable: {line}"
    );
    let lanes = if scenario == Scenario::Sleepers {
        1
    } else {
        LANES
    };
    let mut memory = vec![0_u8; variant.effort.process_memory + 64];
    let node = Node::new(me, transport, directory, lanes);
    let key = node.expose(&mut memory);
    let mut hello = format!("{:x} {:x} {:x}", key.address, key.words[0], key.words[1]);
    for vci in 0..lanes {
        hello += " ";
        hello.extend(
            node.transport
                .address(vci)
                .iter()
                .map(|byte| format!("{byte:02x}")),
        );
    }
    say(&hello);
    let line = hear();
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |i: usize| u64::from_str_radix(words[i], 16).unwrap();
    let key = RemoteKey {
        address: number(0),
        words: [number(1), number(2)],
    };
    for vci in 0..lanes {
        let text = words[3 + usize::from(vci)];
        let address = (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16));
        node.directory
            .add(other, vci, address.map(Result::unwrap).collect());
    }
    let mut actor = Actor {
        node,
        variant,
        asked: Instant::now(),
    };
    if !drives {
        return actor.serve(scenario == Scenario::Sleepers);
    }
    match scenario {
        Scenario::Everything => actor.drive(key),
        Scenario::Sleepers => actor.ping(),
        Scenario::Death => actor.await_death(),
        Scenario::DeathBeforeContact => actor.talk_to_the_dead(),
        Scenario::DeathDuringAccess => actor.access_until_death(key),
        Scenario::DeathOfSleeper => actor.await_answer(key),
        Scenario::DeathOfTalkerElsewhere => actor.listen_beside_another_lane(),
        Scenario::DeathOfSleeperElsewhere => actor.await_answers_beside_another_lane(key),
        Scenario::DeathOfTalker | Scenario::PulledCable => actor.listen_until_death(),
    }
    say("passed");
}

/// Reads the parent's next line.
fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_string()
}

fn say(line: &str) {
    println!("WEFT {line}");
    std::io::stdout().flush().unwrap();
}

fn checksum(sum: u64, seq: u64, payload: &[u8]) -> u64 {
    payload.iter().fold(sum ^ seq, |sum, &byte| {
        (sum.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

impl Actor<'_> {
    fn poll(&mut self) -> bool {
        self.node.poll()
    }

    /// Polls, and calls `check_peers` now and then if the transport needs it.
    fn watch(&mut self, even_if_idle: bool) -> bool {
        let ask = match self.variant.loss_detection {
            LossDetection::Always => false,
            LossDetection::WhilePending => even_if_idle,
            LossDetection::OnCheck => true,
        };
        if ask && self.asked.elapsed() > Duration::from_millis(200) {
            self.asked = Instant::now();
            let sinks = &mut self.node.sinks;
            for (lane, sink) in self.node.lanes.iter_mut().zip(sinks) {
                lane.check_peers(&[SERVER], sink);
            }
        }
        self.poll()
    }

    fn send(&mut self, lane: usize, to: u32, header: [u64; 3], payload: &[u8]) {
        let start = Instant::now();
        loop {
            match self.node.lanes[lane].send(
                to,
                lane as u16,
                &Header(header),
                Payload::Bytes(payload),
            ) {
                Ok(_) => return,
                Err(LaneError::Again) => {
                    self.poll();
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
            assert!(start.elapsed() < LIMIT, "sending took too long");
        }
    }

    /// Waits until everything has left.
    fn drain(&mut self) {
        let start = Instant::now();
        while !self.node.lanes.iter_mut().all(|lane| lane.drained()) {
            self.poll();
            assert!(start.elapsed() < LIMIT, "not drained");
        }
    }

    /// Sleeps until something arrives, if nothing has.
    fn sleep(&mut self) {
        let lane = &mut self.node.lanes[0];
        if lane.arm() {
            let woken = is_woken(lane.wake_up(), Duration::from_secs(30));
            let kept = self.node.sinks[0].messages.len();
            let found = !woken && self.poll();
            assert!(
                woken,
                "no wake-up; {kept} messages were there before, a poll now finds some: {found}"
            );
        }
        self.node.lanes[0].disarm();
    }

    /// Answers the driver until it sends [`LEAVE`].
    fn serve(&mut self, sleeps: bool) {
        let start = Instant::now();
        let mut counts = [0_u64; LANES as usize];
        let mut sums = [0_u64; LANES as usize];
        let mut idle = 0;
        loop {
            let mut any = self.poll();
            for lane in 0..self.node.lanes.len() {
                let messages = std::mem::take(&mut self.node.sinks[lane].messages);
                // Sending polls, too, when it waits for space: messages that came then are served
                // next time, without a wake-up.
                any |= !messages.is_empty();
                for (from, header, payload) in messages {
                    assert_eq!(from, DRIVER);
                    match header.0 {
                        [NUMBERED, seq, _] => {
                            assert_eq!(seq, counts[lane], "lane {lane} is out of order");
                            counts[lane] += 1;
                            sums[lane] = checksum(sums[lane], seq, &payload);
                        }
                        [SLEEP, ms, _] => {
                            say(ASLEEP);
                            std::thread::sleep(Duration::from_millis(ms));
                        }
                        [REPORT, ..] => {
                            let header = [REPORTED, counts[lane], sums[lane]];
                            self.send(lane, DRIVER, header, &[]);
                        }
                        [PING, ..] => self.send(lane, DRIVER, header.0, &payload),
                        [LEAVE, ..] => return self.drain(),
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert!(start.elapsed() < 2 * LIMIT, "the driver sent no LEAVE");
            idle = if any { 0 } else { idle + 1 };
            if sleeps && idle > 3 {
                self.sleep();
            } else if idle > 0 {
                std::thread::yield_now();
            }
        }
    }

    fn report(&mut self, lane: usize) -> (u64, u64) {
        self.send(lane, SERVER, [REPORT, 0, 0], &[]);
        let start = Instant::now();
        loop {
            self.poll();
            if let Some((_, header, _)) = self.node.sinks[lane].messages.pop() {
                assert_eq!(header.0[0], REPORTED);
                return (header.0[1], header.0[2]);
            }
            assert!(start.elapsed() < LIMIT, "no report");
            std::thread::yield_now();
        }
    }

    fn finish(
        &mut self,
        mut issue: impl FnMut(&mut dyn Lane, Token) -> Result<Issued, LaneError>,
    ) -> Result<(), LaneError> {
        let token = self.node.token();
        let start = Instant::now();
        loop {
            match issue(&mut *self.node.lanes[0], token) {
                Ok(Issued::Complete) => return Ok(()),
                Ok(Issued::Pending) => break,
                Err(LaneError::Again) => {
                    self.poll();
                }
                Err(error) => return Err(error),
            }
            assert!(start.elapsed() < LIMIT, "issuing took too long");
        }
        loop {
            self.poll();
            if let Some(result) = self.node.sinks[0].completed.remove(&token.0) {
                return result;
            }
            assert!(start.elapsed() < LIMIT, "completing took too long");
            std::thread::yield_now();
        }
    }

    fn drive(&mut self, key: RemoteKey) {
        let mut random = Random::new();
        let limits = self.node.transport.limits();
        let most = limits.max_payload;
        let mut counts = [0_u64; LANES as usize];
        let mut sums = [0_u64; LANES as usize];

        // Order and content of messages over all lanes.
        for _ in 0..self.variant.effort.process_messages {
            let lane = random.below(LANES.into());
            let len = random.length(most);
            let payload = random.bytes(len);
            sums[lane] = checksum(sums[lane], counts[lane], &payload);
            self.send(lane, SERVER, [NUMBERED, counts[lane], 0], &payload);
            counts[lane] += 1;
        }
        for lane in 0..LANES as usize {
            assert_eq!(self.report(lane), (counts[lane], sums[lane]));
        }

        // While the server sleeps, the number of accepted messages is bounded, and none is lost.
        self.send(0, SERVER, [SLEEP, 3000, 0], &[]);
        let payload = random.bytes(most);
        let start = Instant::now();
        let (mut again, mut accepted) = (0_u64, 0);
        let elapsed = |ms| start.elapsed() >= Duration::from_millis(ms);
        while !elapsed(600) || (again == 0 && !elapsed(2500)) {
            let header = Header([NUMBERED, counts[0], 0]);
            match self.node.lanes[0].send(SERVER, 0, &header, Payload::Bytes(&payload)) {
                Ok(_) => {
                    sums[0] = checksum(sums[0], counts[0], &payload);
                    counts[0] += 1;
                    accepted += 1;
                }
                Err(LaneError::Again) => {
                    again += 1;
                    self.poll();
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(
            again > 0 && accepted < 5000,
            "{accepted} messages were accepted, {again} refused"
        );
        assert_eq!(self.report(0), (counts[0], sums[0]));
        if limits.get || limits.native_rma {
            self.access(key, &mut random);
        }
        if limits.atomics.is_some() {
            self.count(key);
        }
        self.send(0, SERVER, [LEAVE, 0, 0], &[]);
        self.drain();
    }

    fn access(&mut self, key: RemoteKey, random: &mut Random) {
        for len in [
            0,
            1,
            13,
            4095,
            5000,
            300_001,
            self.variant.effort.process_memory,
        ] {
            let offset = random.below(63);
            let remote = RemoteAddr {
                key,
                offset: offset as u64,
            };
            let data = random.bytes(len + 8);
            let shift = random.below(7);
            // SAFETY: `data` lives until completion.
            let put = self.finish(|lane, token| unsafe {
                lane.access(
                    SERVER,
                    0,
                    RemoteAccess::put(data.as_ptr().add(shift), len, remote),
                    token,
                )
            });
            if put == Err(LaneError::Unsupported) {
                // The kernel or a container may forbid it for this peer.
                eprintln!("get and put were not tried: not supported towards this peer");
                return;
            }
            put.unwrap();
            self.finish(|lane, token| lane.flush(SERVER, token))
                .unwrap();
            let mut back = vec![0_u8; len + 8];
            let place = back.as_mut_ptr();
            // SAFETY: `back` lives until completion.
            self.finish(|lane, token| unsafe {
                lane.access(
                    SERVER,
                    0,
                    RemoteAccess::get(place.add(3), len, remote),
                    token,
                )
            })
            .unwrap();
            assert!(
                back[3..3 + len] == data[shift..shift + len],
                "{len} bytes at {offset}"
            );
        }
    }

    fn count(&mut self, key: RemoteKey) {
        let remote = RemoteAddr { key, offset: 64 };
        let mut atomic = |op, operand, compare| {
            let mut found = 0_u64;
            let place = &raw mut found;
            // SAFETY: `found` lives until completion.
            self.finish(|lane, token| unsafe {
                lane.access(
                    SERVER,
                    0,
                    RemoteAccess::atomic(op, [operand, compare], place, remote),
                    token,
                )
            })
            .unwrap();
            found
        };
        atomic(AtomicOp::Swap, 100, 0);
        for i in 0..200 {
            assert_eq!(atomic(AtomicOp::Add, 2, 0), 100 + 2 * i);
        }
        assert_eq!(atomic(AtomicOp::CompareSwap, 1, 500), 500);
        assert_eq!(atomic(AtomicOp::Load, 0, 0), 1);
    }

    /// Both sides wait for each other's messages in turn, often asleep; sometimes several messages
    /// are in flight.
    fn ping(&mut self) {
        let most = self.node.transport.limits().max_payload;
        let mut random = Random::new();
        for round in 0..self.variant.effort.rounds {
            let count = if round % 16 == 0 {
                random.below(200)
            } else {
                1
            };
            let payloads: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let len = random.length(most);
                    random.bytes(len)
                })
                .collect();
            for (i, payload) in payloads.iter().enumerate() {
                self.send(0, SERVER, [PING, round, i as u64], payload);
            }
            // The time between sending and sleeping varies, to hit the moment that matters.
            for _ in 0..round % 50 * 4 {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            let mut idle = 0;
            while self.node.sinks[0].messages.len() < count {
                idle = if self.poll() { 0 } else { idle + 1 };
                if idle > round % 7 {
                    self.sleep();
                }
                assert!(start.elapsed() < LIMIT, "no answer");
            }
            let answers = self.node.sinks[0].messages.drain(..);
            for ((i, payload), (_, header, got)) in payloads.iter().enumerate().zip(answers) {
                assert_eq!(header.0, [PING, round, i as u64]);
                assert!(got == *payload);
            }
        }
        self.send(0, SERVER, [LEAVE, 0, 0], &[]);
        self.drain();
    }
}
