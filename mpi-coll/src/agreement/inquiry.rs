//! Ranks that disagree about a call that goes by messages: who waits in vain asks those it waits for.
//!
//! With other lengths ranks may take other algorithms, and then wait for messages that nobody sends. So each
//! rank notes its last calls (three stores), and who has waited for a while sends each rank that it waits for a
//! notice, once: what is your call of this number? Only who can't agree answers, at once or when it comes
//! there. Who learns of a disagreement gives up, and tells those who have asked it meanwhile, so that it
//! goes from one to the next along the ways on which ranks wait for each other.
//!
//! Where all have called the same, nobody waits for ever, so there is always somebody who waits for one with
//! another call; and it costs nothing but the note while nobody waits long.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netmod::VciId;
use parking_lot::Mutex;

use crate::agreement::mismatch_word::is_before;
use crate::agreement::signature::{CallSignature, ENDED};
use crate::exec::buffers::Message;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::pt2pt::Address;
use mpi_core::pt2pt::notice::Notice;
use mpi_sched::Run;

/// Calls of which a communicator keeps what they were; a power of two.
const CALLS: usize = 16;
/// Communicators gone, of which the same is kept for a while.
const GONE: usize = 64;
/// Questions about communicators that are not known yet, at most.
const EARLY: usize = 1 << 12;

/// In the word of a call, above its number: there is one, and it has ended.
const SAID: u64 = 1 << 32;
const ENDED_BIT: u64 = 1 << 33;

/// What an objection says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    /// The sender has called something else.
    Differs,
    /// The sender has called the same and given it up, since another rank has called something else.
    GivenUp,
    /// The sender is long through with that call.
    Passed,
    /// The sender has given up all collectives on this communicator.
    Over,
}

/// A rank and what it has called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Objection {
    kind: Kind,
    of: u32,
    theirs: CallSignature,
}

impl Objection {
    fn words(self) -> [u64; 2] {
        let head = u64::from(self.of) | u64::from(self.kind as u8) << 32;
        [head, self.theirs.word()]
    }

    fn from_words([head, theirs]: [u64; 2]) -> Objection {
        let kind = match head >> 32 {
            0 => Kind::Differs,
            1 => Kind::GivenUp,
            2 => Kind::Passed,
            _ => Kind::Over,
        };
        Objection {
            kind,
            of: head as u32,
            theirs: CallSignature::from_word(theirs),
        }
    }
}

/// What a rank notes of its calls on a communicator, and what others ask and say about them.
#[derive(Default)]
pub(crate) struct CallNotes {
    rank: u32,
    /// The number of a call with [`SAID`], by its last bits, and its signature.
    calls: [[AtomicU64; 2]; CALLS],
    /// Whether anybody has asked something that is not answered.
    asked: AtomicBool,
    /// Whether collectives on the communicator are given up.
    over: AtomicBool,
    notices: Mutex<Notices>,
}

#[derive(Default)]
struct Notices {
    /// Calls under way whose place in the notes others have got.
    stragglers: Vec<u32>,
    /// Not answered yet.
    questions: Vec<(VciId, Notice)>,
    /// What others have said, about which call.
    heard: Vec<(u32, Objection)>,
    /// Calls that were given up, and why.
    given_up: Vec<(u32, Objection)>,
    /// The first call from which on collectives are given up, and why.
    over: Option<(u32, Objection)>,
}

enum Verdict {
    Object(Objection),
    /// Not yet to be known.
    Wait,
    /// No answer is needed.
    Fine,
}

impl CallNotes {
    fn place(&self, tag: u32) -> &[AtomicU64; 2] {
        &self.calls[tag as usize % CALLS]
    }

    /// Notes what call number `tag` is.
    #[inline]
    pub fn say(&self, process: &Process, tag: u32, signature: CallSignature) {
        let [which, what] = self.place(tag);
        let old = which.load(Ordering::Relaxed);
        if old & (SAID | ENDED_BIT) == SAID {
            self.notices.lock().stragglers.push(old as u32);
        }
        // Who reads looks twice.
        which.store(0, Ordering::Release);
        what.store(signature.word(), Ordering::Release);
        which.store(SAID | u64::from(tag), Ordering::Release);
        if self.asked.load(Ordering::Relaxed) {
            self.answer_all(process);
        }
    }

    /// Notes that call number `tag` has ended here.
    #[inline]
    pub fn end(&self, tag: u32) {
        let [which, _] = self.place(tag);
        let said = SAID | u64::from(tag);
        let ended =
            which.compare_exchange(said, said | ENDED_BIT, Ordering::Relaxed, Ordering::Relaxed);
        if ended.is_err() {
            self.notices.lock().stragglers.retain(|one| *one != tag);
        }
    }

    /// An error if collectives on the communicator have been given up.
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

