//! Tests of remote operations over a lane that is driven by hand.

use netmod::{AtomicOp, RemoteKey};

use super::*;
use crate::emulation::{DONE, NOT_EXPOSED};

/// Bytes of a part and of a request's data, and of a put that is copied.
const PART: usize = 4;
const COPIED: usize = 2;

struct To(u32);

impl Endpoint for To {
    fn process(&self) -> u32 {
        self.0
    }
}

struct ByHand {
    remote: RemoteOps<()>,
    peers: Peers<To, Writes>,
    emulates: bool,
    /// Parts, requests and copied puts for which there is space.
    space: usize,
    /// Length of each native part.
    parts: Vec<usize>,
    requests: Vec<Request>,
    /// Epochs of copied puts.
    epochs: Vec<u32>,
}

impl ByHand {
    fn new(space: usize) -> ByHand {
        ByHand {
            remote: RemoteOps::new(8),
            peers: Peers::new(0),
            emulates: false,
            space,
            parts: Vec::new(),
            requests: Vec::new(),
            epochs: Vec::new(),
        }
    }

    fn take_space(&mut self) -> Result<(), LaneError> {
        self.space = self.space.checked_sub(1).ok_or(LaneError::Again)?;
        Ok(())
    }

    fn get(&mut self, data: &mut [u8], token: u64) -> Result<Issued, LaneError> {
        let (place, len) = (data.as_mut_ptr(), data.len());
        // SAFETY: the tests keep the data until the operation has ended.
        unsafe {
            access(
                self,
                1,
                0,
                RemoteAccess::get(place, len, memory()),
                (0, Token(token)),
            )
        }
    }

    fn put(&mut self, data: &[u8], token: u64) -> Result<Issued, LaneError> {
        let (place, len) = (data.as_ptr(), data.len());
        // SAFETY: the tests keep the data until the operation has ended.
        unsafe {
            access(
                self,
                1,
                0,
                RemoteAccess::put(place, len, memory()),
                (0, Token(token)),
            )
        }
    }

    fn flush(&mut self, token: u64) -> Result<Issued, LaneError> {
        flush(self, 1, (0, Token(token)))
    }

    /// Returns the completions since the last call: token, and whether it succeeded.
    fn completed(&mut self) -> Vec<(u64, bool)> {
        let notices = self.remote.notices.drain(..);
        let completed = notices.map(|(_, notice)| match notice {
            Notice::Complete(token, result) => (token.0, result.is_ok()),
            other => panic!("{other:?}"),
        });
        completed.collect()
    }

    fn lose(&mut self) {
        self.peers.processes[0].lost = Some("gone".to_string());
        end_process(self, 0);
    }
}

fn memory() -> RemoteAddr {
    RemoteAddr {
        key: RemoteKey::default(),
        offset: 0,
    }
}

impl RemoteLane for ByHand {
    type Endpoint = To;
    type Process = Writes;
    type Own = ();

    fn remote(&mut self) -> (&mut RemoteOps<()>, &mut Peers<To, Writes>) {
        (&mut self.remote, &mut self.peers)
    }

    fn memory_endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        if let Some(endpoint) = self.peers.find(peer, vci) {
            return Ok(endpoint);
        }
        let process = self.peers.process(peer);
        Ok(self.peers.add(peer, vci, To(process)))
    }

    unsafe fn put_copy(
        &mut self,
        endpoint: u32,
        _local: *const u8,
        len: usize,
        _remote: RemoteAddr,
    ) -> Result<bool, LaneError> {
        if self.emulates || len > COPIED {
            return Ok(false);
        }
        self.take_space()?;
        let epoch = self.peers.process_of(endpoint).state.begin();
        self.epochs.push(epoch);
        Ok(true)
    }

    fn prepare(&mut self, op: &mut Op<()>) -> Result<(), LaneError> {
        op.is_emulated = self.emulates;
        Ok(())
    }

    fn issue_part(&mut self, index: u32) -> Result<usize, LaneError> {
        self.take_space()?;
        let op = self.remote.get(index).unwrap();
        let len = (op.len - op.issued()).min(PART);
        self.parts.push(len);
        Ok(len)
    }

    fn request_data_max(&self) -> usize {
        PART
    }

    fn send_request(
        &mut self,
        _endpoint: u32,
        _ask: Ask,
        request: &Request,
        _data: &[u8],
    ) -> Result<(), LaneError> {
        self.take_space()?;
        self.requests.push(*request);
        Ok(())
    }

    fn send_answer(&mut self, _endpoint: u32, _answer: &Answer) -> Result<(), LaneError> {
        self.take_space()
    }
}

#[test]
fn parts_wait_for_space_and_the_last_one_completes() {
    let mut lane = ByHand::new(1);
    assert_eq!(lane.get(&mut [0; 10], 7), Ok(Issued::Pending));
    assert!(!retry(&mut lane) && lane.remote.has_backlog());
    lane.space = 9;
    assert!(retry(&mut lane) && !lane.remote.has_backlog());
    assert_eq!(lane.parts, [4, 4, 2]);
    part_done(&mut lane, 0, None);
    part_done(&mut lane, 0, None);
    assert_eq!(lane.completed(), []);
    part_done(&mut lane, 0, None);
    assert_eq!(lane.completed(), [(7, true)]);
}

