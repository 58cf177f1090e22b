//! Memory of the program's that processes of this node can map, and how they are told of it.

use std::sync::Arc;

use netmod::{RemoteKey, SharedSegment};
use parking_lot::Mutex;

/// Up to so many bytes, of so many pieces, are kept when the program frees them, for when it asks for as much again: to
/// have pages made and mapped takes longer than what most programs do with them.
const KEPT: usize = 32 << 20;
const KEPT_PIECES: usize = 8;

/// The pieces that the program has, and those that it has freed and that are kept.
#[derive(Default)]
pub(crate) struct SharedSegments(Mutex<Pieces>);

#[derive(Default)]
struct Pieces {
    /// By where they begin.
    all: Vec<Piece>,
    /// Those of them that are kept, that freed last at the end.
    kept: Vec<Kept>,
}

struct Piece {
    start: usize,
    memory: Arc<dyn SharedSegment>,
    len: usize,
    /// How often the process had forked when it was given to the program.
    forks: usize,
    kept: bool,
}

#[derive(Clone, Copy)]
struct Kept {
    start: usize,
    len: usize,
}

/// What tells another process of the node where memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceLocation {
    pub key: RemoteKey,
    /// The length of the piece.
    pub len: u64,
    /// Where in the piece it is.
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
    fn place(&self, start: usize) -> Result<usize, usize> {
        self.all.binary_search_by_key(&start, |piece| piece.start)
    }

    /// Takes the kept piece that begins there out of all.
    fn remove(&mut self, start: usize) -> Option<Piece> {
        let place = self.place(start).ok()?;
        Some(self.all.remove(place))
    }

    /// Takes those out that are too many with `more` bytes, the oldest first.
    fn make_room(&mut self, more: usize) -> Vec<Piece> {
        let mut bytes: usize = self.kept.iter().map(|kept| kept.len).sum();
        let mut over = 0;
        while over < self.kept.len()
            && (bytes + more > KEPT || self.kept.len() - over >= KEPT_PIECES)
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
    /// A new piece of the program's, in a process that has forked so often.
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
        let (Ok(place) | Err(place)) = pieces.place(start);
        pieces.all.insert(place, piece);
    }

    /// Gives the program a kept piece again, of `len` bytes or a few more: of what it had last.
    pub(crate) fn reuse(&self, len: usize, forks: usize) -> Option<*mut u8> {
        let mut pieces = self.0.lock();
        let fits = |kept: &Kept| kept.len >= len && kept.len - len <= len / 8;
        let at = pieces.kept.iter().rposition(fits)?;
        let kept = pieces.kept.remove(at);
        let place = pieces.place(kept.start).ok()?;
        let piece = &mut pieces.all[place];
        piece.kept = false;
        piece.forks = forks;
        Some(piece.memory.as_ptr())
    }

    /// The program frees the piece that begins there. It is kept, unless a process that this one has forked since may have
    /// it, too. Returns whether there was one.
    pub(crate) fn free(&self, start: usize, forks: usize) -> bool {
        let mut pieces = self.0.lock();
        let Ok(place) = pieces.place(start) else {
            return false;
        };
        let piece = &mut pieces.all[place];
        if piece.kept {
            return false;
        }
        if piece.forks != forks || piece.len > KEPT {
            let gone = pieces.all.remove(place);
            drop(pieces);
            drop(gone);
            return true;
        }
        piece.kept = true;
        let len = piece.len;
        let full = pieces.kept.len() >= KEPT_PIECES
            || pieces.kept.iter().map(|kept| kept.len).sum::<usize>() + len > KEPT;
        let gone = if full {
            pieces.make_room(len)
        } else {
            Vec::new()
        };
        pieces.kept.push(Kept { start, len });
        // Unmapped without the lock.
        drop(pieces);
        drop(gone);
        true
    }

    /// Gives back what is kept: memory has run short.
    pub(crate) fn give_back(&self) -> bool {
        let mut pieces = self.0.lock();
        let gone = pieces.make_room(KEPT + 1);
        drop(pieces);
        !gone.is_empty()
    }

    /// Where memory is that lies in such a piece.
    pub(crate) fn locate(&self, base: *mut u8, size: usize) -> Option<PieceLocation> {
        let pieces = self.0.lock();
        let place = match pieces.place(base.addr()) {
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
    fn what_was_freed_is_given_again_to_who_asks_for_as_much() {
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
        // As long as the piece is, which who opens it must know.
        let found = pieces.locate(one.wrapping_add(8), 8).unwrap();
        assert_eq!((found.len, found.offset), (1 << 20, 8));
    }

    #[test]
    fn no_more_is_kept_than_there_may_be() {
        let pieces = SharedSegments::default();
        let all: Vec<_> = (0..KEPT_PIECES + 2)
            .map(|_| insert(&pieces, 1 << 16))
            .collect();
        assert!(all.iter().all(|start| pieces.free(start.addr(), 0)));
        let counts = |pieces: &SharedSegments| {
            let pieces = pieces.0.lock();
            (pieces.kept.len(), pieces.all.len())
        };
        assert_eq!(counts(&pieces), (KEPT_PIECES, KEPT_PIECES));
        // Those freed first have gone.
        assert!(!pieces.free(all[0].addr(), 0) && !pieces.free(all[1].addr(), 0));
        assert_eq!(pieces.reuse(1 << 16, 0), all.last().copied());
        let large = insert(&pieces, KEPT - (1 << 16));
        assert!(pieces.free(large.addr(), 0));
        assert_eq!(counts(&pieces), (2, 3));
        let larger = insert(&pieces, KEPT + 1);
        assert!(pieces.free(larger.addr(), 0));
        assert_eq!(counts(&pieces), (2, 3));
        assert!(pieces.give_back() && !pieces.give_back());
        assert_eq!(counts(&pieces), (0, 1));
    }

    #[test]
    fn what_a_forked_process_may_have_is_not_given_again() {
        let pieces = SharedSegments::default();
        let start = insert(&pieces, 1 << 16);
        assert!(pieces.free(start.addr(), 1));
        assert!(pieces.reuse(1 << 16, 1).is_none());
    }
}
