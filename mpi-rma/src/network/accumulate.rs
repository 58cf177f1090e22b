//! Accumulates in passive-target windows.
//!
//! The network's atomics support few operations on 8-byte words; MPI allows any predefined
//! operation on any predefined datatype. So accumulates on a member's memory take turns
//! ([`crate::network::turn`]): get the data, compute, put the result.
//!
//! Invariant (accumulate atomicity, section 11.7.1): all accumulates on such a window take turns by
//! the network. Those of a member on its own memory, or on memory of its node, do so too, though
//! they reach the memory by loads and stores or by CMA copies. Only the holder of the memory's
//! exclusive lock needs no turn.
//!
//! When the call returns, an accumulate is queued ([`crate::network::batch`]) or complete, so an
//! origin's accumulates are carried out in order (section 11.7.2). If a member dies during its turn,
//! a waiting member takes the turn over from the rank in the word.

use crate::network::turn::Memory;
use crate::window::Window;
use crate::window::accumulate::{Accumulate, Atomicity, CompareAndSwap, TurnDomain};
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};
use crate::window::buffers::{ResultBuffer, skip};
use crate::window::runs::Run;
use mpi_core::process::Process;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::PredefinedOp;

/// Bytes. Longest part of an accumulate that is fetched at a time.
const PIECE: usize = 1 << 20;

/// Elements of an accumulate: blocks of bytes with the number of elements in each.
type Piece = Vec<(Run, usize)>;

impl Atomicity for TurnDomain {
    unsafe fn accumulate(self, call: &Accumulate<'_>) -> Result<Option<RequestId>> {
        let Accumulate {
            window,
            process,
            origin,
            target,
            reduction,
            ..
        } = call;
        let runs = apply::runs(target.datatype, target.count, call.at, reduction);
        if let (Some(origin), None) = (origin, &call.result)
            && matches!(window.memory_of(target.rank), Memory::Far)
            // SAFETY: the origin's buffer is readable by this function's contract.
            && unsafe { window.note_accumulate(process, origin, target.rank, (&runs, reduction))? }
        {
            return Ok(None);
        }
        window.carry_out_noted(process, Some(target.rank))?;
        // SAFETY: the origin's buffer is readable by this function's contract.
        let input = origin.as_ref().map(|origin| unsafe { origin.packed() });
        let input = input.as_deref().unwrap_or_default();
        let mut result = ResultBuffer::new(call.result);
        let output = result.as_mut_ptr();
        let pieces = pieces(&runs, reduction);
        let first = match &pieces[..] {
            [only] if !reduction.overwrites(output) => bytes_of(only),
            _ => Vec::new(),
        };
        window.in_turn(process, target.rank, &first, |memory, mut read| {
            let mut done = 0;
            for piece in &pieces {
                let piece = (piece, read.take());
                let buffers = (skip(input.as_ptr(), done), skip(output, done).cast_mut());
                // SAFETY: input and output hold all elements (`Window::accumulate` has compared the
                // lengths), of which `done` bytes are reduced.
                done += unsafe { reduce_piece(call, memory, piece, buffers)? };
            }
            Ok(())
        })?;
        // SAFETY: the result's buffer is writable by this function's contract.
        unsafe { result.unpack() };
        Ok(None)
    }

    unsafe fn compare_and_swap(self, call: &CompareAndSwap<'_>) -> Result<()> {
        let CompareAndSwap {
            window,
            process,
            size,
            ..
        } = *call;
        let target = call.target.rank;
        window.carry_out_noted(process, Some(target))?;
        let run = [(call.at as u64, size)];
        let mut element = [0u8; LONGEST_COMPARED];
        let found = window.in_turn(process, target, &run, |memory, read| {
            let bytes = &mut element[..size];
            match read {
                Some(read) => bytes.copy_from_slice(&read),
                None => window.read_in_turn(process, target, memory, &run, bytes)?,
            }
            let found = u128::from_le_bytes(element);
            if found == call.compare {
                let bytes = &mut call.new.to_le_bytes()[..size];
                window.write_in_turn(process, target, memory, &run, bytes)?;
            }
            Ok(found)
        })?;
        // SAFETY: the result's buffer is writable by this function's contract.
        unsafe { call.write_result(found) };
        Ok(())
    }
}

/// Reduces some elements during a turn. `read` is their data, if it was read already. Returns their
/// length in packed form.
///
/// # Safety
/// The buffers are NULL or hold these elements in packed form, which lie within the target's memory.
unsafe fn reduce_piece(
    call: &Accumulate<'_>,
    memory: &Memory,
    (piece, read): (&Piece, Option<Vec<u8>>),
    (input, output): (*const u8, *mut u8),
) -> Result<usize> {
    let Accumulate {
        window,
        process,
        reduction,
        ..
    } = call;
    let target = call.target.rank;
    let mut done = 0;
    let mut reduce = |place: *mut u8, count: usize| {
        let (input, output) = (skip(input, done), skip(output, done).cast_mut());
        // SAFETY: the buffers hold the elements from `done` on, by `reduce_piece`'s contract;
        // `place` is the target's memory in this turn, or a copy of it.
        unsafe { reduction.apply_exclusive(place, count, input, output) };
        done += count * reduction.packed();
    };
    if let Memory::Here(here) = memory {
        for &((at, _), count) in piece {
            reduce(here.wrapping_offset(at as isize), count);
        }
        return Ok(done);
    }
    let runs = bytes_of(piece);
    let mut elements = match read {
        Some(read) => read,
        None => {
            let mut room = vec![0u8; runs.iter().map(|run| run.1).sum()];
            if !reduction.overwrites(output) {
                window.read_in_turn(process, target, memory, &runs, &mut room)?;
            }
            room
        }
    };
    let mut place = elements.as_mut_ptr();
    for &((_, len), count) in piece {
        reduce(place, count);
        place = place.wrapping_add(len);
    }
    if reduction.op != PredefinedOp::NoOp {
        window.write_in_turn(process, target, memory, &runs, &mut elements)?;
    }
    Ok(done)
}

