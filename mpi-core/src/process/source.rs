//! What makes progress in a process beside the messages of its VCIs, and what is kept with it.
//!
//! The process knows no collectives, windows or files: their rooms register here, each in a place of
//! its own, and say when they have something to do. A poll looks at one byte for each.

#![deny(unsafe_code)]

use std::any::Any;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use netmod::{Peer, VciId};

use super::Process;
use crate::error::{Error, Result};
use crate::pt2pt::letter::Letter;

/// Something that makes progress when the process does.
pub trait ProgressSource: Any + Send + Sync {
    /// Takes in what other processes have brought about by stores. Called before messages are polled
    /// for, while [`Work::stores`] is set. Returns whether so much happened that messages can wait.
    fn advance_by_stores(&self, _process: &Process) -> Result<bool> {
        Ok(false)
    }

    /// Goes on with what is under way on any VCI. Returns whether anything happened.
    fn advance(&self, _process: &Process) -> Result<bool> {
        Ok(false)
    }

    /// Goes on with what is under way on one VCI, which has been polled; `moved`: that brought something.
    /// Returns whether anything happened.
    fn advance_on(&self, _process: &Process, _vci: VciId, _moved: bool) -> Result<bool> {
        Ok(false)
    }

    /// A thread that waits on a VCI is about to sleep. Returns whether anything happened, so that it looks first.
    fn before_sleep(&self, _process: &Process, _vci: VciId) -> Result<bool> {
        Ok(false)
    }

    /// Reads a letter that has come on a VCI, if it is for this one.
    fn read_letter(&self, _process: &Process, _vci: VciId, _letter: &Letter) {}

    /// Whether it knows by [`ProgressSource::loss_for_any`] which losses matter to receives from any source.
    fn is_judge(&self) -> bool {
        false
    }

    /// The loss because of which the program's receives from any source, on what requests call `owner`, can't be
    /// relied on.
    fn loss_for_any(&self, _process: &Process, _owner: u32) -> Option<Error> {
        None
    }

    /// Those whose loss is to be found while receives from any source wait, on what requests call by these names.
    fn senders_to(&self, _owners: &[u32]) -> Vec<Peer> {
        Vec::new()
    }

    /// The processes that something on a VCI waits for without a request that says so.
    fn awaited_on(&self, _vci: VciId) -> Vec<Peer> {
        Vec::new()
    }

    /// Adds to a report what is waited for, a line each.
    fn report(&self, _text: &mut String) {}
}

/// A kind of [`ProgressSource`] with its place in every process.
pub trait Source: ProgressSource + Sized {
    /// Its place: a number below [`SOURCES`] that no other kind has.
    const PLACE: usize;

    /// One that has nothing under way, for a process that was given none.
    fn new(process: &Process) -> Self;
}

/// How many kinds of sources there can be.
pub const SOURCES: usize = 8;

/// The place of what all collectives share.
pub const COLLECTIVES: usize = 0;
/// The place of windows.
pub const WINDOWS: usize = 1;
/// The place of files.
pub const FILES: usize = 2;
/// The place of partitioned receives.
pub const PARTITIONED: usize = 3;
/// The place of nonblocking collectives.
pub const NONBLOCKING_COLLECTIVES: usize = 4;
/// The place of persistent collectives.
pub const PERSISTENT_COLLECTIVES: usize = 5;
/// The place of the program's own functions that progress calls. Those for a VCI are called only by who polls just that.
pub const POLLED: usize = 6;
/// The place of what goes on after a loss.
pub const FAILURES: usize = 7;

/// What a source has to do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Work {
    /// Something is under way.
    pub any: bool,
    /// Some of it waits for stores, which wake nobody up.
    pub stores: bool,
}

/// The lowest bit of each source's two in the common word, and the other.
const ANY: u32 = 0x5555_5555;
const STORES: u32 = ANY << 1;

/// The bits of the source in a place.
const fn bits_of(place: usize) -> u32 {
    0b11 << (2 * place)
}

/// The sources of a process.
#[derive(Default)]
pub struct Sources {
    list: [OnceLock<Box<dyn ProgressSource>>; SOURCES],
    /// What they have to do, two bits each: whoever polls looks at one word.
    work: AtomicU32,
    /// A poll has brought something, and they were not told.
    moved: AtomicBool,
}

impl Sources {
    /// With one more.
    #[must_use]
    pub fn with<S: Source>(self, source: S) -> Sources {
        let _ = self.list[S::PLACE].set(Box::new(source));
        self
    }

    /// Whether a source waits for stores.
    #[inline(always)]
    pub(super) fn await_stores(&self) -> bool {
        self.has(STORES)
    }

    /// Whether a source has something under way.
    #[inline(always)]
    pub(super) fn have_work(&self) -> bool {
        self.has(ANY)
    }

    /// A poll has brought something, and the sources are not called now.
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

    /// [`ProgressSource::advance_by_stores`] of those that wait for some.
    #[cold]
    pub(super) fn advance_by_stores(&self, process: &Process) -> Result<bool> {
        self.with_work(STORES).try_fold(false, |any, source| {
            Ok(any | source.advance_by_stores(process)?)
        })
    }

    /// [`ProgressSource::advance`] of those that have something to do.
    #[cold]
    pub(super) fn advance(&self, process: &Process) -> Result<bool> {
        self.with_work(ANY)
            .try_fold(false, |any, source| Ok(any | source.advance(process)?))
    }

    /// [`ProgressSource::advance_on`] of those that have something to do, in a round over all VCIs.
    #[cold]
    pub(super) fn advance_on(&self, process: &Process, vci: VciId, moved: bool) -> Result<bool> {
        let mut all = self.with_work(ANY & !bits_of(POLLED));
        all.try_fold(false, |any, source| {
            Ok(any | source.advance_on(process, vci, moved)?)
        })
    }

    /// [`ProgressSource::before_sleep`] of those that have something to do.
    #[cold]
    pub(super) fn before_sleep(&self, process: &Process, vci: VciId) -> Result<bool> {
        self.with_work(ANY).try_fold(false, |any, source| {
            Ok(any | source.before_sleep(process, vci)?)
        })
    }

    /// Both for one VCI: what a poll does.
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

    /// All that were made.
    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn ProgressSource> {
        self.list.iter().filter_map(OnceLock::get).map(|one| &**one)
    }
}

impl Process {
    /// The source of a kind, made when it is first asked for.
    ///
    /// # Panics
    /// Two kinds have the same place.
    #[inline]
    pub fn source<S: Source>(&self) -> &S {
        let make = || -> Box<dyn ProgressSource> { Box::new(S::new(self)) };
        let source: &dyn Any = &**self.sources.list[S::PLACE].get_or_init(make);
        match source.downcast_ref() {
            Some(source) => source,
            None => unreachable!("two kinds of sources share a place"),
        }
    }

    /// A source says what it has to do. Calls for one kind must not overlap.
    #[inline]
    pub fn set_work<S: Source>(&self, work: Work) {
        let mine = bits_of(S::PLACE);
        let wanted = ((u32::from(work.any) * ANY) | (u32::from(work.stores) * STORES)) & mine;
        let word = &self.sources.work;
        // Nobody else changes these two bits meanwhile.
        let change = (word.load(Ordering::Relaxed) & mine) ^ wanted;
        if change != 0 {
            // Release: who finds it set finds what is to be done.
            word.fetch_xor(change, Ordering::Release);
        }
    }
}
