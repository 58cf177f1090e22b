//! Remote operations: gets, puts and atomics in parts, flushes, and the operations of lost peers.
//!
//! An operation begins with [`access`], which issues as many parts as the network has space for;
//! [`retry`] issues the others. Each part ends with [`part_done`], the
//! operation with its last part. Parts go to the network natively ([`RemoteLane::issue_part`]), or
//! as requests that the target's process answers ([`emulation`](crate::emulation)). A [`flush`]
//! waits for all earlier puts and atomics to its process.
//!
//! An error of a part is its operation's. A put that was reported as complete when it was issued
//! leaves its error to the next flush. A loss ends the process's operations with its reason: the
//! lane records it in [`Process::lost`](crate::Process) and calls [`end_process`]. Native parts end
//! with the network's own reports, since it may use their memory until then.

use std::collections::VecDeque;

use netmod::{Action, Issued, LaneError, Peer, RemoteAccess, RemoteAddr, Token, VciId};

use crate::emulation::{Answer, Ask, MOST_REQUESTS, Request, take_answer};
use crate::fences::Fences;
use crate::notice::Notice;
use crate::operations::Operations;
use crate::peers::{Endpoint, Peers};

/// Pending puts and atomics to a process.
#[derive(Default)]
pub struct Writes {
    fences: Fences<(VciId, Token)>,
    /// Why a put that was reported as complete did not arrive; reported by the next flush.
    error: Option<String>,
}

impl Writes {
    /// Counts a put that is complete when issued. Returns its epoch for [`end_write`].
    #[inline]
    pub fn begin(&mut self) -> u32 {
        self.fences.begin()
    }

    /// Records why such a put did not arrive, for the next flush. The first reason stays.
    pub fn fail(&mut self, why: String) {
        self.error.get_or_insert(why);
    }
}

impl AsMut<Writes> for Writes {
    fn as_mut(&mut self) -> &mut Writes {
        self
    }
}

/// A pending operation, possibly in several parts. `T` is the transport's own data.
pub struct Op<T> {
    /// The kind.
    pub action: Action,
    /// Whether it is carried out by requests to the target's process.
    pub is_emulated: bool,
    /// The VCI that gets the completion.
    pub vci: VciId,
    /// Reported on completion; `None` if it was reported as complete when issued.
    pub token: Option<Token>,
    /// Index of the endpoint.
    pub endpoint: u32,
    /// Source or destination of the data; for atomics, of the result.
    pub local: *mut u8,
    /// Bytes.
    pub len: usize,
    /// The peer's memory.
    pub remote: RemoteAddr,
    /// The transport's own data, such as the registration of `local`, kept until completion.
    pub own: T,
    /// Bytes issued so far.
    issued: usize,
    /// Pending parts.
    parts: u32,
    /// Epoch of a put or an atomic.
    epoch: u32,
    error: Option<LaneError>,
}

impl<T: Default> Op<T> {
    fn new(access: RemoteAccess, endpoint: u32, (vci, token): (VciId, Token)) -> Self {
        let RemoteAccess {
            action,
            local,
            len,
            remote,
        } = access;
        Op {
            action,
            is_emulated: false,
            vci,
            token: Some(token),
            endpoint,
            local,
            len,
            remote,
            own: T::default(),
            issued: 0,
            parts: 0,
            epoch: 0,
            error: None,
        }
    }
}

impl<T> Op<T> {
    /// Returns how many bytes have been issued; the next part begins there.
    pub fn issued(&self) -> usize {
        self.issued
    }

    /// Returns whether a part has failed.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    fn is_write(&self) -> bool {
        self.action != Action::Get
    }

    /// Returns whether it has no pending and no unissued parts.
    fn is_over(&self) -> bool {
        self.parts == 0 && (self.issued == self.len || self.error.is_some())
    }
}

/// An answer owed to a request of the emulation.
struct Reply {
    endpoint: u32,
    answer: Answer,
}

