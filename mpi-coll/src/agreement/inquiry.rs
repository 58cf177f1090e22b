//! Detection of mismatched collectives that go by messages: a rank that waits in vain inquires.
//!
//! Ranks with other lengths may use other algorithms, and then wait for messages that no rank sends.
//! So each rank notes its latest calls (three stores). A rank that has waited for a while sends each
//! rank that it waits for one notice, an *inquiry* with the signature of its call. The other rank
//! answers only if it can't agree, at once or when it gets to that call. A rank that learns of a
//! mismatch gives its call up and answers the inquiries that it has got meanwhile, so the news spreads
//! along the chain of waiting ranks.
//!
//! Ranks that wait for each other for ever include one that waits for a rank with another call; so a
//! mismatch is always found. Without one, only the notes cost anything while no rank waits long.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use netmod::VciId;
use parking_lot::Mutex;

use crate::agreement::mismatch_word::is_before;
use crate::agreement::signature::{CallSignature, ENDED};
use crate::exec::buffers::Message;
use crate::plan::state::CommContext;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::pt2pt::Address;
use mpi_core::pt2pt::notice::Notice;
use mpi_sched::Run;

/// Calls of a communicator that are noted; a power of two.
const CALLS: usize = 16;
/// Freed communicators whose notes are kept.
const GONE: usize = 64;
/// Inquiries about communicators that are not known yet, at most.
const EARLY: usize = 1 << 12;

/// Time for answers about a message that was too long for its call.
const PATIENCE: Duration = Duration::from_secs(1);
/// Members that are asked about such a message, at most.
const MOST_ASKED: usize = 64;

/// Bits in the word of a call, above its number: a call is noted; it has ended.
const NOTED: u64 = 1 << 32;
const ENDED_BIT: u64 = 1 << 33;

/// Why a rank can't agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Reason {
    /// The sender has made another call.
    Differs,
    /// The sender has made the same call and given it up, since a third rank has made another one.
    GivenUp,
    /// The sender's call has ended, and its note was overwritten.
    Passed,
    /// The sender has given up all collectives on this communicator.
    Over,
}

/// The answer of a rank that can't agree: which rank made which other call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Objection {
    reason: Reason,
    of: u32,
    theirs: CallSignature,
}

impl Objection {
    fn words(self) -> [u64; 2] {
        let head = u64::from(self.of) | u64::from(self.reason as u8) << 32;
        [head, self.theirs.word()]
    }

    fn from_words([head, theirs]: [u64; 2]) -> Objection {
        let reason = match head >> 32 {
            0 => Reason::Differs,
            1 => Reason::GivenUp,
            2 => Reason::Passed,
            _ => Reason::Over,
        };
        Objection {
            reason,
            of: head as u32,
            theirs: CallSignature::from_word(theirs),
        }
    }
}

/// The notes of a rank about its calls on a communicator, with inquiries and answers about them.
#[derive(Default)]
pub(crate) struct CallNotes {
    rank: u32,
    /// The number of a call with [`NOTED`], and its signature, by the number's last bits.
    calls: [[AtomicU64; 2]; CALLS],
    /// Whether an inquiry is not answered yet.
    has_inquiries: AtomicBool,
    /// Whether collectives on the communicator are given up.
    over: AtomicBool,
    notices: Mutex<Notices>,
}

#[derive(Default)]
struct Notices {
    /// Calls in progress whose notes were overwritten.
    stragglers: Vec<u32>,
    /// Inquiries that are not answered yet.
    inquiries: Vec<(VciId, Notice)>,
    /// Answers of other ranks, each with its call.
    answers: Vec<(u32, Objection)>,
    /// Calls that were given up, each with the answer that caused it.
    given_up: Vec<(u32, Objection)>,
    /// The first call from which on collectives are given up, and the answer that caused it.
    over: Option<(u32, Objection)>,
}

enum Verdict {
    Object(Objection),
    /// This rank has not got to the call yet, or is in it.
    Wait,
    /// No answer is needed.
    Fine,
}

