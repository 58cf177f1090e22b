//! Blocks of varying lengths to one rank, or from one, in one phase: gatherv and scatterv.
//!
//! Only two ranks know a block's length, so the slot holds it before the data, or says that the block
//! comes by a message.

use super::flags::{NodeContext, Phase};
use crate::agreement::signature::CallSignature;
use crate::slots::shared::SharedSlots;
use mpi_core::error::{Class, Error, Result};
use mpi_sched::Part;
use mpi_sched::slots::can_scatter;

/// Bytes of a block in a slot, at the most.
const MAX_BYTES: usize = 1 << 10;
/// The length of a block that comes by a message.
const BY_MESSAGE: u64 = u64::MAX;
/// Bytes of the length.
const LENGTH_BYTES: isize = 8;
/// Offset of the length of a slot's only block: behind the flag, in the slot's first cache line.
const ONLY_LENGTH: isize = 16;
/// Offset of the data of a slot's only block, if it doesn't fit into the first cache line.
const SECOND_LINE: isize = 64;

/// Which block of a slot.
#[derive(Clone, Copy)]
pub(crate) enum Parcel {
    /// The only one, for the root.
    ToRoot,
    /// That for a rank, in the root's slot.
    For(u32),
}

/// The phase of a gatherv or scatterv.
pub(crate) struct Parcels<'a> {
    phase: Phase<'a>,
    shared: &'a SharedSlots,
    /// Bytes of the longest block that this rank has put.
    stored: usize,
}

impl<'a> Parcels<'a> {
    /// Whether slots have space for a block of each rank. All members have the same slots.
    pub fn fit(shared: &SharedSlots) -> bool {
        can_scatter(shared.slots)
    }

    /// Begins a call with this signature, which says that it has one phase.
    ///
    /// # Errors
    /// A member has failed, or members disagree.
    pub fn begin(node: NodeContext<'a>, signature: CallSignature) -> Result<Parcels<'a>> {
        node.check_members()?;
        Ok(Parcels {
            phase: Phase::begin(node, signature)?,
            shared: node.shared,
            stored: 0,
        })
    }

    /// Returns the call's number among the communicator's collectives.
    pub fn tag(&self) -> u32 {
        self.phase.tag()
    }

    /// Returns the offsets of a block's length and of its `len` bytes in the slot of rank `of`.
    fn offsets(&self, of: u32, parcel: Parcel, len: usize) -> [isize; 2] {
        let slots = &self.shared.slots;
        match parcel {
            Parcel::For(rank) if slots.size > 2 => {
                let at = slots.offset_for(of, rank, MAX_BYTES);
                [at, at + LENGTH_BYTES]
            }
            _ if len as isize <= SECOND_LINE - ONLY_LENGTH - LENGTH_BYTES => {
                [ONLY_LENGTH, ONLY_LENGTH + LENGTH_BYTES]
            }
            _ => [ONLY_LENGTH, SECOND_LINE],
        }
    }

    /// Returns the bytes of a block that a slot takes, at the most.
    fn max_bytes(&self) -> usize {
        let slots = &self.shared.slots;
        (slots.room / slots.size as usize - 64).min(MAX_BYTES)
    }

    /// Waits until this rank may put blocks.
    pub fn claim(&mut self) -> Result<()> {
        self.phase.claim()
    }

    /// Puts a block into this rank's slot. Returns false if it is too long: then it is sent as a
    /// message after [`Parcels::raise`].
    ///
    /// # Safety
    /// This rank has [claimed](Parcels::claim) its slot; the elements are readable at `from`.
    pub unsafe fn put(&mut self, parcel: Parcel, from: *const u8, part: &Part<'_>) -> bool {
        let own = self.shared.slots.rank;
        let (len, datatype) = (part.bytes(), part.datatype);
        let is_put = len <= self.max_bytes();
        let [head, data] = self.offsets(own, parcel, len);
        let length = if is_put { len as u64 } else { BY_MESSAGE };
        let place = |offset| self.phase.own_of(self.phase.addresses(offset));
        // SAFETY: the slot is claimed, and has space for the length and `max_bytes` of data; the
        // elements are readable at `from`, by this function's contract.
        unsafe {
            place(head).cast::<u64>().write_unaligned(length);
            if is_put && datatype.is_contiguous() {
                let from = from.wrapping_offset(datatype.true_lb());
                netmod_kit::copy_to_shared(from, place(data), len);
            } else if is_put && len > 0 {
                let out = std::slice::from_raw_parts_mut(place(data), len);
                datatype.pack(from, part.count, 0, out);
            }
        }
        if is_put {
            self.stored = self.stored.max(len);
        }
        is_put
    }

    /// Raises this rank's flag: its blocks may be read.
    pub fn raise(&self) {
        self.phase.raise();
    }

    /// Waits for a block of rank `of` and copies it to `to`. Returns false if it comes by a message.
    ///
    /// # Errors
    /// The outer one: the call can't go on. The inner one: the block is longer than this rank takes.
    ///
    /// # Safety
    /// The elements are writable at `to`.
    pub unsafe fn take(
        &mut self,
        of: u32,
        parcel: Parcel,
        to: *mut u8,
        part: &Part<'_>,
    ) -> Result<Result<bool>> {
        self.phase.wait_for(of)?;
        let [head, _] = self.offsets(of, parcel, 0);
        // SAFETY: rank `of`'s flag is up, so it has written the length.
        let length = unsafe {
            let head = self.phase.addresses(head).of(of);
            head.cast::<u64>().read_unaligned()
        };
        if length == BY_MESSAGE {
            return Ok(Ok(false));
        }
        let (len, datatype) = (length as usize, part.datatype);
        if len > part.bytes() || len > self.max_bytes() {
            return Ok(Err(too_long(of, len, part.bytes())));
        }
        let [_, data] = self.offsets(of, parcel, len);
        let data = self.phase.addresses(data).of(of);
        // SAFETY: rank `of`'s flag is up, so it has written the data; the length is within the slot and
        // within the elements, which are writable at `to` by this function's contract.
        unsafe {
            if datatype.is_contiguous() {
                netmod_kit::copy(data, to.wrapping_offset(datatype.true_lb()), len);
            } else if len > 0 {
                let data = std::slice::from_raw_parts(data, len);
                datatype.unpack(to, part.count, 0, data);
            }
        }
        Ok(Ok(true))
    }

    /// Ends the phase.
    pub fn end(self) -> Result<()> {
        self.phase.end(self.stored)
    }
}

#[cold]
fn too_long(of: u32, len: usize, taken: usize) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "rank {of} gives {len} bytes and this rank takes {taken}; counts and datatypes of both must describe the same \
             data"
        ),
    )
}
