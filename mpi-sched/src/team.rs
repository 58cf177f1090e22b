//! The arguments of the builders: participating ranks, and buffers divided into blocks.

use std::ops::Range;

use super::schedule::{Block, Buf, Schedule, Type};
use mpi_types::datatype::Datatype;
use mpi_types::op::Op;

/// The ranks that run an algorithm, and this rank's number among them.
///
/// Algorithms number the members from 0; [`Team::peer`] returns a member's rank in the
/// communicator. One algorithm thus serves a communicator, one side of an intercommunicator and the
/// ranks of a node.
#[derive(Clone, Copy, Debug)]
pub struct Team<'a> {
    /// This member's number.
    pub rank: usize,
    ranks: Ranks<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Ranks<'a> {
    Run { first: u32, size: usize },
    List(&'a [u32]),
}

impl<'a> Team<'a> {
    /// Returns the team of all ranks of a communicator of `size`, or of an intercommunicator's
    /// local group.
    pub fn all(rank: u32, size: u32) -> Team<'static> {
        debug_assert!(rank < size);
        Team {
            rank: rank as usize,
            ranks: Ranks::Run {
                first: 0,
                size: size as usize,
            },
        }
    }

    /// Returns the team of the ranks in `list`; `rank` is this rank's index in it.
    pub fn some(rank: usize, list: &'a [u32]) -> Team<'a> {
        debug_assert!(rank < list.len());
        Team {
            rank,
            ranks: Ranks::List(list),
        }
    }

    /// Returns the team of `size` ranks from `first` on, of which this one is number `rank`.
    pub fn run(rank: usize, first: u32, size: usize) -> Team<'static> {
        Team {
            rank,
            ranks: Ranks::Run { first, size },
        }
    }

    /// Returns the number of members.
    pub fn size(&self) -> usize {
        match self.ranks {
            Ranks::Run { size, .. } => size,
            Ranks::List(list) => list.len(),
        }
    }

    /// Returns the rank of a member.
    pub fn peer(&self, member: usize) -> u32 {
        match self.ranks {
            Ranks::Run { first, .. } => first + member as u32,
            Ranks::List(list) => list[member],
        }
    }

    /// Returns the member `distance` positions after this one in the ring.
    pub fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.size()
    }

    /// Returns the member `distance` positions before this one in the ring.
    pub fn before(&self, distance: usize) -> usize {
        (self.rank + self.size() - distance % self.size()) % self.size()
    }
}

/// `count` elements of `datatype`: the arguments of one buffer.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Number of elements.
    pub count: usize,
    /// Type of the elements.
    pub datatype: &'a Datatype,
}

impl Part<'_> {
    /// Returns the bytes of data.
    pub fn bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Returns the block of all elements in `buf`.
    pub fn block(&self, buf: Buf, schedule: &mut Schedule) -> Block {
        Block {
            buf,
            datatype: schedule.add_type(self.datatype),
            offset: 0,
            count: self.count,
        }
    }
}

/// The arguments of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// Whether the receive buffer holds the operand.
    pub in_place: bool,
    /// The vector.
    pub part: Part<'a>,
    /// The operation.
    pub op: &'a Op,
}

impl<'a> Reduction<'a> {
    /// Creates the arguments.
    pub fn new(in_place: bool, part: Part<'a>, op: &'a Op) -> Reduction<'a> {
        Reduction { in_place, part, op }
    }

    /// Returns the arguments of a rank that may reduce in place only if `is_root`.
    pub(crate) fn at(self, is_root: bool) -> Reduction<'a> {
        let in_place = self.in_place && is_root;
        Reduction { in_place, ..self }
    }

    /// Sets the schedule's operation. Returns the blocks of operand and result; `None` if the vector
    /// is empty.
    pub(crate) fn begin(&self, schedule: &mut Schedule) -> Option<(Block, Block)> {
        if self.part.count == 0 {
            return None;
        }
        schedule.set_op(self.op);
        let recv = self.part.block(Buf::Recv, schedule);
        let buf = match self.in_place {
            true => Buf::Recv,
            false => Buf::Send,
        };
        Some((Block { buf, ..recv }, recv))
    }
}

/// Integers as the C binding passes them: `int`, or 64 bits in large-count functions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Ints<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl Ints<'_> {
    /// Returns the integer at index `i`.
    pub fn get(&self, i: usize) -> i64 {
        match self {
            Ints::I32(list) => list[i].into(),
            Ints::I64(list) => list[i],
        }
    }
}

/// How a buffer divides into one block per rank.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'a> {
    /// Equal, consecutive blocks.
    Uniform(Part<'a>),
    /// Counts, and displacements in extents of the datatype (`v` functions).
    Varying {
        /// Elements of each block.
        counts: Ints<'a>,
        /// Start of each block, in extents; `None` if blocks are consecutive.
        displs: Option<Ints<'a>>,
        /// Type of all blocks.
        datatype: &'a Datatype,
    },
    /// A type for every block and displacements in bytes (`w` functions).
    Typed {
        /// Elements of each block.
        counts: Ints<'a>,
        /// Start of each block, in bytes.
        displs: Ints<'a>,
        /// Type of each block.
        datatypes: &'a [&'a Datatype],
    },
}

