//! Progress sources: state that makes progress with the process but is not part of its VCIs.
//!
//! The process does not know collectives, windows or files. Their modules register here, each under
//! a number of its own, and announce whether they have work. A poll reads two bits for each.

#![deny(unsafe_code)]

use std::any::Any;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use netmod::{Peer, VciId};

use super::Process;
use crate::error::{Error, Result};
use crate::pt2pt::notice::Notice;

/// A source of progress beside messages.
pub trait ProgressSource: Any + Send + Sync {
    /// Progresses operations that wait for stores of other processes. Called before messages are
    /// polled while [`Work::stores`] is set. Returns whether enough happened to skip the messages.
    fn advance_by_stores(&self, _process: &Process) -> Result<bool> {
        Ok(false)
    }

    /// Progresses operations on any VCI. Returns whether anything happened.
    fn advance(&self, _process: &Process) -> Result<bool> {
        Ok(false)
    }

    /// Progresses operations on one VCI after a poll of it; `moved` tells whether the poll found
    /// anything. Returns whether anything happened.
    fn advance_on(&self, _process: &Process, _vci: VciId, _moved: bool) -> Result<bool> {
        Ok(false)
    }

    /// Called before a thread that waits on a VCI sleeps. Returns whether anything happened, so
    /// that the thread polls again.
    fn before_sleep(&self, _process: &Process, _vci: VciId) -> Result<bool> {
        Ok(false)
    }

    /// Called before the loss of a process is recorded: what the source keeps ready for accesses to
    /// the process without a check must be gone when a call can know of the loss.
    fn before_loss(&self, _peer: Peer) {}

    /// Reads a notice that has arrived on a VCI. Ignores notices of other sources.
    fn read_notice(&self, _process: &Process, _vci: VciId, _letter: &Notice) {}

    /// Whether the source decides, by [`ProgressSource::loss_for_any`], which failures affect
    /// receives from any source.
    fn is_judge(&self) -> bool {
        false
    }

    /// Returns the failure that makes receives from any source on communicator `owner` unreliable.
    fn loss_for_any(&self, _process: &Process, _owner: u32) -> Option<Error> {
        None
    }

    /// Returns the processes to check for failure while receives from any source wait on the
    /// communicators `owners`.
    fn senders_to(&self, _owners: &[u32]) -> Vec<Peer> {
        Vec::new()
    }

    /// Returns the processes that operations on a VCI wait for without a request.
    fn awaited_on(&self, _vci: VciId) -> Vec<Peer> {
        Vec::new()
    }

    /// Appends what the source waits for to a report, one line each.
    fn report(&self, _text: &mut String) {}
}

/// A type of [`ProgressSource`] with its number in every process.
pub trait Source: ProgressSource + Sized {
    /// Number below [`SOURCES`], unique among all types.
    const ID: usize;

    /// Creates an idle source, for a process that was configured with none.
    fn new(process: &Process) -> Self;
}

/// Maximum number of types of sources.
pub const SOURCES: usize = 8;

/// Number of the state shared by all collectives.
pub const COLLECTIVES: usize = 0;
/// Number of windows.
pub const WINDOWS: usize = 1;
/// Number of files.
pub const FILES: usize = 2;
/// Number of partitioned receives.
pub const PARTITIONED: usize = 3;
/// Number of nonblocking collectives.
pub const NONBLOCKING_COLLECTIVES: usize = 4;
/// Number of persistent collectives.
pub const PERSISTENT_COLLECTIVES: usize = 5;
/// Number of user functions that progress calls. Functions of a VCI are called only by a poll of
/// that VCI.
pub const POLLED: usize = 6;
/// Number of failure handling.
pub const FAILURES: usize = 7;

/// The work that a source has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Work {
    /// Operations are in progress.
    pub any: bool,
    /// Some of them wait for stores, which wake no sleeper.
    pub stores: bool,
}

/// Bit of each source for [`Work::any`] in the common word; [`STORES`] for [`Work::stores`].
const ANY: u32 = 0x5555_5555;
const STORES: u32 = ANY << 1;

/// Returns the bits of source number `place`.
const fn bits_of(place: usize) -> u32 {
    0b11 << (2 * place)
}

/// The sources of a process.
#[derive(Default)]
pub struct Sources {
    list: [OnceLock<Box<dyn ProgressSource>>; SOURCES],
    /// Two bits for each source, so that a poll reads one word.
    work: AtomicU32,
    /// A poll found messages without calling the sources.
    moved: AtomicBool,
}

