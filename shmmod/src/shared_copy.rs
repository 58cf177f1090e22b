//! Copies from a peer's memory of which that does a share, if it comes by ([`netmod::CopyShares`]): while a receiver reads a long
//! message its sender mostly waits, and two cores copy nearly twice as much as one.

use std::time::Duration;

use netmod::{CopyShares, Helped, Peer, SharedCopy, VciId};

use crate::cma::{Direction, NotCopied, copy};
use crate::lane::ShmLane;
use crate::liveness::exists;

/// Shorter copies are the reader's alone. What the peer writes lies in its core's cache, and who uses a message that lies there
/// waits longer than the copy saves; of longer ones most has left it.
const LEAST: usize = 1 << 20;
/// Bytes of a chunk. Of shorter ones the calls of the system take too much, and nobody is to wait long for the last one.
const CHUNK: usize = 128 << 10;
/// Looks for what the peer has in hand before this thread gives its core away, and then before it sleeps.
const LOOKS: u32 = 2000;
const YIELDS: u32 = 4000;
/// So often it is looked whether the peer lives.
const EVERY: u32 = 1024;
/// Copies in vain before some are not offered, and the most that are not.
const IN_VAIN: u32 = 4;
const PASSES: u32 = 32;

/// Whether a peer helps, as a rule: one that computes meanwhile, or reads itself, doesn't.
#[derive(Default, Debug)]
pub(crate) struct Habit {
    in_vain: u32,
    passes: u32,
}

impl Habit {
    /// Whether the next copy is offered.
    fn offers(&mut self) -> bool {
        let offers = self.passes == 0;
        self.passes = self.passes.saturating_sub(1);
        offers
    }

    fn note(&mut self, helped: bool) {
        if helped {
            *self = Habit::default();
            return;
        }
        self.in_vain = self.in_vain.saturating_add(1);
        let doubled = self.in_vain.saturating_sub(IN_VAIN).min(PASSES.ilog2());
        if self.in_vain > IN_VAIN {
            self.passes = 1 << doubled;
        }
    }
}

/// Whether this process may have others write to its memory: what valgrind has not seen written counts as not initialized.
pub(crate) fn may_share() -> bool {
    let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    !preloaded.to_string_lossy().contains("vgpreload")
}

/// What the peer has done of its chunks when it has done them all, or has ended.
fn await_help(shares: &CopyShares, pid: u32) -> Helped {
    for looks in 1_u32.. {
        if let Some(helped) = shares.owner_share() {
            return helped;
        }
        match looks {
            ..LOOKS => std::hint::spin_loop(),
            LOOKS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
        if looks.is_multiple_of(EVERY) && !exists(pid) {
            break;
        }
    }
    shares.given_up()
}

impl ShmLane {
    /// Reads `len` bytes at `place` in the memory of a peer, whose process is `pid`.
    ///
    /// # Safety
    /// `local` must be valid for writes of `len` bytes; the peer must have exposed `place`.
    pub(crate) unsafe fn read_shared(
        &mut self,
        (peer, vci): (Peer, VciId),
        pid: u32,
        local: *mut u8,
        place: u64,
        len: usize,
    ) -> Result<(), NotCopied> {
        let reader = u64::from(self.me) << 16 | u64::from(self.vci);
        let shared = SharedCopy {
            reader,
            from: place,
            to: local as u64,
            len,
            chunk: CHUNK,
        };
        let remote = self.remotes.find(peer, vci).and_then(Option::as_mut);
        let remote = remote
            .filter(|_| len >= LEAST && self.shares)
            .and_then(|remote| {
                let begun = remote.habit.offers() && remote.segment.front().shares.begin(&shared);
                begun.then_some(remote)
            });
        let read = |at: usize, count: usize| {
            // SAFETY: the caller's promise, for a part of it.
            unsafe {
                copy(
                    Direction::Read,
                    pid,
                    local.wrapping_add(at),
                    place + at as u64,
                    count,
                )
            }
        };
        let Some(remote) = remote else {
            return read(0, len);
        };
        let shares = &remote.segment.front().shares;
        let mut result = Ok(());
        let mut next = Some(0);
        while let Some(number) = next {
            if result.is_ok() {
                let (at, count) = shared.place(number);
                result = read(at, count);
            }
            // After an error the rest is taken, too, so that nobody else does.
            next = shares.take_front();
        }
        let helped = await_help(shares, pid);
        shares.end();
        remote.habit.note(helped.chunks > 0 && !helped.failed);
        if helped.failed && result.is_ok() {
            // What is wrong shows here as well.
            let (at, _) = shared.place(shared.chunks() - helped.chunks);
            result = read(at, len - at);
        }
        result
    }

    /// As [`netmod::NodeLane::help`], where a peer has offered something.
    #[cold]
    pub(crate) fn help_reader(&mut self) -> bool {
        let own = self.own.clone();
        let shares = &own.front().shares;
        let Some((shared, number)) = shares.take_back() else {
            return false;
        };
        let reader = (shared.reader >> 16).try_into().ok();
        let remote = reader.and_then(|peer| self.remotes.find(peer, shared.reader as VciId));
        let pid = remote
            .and_then(Option::as_mut)
            .and_then(|remote| remote.pid());
        let copied = pid.is_some_and(|pid| {
            let (at, count) = shared.place(number);
            let local = (shared.from as *mut u8).wrapping_add(at);
            // SAFETY: this process's memory is only read, by the kernel, which checks both places. Whose it is has been
            // said by the peer, that could read and write it by itself.
            unsafe { copy(Direction::Write, pid, local, shared.to + at as u64, count) }.is_ok()
        });
        shares.finish(copied);
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    const MIB: usize = 1 << 20;

    #[test]
    fn who_never_helps_is_asked_seldom() {
        let mut habit = Habit::default();
        let mut ask = |helped: bool| {
            (0..1000)
                .filter(|_| {
                    habit.offers() && {
                        habit.note(helped);
                        true
                    }
                })
                .count()
        };
        let asked = ask(false);
        assert!((20..60).contains(&asked), "{asked}");
        assert!(ask(true) > 900);
    }

    #[test]
    fn nobody_waits_for_what_an_ended_process_has_in_hand() {
        let own = Segment::create().unwrap();
        let shares = &own.front().shares;
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let shared = SharedCopy {
            reader: 0,
            from: 0,
            to: 0,
            len: MIB,
            chunk: CHUNK,
        };
        assert!(shares.begin(&shared));
        assert_eq!(shares.take_back().unwrap().1, shared.chunks() - 1);
        while shares.take_front().is_some() {}
        let (chunks, failed) = (1, true);
        assert_eq!(await_help(shares, pid), Helped { chunks, failed });
    }
}
