//! Accumulates by messages that the target's process serves, or by a transport that has it do the same.

use crate::messages::message::{self, Kind, Layout};
use crate::network::word;
use crate::window::accumulate::{Accumulate, Atomicity, CompareAndSwap, MessageDomain};
use crate::window::apply;
use crate::window::buffers::Completion;
use crate::window::runs;
use mpi_core::pt2pt::operations::Act;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

impl Atomicity for MessageDomain<'_> {
    unsafe fn accumulate(self, call: &Accumulate<'_>) -> Result<Option<RequestId>> {
        // SAFETY: the operands stay as the call describes them until it is complete
        // (`Atomicity`).
        unsafe {
            match word::of_accumulate(call, self.0)? {
                Some((remote, atomic)) => {
                    let (act, completion) = (Act::Atomic(atomic), call.completion);
                    self.0
                        .change(call.process, remote, act, call.result, completion)
                }
                None => self.send_accumulate(call),
            }
        }
    }

    unsafe fn compare_and_swap(self, call: &CompareAndSwap<'_>) -> Result<()> {
        let (result, completion) = (call.result(), Completion::Blocking);
        if let Some((remote, atomic)) = word::of_swap(call, self.0)? {
            let (act, result) = (Act::Atomic(atomic), Some(result));
            // SAFETY: the operands stay as the call describes them until it is complete
            // (`Atomicity`).
            let changed = unsafe { self.0.change(call.process, remote, act, result, completion) };
            return changed.map(drop);
        }
        let MessageDomain(service) = self;
        let lower = [call.compare as u64, call.new as u64];
        let upper = [call.compare, call.new].map(|word| (word >> 64) as u64);
        let upper: &[u64] = if call.size > 8 { &upper } else { &[] };
        let blocks = [(call.at, call.size)];
        let to = (call.target.rank, service.lanes.accumulate());
        let message = |tag| {
            let (kind, layout) = (Kind::CompareAndSwap, Layout::Runs(&blocks));
            service.message_with_words(kind, tag, lower, layout, upper)
        };
        // SAFETY: the result's buffer is writable until the call is complete, by this function's
        // contract.
        unsafe {
            call.window
                .ask_for(call.process, to, &result, completion, message)
        }
        .map(drop)
    }
}

impl MessageDomain<'_> {
    /// # Safety
    /// That of [`Atomicity::accumulate`].
    unsafe fn send_accumulate(&self, call: &Accumulate<'_>) -> Result<Option<RequestId>> {
        let Accumulate {
            window,
            process,
            origin,
            target,
            reduction,
            ..
        } = call;
        let service = self.0;
        let blocks = apply::runs(target.datatype, target.count, call.at, reduction);
        let mut groups = Vec::new();
        let layout = match &*blocks {
            blocks @ ([] | [_]) => Layout::Runs(blocks),
            blocks => {
                blocks.iter().for_each(|run| runs::push(&mut groups, *run));
                Layout::Groups(&groups)
            }
        };
        let numbers = [reduction.op as u64, reduction.element as u64];
        let len = origin.map_or(0, |origin| origin.len());
        let encode = |tag| {
            let room = service.memory_for(layout.message_len(len));
            message::encode(room, Kind::Accumulate, tag, numbers, layout, len, |out| {
                if let Some(origin) = origin {
                    // SAFETY: the origin's buffer is readable by this function's contract, and has
                    // `len` bytes.
                    unsafe { origin.pack(out) };
                }
            })
        };
        let to = (target.rank, service.lanes.accumulate());
        match &call.result {
            // SAFETY: the result's buffer is writable until the call is complete, by this
            // function's contract.
            Some(result) => unsafe { window.ask_for(process, to, result, call.completion, encode) },
            None => window.ask(process, to, encode(0), false).map(|()| None),
        }
    }
}
