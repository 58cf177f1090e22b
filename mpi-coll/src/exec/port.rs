//! The ports of a run: messages, and one kind of slots.

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

/// The port of a run: a communicator's messages, and one kind of slots.
pub(crate) struct CommPort<'a, S> {
    pub process: &'a Process,
    pub comm: &'a Comm,
    pub purpose: Purpose,
    pub slots: S,
}

/// The methods of a [`Port`] that concern slots.
pub(crate) trait SlotPort {
    /// Implements [`Port::put`].
    ///
    /// # Safety
    /// The contract of [`Port::put`].
    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<Message>>;

    fn is_up(&mut self, of: u32, cell: u32, number: u64, call: bool) -> Flag;

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error>;

    fn length(&self, cell: u32, number: u64) -> Option<usize>;

    /// Implements [`Port::store`].
    ///
    /// # Safety
    /// The contract of [`Port::store`].
    #[inline]
    unsafe fn store(&mut self, _cell: u32, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: `from` and `to` are valid for `len` bytes, by `Port::store`'s contract.
        unsafe { netmod_kit::copy(from, to, len) };
    }

    fn own_slot(&self, number: u64, offset: isize) -> *mut u8;

    fn slot(&self, of: u32, cell: u32, number: u64, offset: isize) -> *mut u8;
}

impl<S: SlotPort> Port for CommPort<'_, S> {
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
        mpi_core::comm::send_to_member(
            self.process,
            self.comm,
            self.purpose,
            buffer,
            to,
            tag as i32,
        )
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
        mpi_core::comm::receive_on(
            self.process,
            self.comm,
            self.purpose,
            buffer,
            from as i32,
            tag as i32,
        )
        .map(Some)
    }

    #[inline]
    fn test(&mut self, message: Message) -> Result<bool> {
        let Some(id) = message else { return Ok(true) };
        match self.process.request(id) {
            Some(request) if !request.is_done() => Ok(false),
            _ => match self.process.finish(id)?.1 {
                None => Ok(true),
                Some(error) => Err(error),
            },
        }
    }

    #[inline]
    fn test_exact(&mut self, message: Message, from: u32, len: usize) -> Result<bool> {
        let Some(id) = message else { return Ok(true) };
        match self.process.request(id) {
            Some(request) if !request.is_done() => Ok(false),
            _ => match self.process.finish(id)? {
                (_, Some(error)) => Err(error),
                (status, None) if (status.bytes as usize) < len => {
                    Err(too_short(from, status.bytes as usize, len))
                }
                (_, None) => Ok(true),
            },
        }
    }

    #[inline(always)]
    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<Message>> {
        // SAFETY: this function has the contract of `SlotPort::put`.
        unsafe { self.slots.put(to, cell, number, data, len) }
    }

    #[inline(always)]
    fn is_up(&mut self, of: u32, cell: u32, number: u64, call: bool) -> Flag {
        self.slots.is_up(of, cell, number, call)
    }

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error> {
        self.slots.disagreement(of, number)
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

    #[inline(always)]
    fn length(&self, _of: u32, cell: u32, number: u64) -> Option<usize> {
        self.slots.length(cell, number)
    }

    #[inline]
    unsafe fn store(&mut self, cell: u32, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: this function has the contract of `SlotPort::store`.
        unsafe { self.slots.store(cell, from, to, len) };
    }

    #[inline(always)]
    fn own_slot(&self, number: u64, offset: isize) -> *mut u8 {
        self.slots.own_slot(number, offset)
    }

    #[inline(always)]
    fn slot(&self, of: u32, cell: u32, number: u64, offset: isize) -> *mut u8 {
        self.slots.slot(of, cell, number, offset)
    }
}

/// No slots, for schedules of messages.
pub(crate) struct NoSlots;

impl SlotPort for NoSlots {
    unsafe fn put(
        &mut self,
        _: u32,
        _: u32,
        _: u64,
        _: *const u8,
        _: usize,
    ) -> Result<Put<Message>> {
        Err(no_slots())
    }

    fn is_up(&mut self, _of: u32, _cell: u32, _number: u64, _call: bool) -> Flag {
        Flag::Up
    }

    fn disagreement(&mut self, _of: u32, _number: u64) -> Result<Error> {
        Err(no_slots())
    }

    fn length(&self, _cell: u32, _number: u64) -> Option<usize> {
        None
    }

    fn own_slot(&self, _number: u64, _offset: isize) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn slot(&self, _of: u32, _cell: u32, _number: u64, _offset: isize) -> *mut u8 {
        std::ptr::null_mut()
    }
}

