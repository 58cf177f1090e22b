//! Accumulates in windows whose members do without each other's processors.
//!
//! The network's atomics know few operations on words of 8 bytes; MPI wants any predefined operation on
//! any predefined datatype. So all accumulates on a member's memory take turns
//! ([`crate::network::turn`]): get what is there, compute, put what comes of it.
//!
//! Invariant (accumulate atomicity, section 11.7.1): all accumulates on such a window go this way, those of
//! a member on its own memory and of its node's too, which reach the memory by loads and stores or by the
//! kernel's copies, but take turns by the network as all others. Who has the memory's exclusive lock needs no
//! turn.
//!
//! An accumulate is noted ([`crate::network::batch`]) or over when the call returns, so those of an origin are carried
//! out in their order (section 11.7.2). A member that dies in its turn has it no longer: whoever waits takes it over, by the rank in the word.

use crate::network::turn::Memory;
use crate::window::Window;
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};
use crate::window::buffers::{Origin, Target};
use crate::window::runs::Run;
use mpi_core::process::Process;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::PredefinedOp;

/// The most bytes that are fetched at once.
const PIECE: usize = 1 << 20;

/// Some elements: runs of bytes, and how many there are in each.
type Piece = Vec<(Run, usize)>;

impl Window {
    /// [`Window::accumulate`] in turn.
    ///
    /// # Safety
    /// As for that; the place `at` in the target's memory is within it.
    pub(crate) unsafe fn accumulate_in_turn(
        &self,
        process: &Process,
        origin: Option<Origin<'_>>,
        result: Option<Origin<'_>>,
        (target, at): (&Target<'_>, i64),
        reduction: &Reduction,
    ) -> Result<()> {
        let runs = apply::runs(target.datatype, target.count, at, reduction);
        if let (Some(origin), None) = (&origin, &result)
            && matches!(self.memory_of(target.rank), Memory::Far)
            // SAFETY: the caller's promise.
            && unsafe { self.note_accumulate(process, origin, target.rank, (&runs, reduction))? }
        {
            return Ok(());
        }
        self.carry_out_noted(process, Some(target.rank))?;
        // SAFETY: the caller's promise.
        let input = origin.as_ref().map(|origin| unsafe { origin.packed() });
        let input = input.as_deref().unwrap_or_default();
        let plain = result.as_ref().and_then(|result| result.contiguous());
        let mut found = match (&result, plain) {
            (Some(result), None) => vec![0; result.len()],
            _ => Vec::new(),
        };
        let output = match (&result, plain) {
            (None, _) => std::ptr::null_mut(),
            (Some(_), Some(plain)) => plain,
            (Some(_), None) => found.as_mut_ptr(),
        };
        let pieces = pieces(&runs, reduction);
        let first = match &pieces[..] {
            [only] if !replaces(reduction, output) => bytes_of(only),
            _ => Vec::new(),
        };
        self.in_turn(process, target.rank, &first, |memory, mut read| {
            let (mut done, mut result) = (0, Ok(()));
            for piece in &pieces {
                let read = read.take();
                let (input, output) = (skipped(input.as_ptr(), done), skipped(output, done));
                // SAFETY: input and output hold all elements, of which `done` bytes were dealt with.
                let reduced = unsafe {
                    let buffers = (input, output.cast_mut());
                    self.reduce_piece(
                        process,
                        target.rank,
                        memory,
                        reduction,
                        (piece, read),
                        buffers,
                    )
                };
                match reduced {
                    Ok(bytes) => done += bytes,
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
            result
        })?;
        if let (Some(result), None) = (result, plain) {
            // SAFETY: the caller's promise.
            unsafe {
                let Origin {
                    base,
                    count,
                    datatype,
                } = result;
                datatype.unpack(base, count, 0, &found);
            }
        }
        Ok(())
    }

    /// [`Window::compare_and_swap`] in turn, of an element of `size` bytes. Gives what was there.
    pub(crate) fn compare_and_swap_in_turn(
        &self,
        process: &Process,
        [compare, new]: [u128; 2],
        (target, at, size): (u32, i64, usize),
    ) -> Result<u128> {
        self.carry_out_noted(process, Some(target))?;
        let run = [((at as u64), size)];
        let mut element = [0u8; LONGEST_COMPARED];
        self.in_turn(process, target, &run, |memory, read| {
            let bytes = &mut element[..size];
            match read {
                Some(read) => bytes.copy_from_slice(&read),
                None => self.read_in_turn(process, target, memory, &run, bytes)?,
            }
            let found = u128::from_le_bytes(element);
            if found == compare {
                let bytes = &mut new.to_le_bytes()[..size];
                self.write_in_turn(process, target, memory, &run, bytes)?;
            }
            Ok(found)
        })
    }

    /// Reduces some elements in a turn, which may have been read. Gives how long they are in packed form.
    ///
    /// # Safety
    /// `input` and `output` are NULL or hold these elements.
    unsafe fn reduce_piece(
        &self,
        process: &Process,
        target: u32,
        memory: &Memory,
        reduction: &Reduction,
        (piece, read): (&Piece, Option<Vec<u8>>),
        (input, output): (*const u8, *mut u8),
    ) -> Result<usize> {
        if let Memory::Here(here) = memory {
            let mut done = 0;
            for &((at, _), count) in piece {
                let place = here.wrapping_offset(at as isize);
                let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
                // SAFETY: the caller's promise; within the window's memory, in turn.
                unsafe { reduction.apply_exclusive(place, count, input, output) };
                done += count * reduction.packed();
            }
            return Ok(done);
        }
        let runs = bytes_of(piece);
        let mut elements = match read {
            Some(read) => read,
            None => {
                let mut room = vec![0u8; runs.iter().map(|run| run.1).sum()];
                if !replaces(reduction, output) {
                    self.read_in_turn(process, target, memory, &runs, &mut room)?;
                }
                room
            }
        };
        let (mut done, mut place) = (0, elements.as_mut_ptr());
        for &((_, len), count) in piece {
            let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
            // SAFETY: the caller's promise; `elements` are as long as all runs.
            unsafe { reduction.apply_exclusive(place, count, input, output) };
            place = place.wrapping_add(len);
            done += count * reduction.packed();
        }
        if reduction.op != PredefinedOp::NoOp {
            self.write_in_turn(process, target, memory, &runs, &mut elements)?;
        }
        Ok(done)
    }

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

    /// Writes, so that it is complete at the target before the turn ends.
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
                    // The end of the turn comes behind it.
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
                    // SAFETY: `now` has `len` bytes; the member's memory is the window's.
                    unsafe { self.copy_by_kernel(process, target, write, (local, len), address)? };
                }
                Memory::Here(here) => {
                    let place = here.wrapping_add(at as usize);
                    // SAFETY: within the window's memory, in turn; `now` has `len` bytes.
                    unsafe {
                        match write {
                            true => netmod_kit::copy(local, place, len),
                            false => netmod_kit::copy(place, local, len),
                        }
                    }
                }
                Memory::Far => {
                    return Err(Error::new(Class::Intern, "the memory is not of this node"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a reduction needs nothing of what is there.
fn replaces(reduction: &Reduction, output: *const u8) -> bool {
    reduction.op == PredefinedOp::Replace
        && output.is_null()
        && reduction.packed() == reduction.extent()
}

/// Where the bytes of elements are.
fn bytes_of(piece: &Piece) -> Vec<(u64, usize)> {
    piece
        .iter()
        .map(|((at, len), _)| (*at as u64, *len))
        .collect()
}

/// Runs of elements, in pieces that are fetched at once.
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

/// `done` bytes behind `start`, unless that is NULL.
fn skipped(start: *const u8, done: usize) -> *const u8 {
    match start.is_null() {
        true => start,
        false => start.wrapping_add(done),
    }
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
