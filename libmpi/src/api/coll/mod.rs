//! Collective communication (chapter 5): code that all families share, and the barrier.
//!
//! One function implements a collective in all its forms, blocking, nonblocking and persistent
//! ([`How`]): it checks all arguments, which has no side effect on failure, and then carries out,
//! starts or stores the call. The table says which function that is and which blocks it takes.

pub mod data;
pub(crate) mod equal;
pub mod neighbor;
pub mod reduce;
pub(crate) mod repeated;

use std::ffi::{c_int, c_void};

use mpi_coll::persistent::PersistentCollective;
use mpi_coll::{Buffers, Call, Handles, Root};
use mpi_core::datatype::Datatype;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::infos;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::requests;
use mpi_runtime::requests::object::Object;
use mpi_runtime::requests::persistent_collective::Repeated;
use mpi_sched::{Ints, Layout, Part};

use super::null;
use crate::abi::{
    MPI_BYTE, MPI_Comm, MPI_Count, MPI_Datatype, MPI_IN_PLACE, MPI_Info, MPI_PROC_NULL, MPI_ROOT,
    MPI_Request,
};
use crate::args::Late;
use mpi_runtime::handles::counts::IntArray;

/// The form in which a collective is called.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Carry out the call.
    Wait,
    /// Start the call, and store its request here.
    Start(*mut MPI_Request),
    /// Make a persistent request of the call, with these hints, and store it here.
    Init(MPI_Info, *mut MPI_Request),
}

/// A communicator and what to do with a call on it.
pub(crate) struct CallContext<'a> {
    runtime: &'a Runtime,
    pub object: &'a CommObject,
    handle: MPI_Comm,
    how: How,
    call: InCall<'a>,
}

impl<'a> CallContext<'a> {
    /// Creates the context of a call on `comm`.
    #[inline]
    pub fn new(Late(handle, call): Late<'a, MPI_Comm>, how: How) -> Result<Self> {
        let runtime = runtime()?;
        let object = runtime.comm(handle, call)?;
        match how {
            How::Start(request) | How::Init(_, request) if request.is_null() => {
                return Err(null("request"));
            }
            How::Init(info, _) => infos::hints(info, call).map(drop)?,
            How::Wait | How::Start(_) => {}
        }
        Ok(CallContext {
            runtime,
            object,
            handle,
            how,
            call,
        })
    }

    /// Creates the context of a call on `comm`, which must be an intracommunicator.
    pub fn within(comm: Late<'a, MPI_Comm>, how: How) -> Result<Self> {
        let site = CallContext::new(comm, how)?;
        if site.is_inter() {
            let why = "comm is an intercommunicator; this function is for intracommunicators only";
            return Err(Error::new(Class::Comm, why));
        }
        Ok(site)
    }

