//! The arguments by which two calls have the same schedule.

use crate::plan::call::{Call, Root};
use crate::plan::in_slots::uniform;
use mpi_core::datatype::Datatype;
use mpi_core::op::Op;
use mpi_sched::{Collective, Layout, Part};

/// The arguments of a call that determine its schedule on a communicator.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    /// `None` for the barrier between broadcasts by writes, before slots are reused.
    pub kind: Option<Collective>,
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
    kind: Option<Collective>,
    is_nonblocking: bool,
    in_place: bool,
    root: Option<Root>,
    send: Option<(usize, Datatype)>,
    recv: Option<(usize, Datatype)>,
    op: Option<Op>,
}

impl<'a> Shape<'a> {
    /// The shape of the barrier between broadcasts by writes.
    pub const PACE: Shape<'static> = Shape {
        kind: None,
        is_nonblocking: false,
        in_place: false,
        root: None,
        send: None,
        recv: None,
        op: None,
        varies: false,
    };

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

/// Returns the part that all blocks share, if there are any; `None` if they differ.
fn same(layout: Option<Layout<'_>>) -> Option<Option<Part<'_>>> {
    match layout {
        None => Some(None),
        Some(layout) => uniform(layout).map(Some),
    }
}

impl Call<'_> {
    /// Returns the call's shape among `ranks` ranks; `None` if only some ranks know the lengths.
    pub(crate) fn shape(&self, ranks: u32) -> Option<Shape<'_>> {
        let mut varies = false;
        let (send, recv) = match *self {
            Call::Gather { varying: true, .. } | Call::Scatter { varying: true, .. } => {
                return None;
            }
            Call::Gather { send, recv, .. } => (send, same(recv)?),
            Call::Scatter { send, recv, .. } => (same(send)?, recv),
            Call::Allgather(send, recv) => (send, same(Some(recv))?),
            Call::Alltoall(send, recv) => (same(send)?, same(Some(recv))?),
            Call::ReduceScatter { blocks, .. } => {
                let part = uniform(blocks).unwrap_or_else(|| {
                    varies = true;
                    let datatype = blocks.datatype(0);
                    let count = (0..ranks as usize).map(|rank| blocks.count(rank)).sum();
                    Part { count, datatype }
                });
                (None, Some(part))
            }
            _ => (None, self.vector()),
        };
        Some(Shape {
            kind: Some(self.collective()?),
            in_place: self.is_in_place(),
            root: self.root(),
            send,
            recv,
            op: self.op(),
            varies,
            ..Shape::PACE
        })
    }
}
