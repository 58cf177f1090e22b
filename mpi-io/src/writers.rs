//! Tracking of writes without a lock, so that a sieving process of the node can make all others
//! take locks.
//!
//! Each member has a word that counts its current writes, and all share one that says whether any
//! process sieves. A writer counts itself first and then reads the flag; a sieving process sets the
//! flag first and then waits until the writes that did not see it are over. So either the writer
//! sees the flag, or it is seen (all these accesses are sequentially consistent). The flag stays
//! set until the file is closed.

#![allow(unsafe_code, reason = "words in memory that processes share")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use netmod::SharedSegment;
use netmod_kit::process_number::{has_ended, own_number};

/// Offsets of the flag and of the members' words in the shared words, one cache line each.
const SIEVED: usize = 64;
const MEMBERS: usize = 128;
const LINE: usize = 64;

/// Returns the bytes of the words of `members` members, including the shared pointer in front.
pub(crate) fn words_len(members: usize) -> usize {
    (MEMBERS + LINE * members).next_multiple_of(4096)
}

/// A member's words.
#[repr(C)]
struct Member {
    writing: AtomicU32,
    process: AtomicU32,
}

/// The words of a file whose members are all on one node.
pub(crate) struct Writers {
    piece: Option<Arc<dyn SharedSegment>>,
    me: usize,
    members: usize,
    /// Whether the writes from before the flag was set are over.
    drained: AtomicBool,
}

/// A counted write.
pub(crate) struct Entered<'a>(&'a AtomicU32);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Writers {
    /// `piece` is [`words_len`] bytes long, zero at first.
    pub fn new(piece: Option<Arc<dyn SharedSegment>>, me: usize, members: usize) -> Writers {
        let writers = Writers {
            piece,
            me,
            members,
            drained: AtomicBool::new(false),
        };
        if let Some(member) = writers.member(me) {
            member.process.store(own_number(), Ordering::SeqCst);
        }
        writers
    }

    fn at(&self, offset: usize) -> Option<NonNull<u8>> {
        let piece = self.piece.as_ref()?;
        NonNull::new(piece.as_ptr().wrapping_add(offset))
    }

    fn sieved(&self) -> Option<&AtomicU32> {
        // SAFETY: the flag lies in the shared words, aligned; all members access it atomically, and
        // the words are mapped as long as `self` lives.
        self.at(SIEVED).map(|word| unsafe { word.cast().as_ref() })
    }

    fn member(&self, rank: usize) -> Option<&Member> {
        // SAFETY: a member's words lie in the shared words, aligned to a cache line; all members
        // access them atomically, and they are mapped as long as `self` lives.
        self.at(MEMBERS + LINE * rank)
            .map(|words| unsafe { words.cast().as_ref() })
    }

    /// Returns whether sieving can be announced.
    pub fn can_announce(&self) -> bool {
        self.piece.is_some()
    }

    /// Counts a write without a lock, while the result is kept. Returns `None` if the caller must
    /// have a lock. Without shared words no member sieves on its own.
    pub fn enter(&self) -> Option<Option<Entered<'_>>> {
        let (Some(sieved), Some(member)) = (self.sieved(), self.member(self.me)) else {
            return Some(None);
        };
        if sieved.load(Ordering::Relaxed) != 0 {
            return None;
        }
        member.writing.fetch_add(1, Ordering::SeqCst);
        let entered = Entered(&member.writing);
        match sieved.load(Ordering::SeqCst) {
            0 => Some(Some(entered)),
            _ => None,
        }
    }

    /// Announces that writes must have locks from now on, and waits for those that have none.
    pub fn announce(&self) {
        let Some(sieved) = self.sieved() else {
            return;
        };
        if self.drained.load(Ordering::Acquire) {
            return;
        }
        sieved.store(1, Ordering::SeqCst);
        for rank in 0..self.members {
            let Some(member) = self.member(rank) else {
                continue;
            };
            let mut polls = 0_u32;
            while member.writing.load(Ordering::SeqCst) != 0 {
                polls += 1;
                match polls {
                    0..1000 => std::thread::yield_now(),
                    // A process that has ended does not write.
                    _ if has_ended(member.process.load(Ordering::SeqCst)) => break,
                    _ => std::thread::sleep(Duration::from_micros(100)),
                }
            }
        }
        self.drained.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmod::{OpenError, RemoteKey};

    /// Memory of this process in place of shared memory.
    struct Piece(NonNull<[u64; 512]>);

    // SAFETY: the tests access the memory by atomic words only.
    unsafe impl Send for Piece {}
    // SAFETY: the tests access the memory by atomic words only.
    unsafe impl Sync for Piece {}

    impl SharedSegment for Piece {
        fn as_ptr(&self) -> *mut u8 {
            self.0.as_ptr().cast()
        }
        fn key(&self) -> RemoteKey {
            RemoteKey {
                address: 0,
                words: [0; 2],
            }
        }
        fn reserve(&self, _: usize, _: usize) -> Result<(), OpenError> {
            Ok(())
        }
        fn seal(&self) {}
    }

    fn pair() -> (Writers, Writers) {
        let memory = NonNull::from(Box::leak(Box::new([0; 512])));
        let piece: Arc<dyn SharedSegment> = Arc::new(Piece(memory));
        (
            Writers::new(Some(piece.clone()), 0, 2),
            Writers::new(Some(piece), 1, 2),
        )
    }

    #[test]
    fn sieving_waits_for_writers_and_excludes_them() {
        let (one, other) = pair();
        let write = one.enter();
        assert!(write.is_some());
        let waits = std::thread::spawn(move || {
            other.announce();
            other
        });
        while one.enter().is_some() {
            std::thread::yield_now();
        }
        assert!(!waits.is_finished());
        drop(write);
        let other = waits.join().unwrap();
        assert!(one.enter().is_none() && other.enter().is_none());
    }

    #[test]
    fn processes_that_have_ended_are_not_waited_for() {
        let (one, other) = pair();
        std::mem::forget(one.enter());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        one.member(0).unwrap().process.store(dead, Ordering::SeqCst);
        other.announce();
    }
}