    /// Returns the call of MPI.
    #[inline(always)]
    pub fn in_call(&self) -> InCall<'a> {
        self.call
    }

    pub fn is_inter(&self) -> bool {
        self.object.comm.remote().is_some()
    }

    /// Returns this rank.
    pub fn rank(&self) -> usize {
        self.object.comm.rank() as usize
    }

    /// Returns the number of ranks that data is exchanged with: those of the remote group of an
    /// intercommunicator.
    pub fn others(&self) -> usize {
        self.object.comm.peer_group().size() as usize
    }

    /// Converts the root argument.
    #[inline]
    pub fn root(&self, root: c_int) -> Result<Root> {
        if (root as u32) < self.object.comm.peer_group().size() {
            return Ok(Root::Rank(root as u32));
        }
        match root {
            MPI_ROOT if self.is_inter() => Ok(Root::This),
            MPI_PROC_NULL if self.is_inter() => Ok(Root::Other),
            _ => Err(self.bad_root(root)),
        }
    }

    #[cold]
    fn bad_root(&self, root: c_int) -> Error {
        let last = self.others() as i64 - 1;
        let more = if self.is_inter() {
            " (a rank of the remote group), MPI_ROOT or MPI_PROC_NULL"
        } else {
            ""
        };
        Error::new(
            Class::Root,
            format!("root is {root}; it must be from 0 to {last}{more}"),
        )
    }

    /// Returns whether this process is the root.
    #[inline]
    pub fn is_root(&self, root: Root) -> bool {
        match root {
            Root::Rank(rank) => rank == self.object.comm.rank() && !self.is_inter(),
            Root::This => true,
            Root::Other => false,
        }
    }

    /// Returns whether this process has data to exchange with the root; on an intracommunicator,
    /// the root has, too.
    #[inline]
    pub fn is_leaf(&self, root: Root) -> bool {
        matches!(root, Root::Rank(_))
    }

    /// Returns whether a buffer is `MPI_IN_PLACE`, which intracommunicators allow.
    #[inline]
    pub fn in_place(&self, name: &str, buf: *const c_void) -> Result<bool> {
        if buf != MPI_IN_PLACE.cast_const() {
            return Ok(false);
        }
        if self.is_inter() {
            return Err(not_in_place(name, "on an intercommunicator"));
        }
        Ok(true)
    }

    /// Checks a buffer by the function [`part`]; it may have one part per rank.
    #[inline]
    pub fn part(
        &self,
        side: &str,
        buf: *const c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<Part<'a>> {
        let part = part(side, buf, count, datatype, self.call)?;
        part.datatype.total(part.count, self.others().max(1))?;
        Ok(part)
    }

    /// Carries out or starts the call.
    ///
    /// # Safety
    /// The buffers are as the standard asks, for the arguments that were made to `call`.
    #[inline]
    pub unsafe fn run(
        &self,
        call: &Call<'_>,
        send: *const c_void,
        recv: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the buffers are as the standard asks for the call's arguments (# Safety).
        unsafe { self.run_with_handles(call, Handles::NONE, send, recv) }
    }

    /// Carries out or starts the call. A plan that a blocking call makes is found by `handles`.
    ///
    /// # Safety
    /// The buffers are as the standard asks, for the arguments that were made to `call`.
    #[inline]
    pub unsafe fn run_with_handles(
        &self,
        call: &Call<'_>,
        handles: Handles,
        send: *const c_void,
        recv: *mut c_void,
    ) -> Result<()> {
        let buffers = Buffers {
            send: send.cast(),
            recv: recv.cast(),
        };
        let process = &self.runtime.process;
        match self.how {
            How::Wait => {
                let comm = &self.object.comm;
                // SAFETY: the buffers are as the standard asks for the call's arguments (# Safety).
                unsafe { mpi_coll::call_with_handles(process, comm, buffers, call, handles) }
            }
            How::Start(request) => {
                let holder = self.runtime.comm_arc(self.handle)?;
                // SAFETY: the caller's contract, which for a nonblocking function extends to the
                // completion of the request; `new` found `request` not to be NULL.
                unsafe {
                    let id = mpi_coll::started::start_call(process, holder, buffers, call)?;
                    request.write(requests::handle(Some(id)));
                }
                Ok(())
            }
            How::Init(_, request) => {
                let holder = self.runtime.comm_arc(self.handle)?;
                // SAFETY: the caller's contract, which for a persistent request extends to all its
                // runs; `new` found `request` not to be NULL.
                unsafe {
                    let made = PersistentCollective::new(process, holder, buffers, call)?;
                    request.write(requests::insert(Object::Other(Box::new(Repeated(made))))?);
                }
                Ok(())
            }
        }
    }
}

/// Returns the error for `MPI_IN_PLACE` where it is not allowed.
#[cold]
pub(crate) fn not_in_place(name: &str, place: &str) -> Error {
    Error::new(
        Class::Buffer,
        format!("{name} is MPI_IN_PLACE, which is not allowed {place}"),
    )
}

/// Refuses `MPI_IN_PLACE`.
#[inline]
pub(crate) fn demand_buffer(name: &str, buf: *const c_void, place: &str) -> Result<()> {
    if buf == MPI_IN_PLACE.cast_const() {
        return Err(not_in_place(name, place));
    }
    Ok(())
}

#[cold]
fn negative(name: &str, index: Option<usize>, count: MPI_Count) -> Error {
    let index = index.map_or(String::new(), |index| format!("[{index}]"));
    Error::new(
        Class::Count,
        format!("{name}{index} is {count}; it must be 0 or more"),
    )
}