/// The remote operations of a lane.
pub struct RemoteOps<T> {
    ops: Operations<Op<T>>,
    /// Operations with unissued parts.
    unissued: VecDeque<u32>,
    replies: VecDeque<Reply>,
    /// Unanswered requests of the emulation.
    requests: usize,
    /// Events for the next poll, with the VCI that they are for.
    pub notices: VecDeque<(VciId, Notice)>,
}

impl<T> RemoteOps<T> {
    /// Makes the table for `most` pending operations.
    pub fn new(most: usize) -> Self {
        RemoteOps {
            ops: Operations::new(most),
            unissued: VecDeque::with_capacity(most),
            replies: VecDeque::new(),
            requests: 0,
            notices: VecDeque::with_capacity(most),
        }
    }

    /// Returns a pending operation.
    pub fn get(&mut self, index: u32) -> Option<&mut Op<T>> {
        self.ops.get(index)
    }

    /// Returns whether parts or answers wait for space.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        !(self.unissued.is_empty() && self.replies.is_empty())
    }

    /// Returns whether answers to peers wait for space.
    pub fn owes_answers(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Returns whether a peer owes an answer.
    pub fn awaits_answers(&self) -> bool {
        self.requests > 0
    }

    /// Lists the endpoints of operations for which a peer owes an answer.
    pub fn debtors(&self) -> Vec<u32> {
        let owed = self.ops.iter().filter(|op| op.is_emulated && op.parts > 0);
        owed.map(|op| op.endpoint).collect()
    }
}

/// A lane whose remote operations are kept here.
///
/// Fails with [`LaneError::PeerLost`] only after the loss has been recorded and [`end_process`] has
/// been called, and with [`LaneError::Again`], without any effect, if there is no space.
pub trait RemoteLane {
    /// The lane's endpoints.
    type Endpoint: Endpoint;
    /// The lane's state of a process.
    type Process: Default + AsMut<Writes>;
    /// The lane's data of an operation.
    type Own: Default;

    /// Returns the operations and the peers.
    #[expect(clippy::type_complexity, reason = "the two are borrowed together")]
    fn remote(
        &mut self,
    ) -> (
        &mut RemoteOps<Self::Own>,
        &mut Peers<Self::Endpoint, Self::Process>,
    );

    /// Returns the endpoint for access to a peer's memory.
    ///
    /// # Errors
    /// As those of the trait.
    fn memory_endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError>;

    /// Issues a put natively from a copy of its data. Returns `false` if the put is too long or is
    /// emulated.
    ///
    /// # Errors
    /// As those of the trait.
    ///
    /// # Safety
    /// `local` is valid for reads of `len` bytes.
    unsafe fn put_copy(
        &mut self,
        endpoint: u32,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
    ) -> Result<bool, LaneError>;

    /// Decides whether an operation is emulated, and makes the lane's data. The issuer keeps the
    /// operation's memory valid until completion, with which it drops the data.
    ///
    /// # Errors
    /// As those of the trait.
    fn prepare(&mut self, op: &mut Op<Self::Own>) -> Result<(), LaneError>;

    /// Issues the next part of an operation, which begins at [`Op::issued`], to the network. Returns
    /// its length.
    ///
    /// # Errors
    /// As those of the trait.
    fn issue_part(&mut self, index: u32) -> Result<usize, LaneError>;

    /// Most bytes of data in a request or an answer.
    fn request_data_max(&self) -> usize;

    /// Sends a request of the emulation.
    ///
    /// # Errors
    /// As those of the trait.
    fn send_request(
        &mut self,
        endpoint: u32,
        ask: Ask,
        request: &Request,
        data: &[u8],
    ) -> Result<(), LaneError>;

    /// Sends an answer of the emulation.
    ///
    /// # Errors
    /// As those of the trait.
    fn send_answer(&mut self, endpoint: u32, answer: &Answer) -> Result<(), LaneError>;

