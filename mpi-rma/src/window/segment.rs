//! Shared memory segments of windows: the first member of a node creates one, the others open it.

use mpi_coll::arenas;
use mpi_coll::slots::arenas::{Arenas, Piece, PieceResult, key_words};
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_types::error::Result;

/// Creates and maps a segment with the parts of all members, which begin at `parts`.
///
/// The first member creates it, the others open it. Commits the memory of this member's part,
/// unless `is_lazy`. The inner result has the reason if this member has no segment; other members
/// may have one.
pub(crate) fn share(
    process: &Process,
    comm: &Comm,
    (parts, total): (&[usize], usize),
    is_lazy: bool,
) -> Result<PieceResult> {
    let me = comm.rank() as usize;
    let made = (me == 0).then(|| Arenas::make_segment(process, total, parts[0]));
    let mut key = key_words(made.as_ref());
    // The key is broadcast even if the first member has no shared memory: the others wait for it.
    mpi_coll::broadcast_u64(process, comm, &mut key)?;
    Ok(arenas(process)
        .open(process, made, key, total)
        .and_then(|piece| {
            let end = parts.get(me + 1).copied().unwrap_or(total);
            if let (Piece::Segment(piece), false) = (&piece, is_lazy) {
                piece.reserve(parts[me], end - parts[me])?;
            }
            Ok(piece)
        }))
}
