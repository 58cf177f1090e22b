//! Pieces of shared memory that windows are made of: the first member of a node makes one, the others open it.

use netmod::{OpenError, RemoteKey, SharedSegment};

use mpi_comm::arenas::Chunk;
use mpi_comm::collective::arenas;
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_types::error::Result;

/// Shared memory of a window.
pub(crate) enum Piece {
    /// Made for it.
    Own(Box<dyn SharedSegment>),
    /// Part of an arena that stays.
    Part(Chunk),
}

impl Piece {
    /// Where it begins here: the beginning of a page.
    pub fn as_ptr(&self) -> *mut u8 {
        match self {
            Piece::Own(piece) => piece.as_ptr(),
            Piece::Part(chunk) => chunk.as_ptr(),
        }
    }

    /// All members have it, or have given it up.
    pub fn settle(&self) {
        if let Piece::Own(piece) = self {
            piece.settle();
        }
    }

    /// The window is gone, on all members.
    pub fn give_back(&self, process: &Process) {
        if let Piece::Part(chunk) = self {
            arenas(process).give_back(chunk);
        }
    }
}

/// A piece, or why there is none.
pub(crate) type Made = std::result::Result<Piece, OpenError>;

/// How the others are told where a piece is: its first word is 0 if there is none, 1 if it was made for the window.
pub(crate) type KeyWords = [u64; 4];

/// Makes a piece, and takes the memory of its first bytes.
pub(crate) fn make(process: &Process, total: usize, first: usize) -> Made {
    let Some(shared) = process.shared_memory() else {
        return Err(OpenError("this process has no shared memory".into()));
    };
    if let Some(chunk) = arenas(process).take(process, total) {
        return Ok(Piece::Part(chunk));
    }
    let piece = shared.create(total)?;
    piece.reserve(0, first)?;
    Ok(Piece::Own(piece))
}

/// What the others are told of a piece that was made; zeros of one that was not.
pub(crate) fn key_words(made: Option<&Made>) -> KeyWords {
    match made {
        Some(Ok(Piece::Part(chunk))) => chunk.key(),
        Some(Ok(Piece::Own(piece))) => {
            let RemoteKey { address, words } = piece.key();
            [1, address, words[0], words[1]]
        }
        _ => [0; 4],
    }
}

/// The piece that this member has made, or that it was told of.
pub(crate) fn take(process: &Process, made: Option<Made>, key: KeyWords, total: usize) -> Made {
    let shared = process.shared_memory();
    match (made, shared) {
        (Some(made), _) => made,
        (None, None) => Err(OpenError("this process has no shared memory".into())),
        (None, Some(_)) if key[0] == 0 => {
            Err(OpenError("its first member could not make it".into()))
        }
        (None, Some(shared)) if key[0] == 1 => {
            let key = RemoteKey {
                address: key[1],
                words: [key[2], key[3]],
            };
            shared.open(&key, total).map(Piece::Own)
        }
        (None, Some(_)) => arenas(process).open(process, key).map(Piece::Part),
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
) -> Result<Made> {
    let me = comm.rank() as usize;
    let made = (me == 0).then(|| make(process, total, parts[0]));
    let mut key = key_words(made.as_ref());
    // Also without shared memory, which nobody has then, since all were set up alike: who waits for a key must
    // get one.
    mpi_comm::collective::broadcast_u64(process, comm, &mut key)?;
    Ok(take(process, made, key, total).and_then(|piece| {
        let end = parts.get(me + 1).copied().unwrap_or(total);
        if let (Piece::Own(piece), false) = (&piece, waits) {
            piece.reserve(parts[me], end - parts[me])?;
        }
        Ok(piece)
    }))
}
