//! The target's side of windows whose members share no memory: whoever makes progress in this
//! process carries out what origins ask for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use netmod::{Peer, VciId};
use parking_lot::Mutex;

use super::atomics::{Domain, NetworkAtomics};
use super::attached::Attached;
use super::helper::Bed;
use super::keys::{self, Ends, Keys};
use super::lanes::{Lane, Lanes};
use super::lent::Lent;
use super::mail::{self, Mailbox};
use super::message::{Kind, Request, zeroed};
use super::queue::{Queue, Waiter};
use mpi_core::ANY_SOURCE;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::process::source::{ProgressSource, Source, WINDOWS, Work};
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::pt2pt::request::{RequestId, Status};
use mpi_types::error::{Class, Result};

mod data;

/// The tag of requests; answers have others.
pub(super) const REQUEST: i32 = 0;

/// The windows of a process that are served by messages, and the memory that windows are made of.
pub struct Windows {
    /// By VCI: who polls one serves what may have arrived there. Made with the first such window.
    served: OnceLock<Box<[CachePadded<Served>]>>,
    pub(super) mailboxes: Mutex<Vec<Mailbox>>,
    /// How many there are of all these.
    count: Mutex<usize>,
    /// Where the thread that serves windows beside the program's own sleeps.
    pub(super) bed: Bed,
    /// Remote memory is not to be used: windows go by messages whatever the network can do.
    only_messages: bool,
    /// When the network's atomics are to be used for accumulates.
    atomics: NetworkAtomics,
    /// Such memory that the program has.
    pub(super) lent: Lent,
}

/// Windows that have a lane on a VCI, and which of theirs it is.
#[derive(Default)]
struct Served {
    count: AtomicUsize,
    list: Mutex<Vec<(Arc<Service>, usize)>>,
}

impl Served {
    fn change(&self, change: impl FnOnce(&mut Vec<(Arc<Service>, usize)>)) {
        let mut list = self.list.lock();
        change(&mut list);
        self.count.store(list.len(), Ordering::Release);
    }
}

impl Windows {
    /// `only_messages`: remote memory is not to be used, whatever the network can do; `atomics`: when
    /// its atomics are to be used for accumulates.
    pub fn new(only_messages: bool, atomics: NetworkAtomics) -> Windows {
        Windows {
            served: OnceLock::new(),
            mailboxes: Mutex::default(),
            count: Mutex::default(),
            bed: Bed::default(),
            only_messages,
            atomics,
            lent: Lent::default(),
        }
    }

    /// When the network's atomics are to be used.
    pub(super) fn atomics(&self) -> NetworkAtomics {
        self.atomics
    }

    /// There are so many more, or fewer, things to serve.
    pub(super) fn count(&self, process: &Process, more: isize) {
        let mut count = self.count.lock();
        *count = count.saturating_add_signed(more);
        process.set_work::<Windows>(Work {
            any: *count > 0,
            stores: false,
        });
    }

    /// The processes that others wait for here.
    #[cold]
    fn holders_on(&self, vci: VciId) -> Vec<Peer> {
        let Some(list) = self
            .served_on(vci)
            .and_then(|served| served.list.try_lock())
        else {
            return Vec::new();
        };
        list.iter()
            .flat_map(|(service, _)| service.holders_awaited())
            .collect()
    }

    /// The windows that have a lane on a VCI, if there are some.
    #[inline]
    fn served_on(&self, vci: VciId) -> Option<&Served> {
        let served = &self.served.get()?[usize::from(vci)];
        (served.count.load(Ordering::Acquire) != 0).then_some(served)
    }

    /// The VCIs that windows have lanes on.
    pub(super) fn vcis(&self) -> impl Iterator<Item = VciId> {
        let pool = self.served.get().map_or(0, |served| served.len());
        (0..pool as VciId).filter(|vci| self.served_on(*vci).is_some())
    }

    fn of_vci(&self, process: &Process, vci: VciId) -> &Served {
        let make = || {
            (0..process.pool())
                .map(|_| CachePadded::default())
                .collect()
        };
        &self.served.get_or_init(make)[usize::from(vci)]
    }
}

