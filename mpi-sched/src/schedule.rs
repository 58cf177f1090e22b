//! Schedules: the messages, copies and reductions of one rank in a collective, as data.
//!
//! A [`Schedule`] is a straight-line program. Steps are issued in program order; local steps
//! complete when issued, messages later. A step never waits for an earlier one unless a
//! [`Step::Wait`] stands between them, so that independent messages are in flight together, and a
//! pipeline waits for one old message at a time. Steps name buffers rather than addresses: one
//! schedule can run again with other buffers.
//!
//! Messages between two ranks match in program order: the k-th send of a schedule to a rank matches
//! the k-th receive from this rank there. All carry the tag of the call.

use std::ops::Range;

pub use super::slot::{CAME, Course, FREE, FREED, NODE, SENT, SLOT_INLINE, Slot, slot_offset};
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::Op;

/// The buffer of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buf {
    /// The caller's send buffer; only read.
    Send,
    /// The caller's receive buffer (of a broadcast: the buffer).
    Recv,
    /// Scratch memory of the run, 64-byte aligned.
    Scratch,
    /// A slot of remote memory. Its owner writes it with a copy and a [`Step::Put`] without data to
    /// itself, other ranks with [`Step::Put`]; it is read after [`Step::Await`]. Offsets count from
    /// the slot's first byte: see [`slot_offset`].
    Slot(Slot),
}

/// The number of a datatype in the schedule's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Type(u32);

impl Type {
    /// Single bytes; the first type of every table.
    pub const BYTE: Type = Type(0);
}

/// `count` elements of a datatype at a byte offset in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Which buffer.
    pub buf: Buf,
    /// The type of the elements.
    pub datatype: Type,
    /// Bytes from the buffer's address to the first element's origin; the data may start before
    /// (negative lower bound) or after it.
    pub offset: isize,
    /// Number of elements.
    pub count: usize,
}

impl Block {
    /// Returns the block of `len` bytes at `offset`.
    pub fn bytes(buf: Buf, offset: isize, len: usize) -> Block {
        Block {
            buf,
            datatype: Type::BYTE,
            offset,
            count: len,
        }
    }

    /// Returns the block of an empty message.
    pub fn empty() -> Block {
        Block::bytes(Buf::Scratch, 0, 0)
    }

    /// Returns the elements `range` of this block, which lie `extent` bytes apart.
    pub fn slice(self, extent: isize, range: Range<usize>) -> Block {
        debug_assert!(range.start <= range.end && range.end <= self.count);
        Block {
            offset: self.offset + range.start as isize * extent,
            count: range.end - range.start,
            ..self
        }
    }

    /// Returns the bytes `range` of a block of bytes.
    pub fn cut(self, range: Range<usize>) -> Block {
        debug_assert_eq!(self.datatype, Type::BYTE);
        self.slice(1, range)
    }
}

/// One step of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Starts sending `block` to rank `to`.
    Send {
        /// Rank in the communicator; in an intercommunicator the ranks of the remote group come
        /// after those of the local one.
        to: u32,
        /// The data.
        block: Block,
    },
    /// Starts receiving into `block` from rank `from`.
    Recv {
        /// Rank in the communicator, numbered like [`Step::Send`]'s `to`.
        from: u32,
        /// The destination.
        block: Block,
    },
    /// Copies one block to another; types may differ where their signatures agree.
    Copy {
        /// Source.
        from: Block,
        /// Destination; must not overlap the source.
        to: Block,
    },
    /// Computes `inout[i] = input[i] op inout[i]`: `input` is the operand of the lower ranks.
    Reduce {
        /// Left operand.
        input: Block,
        /// Right operand and result; same datatype and count.
        inout: Block,
    },
    /// Computes `to[i] = left[i] op right[i]` with a predefined operation: `left` is the operand of
    /// the lower ranks.
    Combine {
        /// Left operand.
        left: Block,
        /// Right operand; same datatype and count.
        right: Block,
        /// Result; the same block as an operand, or disjoint from both.
        to: Block,
    },
    /// Writes the bytes of `block` to a slot, then its flag.
    Put {
        /// The slot.
        slot: Slot,
        /// Contiguous data; for this rank's own slot, the data that was copied there before.
        block: Block,
    },
    /// Writes the address of `block` to this rank's slot of a phase, for [`Step::Direct`] at other
    /// ranks.
    Lend {
        /// The phase.
        phase: i32,
        /// Contiguous data that stays valid until a later phase shows that all other ranks have
        /// used it.
        block: Block,
    },
    /// Copies between `block` and the memory that another rank exposed by [`Step::Lend`]; its flag
    /// must be up.
    Direct {
        /// The slot with the address of the other rank's data.
        slot: Slot,
        /// Offset in the exposed data, in bytes.
        offset: usize,
        /// Contiguous data of this rank.
        block: Block,
        /// Whether to write the other rank's memory rather than read it.
        write: bool,
    },
    /// Waits for the flags of the ranks `first..last` in this cell and phase.
    Await {
        /// The first rank.
        first: u32,
        /// One past the last.
        last: u32,
        /// The cell of each rank.
        cell: u32,
        /// Which phase.
        phase: i32,
        /// Most bytes of data accepted: more is an error, and is not copied.
        room: usize,
        /// The rank that raises the flags, if not these ranks themselves.
        by: Option<u32>,
    },
    /// Waits for the messages of the steps `from..to`.
    Wait {
        /// First step waited for.
        from: u32,
        /// One past the last.
        to: u32,
    },
}

