//! Collective access (MPI-3.1 section 13.4): in two phases if the members' data is interleaved, by
//! each member alone otherwise.
//!
//! In the two phases (`phases`) *aggregators* move whole windows of the file. First the members
//! exchange the beginning and end of their accesses, from which each of them derives who exchanges
//! data with whom.
//!
//! A system error of an aggregator is an error of all members. No member waits for one that may
//! have given up: a member whose arguments are wrong reports that at the beginning, and each wait
//! ends when a member is lost.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mpi_core::{Process, RequestId, Status};
use mpi_types::{Error, Result};

use crate::access::Converted;
use crate::direction::Direction;
use crate::exchange::{Exchange, Outcome};
use crate::file::{At, File, Region};
use crate::files::{Files, status};
use crate::hints::Choice;
use crate::lent::Lent;
use crate::memory::Memory;
use crate::phases::{AccessSummary, no_data, two_phases};
use crate::system;

/// Runs examined to estimate their length.
const LOOKED_AT: usize = 64;

/// Least average length of runs in bytes with which each member moves its own data.
const LONG: u64 = 256 << 10;

/// The number of runs that a member reports if its view has bytes of the file several times:
/// windows of the file are then not contiguous parts of its data.
const OVERLAPS: u64 = u64::MAX;

/// The contribution of a member to a collective access.
enum Contribution {
    /// Data to be moved by the better of the two methods.
    Here(Memory, Region),
    /// Data that a thread already moves, because that is better whatever the others have.
    Alone(Outcome<Result<u64>>, Region),
}

/// Runs a collective access for a call that waits for it.
fn wait<T>(process: &Process, lent: &Lent, work: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match lent.lend(process, || pin!(work).poll(&mut context)) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("where the caller waits each step does"),
    }
}

impl File {
    /// Returns the hint on two-phase access.
    fn choice(&self, direction: Direction) -> Choice {
        let hints = self.shared().hints();
        match direction {
            Direction::Read => hints.cb_read,
            Direction::Write => hints.cb_write,
        }
    }

    /// Returns whether members need not even exchange their extents.
    fn is_for_each(&self, choice: Choice) -> bool {
        let no_indep = self.shared().hints().no_indep_rw;
        self.comm().size() == 1 || (choice == Choice::Disable && !no_indep)
    }

    /// Reads or writes together with all other members. A member whose arguments are wrong takes
    /// part by reporting that.
    ///
    /// # Errors
    /// Those of [`File::access`], of any member if members move data for each other.
    pub fn access_all(
        &self,
        process: &Process,
        at: At,
        memory: Result<Memory>,
        direction: Direction,
    ) -> Result<Status> {
        let memory = memory.and_then(|memory| self.demand_no_split().map(|()| memory));
        let lent = Arc::new(Lent::default());
        let exchange = Exchange::waiting(lent.clone(), self.comm());
        if at == At::Shared {
            let moved = wait(process, &lent, self.ordered(&exchange, memory, direction));
            return moved.map(status);
        }
        if self.is_for_each(self.choice(direction)) {
            return self.access(at, memory?, direction);
        }
        let own = memory.and_then(|memory| {
            let place = self.place(at, &memory, direction)?;
            Ok(Contribution::Here(memory, place))
        });
        let moved = wait(process, &lent, self.together(&exchange, at, own, direction));
        moved.map(status)
    }