/// A window as its own process serves it to others, and what this process has under way to them.
pub(super) struct Service {
    pub comm: Arc<Comm>,
    /// Its memory; none for a dynamic window, whose offsets are addresses.
    memory: Option<(*mut u8, usize)>,
    pub(super) state: Mutex<State>,
    /// The VCIs that it uses, and what is under way there.
    pub lanes: Lanes,
    /// Exposures that others have posted to this process.
    posts: Mutex<HashMap<u32, u32>>,
    completions: AtomicU32,
    /// Of so many lost processes it has been seen to whether they had the lock.
    pub(super) buried: AtomicU32,
    /// How the network reaches members' memory.
    pub keys: Keys,
    /// The network's atomics, if all accumulates go by them.
    pub(super) atomics: OnceLock<Domain>,
}

// SAFETY: the memory is the window's, which the program has lent until the window is freed.
unsafe impl Send for Service {}
// SAFETY: as above; it is reached under the lock of `state` only.
unsafe impl Sync for Service {}

#[derive(Default)]
pub(super) struct State {
    /// Requests by lane, in the order of their arrival.
    incoming: Vec<VecDeque<Incoming>>,
    /// Answers that have not left yet.
    answers: Vec<Sent>,
    pub(super) lock: Queue,
    attached: Attached,
    /// Operations that failed, by origin.
    failed: HashMap<u32, u64>,
}

impl State {
    fn fail(&mut self, origin: u32) {
        *self.failed.entry(origin).or_default() += 1;
    }
}

struct Incoming {
    from: u32,
    request: Loan<Vec<u8>>,
    /// Otherwise there was no memory for it.
    whole: bool,
}

/// The data of a message of ours, until it has left.
type Sent = Loan<Vec<u8>>;

/// What this process has under way to targets.
#[derive(Default)]
pub(super) struct Origin {
    sends: Vec<Sent>,
    /// In the order in which they were begun.
    fetches: Vec<Fetch>,
    begun: u64,
}

/// An answer that is waited for, and the request that tells the program of it.
struct Fetch {
    number: u64,
    target: u32,
    id: RequestId,
    outer: Option<RequestId>,
}

impl Origin {
    /// For [`Origin::awaits`]: now.
    pub fn mark(&self) -> u64 {
        self.begun
    }

    /// Whether answers of `target` (of any, if none is said) are missing that were asked for before
    /// `until`.
    pub fn awaits(&self, target: Option<u32>, until: u64) -> bool {
        let is = |fetch: &Fetch| target.is_none_or(|target| fetch.target == target);
        let mut early = self.fetches.iter().take_while(|it| it.number < until);
        early.any(is)
    }

    pub fn sends(&self) -> usize {
        self.sends.len()
    }
}

impl Source for Windows {
    const PLACE: usize = WINDOWS;

    fn new(_process: &Process) -> Self {
        Windows::new(false, NetworkAtomics::default())
    }
}

impl ProgressSource for Windows {
    fn advance_on(&self, process: &Process, vci: VciId) -> Result<bool> {
        advance_services(process, vci)
    }

    fn awaited_on(&self, vci: VciId) -> Vec<Peer> {
        self.holders_on(vci)
    }
}

/// Whether new windows are to use the network's remote memory, if there is some.
pub(super) fn uses_remote_memory(process: &Process) -> bool {
    !process.source::<Windows>().only_messages && keys::transports(process).next().is_some()
}

pub(super) fn serve(process: &Process, service: &Arc<Service>) {
    for (lane, Lane { vci, .. }) in service.lanes.iter().enumerate() {
        let served = process.source::<Windows>().of_vci(process, *vci);
        served.change(|list| list.push((service.clone(), lane)));
    }
    process.source::<Windows>().count(process, 1);
    process.source::<Windows>().bed.call();
}

pub(super) fn end_service(process: &Process, service: &Arc<Service>) {
    for Lane { vci, .. } in service.lanes.iter() {
        let served = process.source::<Windows>().of_vci(process, *vci);
        served.change(|list| list.retain(|(other, _)| !Arc::ptr_eq(other, service)));
    }
    process.source::<Windows>().count(process, -1);
    process.source::<Windows>().bed.excuse();
}