    /// What call number `tag` is here, and whether it has ended; none if that is not, or no longer, known.
    fn noted(&self, tag: u32) -> Option<(CallSignature, bool)> {
        let [which, what] = self.place(tag);
        let before = which.load(Ordering::Acquire);
        let signature = what.load(Ordering::Acquire);
        let same = before & !ENDED_BIT == which.load(Ordering::Acquire) & !ENDED_BIT;
        let found = same && before & !ENDED_BIT == SAID | u64::from(tag);
        found.then(|| (CallSignature::from_word(signature), before & ENDED_BIT != 0))
    }

    /// Whether a later call than number `tag` has taken its place.
    fn is_passed(&self, tag: u32) -> bool {
        let which = self.place(tag)[0].load(Ordering::Acquire);
        which & SAID != 0 && is_before(tag, which as u32)
    }

    fn judge(&self, notices: &Notices, question: &Notice) -> Verdict {
        let (tag, signature) = (question.tag, CallSignature::from_word(question.words[0]));
        // Who is still in a call before it gets what it needs there.
        if let Some((from, over)) = notices.over
            && !is_before(tag, from)
        {
            return Verdict::Object(over);
        }
        let own = |kind, theirs| {
            let of = self.rank;
            Verdict::Object(Objection { kind, of, theirs })
        };
        let given_up = notices.given_up.iter().find(|(call, _)| *call == tag);
        match (self.noted(tag), given_up) {
            (Some((theirs, _)), _) if theirs != signature => own(Kind::Differs, theirs),
            (_, Some((_, why))) => Verdict::Object(Objection {
                kind: Kind::GivenUp,
                ..*why
            }),
            (Some((_, false)), None) => Verdict::Wait,
            // What it has sent has come before this could be asked again.
            (Some((_, true)), None) => Verdict::Fine,
            (None, None) if notices.stragglers.contains(&tag) => Verdict::Wait,
            (None, None) if self.is_passed(tag) => own(Kind::Passed, CallSignature::default()),
            (None, None) => Verdict::Wait,
        }
    }

    /// Answers what can be answered.
    #[cold]
    fn answer_all(&self, process: &Process) {
        let mut answers = Vec::new();
        {
            let mut notices = self.notices.lock();
            let questions = std::mem::take(&mut notices.questions);
            for (vci, question) in questions {
                match self.judge(&notices, &question) {
                    Verdict::Object(objection) => answers.push((vci, question, objection)),
                    Verdict::Wait => notices.questions.push((vci, question)),
                    Verdict::Fine => {}
                }
            }
            let waits = !notices.questions.is_empty();
            self.asked.store(waits, Ordering::Relaxed);
        }
        for (vci, question, objection) in answers {
            let answer = Notice {
                with: question.with,
                asks: false,
                context: question.words[1],
                tag: question.tag,
                words: objection.words(),
            };
            // A VCI that is closed has nobody to answer.
            let _ = process.send_notice(vci, answer);
        }
    }

    fn ask(&self, process: &Process, vci: VciId, question: Notice) {
        self.notices.lock().questions.push((vci, question));
        self.answer_all(process);
    }

    fn hear(&self, tag: u32, objection: Objection) {
        let heard = &mut self.notices.lock().heard;
        if heard.len() >= EARLY {
            heard.remove(0);
        }
        heard.push((tag, objection));
    }

    /// Notes that a call is given up, and tells those who wait for it; whether it is the end of collectives on
    /// the communicator.
    fn give_up(&self, process: &Process, tag: u32, why: Objection, end: bool) {
        {
            let mut notices = self.notices.lock();
            if notices.given_up.len() >= CALLS {
                notices.given_up.remove(0);
            }
            notices.given_up.push((tag, why));
            if end {
                let over = Objection {
                    kind: Kind::Over,
                    ..why
                };
                // Several may be under way, and given up in any order.
                if notices.over.is_none_or(|(from, _)| is_before(tag, from)) {
                    notices.over = Some((tag, over));
                }
                self.over.store(true, Ordering::Relaxed);
            }
        }
        self.answer_all(process);
    }
}

/// What is known of the calls of a process, for those who ask.
#[derive(Default)]
pub(crate) struct Inquiries {
    registry: Mutex<Registry>,
}

/// What is known of calls, by the context in which they receive.
#[derive(Default)]
struct Registry {
    known: HashMap<u64, (u64, Arc<CallNotes>)>,
    /// Counts those that were made known.
    made: u64,
    /// Look for communicators that are gone when there are so many.
    sweep_at: usize,
    /// Questions about contexts that are not known yet.
    early: Vec<(VciId, Notice)>,
}

impl Registry {
    /// Forgets communicators that are gone, but for the latest.
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
    /// Makes the notes of a communicator, and makes them known.
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
            .partition(|(_, question)| question.context == context);
        registry.early = rest;
        drop(registry);
        for (vci, question) in Vec::from_iter::<Vec<_>>(mine) {
            notes.ask(process, vci, question);
        }
        notes
    }

    /// Takes in a notice about a call.
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