impl Step {
    /// Iterates over the blocks.
    fn blocks(&mut self) -> impl Iterator<Item = &mut Block> {
        let blocks = match self {
            Step::Send { block, .. }
            | Step::Recv { block, .. }
            | Step::Put { block, .. }
            | Step::Direct { block, .. }
            | Step::Lend { block, .. } => [Some(block), None, None],
            Step::Copy { from, to } => [Some(from), Some(to), None],
            Step::Reduce { input, inout } => [Some(input), Some(inout), None],
            Step::Combine { left, right, to } => [Some(left), Some(right), Some(to)],
            Step::Await { .. } | Step::Wait { .. } => [None, None, None],
        };
        blocks.into_iter().flatten()
    }
}

/// A typed block and its packed bytes while an algorithm moves them.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// The elements as the caller laid them out.
    pub typed: Block,
    /// The same data as contiguous bytes.
    pub bytes: Block,
    /// Whether `bytes` is a different block than `typed`.
    pub apart: bool,
}

impl Staged {
    /// Adds a copy of the elements to the packed bytes, if needed.
    pub fn pack(&self, schedule: &mut Schedule) {
        if self.apart {
            schedule.copy(self.typed, self.bytes);
        }
    }

    /// Adds a copy of the packed bytes to the elements, if needed.
    pub fn unpack(&self, schedule: &mut Schedule) {
        if self.apart {
            schedule.copy(self.bytes, self.typed);
        }
    }
}

/// The steps of one rank, with the datatypes and the operation that they use.
///
/// Rebuilding it allocates no memory once its lists have grown.
#[derive(Debug)]
pub struct Schedule {
    steps: Vec<Step>,
    /// The first `used` entries are in use; later ones are left from earlier schedules.
    types: Vec<Datatype>,
    used: usize,
    op: Option<Op>,
    scratch: usize,
    phases: u32,
    node_phases: u32,
    /// The ranks of the node, indexed by their numbers in cells [`NODE`].
    node: Vec<u32>,
    course: Course,
    pieces: [u32; 2],
    exact: bool,
    /// Memory that builders borrow for a list of numbers, see [`Schedule::take_list`].
    list: Vec<usize>,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule::new()
    }
}

/// Alignment of blocks in scratch memory, in bytes: a cache line.
pub const SCRATCH_ALIGN: usize = 64;

impl Schedule {
    /// Creates an empty schedule.
    pub fn new() -> Schedule {
        Schedule {
            steps: Vec::new(),
            types: vec![Datatype::predefined(Predefined::Byte)],
            used: 1,
            op: None,
            scratch: 0,
            phases: 0,
            node_phases: 0,
            node: Vec::new(),
            course: Course::Down,
            pieces: [0; 2],
            exact: false,
            list: Vec::new(),
        }
    }