/// Carries out what has arrived for windows on a VCI. Returns whether anything happened.
pub(super) fn advance_services(process: &Process, vci: VciId) -> Result<bool> {
    // Whoever holds the lock is at it.
    let any = mail::serve_mailboxes(process);
    let Some(served) = process.source::<Windows>().served_on(vci) else {
        return Ok(any);
    };
    let Some(list) = served.list.try_lock() else {
        return Ok(any);
    };
    // Most have nothing to do, and are to cost little however many they are. Whoever has the
    // VCI's lock is about to look himself.
    let arrived = process.has_unexpected(vci)?;
    let mut any = any;
    let losses = process.losses();
    for (service, lane) in list.iter() {
        if service.buried.load(Ordering::Relaxed) != losses {
            service.bury(process, losses)?;
        }
        if service.lanes.get(*lane).flight.has_back() {
            any |= service.do_by_messages(process, *lane)?;
        }
        if arrived || service.lanes.get(*lane).active.load(Ordering::Acquire) {
            any |= service.advance(process, *lane, arrived)?;
        }
    }
    Ok(any)
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
            buried: AtomicU32::new(0),
            keys: Keys::new(native && memory.is_some()),
            atomics: OnceLock::new(),
        }
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
        Loan::send(bytes, start)
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

    pub(super) fn answer(
        &self,
        process: &Process,
        state: &mut State,
        to: (u32, usize),
        tag: i32,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let sent = self.send(process, to, tag, bytes)?;
        state.answers.extend(sent);
        Ok(())
    }

    /// One round on a lane: requests (if some may have arrived), answers, and what is under way to
    /// others.
    fn advance(&self, process: &Process, lane: usize, arrived: bool) -> Result<bool> {
        let active = &self.lanes.get(lane).active;
        // Taken back first: what is put under way later than it is looked for sets it again.
        active.store(false, Ordering::SeqCst);
        let mut rest = true;
        let result = self.advance_all(process, lane, arrived, &mut rest);
        if rest {
            active.store(true, Ordering::Release);
        }
        result
    }

    /// `rest`: whether something is still under way, or may be.
    fn advance_all(
        &self,
        process: &Process,
        lane: usize,
        arrived: bool,
        rest: &mut bool,
    ) -> Result<bool> {
        let mut any = false;
        let mut quiet = false;
        if let Some(mut origin) = self.lanes.get(lane).origin.try_lock() {
            any |= settle(process, &mut origin.sends)?;
            let before = origin.fetches.len();
            let mut result = Ok(());
            origin.fetches.retain(|fetch| {
                if !is_done(process, fetch.id) {
                    return true;
                }
                let ended = process
                    .finish(fetch.id)
                    .and_then(|(_, error)| match fetch.outer {
                        Some(outer) => process.complete(outer, Status::EMPTY, error),
                        None => error.map_or(Ok(()), Err),
                    });
                if let Err(error) = ended {
                    result = Err(error);
                }
                false
            });
            result?;
            any |= origin.fetches.len() != before;
            quiet = origin.fetches.is_empty() && origin.sends.is_empty();
        }
        let Some(mut state) = self.state.try_lock() else {
            return Ok(any);
        };
        any |= settle(process, &mut state.answers)?;
        while arrived && let Some(incoming) = self.accept(process, lane)? {
            state.incoming[lane].push_back(incoming);
            any = true;
        }
        // Invariant: the requests of an origin that came by one lane are carried out in order.
        while let Some(first) = state.incoming[lane].front() {
            if !first.request.is_done(process) {
                break;
            }
            let Some(Incoming {
                from,
                request,
                whole,
            }) = state.incoming[lane].pop_front()
            else {
                break;
            };
            let (bytes, error) = request.take(process)?;
            match error {
                Some(error) if error.class() == Class::ProcFailed => continue,
                Some(error) if whole => return Err(error),
                _ => {}
            }
            self.carry_out(process, &mut state, (from, lane), &bytes)?;
            any = true;
        }
        *rest = !(quiet && state.answers.is_empty() && state.incoming[lane].is_empty());
        Ok(any)
    }

    /// Begins to receive the next request, if one has arrived.
    fn accept(&self, process: &Process, lane: usize) -> Result<Option<Incoming>> {
        let vci = self.lanes.get(lane).vci;
        let found = mpi_core::comm::try_matched_probe_by(
            process,
            &self.comm,
            vci,
            Purpose::Rma,
            ANY_SOURCE,
            REQUEST,
        )?;
        let Some(matched) = found else {
            return Ok(None);
        };
        // The length is what the sender says. Memory that is not to be had ends its message, not us.
        let is_member = self.is_member(matched.source(), matched.sender());
        let room = is_member.then(|| zeroed(matched.bytes())).flatten();
        let whole = room.is_some();
        let from = matched.source();
        if !is_member {
            let id = process.imrecv(matched, Buffer::EMPTY)?;
            process.detach(id)?;
            return Ok(None);
        }
        let bytes = room.unwrap_or_default();
        Ok(Some(Incoming {
            from: from as u32,
            request: Loan::new(bytes, |buffer| process.imrecv(matched, buffer))?,
            whole,
        }))
    }

    fn carry_out(
        &self,
        process: &Process,
        state: &mut State,
        (from, lane): (u32, usize),
        bytes: &[u8],
    ) -> Result<()> {
        let by = (from, lane);
        let Some(request) = Request::parse(bytes).filter(Request::can_be_answered) else {
            state.fail(from);
            return Ok(());
        };
        match request.kind {
            Kind::Put => self.write(state, from, &request),
            Kind::Get => self.read(process, state, by, &request)?,
            Kind::Accumulate => self.accumulate(process, state, by, &request)?,
            Kind::CompareAndSwap => self.compare_and_swap(process, state, by, &request)?,
            Kind::Flush => self.report(process, state, by, request.tag)?,
            Kind::Key => {
                let told = self.expose(process, request.a);
                let bytes = told.iter().flat_map(|word| word.to_ne_bytes()).collect();
                self.answer(process, state, by, request.tag, bytes)?;
            }
            Kind::Lock => {
                let waiter = Waiter {
                    from: by,
                    tag: request.tag,
                    exclusive: request.a & 1 != 0,
                };
                if !self.is_lost(process, from) {
                    state.lock.join(waiter, request.a & 2 != 0);
                    self.grant(process, state)?;
                }
            }
            Kind::Unlock => {
                state.lock.leave(from);
                self.report(process, state, by, request.tag)?;
                self.grant(process, state)?;
            }
            Kind::Post => {
                *self.posts.lock().entry(from).or_default() += 1;
            }
            Kind::Complete => {
                self.completions.fetch_add(1, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Answers that everything before is done.
    fn report(
        &self,
        process: &Process,
        state: &mut State,
        to: (u32, usize),
        tag: i32,
    ) -> Result<()> {
        let failed = state.failed.remove(&to.0).unwrap_or(0);
        self.answer(process, state, to, tag, failed.to_ne_bytes().to_vec())
    }
}

pub(super) fn is_done(process: &Process, id: RequestId) -> bool {
    process.request(id).is_none_or(|request| request.is_done())
}

/// Lets go of messages that have left. Returns whether there were any. (Of those to lost processes whoever
/// waits for their answers is told.)
fn settle(process: &Process, sent: &mut Vec<Sent>) -> Result<bool> {
    let before = sent.len();
    let mut result = Ok(());
    let mut next = 0;
    while let Some(one) = sent.get(next) {
        if !one.is_done(process) {
            next += 1;
            continue;
        }
        match sent.swap_remove(next).take(process) {
            Ok((_, Some(error))) if error.class() == Class::ProcFailed => {}
            Ok((_, Some(error))) | Err(error) => result = Err(error),
            Ok((_, None)) => {}
        }
    }
    result.map(|()| sent.len() != before)
}

#[cfg(test)]
mod tests;
