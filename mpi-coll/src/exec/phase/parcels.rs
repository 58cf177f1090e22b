//! Blocks of their own lengths to one rank, or from one, in one phase: `MPI_Gatherv` and `MPI_Scatterv`. Only two ranks
//! know a block's length, so the slot says it, or that the block comes by a message.

use super::flags::{Phase, ShortWay};
use crate::agreement::signature::CallSignature;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::Comm;
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_sched::Part;
use mpi_sched::slots::can_scatter;

/// The most bytes of a block in a slot.
const MOST: usize = 1 << 10;
/// The length of a block that comes by a message.
const BY_MESSAGE: u64 = u64::MAX;
/// Bytes of the length.
const HEAD: isize = 8;
/// Where the data of the only block of a slot is that doesn't fit behind its length, in the slot's first line.
const APART: isize = 64;
/// Where the length of such a block is: behind the flag.
const FIRST: isize = 16;

/// Whose block of a slot.
#[derive(Clone, Copy)]
pub(crate) enum Parcel {
    /// The only one, for the root.
    ToRoot,
    /// That for a rank, of the root's.
    For(u32),
}

/// The phase of such a call.
pub(crate) struct Parcels<'a> {
    phase: Phase<'a>,
    shared: &'a SharedSlots,
    /// What the longest block was that was put.
    stored: usize,
}

impl<'a> Parcels<'a> {
    /// Whether all ranks have room in each other's slots.
    pub fn have_room(shared: &SharedSlots) -> bool {
        can_scatter(shared.slots)
    }

    /// Begins a call with this signature, which says that it goes in one phase.
    ///
    /// # Errors
    /// A member is lost, or members disagree.
    pub fn begin(
        process: &'a Process,
        comm: &'a Comm,
        shared: &'a SharedSlots,
        signature: CallSignature,
    ) -> Result<Parcels<'a>> {
        let phase = Phase::begin(ShortWay::among(process, comm, shared), signature)?;
        match comm.trouble(process) {
            Some(error) => Err(error),
            None => Ok(Parcels {
                phase,
                shared,
                stored: 0,
            }),
        }
    }

    /// The call's number among the communicator's collectives.
    pub fn tag(&self) -> u32 {
        self.phase.tag()
    }

    /// Where in the slot of `of` a block's length is, and its data of `len` bytes.
    fn offsets(&self, of: u32, parcel: Parcel, len: usize) -> [isize; 2] {
        let slots = &self.shared.slots;
        match parcel {
            Parcel::For(rank) if slots.size > 2 => {
                let at = slots.offset_for(of, rank, MOST);
                [at, at + HEAD]
            }
            _ if len as isize <= APART - FIRST - HEAD => [FIRST, FIRST + HEAD],
            _ => [FIRST, APART],
        }
    }

    /// The most bytes of a block that a slot takes.
    fn room(&self) -> usize {
        let slots = &self.shared.slots;
        (slots.room / slots.size as usize - 64).min(MOST)
    }

    /// Waits until this rank may put blocks.
    pub fn claim(&mut self) -> Result<()> {
        self.phase.claim()
    }

    /// Puts a block. Returns whether it was: if not, it is to be sent when all that is put is [raised](Parcels::raise).
    ///
    /// # Safety
    /// This rank has [claimed](Parcels::claim) its slot; the elements are readable at `from`.
    pub unsafe fn put(&mut self, parcel: Parcel, from: *const u8, part: &Part<'_>) -> bool {
        let own = self.shared.slots.rank;
        let (len, datatype) = (part.bytes(), part.datatype);
        let is_put = len <= self.room();
        let [head, data] = self.offsets(own, parcel, len);
        let says = if is_put { len as u64 } else { BY_MESSAGE };
        let place = |offset| self.phase.own_of(self.phase.places(offset));
        // SAFETY: the slot is this rank's until the flag is up, and has room for this; the caller's contract.
        unsafe {
            place(head).cast::<u64>().write_unaligned(says);
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

    /// Says that what this rank has put is there.
    pub fn raise(&self) {
        self.phase.raise();
    }

    /// Waits for a block of rank `of` and takes it to `to`. Returns whether it was put: if not, it comes by a message.
    ///
    /// # Errors
    /// The outer one: the call can't go on. The inner one: the block is longer than there is room.
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
        // SAFETY: the flag says that it has been written.
        let says = unsafe {
            let head = self.phase.places(head).of(of);
            head.cast::<u64>().read_unaligned()
        };
        if says == BY_MESSAGE {
            return Ok(Ok(false));
        }
        let (len, datatype) = (says as usize, part.datatype);
        if len > part.bytes() || len > self.room() {
            return Ok(Err(too_long(of, len, part.bytes())));
        }
        let [_, data] = self.offsets(of, parcel, len);
        let data = self.phase.places(data).of(of);
        // SAFETY: as above, and the length is within the slot and within the elements.
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

    /// The end of the phase.
    pub fn end(self) -> Result<()> {
        self.phase.end(self.stored)
    }
}

#[cold]
fn too_long(of: u32, len: usize, room: usize) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "rank {of} gives {len} bytes and this rank takes {room}; counts and datatypes of both must describe the same \
             data"
        ),
    )
}