    /// Empties the schedule, keeping the memory of its lists.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.used = 1;
        self.scratch = 0;
        self.phases = 0;
        self.node_phases = 0;
        self.course = Course::Down;
        self.pieces = [0; 2];
        self.exact = false;
    }

    /// Sets whether all ranks know the length of every message. A shorter message is then an error
    /// too, and a rank that has detected an error sends empty messages instead of data that others
    /// would take for valid.
    pub fn set_exact(&mut self, exact: bool) {
        self.exact = exact;
    }

    /// Returns whether all ranks know the length of every message, see [`Schedule::set_exact`].
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns the steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the bytes of scratch memory that the steps use.
    pub fn scratch_len(&self) -> usize {
        self.scratch
    }

    /// Returns the number of slot phases that the steps use.
    pub fn phases(&self) -> u32 {
        self.phases
    }

    /// Returns the number of phases of slots in cells [`NODE`].
    pub fn node_phases(&self) -> u32 {
        self.node_phases
    }

    /// Returns the ranks of the node, indexed by their numbers in cells [`NODE`].
    pub fn node(&self) -> &[u32] {
        &self.node
    }

    /// Lets `build` add steps for ranks of one node, which use slots that all of them see; `node`
    /// lists the ranks in the order of their numbers on the node.
    pub fn within_node(
        &mut self,
        node: impl Iterator<Item = u32>,
        build: impl FnOnce(&mut Schedule),
    ) {
        self.node.clear();
        self.node.extend(node);
        let first = self.here();
        std::mem::swap(&mut self.phases, &mut self.node_phases);
        build(self);
        std::mem::swap(&mut self.phases, &mut self.node_phases);
        self.change_slots(first, |slot| slot.cell = NODE);
        for step in &mut self.steps[first as usize..] {
            if let Step::Await { cell, .. } = step {
                *cell = NODE;
            }
        }
    }

    /// Returns how the schedule synchronizes its ranks.
    pub fn course(&self) -> Course {
        self.course
    }

    /// Declares that no rank leaves the schedule before all have entered it.
    pub fn meet(&mut self) {
        self.course = Course::Meets;
    }

    /// Declares that data goes from all ranks to one.
    pub fn rise(&mut self) {
        self.course = Course::Up;
    }

    /// Returns the numbers of chunks sent to the next rank and received from the previous one.
    pub fn pieces(&self) -> [u32; 2] {
        self.pieces
    }

    pub(super) fn set_pieces(&mut self, pieces: [u32; 2]) {
        self.pieces = pieces;
    }

    /// Returns whether any steps use slots.
    pub fn uses_slots(&self) -> bool {
        self.phases > 0 || self.node_phases > 0 || self.pieces != [0; 2]
    }

    /// Adds a phase and returns its number. All ranks must add the same phases.
    pub fn phase(&mut self) -> i32 {
        self.phases += 1;
        self.phases as i32 - 1
    }

    /// Returns the datatype with this number in the table.
    pub fn type_of(&self, number: Type) -> &Datatype {
        &self.types[number.0 as usize]
    }

    /// Returns the operation of the reduce steps.
    pub fn op(&self) -> Option<&Op> {
        self.op.as_ref()
    }

    /// Sets the operation of the reduce steps.
    ///
    /// It survives [`Schedule::clear`]: most calls repeat the operation, and cloning it writes to
    /// memory that all threads share.
    pub fn set_op(&mut self, op: &Op) {
        if !self.op.as_ref().is_some_and(|old| old.is_same(op)) {
            self.op = Some(op.clone());
        }
    }

    /// Adds a datatype to the table.
    ///
    /// An equal entry of the previous schedule at the same index is reused: most calls repeat their
    /// types, and cloning a derived type writes to memory that all threads share.
    pub fn add_type(&mut self, datatype: &Datatype) -> Type {
        let number = self.used;
        match self.types.get_mut(number) {
            Some(old) if old.is_same(datatype) => {}
            Some(old) => *old = datatype.clone(),
            None => self.types.push(datatype.clone()),
        }
        self.used += 1;
        Type(number as u32)
    }

    /// Returns the number that the next step will have.
    pub fn here(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Returns an empty list for a builder to fill and to give back with [`Schedule::give_list`].
    pub(super) fn take_list(&mut self) -> Vec<usize> {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        list
    }

    /// Keeps a list's memory for the next builder.
    pub(super) fn give_list(&mut self, list: Vec<usize>) {
        self.list = list;
    }

    /// Returns whether the block, if in scratch memory, lies within what has been allocated there.
    fn is_within(&self, block: Block) -> bool {
        let (low, len) = span(block.count, self.type_of(block.datatype));
        let start = block.offset + low;
        block.buf != Buf::Scratch || (start >= 0 && start as usize + len <= self.scratch)
    }

    fn push(&mut self, step: Step) -> u32 {
        let number = self.here();
        debug_assert!(step.clone().blocks().all(|block| self.is_within(*block)));
        self.steps.push(step);
        number
    }

    /// Adds a send; returns the step's number.
    pub fn send(&mut self, to: u32, block: Block) -> u32 {
        self.push(Step::Send { to, block })
    }

    /// Adds a receive; returns the step's number.
    pub fn recv(&mut self, from: u32, block: Block) -> u32 {
        self.push(Step::Recv { from, block })
    }

    /// Adds a copy, unless it is empty or source and destination are the same block.
    pub fn copy(&mut self, from: Block, to: Block) {
        if from == to || (from.count == 0 && to.count == 0) {
            return;
        }
        self.push(Step::Copy { from, to });
    }

    /// Adds `inout = input op inout`.
    pub fn reduce(&mut self, input: Block, inout: Block) {
        debug_assert_eq!((input.datatype, input.count), (inout.datatype, inout.count));
        if inout.count > 0 {
            self.push(Step::Reduce { input, inout });
        }
    }

    /// Adds `to = left op right`. If [`Schedule::combines`] returns false, `to` must not be `left`.
    pub fn combine(&mut self, left: Block, right: Block, to: Block) {
        debug_assert_eq!((left.datatype, left.count), (right.datatype, right.count));
        debug_assert_eq!((left.datatype, left.count), (to.datatype, to.count));
        if to.count == 0 {
        } else if self.combines() {
            self.push(Step::Combine { left, right, to });
        } else {
            debug_assert_ne!(left, to);
            self.copy(right, to);
            self.reduce(left, to);
        }
    }

    /// Returns whether the operation has kernels that write the result to a third buffer.
    pub fn combines(&self) -> bool {
        self.op().is_some_and(|op| op.as_predefined().is_some())
    }

    /// Adds a write of `block` and of the flag to a slot; returns the step's number.
    pub fn put(&mut self, slot: Slot, block: Block) -> u32 {
        self.push(Step::Put { slot, block })
    }

    /// Returns whether steps expose memory of this rank or access exposed memory of others.
    pub fn lends(&self) -> bool {
        let lends = |step: &Step| matches!(step, Step::Lend { .. } | Step::Direct { .. });
        self.steps.iter().any(lends)
    }

    /// Adds a step that writes the address of `block` to this rank's slot.
    pub fn lend(&mut self, phase: i32, block: Block) {
        self.push(Step::Lend { phase, block });
    }

    /// Adds a copy between `block` and the memory exposed in `slot`, from byte `offset` on.
    pub fn direct(&mut self, slot: Slot, offset: usize, block: Block, write: bool) {
        if block.count > 0 {
            self.push(Step::Direct {
                slot,
                offset,
                block,
                write,
            });
        }
    }

    /// Adds a wait for the flags of all `ranks` in this cell and phase.
    pub fn await_flags(&mut self, ranks: Range<u32>, cell: u32, phase: i32) {
        self.await_data(ranks, cell, phase, usize::MAX);
    }

    /// Adds a wait for the flags of all `ranks` in this cell and phase, over at most `room` bytes
    /// of data.
    pub fn await_data(&mut self, ranks: Range<u32>, cell: u32, phase: i32, room: usize) {
        let Range {
            start: first,
            end: last,
        } = ranks;
        self.push(Step::Await {
            first,
            last,
            cell,
            phase,
            room,
            by: None,
        });
    }

    /// Adds a wait for rank `by` to put at most `room` bytes into `cell` of rank `at`, which is
    /// this one.
    pub fn await_put(&mut self, at: u32, by: u32, cell: u32, phase: i32, room: usize) {
        self.push(Step::Await {
            first: at,
            last: at + 1,
            cell,
            phase,
            room,
            by: Some(by),
        });
    }

    /// Translates the owners of slots in the steps from `first` on: steps built for a subset of a
    /// communicator, whose members they number from 0, then name the members' ranks in `ranks`.
    pub fn rename_slots(&mut self, first: u32, ranks: &[u32]) {
        self.change_slots(first, |slot| slot.of = ranks[slot.of as usize]);
        for step in &mut self.steps[first as usize..] {
            if let Step::Await {
                first, last, by, ..
            } = step
            {
                debug_assert_eq!(*first + 1, *last, "others' flags are not waited for");
                *first = ranks[*first as usize];
                *last = *first + 1;
                *by = by.map(|by| ranks[by as usize]);
            }
        }
    }

    /// Changes all slots in the steps from `first` on, except those whose flags are awaited.
    fn change_slots(&mut self, first: u32, change: impl Fn(&mut Slot)) {
        self.change_blocks(first, |block| {
            if let Buf::Slot(slot) = &mut block.buf {
                change(slot);
            }
        });
        for step in &mut self.steps[first as usize..] {
            if let Step::Put { slot, .. } | Step::Direct { slot, .. } = step {
                change(slot);
            }
        }
    }

    /// Replaces a buffer in the steps from `first` on: a block at `offset` of buffer `from` moves
    /// to the same offset from `to`.
    pub(super) fn redirect(&mut self, first: u32, from: Buf, to: Block) {
        self.change_blocks(first, |block| {
            if block.buf == from {
                block.buf = to.buf;
                block.offset += to.offset;
            }
        });
    }

    /// Changes all blocks in the steps from `first` on.
    fn change_blocks(&mut self, first: u32, changed: impl Fn(&mut Block)) {
        for step in &mut self.steps[first as usize..] {
            step.blocks().for_each(&changed);
        }
    }

    /// Adds a wait for the messages of `steps`.
    pub fn wait(&mut self, steps: Range<u32>) {
        let Range { start, end } = steps;
        debug_assert!(end <= self.here());
        if start < end {
            self.push(Step::Wait {
                from: start,
                to: end,
            });
        }
    }

    /// Adds a wait for the message of `step`.
    pub fn wait_for(&mut self, step: u32) {
        self.wait(step..step + 1);
    }

    /// Adds a simultaneous receive and send, and a wait for both.
    pub fn exchange(&mut self, from: u32, into: Block, to: u32, out: Block) {
        let first = self.recv(from, into);
        self.send(to, out);
        self.wait(first..first + 2);
    }

    /// Allocates contiguous bytes in scratch memory.
    pub fn scratch_bytes(&mut self, len: usize) -> Block {
        let offset = self.scratch.next_multiple_of(SCRATCH_ALIGN);
        self.scratch = offset + len;
        Block::bytes(Buf::Scratch, offset as isize, len)
    }

    /// Allocates scratch memory for `count` elements of `datatype` (number `number`), laid out as
    /// in a user's buffer: lower bound and gaps included.
    pub fn scratch_for(&mut self, count: usize, datatype: &Datatype, number: Type) -> Block {
        let (low, len) = span(count, datatype);
        let offset = self.scratch_bytes(len).offset - low;
        Block {
            buf: Buf::Scratch,
            datatype: number,
            offset,
            count,
        }
    }

    /// Returns the bytes of `block`, whose type is `datatype`: in place if contiguous, otherwise in
    /// newly allocated scratch memory.
    pub fn stage(&mut self, block: Block, datatype: &Datatype) -> Staged {
        let len = block.count * datatype.size();
        if datatype.is_contiguous() || len == 0 {
            let bytes = Block::bytes(block.buf, block.offset + datatype.true_lb(), len);
            Staged {
                typed: block,
                bytes,
                apart: false,
            }
        } else {
            Staged {
                typed: block,
                bytes: self.scratch_bytes(len),
                apart: true,
            }
        }
    }
}

/// Returns the offset of the data of `count` elements from the first element's origin, and the
/// bytes from its first to its last.
pub fn span(count: usize, datatype: &Datatype) -> (isize, usize) {
    if count == 0 {
        return (0, 0);
    }
    let reach = (count - 1) as isize * datatype.extent();
    let low = datatype.true_lb() + reach.min(0);
    let len = datatype.true_extent() + reach.abs();
    (low, len as usize)
}