/// What who waits in a call remembers.
pub(crate) struct Inquiry {
    /// How often the process had looked after others when it last thought of it.
    checks: u32,
    /// Whether one such time has passed: the first may come at once.
    waited: bool,
    /// Ranks that it has asked.
    asked: Vec<u32>,
    /// Ranks that have said that they are through.
    passed: Vec<u32>,
}

impl Inquiry {
    /// For a call that begins.
    #[inline]
    pub fn new(process: &Process) -> Inquiry {
        Inquiry {
            checks: process.peer_checks(),
            waited: false,
            asked: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// To be called by who waits: an error if ranks disagree about the call. The call is given up then.
    #[inline]
    pub fn look(&mut self, waiter: &Waiter<'_>, run: &Run<Message>) -> Result<()> {
        match waiter.process.peer_checks() == self.checks {
            true => Ok(()),
            false => self.look_round(waiter, run),
        }
    }

    #[cold]
    fn look_round(&mut self, waiter: &Waiter<'_>, run: &Run<Message>) -> Result<()> {
        let Waiter {
            process,
            comm,
            notes,
            tag,
            signature,
            is_end: end,
        } = *waiter;
        self.checks = process.peer_checks();
        while let Some(heard) = {
            let mut notices = notes.notices.lock();
            let place = notices.heard.iter().position(|(call, _)| *call == tag);
            place.map(|place| notices.heard.swap_remove(place).1)
        } {
            if self.is_end(waiter, run, heard) {
                notes.give_up(process, tag, heard, end);
                return Err(match (heard.kind, heard.theirs.is_none()) {
                    (Kind::Over, _) => over_error(heard.of),
                    (_, true) => passed_error(heard.of, end),
                    _ => signature.disagreement(heard.of, heard.theirs, end),
                });
            }
        }
        if !std::mem::replace(&mut self.waited, true) {
            return Ok(());
        }
        let mut awaited = awaited(process, run);
        awaited.retain(|rank| *rank != comm.rank() && !self.asked.contains(rank));
        for rank in awaited {
            self.asked.push(rank);
            let to = comm.member_destination(rank, 0, Purpose::Collective);
            let question = Notice {
                with: Address {
                    peer: to.peer,
                    vci: to.vci,
                },
                asks: true,
                context: to.context,
                tag,
                words: [signature.word(), comm.context().of(Purpose::Collective)],
            };
            process.send_notice(comm.vci(), question)?;
        }
        Ok(())
    }

    /// Whether an objection means that the call can't end.
    fn is_end(&mut self, waiter: &Waiter<'_>, run: &Run<Message>, heard: Objection) -> bool {
        if heard.kind != Kind::Passed {
            return true;
        }
        // It has sent all that it will; but what it has written may come later than a notice.
        if !awaited(waiter.process, run).contains(&heard.of) {
            return false;
        }
        if self.passed.contains(&heard.of) {
            return true;
        }
        self.passed.push(heard.of);
        self.asked.retain(|rank| *rank != heard.of);
        false
    }
}

/// Who waits, and in which call.
#[derive(Clone, Copy)]
pub(crate) struct Waiter<'a> {
    pub process: &'a Process,
    pub comm: &'a Comm,
    pub notes: &'a CallNotes,
    pub tag: u32,
    pub signature: CallSignature,
    /// Whether nothing comes after this call if it is given up: others write to slots, and
    /// nobody knows what of theirs is still to come.
    pub is_end: bool,
}

/// The ranks that a run waits for.
pub(crate) fn awaited(process: &Process, run: &Run<Message>) -> Vec<u32> {
    let under_way = |message: Option<Message>| match message {
        Some(Some(id)) => process.request(id).is_some_and(|one| !one.is_done()),
        Some(None) => false,
        None => true,
    };
    let mut ranks: Vec<u32> = run
        .others()
        .filter(|(_, message)| under_way(*message))
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

    /// Who asks about a call before that which was the end gets it done; about that one, or one after, nobody does.
    #[test]
    fn the_end_is_from_its_call_on() {
        const LAST: u32 = i32::MAX as u32;
        let signature = CallSignature::from_word(7);
        for [before, from, after] in [[7, 8, 9], [LAST, 0, 1], [LAST - 1, LAST, 0]] {
            let notes = CallNotes::default();
            let [which, what] = notes.place(before);
            what.store(signature.word(), Ordering::Relaxed);
            which.store(SAID | ENDED_BIT | u64::from(before), Ordering::Relaxed);
            let over = Objection {
                kind: Kind::Over,
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
                let question = Notice {
                    with,
                    asks: true,
                    context: 0,
                    tag,
                    words: [signature.word(), 0],
                };
                notes.judge(&notices, &question)
            };
            assert!(matches!(asked(before), Verdict::Fine));
            for tag in [from, after] {
                assert!(matches!(asked(tag), Verdict::Object(objection) if objection == over));
            }
        }
    }
}
