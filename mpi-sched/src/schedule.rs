//! A collective as data: what one rank sends, receives, copies and reduces, in which order.
//!
//! A [`Schedule`] is a straight-line program. Steps are issued in program order; local steps are
//! finished when issued, messages finish later. A step never waits for an earlier one unless a
//! [`Step::Wait`] stands between them, so whatever is independent is in flight together, and a
//! pipeline is written by waiting for one old message at a time. Buffers are named, not addressed:
//! one schedule runs again with other addresses.
//!
//! Messages between two ranks match in the order in which both name them: the k-th send of a
//! schedule to a rank meets the k-th receive there from this rank. All of them carry the tag of
//! the call.

use std::ops::Range;

pub use super::slot::{CAME, Course, FREE, FREED, NODE, SENT, SLOT_INLINE, Slot, slot_offset};
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::Op;

/// Where a block lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buf {
    /// The caller's send buffer; only read.
    Send,
    /// The caller's receive buffer (of a broadcast: the buffer).
    Recv,
    /// Memory that lives as long as the run, 64-byte aligned.
    Scratch,
    /// What was put into a slot of remote memory. Written by the one to whom it belongs by a copy
    /// and [`Step::Put`] without data to itself, or from afar by [`Step::Put`]; read after
    /// [`Step::Await`]. Offsets count from the slot's first byte: see [`slot_offset`].
    Slot(Slot),
}

/// The number of a datatype in the schedule's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Type(u32);

impl Type {
    /// Single bytes; in every schedule's table.
    pub const BYTE: Type = Type(0);
}

/// `count` elements of a datatype at a byte offset from the address that stands for a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Which buffer.
    pub buf: Buf,
    /// The type of the elements.
    pub datatype: Type,
    /// From the buffer's address to the first element's origin, in bytes; as usual for MPI the
    /// data may start before (negative lower bound) or after it.
    pub offset: isize,
    /// How many elements.
    pub count: usize,
}

impl Block {
    /// `len` bytes at `offset`.
    pub fn bytes(buf: Buf, offset: isize, len: usize) -> Block {
        Block {
            buf,
            datatype: Type::BYTE,
            offset,
            count: len,
        }
    }

    /// A message without content.
    pub fn empty() -> Block {
        Block::bytes(Buf::Scratch, 0, 0)
    }

    /// The elements `range` of this block, when they lie `extent` bytes apart.
    pub fn slice(self, extent: isize, range: Range<usize>) -> Block {
        debug_assert!(range.start <= range.end && range.end <= self.count);
        Block {
            offset: self.offset + range.start as isize * extent,
            count: range.end - range.start,
            ..self
        }
    }

    /// The bytes `range` of a block of bytes.
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
        /// What is sent.
        block: Block,
    },
    /// Starts receiving into `block` from rank `from`.
    Recv {
        /// As [`Step::Send`]'s `to`.
        from: u32,
        /// Where it goes.
        block: Block,
    },
    /// Copies one block to another; types may differ where their signatures agree.
    Copy {
        /// Source.
        from: Block,
        /// Destination; must not overlap the source.
        to: Block,
    },
    /// `inout[i] = input[i] op inout[i]`: `input` stands left, so it is the one of lower ranks.
    Reduce {
        /// Left operand.
        input: Block,
        /// Right operand and result; same datatype and count.
        inout: Block,
    },
    /// `to[i] = left[i] op right[i]` for a predefined operation: `left` is the one of lower ranks.
    Combine {
        /// Left operand.
        left: Block,
        /// Right operand; same datatype and count.
        right: Block,
        /// Result; the same place as one of them, or apart from both.
        to: Block,
    },
    /// Writes the bytes of `block` to a slot, then its flag.
    Put {
        /// Where to.
        slot: Slot,
        /// Gapless data; of the own rank's slot, what was copied there already.
        block: Block,
    },
    /// Writes where `block` is to the own slot of a phase, for [`Step::Direct`] at other ranks.
    Lend {
        /// The phase.
        phase: i32,
        /// Gapless data that stays where it is until all others are known to be through.
        block: Block,
    },
    /// Copies between `block` and what another rank has lent in a phase whose flag is up.
    Direct {
        /// The slot in which the other says where its data is.
        slot: Slot,
        /// From the beginning of what was lent, in bytes.
        offset: usize,
        /// Gapless data of this rank.
        block: Block,
        /// Whether to write there rather than to read.
        write: bool,
    },
    /// Goes on when the flags of this cell and phase of the ranks `first..last` are up.
    Await {
        /// The first rank.
        first: u32,
        /// One past the last.
        last: u32,
        /// Which cell of theirs.
        cell: u32,
        /// Which phase.
        phase: i32,
        /// How many bytes there is room for: more is an error, and is not taken.
        room: usize,
        /// Who raises them, if not these ranks themselves.
        by: Option<u32>,
    },
    /// Goes on when the messages among the steps `from..to` are complete.
    Wait {
        /// First step waited for.
        from: u32,
        /// One past the last.
        to: u32,
    },
}

