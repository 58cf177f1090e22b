//! A window as its own process serves it to others, and how it asks others.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod::VciId;
use parking_lot::Mutex;

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

/// The tag of requests; answers have others.
pub(crate) const REQUEST: i32 = 0;

/// A window as its own process serves it to others, and what this process has under way to them.
pub(crate) struct Service {
    pub comm: Arc<Comm>,
    /// Its memory; none for a dynamic window, whose offsets are addresses.
    pub(crate) memory: Option<(*mut u8, usize)>,
    pub(crate) state: Mutex<State>,
    /// The VCIs that it uses, and what is under way there.
    pub lanes: Lanes,
    /// Exposures that others have posted to this process.
    pub(crate) posts: Mutex<HashMap<u32, u32>>,
    pub(crate) completions: AtomicU32,
    /// Of so many lost processes it has been seen to whether they had the lock.
    pub(crate) losses_seen: AtomicU32,
    /// How the network reaches members' memory.
    pub keys: Keys,
    /// The network's atomics, if all accumulates go by them.
    pub(crate) atomics: OnceLock<Domain>,
    /// The network alone, if targets' processors are not needed.
    pub(crate) passive: OnceLock<Box<Passive>>,
    /// Memory for messages.
    spare: Mutex<Spare>,
}

// SAFETY: the memory is the window's, which the program has lent until the window is freed.
unsafe impl Send for Service {}

// SAFETY: as above; it is reached under the lock of `state` only.
unsafe impl Sync for Service {}

#[derive(Default)]
pub(crate) struct State {
    /// Requests by lane, in the order of their arrival.
    pub(crate) incoming: Vec<VecDeque<Incoming>>,
    /// Answers that have not left yet.
    pub(crate) answers: Vec<Sent>,
    pub(crate) lock: Queue,
    pub(crate) attached: Attached,
    /// Operations that failed, by origin.
    pub(crate) failed: HashMap<u32, u64>,
}

impl State {
    pub(crate) fn fail(&mut self, origin: u32) {
        *self.failed.entry(origin).or_default() += 1;
    }
}

pub(crate) struct Incoming {
    pub(crate) from: u32,
    pub(crate) request: Loan<Vec<u8>>,
    /// Otherwise there was no memory for it.
    pub(crate) whole: bool,
}

impl Service {
    /// `native`: whether the network's remote memory is to be used, where there is some.
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
            keys: Keys::new(native),
            atomics: OnceLock::new(),
            passive: OnceLock::new(),
            spare: Mutex::default(),
        }
    }

    /// Empty memory for a message of `len` bytes.
    pub(crate) fn memory_for(&self, len: usize) -> Vec<u8> {
        self.spare.lock().take(len)
    }

    /// Takes back the memory of a message.
    pub(crate) fn give_back(&self, bytes: Vec<u8>) {
        self.spare.lock().give(bytes);
    }

    /// A message without data.
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

    /// As [`Service::message`], with some words as its data.
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

    /// An answer of a word.
    pub(crate) fn word(&self, word: u64) -> Vec<u8> {
        let mut bytes = self.memory_for(8);
        bytes.extend(word.to_ne_bytes());
        bytes
    }

    /// Adds a stretch of a dynamic window.
    pub fn attach(&self, address: usize, len: usize) {
        // Overlaps were refused before.
        let _ = self.state.lock().attached.add(address, len);
    }

    /// Takes the stretch at an address away.
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

    /// Its memory, if it is not a dynamic window's.
    pub fn memory(&self) -> Option<(*mut u8, usize)> {
        self.memory
    }

    /// Where a member is, from one of the lanes.
    pub fn address(&self, rank: u32, lane: usize) -> Ends {
        let vci = self.lanes.get(lane).vci;
        Ends {
            vci_here: vci,
            there: self.comm.rma_address(rank, vci),
        }
    }

    /// Whether nothing is under way on this side.
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

    /// Takes note of a post of `by`, if there is one.
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

    /// Whether `origins` accesses are complete; if so, takes note of that.
    pub fn is_complete(&self, origins: u32) -> bool {
        let all = self.completions.load(Ordering::Acquire) >= origins;
        if all {
            self.completions.fetch_sub(origins, Ordering::Relaxed);
        }
        all
    }

    /// Sends a message to `to`, by one of the lanes, as soon as possible.
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

    /// Asks something of a target by a lane.
    pub fn ask(&self, process: &Process, to: (u32, usize), bytes: Vec<u8>) -> Result<()> {
        // Kept meanwhile, so that two threads' messages leave in one order.
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

    /// Has progress finish an answer's receive, and complete `outer` by it.
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

    /// Sends an answer. The loss of its origin is no error of the call that makes progress.
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

    /// Whether a member is known to be lost.
    pub(crate) fn is_lost(&self, process: &Process, rank: u32) -> bool {
        let lost = self.comm.local().peer(rank);
        process.loss_among(|peer| peer == lost).is_some()
    }

    /// The loss of a member, or of any.
    pub(crate) fn loss(&self, process: &Process, rank: Option<u32>) -> Option<Error> {
        let members = self.comm.local();
        let member = rank.map(|rank| members.peer(rank));
        process.loss_among(|peer| match member {
            Some(member) => peer == member,
            None => members.rank_of(peer).is_some(),
        })
    }

    /// Waits until `done` says so, for what a member takes part in, or any.
    ///
    /// # Errors
    /// It is lost. What goes on between others is no matter.
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