impl CallNotes {
    /// Returns the note of a call.
    fn note(&self, tag: u32) -> &[AtomicU64; 2] {
        &self.calls[tag as usize % CALLS]
    }

    /// Notes the signature of call number `tag`.
    #[inline]
    pub fn begin(&self, process: &Process, tag: u32, signature: CallSignature) {
        let [which, what] = self.note(tag);
        let old = which.load(Ordering::Relaxed);
        if old & (NOTED | ENDED_BIT) == NOTED {
            self.notices.lock().stragglers.push(old as u32);
        }
        // A reader compares the number before and after it reads the signature.
        which.store(0, Ordering::Release);
        what.store(signature.word(), Ordering::Release);
        which.store(NOTED | u64::from(tag), Ordering::Release);
        if self.has_inquiries.load(Ordering::Relaxed) {
            self.answer_all(process);
        }
    }

    /// Notes that call number `tag` has ended here.
    #[inline]
    pub fn end(&self, tag: u32) {
        let [which, _] = self.note(tag);
        let noted = NOTED | u64::from(tag);
        let ended = which.compare_exchange(
            noted,
            noted | ENDED_BIT,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if ended.is_err() {
            self.notices.lock().stragglers.retain(|one| *one != tag);
        }
    }

    /// Fails if collectives on the communicator have been given up.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.over.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(self.over_error()),
        }
    }

    #[cold]
    fn over_error(&self) -> Error {
        let of = self.notices.lock().over.map_or(0, |(_, over)| over.of);
        over_error(of)
    }

    /// Returns the signature of call number `tag`, and whether the call has ended; `None` if it is not
    /// noted, or not any more.
    fn noted(&self, tag: u32) -> Option<(CallSignature, bool)> {
        let [which, what] = self.note(tag);
        let before = which.load(Ordering::Acquire);
        let signature = what.load(Ordering::Acquire);
        let same = before & !ENDED_BIT == which.load(Ordering::Acquire) & !ENDED_BIT;
        let found = same && before & !ENDED_BIT == NOTED | u64::from(tag);
        found.then(|| (CallSignature::from_word(signature), before & ENDED_BIT != 0))
    }

    /// Whether a later call has overwritten the note of call number `tag`.
    fn is_passed(&self, tag: u32) -> bool {
        let which = self.note(tag)[0].load(Ordering::Acquire);
        which & NOTED != 0 && is_before(tag, which as u32)
    }

    fn judge(&self, notices: &Notices, inquiry: &Notice) -> Verdict {
        let (tag, signature) = (inquiry.tag, CallSignature::from_word(inquiry.words[0]));
        // A rank that is still in an earlier call gets all that it needs there.
        if let Some((from, over)) = notices.over
            && !is_before(tag, from)
        {
            return Verdict::Object(over);
        }
        let own = |reason, theirs| {
            let of = self.rank;
            Verdict::Object(Objection { reason, of, theirs })
        };
        let given_up = notices.given_up.iter().find(|(call, _)| *call == tag);
        match (self.noted(tag), given_up) {
            (Some((theirs, _)), _) if theirs != signature => own(Reason::Differs, theirs),
            (_, Some((_, why))) => Verdict::Object(Objection {
                reason: Reason::GivenUp,
                ..*why
            }),
            (Some((_, false)), None) => Verdict::Wait,
            // The other rank has got this rank's messages before it could inquire again.
            (Some((_, true)), None) => Verdict::Fine,
            (None, None) if notices.stragglers.contains(&tag) => Verdict::Wait,
            (None, None) if self.is_passed(tag) => own(Reason::Passed, CallSignature::default()),
            (None, None) => Verdict::Wait,
        }
    }

    /// Answers the inquiries that can be answered.
    #[cold]
    fn answer_all(&self, process: &Process) {
        let mut answers = Vec::new();
        {
            let mut notices = self.notices.lock();
            let inquiries = std::mem::take(&mut notices.inquiries);
            for (vci, inquiry) in inquiries {
                match self.judge(&notices, &inquiry) {
                    Verdict::Object(objection) => answers.push((vci, inquiry, objection)),
                    Verdict::Wait => notices.inquiries.push((vci, inquiry)),
                    Verdict::Fine => {}
                }
            }
            let waits = !notices.inquiries.is_empty();
            self.has_inquiries.store(waits, Ordering::Relaxed);
        }
        for (vci, inquiry, objection) in answers {
            let answer = Notice {
                with: inquiry.with,
                asks: false,
                context: inquiry.words[1],
                tag: inquiry.tag,
                words: objection.words(),
            };
            // Fails if the VCI was closed: then no rank waits for the answer.
            let _ = process.send_notice(vci, answer);
        }
    }

    fn ask(&self, process: &Process, vci: VciId, inquiry: Notice) {
        self.notices.lock().inquiries.push((vci, inquiry));
        self.answer_all(process);
    }

    fn hear(&self, tag: u32, objection: Objection) {
        let answers = &mut self.notices.lock().answers;
        if answers.len() >= EARLY {
            answers.remove(0);
        }
        answers.push((tag, objection));
    }

    /// Notes that a call is given up, and answers inquiries about it. `end`: so are all later collectives
    /// on the communicator.
    fn give_up(&self, process: &Process, tag: u32, why: Objection, end: bool) {
        {
            let mut notices = self.notices.lock();
            if notices.given_up.len() >= CALLS {
                notices.given_up.remove(0);
            }
            notices.given_up.push((tag, why));
            if end {
                let over = Objection {
                    reason: Reason::Over,
                    ..why
                };
                // Several calls may be in progress, and be given up in any order.
                if notices.over.is_none_or(|(from, _)| is_before(tag, from)) {
                    notices.over = Some((tag, over));
                }
                self.over.store(true, Ordering::Relaxed);
            }
        }
        self.answer_all(process);
    }
}

