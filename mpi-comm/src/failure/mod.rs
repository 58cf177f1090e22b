//! Fault tolerance (User-Level Failure Mitigation, as drafted for the standard): revoked
//! communicators, acknowledged failures, and agreement and shrinking among the survivors.
//!
//! Its messages are notices in a context of its own, which no message of the program and no
//! collective uses, so they arrive whatever state those are in.
//!
//! No call may begin on a revoked communicator; sends and receives detect it by a check that they
//! make anyway. Each member that learns of a revocation passes it on to all others. Receives from
//! any source stay posted when a member is lost; `acknowledge` decides for which callers a loss
//! matters. Shrinking is an agreement on the failed members.

mod acknowledge;
mod agree;
mod agreement;
mod set;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod::{Peer, VciId};
use parking_lot::Mutex;

pub use self::acknowledge::{acknowledge, acknowledged, failed};
use self::agree::Running;
pub use self::agree::{Agreed, Shrunk, agree, shrink, start_agree, start_shrink};
use self::agreement::{Message, answer_late, is_early};
use self::words::{Parsed, Parts, REVOKE};
use mpi_coll::Holder;
use mpi_core::comm::{Comm, ContextId, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::process::source::{FAILURES, ProgressSource, Source, Work};
use mpi_core::pt2pt::Address;
use mpi_core::pt2pt::notice::Notice;

/// Finds the program's communicators.
pub trait Registry: Send + Sync {
    /// Returns the communicator with this context.
    fn by_context(&self, context: ContextId) -> Option<Holder>;
    /// Returns the communicator whose requests carry this owner.
    fn by_owner(&self, owner: u32) -> Option<Holder>;
}

/// The most messages kept for agreements that have not begun here yet.
const MAX_EARLY: usize = 1 << 16;
/// Searches for a communicator that was revoked before it was known here.
const MAX_SEARCHES: u32 = 64;

/// Members up to which a receive from any source makes the process watch all of them.
const WATCH_ALL_UP_TO: u32 = 64;

/// Identifies an agreement: the context of its communicator, and its number on that.
type Key = (u64, u32);

/// The fault tolerance state of a process, beside its list of failed peers.
#[derive(Default)]
pub struct Failures {
    registry: OnceLock<Box<dyn Registry>>,
    table: Mutex<Table>,
    /// Processes to check the next time peers are checked.
    asked_about: Mutex<Vec<Peer>>,
    /// Number of failures, and of checks of peers, when agreements were last updated.
    seen: AtomicU32,
    looked: AtomicU32,
}

#[derive(Default)]
struct Table {
    running: Vec<Running>,
    early: VecDeque<(Key, Peer, Message)>,
    parts: HashMap<(Key, Peer), Parts>,
    /// Contexts revoked before their communicators were known, and the number of searches for
    /// these.
    revoked: Vec<(ContextId, u32)>,
    /// VCIs whose outgoing notices may be waiting to be bundled.
    held: Vec<VciId>,
    /// Agreements that are decided but not finished.
    ended: Vec<Running>,
}

/// Actions to take once the table's lock is released.
#[derive(Default)]
struct Todo {
    notices: Vec<(VciId, Notice)>,
    revoked: Vec<Holder>,
}

// Lock order: the table's lock is taken with a VCI's lock held (`awaited_on`), so no operation that
// may wait for a VCI's lock, or for its holder, happens under it.

impl Source for Failures {
    const ID: usize = FAILURES;

    fn new(_process: &Process) -> Self {
        Failures::default()
    }
}

impl ProgressSource for Failures {
    fn advance(&self, process: &Process) -> Result<bool> {
        let any = self.settle(process)?;
        let (losses, checks) = (process.losses(), process.peer_checks());
        let same = self.seen.swap(losses, Ordering::Relaxed) == losses;
        if same && self.looked.swap(checks, Ordering::Relaxed) == checks {
            return Ok(any);
        }
        let lost = process.lost_among(|_| true);
        let changed = self.change(process, |table, todo| {
            for running in &mut table.running {
                running.lose(&lost);
            }
            table.revoked.retain_mut(|(context, looks)| {
                *looks += 1;
                let found = self.find(*context);
                let gone = found.is_some();
                todo.revoked.extend(found);
                !gone
            });
        })?;
        Ok(any | changed)
    }

    fn read_notice(&self, process: &Process, vci: VciId, notice: &Notice) {
        let context = ContextId::from_bits(notice.context);
        if notice.context != context.of(Purpose::Failure) {
            return;
        }
        // A closed VCI has no use for an answer.
        let _ = self.change(process, |table, todo| {
            self.take(table, todo, (vci, context), notice);
        });
    }

    fn is_judge(&self) -> bool {
        self.registry.get().is_some()
    }

    fn loss_for_any(&self, process: &Process, owner: u32) -> Option<Error> {
        acknowledge::unacknowledged(process, self.registry.get()?.by_owner(owner), owner)
    }

    /// Returns all members or, if they are many, those 1, 2, 4, … ranks further on: a process that
    /// finds one dead informs those that it knows.
    fn senders_to(&self, owners: &[u32]) -> Vec<Peer> {
        let Some(registry) = self.registry.get() else {
            return Vec::new();
        };
        let mut senders = Vec::new();
        for holder in owners.iter().filter_map(|owner| registry.by_owner(*owner)) {
            let comm: &Comm = (*holder).as_ref();
            let others = comm.peer_group();
            if others.size() <= WATCH_ALL_UP_TO {
                senders.extend(others.peers());
            } else {
                let further =
                    |shift: u32| others.peer((comm.rank() + (1_u32 << shift)) % others.size());
                senders.extend((0..others.size().ilog2()).map(further));
            }
        }
        senders
    }

    fn awaited_on(&self, vci: VciId) -> Vec<Peer> {
        let table = self.table.lock();
        let here = table.running.iter().filter(|running| running.vci() == vci);
        let mut awaited: Vec<Peer> = here.flat_map(Running::awaited).collect();
        if vci == 0 {
            awaited.append(&mut self.asked_about.lock());
        }
        awaited
    }

    fn report(&self, text: &mut String) {
        for running in &self.table.lock().running {
            running.report(text);
        }
    }
}

impl Failures {
    /// Sets the registry that finds the program's communicators.
    pub fn use_registry(&self, registry: impl Registry + 'static) {
        let _ = self.registry.set(Box::new(registry));
    }

    fn find(&self, context: ContextId) -> Option<Holder> {
        self.registry.get()?.by_context(context)
    }

    /// Receives a notice that came on a VCI.
    fn take(
        &self,
        table: &mut Table,
        todo: &mut Todo,
        (vci, context): (VciId, ContextId),
        notice: &Notice,
    ) {
        let (key, from) = ((context.to_bits(), notice.tag), notice.with.peer);
        let parts = table.parts.entry((key, from)).or_default();
        let message = match parts.read(notice.words) {
            Parsed::Incomplete => return,
            Parsed::Message(message) => Some(message),
            Parsed::Revoke => None,
        };
        table.parts.remove(&(key, from));
        let Some(message) = message else {
            match self.find(context) {
                Some(holder) => todo.revoked.push(holder),
                None if table.revoked.iter().any(|(known, _)| *known == context) => {}
                None => table.revoked.push((context, 0)),
            }
            return;
        };
        if let Some(running) = table.running.iter_mut().find(|one| one.key == key) {
            running.receive(from, message);
        } else if let Some(answer) = answer_late(&message) {
            todo.write(vci, notice.with, key, &answer);
        } else if is_early(&message) {
            if table.early.len() >= MAX_EARLY {
                table.early.pop_front();
            }
            table.early.push_back((key, from, message));
        }
    }

    /// Applies a change, and then sends the messages it causes. Returns whether there were any.
    ///
    /// Makes no progress, since notices must be read in order: [`Failures::settle`] flushes notices
    /// and finishes agreements.
    fn change(
        &self,
        process: &Process,
        change: impl FnOnce(&mut Table, &mut Todo),
    ) -> Result<bool> {
        let mut table = self.table.lock();
        let mut todo = Todo::default();
        change(&mut table, &mut todo);
        for running in &mut table.running {
            running.write(&mut todo);
        }
        let all = std::mem::take(&mut table.running);
        let (ended, running): (Vec<_>, Vec<_>) = all.into_iter().partition(Running::is_over);
        table.running = running;
        let any = !(todo.notices.is_empty() && ended.is_empty());
        table.ended.extend(ended);
        publish_work(process, &table);
        drop(table);
        self.send(process, todo.notices)?;
        for holder in todo.revoked {
            revoke_and_forward(process, &holder)?;
        }
        Ok(any)
    }

    fn send(&self, process: &Process, notices: Vec<(VciId, Notice)>) -> Result<()> {
        let vcis: Vec<VciId> = notices.iter().map(|(vci, _)| *vci).collect();
        for (vci, notice) in notices {
            process.send_notice(vci, notice)?;
        }
        let mut table = self.table.lock();
        table.held.extend(vcis);
        table.held.sort_unstable();
        table.held.dedup();
        publish_work(process, &table);
        Ok(())
    }

    /// Flushes notices, and then finishes decided agreements: the program may compute for long, or
    /// end, before it makes progress again. Returns whether there was any work.
    fn settle(&self, process: &Process) -> Result<bool> {
        let (held, ended) = {
            let mut table = self.table.lock();
            let both = (
                std::mem::take(&mut table.held),
                std::mem::take(&mut table.ended),
            );
            publish_work(process, &table);
            both
        };
        let any = !(held.is_empty() && ended.is_empty());
        for vci in held {
            process.progress_on(vci)?;
        }
        for running in ended {
            running.end(process)?;
        }
        Ok(any)
    }

    fn search_revoked(&self, process: &Process) {
        let mut table = self.table.lock();
        if table.revoked.is_empty() {
            return;
        }
        table.revoked.iter_mut().for_each(|(_, looks)| *looks = 0);
        publish_work(process, &table);
    }

    /// Registers a new communicator of the program, which another member may have revoked already.
    fn register_new(&self, process: &Process, holder: &Holder) -> Result<()> {
        let context = (**holder).as_ref().context();
        let mut table = self.table.lock();
        let Some(at) = table.revoked.iter().position(|(one, _)| *one == context) else {
            return Ok(());
        };
        table.revoked.swap_remove(at);
        publish_work(process, &table);
        drop(table);
        revoke(process, holder)
    }
}

/// Publishes whether there is work.
fn publish_work(process: &Process, table: &Table) {
    let looks = table.revoked.iter().any(|(_, looks)| *looks < MAX_SEARCHES);
    process.set_work::<Failures>(Work {
        any: looks
            || !(table.running.is_empty() && table.held.is_empty() && table.ended.is_empty()),
        stores: false,
    });
}

impl Todo {
    /// Queues a message of an agreement.
    fn write(&mut self, vci: VciId, to: Address, (context, tag): Key, message: &Message) {
        for words in words::notices(message) {
            let notice = notice(to, ContextId::from_bits(context), tag, words);
            self.notices.push((vci, notice));
        }
    }
}

fn notice(to: Address, context: ContextId, tag: u32, words: [u64; 2]) -> Notice {
    Notice {
        with: to,
        asks: false,
        context: context.of(Purpose::Failure),
        tag,
        words,
    }
}

/// Registers a new communicator before the program gets its handle; revokes it if another member
/// has done so.
///
/// # Errors
/// Errors of sending messages.
#[inline]
pub fn register_new(process: &Process, holder: &Holder) -> Result<()> {
    process.source::<Failures>().register_new(process, holder)
}

/// Notes that the context of a communicator became known after its handle (`MPI_Comm_idup`), so
/// that progress searches for it among the revoked ones.
pub fn search_revoked(process: &Process) {
    process.source::<Failures>().search_revoked(process);
}

/// Revokes a communicator on all its members (`MPIX_Comm_revoke`).
///
/// Each member that learns of it forwards it to all others, so that all survivors learn of it
/// whichever members fail meanwhile: n (n - 1) notices of 40 bytes among n members.
///
/// # Errors
/// Errors of sending messages.
pub fn revoke(process: &Process, holder: &Holder) -> Result<()> {
    check((**holder).as_ref(), "MPIX_Comm_revoke")?;
    revoke_and_forward(process, holder)?;
    process.source::<Failures>().settle(process).map(drop)
}

/// Revokes a communicator here, and sends that to all other members.
fn revoke_and_forward(process: &Process, holder: &Holder) -> Result<()> {
    let comm: &Comm = (**holder).as_ref();
    if !mpi_core::comm::revoke(process, comm) {
        return Ok(());
    }
    let vci = comm.vci();
    let others = members(comm)
        .into_iter()
        .filter(|peer| *peer != process.me() && !process.is_lost(*peer));
    let notices = others.map(|peer| {
        let to = Address { peer, vci };
        (vci, notice(to, comm.context(), 0, REVOKE))
    });
    process
        .source::<Failures>()
        .send(process, notices.collect())
}

/// Fails for communicators whose ranks are not processes.
fn check(comm: &Comm, function: &str) -> Result<()> {
    if comm.endpoint_table().is_none() {
        return Ok(());
    }
    let why = format!(
        "comm has endpoints or streams, which {function} does not support; use a communicator of processes"
    );
    Err(Error::new(Class::UnsupportedOperation, why))
}

/// Returns the members of a communicator in an order that all have in common: the leading group
/// first.
fn members(comm: &Comm) -> Vec<Peer> {
    let remote = comm.remote().into_iter().flat_map(|group| group.peers());
    match comm.is_first() {
        true => comm.local().peers().chain(remote).collect(),
        false => remote.chain(comm.local().peers()).collect(),
    }
}
