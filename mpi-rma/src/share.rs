//! Pieces of shared memory that windows are made of: the first member of a node makes one, the others open it.

use netmod::{OpenError, RemoteKey, SharedSegment};

use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_types::error::Result;

/// A piece, or why there is none.
type Piece = std::result::Result<Box<dyn SharedSegment>, OpenError>;

/// How the others are told where a piece is.
pub(crate) type KeyWords = [u64; 4];

/// Makes a piece, and takes the memory of its first bytes.
pub(crate) fn make(process: &Process, total: usize, first: usize) -> Piece {
    let Some(shared) = process.shared_memory() else {
        return Err(OpenError("this process has no shared memory".into()));
    };
    let piece = shared.create(total)?;
    piece.reserve(0, first)?;
    Ok(piece)
}

/// What the others are told of a piece that was made; zeros of one that was not.
pub(crate) fn key_words(made: Option<&Piece>) -> KeyWords {
    match made {
        Some(Ok(piece)) => {
            let RemoteKey { address, words } = piece.key();
            [1, address, words[0], words[1]]
        }
        _ => [0; 4],
    }
}

/// The piece that this member has made, or that it was told of.
pub(crate) fn take(process: &Process, made: Option<Piece>, key: KeyWords, total: usize) -> Piece {
    let shared = process.shared_memory();
    match (made, shared) {
        (Some(made), _) => made,
        (None, None) => Err(OpenError("this process has no shared memory".into())),
        (None, Some(_)) if key[0] == 0 => {
            Err(OpenError("its first member could not make it".into()))
        }
        (None, Some(shared)) => {
            let key = RemoteKey {
                address: key[1],
                words: [key[2], key[3]],
            };
            shared.open(&key, total)
        }
    }
}

/// Makes and maps a piece with the parts of all members, which begin there: the first member makes it, the others
/// open it. Takes the memory for this member's part, unless it `waits` until it is touched. Without a piece, gives
/// the reason; others may have one.
pub(crate) fn share(
    process: &Process,
    comm: &Comm,
    (parts, total): (&[usize], usize),
    waits: bool,
) -> Result<Piece> {
    let me = comm.rank() as usize;
    let made = (me == 0).then(|| make(process, total, parts[0]));
    let mut key = key_words(made.as_ref());
    // Also without shared memory, which nobody has then, since all were set up alike: who waits for a key must
    // get one.
    mpi_comm::collective::broadcast_u64(process, comm, &mut key)?;
    Ok(take(process, made, key, total).and_then(|piece| {
        let end = parts.get(me + 1).copied().unwrap_or(total);
        if !waits {
            piece.reserve(parts[me], end - parts[me])?;
        }
        Ok(piece)
    }))
}