/// The notes of a process, for other processes' inquiries.
#[derive(Default)]
pub(crate) struct Inquiries {
    registry: Mutex<Registry>,
}

/// Notes by the context of their communicator's messages.
#[derive(Default)]
struct Registry {
    known: HashMap<u64, (u64, Arc<CallNotes>)>,
    /// Number of notes that were ever registered.
    made: u64,
    /// Number of notes from which on those of freed communicators are removed.
    sweep_at: usize,
    /// Inquiries about contexts that are not registered yet.
    early: Vec<(VciId, Notice)>,
}

impl Registry {
    /// Removes the notes of freed communicators, except the latest [`GONE`].
    fn sweep(&mut self) {
        let gone = |notes: &Arc<CallNotes>| Arc::strong_count(notes) == 1;
        let all = self.known.values();
        let mut made: Vec<u64> = all.filter(|one| gone(&one.1)).map(|one| one.0).collect();
        made.sort_unstable();
        if let Some(last) = made.len().checked_sub(GONE) {
            let from = made[last];
            self.known
                .retain(|_, (made, notes)| !gone(notes) || *made >= from);
        }
        self.sweep_at = 2 * self.known.len() + GONE;
    }
}

impl Inquiries {
    /// Makes and registers the notes of a communicator.
    #[cold]
    pub(crate) fn make_notes(&self, process: &Process, comm: &Comm) -> Arc<CallNotes> {
        let notes = Arc::new(CallNotes {
            rank: comm.rank(),
            ..CallNotes::default()
        });
        let context = comm.context().of(Purpose::Collective);
        let mut registry = self.registry.lock();
        if registry.known.len() >= registry.sweep_at {
            registry.sweep();
        }
        registry.made += 1;
        let made = registry.made;
        registry.known.insert(context, (made, notes.clone()));
        let early = std::mem::take(&mut registry.early);
        let (mine, rest) = early
            .into_iter()
            .partition(|(_, inquiry)| inquiry.context == context);
        registry.early = rest;
        drop(registry);
        for (vci, inquiry) in Vec::from_iter::<Vec<_>>(mine) {
            notes.ask(process, vci, inquiry);
        }
        notes
    }

