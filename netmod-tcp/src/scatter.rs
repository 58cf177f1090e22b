//! Receives messages into scattered memory, or past memory that cannot be written.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut};

use netmod::{Header, IoVec, MAX_IOVECS, Sink};
use netmod_kit::Exposures;
use rustix::io::Errno;

use crate::conn::{Conn, Incoming, Target};
use crate::ops::Ops;
use crate::receive::Brought;
use crate::socket::Socket;

/// Asks the sink for the blocks that a message is scattered over.
#[cold]
pub(crate) fn destinations(
    peer: netmod::Peer,
    header: &Header,
    len: usize,
    sink: &mut dyn Sink,
) -> Option<Target> {
    let nothing = IoVec {
        ptr: std::ptr::null_mut(),
        len: 0,
    };
    let mut all = [nothing; MAX_IOVECS];
    let (count, token) = sink.destinations(peer, header, len, &mut all)?;
    let list = all[..count].iter().copied().collect();
    Some(Target::Pieces { list, token })
}

/// Copies to the first blocks and removes those that are full.
pub(crate) fn fill_pieces(list: &mut VecDeque<IoVec>, data: &[u8]) {
    let mut rest = data;
    while let (Some(first), false) = (list.front(), rest.is_empty()) {
        let count = first.len.min(rest.len());
        // SAFETY: the sink gave this block, which stays valid until completion; `count` is at most
        // its length.
        unsafe { netmod_kit::copy(rest.as_ptr(), first.ptr, count) };
        rest = &rest[count..];
        skip_pieces(list, count);
    }
}

/// Removes the first `count` bytes from the blocks.
fn skip_pieces(list: &mut VecDeque<IoVec>, mut count: usize) {
    while let Some(first) = list.front_mut() {
        if count < first.len {
            first.ptr = first.ptr.wrapping_add(count);
            first.len -= count;
            return;
        }
        count -= first.len;
        list.pop_front();
    }
}

impl<S: Socket> Conn<S> {
    /// Reads once: `left` bytes into the blocks of the partial frame, and the bytes behind it into
    /// `buffer`.
    pub(crate) fn read_pieces(&mut self, left: usize, buffer: &mut [u8]) -> io::Result<Brought> {
        let Some(Incoming {
            target: Target::Pieces { list, .. },
            filled,
            ..
        }) = &mut self.incoming
        else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let room = if left > buffer.len() { 0 } else { buffer.len() };
        let mut places: [IoSliceMut<'_>; MAX_IOVECS + 1] =
            std::array::from_fn(|_| IoSliceMut::new(&mut []));
        for (place, piece) in places.iter_mut().zip(&*list) {
            // SAFETY: the sink gave this block, which stays valid until completion.
            *place =
                IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(piece.ptr, piece.len) });
        }
        let count = list.len().min(MAX_IOVECS);
        places[count] = IoSliceMut::new(&mut buffer[..room]);
        let got = match self.stream.read_pieces(&mut places[..=count]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            got => got?,
        };
        let placed = got.min(left);
        skip_pieces(list, placed);
        *filled += placed;
        Ok(Brought {
            bytes: got - placed,
            full: got == left + room,
        })
    }

    /// Reads once after the kernel has met memory that it cannot write.
    #[cold]
    pub(crate) fn read_around(
        &mut self,
        peer: netmod::Peer,
        exposures: &Exposures<()>,
        ops: &mut Ops,
        buffer: &mut [u8],
    ) -> io::Result<Brought> {
        let Some(incoming) = &mut self.incoming else {
            return Err(Errno::FAULT.into());
        };
        let (token, start) = match &incoming.target {
            Target::Placed { ptr, token } => (*token, ptr.addr() + incoming.filled),
            Target::Pieces { list, token } => {
                (*token, list.front().map_or(0, |piece| piece.ptr.addr()))
            }
            // The copy accesses the memory in user space, so that the fault shows as the program's.
            _ => {
                let most = (incoming.len - incoming.filled).min(buffer.len());
                let got = self.stream.read(&mut buffer[..most])?;
                if got == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                incoming.fill(&buffer[..got], peer, exposures, ops);
                incoming.advance(got, peer, ops);
                let full = true;
                return Ok(Brought { bytes: 0, full });
            }
        };
        let address = start as u64;
        incoming.target = Target::Spoilt { token, address };
        self.read(peer, exposures, ops, buffer)
    }
}