    /// Called when an endpoint had no space for a part. A lane whose network does not report losses
    /// finds out here whether the peer lives; it returns `true` after recording a loss.
    fn has_lost_blocked(&mut self, _endpoint: u32) -> bool {
        false
    }
}

/// Begins an operation, which completes with `to`, a token at a VCI. Implements
/// [`Lane::access`](netmod::Lane::access). A put that is copied is complete when issued.
///
/// # Errors
/// `Again`, without any effect: there is no space. `PeerLost`: the peer is lost.
///
/// # Safety
/// That of [`Lane::access`](netmod::Lane::access).
pub unsafe fn access<L: RemoteLane>(
    lane: &mut L,
    peer: Peer,
    vci: VciId,
    access: RemoteAccess,
    to: (VciId, Token),
) -> Result<Issued, LaneError> {
    let endpoint = lane.memory_endpoint(peer, vci)?;
    let RemoteAccess {
        local, len, remote, ..
    } = access;
    let is_copied = len == 0
        // SAFETY: the data of a put is valid for reads of `len` bytes (# Safety).
        || access.action == Action::Put && unsafe { lane.put_copy(endpoint, local, len, remote) }?;
    match is_copied {
        true => Ok(Issued::Complete),
        false => start(lane, Op::new(access, endpoint, to)),
    }
}

/// Begins an operation: issues as many parts as there is space for.
fn start<L: RemoteLane>(lane: &mut L, mut op: Op<L::Own>) -> Result<Issued, LaneError> {
    if !lane.remote().0.ops.has_room() {
        return Err(LaneError::Again);
    }
    lane.prepare(&mut op)?;
    let mut issued = Issued::Pending;
    if op.is_emulated && op.action == Action::Put && op.len <= lane.request_data_max() {
        // The put is one part, which is copied into its request.
        (issued, op.token) = (Issued::Complete, None);
    }
    let (remote, peers) = lane.remote();
    let (endpoint, is_write) = (op.endpoint, op.is_write());
    if is_write {
        op.epoch = peers.process_of(endpoint).state.as_mut().begin();
    }
    let epoch = op.epoch;
    let index = remote.ops.insert(op);
    let all_issued = issue_parts(lane, index);
    let (remote, _) = lane.remote();
    match remote.ops.get(index) {
        // The network failed, and the operation ended with its peer.
        None => {}
        Some(op) if op.issued == 0 && op.error.is_none() => {
            remote.ops.remove(index);
            if is_write {
                end_write(lane, endpoint, epoch);
            }
            return Err(LaneError::Again);
        }
        Some(_) if !all_issued => remote.unissued.push_back(index),
        Some(_) => {}
    }
    Ok(issued)
}

/// Issues parts while there is space. Returns whether none are left.
fn issue_parts<L: RemoteLane>(lane: &mut L, index: u32) -> bool {
    loop {
        let Some(op) = lane.remote().0.ops.get(index) else {
            return true;
        };
        if op.error.is_some() || op.issued == op.len {
            return true;
        }
        let endpoint = op.endpoint;
        let issued = match op.is_emulated {
            true => request_part(lane, index),
            false => lane.issue_part(index),
        };
        match issued {
            Ok(len) => {
                if let Some(op) = lane.remote().0.ops.get(index) {
                    op.issued += len;
                    op.parts += 1;
                }
            }
            // This ends the operation, too, now or with its last part.
            Err(LaneError::PeerLost(_)) => return true,
            Err(_) => return lane.has_lost_blocked(endpoint),
        }
    }
}

