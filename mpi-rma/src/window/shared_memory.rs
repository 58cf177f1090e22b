//! Memory of the program that processes of this node can map, and how they learn where it is.

use std::sync::Arc;

use netmod::{RemoteKey, SharedSegment};
use parking_lot::Mutex;

/// Bytes and number of segments that are kept when the program frees them, for reuse.
///
/// Pages take longer to create and map than most programs take to use them.
const MAX_KEPT_BYTES: usize = 32 << 20;
const MAX_KEPT_PIECES: usize = 8;

/// The segments that the program uses, and the freed ones that are kept.
#[derive(Default)]
pub(crate) struct SharedSegments(Mutex<Pieces>);

#[derive(Default)]
struct Pieces {
    /// By address.
    all: Vec<Piece>,
    /// Freed segments in the order in which they were freed.
    kept: Vec<Kept>,
}

struct Piece {
    start: usize,
    memory: Arc<dyn SharedSegment>,
    len: usize,
    /// Value of [`forks`](super::shared_alloc) when the program allocated it.
    forks: usize,
    kept: bool,
}

#[derive(Clone, Copy)]
struct Kept {
    start: usize,
    len: usize,
}

/// Where memory is, for other processes of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceLocation {
    pub key: RemoteKey,
    /// Length of the segment.
    pub len: u64,
    /// Offset in the segment.
    pub offset: u64,
}

impl PieceLocation {
    pub fn words(self) -> [u64; 5] {
        let RemoteKey { address, words } = self.key;
        [address, words[0], words[1], self.len, self.offset]
    }

    pub fn of(words: [u64; 5]) -> PieceLocation {
        PieceLocation {
            key: RemoteKey {
                address: words[0],
                words: [words[1], words[2]],
            },
            len: words[3],
            offset: words[4],
        }
    }
}

impl Pieces {
    fn position(&self, start: usize) -> Result<usize, usize> {
        self.all.binary_search_by_key(&start, |piece| piece.start)
    }

    /// Removes the segment that starts at `start`.
    fn remove(&mut self, start: usize) -> Option<Piece> {
        let place = self.position(start).ok()?;
        Some(self.all.remove(place))
    }

    /// Removes the oldest kept segments until `more` bytes fit into the bounds.
    fn evict(&mut self, more: usize) -> Vec<Piece> {
        let mut bytes: usize = self.kept.iter().map(|kept| kept.len).sum();
        let mut over = 0;
        while over < self.kept.len()
            && (bytes + more > MAX_KEPT_BYTES || self.kept.len() - over >= MAX_KEPT_PIECES)
        {
            bytes -= self.kept[over].len;
            over += 1;
        }
        let gone: Vec<_> = self.kept.drain(..over).collect();
        gone.iter()
            .filter_map(|kept| self.remove(kept.start))
            .collect()
    }
}

impl SharedSegments {
    /// Adds a new segment of the program. `forks`: how often the process has forked so far.
    pub(crate) fn insert(&self, memory: Arc<dyn SharedSegment>, len: usize, forks: usize) {
        let start = memory.as_ptr().addr();
        let piece = Piece {
            start,
            memory,
            len,
            forks,
            kept: false,
        };
        let mut pieces = self.0.lock();
        let (Ok(place) | Err(place)) = pieces.position(start);
        pieces.all.insert(place, piece);
    }

    /// Returns a kept segment of `len` bytes or a few more, the most recently freed one.
    pub(crate) fn reuse(&self, len: usize, forks: usize) -> Option<*mut u8> {
        let mut pieces = self.0.lock();
        let fits = |kept: &Kept| kept.len >= len && kept.len - len <= len / 8;
        let at = pieces.kept.iter().rposition(fits)?;
        let kept = pieces.kept.remove(at);
        let place = pieces.position(kept.start).ok()?;
        let piece = &mut pieces.all[place];
        piece.kept = false;
        piece.forks = forks;
        Some(piece.memory.as_ptr())
    }

    /// Frees the segment that starts at `start`. Returns whether there was one.
    ///
    /// Keeps it, unless a process forked since its allocation may still use it.
    pub(crate) fn free(&self, start: usize, forks: usize) -> bool {
        let mut pieces = self.0.lock();
        let Ok(place) = pieces.position(start) else {
            return false;
        };
        let piece = &mut pieces.all[place];
        if piece.kept {
            return false;
        }
        if piece.forks != forks || piece.len > MAX_KEPT_BYTES {
            let gone = pieces.all.remove(place);
            drop(pieces);
            if gone.forks != forks {
                // Its last user would free its pages, and nobody counts the child. They stay as long as the job.
                std::mem::forget(gone.memory);
            }
            return true;
        }
        piece.kept = true;
        let len = piece.len;
        let full = pieces.kept.len() >= MAX_KEPT_PIECES
            || pieces.kept.iter().map(|kept| kept.len).sum::<usize>() + len > MAX_KEPT_BYTES;
        let gone = if full { pieces.evict(len) } else { Vec::new() };
        pieces.kept.push(Kept { start, len });
        // Unmapped without the lock.
        drop(pieces);
        drop(gone);
        true
    }