/// The layout of one buffer, with its datatype in the schedule's table.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    layout: Layout<'a>,
    buf: Buf,
    /// The common type's number in the table, if the layout has one.
    datatype: Type,
}

impl<'a> Layout<'a> {
    /// Returns the layout of `ranks` consecutive blocks.
    pub fn successive(counts: Ints<'a>, ranks: usize, datatype: &'a Datatype) -> Layout<'a> {
        match ranks > 0 && (1..ranks).all(|rank| counts.get(rank) == counts.get(0)) {
            true => Layout::Uniform(Part {
                count: counts.get(0) as usize,
                datatype,
            }),
            false => Layout::Varying {
                counts,
                displs: None,
                datatype,
            },
        }
    }

    /// Returns the blocks of `buf`.
    pub fn of(&self, buf: Buf, schedule: &mut Schedule) -> Blocks<'a> {
        let datatype = match self {
            Layout::Uniform(Part { datatype, .. }) | Layout::Varying { datatype, .. } => {
                schedule.add_type(datatype)
            }
            Layout::Typed { .. } => Type::BYTE,
        };
        Blocks {
            layout: *self,
            buf,
            datatype,
        }
    }

    /// Returns the datatype of block `i`.
    pub fn datatype(&self, i: usize) -> &'a Datatype {
        match self {
            Layout::Uniform(Part { datatype, .. }) | Layout::Varying { datatype, .. } => datatype,
            Layout::Typed { datatypes, .. } => datatypes[i],
        }
    }

    /// Returns the number of elements in block `i`.
    pub fn count(&self, i: usize) -> usize {
        match self {
            Layout::Uniform(part) => part.count,
            Layout::Varying { counts, .. } | Layout::Typed { counts, .. } => counts.get(i) as usize,
        }
    }

    /// Returns the bytes of data in block `i`.
    pub fn bytes(&self, i: usize) -> usize {
        self.count(i) * self.datatype(i).size()
    }

    /// Returns the offset of block `i` in the buffer, in bytes. Adds up all blocks before it where
    /// the layout has no displacements.
    pub fn offset(&self, i: usize) -> isize {
        match self {
            Layout::Uniform(part) => (i * part.count) as isize * part.datatype.extent(),
            Layout::Varying {
                counts,
                displs,
                datatype,
            } => {
                let elements = match displs {
                    Some(displs) => displs.get(i),
                    None => (0..i).map(|k| counts.get(k)).sum(),
                };
                elements as isize * datatype.extent()
            }
            Layout::Typed { displs, .. } => displs.get(i) as isize,
        }
    }
}

impl<'a> Blocks<'a> {
    /// Returns the layout.
    pub fn layout(&self) -> &Layout<'a> {
        &self.layout
    }

    /// Returns the block of rank `i`. Costs as much as [`Layout::offset`].
    pub fn get(&self, i: usize, schedule: &mut Schedule) -> Block {
        let datatype = match self.layout {
            Layout::Uniform(_) | Layout::Varying { .. } => self.datatype,
            Layout::Typed { datatypes, .. } => schedule.add_type(datatypes[i]),
        };
        let (offset, count) = (self.layout.offset(i), self.layout.count(i));
        Block {
            buf: self.buf,
            datatype,
            offset,
            count,
        }
    }
}

/// A member of a binomial tree over `size` members numbered from the root.
///
/// Its subtree is the members `relative .. relative + span`.
#[derive(Clone, Copy, Debug)]
pub struct Binomial {
    /// This member's number from the root.
    pub relative: usize,
    /// Size of the tree.
    pub size: usize,
    /// The lowest set bit of `relative`; at the root, the first power of two not below `size`.
    pub bit: usize,
}

impl Binomial {
    /// Returns the member `relative` of a tree of `size`.
    pub fn new(relative: usize, size: usize) -> Binomial {
        let bit = match relative {
            0 => size.next_power_of_two(),
            _ => relative & relative.wrapping_neg(),
        };
        Binomial {
            relative,
            size,
            bit,
        }
    }

    /// Returns this team's member of the tree whose root is `root`.
    pub fn of(team: Team<'_>, root: usize) -> Binomial {
        Binomial::new(team.before(root), team.size())
    }

    /// Returns the parent's number; `None` at the root.
    pub fn parent(&self) -> Option<usize> {
        (self.relative != 0).then(|| self.relative - self.bit)
    }

    /// Iterates over the children's subtrees, from the largest to the smallest.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let Binomial {
            relative,
            size,
            bit,
        } = *self;
        let levels = 0..bit.trailing_zeros();
        let child = move |level: u32| {
            let first = relative + (1usize << level);
            first..(first + (1usize << level)).min(size)
        };
        levels
            .rev()
            .map(child)
            .filter(move |range| range.start < size)
    }

    /// Returns this member's subtree.
    pub fn span(&self) -> Range<usize> {
        self.relative..(self.relative + self.bit).min(self.size)
    }
}

/// Returns part `i` of `total` items divided among `parts` as evenly as possible.
pub fn share(total: usize, parts: usize, i: usize) -> Range<usize> {
    let (each, more) = (total / parts, total % parts);
    let start = i * each + i.min(more);
    start..start + each + usize::from(i < more)
}