/// Refuses NULL for data.
#[inline]
pub(crate) fn address(
    side: &str,
    buf: *const c_void,
    count: usize,
    datatype: &Datatype,
) -> Result<()> {
    match buf.is_null() && count > 0 {
        true => types::check_address(buf, count, datatype).map_err(|error| match side {
            "" => error,
            _ => Error::new(error.class(), format!("{side}buf: {}", error.detail())),
        }),
        false => Ok(()),
    }
}

/// Returns the offset of block `i`'s data in the buffer; `None` without displacements. Saturates, as
/// displacements may be anything.
fn first_byte(layout: &Layout<'_>, i: usize) -> Option<i64> {
    let datatype = layout.datatype(i);
    let extent = datatype.extent() as i64;
    let start = match *layout {
        Layout::Uniform(each) => ((i * each.count) as i64).saturating_mul(extent),
        Layout::Varying { displs, .. } => displs?.get(i).saturating_mul(extent),
        Layout::Typed { displs, .. } => displs.get(i),
    };
    Some(start.saturating_add(datatype.true_lb() as i64))
}

/// Refuses NULL for data in blocks, unless their displacements make absolute addresses of it
/// (`MPI_BOTTOM`, sections 4.1.5 and 7.6).
fn addresses(side: &str, buf: *const c_void, layout: &Layout<'_>, ranks: usize) -> Result<()> {
    /// Linux maps no memory below this address.
    const FIRST: i64 = 4096;
    if !buf.is_null() {
        return Ok(());
    }
    let at_null = |rank: &usize| {
        let first = first_byte(layout, *rank).unwrap_or(0);
        layout.bytes(*rank) > 0 && first.abs() < FIRST
    };
    match (0..ranks).find(at_null) {
        None => Ok(()),
        Some(rank) => {
            let why = format!(
                "{side}buf is NULL, but {} bytes are to be moved for rank {rank} of it, and their \
                 displacement is not an absolute address",
                layout.bytes(rank)
            );
            Err(Error::new(Class::Buffer, why))
        }
    }
}

/// Checks the arguments `buf, count, datatype`; `side` is the prefix of their names.
#[inline]
pub(crate) fn part<'c>(
    side: &str,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    call: InCall<'c>,
) -> Result<Part<'c>> {
    if count < 0 {
        return Err(negative(&format!("{side}count"), None, count));
    }
    let (count, datatype) = types::checked(count, datatype, call)?;
    address(side, buf, count, datatype)?;
    Ok(Part { count, datatype })
}

/// The arguments that divide a buffer into blocks.
#[derive(Clone, Copy)]
pub(crate) enum Blocks {
    /// Count and datatype of every block.
    Equal(MPI_Count, MPI_Datatype),
    /// Counts, displacements in extents, datatype.
    Varying(IntArray, IntArray, MPI_Datatype),
    /// Counts, displacements in bytes, datatypes.
    Typed(IntArray, IntArray, *const MPI_Datatype),
}

impl Blocks {
    /// Returns whether counts differ between blocks.
    pub fn varies(&self) -> bool {
        !matches!(self, Blocks::Equal(..))
    }

    /// Returns the datatype of blocks with equal counts.
    pub fn datatype_of_equal(&self) -> Option<MPI_Datatype> {
        match *self {
            Blocks::Equal(_, datatype) => Some(datatype),
            _ => None,
        }
    }

    /// Returns the blocks of `ranks` ranks in `buf`; `side` is the prefix of the arguments' names.
    ///
    /// # Safety
    /// The arrays have an element for every rank, or are NULL.
    #[inline]
    pub unsafe fn layout<'a, 'c: 'a>(
        &self,
        side: &str,
        buf: *const c_void,
        ranks: usize,
        list: &'a mut TypeList<'c>,
        call: InCall<'c>,
    ) -> Result<Layout<'a>> {
        match *self {
            // Without blocks the buffer may be NULL.
            Blocks::Equal(count, datatype) if ranks == 0 => {
                part(side, buf, count.min(0), datatype, call).map(Layout::Uniform)
            }
            Blocks::Equal(count, datatype) => {
                let part = part(side, buf, count, datatype, call)?;
                part.datatype.total(part.count, ranks)?;
                Ok(Layout::Uniform(part))
            }

            // SAFETY: an array is NULL or has an element for every rank (# Safety).
            Blocks::Varying(counts, displs, datatype) => unsafe {
                let counts = integers(side, "counts", counts, ranks)?;
                let displs = integers(side, "displacements", displs, ranks)?;
                let (_, datatype) = types::checked(0, datatype, call)?;
                let total = sum(side, counts, ranks)?;
                datatype.total(total, 1)?;
                let layout = Layout::Varying {
                    counts,
                    displs: Some(displs),
                    datatype,
                };
                addresses(side, buf, &layout, ranks)?;
                Ok(layout)
            },
            // SAFETY: an array is NULL or has an element for every rank (# Safety).
            Blocks::Typed(counts, displs, datatypes) => unsafe {
                let counts = integers(side, "counts", counts, ranks)?;
                let displs = integers(side, "displacements", displs, ranks)?;
                let datatypes = array(side, "types", datatypes, ranks)?;
                typed(side, buf, counts, displs, datatypes, list, call)
            },
        }
    }
}

