//! Execution of a schedule over point-to-point messages and remote memory.

#![allow(
    unsafe_code,
    reason = "buffers of callers and slots are read and written here"
)]

use std::fmt;
use std::ops::Range;

use super::copy::copy;
use super::schedule::{
    Block, Buf, CAME, FREE, FREED, NODE, SCRATCH_ALIGN, SENT, Schedule, Step, slot_offset,
};
use mpi_types::datatype::Datatype;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::Op;

/// The outcome of a put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put<R> {
    /// The data has been copied or sent.
    Done,
    /// The data will have been sent when this request is complete.
    Started(R),
    /// No resources are free and nothing was sent; the caller must retry.
    NoRoom,
}

/// The transport that schedules run on: messages within one communicator's collective context,
/// matched per (source, tag) in the order sent, and slots of remote memory.
pub trait Port {
    /// A message in flight.
    type Req: Copy;

    /// Starts sending `count` elements of `datatype` at `buf`.
    ///
    /// # Safety
    /// The elements are readable, and stay so and unchanged until the request is complete.
    unsafe fn isend(
        &mut self,
        buf: *const u8,
        count: usize,
        datatype: &Datatype,
        to: u32,
        tag: u32,
    ) -> Result<Self::Req>;

    /// Starts receiving at most `count` elements of `datatype` to `buf`.
    ///
    /// # Safety
    /// The elements are writable, and nothing else accesses them until the request is complete.
    unsafe fn irecv(
        &mut self,
        buf: *mut u8,
        count: usize,
        datatype: &Datatype,
        from: u32,
        tag: u32,
    ) -> Result<Self::Req>;

    /// Returns whether a message is complete. After `Ok(true)` or an error (a truncated message,
    /// say) the request is freed and its buffer no longer used.
    fn test(&mut self, req: Self::Req) -> Result<bool>;

    /// Tests a receive that must get exactly `len` bytes from a rank.
    fn test_exact(&mut self, req: Self::Req, from: u32, len: usize) -> Result<bool> {
        let _ = (from, len);
        self.test(req)
    }

    /// Writes `len` bytes to a slot of rank `to`, then its flag, `number`. For this rank's own slot
    /// writes only flag and length, after all earlier stores to the slot.
    ///
    /// # Safety
    /// The bytes are readable, and stay so and unchanged until the request is complete.
    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<Self::Req>>;

    /// Returns whether the flag of phase `number` in a cell of rank `of` is up; may poll briefly
    /// before it returns `Down`. With `call`, the phase must belong to the same call there;
    /// `Flag::Other` leads to [`Port::disagreement`].
    fn is_up(&mut self, of: u32, cell: u32, number: u64, call: bool) -> Flag;

    /// Returns the error to report after [`Flag::Other`], if the other call goes through the same
    /// phases, so that the schedule can continue. Fails if it cannot; the run must then be aborted.
    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error>;

    /// Copies `len` bytes between `local` and the memory of rank `of` at `remote`.
    ///
    /// # Safety
    /// The local bytes are readable, and writable unless `write`; the other rank has exposed the
    /// remote ones.
    unsafe fn direct(
        &mut self,
        of: u32,
        write: bool,
        local: *mut u8,
        len: usize,
        remote: u64,
    ) -> Result<()>;

    /// Returns the length of the data in a slot whose flag is up; `None` if the call determines it.
    fn length(&self, of: u32, cell: u32, number: u64) -> Option<usize>;

    /// Copies `len` bytes to a slot of this rank in a cell, to be read once its flag is up.
    ///
    /// # Safety
    /// The bytes are readable at `from` and writable at `to`, without overlap.
    #[inline]
    unsafe fn store(&mut self, cell: u32, from: *const u8, to: *mut u8, len: usize) {
        let _ = cell;
        // SAFETY: the caller promises `len` bytes on both sides without overlap (`# Safety`).
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }

    /// Returns the address of byte `offset` of this rank's slot in its first cell.
    fn own_slot(&self, number: u64, offset: isize) -> *mut u8;

