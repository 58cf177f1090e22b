//! Collective functions by name: those that benchmarks call with one set of buffers again and again,
//! blocking or not.

use std::ffi::{c_int, c_void};

use libloading::os::unix::Library;

use super::constants::{BYTE, COMM_WORLD, FLOAT, REQUEST_NULL, STATUS_IGNORE, SUM};
use super::entry::Request;
use super::world::{World, check, count};
use crate::error::{Error, Result};
use crate::pages::Pages;

/// What a collective function's arguments are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The communicator.
    Barrier,
    /// One buffer and the root.
    Bcast,
    /// A block per rank or neighbour, of one length: `allgather`, `alltoall`.
    Exchange,
    /// `gather` and `scatter`: as that, with the root.
    Rooted,
    /// `allreduce`.
    Allreduce,
    /// `reduce`.
    Reduce,
    /// `reduce_scatter`.
    ReduceScatter,
    /// `allgatherv`.
    Allgatherv,
    /// `gatherv`.
    Gatherv,
    /// `scatterv`.
    Scatterv,
    /// `alltoallv`.
    Alltoallv,
    /// `alltoallw`, with displacements that are `int`.
    Alltoallw,
    /// `neighbor_alltoallw`, with displacements that are addresses.
    NeighborAlltoallw,
}

type Buf = *mut c_void;
type Ints = *const c_int;
type Any = *const c_void;

/// A collective call with its buffers.
pub struct Collective {
    name: &'static str,
    function: *mut c_void,
    waits: bool,
    shape: Shape,
    communicator: c_int,
    own_communicator: bool,
    pub send: Pages<u8>,
    pub recv: Pages<u8>,
    /// Bytes of a block; of a reduction, of the vector.
    size: usize,
    counts: Vec<c_int>,
    displacements: Vec<c_int>,
    addresses: Vec<isize>,
    types: Vec<c_int>,
}

/// The function of this name in the library that was opened for all to see.
fn symbol(name: &str) -> Result<*mut c_void> {
    // SAFETY: a function's address is a pointer of this type; it is not called here.
    let found = unsafe { Library::this().get::<*mut c_void>(name) };
    found.map(|found| *found).map_err(|_| {
        Error::everywhere(format!(
            "the MPI library lacks {name}, which this benchmark needs; run another benchmark or \
             choose another library with LD_LIBRARY_PATH"
        ))
    })
}

/// Calls a collective function by its arguments, with a request behind them if it doesn't wait.
macro_rules! call {
    ($self:ident, $request:ident, ($($kind:ty),*), ($($argument:expr),*)) => {{
        // SAFETY: the function was looked up by the name that goes with this shape, whose C
        // prototype this is; buffers hold what counts say, and live until the request is complete,
        // since `Collective` waits for it before it returns them.
        unsafe {
            if $self.waits {
                let f: unsafe extern "C" fn($($kind),*) -> c_int =
                    std::mem::transmute($self.function);
                f($($argument),*)
            } else {
                let f: unsafe extern "C" fn($($kind),*, *mut Request) -> c_int =
                    std::mem::transmute($self.function);
                f($($argument),*, &mut $request)
            }
        }
    }};
}

impl Collective {
    /// The call of function `name` on blocks of `size` bytes with `send` and `recv` blocks per rank;
    /// `neighbours` asks for a ring of ranks, each with two.
    pub fn new(
        world: &World,
        name: &'static str,
        shape: Shape,
        waits: bool,
        size: usize,
        blocks: [usize; 2],
        neighbours: bool,
    ) -> Result<Self> {
        let function = symbol(name)?;
        let communicator = if neighbours { ring(world)? } else { COMM_WORLD };
        let most = blocks[0].max(blocks[1]).max(world.size);
        let one = count(size)?;
        let floats = size / size_of::<f32>();
        let counts: Vec<c_int> = match shape {
            Shape::ReduceScatter => (0..world.size)
                .map(|rank| {
                    let more = usize::from(rank < floats % world.size);
                    count(floats / world.size + more)
                })
                .collect::<Result<_>>()?,
            _ => vec![one; most],
        };
        let starts: Vec<usize> = (0..most).map(|i| i * size).collect();
        Ok(Self {
            name,
            function,
            waits,
            shape,
            communicator,
            own_communicator: neighbours,
            send: Pages::of(1, blocks[0] * size),
            recv: Pages::of(0, blocks[1] * size),
            size,
            counts,
            displacements: starts.iter().map(|&at| count(at)).collect::<Result<_>>()?,
            addresses: starts.iter().map(|&at| at as isize).collect(),
            types: vec![BYTE; most],
        })
    }