fn typed<'a, 'c: 'a>(
    side: &str,
    buf: *const c_void,
    counts: Ints<'a>,
    displs: Ints<'a>,
    datatypes: &[MPI_Datatype],
    list: &'a mut TypeList<'c>,
    call: InCall<'c>,
) -> Result<Layout<'a>> {
    let ranks = datatypes.len();
    sum(side, counts, ranks)?;
    let datatypes = list.fill(side, counts, datatypes, call)?;
    for (rank, datatype) in datatypes.iter().enumerate() {
        datatype.total(counts.get(rank) as usize, ranks)?;
    }
    let layout = Layout::Typed {
        counts,
        displs,
        datatypes,
    };
    addresses(side, buf, &layout, ranks)?;
    Ok(layout)
}

/// Checks the counts of a reduce-scatter.
///
/// # Safety
/// The array has an element for every rank, or is NULL.
pub(crate) unsafe fn counts<'a>(
    counts: IntArray,
    ranks: usize,
    datatype: &'a Datatype,
) -> Result<(Layout<'a>, usize)> {
    // SAFETY: an array is NULL or has an element for every rank (# Safety).
    let counts = unsafe { integers("recv", "counts", counts, ranks)? };
    let total = sum("recv", counts, ranks)?;
    datatype.total(total, 1)?;
    Ok((Layout::successive(counts, ranks, datatype), total))
}

/// Checks an array argument.
///
/// # Safety
/// The array has `len` elements, or is NULL.
unsafe fn array<'a, T>(side: &str, what: &str, array: *const T, len: usize) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if array.is_null() {
        return Err(no_array(side, what, len));
    }
    // SAFETY: not NULL, so an array of that length by contract.
    Ok(unsafe { std::slice::from_raw_parts(array, len) })
}

#[cold]
fn no_array(side: &str, what: &str, len: usize) -> Error {
    Error::new(
        Class::Arg,
        format!(
            "the array of {side} {what} is NULL; it must have {len} elements, one for each rank \
             that data is exchanged with"
        ),
    )
}

/// Checks an array argument of integers.
///
/// # Safety
/// The array has `len` elements, or is NULL.
unsafe fn integers<'a>(side: &str, what: &str, array: IntArray, len: usize) -> Result<Ints<'a>> {
    if len > 0 && array.is_null() {
        return Err(no_array(side, what, len));
    }
    // SAFETY: not NULL unless it is empty, and of `len` elements (# Safety).
    Ok(unsafe { array.ints(len) })
}

/// Adds up the counts of `ranks` ranks; negative ones are errors.
fn sum(side: &str, counts: Ints<'_>, ranks: usize) -> Result<usize> {
    let mut total = 0usize;
    for index in 0..ranks {
        let count = counts.get(index);
        let Ok(elements) = usize::try_from(count) else {
            return Err(negative(&format!("{side}counts"), Some(index), count));
        };
        total = total.checked_add(elements).ok_or_else(|| {
            let why = format!("{side}counts add up to more than 2^64 - 1 elements");
            Error::new(Class::Count, why)
        })?;
    }
    Ok(total)
}