    /// Returns the address of byte `offset` of a slot in this process. The bytes up to 64 are
    /// contiguous, and so are those from there on.
    fn slot(&self, of: u32, cell: u32, number: u64, offset: isize) -> *mut u8;
}

/// The state of a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flag {
    /// The phase has not been reached.
    Down,
    /// The phase has been reached.
    Up,
    /// The phase has been reached in a different call than this one.
    Other,
}

/// Bytes of an exposed block's address and length in a slot.
const LENT: usize = 16;

/// Returns whether a flag of value `flag` has reached phase `number`. Flags only increase, may wrap
/// around, and differ by less than half of their range.
#[inline(always)]
pub fn has_come(flag: u64, number: u64) -> bool {
    flag.wrapping_sub(number) as i64 >= 0
}

/// The state of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The run is complete; the buffers belong to the caller again.
    Done,
    /// The run waits for messages or flags.
    Pending,
}

/// A schedule and the state of its execution.
///
/// A schedule can be started repeatedly; a rebuilt one reuses the memory. The caller must make the
/// transport progress between calls of [`Run::advance`]; a blocking call is a loop of both.
pub struct Run<R> {
    schedule: Schedule,
    /// For each step, its message until that is known to be complete.
    requests: Vec<Option<R>>,
    scratch: Vec<Line>,
    send: *const u8,
    recv: *mut u8,
    /// Start of `scratch`.
    base: *mut u8,
    tag: u32,
    /// The number of the schedule's first phase.
    number: u64,
    /// The number of the first phase in cells [`NODE`].
    node_number: u64,
    /// The numbers of the first chunks sent to the next rank and received from the previous one.
    pieces: [u64; 2],
    /// The next step to issue.
    next: usize,
    /// The first step that the current wait has not found complete.
    waited: usize,
    /// Whether any message was started.
    sends: bool,
    running: bool,
    error: Option<Error>,
}

/// The unit of scratch memory, for its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    _bytes: [u8; SCRATCH_ALIGN],
}

const LINE: Line = Line {
    _bytes: [0; SCRATCH_ALIGN],
};

// SAFETY: the pointers are to buffers that the caller of `start` keeps valid until the run is done,
// whichever thread advances it; no other part of a run is bound to a thread.
unsafe impl<R: Send> Send for Run<R> {}

impl<R: Copy> Default for Run<R> {
    fn default() -> Self {
        Run::new()
    }
}

impl<R: Copy> Run<R> {
    /// Creates a run of an empty schedule.
    pub fn new() -> Run<R> {
        Run {
            schedule: Schedule::new(),
            requests: Vec::new(),
            scratch: Vec::new(),
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            base: std::ptr::null_mut(),
            tag: 0,
            number: 0,
            node_number: 0,
            pieces: [0; 2],
            next: 0,
            waited: 0,
            sends: false,
            running: false,
            error: None,
        }
    }

    /// Clears the schedule and returns it for building another collective.
    ///
    /// # Panics
    /// If the run is in execution.
    pub fn rebuild(&mut self) -> &mut Schedule {
        assert!(
            !self.running,
            "internal error: the schedule of a running collective was rebuilt"
        );
        self.schedule.clear();
        &mut self.schedule
    }

    /// Returns the schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Sets the number of the schedule's first phase for the next start. The phases' numbers must
    /// be unused and consecutive with earlier ones, identically on all ranks.
    pub fn set_number(&mut self, number: u64) {
        self.number = number;
    }

    /// Sets the number of the first phase in cells [`NODE`], under the rules of
    /// [`Run::set_number`].
    pub fn set_node_number(&mut self, number: u64) {
        self.node_number = number;
    }

    /// Sets the numbers of the first chunks sent and received, under the rules of
    /// [`Run::set_number`].
    pub fn set_pieces(&mut self, numbers: [u64; 2]) {
        self.pieces = numbers;
    }

