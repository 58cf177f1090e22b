//! The port of a run: messages, slots of a node, and slots written over a network.

use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Message;
use crate::nonblocking::in_slots::NonblockingSlots;
use crate::slots::nearness;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::{Comm, Purpose, cma};
use mpi_core::datatype::Datatype;
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::pt2pt::buffer::Buffer;
use mpi_sched::run::{Flag, too_short};
use mpi_sched::schedule::NODE;
use mpi_sched::slots::THROUGH;
use mpi_sched::{Port, Put};

/// The slots that a run uses.
#[derive(Clone, Copy, Default)]
pub(crate) struct RunSlots<'a> {
    /// Slots that ranks of this node share.
    pub shared: Option<&'a SharedSlots>,
    /// The same ones, if several calls use them together.
    pub nonblocking: Option<&'a NonblockingSlots>,
    /// Slots written over a network.
    pub network: Option<&'a NetworkSlots>,
    /// The slots in which members publish and compare their calls.
    pub agreement: Option<&'a SharedSlots>,
}

/// The port of a run: a communicator's messages, and the slots that the run uses.
pub(crate) struct CommPort<'a> {
    pub process: &'a Process,
    pub comm: &'a Comm,
    pub purpose: Purpose,
    pub slots: RunSlots<'a>,
    /// Polls of a flag before other work. A call that starts polls none: mostly no flag is up yet,
    /// and an early poll makes the cache line move twice.
    pub looks: u32,
    /// The call's number among the communicator's collectives.
    pub tag: u32,
    /// What all members must agree on.
    pub signature: CallSignature,
    /// Whether long data is stored past the caches.
    pub is_far: bool,
    /// The most bytes stored at a time.
    pub stored: usize,
}

impl<'a> CommPort<'a> {
    /// Creates the port of a call that uses no slots.
    pub fn of_messages(process: &'a Process, comm: &'a Comm, purpose: Purpose) -> CommPort<'a> {
        CommPort {
            process,
            comm,
            purpose,
            slots: RunSlots::default(),
            looks: 0,
            tag: 0,
            signature: CallSignature::default(),
            is_far: false,
            stored: 0,
        }
    }

    /// Returns the slots over a network, if the cell is one of theirs.
    #[inline(always)]
    fn network(&self, cell: u32) -> Option<&'a NetworkSlots> {
        self.slots.network.filter(|_| cell != NODE)
    }

    /// Tests a message; `is_short` returns the error of a receive of too few bytes.
    #[inline]
    fn test_unless(
        &self,
        message: Message,
        is_short: impl FnOnce(usize) -> Option<Error>,
    ) -> Result<bool> {
        let Some(id) = message else { return Ok(true) };
        match self.process.request(id) {
            Some(request) if !request.is_done() => Ok(false),
            _ => {
                let (status, error) = self.process.finish(id)?;
                let error = error.or_else(|| is_short(status.bytes as usize));
                error.map_or(Ok(true), Err)
            }
        }
    }
}

