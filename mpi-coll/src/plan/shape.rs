//! The arguments by which two calls have the same schedule.

use crate::plan::call::{Call, Root};
use mpi_core::datatype::Datatype;
use mpi_core::op::Op;
use mpi_sched::{Layout, Part};

/// Names the collective of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "names of the standard's functions")]
pub enum CollectiveKind {
    /// No collective: the key of an empty entry.
    #[default]
    None,
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
    Exscan,
    /// The barrier between broadcasts by writes, before slots are reused.
    Pace,
}

/// The arguments of a call that determine its schedule on a communicator.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub kind: CollectiveKind,
    is_nonblocking: bool,
    in_place: bool,
    pub root: Option<Root>,
    pub send: Option<Part<'a>>,
    /// Of a reduction, the vector or each block; if blocks vary, all of them.
    pub recv: Option<Part<'a>>,
    pub op: Option<&'a Op>,
    /// Whether the lengths of blocks determine the schedule, too: then no schedule is kept.
    pub varies: bool,
}

/// A [`Shape`] that owns its datatypes and its operation.
///
/// Invariant: a datatype is the same only while both objects live. The plan keeps its own alive, so
/// a datatype that was freed and made again under the same handle never fits an old plan.
pub(crate) struct OwnedShape {
    kind: CollectiveKind,
    is_nonblocking: bool,
    in_place: bool,
    root: Option<Root>,
    send: Option<(usize, Datatype)>,
    recv: Option<(usize, Datatype)>,
    op: Option<Op>,
}

impl<'a> Shape<'a> {
    /// The shape of the barrier between broadcasts by writes.
    pub const PACE: Shape<'static> = Shape::new(CollectiveKind::Pace, None, None, None);

    const fn new(
        kind: CollectiveKind,
        root: Option<Root>,
        send: Option<Part<'a>>,
        recv: Option<Part<'a>>,
    ) -> Shape<'a> {
        Shape {
            kind,
            is_nonblocking: false,
            in_place: false,
            root,
            send,
            recv,
            op: None,
            varies: false,
        }
    }

    fn reduction(
        kind: CollectiveKind,
        root: Option<Root>,
        in_place: bool,
        part: Part<'a>,
        op: &'a Op,
    ) -> Shape<'a> {
        Shape {
            in_place,
            op: Some(op),
            ..Shape::new(kind, root, None, Some(part))
        }
    }

    /// Returns the shape of the same call, nonblocking.
    pub fn nonblocking(self) -> Shape<'a> {
        Shape {
            is_nonblocking: true,
            ..self
        }
    }

    /// Returns a copy that owns its parts.
    pub fn owned(self) -> OwnedShape {
        let part = |part: Option<Part<'_>>| part.map(|part| (part.count, part.datatype.clone()));
        OwnedShape {
            kind: self.kind,
            is_nonblocking: self.is_nonblocking,
            in_place: self.in_place,
            root: self.root,
            send: part(self.send),
            recv: part(self.recv),
            op: self.op.cloned(),
        }
    }
}

impl OwnedShape {
    /// Whether a call of this shape has the same schedule.
    pub fn fits(&self, shape: &Shape<'_>) -> bool {
        let part = |known: &Option<(usize, Datatype)>, part: &Option<Part<'_>>| match (known, part)
        {
            (Some((count, datatype)), Some(part)) => {
                *count == part.count && datatype.is_same(part.datatype)
            }
            (None, None) => true,
            _ => false,
        };
        self.kind == shape.kind
            && self.is_nonblocking == shape.is_nonblocking
            && self.root == shape.root
            && self.in_place == shape.in_place
            && part(&self.recv, &shape.recv)
            && part(&self.send, &shape.send)
            && match (&self.op, shape.op) {
                (Some(known), Some(op)) => known.is_same(op),
                (None, None) => true,
                _ => false,
            }
    }
}

/// Returns the part that all blocks share; `None` if they differ.
fn uniform<'a>(layout: Option<Layout<'a>>) -> Option<Option<Part<'a>>> {
    match layout {
        None => Some(None),
        Some(Layout::Uniform(part)) => Some(Some(part)),
        Some(_) => None,
    }
}

impl Call<'_> {
    /// Returns the call's shape among `ranks` ranks; `None` if only some ranks know the lengths.
    pub(crate) fn shape(&self, ranks: u32) -> Option<Shape<'_>> {
        use CollectiveKind as Kind;
        Some(match *self {
            Call::Barrier => Shape::new(Kind::Barrier, None, None, None),
            Call::Bcast { root, part } => Shape::new(Kind::Bcast, Some(root), None, Some(part)),
            Call::Gather {
                root,
                send,
                recv,
                varying: false,
            } => Shape::new(Kind::Gather, Some(root), send, uniform(recv)?),
            Call::Scatter {
                root,
                send,
                recv,
                varying: false,
            } => Shape::new(Kind::Scatter, Some(root), uniform(send)?, recv),
            Call::Allgather { send, recv } => {
                Shape::new(Kind::Allgather, None, send, uniform(Some(recv))?)
            }
            Call::Alltoall { send, recv } => {
                Shape::new(Kind::Alltoall, None, uniform(send)?, uniform(Some(recv))?)
            }
            Call::Reduce {
                root,
                in_place,
                part,
                op,
            } => Shape::reduction(Kind::Reduce, Some(root), in_place, part, op),
            Call::Allreduce { in_place, part, op } => {
                Shape::reduction(Kind::Allreduce, None, in_place, part, op)
            }
            Call::ReduceScatter {
                in_place,
                blocks: Layout::Uniform(part),
                op,
            } => Shape::reduction(Kind::ReduceScatter, None, in_place, part, op),
            Call::ReduceScatter {
                in_place,
                blocks,
                op,
            } => {
                let datatype = blocks.datatype(0);
                let count = (0..ranks as usize).map(|rank| blocks.count(rank)).sum();
                let part = Part { count, datatype };
                Shape {
                    varies: true,
                    ..Shape::reduction(Kind::ReduceScatter, None, in_place, part, op)
                }
            }
            Call::Scan { in_place, part, op } => {
                Shape::reduction(Kind::Scan, None, in_place, part, op)
            }
            Call::Exscan { in_place, part, op } => {
                Shape::reduction(Kind::Exscan, None, in_place, part, op)
            }
            _ => return None,
        })
    }
}
