//! Synchronisation (section 11.5): which epochs are open, and how they begin and end.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::Mutex;

use super::message::{self, Kind};
use super::queue::GRANTED;
use super::targets::Targets;
use super::{Way, Window};
use mpi_core::notes::Awaited;
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_types::error::{Class, Error, Result};

const SHARED: u8 = 1;
const EXCLUSIVE: u8 = 2;
/// With one of the above: no lock was taken (`MPI_MODE_NOCHECK`).
const UNCHECKED: u8 = 4;
pub(super) const STARTED: u8 = 8;
/// A lock of `MPI_Win_lock_all`'s has been taken.
const OF_ALL: u8 = 16;
/// Something has been sent to the target that no answer has confirmed.
const DIRTY: u8 = 32;
const EPOCHS: u8 = SHARED | EXCLUSIVE | UNCHECKED | STARTED | OF_ALL;

pub(super) const FENCE: u8 = 1;
pub(super) const LOCK_ALL: u8 = 2;
const LOCK_ALL_UNCHECKED: u8 = 4;

/// The epochs of a window in this process.
pub(super) struct Epochs {
    /// Access epochs by target, and what is under way there.
    pub targets: Targets,
    /// Access epochs to all targets.
    all: AtomicU8,
    /// Whether something was done in the epoch that a fence began.
    pub fence_used: AtomicBool,
    pub state: Mutex<State>,
    /// Held while a lock that was put off is taken.
    late: Mutex<()>,
}

#[derive(Default)]
pub(super) struct State {
    /// Targets of `MPI_Win_start`.
    pub started: Option<Vec<u32>>,
    /// Origins of `MPI_Win_post`.
    pub posted: Option<Vec<u32>>,
    /// Locks held by `MPI_Win_lock`.
    pub locks: u32,
}

/// What `MPI_Win_fence` is told (section 11.5.5), as far as it matters here.
#[derive(Clone, Copy, Default, Debug)]
pub struct FenceAssert {
    /// No epoch begins (`MPI_MODE_NOSUCCEED`).
    pub no_succeed: bool,
    /// None ends (`MPI_MODE_NOPRECEDE`).
    pub no_precede: bool,
}

#[cold]
pub(super) fn sync_error(what: impl Into<String>) -> Error {
    Error::new(Class::RmaSync, what)
}

impl Epochs {
    pub fn new(members: usize) -> Epochs {
        Epochs {
            targets: Targets::new(members),
            all: AtomicU8::new(0),
            fence_used: AtomicBool::new(false),
            state: Mutex::default(),
            late: Mutex::default(),
        }
    }