impl Port for CommPort<'_> {
    type Req = Message;

    unsafe fn isend(
        &mut self,
        buf: *const u8,
        count: usize,
        datatype: &Datatype,
        to: u32,
        tag: u32,
    ) -> Result<Message> {
        // SAFETY: the engine passes a buffer that is valid until the message is complete
        // (`Port::isend`).
        let buffer = unsafe { Buffer::typed(buf.cast_mut(), count, datatype) };
        let (process, comm, purpose) = (self.process, self.comm, self.purpose);
        mpi_core::comm::send_to_member(process, comm, purpose, buffer, to, tag as i32)
    }

    unsafe fn irecv(
        &mut self,
        buf: *mut u8,
        count: usize,
        datatype: &Datatype,
        from: u32,
        tag: u32,
    ) -> Result<Message> {
        // SAFETY: the engine passes a buffer that is valid until the message is complete
        // (`Port::irecv`).
        let buffer = unsafe { Buffer::typed(buf, count, datatype) };
        let (process, comm, purpose) = (self.process, self.comm, self.purpose);
        let (from, tag) = (from as i32, tag as i32);
        mpi_core::comm::receive_on(process, comm, purpose, buffer, from, tag).map(Some)
    }

    #[inline]
    fn test(&mut self, message: Message) -> Result<bool> {
        self.test_unless(message, |_| None)
    }

    #[inline]
    fn test_exact(&mut self, message: Message, from: u32, len: usize) -> Result<bool> {
        self.test_unless(message, |bytes| {
            (bytes < len).then(|| too_short(from, bytes, len))
        })
    }

    #[inline]
    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<Message>> {
        let Some(network) = self.network(cell) else {
            let shared = self.slots.shared.ok_or_else(no_slots)?;
            debug_assert_eq!(to, shared.slots.rank);
            shared.raise(number, self.signature);
            return Ok(Put::Done);
        };
        let data = match len {
            0 => &[][..],
            // SAFETY: the engine passes `len` readable bytes (`Port::put`).
            _ => unsafe { std::slice::from_raw_parts(data, len) },
        };
        network.put(self.process, self.comm, to, cell, number, data)
    }

    #[inline]
    fn is_up(&mut self, of: u32, cell: u32, number: u64, call: bool) -> Flag {
        let when = |is_up: bool| if is_up { Flag::Up } else { Flag::Down };
        match (
            self.network(cell),
            self.slots.nonblocking,
            self.slots.shared,
        ) {
            (Some(network), ..) => when(network.is_up(cell, number, network.looks(self.looks))),
            (None, Some(slots), _) if cell == THROUGH => when(slots.is_through(of, number)),
            (None, Some(_), _) if self.looks == 0 => Flag::Down,
            (None, Some(slots), _) => slots.ring.is_up_alone(of, number, self.signature),
            (None, None, Some(shared)) => {
                let signature = call.then_some(self.signature);
                shared.is_up(of, number, self.looks, signature)
            }
            (None, None, None) => Flag::Up,
        }
    }

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error> {
        let shared = self.slots.shared.ok_or_else(no_slots)?;
        let theirs = shared.signature_of(of, number);
        let judge = self.slots.agreement.unwrap_or(shared);
        judge.disagree(of, self.tag, self.signature, theirs)
    }

    unsafe fn direct(
        &mut self,
        of: u32,
        write: bool,
        local: *mut u8,
        len: usize,
        remote: u64,
    ) -> Result<()> {
        // SAFETY: the engine passes local memory that is valid for `len` bytes (`Port::direct`).
        let copied = unsafe { cma::copy(self.process, self.comm, of, write, local, len, remote) };
        copied.map_err(|error| match error.class() {
            Class::RmaRange => Error::new(
                Class::Buffer,
                format!(
                    "the buffer of rank {of} is shorter than its count and datatype say: {error}"
                ),
            ),
            _ => error,
        })
    }

    /// Returns the length of data over a network. That of data in shared slots is part of the
    /// signature.
    #[inline]
    fn length(&self, _of: u32, cell: u32, number: u64) -> Option<usize> {
        let network = self.network(cell)?;
        Some(network.length(cell, number))
    }

    #[inline]
    unsafe fn store(&mut self, cell: u32, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: `from` and `to` are valid for `len` bytes, by `Port::store`'s contract.
        unsafe {
            if self.network(cell).is_some() {
                return netmod_kit::copy(from, to, len);
            }
            self.stored = self.stored.max(len);
            nearness::store(self.is_far, from, to, len);
        }
    }

    #[inline]
    fn own_slot(&self, number: u64, offset: isize) -> *mut u8 {
        let shared = self.slots.shared;
        shared.map_or(std::ptr::null_mut(), |shared| {
            shared.place(shared.slots.rank, number, offset)
        })
    }

    #[inline]
    fn slot(&self, of: u32, cell: u32, number: u64, offset: isize) -> *mut u8 {
        match (self.network(cell), self.slots.shared) {
            (Some(network), _) => network.slot(cell, number).wrapping_offset(offset),
            (None, Some(shared)) => shared.place(of, number, offset),
            (None, None) => std::ptr::null_mut(),
        }
    }
}

#[cold]
pub(crate) fn no_slots() -> Error {
    Error::new(
        Class::Intern,
        "internal error: the communicator has no slots",
    )
}
