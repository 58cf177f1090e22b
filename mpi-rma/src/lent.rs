//! Memory for the program that processes of this node can map (`MPI_Alloc_mem`): windows that are
//! created of it are as good as those that MPI allocates.

use std::collections::BTreeMap;
use std::sync::Arc;

use netmod::{OpenError, RemoteKey, SharedPiece};
use parking_lot::Mutex;

use super::serve::Windows;
use mpi_core::process::Process;

/// The pieces that the program has, by where they begin.
#[derive(Default)]
pub(super) struct Lent(Mutex<BTreeMap<usize, Piece>>);

struct Piece {
    memory: Arc<dyn SharedPiece>,
    len: usize,
}

/// What tells another process of the node where memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub key: RemoteKey,
    /// The length of the piece.
    pub len: u64,
    /// Where in the piece it is.
    pub offset: u64,
}

impl Place {
    pub fn words(self) -> [u64; 5] {
        let RemoteKey { address, words } = self.key;
        [address, words[0], words[1], self.len, self.offset]
    }

    pub fn of(words: [u64; 5]) -> Place {
        Place {
            key: RemoteKey {
                address: words[0],
                words: [words[1], words[2]],
            },
            len: words[3],
            offset: words[4],
        }
    }
}

impl Windows {
    /// Where memory is that lies in such a piece.
    pub(super) fn lent(&self, base: *mut u8, size: usize) -> Option<Place> {
        let pieces = self.lent.0.lock();
        let (start, piece) = pieces.range(..=base.addr()).next_back()?;
        let offset = base.addr() - start;
        (offset.checked_add(size)? <= piece.len).then(|| Place {
            key: piece.memory.key(),
            len: piece.len as u64,
            offset: offset as u64,
        })
    }
}

/// Zeroed memory that processes of this node can map, at the beginning of a page. It takes
/// room when it is written to.
///
/// # Errors
/// There is no shared memory, or not so much.
pub fn lend(process: &Process, len: usize) -> Result<*mut u8, OpenError> {
    let shared = process.shared_memory();
    let shared = shared.ok_or_else(|| OpenError("there is no shared memory".into()))?;
    let waits = shared.may_wait(len)?;
    let memory: Arc<dyn SharedPiece> = shared.create(len)?.into();
    if !waits {
        memory.reserve(0, len)?;
    }
    let start = memory.as_ptr();
    let piece = Piece { memory, len };
    process
        .source::<Windows>()
        .lent
        .0
        .lock()
        .insert(start.addr(), piece);
    Ok(start)
}

/// Takes back what [`lend`] gave. Returns whether there was such a piece.
///
/// # Safety
/// Nobody uses the memory any more.
pub unsafe fn take_back(process: &Process, start: *mut u8) -> bool {
    process
        .source::<Windows>()
        .lent
        .0
        .lock()
        .remove(&start.addr())
        .is_some()
}