/// A typed block and where its packed bytes are while an algorithm moves them.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// The elements as the caller laid them out.
    pub typed: Block,
    /// The same data as one run of bytes.
    pub bytes: Block,
    /// Whether `bytes` is another place than `typed`.
    pub apart: bool,
}

impl Staged {
    /// Makes the bytes hold what the elements hold.
    pub fn pack(&self, schedule: &mut Schedule) {
        if self.apart {
            schedule.copy(self.typed, self.bytes);
        }
    }

    /// Makes the elements hold what the bytes hold.
    pub fn unpack(&self, schedule: &mut Schedule) {
        if self.apart {
            schedule.copy(self.bytes, self.typed);
        }
    }
}

/// The steps of one rank with the datatypes and the operation that they use.
///
/// Cleared and built again without allocation once its lists have grown.
#[derive(Debug)]
pub struct Schedule {
    steps: Vec<Step>,
    /// The first `used` are in use; those behind are left from what was built before.
    types: Vec<Datatype>,
    used: usize,
    op: Option<Op>,
    scratch: usize,
    phases: u32,
    node_phases: u32,
    /// The ranks of the node, by their numbers in cells [`NODE`].
    node: Vec<u32>,
    course: Course,
    pieces: [u32; 2],
    exact: bool,
    /// Memory that builders borrow for a list of numbers.
    list: Vec<usize>,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule::new()
    }
}

/// Alignment of everything in scratch memory: a cache line.
pub const SCRATCH_ALIGN: usize = 64;

impl Schedule {
    /// A schedule that does nothing.
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

    /// Back to a schedule that does nothing, keeping the memory of its lists.
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

    /// Says that all ranks know how much data each message has: less is an error, too, and who has made out one
    /// passes none on that others would take for right.
    pub fn set_exact(&mut self, exact: bool) {
        self.exact = exact;
    }

    /// See [`Schedule::set_exact`].
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many bytes of scratch memory the steps use.
    pub fn scratch_len(&self) -> usize {
        self.scratch
    }

    /// How many phases of slots the steps use.
    pub fn phases(&self) -> u32 {
        self.phases
    }

    /// How many phases the slots in cells [`NODE`] go through.
    pub fn node_phases(&self) -> u32 {
        self.node_phases
    }

    /// The ranks by whose numbers the slots in cells [`NODE`] go.
    pub fn node(&self) -> &[u32] {
        &self.node
    }

    /// Has `build` add steps for ranks that share a node, by slots that all of them see; `node` says who they
    /// are, in the order of their numbers there.
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

    /// By which numbers its phases go.
    pub fn course(&self) -> Course {
        self.course
    }

    /// Says that all meet in it.
    pub fn meet(&mut self) {
        self.course = Course::Meets;
    }

    /// Says that it goes from all to one.
    pub fn rise(&mut self) {
        self.course = Course::Up;
    }

    /// How many pieces go to the next rank, and come from the one before.
    pub fn pieces(&self) -> [u32; 2] {
        self.pieces
    }

    pub(super) fn set_pieces(&mut self, pieces: [u32; 2]) {
        self.pieces = pieces;
    }

    /// Whether it uses slots of any kind.
    pub fn uses_slots(&self) -> bool {
        self.phases > 0 || self.node_phases > 0 || self.pieces != [0; 2]
    }

    /// Another phase, the same on all ranks.
    pub fn phase(&mut self) -> i32 {
        self.phases += 1;
        self.phases as i32 - 1
    }

    /// The datatype behind a number.
    pub fn type_of(&self, number: Type) -> &Datatype {
        &self.types[number.0 as usize]
    }

    /// The operation of the reduce steps.
    pub fn op(&self) -> Option<&Op> {
        self.op.as_ref()
    }

    /// Sets the operation of the reduce steps.
    ///
    /// It survives [`Schedule::clear`]: calls mostly repeat the operation, and cloning it writes
    /// to memory that all threads share.
    pub fn set_op(&mut self, op: &Op) {
        if !self.op.as_ref().is_some_and(|old| old.is_same(op)) {
            self.op = Some(op.clone());
        }
    }

    /// Puts a datatype into the table.
    ///
    /// One that was there in the schedule before is taken again, not cloned: calls mostly repeat
    /// their types, and cloning a derived one writes to memory that all threads share.
    pub fn add_type(&mut self, datatype: &Datatype) -> Type {
        let number = self.used;
        match self.types.get_mut(number) {
            Some(old) if old.same(datatype) => {}
            Some(old) => *old = datatype.clone(),
            None => self.types.push(datatype.clone()),
        }
        self.used += 1;
        Type(number as u32)
    }

    /// The number that the next step will have.
    pub fn here(&self) -> u32 {
        self.steps.len() as u32
    }

    /// An empty list for a builder to fill, and to give back with [`Schedule::give_list`].
    pub(super) fn take_list(&mut self) -> Vec<usize> {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        list
    }

    /// Keeps the memory of a list for the next builder.
    pub(super) fn give_list(&mut self, list: Vec<usize>) {
        self.list = list;
    }

    /// Whether the block, if it is in scratch memory, is in what was taken of it.
    fn is_within(&self, block: Block) -> bool {
        let (low, len) = span(block.count, self.type_of(block.datatype));
        let start = block.offset + low;
        block.buf != Buf::Scratch || (start >= 0 && start as usize + len <= self.scratch)
    }