impl Window {
    pub(crate) fn read_in_turn(
        &self,
        process: &Process,
        target: u32,
        memory: &Memory,
        runs: &[(u64, usize)],
        data: &mut [u8],
    ) -> Result<()> {
        match memory {
            Memory::Far => {
                let within = self.within(process, target, runs)?;
                let room = vec![0; data.len()];
                let (read, _) = self.move_far(process, target, &within, room, false)?;
                data.copy_from_slice(&read);
                Ok(())
            }
            near => self.move_near(process, target, near, runs, false, data),
        }
    }

    /// Writes data so that it is complete at the target before the turn ends.
    pub(crate) fn write_in_turn(
        &self,
        process: &Process,
        target: u32,
        memory: &Memory,
        runs: &[(u64, usize)],
        data: &mut [u8],
    ) -> Result<()> {
        match memory {
            Memory::Far => {
                let within = self.within(process, target, runs)?;
                let (_, direct) = self.move_far(process, target, &within, data.to_vec(), true)?;
                match direct && self.keep_order(runs) {
                    // The atomic that ends the turn arrives after this write.
                    true => Ok(()),
                    false => self.flush_sent(process, target),
                }
            }
            near => self.move_near(process, target, near, runs, true, data),
        }
    }

    fn move_near(
        &self,
        process: &Process,
        target: u32,
        memory: &Memory,
        runs: &[(u64, usize)],
        write: bool,
        data: &mut [u8],
    ) -> Result<()> {
        let mut rest = data;
        for &(at, len) in runs {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
            rest = later;
            let local = now.as_mut_ptr();
            match memory {
                Memory::There(start) => {
                    let address = start.wrapping_add(at);
                    // SAFETY: `now` has `len` bytes. Callers pass blocks within the target's window
                    // memory (`Window::accumulate` has checked them).
                    unsafe { self.copy_by_kernel(process, target, write, (local, len), address)? };
                }
                Memory::Here(here) => {
                    let place = here.wrapping_add(at as usize);
                    // SAFETY: `now` has `len` bytes. Callers pass blocks within the window memory,
                    // during the turn, so that no other accumulate accesses them.
                    unsafe {
                        match write {
                            true => netmod_kit::copy(local, place, len),
                            false => netmod_kit::copy(place, local, len),
                        }
                    }
                }
                Memory::Far => {
                    let text = "internal error: memory on another node cannot be copied directly";
                    return Err(Error::new(Class::Intern, text));
                }
            }
        }
        Ok(())
    }
}

/// Returns the blocks of elements as offsets and lengths in bytes.
fn bytes_of(piece: &Piece) -> Vec<(u64, usize)> {
    piece
        .iter()
        .map(|((at, len), _)| (*at as u64, *len))
        .collect()
}

/// Divides blocks of elements into pieces of at most [`PIECE`] bytes.
fn pieces(runs: &[Run], reduction: &Reduction) -> Vec<Piece> {
    let most = (PIECE / reduction.extent()).max(1);
    let (mut pieces, mut piece, mut room) = (Vec::new(), Piece::new(), most);
    for &(at, count) in runs {
        let mut done = 0;
        while done < count {
            let now = room.min(count - done);
            let place = at.wrapping_add((done * reduction.extent()) as i64);
            piece.push(((place, now * reduction.extent()), now));
            (done, room) = (done + now, room - now);
            if room == 0 {
                pieces.push(std::mem::take(&mut piece));
                room = most;
            }
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_types::datatype::{Datatype, Predefined};
    use mpi_types::op::Op;

    #[test]
    fn pieces_are_all_elements_in_order_and_none_is_too_long() {
        let datatype = Datatype::predefined(Predefined::Double);
        let sum = Op::predefined(PredefinedOp::Sum);
        let reduction = Reduction::new(&sum, &datatype).unwrap();
        let runs = [(8, 3), (100_000, PIECE / 8), (-16, 1), (1 << 40, PIECE / 4)];
        let pieces = pieces(&runs, &reduction);
        let len = |piece: &Piece| piece.iter().map(|one| one.0.1).sum::<usize>();
        assert!(pieces.iter().all(|piece| len(piece) <= PIECE));
        assert!(pieces[..pieces.len() - 1].iter().all(|it| len(it) == PIECE));
        let mut all = pieces.concat().into_iter();
        for (at, count) in runs {
            let mut next = at;
            while next < at + 8 * count as i64 {
                let ((place, bytes), elements) = all.next().unwrap();
                assert_eq!((place, bytes), (next, 8 * elements));
                next += bytes as i64;
            }
        }
        assert!(all.next().is_none());
    }
}