/// Sends the request for the next part of an emulated operation.
fn request_part<L: RemoteLane>(lane: &mut L, index: u32) -> Result<usize, LaneError> {
    let most = lane.request_data_max();
    let (remote, _) = lane.remote();
    if remote.requests >= MOST_REQUESTS {
        return Err(LaneError::Again);
    }
    let cookie = remote.ops.cookie(index);
    let Some(op) = remote.ops.get(index) else {
        return Err(LaneError::Again);
    };
    let (endpoint, issued) = (op.endpoint, op.issued);
    let mut len = (op.len - issued).min(most);
    let mut request = Request {
        cookie,
        exposure: op.remote.key.words[1],
        offset: op.remote.offset.wrapping_add(issued as u64),
        ..Request::default()
    };
    let mut data: &[u8] = &[];
    let ask = match op.action {
        Action::Get => {
            (request.value, request.extra) = (len as u64, issued as u64);
            Ask::Get
        }
        Action::Put => {
            // SAFETY: the issuer of a put keeps `op.len` bytes at `local` valid for reads until
            // completion, and `issued + len` is at most `op.len`.
            data = unsafe { std::slice::from_raw_parts(op.local.add(issued), len) };
            Ask::Put
        }
        Action::Atomic {
            op,
            operand,
            compare,
        } => {
            len = 8;
            (request.value, request.extra) = (operand, compare);
            Ask::Atomic(op as u8)
        }
    };
    lane.send_request(endpoint, ask, &request, data)?;
    lane.remote().0.requests += 1;
    Ok(len)
}

/// Issues an operation of one part anew, whose part has ended without the wanted result.
pub fn repeat<L: RemoteLane>(lane: &mut L, index: u32) {
    if let Some(op) = lane.remote().0.ops.get(index) {
        op.issued = 0;
        op.parts -= 1;
    }
    if !issue_parts(lane, index) {
        lane.remote().0.unissued.push_back(index);
    }
}

/// Handles the end of a part. An error is the operation's, unless an earlier part had one.
pub fn part_done<L: RemoteLane>(lane: &mut L, index: u32, error: Option<LaneError>) {
    let Some(op) = lane.remote().0.ops.get(index) else {
        return;
    };
    op.parts -= 1;
    if let Some(error) = error {
        op.error.get_or_insert(error);
    }
    finish_if_over(lane, index);
}

/// Completes an operation that has no pending and no unissued parts.
fn finish_if_over<L: RemoteLane>(lane: &mut L, index: u32) {
    let (remote, peers) = lane.remote();
    if !remote.ops.get(index).is_some_and(|op| op.is_over()) {
        return;
    }
    let Some(op) = remote.ops.remove(index) else {
        return;
    };
    if op.error.is_some() {
        remote.unissued.retain(|&other| other != index);
    }
    let is_write = op.is_write();
    match (op.token, op.error) {
        (Some(token), error) => {
            let result = error.map_or(Ok(()), Err);
            let notice = Notice::Complete(token, result);
            remote.notices.push_back((op.vci, notice));
        }
        (None, Some(LaneError::PeerLost(lost))) => {
            peers.process_of(op.endpoint).state.as_mut().fail(lost.why);
        }
        (None, _) => {}
    }
    if is_write {
        end_write(lane, op.endpoint, op.epoch);
    }
}

/// Handles the end of a put or an atomic, which may complete flushes.
pub fn end_write<L: RemoteLane>(lane: &mut L, endpoint: u32, epoch: u32) {
    let (remote, peers) = lane.remote();
    let process = peers.process_of(endpoint);
    let Writes { fences, error } = process.state.as_mut();
    let (number, lost, notices) = (process.number, &process.lost, &mut remote.notices);
    fences.end(epoch, |(vci, token)| {
        let result = match error.take().or_else(|| lost.clone()) {
            Some(why) => Err(LaneError::lost(number, why)),
            None => Ok(()),
        };
        notices.push_back((vci, Notice::Complete(token, result)));
    });
}