    /// Returns the cell and the ranks whose flags the run waits for, from the first whose flag is not up
    /// on, and the phase's number. In cells [`NODE`] ranks are numbered on the node.
    pub fn awaited(&self) -> Option<(u32, Range<u32>, u64)> {
        match *self.schedule.steps().get(self.next)? {
            Step::Await {
                last, cell, phase, ..
            } if self.running => Some((cell, self.waited as u32..last, self.phase(cell, phase))),
            _ => None,
        }
    }

    /// Returns the current round and the number of rounds: how often the schedule waits for other
    /// ranks.
    pub fn round(&self) -> (u32, u32) {
        let waits = |steps: &[Step]| {
            let waits = |step: &&Step| matches!(step, Step::Wait { .. } | Step::Await { .. });
            steps.iter().filter(waits).count() as u32
        };
        let steps = self.schedule.steps();
        let here = steps.len().min(self.next + 1);
        (waits(&steps[..here]), waits(steps))
    }

    /// Iterates over the ranks that the run waits for, with the incomplete message; `None` for a
    /// flag.
    pub fn others(&self) -> impl Iterator<Item = (u32, Option<R>)> {
        let steps = self.schedule.steps();
        let messages = self.requests.iter().zip(steps);
        let messages = messages.filter_map(|(request, step)| match (*request, step) {
            (Some(request), Step::Send { to, .. }) => Some((*to, Some(request))),
            (Some(request), Step::Recv { from, .. }) => Some((*from, Some(request))),
            (Some(request), Step::Put { slot, .. }) => Some((slot.of, Some(request))),
            _ => None,
        });
        let (cell, flags) = match (steps.get(self.next), self.awaited()) {
            (Some(&Step::Await { by: Some(by), .. }), Some((cell, ..))) => (cell, by..by + 1),
            (_, Some((cell, ranks, _))) => (cell, ranks),
            (_, None) => (0, 0..0),
        };
        let named = move |rank: u32| match cell {
            NODE => self.schedule.node()[rank as usize],
            _ => rank,
        };
        messages.chain(flags.map(move |rank| (named(rank), None)))
    }

    /// Aborts the run: calls `end` for each incomplete message. Returns whether all are ended, and
    /// the buffers belong to the caller again; if not, it must be called again.
    pub fn give_up(&mut self, mut end: impl FnMut(R) -> bool) -> bool {
        for place in &mut self.requests {
            if place.is_some_and(&mut end) {
                *place = None;
            }
        }
        let over = self.requests.iter().all(Option::is_none);
        if over {
            self.running = false;
            self.error = None;
        }
        over
    }

    /// Returns whether the run is in execution.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Starts the schedule on these buffers; no data moves before [`Run::advance`]. `tag` must be
    /// the same on all ranks and differ between collectives of a communicator that are in execution
    /// together.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` if scratch memory cannot be allocated; the run is then not started.
    ///
    /// # Safety
    /// The buffers are valid for the blocks that the builder was given (or unused by it), and
    /// nothing else accesses them before the run is done; `send` is only read.
    ///
    /// # Panics
    /// If the run is in execution.
    pub unsafe fn start(&mut self, send: *const u8, recv: *mut u8, tag: u32) -> Result<()> {
        assert!(
            !self.running,
            "internal error: a running collective was started"
        );
        // Zeroed: a peer that sends too little must not make this rank read uninitialised memory.
        let lines = self.schedule.scratch_len().div_ceil(SCRATCH_ALIGN);
        if let Some(more) = lines.checked_sub(self.scratch.len()) {
            self.scratch
                .try_reserve(more)
                .map_err(|_| no_memory(lines))?;
            self.scratch.resize(lines, LINE);
        }
        self.base = self.scratch.as_mut_ptr().cast();
        // A finished run has left no request.
        self.requests.resize(self.schedule.steps().len(), None);
        (self.send, self.recv, self.tag) = (send, recv, tag);
        (self.next, self.waited, self.error) = (0, 0, None);
        self.sends = false;
        self.running = true;
        Ok(())
    }

