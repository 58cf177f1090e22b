//! Going on after a loss (User-Level Failure Mitigation, as drafted for the standard): communicators are revoked,
//! failures acknowledged, and those who are left agree and make a communicator of their own.
//!
//! What processes tell each other about it goes by letters in a context of its own, which no message of the program's
//! and no collective is in, so it gets through whatever state these are in.
//!
//! A revoked communicator is one that no call may begin to use, so sends and receives find out by
//! the check that they make anyhow. Each member that learns of a revocation passes it on to all
//! others. Receives from any source stay posted when a member is lost; `acknowledge` decides for
//! which callers a loss matters. Shrinking is an agreement on the failed members.

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
use self::words::{Parts, REVOKE, Read};
use mpi_coll::Holder;
use mpi_core::comm::{Comm, ContextId, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::process::source::{FAILURES, ProgressSource, Source, Work};
use mpi_core::pt2pt::Address;
use mpi_core::pt2pt::letter::Letter;

/// Finds the program's communicators.
pub trait Registry: Send + Sync {
    /// The one with this context.
    fn by_context(&self, context: ContextId) -> Option<Holder>;
    /// The one that requests call by this name.
    fn by_owner(&self, owner: u32) -> Option<Holder>;
}

/// Messages that came before their agreement began here, at most.
const EARLY: usize = 1 << 16;
/// So often it is looked for a communicator that was revoked before it was known here.
const LOOKS: u32 = 64;

/// In communicators of at most so many, who waits for a message from any source looks after all.
const ALL_LOOKED_AFTER: u32 = 64;

/// An agreement: the context of its communicator, and its number among those of that one.
type Key = (u64, u32);

/// What a process knows of failures beside who is lost.
#[derive(Default)]
pub struct Failures {
    registry: OnceLock<Box<dyn Registry>>,
    table: Mutex<Table>,
    /// Processes that somebody wants to know about, to be looked after the next time.
    asked_about: Mutex<Vec<Peer>>,
    /// What had been lost or revoked, and how often it had been looked, when agreements were last told.
    seen: AtomicU32,
    looked: AtomicU32,
}

#[derive(Default)]
struct Table {
    running: Vec<Running>,
    early: VecDeque<(Key, Peer, Message)>,
    parts: HashMap<(Key, Peer), Parts>,
    /// Contexts that were revoked before their communicators were known, and how often it was looked for these.
    revoked: Vec<(ContextId, u32)>,
    /// VCIs where letters may wait to leave together with others.
    held: Vec<VciId>,
    /// Agreements that are over, but for the end.
    ended: Vec<Running>,
}

/// What is to be done when the table is free again.
#[derive(Default)]
struct Todo {
    letters: Vec<(VciId, Letter)>,
    revoked: Vec<Holder>,
}

// Lock order: the table's lock is taken with a VCI's lock held (`awaited_on`), so nothing that may wait for a VCI, or for
// who does, is done with it.

impl Source for Failures {
    const PLACE: usize = FAILURES;

    fn new(_process: &Process) -> Self {
        Failures::default()
    }
}

impl ProgressSource for Failures {
    fn advance(&self, process: &Process) -> Result<bool> {
        let any = self.settle(process)?;
        let (losses, checks) = (process.losses(), process.checks());
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

    fn read_letter(&self, process: &Process, vci: VciId, letter: &Letter) {
        let context = ContextId::from_bits(letter.context);
        if letter.context != context.of(Purpose::Failure) {
            return;
        }
        // A VCI that is closed has nobody to answer.
        let _ = self.change(process, |table, todo| {
            self.take(table, todo, (vci, context), letter);
        });
    }

    fn is_judge(&self) -> bool {
        self.registry.get().is_some()
    }

    fn loss_for_any(&self, process: &Process, owner: u32) -> Option<Error> {
        acknowledge::unacknowledged(process, self.registry.get()?.by_owner(owner), owner)
    }

    /// All members, or of many those 1, 2, 4, … ranks further on: who finds one dead tells those it knows.
    fn senders_to(&self, owners: &[u32]) -> Vec<Peer> {
        let Some(registry) = self.registry.get() else {
            return Vec::new();
        };
        let mut senders = Vec::new();
        for holder in owners.iter().filter_map(|owner| registry.by_owner(*owner)) {
            let comm: &Comm = (*holder).as_ref();
            let others = comm.others();
            if others.size() <= ALL_LOOKED_AFTER {
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
    /// From now on the program's communicators are found by this.
    pub fn use_registry(&self, registry: impl Registry + 'static) {
        let _ = self.registry.set(Box::new(registry));
    }

    fn find(&self, context: ContextId) -> Option<Holder> {
        self.registry.get()?.by_context(context)
    }

    /// Takes in a letter that came on a VCI.
    fn take(
        &self,
        table: &mut Table,
        todo: &mut Todo,
        (vci, context): (VciId, ContextId),
        letter: &Letter,
    ) {
        let (key, from) = ((context.to_bits(), letter.tag), letter.with.peer);
        let parts = table.parts.entry((key, from)).or_default();
        let message = match parts.read(letter.words) {
            Read::Part => return,
            Read::Message(message) => Some(message),
            Read::Revoke => None,
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
            todo.write(vci, letter.with, key, &answer);
        } else if is_early(&message) {
            if table.early.len() >= EARLY {
                table.early.pop_front();
            }
            table.early.push_back((key, from, message));
        }
    }

    /// Changes something, and then sends what is to be sent. Returns whether anything is.
    ///
    /// Makes no progress, since letters are to be read in their order: what is to have left, and what is over, is
    /// left to [`Failures::settle`].
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
        let any = !(todo.letters.is_empty() && ended.is_empty());
        table.ended.extend(ended);
        tell_work(process, &table);
        drop(table);
        self.send(process, todo.letters)?;
        for holder in todo.revoked {
            take_out_of_use(process, &holder)?;
        }
        Ok(any)
    }

    fn send(&self, process: &Process, letters: Vec<(VciId, Letter)>) -> Result<()> {
        let vcis: Vec<VciId> = letters.iter().map(|(vci, _)| *vci).collect();
        for (vci, letter) in letters {
            process.send_letter(vci, letter)?;
        }
        let mut table = self.table.lock();
        table.held.extend(vcis);
        table.held.sort_unstable();
        table.held.dedup();
        tell_work(process, &table);
        Ok(())
    }

    /// Has letters leave, and then ends what is over: the program may compute for long, or end, before it makes
    /// progress again. Returns whether there was anything.
    fn settle(&self, process: &Process) -> Result<bool> {
        let (held, ended) = {
            let mut table = self.table.lock();
            let both = (
                std::mem::take(&mut table.held),
                std::mem::take(&mut table.ended),
            );
            tell_work(process, &table);
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

    fn look_again(&self, process: &Process) {
        let mut table = self.table.lock();
        if table.revoked.is_empty() {
            return;
        }
        table.revoked.iter_mut().for_each(|(_, looks)| *looks = 0);
        tell_work(process, &table);
    }

    /// Makes a new communicator of the program's known: it may have been revoked by another member already.
    fn look_at_new(&self, process: &Process, holder: &Holder) -> Result<()> {
        let context = (**holder).as_ref().context();
        let mut table = self.table.lock();
        let Some(at) = table.revoked.iter().position(|(one, _)| *one == context) else {
            return Ok(());
        };
        table.revoked.swap_remove(at);
        tell_work(process, &table);
        drop(table);
        revoke(process, holder)
    }
}

/// Says whether there is anything to do.
fn tell_work(process: &Process, table: &Table) {
    let looks = table.revoked.iter().any(|(_, looks)| *looks < LOOKS);
    process.set_work::<Failures>(Work {
        any: looks
            || !(table.running.is_empty() && table.held.is_empty() && table.ended.is_empty()),
        stores: false,
    });
}

impl Todo {
    /// Notes a message to be sent about an agreement.
    fn write(&mut self, vci: VciId, to: Address, (context, tag): Key, message: &Message) {
        for words in words::letters(message) {
            let letter = letter(to, ContextId::from_bits(context), tag, words);
            self.letters.push((vci, letter));
        }
    }
}

fn letter(to: Address, context: ContextId, tag: u32, words: [u64; 2]) -> Letter {
    Letter {
        with: to,
        asks: false,
        context: context.of(Purpose::Failure),
        tag,
        words,
    }
}

/// A communicator has been made, and the program gets its handle: it may be revoked.
///
/// # Errors
/// Those of messages.
#[inline]
pub fn look_at_new(process: &Process, holder: &Holder) -> Result<()> {
    process.source::<Failures>().look_at_new(process, holder)
}

/// The context of a communicator has come to be known after its handle (`MPI_Comm_idup`): progress is to look whether that
/// was revoked meanwhile.
pub fn look_again(process: &Process) {
    process.source::<Failures>().look_again(process);
}

/// Takes a communicator out of use at all its members (`MPIX_Comm_revoke`). Each that learns of it passes it on to all
/// others, so that all do though some of them die: n (n - 1) letters of 40 bytes among n.
///
/// # Errors
/// Those of messages.
pub fn revoke(process: &Process, holder: &Holder) -> Result<()> {
    check((**holder).as_ref(), "MPIX_Comm_revoke")?;
    take_out_of_use(process, holder)?;
    process.source::<Failures>().settle(process).map(drop)
}

/// Revokes a communicator, and writes that to the others.
fn take_out_of_use(process: &Process, holder: &Holder) -> Result<()> {
    let comm: &Comm = (**holder).as_ref();
    if !mpi_core::comm::revoke(process, comm) {
        return Ok(());
    }
    let vci = comm.vci();
    let others = members(comm)
        .into_iter()
        .filter(|peer| *peer != process.me() && !process.is_lost(*peer));
    let letters = others.map(|peer| {
        let to = Address { peer, vci };
        (vci, letter(to, comm.context(), 0, REVOKE))
    });
    process
        .source::<Failures>()
        .send(process, letters.collect())
}

/// Refuses communicators whose ranks are not processes.
fn check(comm: &Comm, function: &str) -> Result<()> {
    if comm.points().is_none() {
        return Ok(());
    }
    let why = format!(
        "comm has endpoints or streams, which {function} does not know; use a communicator of processes"
    );
    Err(Error::new(Class::UnsupportedOperation, why))
}

/// The members of a communicator, in an order that all have in common: first those of the group that leads.
fn members(comm: &Comm) -> Vec<Peer> {
    let remote = comm.remote().into_iter().flat_map(|group| group.peers());
    match comm.is_first() {
        true => comm.local().peers().chain(remote).collect(),
        false => remote.chain(comm.local().peers()).collect(),
    }
}