/// Begins a flush, which completes with `token` at VCI `vci`.
///
/// # Errors
/// The peer is lost, or an earlier put to it did not arrive.
pub fn flush<L: RemoteLane>(
    lane: &mut L,
    peer: Peer,
    (vci, token): (VciId, Token),
) -> Result<Issued, LaneError> {
    let (_, peers) = lane.remote();
    let Some(index) = peers.find_process(peer) else {
        return Ok(Issued::Complete);
    };
    let process = &mut peers.processes[index as usize];
    if process.lost.is_some() {
        return Err(process.error());
    }
    let writes = process.state.as_mut();
    if !writes.fences.is_clear() {
        writes.fences.flush((vci, token));
        return Ok(Issued::Pending);
    }
    match writes.error.take() {
        Some(why) => Err(LaneError::lost(peer, why)),
        None => Ok(Issued::Complete),
    }
}

/// Ends the operations of a process that was just recorded as lost, emulated ones immediately and
/// native ones with their last part, and drops the answers that are owed to it.
#[cold]
pub fn end_process<L: RemoteLane>(lane: &mut L, process: u32) {
    let (remote, peers) = lane.remote();
    let error = peers.processes[process as usize].error();
    let is_of_process = |endpoint: u32| peers.endpoints[endpoint as usize].process() == process;
    remote
        .replies
        .retain(|reply| !is_of_process(reply.endpoint));
    for index in remote.ops.indices(|op| is_of_process(op.endpoint)) {
        let (remote, _) = lane.remote();
        let Some(op) = remote.ops.get(index) else {
            continue;
        };
        op.error.get_or_insert_with(|| error.clone());
        if op.is_emulated {
            remote.requests -= op.parts as usize;
            op.parts = 0;
        }
        finish_if_over(lane, index);
    }
}

/// Sends the answer to a request, or keeps it until there is space.
pub fn answer<L: RemoteLane>(lane: &mut L, endpoint: u32, answer: Answer) {
    let reply = Reply { endpoint, answer };
    if !send_reply(lane, &reply) {
        lane.remote().0.replies.push_back(reply);
    }
}

/// Tries to send an answer. Returns whether it is no longer owed.
fn send_reply<L: RemoteLane>(lane: &mut L, reply: &Reply) -> bool {
    let (_, peers) = lane.remote();
    peers.process_of(reply.endpoint).lost.is_some()
        || !matches!(
            lane.send_answer(reply.endpoint, &reply.answer),
            Err(LaneError::Again)
        )
}

/// Handles a peer's answer. Answers to operations that have ended with their peer are dropped.
pub fn answered<L: RemoteLane>(lane: &mut L, status: u8, answer: &Request, data: &[u8]) {
    let (remote, peers) = lane.remote();
    let Some((index, op)) = remote.ops.by_cookie(answer.cookie) else {
        return;
    };
    if op.parts == 0 {
        return;
    }
    // SAFETY: the issuer of the operation keeps `len` bytes at `local` (8 bytes for the result of an
    // atomic) valid until completion, which this part still precedes.
    let taken = unsafe { take_answer(op.action, op.local, op.len, status, answer, data) };
    remote.requests -= 1;
    let number = peers.process_of(op.endpoint).number;
    part_done(lane, index, taken.err().map(|error| error.at(number)));
}

/// Retries the answers and parts for which there was no space. Returns whether any was sent.
pub fn retry<L: RemoteLane>(lane: &mut L) -> bool {
    let mut any = false;
    for _ in 0..lane.remote().0.replies.len() {
        let Some(reply) = lane.remote().0.replies.pop_front() else {
            break;
        };
        if send_reply(lane, &reply) {
            any = true;
        } else {
            lane.remote().0.replies.push_back(reply);
        }
    }
    for _ in 0..lane.remote().0.unissued.len() {
        let (remote, _) = lane.remote();
        let Some(index) = remote.unissued.pop_front() else {
            break;
        };
        let before = remote.ops.get(index).map(|op| op.issued);
        let all_issued = issue_parts(lane, index);
        let (remote, _) = lane.remote();
        any |= remote.ops.get(index).map(|op| op.issued) != before;
        if !all_issued {
            remote.unissued.push_back(index);
        }
    }
    any
}

#[cfg(test)]
mod tests;