    /// Executes the schedule as far as possible without waiting.
    ///
    /// # Errors
    /// The first error of a message, once the run is complete: after an error the schedule
    /// continues with the data it has, so that no other rank waits forever and no message refers to
    /// memory that the caller reuses. `Err` means complete; or, if the run is still in execution,
    /// that ranks have called different collectives and it must be aborted.
    pub fn advance<P: Port<Req = R>>(&mut self, port: &mut P) -> Result<Progress> {
        if !self.running {
            return Ok(Progress::Done);
        }
        while let Some(step) = self.schedule.steps().get(self.next) {
            match *step {
                Step::Wait { from, to } => {
                    self.waited = self.waited.max(from as usize);
                    if !self.settle(port, to as usize) {
                        return Ok(Progress::Pending);
                    }
                    self.waited = 0;
                }
                Step::Send { to, block } => {
                    let datatype = self.schedule.type_of(block.datatype);
                    let address = self.address(block, port);
                    // Does not forward data that may be wrong: an empty message signals the error.
                    let wrong = self.error.is_some() && self.schedule.is_exact();
                    let count = if wrong { 0 } else { block.count };
                    // SAFETY: the block is within a buffer that `start` was promised, or within
                    // scratch memory; the run keeps both until the request is complete.
                    let sent = unsafe { port.isend(address, count, datatype, to, self.tag) };
                    self.issued(sent);
                }
                Step::Recv { from, block } => {
                    let datatype = self.schedule.type_of(block.datatype);
                    let address = self.address(block, port);
                    // SAFETY: the block is within a buffer that `start` was promised, or within
                    // scratch memory; the run keeps both until the request is complete, and
                    // builders receive only into writable buffers.
                    let posted =
                        unsafe { port.irecv(address, block.count, datatype, from, self.tag) };
                    self.issued(posted);
                }
                Step::Put { slot, block } => {
                    let number = self.phase(slot.cell, slot.phase);
                    let data = self.address(block, port);
                    let wrong = self.error.is_some() && self.schedule.is_exact();
                    let len = match wrong {
                        true => 0,
                        false => self.len(&block),
                    };
                    // SAFETY: the block is contiguous and within a buffer that `start` was
                    // promised, or within scratch memory; the run keeps both until the request is
                    // complete.
                    match unsafe { port.put(slot.of, slot.cell, number, data, len) } {
                        Ok(Put::Done) => {}
                        Ok(Put::Started(request)) => self.issued(Ok(request)),
                        Ok(Put::NoRoom) => return Ok(Progress::Pending),
                        Err(error) => self.issued(Err(error)),
                    }
                }
                Step::Await {
                    first,
                    last,
                    cell,
                    phase,
                    room,
                    by,
                } => {
                    let number = self.phase(cell, phase);
                    self.waited = self.waited.max(first as usize);
                    while self.waited < last as usize {
                        match port.is_up(self.waited as u32, cell, number, phase >= 0) {
                            Flag::Up => {}
                            Flag::Down => return Ok(Progress::Pending),
                            Flag::Other => {
                                let error = port.disagreement(self.waited as u32, number)?;
                                self.error.get_or_insert(error);
                            }
                        }
                        if room < usize::MAX {
                            let len = port.length(self.waited as u32, cell, number);
                            let exact = self.schedule.is_exact();
                            if let Some(len) = len
                                && (len > room || (len < room && exact))
                            {
                                let from = by.unwrap_or(self.waited as u32);
                                let error = too_short(from, len, room);
                                self.error.get_or_insert(error);
                            }
                        }
                        self.waited += 1;
                    }
                    self.waited = 0;
                }
                Step::Lend { phase, block } => {
                    let data = self.address(block, port);
                    let len = self.len(&block);
                    let said = port.own_slot(self.phase(0, phase), slot_offset(LENT));
                    let lent = [data.expose_provenance() as u64, len as u64];
                    // SAFETY: a slot has aligned space for address and length behind its flag and
                    // length; no other rank reads it before its flag is up.
                    unsafe { said.cast::<[u64; 2]>().write(lent) };
                }
                Step::Direct {
                    slot,
                    offset,
                    block,
                    write,
                } => {
                    let number = self.phase(slot.cell, slot.phase);
                    let said = port.slot(slot.of, slot.cell, number, slot_offset(LENT));
                    // SAFETY: the flag is up, and the other rank's `Lend` wrote address and length
                    // before it.
                    let [at, lent] = unsafe { said.cast::<[u64; 2]>().read() };
                    let local = self.address(block, port);
                    let len = self.len(&block);
                    let copied = if (offset + len) as u64 > lent {
                        Err(too_long(slot.of as usize, offset + len, lent as usize))
                    } else {
                        // SAFETY: the block is contiguous and within the caller's buffers or
                        // scratch memory; builders stay within the block that the other rank
                        // exposed, which it keeps until a later phase.
                        unsafe { port.direct(slot.of, write, local, len, at + offset as u64) }
                    };
                    if let Err(error) = copied {
                        self.error.get_or_insert(error);
                    }
                }
                Step::Copy { from, to } => {
                    let (source, target) = (self.address(from, port), self.address(to, port));
                    let source_type = self.schedule.type_of(from.datatype);
                    let target_type = self.schedule.type_of(to.datatype);
                    // SAFETY: both blocks lie in the caller's buffers or in scratch memory without
                    // overlap, and builders add waits for messages that still use them.
                    let copied = unsafe {
                        copy(
                            source,
                            from.count,
                            source_type,
                            target,
                            to.count,
                            target_type,
                            |from, into, len| match to.buf {
                                Buf::Slot(slot) => port.store(slot.cell, from, into, len),
                                _ => std::ptr::copy_nonoverlapping(from, into, len),
                            },
                        )
                    };
                    if let Err(error) = copied {
                        self.error.get_or_insert(error);
                    }
                }
                Step::Reduce { input, inout } => {
                    let (left, right) = (self.address(input, port), self.address(inout, port));
                    let datatype = self.schedule.type_of(inout.datatype);
                    if let Some(op) = self.op() {
                        // SAFETY: both blocks hold `count` elements of this type in the caller's
                        // buffers, scratch memory or a slot.
                        unsafe { op.apply(left, right, inout.count, datatype) };
                    }
                }
                Step::Combine { left, right, to } => {
                    let [left, right] = [left, right].map(|block| self.address(block, port));
                    let result = self.address(to, port);
                    let datatype = self.schedule.type_of(to.datatype);
                    if let Some(op) = self.op() {
                        // SAFETY: all blocks hold `count` elements of this type; builders let two
                        // of them be the same or disjoint.
                        unsafe { op.combine(left, right, result, to.count, datatype) };
                    }
                }
            }
            self.next += 1;
        }
        if self.sends && !self.settle(port, self.requests.len()) {
            return Ok(Progress::Pending);
        }
        self.running = false;
        debug_assert!(self.requests.iter().all(Option::is_none));
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(Progress::Done),
        }
    }

    /// Tests the messages of the steps from `waited` to `to`; returns true when all are complete.
    fn settle<P: Port<Req = R>>(&mut self, port: &mut P, to: usize) -> bool {
        while self.waited < to {
            if let Some(request) = self.requests[self.waited] {
                let expected = match self.schedule.steps().get(self.waited) {
                    Some(&Step::Recv { from, block }) if self.schedule.is_exact() => {
                        Some((from, self.len(&block)))
                    }
                    _ => None,
                };
                let tested = match expected {
                    Some((from, len)) => port.test_exact(request, from, len),
                    None => port.test(request),
                };
                match tested {
                    Ok(false) => return false,
                    Ok(true) => {}
                    Err(error) => {
                        self.error.get_or_insert(error);
                    }
                }
                self.requests[self.waited] = None;
            }
            self.waited += 1;
        }
        true
    }

    /// Returns the operation of the reduce and combine steps.
    #[inline]
    fn op(&self) -> Option<&Op> {
        let op = self.schedule.op();
        debug_assert!(op.is_some(), "a schedule that reduces has an operation");
        op
    }

    /// Returns the bytes of a block.
    #[inline]
    fn len(&self, block: &Block) -> usize {
        block.count * self.schedule.type_of(block.datatype).size()
    }

    fn issued(&mut self, request: Result<R>) {
        match request {
            Ok(request) => {
                self.requests[self.next] = Some(request);
                self.sends = true;
            }
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }

    /// Returns the number of a phase.
    fn phase(&self, cell: u32, phase: i32) -> u64 {
        let first = match cell {
            NODE => self.node_number,
            SENT | FREED => self.pieces[0],
            CAME | FREE => self.pieces[1],
            _ => self.number,
        };
        first.wrapping_add_signed(phase.into())
    }

    /// Returns the address of a block. Wraps, since MPI_BOTTOM and negative lower bounds lead
    /// outside of the base's allocation; the elements themselves are valid.
    #[inline]
    fn address<P: Port>(&self, block: Block, port: &P) -> *mut u8 {
        let base = match block.buf {
            Buf::Slot(slot) => {
                let number = self.phase(slot.cell, slot.phase);
                return port.slot(slot.of, slot.cell, number, block.offset);
            }
            Buf::Send => self.send.cast_mut(),
            Buf::Recv => self.recv,
            Buf::Scratch => self.base,
        };
        base.wrapping_offset(block.offset)
    }
}

