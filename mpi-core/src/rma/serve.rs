//! The target's side of windows whose members share no memory: whoever makes progress in this
//! process carries out what origins ask for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use netmod::SharedMemory;
use parking_lot::Mutex;

use super::apply::{self, Reduction};
use super::helper::Bed;
use super::mail::Mailbox;
use super::message::{Kind, Request};
use crate::ANY_SOURCE;
use crate::buffer::Buffer;
use crate::comm::{Comm, Purpose};
use crate::engine::MatchedMessage;
use crate::error::Result;
use crate::op::PredefinedOp;
use crate::process::{Mode, Process};
use crate::request::{RequestId, Status};
use crate::wire::Key;

/// The tag of requests; answers have others.
pub(super) const REQUEST: i32 = 0;

/// The windows of a process that are served by messages, and the memory that windows are made of.
#[derive(Default)]
pub(crate) struct Windows {
    /// Of these and of mailboxes.
    pub(super) count: AtomicUsize,
    pub(super) mailboxes: Mutex<Vec<Mailbox>>,
    pub(super) served: Mutex<Vec<Arc<Service>>>,
    /// Where the thread that serves them beside the program's own sleeps.
    pub(super) bed: Bed,
    pub(crate) memory: OnceLock<Arc<dyn SharedMemory>>,
}

/// A window as its own process serves it to others, and what this process has under way to them.
pub(super) struct Service {
    pub comm: Arc<Comm>,
    /// Its memory; none for a dynamic window, whose offsets are addresses.
    memory: Option<(*mut u8, usize)>,
    state: Mutex<State>,
    pub origin: Mutex<Origin>,
    /// Set by whoever puts something under way, after that.
    active: AtomicBool,
    /// Exposures that others have posted to this process.
    posts: Mutex<HashMap<u32, u32>>,
    completions: AtomicU32,
}

// SAFETY: the memory is the window's, which the program has lent until the window is freed.
unsafe impl Send for Service {}
// SAFETY: as above; it is reached under the lock of `state` only.
unsafe impl Sync for Service {}

#[derive(Default)]
struct State {
    /// Requests in the order of their arrival.
    incoming: VecDeque<Incoming>,
    /// Answers that have not left yet.
    answers: Vec<Sent>,
    lock: Lock,
    attached: Vec<(usize, usize)>,
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
    id: RequestId,
    bytes: Vec<u8>,
}

/// A message of ours and its data, kept until it has left.
struct Sent {
    id: RequestId,
    _bytes: Vec<u8>,
}

#[derive(Default)]
struct Lock {
    shared: u32,
    exclusive: bool,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    from: u32,
    tag: i32,
    exclusive: bool,
}

/// What this process has under way to targets.
#[derive(Default)]
pub(super) struct Origin {
    sends: Vec<Sent>,
    fetches: Vec<Fetch>,
}

/// An answer that is waited for, and the request that tells the program of it.
struct Fetch {
    target: u32,
    id: RequestId,
    outer: Option<RequestId>,
}

impl Origin {
    /// Whether answers of `target` (of any, if none is said) are missing.
    pub fn awaits(&self, target: Option<u32>) -> bool {
        let is = |fetch: &Fetch| target.is_none_or(|target| fetch.target == target);
        self.fetches.iter().any(is)
    }

    pub fn sends(&self) -> usize {
        self.sends.len()
    }
}

impl Process {
    /// Gives windows memory that processes of this node have in common.
    pub fn set_shared_memory(&self, memory: Arc<dyn SharedMemory>) {
        let _ = self.windows.memory.set(memory);
    }

    pub(super) fn serve(&self, service: Arc<Service>) {
        let mut served = self.windows.served.lock();
        served.push(service);
        self.windows.count.fetch_add(1, Ordering::Release);
        self.windows.bed.set(!served.is_empty());
    }

    pub(super) fn end_service(&self, service: &Arc<Service>) {
        let mut served = self.windows.served.lock();
        let before = served.len();
        served.retain(|other| !Arc::ptr_eq(other, service));
        let ended = before - served.len();
        self.windows.count.fetch_sub(ended, Ordering::Release);
        self.windows.bed.set(!served.is_empty());
    }

