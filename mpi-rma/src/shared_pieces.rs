//! Memory of the program's that processes of this node can map, and how they are told of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use netmod::{RemoteKey, SharedSegment};
use parking_lot::Mutex;

/// The pieces that the program has, by where they begin.
#[derive(Default)]
pub(crate) struct SharedSegments(pub(crate) Mutex<BTreeMap<usize, Piece>>);

pub(crate) struct Piece {
    pub(crate) memory: Arc<dyn SharedSegment>,
    pub(crate) len: usize,
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

impl SharedSegments {
    /// Where memory is that lies in such a piece.
    pub(crate) fn locate(&self, base: *mut u8, size: usize) -> Option<PieceLocation> {
        let pieces = self.0.lock();
        let (start, piece) = pieces.range(..=base.addr()).next_back()?;
        let offset = base.addr() - start;
        (offset.checked_add(size)? <= piece.len).then(|| PieceLocation {
            key: piece.memory.key(),
            len: piece.len as u64,
            offset: offset as u64,
        })
    }
}
