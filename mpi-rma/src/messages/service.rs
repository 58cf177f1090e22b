//! The state of a window that is not shared memory alone: what it serves to other members, and its
//! requests to them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod::VciId;
use parking_lot::Mutex;

use crate::messages::counters::OwnCounters;
use crate::messages::lock_queue::Queue;
use crate::messages::message::{self, Kind, Layout};
use crate::messages::pending::{Fetch, Sent};
use crate::network::Passive;
use crate::network::capabilities::Domain;
use crate::window::attached::Attached;
use crate::window::keys::{Ends, Keys};
use crate::window::lanes::{Lane, Lanes};
use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};
use netmod_kit::spare::Spare;

/// The tag of requests. Answers have positive tags.
pub(crate) const REQUEST: i32 = 0;

/// A window as this process serves it to other members, and its pending operations on them.
pub(crate) struct Service {
    pub comm: Arc<Comm>,
    /// Address and length of the memory. `None` for a dynamic window, whose offsets are addresses.
    pub(crate) memory: Option<(*mut u8, usize)>,
    pub(crate) state: Mutex<State>,
    /// The window's VCIs, and the pending operations of each.
    pub lanes: Lanes,
    /// Number of posts by each target that this process has not consumed.
    pub(crate) posts: Mutex<HashMap<u32, u32>>,
    /// Number of access epochs that origins have completed by messages and this process has not
    /// consumed.
    pub(crate) completions: AtomicU32,
    /// Number of lost processes whose locks have been freed.
    pub(crate) losses_seen: AtomicU32,
    /// The member that the next check of unknown targets begins with, modulo their number.
    pub(crate) next_checked: AtomicU32,
    /// Remote keys of members' memory.
    pub keys: Keys,
    /// The network's atomics, if they carry out all accumulates.
    pub(crate) atomics: OnceLock<Domain>,
    /// The state of passive-target operation, if the window has agreed on it.
    pub(crate) passive: OnceLock<Box<Passive>>,
    /// Spare memory for messages.
    spare: Mutex<Spare>,
}

// SAFETY: `memory` is the window's memory, valid until the program frees the window, and not bound
// to a thread.
unsafe impl Send for Service {}

// SAFETY: requests access `memory` under the lock of `state`, or by atomics.
unsafe impl Sync for Service {}

#[derive(Default)]
pub(crate) struct State {
    /// Requests by lane, in the order of their arrival.
    pub(crate) incoming: Vec<VecDeque<Incoming>>,
    /// Answers that have not left.
    pub(crate) answers: Vec<Sent>,
    pub(crate) lock: Queue,
    pub(crate) attached: Attached,
    /// Counters that notified accesses increment, if the window has some.
    pub(crate) counters: Option<OwnCounters>,
    /// Number of failed operations by origin, since its last flush.
    pub(crate) failed: HashMap<u32, u64>,
}

impl State {
    pub(crate) fn fail(&mut self, origin: u32) {
        *self.failed.entry(origin).or_default() += 1;
    }

    /// Increments the counter that a request of `origin` names: 1 plus its index, or 0 for none.
    pub(crate) fn notify(&mut self, origin: u32, word: u64) {
        let Some(index) = word.checked_sub(1) else {
            return;
        };
        let counters = self.counters;
        let is_done = counters.is_some_and(|counters| counters.increment(index as usize));
        if !is_done {
            self.fail(origin);
        }
    }
}

pub(crate) struct Incoming {
    pub(crate) from: u32,
    pub(crate) request: Loan<Vec<u8>>,
    /// Whether there was memory for the request. Otherwise it is received truncated.
    pub(crate) whole: bool,
}