impl Sources {
    /// Adds a source.
    #[must_use]
    pub fn with<S: Source>(self, source: S) -> Sources {
        let _ = self.list[S::ID].set(Box::new(source));
        self
    }

    /// Whether a source waits for stores.
    #[inline(always)]
    pub(super) fn await_stores(&self) -> bool {
        self.has(STORES)
    }

    /// Whether a source has work.
    #[inline(always)]
    pub(super) fn have_work(&self) -> bool {
        self.has(ANY)
    }

    /// Records that a poll found messages without calling the sources.
    #[inline]
    pub(super) fn note_moved(&self) {
        self.moved.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    fn take_moved(&self) -> bool {
        let moved = self.moved.load(Ordering::Relaxed);
        if moved {
            self.moved.store(false, Ordering::Relaxed);
        }
        moved
    }

    #[inline(always)]
    fn has(&self, what: u32) -> bool {
        self.work.load(Ordering::Acquire) & what != 0
    }

    #[inline(always)]
    fn with_work(&self, what: u32) -> impl Iterator<Item = &dyn ProgressSource> {
        let mut found = self.work.load(Ordering::Acquire) & what;
        std::iter::from_fn(move || {
            while found != 0 {
                let place = found.trailing_zeros() as usize / 2;
                found &= !bits_of(place);
                if let Some(source) = self.list.get(place).and_then(OnceLock::get) {
                    return Some(&**source);
                }
            }
            None
        })
    }

    /// Calls [`ProgressSource::advance_by_stores`] of sources that wait for stores.
    #[cold]
    pub(super) fn advance_by_stores(&self, process: &Process) -> Result<bool> {
        self.with_work(STORES).try_fold(false, |any, source| {
            Ok(any | source.advance_by_stores(process)?)
        })
    }

    /// Calls [`ProgressSource::advance`] of sources that have work.
    #[cold]
    pub(super) fn advance(&self, process: &Process) -> Result<bool> {
        self.with_work(ANY)
            .try_fold(false, |any, source| Ok(any | source.advance(process)?))
    }

    /// Calls [`ProgressSource::advance_on`] of sources that have work, in a round over all VCIs.
    #[cold]
    pub(super) fn advance_on(&self, process: &Process, vci: VciId, moved: bool) -> Result<bool> {
        let mut all = self.with_work(ANY & !bits_of(POLLED));
        all.try_fold(false, |any, source| {
            Ok(any | source.advance_on(process, vci, moved)?)
        })
    }

    /// Calls [`ProgressSource::before_sleep`] of sources that have work.
    #[cold]
    pub(super) fn before_sleep(&self, process: &Process, vci: VciId) -> Result<bool> {
        self.with_work(ANY).try_fold(false, |any, source| {
            Ok(any | source.before_sleep(process, vci)?)
        })
    }

    /// Calls [`ProgressSource::advance`] and [`ProgressSource::advance_on`] after a poll of one
    /// VCI.
    #[inline(never)]
    pub(super) fn advance_with(&self, process: &Process, vci: VciId, moved: bool) -> Result<bool> {
        let mut any = false;
        let moved = moved || self.take_moved();
        for source in self.with_work(ANY) {
            any |= source.advance(process)?;
            any |= source.advance_on(process, vci, moved)?;
        }
        Ok(any)
    }

    /// Returns all sources that exist.
    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn ProgressSource> {
        self.list.iter().filter_map(OnceLock::get).map(|one| &**one)
    }
}

impl Process {
    /// Returns the source of type `S`; the first call creates it.
    ///
    /// # Panics
    /// If another type has the same number.
    #[inline]
    pub fn source<S: Source>(&self) -> &S {
        let make = || -> Box<dyn ProgressSource> { Box::new(S::new(self)) };
        let source: &dyn Any = &**self.sources.list[S::ID].get_or_init(make);
        match source.downcast_ref() {
            Some(source) => source,
            None => unreachable!("internal error: two types of sources have the same number"),
        }
    }

    /// Announces the work of a source. Calls for one type must not overlap.
    #[inline]
    pub fn set_work<S: Source>(&self, work: Work) {
        let mine = bits_of(S::ID);
        let wanted = ((u32::from(work.any) * ANY) | (u32::from(work.stores) * STORES)) & mine;
        let word = &self.sources.work;
        // Only calls for this source change its two bits, and they do not overlap.
        let change = (word.load(Ordering::Relaxed) & mine) ^ wanted;
        if change != 0 {
            // Release: a poll that sees the bits sees the operations.
            word.fetch_xor(change, Ordering::Release);
        }
    }
}