#[test]
fn nothing_is_left_of_an_operation_without_space() {
    let mut lane = ByHand::new(0);
    assert_eq!(lane.put(&[0; 10], 7), Err(LaneError::Again));
    assert_eq!(lane.put(&[0; COPIED], 7), Err(LaneError::Again));
    assert_eq!(lane.flush(8), Ok(Issued::Complete));
    lane.space = 20;
    for _ in 0..8 {
        assert_eq!(lane.put(&[0; PART], 9), Ok(Issued::Pending));
    }
    assert_eq!(lane.put(&[0; PART], 9), Err(LaneError::Again));
}

#[test]
fn a_flush_waits_for_earlier_writes() {
    let mut lane = ByHand::new(9);
    assert_eq!(lane.put(&[0; PART], 1), Ok(Issued::Pending));
    assert_eq!(lane.put(&[0; COPIED], 2), Ok(Issued::Complete));
    assert_eq!(lane.flush(3), Ok(Issued::Pending));
    assert_eq!(lane.put(&[0; PART], 4), Ok(Issued::Pending));
    part_done(&mut lane, 0, None);
    assert_eq!(lane.completed(), [(1, true)]);
    end_write(&mut lane, 0, 0);
    assert_eq!(lane.completed(), [(3, true)]);
    part_done(&mut lane, 1, None);
    assert_eq!(lane.completed(), [(4, true)]);
}

#[test]
fn the_next_flush_reports_a_copied_put_that_failed() {
    let mut lane = ByHand::new(9);
    assert_eq!(lane.put(&[0; COPIED], 1), Ok(Issued::Complete));
    assert_eq!(lane.flush(2), Ok(Issued::Pending));
    lane.peers
        .process_of(0)
        .state
        .fail("no such memory".to_string());
    let epoch = lane.epochs[0];
    end_write(&mut lane, 0, epoch);
    assert_eq!(lane.completed(), [(2, false)]);
    assert_eq!(lane.flush(3), Ok(Issued::Complete));
    // Likewise for one that is emulated.
    lane.emulates = true;
    assert_eq!(lane.put(&[0; PART], 4), Ok(Issued::Complete));
    let request = lane.requests[0];
    answered(&mut lane, NOT_EXPOSED, &request, &[]);
    assert_eq!(lane.completed(), []);
    assert!(matches!(lane.flush(5), Err(LaneError::PeerLost(_))));
}

#[test]
fn a_loss_ends_emulated_operations_and_native_ones_with_their_parts() {
    let mut lane = ByHand::new(2);
    let mut memory = [0; 12];
    assert_eq!(lane.get(&mut memory, 1), Ok(Issued::Pending));
    (lane.emulates, lane.space) = (true, 1);
    assert_eq!(lane.put(&[0; 12], 2), Ok(Issued::Pending));
    assert_eq!(lane.flush(3), Ok(Issued::Pending));
    lane.lose();
    assert_eq!(lane.completed(), [(2, false), (3, false)]);
    assert!(!lane.remote.awaits_answers());
    part_done(&mut lane, 0, None);
    assert_eq!(lane.completed(), []);
    part_done(&mut lane, 0, None);
    assert_eq!(lane.completed(), [(1, false)]);
    // No part is issued any more, and a late answer is dropped.
    lane.space = 9;
    assert!(!retry(&mut lane) && !lane.remote.has_backlog());
    let late = lane.requests[0];
    answered(&mut lane, DONE, &late, &[]);
    assert_eq!(lane.completed(), []);
    assert!(matches!(lane.flush(4), Err(LaneError::PeerLost(_))));
}

#[test]
fn unanswered_requests_are_bounded() {
    let mut lane = ByHand::new(1000);
    lane.emulates = true;
    let mut memory = [0; 100 * PART];
    assert_eq!(lane.get(&mut memory, 1), Ok(Issued::Pending));
    assert_eq!(lane.requests.len(), MOST_REQUESTS);
    assert_eq!(lane.remote.debtors(), [0]);
    for place in 0..100 {
        let request = lane.requests[place];
        let answer = Request {
            offset: request.extra,
            ..request
        };
        answered(&mut lane, DONE, &answer, &[place as u8; PART]);
        retry(&mut lane);
    }
    assert_eq!(lane.completed(), [(1, true)]);
    assert_eq!((memory[0], memory[99 * PART + 3]), (0, 99));
    assert!(!lane.remote.awaits_answers());
}

#[test]
fn a_repeated_part_is_issued_until_its_result_is_right() {
    let mut lane = ByHand::new(1);
    let mut result = 0;
    let to = (0, Token(1));
    // SAFETY: the result outlives the operation.
    let issued = unsafe {
        let or = RemoteAccess::atomic(AtomicOp::Or, [1, 0], &mut result, memory());
        access(&mut lane, 1, 0, or, to)
    };
    // The lane's parts are shorter than an atomic, which is one part: the rest is issued later.
    assert_eq!(issued, Ok(Issued::Pending));
    lane.space = 1;
    retry(&mut lane);
    assert_eq!(lane.parts, [4, 4]);
    part_done(&mut lane, 0, None);
    repeat(&mut lane, 0);
    assert_eq!((lane.completed(), lane.space), (vec![], 0));
    lane.space = 2;
    assert!(retry(&mut lane));
    part_done(&mut lane, 0, None);
    part_done(&mut lane, 0, None);
    assert_eq!(lane.completed(), [(1, true)]);
}