impl Service {
    /// Makes the service of a window. `native`: the window may use the network's remote memory.
    pub fn new(
        comm: Arc<Comm>,
        memory: Option<(*mut u8, usize)>,
        unordered: bool,
        native: bool,
    ) -> Service {
        let lanes = Lanes::new(&comm, unordered);
        Service {
            comm,
            memory,
            state: Mutex::new(State {
                incoming: lanes.iter().map(|_| VecDeque::new()).collect(),
                ..State::default()
            }),
            lanes,
            posts: Mutex::default(),
            completions: AtomicU32::new(0),
            losses_seen: AtomicU32::new(0),
            next_checked: AtomicU32::new(0),
            keys: Keys::new(native),
            atomics: OnceLock::new(),
            passive: OnceLock::new(),
            spare: Mutex::default(),
        }
    }

    /// Returns an empty vector for a message of `len` bytes.
    pub(crate) fn memory_for(&self, len: usize) -> Vec<u8> {
        self.spare.lock().take(len)
    }

    /// Takes back the memory of a message.
    pub(crate) fn give_back(&self, bytes: Vec<u8>) {
        self.spare.lock().give(bytes);
    }

    /// Makes a message without data.
    pub(crate) fn message(
        &self,
        kind: Kind,
        tag: i32,
        words: [u64; 2],
        layout: Layout<'_>,
    ) -> Vec<u8> {
        let memory = self.memory_for(layout.message_len(0));
        message::encode(memory, kind, tag, words, layout, 0, |_| {})
    }

    /// Makes a message whose data is some words.
    pub(crate) fn message_with_words(
        &self,
        kind: Kind,
        tag: i32,
        words: [u64; 2],
        layout: Layout<'_>,
        data: &[u64],
    ) -> Vec<u8> {
        let len = 8 * data.len();
        let memory = self.memory_for(layout.message_len(len));
        message::encode(memory, kind, tag, words, layout, len, |out| {
            let (places, _) = out.as_chunks_mut::<8>();
            for (place, word) in places.iter_mut().zip(data) {
                *place = word.to_ne_bytes();
            }
        })
    }

    /// Makes an answer of one word.
    pub(crate) fn word(&self, word: u64) -> Vec<u8> {
        let mut bytes = self.memory_for(8);
        bytes.extend(word.to_ne_bytes());
        bytes
    }

    /// Attaches a region to a dynamic window.
    pub fn attach(&self, address: usize, len: usize) {
        // Overlaps were refused before.
        let _ = self.state.lock().attached.add(address, len);
    }

    /// Detaches the region at an address.
    pub fn detach(&self, address: usize) {
        self.state.lock().attached.remove(address);
    }

    /// Ends the exposures of memory.
    pub fn withdraw(&self) {
        self.keys.withdraw();
        if let Some(passive) = self.passive() {
            passive.withdraw();
        }
    }

    /// Returns address and length of the memory, unless the window is dynamic.
    pub fn memory(&self) -> Option<(*mut u8, usize)> {
        self.memory
    }

    /// Returns the two ends of the route to a member on a lane.
    pub fn address(&self, rank: u32, lane: usize) -> Ends {
        let vci = self.lanes.get(lane).vci;
        Ends {
            vci_here: vci,
            there: self.comm.rma_address(rank, vci),
        }
    }

    /// Whether this process has no pending operations, requests or answers.
    pub fn is_idle(&self, process: &Process) -> bool {
        let state = self.state.lock();
        let quiet = |lane: &Lane| {
            let origin = lane.origin.lock();
            origin.sends.is_empty() && origin.fetches.is_empty() && lane.flight.is_quiet()
        };
        state.incoming.iter().all(VecDeque::is_empty)
            && state.answers.is_empty()
            && self.lanes.iter().all(quiet)
            && self.keys.is_idle(process)
    }