    /// Whether `target` may be accessed.
    #[inline(always)]
    fn check(&self, target: usize) -> Result<()> {
        let (one, all) = (self.one(target), self.all());
        if one == 0 && all & (FENCE | LOCK_ALL) == 0 {
            return Err(sync_error(format!(
                "no epoch is open in which rank {target} may be accessed; call MPI_Win_fence, \
                 MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all first"
            )));
        }
        if one == 0 && all & LOCK_ALL == 0 && !self.fence_used.load(Ordering::Relaxed) {
            self.fence_used.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline(always)]
    fn one(&self, target: usize) -> u8 {
        self.targets.get(target as u32) & EPOCHS
    }

    #[inline(always)]
    pub fn all(&self) -> u8 {
        self.all.load(Ordering::Relaxed)
    }

    /// Whether `target` is locked, as flushes and request-based calls need it.
    #[inline(always)]
    pub fn check_passive(&self, target: usize) -> Result<()> {
        if self.one(target) & (SHARED | EXCLUSIVE) != 0 || self.all() & LOCK_ALL != 0 {
            return Ok(());
        }
        Err(sync_error(format!(
            "rank {target} is not locked, which this function needs; call MPI_Win_lock or \
             MPI_Win_lock_all first"
        )))
    }

    /// Takes note that something was sent to a target which a flush must confirm.
    pub fn soil(&self, target: u32) {
        self.targets.change(target, 0, DIRTY);
    }

    /// Takes that note away. Returns whether there was one.
    fn clean(&self, target: u32) -> bool {
        self.targets.get(target) & DIRTY != 0 && self.targets.change(target, DIRTY, 0) & DIRTY != 0
    }

    /// Whether `target` may be accessed, for the short way: no error is made.
    #[inline(always)]
    pub fn is_open(&self, target: u32) -> bool {
        let all = self.all();
        if all & LOCK_ALL != 0 {
            return true;
        }
        if all & FENCE != 0 && !self.fence_used.load(Ordering::Relaxed) {
            return false;
        }
        all & FENCE != 0 || self.targets.get_quick(target) & EPOCHS != 0
    }

    /// Whether `target` is locked, for the short way.
    #[inline(always)]
    pub fn is_locked(&self, target: u32) -> bool {
        self.all() & LOCK_ALL != 0 || self.targets.get_quick(target) & (SHARED | EXCLUSIVE) != 0
    }

    /// Bytes of memory, with `noted` targets under way.
    pub fn bytes(&self, noted: usize) -> usize {
        self.targets.bytes(noted)
    }

    fn check_any_passive(&self) -> Result<()> {
        if self.all() & LOCK_ALL != 0 || self.state.lock().locks > 0 {
            return Ok(());
        }
        Err(sync_error(
            "nothing is locked, which this function needs; call MPI_Win_lock or MPI_Win_lock_all \
             first",
        ))
    }

    pub fn check_free(&self) -> Result<()> {
        let state = self.state.lock();
        let open = if state.locks > 0 {
            "MPI_Win_lock has locked a target; call MPI_Win_unlock"
        } else if self.all() & LOCK_ALL != 0 {
            "MPI_Win_lock_all has locked all targets; call MPI_Win_unlock_all"
        } else if state.started.is_some() {
            "MPI_Win_start has begun an access epoch; call MPI_Win_complete"
        } else if state.posted.is_some() {
            "MPI_Win_post has begun an exposure epoch; call MPI_Win_wait"
        } else {
            return Ok(());
        };
        Err(sync_error(format!("{open} before the window is freed")))
    }

    /// Before another access epoch begins: an open fence has not begun one if nothing was done.
    pub fn leave_fence(&self) -> Result<()> {
        if self.all() & FENCE != 0 {
            if self.fence_used.load(Ordering::Relaxed) {
                return Err(sync_error(
                    "an epoch of MPI_Win_fence is open, in which something was done; end it by \
                     MPI_Win_fence with MPI_MODE_NOSUCCEED first",
                ));
            }
            self.all.fetch_and(!FENCE, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Makes everything before visible everywhere before anything after happens.
#[inline(always)]
pub(super) fn full_fence() {
    // A locked instruction orders all loads and stores as `mfence` does, at half the price. (Streaming
    // stores of long copies end with their own fence, in the C library.)
    #[cfg(target_arch = "x86_64")]
    // SAFETY: adds 0 to a word of this function's own stack; no stack pointer moves, and memory that
    // the compiler keeps in registers is written back, since `asm` may read and write memory.
    unsafe {
        let mut own = 0u32;
        std::arch::asm!("lock or dword ptr [{}], 0", in(reg) &raw mut own, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

impl Window {
    /// Checks that `target` may be accessed, and takes its lock where that was put off.
    #[inline(always)]
    pub(super) fn enter(&self, process: &Process, target: u32) -> Result<()> {
        self.epochs.check(target as usize)?;
        if self.way == Way::Messages && self.epochs.all() & LOCK_ALL != 0 {
            self.lock_late(process, target, true)?;
        }
        Ok(())
    }

    /// Opens or closes an epoch between two fences (`MPI_Win_fence`).
    pub fn fence(&self, process: &Process, assert: FenceAssert) -> Result<()> {
        {
            let state = self.epochs.state.lock();
            if state.locks > 0 || self.epochs.all() & LOCK_ALL != 0 {
                return Err(sync_error(
                    "a target is locked; unlock it before MPI_Win_fence",
                ));
            }
            if state.started.is_some() || state.posted.is_some() {
                return Err(sync_error(
                    "an epoch of MPI_Win_start or MPI_Win_post is open; end it before MPI_Win_fence",
                ));
            }
            if assert.no_precede && self.epochs.fence_used.load(Ordering::Relaxed) {
                return Err(Error::new(
                    Class::Assert,
                    "MPI_MODE_NOPRECEDE was given, but something was done since the last fence",
                ));
            }
            self.epochs.fence_used.store(false, Ordering::Relaxed);
            self.epochs
                .all
                .store(if assert.no_succeed { 0 } else { FENCE }, Ordering::Relaxed);
        }
        self.flush_dirty(process)?;
        full_fence();
        mpi_core::collective::barrier(process, &self.comm)?;
        full_fence();
        Ok(())
    }

    /// Locks a target (`MPI_Win_lock`).
    pub fn lock(
        &self,
        process: &Process,
        target: u32,
        exclusive: bool,
        unchecked: bool,
    ) -> Result<()> {
        let held;
        {
            let mut state = self.epochs.state.lock();
            if self.epochs.one(target as usize) & (SHARED | EXCLUSIVE) != 0 {
                return Err(sync_error(format!(
                    "rank {target} is locked already; call MPI_Win_unlock first"
                )));
            }
            if self.epochs.all() & LOCK_ALL != 0 {
                return Err(sync_error(
                    "all targets are locked by MPI_Win_lock_all; call MPI_Win_unlock_all first",
                ));
            }
            if state.started.is_some() {
                return Err(sync_error(
                    "an access epoch of MPI_Win_start is open; call MPI_Win_complete first",
                ));
            }
            self.epochs.leave_fence()?;
            let kind = if exclusive { EXCLUSIVE } else { SHARED };
            let note = if unchecked { UNCHECKED } else { 0 };
            self.epochs.targets.change(target, EPOCHS, kind | note);
            held = state.locks > 0;
            state.locks += 1;
        }
        if unchecked {
            return Ok(());
        }
        let taken = self.take_lock(process, target, exclusive, held);
        if taken.is_err() {
            self.epochs.state.lock().locks -= 1;
            self.epochs.targets.change(target, EPOCHS, 0);
        }
        taken
    }

    /// `held`: this process holds other locks of the window.
    fn take_lock(&self, process: &Process, target: u32, exclusive: bool, held: bool) -> Result<()> {
        if self.service.is_some() {
            let how = u64::from(exclusive) | u64::from(held) << 1;
            let what = match self.epochs.all() & LOCK_ALL {
                0 => Awaited::Lock { target, exclusive },
                _ => Awaited::LockAll,
            };
            let _note = process.note(what, self.comm.vci(), std::iter::empty());
            match self.request(process, target, Kind::Lock, how)? {
                GRANTED => Ok(()),
                dead => Err(self.holder_lost(process, target, dead - 1)),
            }
        } else {
            let (control, vci) = (self.control()?, self.comm.vci());
            control.lock(process, vci, target as usize, exclusive, held)
        }
    }

    #[cold]
    fn holder_lost(&self, process: &Process, target: u32, dead: u64) -> Error {
        let rank = u32::try_from(dead).ok().filter(|rank| *rank < self.size());
        let known = rank.and_then(|rank| self.check_member(process, rank).err());
        known.unwrap_or_else(|| {
            Error::new(
                Class::ProcFailed,
                format!(
                    "rank {dead} is lost, which had the lock of rank {target} when this process waited \
                     for it; the lock is free again"
                ),
            )
        })
    }

    fn give_lock(&self, process: &Process, target: u32, exclusive: bool) -> Result<()> {
        if self.service.is_some() {
            self.complete_native(process, Some(target), true)?;
            self.await_answers(process, Some(target))?;
            self.flush_lanes(process, Some(target))?;
            self.epochs.clean(target);
            let failed = self.request(process, target, Kind::Unlock, u64::from(exclusive))?;
            report(target, failed)
        } else {
            full_fence();
            self.control()?.unlock(target as usize, exclusive);
            Ok(())
        }
    }

    /// Unlocks a target (`MPI_Win_unlock`): all is complete there.
    pub fn unlock(&self, process: &Process, target: u32) -> Result<()> {
        let held = {
            let mut state = self.epochs.state.lock();
            let held = self.epochs.one(target as usize);
            if held & (SHARED | EXCLUSIVE) == 0 || held & OF_ALL != 0 {
                return Err(sync_error(format!(
                    "rank {target} is not locked by MPI_Win_lock; call that first"
                )));
            }
            self.epochs.targets.change(target, EPOCHS, 0);
            state.locks -= 1;
            held
        };
        if held & UNCHECKED != 0 {
            self.flush_one(process, target)
        } else {
            self.give_lock(process, target, held & EXCLUSIVE != 0)
        }
    }

    /// Locks all targets (`MPI_Win_lock_all`).
    ///
    /// Where targets are asked by messages, each but this process itself is asked when it is first
    /// accessed.
    pub fn lock_all(&self, process: &Process, unchecked: bool) -> Result<()> {
        {
            let state = self.epochs.state.lock();
            if self.epochs.all() & LOCK_ALL != 0 {
                return Err(sync_error(
                    "all targets are locked already; call MPI_Win_unlock_all first",
                ));
            }
            if state.locks > 0 || state.started.is_some() {
                return Err(sync_error(
                    "an epoch of MPI_Win_lock or MPI_Win_start is open; end it before \
                     MPI_Win_lock_all",
                ));
            }
            self.epochs.leave_fence()?;
            let note = if unchecked { LOCK_ALL_UNCHECKED } else { 0 };
            self.epochs.all.fetch_or(LOCK_ALL | note, Ordering::Relaxed);
        }
        if unchecked {
            return Ok(());
        }
        let locked = match self.way {
            Way::Messages => self.lock_late(process, self.rank(), false),
            _ => self.control()?.lock_all(process, self.comm.vci()),
        };
        if locked.is_err() {
            self.epochs.all.fetch_and(!LOCK_ALL, Ordering::Relaxed);
        }
        locked
    }

    /// Takes a lock of `MPI_Win_lock_all`'s: the first, or one that was left for later (`held`: others
    /// are held).
    fn lock_late(&self, process: &Process, target: u32, held: bool) -> Result<()> {
        if self.epochs.all() & LOCK_ALL_UNCHECKED != 0 {
            return Ok(());
        }
        let targets = &self.epochs.targets;
        if targets.get(target) & OF_ALL == 0 {
            // Other threads wait here until it is granted.
            let _one_at_a_time = self.epochs.late.lock();
            if targets.get(target) & OF_ALL == 0 {
                self.take_lock(process, target, false, held)?;
                targets.change(target, 0, OF_ALL | SHARED);
            }
        }
        Ok(())
    }

    /// Unlocks all targets (`MPI_Win_unlock_all`).
    pub fn unlock_all(&self, process: &Process) -> Result<()> {
        let unchecked = {
            let _state = self.epochs.state.lock();
            let all = self.epochs.all();
            if all & LOCK_ALL == 0 {
                return Err(sync_error(
                    "the targets are not locked by MPI_Win_lock_all; call that first",
                ));
            }
            let bits = LOCK_ALL | LOCK_ALL_UNCHECKED;
            self.epochs.all.fetch_and(!bits, Ordering::Relaxed);
            all & LOCK_ALL_UNCHECKED != 0
        };
        if unchecked {
            return self.flush_dirty(process);
        }
        if self.way != Way::Messages {
            full_fence();
            self.control()?.unlock_all();
            return Ok(());
        }
        // All targets at once; then one after the other has nothing left.
        let mut result = self.complete_native(process, None, true);
        for target in self.epochs.targets.with(OF_ALL) {
            self.epochs.targets.change(target, OF_ALL | SHARED, 0);
            result = result.and(self.give_lock(process, target, false));
        }
        result
    }

    /// Completes everything at a target (`MPI_Win_flush`).
    #[inline]
    pub fn flush(&self, process: &Process, target: u32) -> Result<()> {
        self.epochs.check_passive(target as usize)?;
        self.flush_one(process, target)
    }

    #[inline]
    fn flush_one(&self, process: &Process, target: u32) -> Result<()> {
        if self.way != Way::Messages {
            full_fence();
            return Ok(());
        }
        self.complete_native(process, Some(target), true)?;
        self.await_answers(process, Some(target))?;
        self.flush_lanes(process, Some(target))?;
        if !self.epochs.clean(target) {
            return self.let_others(process);
        }
        let failed = self.request(process, target, Kind::Flush, 0)?;
        report(target, failed)
    }

    /// Completes everything at all targets (`MPI_Win_flush_all`).
    pub fn flush_all(&self, process: &Process) -> Result<()> {
        self.epochs.check_any_passive()?;
        self.flush_dirty(process)
    }

    /// Completes everything that is under way; asks all targets before it waits for the first.
    pub(super) fn flush_dirty(&self, process: &Process) -> Result<()> {
        if self.way != Way::Messages {
            full_fence();
            return Ok(());
        }
        self.complete_native(process, None, true)?;
        self.await_answers(process, None)?;
        self.flush_lanes(process, None)?;
        let mut answers = Vec::new();
        for target in self.epochs.targets.with(DIRTY) {
            if self.epochs.clean(target) {
                match self.request_to(process, (target, 0), Kind::Flush, 0) {
                    Ok(answer) => answers.push((target, answer)),
                    Err(error) => return await_all(process, answers).and(Err(error)),
                }
            }
        }
        if answers.is_empty() {
            return self.let_others(process);
        }
        await_all(process, answers)
    }

    /// Makes progress where nothing is waited for: who looks at memory that is reached directly until
    /// another process has changed it must let that come in.
    #[inline]
    pub(super) fn let_others(&self, process: &Process) -> Result<()> {
        match self.way {
            Way::Messages => process.poll(self.comm.vci()).map(drop),
            _ => Ok(()),
        }
    }

    /// Completes everything on this side (`MPI_Win_flush_local`): data to be sent was copied.
    #[inline]
    pub fn flush_local(&self, process: &Process, target: u32) -> Result<()> {
        self.epochs.check_passive(target as usize)?;
        self.complete_native(process, Some(target), false)?;
        self.await_answers(process, Some(target))?;
        self.let_others(process)
    }

    /// The same for all targets (`MPI_Win_flush_local_all`).
    pub fn flush_local_all(&self, process: &Process) -> Result<()> {
        self.epochs.check_any_passive()?;
        self.complete_native(process, None, false)?;
        self.await_answers(process, None)?;
        self.let_others(process)
    }

    /// Makes this process's view of its memory and the others' the same (`MPI_Win_sync`).
    pub fn sync(&self, process: &Process) -> Result<()> {
        full_fence();
        process.poll(self.comm.vci())?;
        Ok(())
    }

    /// Waits for the answers of a target, or of all, that are under way now: what other threads go
    /// on asking for is none of this flush's business.
    #[inline]
    pub(super) fn await_answers(&self, process: &Process, target: Option<u32>) -> Result<()> {
        let Some(service) = &self.service else {
            return Ok(());
        };
        for lane in service.lanes.iter() {
            let until = lane.origin.lock().mark();
            // Answers of lost processes end with an error.
            process.wait_despite_loss(lane.vci, || {
                Ok((!lane.origin.lock().awaits(target, until)).then_some(()))
            })?;
        }
        Ok(())
    }

    /// Completes what went by other lanes than the first, which what synchronises is not behind; and
    /// by that one what came back from the network and is noted nowhere else.
    #[inline]
    pub(super) fn flush_lanes(&self, process: &Process, target: Option<u32>) -> Result<()> {
        match &self.service {
            Some(service) if service.lanes.len() > 1 || service.keys.on => {
                self.flush_other_lanes(process, target)
            }
            _ => Ok(()),
        }
    }

    fn flush_other_lanes(&self, process: &Process, target: Option<u32>) -> Result<()> {
        let mut answers = Vec::new();
        for (number, lane) in self.service()?.lanes.iter().enumerate() {
            for target in lane.take_dirty(target) {
                match self.request_to(process, (target, number), Kind::Flush, 0) {
                    Ok(answer) => answers.push((target, answer)),
                    Err(error) => return await_all(process, answers).and(Err(error)),
                }
            }
        }
        await_all(process, answers)
    }

    /// Asks `target` for something that it answers by a word, and waits for that.
    fn request(&self, process: &Process, target: u32, kind: Kind, a: u64) -> Result<u64> {
        let answer = self.request_to(process, (target, 0), kind, a)?;
        answer.wait(process).map(|word| word[0])
    }

    /// As [`Window::request`] by a lane, and doesn't wait.
    fn request_to(
        &self,
        process: &Process,
        to: (u32, usize),
        kind: Kind,
        a: u64,
    ) -> Result<Answer> {
        let service = self.service()?;
        let tag = service.lanes.get(to.1).tag();
        let post = |buffer| service.expect(process, to, tag, buffer);
        let answer = Loan::new(Box::new([0]), post)?;
        let message = message::encode(kind, tag, [a, 0], &[], 0, |_| {});
        match service.ask(process, to, message) {
            Ok(()) => Ok(answer),
            Err(error) => {
                answer.end(process)?;
                Err(error)
            }
        }
    }
}

/// A word that a target answers by.
type Answer = Loan<Box<[u64; 1]>>;

/// Waits for the answers of several targets, all of them; the first error.
fn await_all(process: &Process, answers: Vec<(u32, Answer)>) -> Result<()> {
    let mut result = Ok(());
    for (target, answer) in answers {
        let failed = answer.wait(process);
        result = result.and(failed.and_then(|failed| report(target, failed[0])));
    }
    result
}

fn report(target: u32, failed: u64) -> Result<()> {
    if failed == 0 {
        return Ok(());
    }
    Err(Error::new(
        Class::RmaRange,
        format!(
            "{failed} operations on rank {target} went beyond the memory of its window; check \
             displacements and what is attached there"
        ),
    ))
}
