//! Collective access (MPI-3.1 section 13.4): in two phases where the members' data is interleaved, by each
//! alone where it is not.
//!
//! In the two phases (`phases`) *aggregators* move whole windows of the file. Members tell each other first
//! where their accesses begin and end, from which everybody finds alike who has what to tell whom.
//!
//! What the system refuses an aggregator is an error of all members. Nobody waits for somebody who may have
//! given up: a member whose arguments are wrong says so at the beginning, and each wait ends when a member
//! is lost.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mpi_core::{Process, RequestId, Status};
use mpi_types::{Error, Result};

use crate::access::Converted;
use crate::direction::Direction;
use crate::file::{At, File, Place};
use crate::files::{Files, status};
use crate::hints::Choice;
use crate::lent::Lent;
use crate::memory::Memory;
use crate::phases::{Told, no_data, two_phases};
use crate::system;
use crate::talk::{Outcome, Talk};

/// Runs that are looked at to find out how long they are.
const LOOKED_AT: usize = 64;

/// Where runs are at least so long on average, each member moves its own.
const LONG: u64 = 256 << 10;

/// The number of runs that a member tells whose view has bytes of the file several times: windows of the file are no parts
/// of its data.
const OVERLAPS: u64 = u64::MAX;

/// What a member has to move in a collective access.
enum Own {
    /// This, in whichever way is found best.
    Here(Memory, Place),
    /// A thread moves it already: it is better moved alone, whatever the others have. This is left.
    Alone(Outcome<Result<u64>>, Place),
}

/// Runs something of a call that returns when it is over.
fn wait<T>(process: &Process, lent: &Lent, work: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match lent.lend(process, || pin!(work).poll(&mut context)) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("where the caller waits each step does"),
    }
}

impl File {
    /// Whether an access is to be made in two phases.
    fn choice(&self, direction: Direction) -> Choice {
        let hints = self.shared().hints();
        match direction {
            Direction::Read => hints.cb_read,
            Direction::Write => hints.cb_write,
        }
    }

    /// Whether members need not even tell each other what they have.
    fn is_for_each(&self, choice: Choice) -> bool {
        let no_indep = self.shared().hints().no_indep_rw;
        self.comm().size() == 1 || (choice == Choice::Disable && !no_indep)
    }

    /// Reads or writes together with all other members. A member whose arguments are wrong takes part by
    /// saying so.
    ///
    /// # Errors
    /// Those of [`File::access`], of any member where they move data for each other.
    pub fn access_all(
        &self,
        process: &Process,
        at: At,
        memory: Result<Memory>,
        direction: Direction,
    ) -> Result<Status> {
        let memory = memory.and_then(|memory| self.demand_no_split().map(|()| memory));
        let lent = Arc::new(Lent::default());
        let talk = Talk::waiting(lent.clone(), self.comm());
        if at == At::Shared {
            let moved = wait(process, &lent, self.ordered(&talk, memory, direction));
            return moved.map(status);
        }
        if self.is_for_each(self.choice(direction)) {
            return self.access(at, memory?, direction);
        }
        let own = memory.and_then(|memory| {
            let place = self.place(at, &memory, direction)?;
            Ok(Own::Here(memory, place))
        });
        let moved = wait(process, &lent, self.together(&talk, at, own, direction));
        moved.map(status)
    }

