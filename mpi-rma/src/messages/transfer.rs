//! Puts and gets by messages that the target's process serves.

use crate::messages::message::{self, Kind, Layout};
use crate::window::members::Messages;
use crate::window::runs;
use crate::window::transfer::{TargetMemory, Transfer};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

/// Bytes of data in a message of a put to many blocks.
const PIECE: usize = 1 << 20;
/// Groups of blocks in such a message.
const GROUPS: usize = 4096;
/// Such messages of a put that may be pending.
const MAX_PENDING: usize = 4;

impl TargetMemory for Messages {
    unsafe fn put(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        let Transfer { origin, target, .. } = transfer;
        let Some((skip, len)) = target.datatype.as_block(target.count) else {
            // SAFETY: the origin's buffer stays as the transfer describes it until the access is
            // complete (`TargetMemory`).
            return unsafe { put_blocks(transfer) }.map(|()| None);
        };
        let service = transfer.window.service()?;
        let block = [(transfer.at.wrapping_add(skip as i64), len)];
        let layout = Layout::Runs(&block);
        let room = service.memory_for(layout.message_len(len));
        let words = [transfer.notify, 0];
        let message = message::encode(room, Kind::Put, 0, words, layout, len, |out| {
            // SAFETY: the buffer is readable by this function's contract; both sides have `len`
            // bytes (`Window::check`).
            unsafe { origin.pack(out) }
        });
        let to = (target.rank, service.lanes.any());
        transfer.window.ask(transfer.process, to, message, false)?;
        Ok(None)
    }

    unsafe fn get(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        let Transfer {
            window,
            process,
            origin,
            target,
            at,
            completion,
            notify,
        } = transfer;
        let service = window.service()?;
        let to = (target.rank, service.lanes.any());
        let ask = |layout: Layout<'_>| {
            let message = |tag| service.message(Kind::Get, tag, [*notify, 0], layout);
            // SAFETY: the buffer is writable until the call is complete, by this function's contract.
            unsafe { window.ask_for(process, to, origin, *completion, message) }
        };
        match target.datatype.as_block(target.count) {
            Some((skip, len)) => ask(Layout::Runs(&[(at.wrapping_add(skip as i64), len)])),
            None => ask(Layout::Groups(&window.groups(target, *at))),
        }
    }
}

/// Writes to many blocks by messages of bounded size, few of which are pending.
///
/// # Safety
/// The origin's buffer is readable.
unsafe fn put_blocks(transfer: &Transfer<'_>) -> Result<()> {
    let Transfer {
        window,
        process,
        origin,
        target,
        at,
        ..
    } = transfer;
    let service = window.service()?;
    let number = service.lanes.any();
    let lane = service.lanes.get(number);
    let null = std::ptr::null_mut();
    let mut all = target.datatype.blocks(null, target.count, 0, usize::MAX);
    let mut next = || {
        let (piece, len) = all.next()?;
        Some((at.wrapping_add(piece.addr() as i64), len))
    };
    let (mut groups, mut done) = (Vec::new(), 0);
    let mut rest = next();
    while rest.is_some() {
        groups.clear();
        let mut len = 0;
        while let Some((place, block)) = rest {
            let now = block.min(PIECE - len);
            if now == 0 || groups.len() == GROUPS {
                break;
            }
            runs::push(&mut groups, (place, now));
            len += now;
            rest = match block - now {
                0 => next(),
                more => Some((place.wrapping_add(now as i64), more)),
            };
        }
        let layout = Layout::Groups(&groups);
        let room = service.memory_for(layout.message_len(len));
        let words = [if rest.is_none() { transfer.notify } else { 0 }, 0];
        let message = message::encode(room, Kind::Put, 0, words, layout, len, |out| {
            // SAFETY: the buffer is readable by this function's contract; `len` bytes of its data
            // follow the first `done`, as both sides have equally many (`Window::check`).
            unsafe { origin.pack_from(done, out) }
        });
        window.ask(process, (target.rank, number), message, false)?;
        done += len;
        if rest.is_some() {
            // Messages to lost processes end.
            process.wait_ignoring_loss(lane.vci, || {
                Ok((lane.origin.lock().sends() < MAX_PENDING).then_some(()))
            })?;
        }
    }
    Ok(())
}
