//! Collective functions by name: those that benchmarks call with one set of buffers again and
//! again, blocking or not.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use libloading::os::unix::Library;

use super::constants::{BYTE, COMM_WORLD, FLOAT, REQUEST_NULL, STATUS_IGNORE, SUM};
use super::table::{self, Request};
use super::world::{World, check, count};
use crate::error::{Error, Result};
use crate::pages::Pages;

/// The arguments of a collective function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The communicator.
    Barrier,
    /// One buffer and the root.
    Bcast,
    /// A block per rank or neighbour, of one length: `allgather`, `alltoall`.
    Exchange,
    /// `gather` and `scatter`: as [`Shape::Exchange`], with the root.
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

impl Shape {
    /// Returns whether the function computes sums of floats.
    pub fn reduces(self) -> bool {
        matches!(self, Self::Allreduce | Self::Reduce | Self::ReduceScatter)
    }
}

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

/// Looks a function up in the library, which was opened for all to see.
fn symbol(name: &str) -> Result<*mut c_void> {
    // SAFETY: a function's address is a pointer of this type; it is not called here.
    let found = unsafe { Library::this().get::<*mut c_void>(name) };
    found
        .map(|found| *found)
        .map_err(|_| Error::everywhere(table::missing(name)))
}

/// The type of an argument, which the compiler infers from its value.
macro_rules! inferred {
    ($argument:expr) => {
        _
    };
}

/// Calls the function, whose C prototype has the types of these arguments, with a request behind
/// them if it doesn't wait.
macro_rules! call {
    ($self:ident, $request:ident, $($argument:expr),*) => {
        // SAFETY: the function was looked up by the name that goes with this shape, whose C
        // prototype these arguments have; buffers hold what counts say, and live until the request
        // is complete, since `Collective` waits for it before it returns them.
        unsafe {
            if $self.waits {
                let function: unsafe extern "C" fn($(inferred!($argument)),*) -> c_int =
                    transmute($self.function);
                function($($argument),*)
            } else {
                let function: unsafe extern "C" fn(
                    $(inferred!($argument),)* *mut Request) -> c_int = transmute($self.function);
                function($($argument,)* &mut $request)
            }
        }
    };
}

impl Collective {
    /// Creates the call of function `name` on blocks of `size` bytes with `send` and `recv` blocks
    /// per rank; `neighbours` asks for a ring of ranks, each with two.
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
        let communicator = match neighbours {
            true => ring(world)?,
            false => world.handle(),
        };
        let most = blocks[0].max(blocks[1]).max(world.size);
        let counts: Vec<c_int> = match shape {
            Shape::ReduceScatter => (0..world.size)
                .map(|rank| count(share(size / size_of::<f32>(), world.size, rank)))
                .collect::<Result<_>>()?,
            _ => vec![count(size)?; most],
        };
        let starts: Vec<usize> = (0..most).map(|i| i * size).collect();
        let mut send = Pages::of(1, blocks[0] * size);
        if shape.reduces() {
            let floats = send.chunks_exact_mut(size_of::<f32>());
            floats.for_each(|float| float.copy_from_slice(&1f32.to_ne_bytes()));
        }
        Ok(Self {
            name,
            function,
            waits,
            shape,
            communicator,
            own_communicator: neighbours,
            send,
            recv: Pages::of(0, blocks[1] * size),
            size,
            counts,
            displacements: starts.iter().map(|&at| count(at)).collect::<Result<_>>()?,
            addresses: starts.iter().map(|&at| at as isize).collect(),
            types: vec![BYTE; most],
        })
    }

    /// Calls the function; of one that doesn't wait, returns the request.
    #[inline]
    pub fn start(&mut self) -> Result<Request> {
        let mut request = REQUEST_NULL;
        let send: *mut c_void = self.send.as_mut_ptr().cast();
        let recv: *mut c_void = self.recv.as_mut_ptr().cast();
        let n = self.size as c_int;
        let floats = (self.size / size_of::<f32>()) as c_int;
        let (counts, at) = (self.counts.as_ptr(), self.displacements.as_ptr());
        let (far, types) = (self.addresses.as_ptr(), self.types.as_ptr());
        let (comm, root) = (self.communicator, 0 as c_int);
        let (b, f) = (BYTE, FLOAT);
        let code = match self.shape {
            Shape::Barrier => call!(self, request, comm),
            Shape::Bcast => call!(self, request, send, n, b, root, comm),
            Shape::Exchange => call!(self, request, send, n, b, recv, n, b, comm),
            Shape::Rooted => call!(self, request, send, n, b, recv, n, b, root, comm),
            Shape::Allreduce => call!(self, request, send, recv, floats, f, SUM, comm),
            Shape::Reduce => call!(self, request, send, recv, floats, f, SUM, root, comm),
            Shape::ReduceScatter => call!(self, request, send, recv, counts, f, SUM, comm),
            Shape::Allgatherv => call!(self, request, send, n, b, recv, counts, at, b, comm),
            Shape::Gatherv => call!(self, request, send, n, b, recv, counts, at, b, root, comm),
            Shape::Scatterv => call!(self, request, send, counts, at, b, recv, n, b, root, comm),
            Shape::Alltoallv => {
                call!(
                    self, request, send, counts, at, b, recv, counts, at, b, comm
                )
            }
            Shape::Alltoallw => {
                call!(
                    self, request, send, counts, at, types, recv, counts, at, types, comm
                )
            }
            Shape::NeighborAlltoallw => {
                call!(
                    self, request, send, counts, far, types, recv, counts, far, types, comm
                )
            }
        };
        check(self.name, code)?;
        Ok(request)
    }

    /// Waits for a call of [`Collective::start`].
    #[inline]
    pub fn wait(&mut self, world: &World, mut request: Request) -> Result<()> {
        if self.waits {
            return Ok(());
        }
        // SAFETY: the request of this call, whose buffers are `self`'s.
        unsafe { table::call!(world.table(), wait(&mut request, STATUS_IGNORE)) }
    }

    /// Frees the communicator that was made for it.
    pub fn free(mut self, world: &World) -> Result<()> {
        if !self.own_communicator {
            return Ok(());
        }
        // SAFETY: a communicator of its own, with no pending call.
        unsafe { table::call!(world.table(), comm_free(&mut self.communicator)) }
    }
}

/// Returns how many of `total` items a rank gets; the first ranks get one more.
pub fn share(total: usize, ranks: usize, rank: usize) -> usize {
    total / ranks + usize::from(rank < total % ranks)
}

/// Returns a communicator of all ranks in a ring, in their order.
fn ring(world: &World) -> Result<c_int> {
    let (size, periodic, mut made) = (count(world.size)?, 1, 0);
    // SAFETY: one dimension; one handle is written.
    unsafe {
        table::call!(
            world.table(),
            cart_create(COMM_WORLD, 1, &size, &periodic, 0, &mut made)
        )
    }?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_even_and_whole() {
        let shares = |total, ranks| -> Vec<usize> {
            (0..ranks).map(|rank| share(total, ranks, rank)).collect()
        };
        assert_eq!(shares(7, 3), [3, 2, 2]);
        assert_eq!(shares(1, 3), [1, 0, 0]);
        assert_eq!(shares(0, 2), [0, 0]);
    }
}