#[cold]
pub(crate) fn no_slots() -> Error {
    Error::new(
        Class::Intern,
        "internal error: the communicator has no slots",
    )
}

/// A node's shared slots, for blocking calls.
pub(crate) struct SharedPort<'a> {
    pub shared: &'a SharedSlots,
    /// Polls of a flag before other work.
    pub looks: u32,
    /// The call's number among the communicator's collectives.
    tag: u32,
    /// What all members must agree on.
    pub signature: CallSignature,
    /// Whether long data is stored past the caches.
    far: bool,
    /// The most bytes stored at a time.
    stored: usize,
}

impl<'a> SharedPort<'a> {
    pub fn new(
        shared: &'a SharedSlots,
        looks: u32,
        tag: u32,
        signature: CallSignature,
    ) -> SharedPort<'a> {
        SharedPort {
            shared,
            looks,
            tag,
            signature,
            far: shared.nearness.is_far(),
            stored: 0,
        }
    }

    /// Uses the nearness measured by other slots of the same ranks.
    #[inline]
    pub fn with_nearness_of(self, others: &SharedSlots) -> SharedPort<'a> {
        let far = others.nearness.is_far();
        SharedPort { far, ..self }
    }

    /// Ends call number `tag`, whose first phase was `number`.
    #[inline]
    pub fn end(&self, tag: u32, number: u64) {
        if self.stored >= nearness::MIN_BYTES {
            self.shared.sample_nearness(tag, number, self.stored);
        }
    }
}

impl SlotPort for SharedPort<'_> {
    #[inline]
    unsafe fn put(
        &mut self,
        to: u32,
        _cell: u32,
        number: u64,
        _data: *const u8,
        _len: usize,
    ) -> Result<Put<Message>> {
        debug_assert_eq!(to, self.shared.slots.rank);
        self.shared.raise(number, self.signature);
        Ok(Put::Done)
    }

    #[inline]
    fn is_up(&mut self, of: u32, _cell: u32, number: u64, call: bool) -> Flag {
        self.shared
            .is_up(of, number, self.looks, call.then_some(self.signature))
    }

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error> {
        self.shared
            .disagree_in(of, self.tag, number, self.signature)
    }

    #[inline]
    fn length(&self, _cell: u32, _number: u64) -> Option<usize> {
        None // part of the signature
    }

    #[inline]
    unsafe fn store(&mut self, _cell: u32, from: *const u8, to: *mut u8, len: usize) {
        self.stored = self.stored.max(len);
        // SAFETY: `from` and `to` are valid for `len` bytes, by `Port::store`'s contract.
        unsafe { nearness::store(self.far, from, to, len) };
    }

    #[inline]
    fn own_slot(&self, number: u64, offset: isize) -> *mut u8 {
        self.shared.place(self.shared.slots.rank, number, offset)
    }

    #[inline]
    fn slot(&self, of: u32, _cell: u32, number: u64, offset: isize) -> *mut u8 {
        self.shared.place(of, number, offset)
    }
}

/// Slots that other ranks write over a network.
pub(crate) struct NetworkPort<'a> {
    pub process: &'a Process,
    pub comm: &'a Comm,
    pub network: &'a NetworkSlots,
    /// Polls of a flag before the network is polled.
    pub looks: u32,
}

impl SlotPort for NetworkPort<'_> {
    #[inline]
    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<Message>> {
        let data = match len {
            0 => &[][..],
            // SAFETY: the engine passes `len` readable bytes (`Port::put`).
            _ => unsafe { std::slice::from_raw_parts(data, len) },
        };
        self.network
            .put(self.process, self.comm, to, cell, number, data)
    }

    #[inline]
    fn is_up(&mut self, _of: u32, cell: u32, number: u64, _call: bool) -> Flag {
        match self.network.is_up(cell, number, self.looks) {
            true => Flag::Up,
            false => Flag::Down,
        }
    }

    fn disagreement(&mut self, _of: u32, _number: u64) -> Result<Error> {
        Err(no_slots())
    }

    #[inline]
    fn length(&self, cell: u32, number: u64) -> Option<usize> {
        Some(self.network.length(cell, number))
    }

    fn own_slot(&self, number: u64, offset: isize) -> *mut u8 {
        self.network.slot(0, number).wrapping_offset(offset)
    }

    #[inline]
    fn slot(&self, _of: u32, cell: u32, number: u64, offset: isize) -> *mut u8 {
        self.network.slot(cell, number).wrapping_offset(offset)
    }
}