    /// Handles a notice about a call.
    #[cold]
    pub(crate) fn take_notice(&self, process: &Process, vci: VciId, notice: &Notice) {
        let mut registry = self.registry.lock();
        let notes = registry
            .known
            .get(&notice.context)
            .map(|(_, notes)| notes.clone());
        match notes {
            Some(notes) => {
                drop(registry);
                if notice.asks {
                    return notes.ask(process, vci, *notice);
                }
                notes.hear(notice.tag, Objection::from_words(notice.words));
                process.force_recheck();
            }
            None if notice.asks => {
                if registry.early.len() >= EARLY {
                    registry.early.remove(0);
                }
                registry.early.push((vci, *notice));
            }
            None => {}
        }
    }
}

/// The inquiry of a rank that waits in a call.
pub(crate) struct Inquiry {
    /// The process's number of checks of its peers at the last look.
    checks: u32,
    /// Whether one check has passed: the first may follow at once.
    has_waited: bool,
    /// Ranks that got an inquiry.
    asked: Vec<u32>,
    /// Ranks that answered that they have passed the call.
    passed: Vec<u32>,
}

impl Inquiry {
    /// Creates the inquiry of a call that begins.
    #[inline]
    pub fn new(process: &Process) -> Inquiry {
        Inquiry {
            checks: process.peer_checks(),
            has_waited: false,
            asked: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// Fails, and gives the call up, if ranks disagree about it. A waiting rank calls this.
    #[inline]
    pub fn look(&mut self, waiter: &Waiter<'_>, run: &Run<Message>) -> Result<()> {
        match waiter.context.process.peer_checks() == self.checks {
            true => Ok(()),
            false => self.look_round(waiter, run),
        }
    }

    #[cold]
    fn look_round(&mut self, waiter: &Waiter<'_>, run: &Run<Message>) -> Result<()> {
        let CommContext { process, comm, .. } = waiter.context;
        self.checks = process.peer_checks();
        while let Some(answer) = waiter.take_answer() {
            if self.is_end(waiter, run, answer) {
                return Err(waiter.give_up(answer));
            }
        }
        if !std::mem::replace(&mut self.has_waited, true) {
            return Ok(());
        }
        let mut awaited = awaited(process, run);
        awaited.retain(|rank| *rank != comm.rank() && !self.asked.contains(rank));
        for rank in awaited {
            self.asked.push(rank);
            waiter.ask(rank)?;
        }
        Ok(())
    }

    /// Whether an answer means that the call can't end.
    fn is_end(&mut self, waiter: &Waiter<'_>, run: &Run<Message>, answer: Objection) -> bool {
        if answer.reason != Reason::Passed {
            return true;
        }
        // The other rank has sent all its messages, but its writes may come later than a notice.
        if !awaited(waiter.context.process, run).contains(&answer.of) {
            return false;
        }
        if self.passed.contains(&answer.of) {
            return true;
        }
        self.passed.push(answer.of);
        self.asked.retain(|rank| *rank != answer.of);
        false
    }
}

/// A waiting rank, and its call.
#[derive(Clone, Copy)]
pub(crate) struct Waiter<'a> {
    pub context: CommContext<'a>,
    pub tag: u32,
    pub signature: CallSignature,
}

impl Waiter<'_> {
    /// Sends a member an inquiry about this call.
    fn ask(&self, rank: u32) -> Result<()> {
        let CommContext { process, comm, .. } = self.context;
        let to = comm.member_destination(rank, 0, Purpose::Collective);
        let inquiry = Notice {
            with: Address {
                peer: to.peer,
                vci: to.vci,
            },
            asks: true,
            context: to.context,
            tag: self.tag,
            words: [
                self.signature.word(),
                comm.context().of(Purpose::Collective),
            ],
        };
        process.send_notice(comm.vci(), inquiry)
    }

    fn notes(&self) -> &CallNotes {
        self.context
            .state
            .notes(self.context.process, self.context.comm)
    }

    /// Takes an answer about this call.
    fn take_answer(&self) -> Option<Objection> {
        let mut notices = self.notes().notices.lock();
        let mut answers = notices.answers.iter();
        let place = answers.position(|(call, _)| *call == self.tag);
        place.map(|place| notices.answers.swap_remove(place).1)
    }