    /// Carries out what has arrived for windows. Returns whether anything happened.
    #[inline(always)]
    pub(crate) fn advance_windows(&self) -> Result<bool> {
        if self.windows.count.load(Ordering::Acquire) == 0 {
            return Ok(false);
        }
        self.advance_services()
    }

    #[inline(never)]
    fn advance_services(&self) -> Result<bool> {
        // Whoever holds the lock is at it.
        let mut any = self.serve_mailboxes();
        let Some(served) = self.windows.served.try_lock() else {
            return Ok(any);
        };
        // Most have nothing to do, and are to cost little however many they are.
        let mut looked_at = None;
        for service in served.iter() {
            let vci = service.comm.vci();
            let arrived = match looked_at {
                Some((looked, arrived)) if looked == vci => arrived,
                _ => self.lock_vci(vci)?.engine.unexpected.len() != 0,
            };
            looked_at = Some((vci, arrived));
            if arrived || service.active.load(Ordering::Acquire) {
                any |= service.advance(self, arrived)?;
            }
        }
        Ok(any)
    }
}

impl Service {
    pub fn new(comm: Arc<Comm>, memory: Option<(*mut u8, usize)>) -> Service {
        Service {
            comm,
            memory,
            state: Mutex::default(),
            origin: Mutex::default(),
            active: AtomicBool::new(false),
            posts: Mutex::default(),
            completions: AtomicU32::new(0),
        }
    }

    /// Adds a stretch of a dynamic window.
    pub fn attach(&self, address: usize, len: usize) {
        self.state.lock().attached.push((address, len));
    }

    /// Takes the stretch at an address away.
    pub fn detach(&self, address: usize) {
        let attached = &mut self.state.lock().attached;
        attached.retain(|stretch| stretch.0 != address);
    }

    /// Whether nothing is under way on this side.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        let origin = self.origin.lock();
        state.incoming.is_empty()
            && state.answers.is_empty()
            && origin.sends.is_empty()
            && origin.fetches.is_empty()
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

    /// Sends a message to `to` as soon as possible.
    fn send(&self, process: &Process, to: u32, tag: i32, bytes: Vec<u8>) -> Result<Option<Sent>> {
        // SAFETY: a send only reads, and the bytes are kept until it is complete.
        let buffer = unsafe { Buffer::bytes(bytes.as_ptr().cast_mut(), bytes.len()) };
        let sent = process.send_on(&self.comm, Purpose::Rma, buffer, to, tag, Mode::Standard)?;
        Ok(sent.map(|id| Sent { id, _bytes: bytes }))
    }