    /// Calls the function; of one that doesn't wait, gives the request.
    #[inline]
    pub fn start(&mut self) -> Result<Request> {
        let mut request = REQUEST_NULL;
        let (send, recv): (Buf, Buf) =
            (self.send.as_mut_ptr().cast(), self.recv.as_mut_ptr().cast());
        let n = self.size as c_int;
        let floats = (self.size / size_of::<f32>()) as c_int;
        let (counts, at): (Ints, Ints) = (self.counts.as_ptr(), self.displacements.as_ptr());
        let (far, types): (Any, Ints) = (self.addresses.as_ptr().cast(), self.types.as_ptr());
        let at_any: Any = at.cast();
        let comm = self.communicator;
        let code = match self.shape {
            Shape::Barrier => call!(self, request, (c_int), (comm)),
            Shape::Bcast => call!(
                self,
                request,
                (Buf, c_int, c_int, c_int, c_int),
                (send, n, BYTE, 0, comm)
            ),
            Shape::Exchange => call!(
                self,
                request,
                (Buf, c_int, c_int, Buf, c_int, c_int, c_int),
                (send, n, BYTE, recv, n, BYTE, comm)
            ),
            Shape::Rooted => call!(
                self,
                request,
                (Buf, c_int, c_int, Buf, c_int, c_int, c_int, c_int),
                (send, n, BYTE, recv, n, BYTE, 0, comm)
            ),
            Shape::Allreduce => call!(
                self,
                request,
                (Buf, Buf, c_int, c_int, c_int, c_int),
                (send, recv, floats, FLOAT, SUM, comm)
            ),
            Shape::Reduce => call!(
                self,
                request,
                (Buf, Buf, c_int, c_int, c_int, c_int, c_int),
                (send, recv, floats, FLOAT, SUM, 0, comm)
            ),
            Shape::ReduceScatter => call!(
                self,
                request,
                (Buf, Buf, Ints, c_int, c_int, c_int),
                (send, recv, counts, FLOAT, SUM, comm)
            ),
            Shape::Allgatherv => call!(
                self,
                request,
                (Buf, c_int, c_int, Buf, Ints, Ints, c_int, c_int),
                (send, n, BYTE, recv, counts, at, BYTE, comm)
            ),
            Shape::Gatherv => call!(
                self,
                request,
                (Buf, c_int, c_int, Buf, Ints, Ints, c_int, c_int, c_int),
                (send, n, BYTE, recv, counts, at, BYTE, 0, comm)
            ),
            Shape::Scatterv => call!(
                self,
                request,
                (Buf, Ints, Ints, c_int, Buf, c_int, c_int, c_int, c_int),
                (send, counts, at, BYTE, recv, n, BYTE, 0, comm)
            ),
            Shape::Alltoallv => call!(
                self,
                request,
                (Buf, Ints, Ints, c_int, Buf, Ints, Ints, c_int, c_int),
                (send, counts, at, BYTE, recv, counts, at, BYTE, comm)
            ),
            Shape::Alltoallw => call!(
                self,
                request,
                (Buf, Ints, Any, Ints, Buf, Ints, Any, Ints, c_int),
                (
                    send, counts, at_any, types, recv, counts, at_any, types, comm
                )
            ),
            Shape::NeighborAlltoallw => call!(
                self,
                request,
                (Buf, Ints, Any, Ints, Buf, Ints, Any, Ints, c_int),
                (send, counts, far, types, recv, counts, far, types, comm)
            ),
        };
        check(self.name, code)?;
        Ok(request)
    }

    /// Waits for what [`Collective::start`] started.
    #[inline]
    pub fn wait(&mut self, world: &World, mut request: Request) -> Result<()> {
        if self.waits {
            return Ok(());
        }
        let wait = world.table().wait.get()?;
        // SAFETY: the request of this call, whose buffers are `self`'s.
        check("MPI_Wait", unsafe { wait(&mut request, STATUS_IGNORE) })
    }

    /// Frees the communicator that was made for it.
    pub fn free(mut self, world: &World) -> Result<()> {
        if !self.own_communicator {
            return Ok(());
        }
        let comm_free = world.table().comm_free.get()?;
        // SAFETY: a communicator of its own, with nothing under way.
        check("MPI_Comm_free", unsafe {
            comm_free(&mut self.communicator)
        })
    }
}

/// All ranks in a ring, in their order.
fn ring(world: &World) -> Result<c_int> {
    type CartCreate = unsafe extern "C" fn(c_int, c_int, Ints, Ints, c_int, *mut c_int) -> c_int;
    let function = symbol("MPI_Cart_create")?;
    let (size, periodic, mut made) = (count(world.size)?, 1, 0);
    // SAFETY: the prototype of MPI_Cart_create; one dimension, one handle is written.
    check("MPI_Cart_create", unsafe {
        let create: CartCreate = std::mem::transmute(function);
        create(COMM_WORLD, 1, &size, &periodic, 0, &mut made)
    })?;
    Ok(made)
}