/// A node's shared slots on a communicator over several nodes and, on a leader, slots that other
/// leaders write.
pub(crate) struct NodePort<'a> {
    pub node: SharedPort<'a>,
    pub network: Option<NetworkPort<'a>>,
}

impl SlotPort for NodePort<'_> {
    #[inline]
    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<Message>> {
        match (cell, &mut self.network) {
            // SAFETY: this function has the contract of `SlotPort::put`.
            (NODE, _) => unsafe { self.node.put(to, cell, number, data, len) },
            // SAFETY: this function has the contract of `SlotPort::put`.
            (_, Some(network)) => unsafe { network.put(to, cell, number, data, len) },
            (_, None) => Err(no_slots()),
        }
    }

    #[inline]
    fn is_up(&mut self, of: u32, cell: u32, number: u64, call: bool) -> Flag {
        match (cell, &mut self.network) {
            (NODE, _) => self.node.is_up(of, cell, number, call),
            (_, Some(network)) => network.is_up(of, cell, number, call),
            (_, None) => Flag::Down,
        }
    }

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error> {
        self.node.disagreement(of, number)
    }

    #[inline]
    fn length(&self, cell: u32, number: u64) -> Option<usize> {
        match (cell, &self.network) {
            (NODE, _) | (_, None) => None,
            (_, Some(network)) => network.length(cell, number),
        }
    }

    #[inline]
    unsafe fn store(&mut self, cell: u32, from: *const u8, to: *mut u8, len: usize) {
        match cell {
            // SAFETY: this function has the contract of `SlotPort::store`.
            NODE => unsafe { self.node.store(cell, from, to, len) },
            // SAFETY: `from` and `to` are valid for `len` bytes, by `Port::store`'s contract.
            _ => unsafe { netmod_kit::copy(from, to, len) },
        }
    }

    fn own_slot(&self, number: u64, offset: isize) -> *mut u8 {
        self.node.own_slot(number, offset)
    }

    #[inline]
    fn slot(&self, of: u32, cell: u32, number: u64, offset: isize) -> *mut u8 {
        match (cell, &self.network) {
            (NODE, _) | (_, None) => self.node.slot(of, cell, number, offset),
            (_, Some(network)) => network.slot(of, cell, number, offset),
        }
    }
}

/// A node's shared slots, for nonblocking calls.
pub(crate) struct NonblockingPort<'a> {
    pub nonblocking: &'a NonblockingSlots,
    pub shared: &'a SharedSlots,
    /// Whether to poll the flags of other ranks. The starting call doesn't: mostly none is up yet,
    /// and an early poll makes the cache line move twice.
    pub polls_flags: bool,
    /// The call's number among the communicator's collectives.
    pub tag: u32,
    /// What all members must agree on.
    pub signature: CallSignature,
}

impl SlotPort for NonblockingPort<'_> {
    #[inline]
    unsafe fn put(
        &mut self,
        to: u32,
        _cell: u32,
        number: u64,
        _data: *const u8,
        _len: usize,
    ) -> Result<Put<Message>> {
        debug_assert_eq!(to, self.nonblocking.slots.rank);
        self.nonblocking.raise(number, self.signature);
        Ok(Put::Done)
    }

    #[inline]
    fn is_up(&mut self, of: u32, cell: u32, number: u64, _call: bool) -> Flag {
        match cell {
            THROUGH if self.nonblocking.is_through(of, number) => Flag::Up,
            THROUGH => Flag::Down,
            _ if self.polls_flags => self.nonblocking.is_up(of, number, self.signature),
            _ => Flag::Down,
        }
    }

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error> {
        let theirs = self.nonblocking.signature(of, number);
        self.shared.disagree(of, self.tag, self.signature, theirs)
    }

    fn length(&self, _cell: u32, _number: u64) -> Option<usize> {
        None // part of the signature
    }

    unsafe fn store(&mut self, _cell: u32, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: `from` and `to` are valid for `len` bytes, by `Port::store`'s contract.
        unsafe { nearness::store(self.shared.nearness.is_far(), from, to, len) };
    }

    fn own_slot(&self, number: u64, offset: isize) -> *mut u8 {
        self.slot(self.nonblocking.slots.rank, 0, number, offset)
    }

    #[inline]
    fn slot(&self, of: u32, _cell: u32, number: u64, offset: isize) -> *mut u8 {
        self.nonblocking.slot(of, number).wrapping_offset(offset)
    }
}