    fn push(&mut self, step: Step) -> u32 {
        let number = self.here();
        debug_assert!(match step {
            Step::Send { block, .. } | Step::Recv { block, .. } => self.is_within(block),
            Step::Copy { from, to } => self.is_within(from) && self.is_within(to),
            Step::Reduce { input, inout } => self.is_within(input) && self.is_within(inout),
            Step::Combine { left, right, to } => {
                self.is_within(left) && self.is_within(right) && self.is_within(to)
            }
            Step::Put { block, .. } | Step::Lend { block, .. } | Step::Direct { block, .. } => {
                self.is_within(block)
            }
            Step::Wait { .. } | Step::Await { .. } => true,
        });
        self.steps.push(step);
        number
    }

    /// Adds a send; returns its number.
    pub fn send(&mut self, to: u32, block: Block) -> u32 {
        self.push(Step::Send { to, block })
    }

    /// Adds a receive; returns its number.
    pub fn recv(&mut self, from: u32, block: Block) -> u32 {
        self.push(Step::Recv { from, block })
    }

    /// Adds a copy, unless there is nothing to copy or both are the same place.
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

    /// Adds `to = left op right`. Where [`Schedule::combines`] says no, `to` must not be `left`.
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

    /// Whether the operation has kernels that write their result elsewhere than to an operand.
    pub fn combines(&self) -> bool {
        self.op().is_some_and(|op| op.as_predefined().is_some())
    }

    /// Adds a write of `block` and of the flag to a slot; returns its number.
    pub fn put(&mut self, slot: Slot, block: Block) -> u32 {
        self.push(Step::Put { slot, block })
    }

    /// Whether it says where data is, or reads or writes where others have theirs.
    pub fn lends(&self) -> bool {
        let lends = |step: &Step| matches!(step, Step::Lend { .. } | Step::Direct { .. });
        self.steps.iter().any(lends)
    }

    /// Says in the own slot where `block` is.
    pub fn lend(&mut self, phase: i32, block: Block) {
        self.push(Step::Lend { phase, block });
    }

    /// Copies between `block` and what was lent in `slot`, `offset` bytes from its beginning.
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

    /// What follows is issued when the flags of `cell` in this phase are up at all of `ranks`.
    pub fn await_flags(&mut self, ranks: Range<u32>, cell: u32, phase: i32) {
        self.await_data(ranks, cell, phase, usize::MAX);
    }

    /// As [`Schedule::await_flags`], for data of at most `room` bytes.
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

    /// What follows is issued when rank `by` has put at most `room` bytes into `cell` of rank `at`, this one.
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

    /// Renames the ranks that have slots, in the steps from `first` on: what was built for some of a
    /// communicator's ranks, by their numbers among themselves, is for these ranks then.
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

    /// Changes all slots that are named in the steps from `first` on, but for those whose flags are waited for.
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

    /// Has the steps from `first` on use another place than a buffer: what was `offset` bytes from its address is
    /// as far from that of `to`.
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
            match step {
                Step::Send { block, .. }
                | Step::Recv { block, .. }
                | Step::Put { block, .. }
                | Step::Direct { block, .. }
                | Step::Lend { block, .. } => changed(block),
                Step::Copy { from, to } => [from, to].into_iter().for_each(&changed),
                Step::Reduce { input, inout } => [input, inout].into_iter().for_each(&changed),
                Step::Combine { left, right, to } => {
                    [left, right, to].into_iter().for_each(&changed);
                }
                Step::Await { .. } | Step::Wait { .. } => {}
            }
        }
    }

    /// What follows is issued when the messages in `steps` are complete.
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

    /// What follows is issued when the message of `step` is complete.
    pub fn wait_for(&mut self, step: u32) {
        self.wait(step..step + 1);
    }

    /// Receive and send at once, and wait for both.
    pub fn exchange(&mut self, from: u32, into: Block, to: u32, out: Block) {
        let first = self.recv(from, into);
        self.send(to, out);
        self.wait(first..first + 2);
    }

    /// A run of bytes in scratch memory.
    pub fn scratch_bytes(&mut self, len: usize) -> Block {
        let offset = self.scratch.next_multiple_of(SCRATCH_ALIGN);
        self.scratch = offset + len;
        Block::bytes(Buf::Scratch, offset as isize, len)
    }

    /// Room for `count` elements of `datatype` (which is `number`) in scratch memory, laid out as
    /// in a user buffer: lower bound and gaps included.
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

    /// The bytes of `block`, whose type is `datatype`: in place where they lie in one run,
    /// otherwise room for them in scratch memory.
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

/// Where the data of `count` elements starts relative to the first element's origin, and how many
/// bytes there are from its first to its last.
pub fn span(count: usize, datatype: &Datatype) -> (isize, usize) {
    if count == 0 {
        return (0, 0);
    }
    let reach = (count - 1) as isize * datatype.extent();
    let low = datatype.true_lb() + reach.min(0);
    let len = datatype.true_extent() + reach.abs();
    (low, len as usize)
}