    /// Starts to read or write together with all other members. A member whose arguments are wrong
    /// takes part without data. With `split`, the access is a split collective one.
    ///
    /// # Errors
    /// The access mode forbids it or the arguments are wrong. OnDemand errors belong to the
    /// request, whose owner is `owner`.
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
            // Functions of the program are called here, not within an unrelated call.
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
                let exchange = Exchange::started(lent, file.comm());
                file.ordered(&exchange, memory, direction).await
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
                return Ok(Contribution::Here(memory, place));
            }
            let at_once =
                self.shared()
                    .try_transfer(&place.view, place.position, &memory, direction);
            let (file, mut memory) = (self.clone(), memory);
            let nothing = Region {
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
            Ok(Contribution::Alone(outcome, nothing))
        });
        let known = own.as_ref().err().cloned();
        let file = self.clone();
        Files::begin(process, self, owner, known, move |lent| async move {
            let exchange = Exchange::started(lent, file.comm());
            match own {
                Ok(Contribution::Alone(outcome, _)) if for_each => outcome.wait().await,
                // The call that begins an access moves the pointer; completing it does not (section
                // 13.4.1).
                own => {
                    file.together(&exchange, At::Explicit(0), own, direction)
                        .await
                }
            }
        })
    }

    /// Accesses the file at the shared pointer, in rank order. Returns the bytes moved.
    async fn ordered(
        &self,
        exchange: &Exchange<'_>,
        memory: Result<Memory>,
        direction: Direction,
    ) -> Result<u64> {
        let own = memory.and_then(|memory| {
            let (_, etypes, _) = self.measure(At::Shared, &memory, direction)?;
            Ok((memory, etypes))
        });
        let (memory, etypes) = exchange.agree(own).await?;
        let comm = self.comm();
        let before = match comm.size() {
            1 => self.pointer().add(etypes)?,
            _ => {
                let all = exchange.gather([etypes as u64]).await?;
                let sum: u64 = all.iter().map(|one| one[0]).sum();
                let moved = match comm.rank() {
                    0 => self.pointer().add(sum as i64),
                    _ => Ok(0),
                };
                let moved = exchange.agree(moved).await? as u64;
                let base = exchange.first(moved).await?;
                let mine: u64 = all[..comm.rank() as usize].iter().map(|one| one[0]).sum();
                (base + mine) as i64
            }
        };
        let view = self.view();
        let bytes = view.representation.bytes(&memory.datatype, memory.count)? as u64;
        let place = view.position(before).and_then(|position| {
            view.position(before.saturating_add(etypes))?;
            Ok(Region {
                view: view.clone(),
                position,
                offset: before,
                etypes,
                bytes,
            })
        });
        let own = place.map(|place| Contribution::Here(memory, place));
        if comm.size() == 1 || self.choice(direction) == Choice::Disable {
            let Contribution::Here(memory, place) = own? else {
                return Ok(0);
            };
            return self.transfer(exchange, memory, place, direction).await.2;
        }
        self.together(exchange, At::Shared, own, direction).await
    }

    /// Moves this member's data, alone.
    async fn transfer(
        &self,
        exchange: &Exchange<'_>,
        mut memory: Memory,
        place: Region,
        direction: Direction,
    ) -> (Memory, Region, Result<u64>) {
        if place.bytes == 0 {
            return (memory, place, Ok(0));
        }
        let shared = self.shared().clone();
        if !exchange.waits()
            && let Some(moved) =
                shared.try_transfer(&place.view, place.position, &memory, direction)
        {
            return (memory, place, Ok(moved));
        }
        let len = memory.buffer.len();
        let moved = exchange.apart(len, move || {
            let moved = shared.transfer(&place.view, place.position, &mut memory, direction);
            (memory, place, moved)
        });
        moved.await
    }

    /// Chooses the method, and moves the data. Returns the bytes moved.
    async fn together(
        &self,
        exchange: &Exchange<'_>,
        at: At,
        own: Result<Contribution>,
        direction: Direction,
    ) -> Result<u64> {
        let summary: AccessSummary = match &own {
            Ok(Contribution::Here(_, place)) => {
                let span = place.view.span(place.position, place.bytes);
                let (runs, bytes) = looked_at(place);
                let apart = place.view.overlaps && place.bytes > 0;
                let runs = if apart { OVERLAPS } else { runs };
                [span.start, span.end, bytes, runs, 0]
            }
            Ok(Contribution::Alone(..)) => [0; 5],
            Err(error) => [0, 0, 0, 0, system::number(error.class())],
        };
        let all = match exchange.gather(summary).await {
            Ok(all) => all,
            Err(lost) => {
                // The thread uses the program's memory until it is finished.
                if let Ok(Contribution::Alone(outcome, _)) = own {
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
            (Contribution::Alone(outcome, nothing), wrong) => {
                let others = match wrong {
                    Some(wrong) => Err(wrong),
                    None if together => self.help(exchange, &all, &nothing, direction).await,
                    None => Ok(()),
                };
                outcome
                    .wait()
                    .await
                    .and_then(|moved| others.map(|()| moved))
            }
            (Contribution::Here(memory, place), Some(wrong)) => {
                self.correct(at, &place, &memory, 0)?;
                Err(wrong)
            }
            (Contribution::Here(mut memory, place), None) if together => {
                let moved = self
                    .in_phases(exchange, &all, &place, &mut memory, direction)
                    .await;
                let had = moved.as_ref().map_or(0, |moved| *moved);
                self.correct(at, &place, &memory, had)?;
                moved
            }
            (Contribution::Here(memory, place), None) => {
                let (memory, place, moved) =
                    self.transfer(exchange, memory, place, direction).await;
                let had = moved.as_ref().map_or(0, |moved| *moved);
                self.correct(at, &place, &memory, had)?;
                moved
            }
        }
    }

    /// Takes part in the two phases without data.
    async fn help(
        &self,
        exchange: &Exchange<'_>,
        all: &[AccessSummary],
        nothing: &Region,
        direction: Direction,
    ) -> Result<()> {
        if !nothing.view.representation.is_unconverted() {
            exchange.agree(Ok(())).await?;
        }
        let mut buffer = no_data();
        let moved = two_phases(self, exchange, all, nothing, &mut buffer, direction);
        moved.await.map(drop)
    }

    /// Moves data that may need conversion, in two phases.
    async fn in_phases(
        &self,
        exchange: &Exchange<'_>,
        all: &[AccessSummary],
        place: &Region,
        memory: &mut Memory,
        direction: Direction,
    ) -> Result<u64> {
        let representation = &place.view.representation;
        if representation.is_unconverted() {
            return two_phases(self, exchange, all, place, &mut memory.buffer, direction).await;
        }
        // A member that cannot convert its data takes part without data, and reports the error at
        // the end.
        let file = Converted::new(representation, memory, direction);
        let mut file = exchange.agree(file).await?;
        let mut buffer = file.buffer();
        let moved = two_phases(self, exchange, all, place, &mut buffer, direction).await?;
        file.finish(representation, memory, direction, moved)
    }
}

/// Returns the number of runs and bytes of an access, for at most [`LOOKED_AT`] runs.
fn looked_at(place: &Region) -> (u64, u64) {
    let runs = place.view.runs(place.position, place.bytes).take(LOOKED_AT);
    runs.fold((0, 0), |(n, sum), run| (n + 1, sum + run.len))
}

/// Returns whether a member moves its data alone, whatever the others have.
fn moves_alone(place: &Region) -> bool {
    if place.view.overlaps {
        return true;
    }
    let (runs, bytes) = looked_at(place);
    runs == 1 || (runs > 1 && bytes / runs >= LONG)
}

/// Returns whether two phases are better than each member's own calls.
fn pays(all: &[AccessSummary], choice: Choice) -> bool {
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