    /// Asks something of `target`.
    pub fn ask(&self, process: &Process, target: u32, bytes: Vec<u8>) -> Result<()> {
        // Kept meanwhile, so that two threads' messages leave in one order.
        let mut origin = self.origin.lock();
        let sent = self.send(process, target, REQUEST, bytes)?;
        if sent.is_some() {
            origin.sends.extend(sent);
            self.active.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Posts the receive of an answer from `target`.
    pub fn expect(
        &self,
        process: &Process,
        target: u32,
        tag: i32,
        buffer: Buffer,
    ) -> Result<RequestId> {
        process.receive_on(&self.comm, Purpose::Rma, buffer, target as i32, tag)
    }

    /// Has progress finish an answer's receive, and complete `outer` by it.
    pub fn fetch(&self, target: u32, id: RequestId, outer: Option<RequestId>) {
        let mut origin = self.origin.lock();
        origin.fetches.push(Fetch { target, id, outer });
        self.active.store(true, Ordering::Release);
    }

    fn answer(
        &self,
        process: &Process,
        state: &mut State,
        to: u32,
        tag: i32,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let sent = self.send(process, to, tag, bytes)?;
        state.answers.extend(sent);
        Ok(())
    }

    /// One round: requests (if some may have arrived), answers, and what is under way to others.
    fn advance(&self, process: &Process, arrived: bool) -> Result<bool> {
        // Taken back first: what is put under way later than it is looked for sets it again.
        self.active.store(false, Ordering::SeqCst);
        let mut rest = true;
        let result = self.advance_all(process, arrived, &mut rest);
        if rest {
            self.active.store(true, Ordering::Release);
        }
        result
    }

    /// `rest`: whether something is still under way, or may be.
    fn advance_all(&self, process: &Process, arrived: bool, rest: &mut bool) -> Result<bool> {
        let mut any = false;
        let mut quiet = false;
        if let Some(mut origin) = self.origin.try_lock() {
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
        while arrived && let Some(incoming) = self.accept(process)? {
            state.incoming.push_back(incoming);
            any = true;
        }
        // Invariant: the requests of an origin are carried out in order.
        while let Some(first) = state.incoming.front() {
            if !is_done(process, first.id) {
                break;
            }
            let Some(first) = state.incoming.pop_front() else {
                break;
            };
            if let Some(error) = process.finish(first.id)?.1 {
                return Err(error);
            }
            self.carry_out(process, &mut state, first.from, &first.bytes)?;
            any = true;
        }
        *rest = !(quiet && state.answers.is_empty() && state.incoming.is_empty());
        Ok(any)
    }

    /// Begins to receive the next request, if one has arrived.
    fn accept(&self, process: &Process) -> Result<Option<Incoming>> {
        let vci = self.comm.vci();
        let key = Key {
            context: self.comm.context().of(Purpose::Rma),
            source: ANY_SOURCE,
            tag: REQUEST,
        };
        let found = {
            let mut state = process.lock_vci(vci)?;
            match state.engine.unexpected.len() {
                0 => None,
                _ => state.engine.unexpected.take(&key),
            }
        };
        let Some((key, message)) = found else {
            return Ok(None);
        };
        let mut bytes = vec![0; message.len() as usize];
        // SAFETY: the bytes are kept, in their place, until the receive is complete.
        let buffer = unsafe { Buffer::bytes(bytes.as_mut_ptr(), bytes.len()) };
        let matched = MatchedMessage {
            key,
            vci,
            owner: self.comm.owner(),
            message,
        };
        let id = process.imrecv(matched, buffer)?;
        Ok(Some(Incoming {
            from: key.source as u32,
            id,
            bytes,
        }))
    }

    /// Where `len` bytes of the window at `at` are, if they belong to it.
    fn place(&self, state: &State, at: i64, len: usize) -> Option<*mut u8> {
        match self.memory {
            Some((base, size)) => {
                let at = usize::try_from(at).ok()?;
                (at.checked_add(len)? <= size).then(|| base.wrapping_add(at))
            }
            None => {
                let at = at as usize;
                let within = |&(start, size): &(usize, usize)| {
                    at >= start && at.checked_add(len).is_some_and(|end| end <= start + size)
                };
                let known = state.attached.iter().any(within);
                known.then(|| std::ptr::with_exposed_provenance_mut(at))
            }
        }
    }

    fn carry_out(
        &self,
        process: &Process,
        state: &mut State,
        from: u32,
        bytes: &[u8],
    ) -> Result<()> {
        let Some(request) = Request::parse(bytes) else {
            state.fail(from);
            return Ok(());
        };
        match request.kind {
            Kind::Put => {
                let mut data = request.data;
                for (at, len) in request.runs() {
                    let Some((now, rest)) = data.split_at_checked(len) else {
                        break;
                    };
                    data = rest;
                    match self.place(state, at, len) {
                        // SAFETY: within the window's memory; `bytes` are our own.
                        Some(place) => unsafe { netmod::copy(now.as_ptr(), place, len) },
                        None => state.fail(from),
                    }
                }
            }
            Kind::Get => {
                let total = request.runs().map(|run| run.1).sum();
                let mut out = Vec::with_capacity(total);
                for (at, len) in request.runs() {
                    match self.place(state, at, len) {
                        Some(place) => {
                            // SAFETY: within the window's memory.
                            let piece = unsafe { std::slice::from_raw_parts(place, len) };
                            out.extend_from_slice(piece);
                        }
                        None => {
                            state.fail(from);
                            out.resize(out.len() + len, 0);
                        }
                    }
                }
                self.answer(process, state, from, request.tag, out)?;
            }
            Kind::Accumulate => self.accumulate(process, state, from, &request)?,
            Kind::CompareAndSwap => {
                let mut found = [0; 8];
                let mut size = 0;
                if let Some((at, len)) = request.runs().next() {
                    size = len.min(8);
                    match self.place(state, at, size) {
                        // SAFETY: within the window's memory, which others change under this
                        // lock only.
                        Some(place) => unsafe {
                            let old =
                                apply::compare_and_swap(place, request.a, request.b, size, false);
                            found = old.to_le_bytes();
                        },
                        None => state.fail(from),
                    }
                }
                self.answer(process, state, from, request.tag, found[..size].to_vec())?;
            }
            Kind::Flush => self.report(process, state, from, request.tag)?,
            Kind::Lock => {
                state.lock.waiting.push_back(Waiter {
                    from,
                    tag: request.tag,
                    exclusive: request.a != 0,
                });
                self.grant(process, state)?;
            }
            Kind::Unlock => {
                match request.a {
                    0 => state.lock.shared = state.lock.shared.saturating_sub(1),
                    _ => state.lock.exclusive = false,
                }
                self.report(process, state, from, request.tag)?;
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
    fn report(&self, process: &Process, state: &mut State, to: u32, tag: i32) -> Result<()> {
        let failed = state.failed.remove(&to).unwrap_or(0);
        self.answer(process, state, to, tag, failed.to_ne_bytes().to_vec())
    }

    /// Grants the lock to those whose turn it is.
    fn grant(&self, process: &Process, state: &mut State) -> Result<()> {
        while let Some(first) = state.lock.waiting.front() {
            let free = match first.exclusive {
                true => state.lock.shared == 0 && !state.lock.exclusive,
                false => !state.lock.exclusive,
            };
            if !free {
                return Ok(());
            }
            let Some(first) = state.lock.waiting.pop_front() else {
                return Ok(());
            };
            match first.exclusive {
                true => state.lock.exclusive = true,
                false => state.lock.shared += 1,
            }
            self.answer(process, state, first.from, first.tag, vec![0; 8])?;
        }
        Ok(())
    }

    /// Invariant (accumulate atomicity): the accumulates of all origins come here one after another.
    fn accumulate(
        &self,
        process: &Process,
        state: &mut State,
        from: u32,
        request: &Request<'_>,
    ) -> Result<()> {
        let Some(reduction) = Reduction::from_numbers(request.a, request.b) else {
            state.fail(from);
            return Ok(());
        };
        let fetching = request.tag != REQUEST;
        let total: usize = request.runs().map(|run| run.1 * reduction.packed()).sum();
        let has_input = reduction.op != PredefinedOp::NoOp;
        if has_input && request.data.len() < total {
            state.fail(from);
            return Ok(());
        }
        let mut found = vec![0; if fetching { total } else { 0 }];
        let mut done = 0;
        for (at, count) in request.runs() {
            match self.place(state, at, count * reduction.extent()) {
                Some(place) => {
                    let result = match fetching {
                        true => found[done..].as_mut_ptr(),
                        false => std::ptr::null_mut(),
                    };
                    let input = match has_input {
                        true => request.data[done..].as_ptr(),
                        false => std::ptr::null(),
                    };
                    // SAFETY: within the window's memory, which others change under this lock
                    // only; input and result hold all elements.
                    unsafe { reduction.plainly(place, count, input, result) };
                }
                None => state.fail(from),
            }
            done += count * reduction.packed();
        }
        if fetching {
            self.answer(process, state, from, request.tag, found)?;
        }
        Ok(())
    }
}

fn is_done(process: &Process, id: RequestId) -> bool {
    process.request(id).is_none_or(|request| request.is_done())
}

/// Lets go of messages that have left. Returns whether there were any.
fn settle(process: &Process, sent: &mut Vec<Sent>) -> Result<bool> {
    let before = sent.len();
    let mut result = Ok(());
    sent.retain(|sent| {
        if !is_done(process, sent.id) {
            return true;
        }
        match process.finish(sent.id) {
            Ok((_, Some(error))) | Err(error) => result = Err(error),
            Ok((_, None)) => {}
        }
        false
    });
    result.map(|()| sent.len() != before)
}