impl<R> Drop for Run<R> {
    fn drop(&mut self) {
        if self.requests.iter().any(Option::is_some) {
            // A message may still write to scratch memory: leaks it.
            std::mem::forget(std::mem::take(&mut self.scratch));
            std::mem::forget(std::mem::take(&mut self.schedule));
        }
    }
}

/// Lists the messages and flags that the run waits for, for reports of hangs.
impl<R> fmt::Debug for Run<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (next, steps) = (self.next, self.schedule.steps());
        write!(f, "step {next} of {}, tag {}", steps.len(), self.tag)?;
        let len = |block: &Block| block.count * self.schedule.type_of(block.datatype).size();
        let pending = self.requests.iter().zip(steps);
        for (_, step) in pending.filter(|(request, _)| request.is_some()) {
            match step {
                Step::Send { to, block } => write!(f, "; sending {} bytes to {to}", len(block))?,
                Step::Recv { from, block } => {
                    write!(f, "; receiving {} bytes from {from}", len(block))?;
                }
                Step::Put { slot, block } => {
                    write!(f, "; putting {} bytes to {}", len(block), slot.of)?;
                }
                _ => {}
            }
        }
        if let (true, Some(Step::Await { first, last, .. })) = (self.running, steps.get(next)) {
            write!(f, "; waiting for flags of {first} to {}", last - 1)?;
        }
        Ok(())
    }
}

/// Returns the error of a message from a rank that is shorter than expected.
#[cold]
pub fn too_short(from: u32, len: usize, expected: usize) -> Error {
    if len == 0 {
        return Error::new(
            Class::Truncate,
            format!(
                "rank {from} has no data to pass on of which this rank expects {expected} bytes: ranks disagree on \
                 the amount of data; counts and datatypes of all ranks must describe the same data"
            ),
        );
    }
    too_long(from as usize, len, expected)
}

#[cold]
fn too_long(from: usize, len: usize, room: usize) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "rank {from} and this rank disagree on the amount of data, {len} and {room} bytes; counts and datatypes \
             of all ranks must describe the same data"
        ),
    )
}

#[cold]
fn no_memory(lines: usize) -> Error {
    let mib = (lines * SCRATCH_ALIGN).div_ceil(1 << 20);
    Error::new(
        Class::NoMem,
        format!(
            "this collective needs {mib} MiB of temporary memory and the system has none; \
             use smaller messages or another algorithm"
        ),
    )
}