    /// Gives the call up because of an answer. Returns the error.
    fn give_up(&self, answer: Objection) -> Error {
        let state = self.context.state;
        // With slots other ranks may still write to those of the communicator.
        let end = state.network_slots().is_some() || state.node_slots().is_some();
        let process = self.context.process;
        self.notes().give_up(process, self.tag, answer, end);
        match (answer.reason, answer.theirs.is_none()) {
            (Reason::Over, _) => over_error(answer.of),
            (_, true) => passed_error(answer.of, end),
            _ => self.signature.disagreement(answer.of, answer.theirs, end),
        }
    }

    /// Returns the error of a call that got a message longer than it receives: which call of which
    /// member differs, if one that is in MPI answers in time, otherwise `error`.
    #[cold]
    pub fn explain(&self, error: Error) -> Error {
        let CommContext { process, comm, .. } = self.context;
        let is_this = |(call, _): &(u32, Objection)| *call == self.tag;
        if self.notes().notices.lock().given_up.iter().any(is_this) {
            return error; // that of a mismatch
        }
        let others = (0..comm.size()).filter(|rank| *rank != comm.rank());
        for rank in others.take(MOST_ASKED) {
            if self.ask(rank).is_err() {
                return error;
            }
        }
        let until = process.clock().now() + PATIENCE;
        let answer = process.wait_ignoring_loss(comm.vci(), || {
            let answer = self
                .take_answer()
                .filter(|answer| answer.reason != Reason::Passed);
            let is_over = answer.is_some() || process.clock().now() >= until;
            Ok(is_over.then_some(answer))
        });
        match answer {
            Ok(Some(answer)) => self.give_up(answer),
            _ => error,
        }
    }
}

/// Returns the ranks that a run waits for.
pub(crate) fn awaited(process: &Process, run: &Run<Message>) -> Vec<u32> {
    let is_pending = |message: Option<Message>| match message {
        Some(Some(id)) => process.request(id).is_some_and(|one| !one.is_done()),
        Some(None) => false,
        None => true,
    };
    let mut ranks: Vec<u32> = run
        .others()
        .filter(|(_, message)| is_pending(*message))
        .map(|(rank, _)| rank)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

#[cold]
fn passed_error(of: u32, end: bool) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "rank {of} is through with this collective call, in which this rank still waits for it: ranks \
             disagree on it; all must call the same collectives in the same order, with the same root and with \
             counts and datatypes that describe the same data{}",
            if end { ENDED } else { "" }
        ),
    )
}

#[cold]
fn over_error(of: u32) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "ranks disagree about a collective call on this communicator, this one or one before it: rank {of} has \
             called another one than others; all ranks must call the same ones in the same order, with the \
             same root and with counts and datatypes that describe the same data{ENDED}"
        ),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Calls before the one that ended collectives can end; that one and later ones can't.
    #[test]
    fn the_end_is_from_its_call_on() {
        const LAST: u32 = i32::MAX as u32;
        let signature = CallSignature::from_word(7);
        for [before, from, after] in [[7, 8, 9], [LAST, 0, 1], [LAST - 1, LAST, 0]] {
            let notes = CallNotes::default();
            let [which, what] = notes.note(before);
            what.store(signature.word(), Ordering::Relaxed);
            which.store(NOTED | ENDED_BIT | u64::from(before), Ordering::Relaxed);
            let over = Objection {
                reason: Reason::Over,
                of: 3,
                theirs: CallSignature::default(),
            };
            let notices = Notices {
                over: Some((from, over)),
                ..Notices::default()
            };
            let asked = |tag| {
                let with = Address {
                    peer: Default::default(),
                    vci: Default::default(),
                };
                let inquiry = Notice {
                    with,
                    asks: true,
                    context: 0,
                    tag,
                    words: [signature.word(), 0],
                };
                notes.judge(&notices, &inquiry)
            };
            assert!(matches!(asked(before), Verdict::Fine));
            for tag in [from, after] {
                assert!(matches!(asked(tag), Verdict::Object(objection) if objection == over));
            }
        }
    }
}