    /// Starts to read or write together with all other members. One whose arguments are wrong takes part
    /// nevertheless. With `split`, the access is one that begins and ends by calls of their own.
    ///
    /// # Errors
    /// Where the access mode forbids it or the arguments are wrong. Errors on the way are the request's, whose
    /// owner is `owner`.
    pub fn start_all(
        self: &Arc<File>,
        process: &Process,
        owner: u32,
        at: At,
        memory: Result<Memory>,
        direction: Direction,
        split: bool,
    ) -> Result<RequestId> {
        let memory = match split {
            true => memory.and_then(|memory| self.demand_no_split().map(|()| memory)),
            false => memory,
        };
        let vci = self.comm().vci();
        if self.view().representation.needs_caller() {
            // Functions of the program are called here rather than in the midst of some other call.
            if !split {
                return self.start(process, owner, at, memory?, direction);
            }
            let done = self.access_all(process, at, memory, direction)?;
            return Files::ended(process, vci, owner, Ok(done.bytes));
        }
        if at == At::Shared {
            let known = memory.as_ref().err().cloned();
            let file = self.clone();
            return Files::begin(process, self, owner, known, |lent| async move {
                let talk = Talk::started(lent, file.comm());
                file.ordered(&talk, memory, direction).await
            });
        }
        let choice = self.choice(direction);
        let for_each = self.is_for_each(choice) || self.shared().is_atomic();
        if for_each && !split {
            return self.start(process, owner, at, memory?, direction);
        }
        let own = memory.and_then(|memory| {
            let place = self.place(at, &memory, direction)?;
            if !for_each
                && (choice == Choice::Enable && !place.view.overlaps || !moves_alone(&place))
            {
                return Ok(Own::Here(memory, place));
            }
            let at_once =
                self.shared()
                    .transfer_at_once(&place.view, place.position, &memory, direction);
            let (file, mut memory) = (self.clone(), memory);
            let nothing = Place {
                view: place.view.clone(),
                bytes: 0,
                ..place
            };
            let len = memory.buffer.len();
            let outcome = match at_once {
                Some(moved) => Outcome::is(Ok(moved)),
                None => Outcome::of(process, len, move || {
                    let shared = file.shared();
                    shared.transfer(&place.view, place.position, &mut memory, direction)
                }),
            };
            Ok(Own::Alone(outcome, nothing))
        });
        let known = own.as_ref().err().cloned();
        let file = self.clone();
        Files::begin(process, self, owner, known, move |lent| async move {
            let talk = Talk::started(lent, file.comm());
            match own {
                Ok(Own::Alone(outcome, _)) if for_each => outcome.wait().await,
                // The call that begins an access moves the pointer, and nothing does so again (section 13.4.1).
                own => file.together(&talk, At::Explicit(0), own, direction).await,
            }
        })
    }

    /// Accesses at the shared pointer, in the order of ranks. Returns how many bytes were moved.
    async fn ordered(
        &self,
        talk: &Talk<'_>,
        memory: Result<Memory>,
        direction: Direction,
    ) -> Result<u64> {
        let own = memory.and_then(|memory| {
            let (_, etypes, _) = self.measure(At::Shared, &memory, direction)?;
            Ok((memory, etypes))
        });
        let (memory, etypes) = talk.agree(own).await?;
        let comm = self.comm();
        let before = match comm.size() {
            1 => self.pointer().add(etypes)?,
            _ => {
                let all = talk.gather([etypes as u64]).await?;
                let sum: u64 = all.iter().map(|one| one[0]).sum();
                let moved = match comm.rank() {
                    0 => self.pointer().add(sum as i64),
                    _ => Ok(0),
                };
                let moved = talk.agree(moved).await? as u64;
                let base = talk.first(moved).await?;
                let mine: u64 = all[..comm.rank() as usize].iter().map(|one| one[0]).sum();
                (base + mine) as i64
            }
        };
        let view = self.view();
        let bytes = view.representation.bytes(&memory.datatype, memory.count)? as u64;
        let place = view.position(before).and_then(|position| {
            view.position(before.saturating_add(etypes))?;
            Ok(Place {
                view: view.clone(),
                position,
                offset: before,
                etypes,
                bytes,
            })
        });
        let own = place.map(|place| Own::Here(memory, place));
        if comm.size() == 1 || self.choice(direction) == Choice::Disable {
            let Own::Here(memory, place) = own? else {
                return Ok(0);
            };
            return self.transfer(talk, memory, place, direction).await.2;
        }
        self.together(talk, At::Shared, own, direction).await
    }

    /// Moves what this member has, alone.
    async fn transfer(
        &self,
        talk: &Talk<'_>,
        mut memory: Memory,
        place: Place,
        direction: Direction,
    ) -> (Memory, Place, Result<u64>) {
        if place.bytes == 0 {
            return (memory, place, Ok(0));
        }
        let shared = self.shared().clone();
        if !talk.waits()
            && let Some(moved) =
                shared.transfer_at_once(&place.view, place.position, &memory, direction)
        {
            return (memory, place, Ok(moved));
        }
        let len = memory.buffer.len();
        let moved = talk.apart(len, move || {
            let moved = shared.transfer(&place.view, place.position, &mut memory, direction);
            (memory, place, moved)
        });
        moved.await
    }