    /// Consumes a post of `by`. Returns whether there was one.
    pub fn take_post(&self, by: u32) -> bool {
        let mut posts = self.posts.lock();
        let Some(count) = posts.get_mut(&by) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            posts.remove(&by);
        }
        true
    }

    /// Whether `origins` access epochs are complete. If so, consumes them.
    pub fn is_complete(&self, origins: u32) -> bool {
        let all = self.completions.load(Ordering::Acquire) >= origins;
        if all {
            self.completions.fetch_sub(origins, Ordering::Relaxed);
        }
        all
    }

    /// Sends a message on a lane. Returns it if it has not left yet.
    fn send(
        &self,
        process: &Process,
        (to, lane): (u32, usize),
        tag: i32,
        bytes: Vec<u8>,
    ) -> Result<Option<Sent>> {
        let vci = self.lanes.get(lane).vci;
        let start = |buffer| {
            mpi_core::comm::send_by(process, &self.comm, vci, Purpose::Rma, buffer, to, tag)
        };
        match Loan::send_or_return(bytes, start)? {
            Ok(loan) => Ok(Some(loan)),
            Err(bytes) => {
                self.give_back(bytes);
                Ok(None)
            }
        }
    }

    /// Sends a request to a target on a lane.
    pub fn ask(&self, process: &Process, to: (u32, usize), bytes: Vec<u8>) -> Result<()> {
        // Locked while sending, so that the messages of two threads keep their order.
        let lane = self.lanes.get(to.1);
        let mut origin = lane.origin.lock();
        let sent = self.send(process, to, REQUEST, bytes)?;
        if sent.is_some() {
            origin.sends.extend(sent);
            lane.active.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Posts the receive of an answer.
    pub fn expect(
        &self,
        process: &Process,
        (from, lane): (u32, usize),
        tag: i32,
        buffer: Buffer,
    ) -> Result<RequestId> {
        let vci = self.lanes.get(lane).vci;
        mpi_core::comm::receive_by(
            process,
            &self.comm,
            vci,
            Purpose::Rma,
            buffer,
            from as i32,
            tag,
        )
    }

    /// Registers a posted receive of an answer. Progress finishes it, and completes `outer` with it.
    pub fn fetch(&self, (target, number): (u32, usize), id: RequestId, outer: Option<RequestId>) {
        let lane = self.lanes.get(number);
        let mut origin = lane.origin.lock();
        let number = origin.begun;
        origin.begun += 1;
        origin.fetches.push(Fetch {
            number,
            target,
            id,
            outer,
        });
        lane.active.store(true, Ordering::Release);
    }

    /// Sends an answer. Ignores the loss of its origin, which does not concern the call that makes
    /// progress.
    pub(crate) fn answer(
        &self,
        process: &Process,
        state: &mut State,
        to: (u32, usize),
        tag: i32,
        bytes: Vec<u8>,
    ) -> Result<()> {
        self.try_answer(process, state, to, tag, bytes).map(drop)
    }

    /// Sends an answer. Returns false if its origin is lost.
    pub(crate) fn try_answer(
        &self,
        process: &Process,
        state: &mut State,
        to: (u32, usize),
        tag: i32,
        bytes: Vec<u8>,
    ) -> Result<bool> {
        match self.send(process, to, tag, bytes) {
            Ok(sent) => {
                state.answers.extend(sent);
                Ok(true)
            }
            Err(error) if error.class() == Class::ProcFailed => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a member is lost.
    pub(crate) fn is_lost(&self, process: &Process, rank: u32) -> bool {
        let lost = self.comm.local().peer(rank);
        process.loss_among(|peer| peer == lost).is_some()
    }

    /// Returns the error of a lost member: of `rank`, or of any member.
    pub(crate) fn loss(&self, process: &Process, rank: Option<u32>) -> Option<Error> {
        let members = self.comm.local();
        let member = rank.map(|rank| members.peer(rank));
        process.loss_among(|peer| match member {
            Some(member) => peer == member,
            None => members.rank_of(peer).is_some(),
        })
    }

    /// Waits until `done` returns a value. Fails if member `rank`, or any member, is lost meanwhile.
    pub(crate) fn wait_for<T>(
        &self,
        process: &Process,
        vci: VciId,
        rank: Option<u32>,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        process.wait_ignoring_loss(vci, || match done()? {
            Some(value) => Ok(Some(value)),
            None => self.loss(process, rank).map_or(Ok(None), Err),
        })
    }
}
