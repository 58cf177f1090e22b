//! Pieces of shared memory that windows are made of: the first member of a node makes one, the others open it.

use mpi_coll::arenas;
use mpi_coll::slots::arenas::{Arenas, Made, Piece, key_words};
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_types::error::Result;

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
    let made = (me == 0).then(|| Arenas::make_apart(process, total, parts[0]));
    let mut key = key_words(made.as_ref());
    // Also without shared memory, which nobody has then, since all were set up alike: who waits for a key must
    // get one.
    mpi_coll::broadcast_u64(process, comm, &mut key)?;
    Ok(arenas(process)
        .find(process, made, key, total)
        .and_then(|piece| {
            let end = parts.get(me + 1).copied().unwrap_or(total);
            if let (Piece::Own(piece), false) = (&piece, waits) {
                piece.reserve(parts[me], end - parts[me])?;
            }
            Ok(piece)
        }))
}