/// The datatypes of a `w` function; a few of them need no allocation.
#[allow(clippy::large_enum_variant, reason = "it is made once and not moved")]
pub(crate) enum TypeList<'c> {
    None,
    Few([&'c Datatype; 32]),
    Many(Vec<&'c Datatype>),
}

impl<'c> TypeList<'c> {
    /// Looks up the datatypes behind handles. One without elements may be MPI_DATATYPE_NULL.
    fn fill(
        &mut self,
        side: &str,
        counts: Ints<'_>,
        handles: &[MPI_Datatype],
        call: InCall<'c>,
    ) -> Result<&[&'c Datatype]> {
        let none = &types::object(MPI_BYTE, call)?.datatype;
        *self = match handles.len() {
            0..=32 => TypeList::Few([none; 32]),
            many => TypeList::Many(vec![none; many]),
        };
        let list = match self {
            TypeList::None => &mut [],
            TypeList::Few(few) => &mut few[..handles.len()],
            TypeList::Many(many) => &mut many[..],
        };
        for (index, handle) in handles.iter().enumerate() {
            let count = counts.get(index);
            if count > 0 {
                let found = types::checked(count, *handle, call).map_err(|error| {
                    let detail = format!("{side}types[{index}]: {}", error.detail());
                    Error::new(error.class(), detail)
                })?;
                list[index] = found.1;
            }
        }
        Ok(list)
    }
}

/// Refuses a send buffer that is the receive buffer.
#[inline]
pub(crate) fn demand_apart(
    send: *const c_void,
    recv: *const c_void,
    bytes: usize,
    names: &str,
) -> Result<()> {
    if send == recv && bytes > 0 && !send.is_null() {
        return Err(same_buffer(names));
    }
    Ok(())
}

#[cold]
fn same_buffer(names: &str) -> Error {
    let why = format!(
        "{names} are the same memory, which is not allowed; where data is to be replaced, pass \
         MPI_IN_PLACE or use another buffer"
    );
    Error::new(Class::Buffer, why)
}

/// Refuses blocks that are both sent and received: those of one rank among `blocks` whose first
/// elements begin at the same address. One buffer may contain both kinds, as for the halo of an
/// array, if the blocks share no memory (section 2.3).
#[cold]
pub(crate) fn demand_blocks_apart(
    buffer: *const c_void,
    send: &Layout<'_>,
    recv: &Layout<'_>,
    mut blocks: impl Iterator<Item = usize>,
) -> Result<()> {
    let lowest = |layout: &Layout<'_>, i| {
        let first = first_byte(layout, i)?;
        (layout.bytes(i) > 0).then_some(first)
    };
    let shared =
        blocks.find(|&i| lowest(send, i).is_some_and(|from| lowest(recv, i) == Some(from)));
    if let (Some(i), false) = (shared, buffer.is_null()) {
        return Err(same_buffer(&format!("sendbuf and recvbuf at block {i}")));
    }
    Ok(())
}

/// Refuses a send buffer that is this rank's own block of the receive buffer, or the reverse:
/// `whole` is the buffer with blocks.
pub(crate) fn demand_own_apart(
    own: *const c_void,
    part: Part<'_>,
    whole: *const c_void,
    layout: &Layout<'_>,
    rank: usize,
) -> Result<()> {
    let datatype = layout.datatype(rank);
    let Some(first) = first_byte(layout, rank) else {
        return Ok(());
    };
    if part.count > 0
        && layout.count(rank) > 0
        && part.datatype.is_same(datatype)
        && !whole.is_null()
    {
        let start = (first as isize).wrapping_sub(datatype.true_lb());
        let block = whole.cast::<u8>().wrapping_offset(start);
        let names = "sendbuf and recvbuf at this rank's block";
        return demand_apart(own, block.cast(), part.bytes(), names);
    }
    Ok(())
}

/// `MPI_Barrier` (section 5.3).
#[inline(always)]
pub fn barrier(comm: Late<MPI_Comm>) -> Result<()> {
    match repeated::barrier(comm) {
        Some(done) => done,
        // SAFETY: no request is returned.
        None => unsafe { barrier_as(How::Wait, comm) },
    }
}

/// Carries out a barrier in any of its forms.
///
/// # Safety
/// A request output is valid for writes, or NULL.
#[inline(never)]
pub(crate) unsafe fn barrier_as(how: How, comm: Late<MPI_Comm>) -> Result<()> {
    let context = CallContext::new(comm, how)?;
    let (send, recv) = (std::ptr::null(), std::ptr::null_mut());
    // SAFETY: a barrier has no buffers; a request output is valid (# Safety).
    unsafe { context.run(&Call::Barrier, send, recv) }
}