    /// Unmaps the kept segments. Returns whether there were any.
    pub(crate) fn give_back(&self) -> bool {
        let mut pieces = self.0.lock();
        let gone = pieces.evict(MAX_KEPT_BYTES + 1);
        drop(pieces);
        !gone.is_empty()
    }

    /// Locates memory that lies in a segment in use.
    pub(crate) fn locate(&self, base: *mut u8, size: usize) -> Option<PieceLocation> {
        let pieces = self.0.lock();
        let place = match pieces.position(base.addr()) {
            Ok(place) => place,
            Err(after) => after.checked_sub(1)?,
        };
        let piece = &pieces.all[place];
        let offset = base.addr() - piece.start;
        (!piece.kept && offset.checked_add(size)? <= piece.len).then(|| PieceLocation {
            key: piece.memory.key(),
            len: piece.len as u64,
            offset: offset as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use netmod::SharedMemory as _;
    use shmmod::SharedSegments as Shared;

    use super::*;

    fn insert(pieces: &SharedSegments, len: usize) -> *mut u8 {
        let memory: Arc<dyn SharedSegment> = Shared.create(len).unwrap().into();
        let start = memory.as_ptr();
        pieces.insert(memory, len, 0);
        start
    }

    #[test]
    fn a_freed_segment_is_reused_for_an_allocation_of_its_size() {
        let pieces = SharedSegments::default();
        let (one, two) = (insert(&pieces, 1 << 20), insert(&pieces, 1 << 16));
        assert!(pieces.reuse(1 << 20, 0).is_none());
        assert!(pieces.free(one.addr(), 0) && pieces.free(two.addr(), 0));
        assert!(!pieces.free(one.addr(), 0), "it is freed already");
        assert!(pieces.locate(one, 8).is_none());
        assert!(pieces.reuse(1 << 19, 0).is_none(), "it would be a waste");
        assert!(pieces.reuse((1 << 20) + 1, 0).is_none());
        assert_eq!(pieces.reuse((1 << 20) - 100, 0), Some(one));
        assert!(pieces.reuse(1 << 20, 0).is_none());
        // The whole segment's length, which a process needs to open it.
        let found = pieces.locate(one.wrapping_add(8), 8).unwrap();
        assert_eq!((found.len, found.offset), (1 << 20, 8));
    }

    #[test]
    fn kept_segments_stay_within_their_bounds() {
        let pieces = SharedSegments::default();
        let all: Vec<_> = (0..MAX_KEPT_PIECES + 2)
            .map(|_| insert(&pieces, 1 << 16))
            .collect();
        assert!(all.iter().all(|start| pieces.free(start.addr(), 0)));
        let counts = |pieces: &SharedSegments| {
            let pieces = pieces.0.lock();
            (pieces.kept.len(), pieces.all.len())
        };
        assert_eq!(counts(&pieces), (MAX_KEPT_PIECES, MAX_KEPT_PIECES));
        // Those freed first are gone.
        assert!(!pieces.free(all[0].addr(), 0) && !pieces.free(all[1].addr(), 0));
        assert_eq!(pieces.reuse(1 << 16, 0), all.last().copied());
        let large = insert(&pieces, MAX_KEPT_BYTES - (1 << 16));
        assert!(pieces.free(large.addr(), 0));
        assert_eq!(counts(&pieces), (2, 3));
        let larger = insert(&pieces, MAX_KEPT_BYTES + 1);
        assert!(pieces.free(larger.addr(), 0));
        assert_eq!(counts(&pieces), (2, 3));
        assert!(pieces.give_back() && !pieces.give_back());
        assert_eq!(counts(&pieces), (0, 1));
    }

    #[test]
    fn memory_that_a_forked_process_may_use_is_not_reused() {
        let pieces = SharedSegments::default();
        let start = insert(&pieces, 1 << 16);
        assert!(pieces.free(start.addr(), 1));
        assert!(pieces.reuse(1 << 16, 1).is_none());
    }
}
