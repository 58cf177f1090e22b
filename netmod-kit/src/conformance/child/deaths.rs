//! The driver's side of a server's death: losses that must be reported and operations that must
//! complete.

use std::time::{Duration, Instant};

use netmod::{AtomicOp, Header, Issued, LaneError, Payload, RemoteAccess, RemoteAddr, RemoteKey};

use super::super::node::LIMIT;
use super::{ASLEEP, Actor, NUMBERED, SERVER, SLEEP, hear, say};

impl Actor<'_> {
    /// Sends over a lane until the peer is lost. Returns the reason.
    fn send_until_lost(&mut self, lane: usize) -> String {
        let start = Instant::now();
        let limit = self.variant.patience;
        let payload = [1; 900];
        let mut seq = 0_u64;
        loop {
            assert!(
                start.elapsed() < limit,
                "lane {lane} did not notice the death in {limit:?}"
            );
            let header = Header([NUMBERED, seq, 0]);
            match self.node.lanes[lane].send(SERVER, lane as u16, &header, Payload::Bytes(&payload))
            {
                Ok(_) => seq += 1,
                Err(LaneError::Again) => {}
                Err(LaneError::PeerLost(lost)) => {
                    assert_eq!(lost.peer, SERVER);
                    return lost.why;
                }
                Err(error) => panic!("{error}"),
            }
            self.watch(false);
            if let Some((peer, why)) = self.node.sinks[lane].lost.pop() {
                assert_eq!(peer, SERVER);
                return why;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn await_death(&mut self) {
        self.report(0);
        self.report(1);
        say("connected");
        let why = self.send_until_lost(0);
        assert!(!why.is_empty());
        // A lane that first contacts the dead process now learns of the loss, too.
        self.send_until_lost(2);
    }

    pub(super) fn talk_to_the_dead(&mut self) {
        let why = self.send_until_lost(0);
        assert!(
            !why.is_empty() && why.contains(self.variant.advice),
            "{why}"
        );
    }

    /// Issues gets and puts until the peer is lost. Every issued operation must complete.
    pub(super) fn access_until_death(&mut self, key: RemoteKey) {
        self.report(0);
        say("connected");
        let start = Instant::now();
        let limit = self.variant.patience;
        let len = self.variant.effort.process_memory / 8;
        let mut local = vec![0_u8; 8 * len];
        let base = local.as_mut_ptr();
        let mut pending = Vec::new();
        let mut lost = false;
        let mut done = 0;
        while !lost || !pending.is_empty() {
            assert!(
                start.elapsed() < limit,
                "lost: {lost}, {} of {} operations are still pending after {limit:?}",
                pending.len(),
                pending.len() + done
            );
            if !lost && pending.len() < 8 {
                let token = self.node.token();
                let place = 2 * (token.0 as usize % 4);
                let lane = &mut self.node.lanes[0];
                // SAFETY: `local` lives until all operations have completed; overlapping results
                // are not read.
                let issued = unsafe {
                    let place = base.add(place * len);
                    let remote = RemoteAddr { key, offset: 0 };
                    match token.0 % 3 {
                        0 => lane.access(SERVER, 0, RemoteAccess::get(place, len, remote), token),
                        1 => lane.access(SERVER, 0, RemoteAccess::put(place, len, remote), token),
                        _ => lane.flush(SERVER, token),
                    }
                };
                match issued {
                    Ok(Issued::Pending) => pending.push(token.0),
                    // A dying process may refuse before its death can be detected.
                    Ok(Issued::Complete) | Err(LaneError::Again | LaneError::Unsupported) => {}
                    Err(LaneError::PeerLost(gone)) if gone.peer == SERVER => lost = true,
                    Err(error) => panic!("{error}"),
                }
            }
            self.watch(false);
            lost |= self.node.sinks[0].lost.pop().is_some();
            let completed = &mut self.node.sinks[0].completed;
            pending.retain(|token| match completed.remove(token) {
                Some(Ok(())) => {
                    done += 1;
                    false
                }
                Some(Err(LaneError::PeerLost(gone))) if gone.peer == SERVER => {
                    done += 1;
                    lost = true;
                    false
                }
                Some(Err(error)) => panic!("{error}"),
                None => true,
            });
        }
    }

    /// Polls, and sends nothing, until the peer is lost.
    pub(super) fn listen_until_death(&mut self) {
        self.report(0);
        say("connected");
        let start = Instant::now();
        let limit = self.variant.patience;
        while self.node.sinks[0].lost.is_empty() {
            self.watch(true);
            std::thread::yield_now();
            assert!(start.elapsed() < limit, "not noticed in {limit:?}");
        }
    }

    /// Makes the server stop polling before it receives any later message.
    fn send_to_sleep(&mut self) {
        self.send(0, SERVER, [SLEEP, 60_000, 0], &[]);
        self.drain();
        assert_eq!(hear(), ASLEEP);
    }

    /// Waits at one lane for a loss that another lane detects first.
    pub(super) fn listen_beside_another_lane(&mut self) {
        self.report(0);
        self.report(1);
        say("connected");
        self.let_lane_1_notice();
        let start = Instant::now();
        let limit = self.variant.patience;
        while self.node.sinks[0].lost.is_empty() {
            self.watch(true);
            std::thread::yield_now();
            assert!(start.elapsed() < limit, "not notified in {limit:?}");
        }
    }

    /// Polls and checks lane 1 until it reports the loss.
    fn let_lane_1_notice(&mut self) {
        let start = Instant::now();
        let limit = self.variant.patience;
        while self.node.sinks[1].lost.is_empty() {
            let (lane, sink) = (&mut self.node.lanes[1], &mut self.node.sinks[1]);
            lane.check_peers(&[SERVER], sink);
            lane.poll(sink, 64);
            std::thread::sleep(Duration::from_millis(1));
            assert!(start.elapsed() < limit, "not noticed in {limit:?}");
        }
    }

    /// Waits for the answer of a server that stops polling and is killed.
    pub(super) fn await_answer(&mut self, key: RemoteKey) {
        self.report(0);
        self.send_to_sleep();
        let mut found = 0;
        let place = &raw mut found;
        let token = self.node.token();
        let remote = RemoteAddr { key, offset: 0 };
        let lane = &mut self.node.lanes[0];
        // SAFETY: `found` is alive until the completion, which is awaited.
        let issued = unsafe {
            lane.access(
                SERVER,
                0,
                RemoteAccess::atomic(AtomicOp::Add, [1, 0], place, remote),
                token,
            )
        };
        assert_eq!(issued, Ok(Issued::Pending));
        let patience = self.variant.patience;
        let mut poll_for = |limit: Duration| {
            let start = Instant::now();
            while start.elapsed() < limit {
                self.watch(false);
                if let Some(result) = self.node.sinks[0].completed.remove(&token.0) {
                    return Some(result);
                }
                std::thread::yield_now();
            }
            None
        };
        // While the server sleeps the loss check finds it alive.
        assert_eq!(poll_for(Duration::from_secs(1)), None);
        say("connected");
        let result = poll_for(patience).expect("no completion");
        assert!(matches!(result, Err(LaneError::PeerLost(lost)) if lost.peer == SERVER));
        let start = Instant::now();
        while self.node.sinks[0].lost.is_empty() {
            self.watch(false);
            assert!(start.elapsed() < LIMIT, "the loss was not reported");
        }
    }

    /// Waits at one lane for the answers of a server that stops polling and is killed, which
    /// another lane detects first.
    pub(super) fn await_answers_beside_another_lane(&mut self, key: RemoteKey) {
        self.report(0);
        self.report(1);
        self.send_to_sleep();
        let len = self.variant.effort.process_memory;
        let mut local = vec![0_u8; len];
        let mut found = 0;
        let tokens = [self.node.token(), self.node.token()];
        let atomic = tokens[0];
        let (place, result) = (local.as_mut_ptr(), &raw mut found);
        let remote = RemoteAddr { key, offset: 0 };
        let lane = &mut self.node.lanes[0];
        // SAFETY: `found` and `local` live until the completions, which are awaited.
        let issued = unsafe {
            [
                lane.access(
                    SERVER,
                    0,
                    RemoteAccess::atomic(AtomicOp::Add, [1, 0], result, remote),
                    tokens[0],
                ),
                // Longer than the transport accepts at a time: some requests have not left.
                lane.access(SERVER, 0, RemoteAccess::get(place, len, remote), tokens[1]),
            ]
        };
        assert_eq!(issued[0], Ok(Issued::Pending));
        say("connected");
        self.let_lane_1_notice();
        let start = Instant::now();
        let limit = self.variant.patience;
        for (token, issued) in tokens.into_iter().zip(issued) {
            // Some networks read the memory without the target's process, or have space for one
            // operation.
            if matches!(issued, Ok(Issued::Complete) | Err(LaneError::Again)) {
                continue;
            }
            assert_eq!(issued, Ok(Issued::Pending));
            let result = loop {
                self.watch(false);
                if let Some(result) = self.node.sinks[0].completed.remove(&token.0) {
                    break result;
                }
                assert!(start.elapsed() < limit, "{token:?} has not ended");
                std::thread::yield_now();
            };
            match result {
                Err(LaneError::PeerLost(lost)) if lost.peer == SERVER => {}
                Ok(()) if token != atomic => {}
                other => panic!("{token:?}: {other:?}"),
            }
        }
        while self.node.sinks[0].lost.is_empty() {
            self.watch(false);
            assert!(start.elapsed() < LIMIT, "the loss was not reported");
        }
    }
}