    /// Decides how, and does it. Returns how many bytes were moved.
    async fn together(
        &self,
        talk: &Talk<'_>,
        at: At,
        own: Result<Own>,
        direction: Direction,
    ) -> Result<u64> {
        let told: Told = match &own {
            Ok(Own::Here(_, place)) => {
                let span = place.view.span(place.position, place.bytes);
                let (runs, bytes) = looked_at(place);
                let apart = place.view.overlaps && place.bytes > 0;
                let runs = if apart { OVERLAPS } else { runs };
                [span.start, span.end, bytes, runs, 0]
            }
            Ok(Own::Alone(..)) => [0; 5],
            Err(error) => [0, 0, 0, 0, system::number(error.class())],
        };
        let all = match talk.gather(told).await {
            Ok(all) => all,
            Err(lost) => {
                // What a thread moves is the program's until it is through.
                if let Ok(Own::Alone(outcome, _)) = own {
                    return outcome.wait().await.and(Err(lost));
                }
                return own.and(Err(lost));
            }
        };
        let wrong = all.iter().position(|one| one[4] != 0).map(|rank| {
            let why = format!(
                "rank {rank} of the file could not take part in the collective access; its own error \
                 says why"
            );
            Error::new(system::class(all[rank][4]), why)
        });
        let together = !self.shared().is_atomic() && pays(&all, self.choice(direction));
        match (own?, wrong) {
            (Own::Alone(outcome, nothing), wrong) => {
                let others = match wrong {
                    Some(wrong) => Err(wrong),
                    None if together => self.help(talk, &all, &nothing, direction).await,
                    None => Ok(()),
                };
                outcome
                    .wait()
                    .await
                    .and_then(|moved| others.map(|()| moved))
            }
            (Own::Here(memory, place), Some(wrong)) => {
                self.correct(at, &place, &memory, 0)?;
                Err(wrong)
            }
            (Own::Here(mut memory, place), None) if together => {
                let moved = self
                    .in_phases(talk, &all, &place, &mut memory, direction)
                    .await;
                let had = moved.as_ref().map_or(0, |moved| *moved);
                self.correct(at, &place, &memory, had)?;
                moved
            }
            (Own::Here(memory, place), None) => {
                let (memory, place, moved) = self.transfer(talk, memory, place, direction).await;
                let had = moved.as_ref().map_or(0, |moved| *moved);
                self.correct(at, &place, &memory, had)?;
                moved
            }
        }
    }

    /// Takes part in the two phases of others, without data.
    async fn help(
        &self,
        talk: &Talk<'_>,
        all: &[Told],
        nothing: &Place,
        direction: Direction,
    ) -> Result<()> {
        if !nothing.view.representation.is_plain() {
            talk.agree(Ok(())).await?;
        }
        let mut buffer = no_data();
        let moved = two_phases(self, talk, all, nothing, &mut buffer, direction);
        moved.await.map(drop)
    }

    /// Moves data in two phases, as it is in the file.
    async fn in_phases(
        &self,
        talk: &Talk<'_>,
        all: &[Told],
        place: &Place,
        memory: &mut Memory,
        direction: Direction,
    ) -> Result<u64> {
        let representation = &place.view.representation;
        if representation.is_plain() {
            return two_phases(self, talk, all, place, &mut memory.buffer, direction).await;
        }
        // Who can't convert takes part without data, and says so at the end.
        let file = Converted::new(representation, memory, direction);
        let mut file = talk.agree(file).await?;
        let mut buffer = file.buffer();
        let moved = two_phases(self, talk, all, place, &mut buffer, direction).await?;
        file.finish(representation, memory, direction, moved)
    }
}

/// How many runs an access has, and how many bytes, as far as they are looked at.
fn looked_at(place: &Place) -> (u64, u64) {
    let runs = place.view.runs(place.position, place.bytes).take(LOOKED_AT);
    runs.fold((0, 0), |(n, sum), run| (n + 1, sum + run.len))
}

/// Whether it is best moved by its member alone, whatever the others have.
fn moves_alone(place: &Place) -> bool {
    if place.view.overlaps {
        return true;
    }
    let (runs, bytes) = looked_at(place);
    runs == 1 || (runs > 1 && bytes / runs >= LONG)
}

/// Whether two phases are better than each member's own calls.
fn pays(all: &[Told], choice: Choice) -> bool {
    if all.iter().any(|one| one[3] == OVERLAPS) {
        return false;
    }
    match choice {
        Choice::Enable => return true,
        Choice::Disable => return false,
        Choice::Automatic => {}
    }
    let mut spans: Vec<(u64, u64)> = all
        .iter()
        .filter(|one| one[1] > one[0])
        .map(|one| (one[0], one[1]))
        .collect();
    spans.sort_unstable();
    let interleaved = spans.windows(2).any(|pair| pair[1].0 < pair[0].1);
    let bytes: u64 = all.iter().map(|one| one[2]).sum();
    let runs: u64 = all.iter().map(|one| one[3]).sum();
    interleaved && bytes / runs.max(1) < LONG
}
