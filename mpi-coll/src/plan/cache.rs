//! Schedules kept for repeated calls.

use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Message;
use crate::plan::call::{Call, Root};
use mpi_core::datatype::Datatype;
use mpi_core::op::Op;
use mpi_sched::{Layout, Part, Run};

/// A run, and the call for which its schedule was built.
#[derive(Default)]
pub(crate) struct CommRun {
    pub run: Run<Message>,
    pub call: Option<OwnedShape>,
    /// What all members must agree on.
    pub signature: CallSignature,
    /// The communicator's generation when the schedule was built.
    pub generation: u32,
}

/// The arguments of a call that determine its schedule on a communicator.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    kind: u8,
    in_place: bool,
    root: u32,
    send: Option<Part<'a>>,
    recv: Option<Part<'a>>,
    op: Option<&'a Op>,
}

/// A [`Shape`] that owns its parts.
pub(crate) struct OwnedShape {
    kind: u8,
    in_place: bool,
    root: u32,
    send: Option<(usize, Datatype)>,
    recv: Option<(usize, Datatype)>,
    op: Option<Op>,
}

impl OwnedShape {
    fn fits(&self, shape: &Shape<'_>) -> bool {
        let part = |known: &Option<(usize, Datatype)>, part: &Option<Part<'_>>| match (known, part)
        {
            (Some((count, datatype)), Some(part)) => {
                *count == part.count && datatype.is_same(part.datatype)
            }
            (None, None) => true,
            _ => false,
        };
        self.kind == shape.kind
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

impl CommRun {
    /// Whether the schedule fits a call of this shape.
    #[inline]
    pub fn fits(&self, shape: &Shape<'_>) -> bool {
        self.call.as_ref().is_some_and(|known| known.fits(shape))
    }

    /// Records for which call the schedule is built.
    pub fn remember(&mut self, shape: Option<&Shape<'_>>) {
        let part = |part: Option<Part<'_>>| part.map(|part| (part.count, part.datatype.clone()));
        self.call = shape.map(|shape| OwnedShape {
            kind: shape.kind,
            in_place: shape.in_place,
            root: shape.root,
            send: part(shape.send),
            recv: part(shape.recv),
            op: shape.op.cloned(),
        });
    }
}

impl<'a> Shape<'a> {
    /// Returns the shape of the same call, nonblocking.
    pub fn nonblocking(self) -> Shape<'a> {
        let kind = self.kind | NONBLOCKING;
        Shape { kind, ..self }
    }
}

/// Bit of `kind` for nonblocking calls.
const NONBLOCKING: u8 = 1 << 7;

impl Shape<'_> {
    /// The shape of the barriers between broadcasts.
    pub const PACE: Shape<'static> = Shape {
        kind: 12,
        in_place: false,
        root: 0,
        send: None,
        recv: None,
        op: None,
    };
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
    /// Returns the call's shape; `None` if too much of the call determines its schedule.
    pub(crate) fn shape(&self) -> Option<Shape<'_>> {
        let none = Shape {
            kind: 0,
            in_place: false,
            root: 0,
            send: None,
            recv: None,
            op: None,
        };
        let number = |root: Root| match root {
            Root::Rank(rank) => rank,
            Root::This => u32::MAX,
            Root::Other => u32::MAX - 1,
        };
        Some(match *self {
            Call::Barrier => Shape { kind: 1, ..none },
            Call::Bcast { root, part } => Shape {
                kind: 2,
                root: number(root),
                recv: Some(part),
                ..none
            },
            Call::Gather {
                root,
                send,
                recv,
                varying: false,
            } => Shape {
                kind: 3,
                root: number(root),
                send,
                recv: uniform(recv)?,
                ..none
            },
            Call::Scatter {
                root,
                send,
                recv,
                varying: false,
            } => Shape {
                kind: 4,
                root: number(root),
                send: uniform(send)?,
                recv,
                ..none
            },
            Call::Allgather { send, recv } => Shape {
                kind: 5,
                send,
                recv: uniform(Some(recv))?,
                ..none
            },
            Call::Alltoall { send, recv } => Shape {
                kind: 6,
                send: uniform(send)?,
                recv: uniform(Some(recv))?,
                ..none
            },
            Call::Reduce {
                root,
                in_place,
                part,
                op,
            } => Shape {
                kind: 7,
                root: number(root),
                in_place,
                recv: Some(part),
                op: Some(op),
                ..none
            },
            Call::Allreduce { in_place, part, op } => Shape {
                kind: 8,
                in_place,
                recv: Some(part),
                op: Some(op),
                ..none
            },
            Call::ReduceScatter {
                in_place,
                blocks,
                op,
            } => Shape {
                kind: 9,
                in_place,
                recv: uniform(Some(blocks))?,
                op: Some(op),
                ..none
            },
            Call::Scan { in_place, part, op } => Shape {
                kind: 10,
                in_place,
                recv: Some(part),
                op: Some(op),
                ..none
            },
            Call::Exscan { in_place, part, op } => Shape {
                kind: 11,
                in_place,
                recv: Some(part),
                op: Some(op),
                ..none
            },
            _ => return None,
        })
    }
}
