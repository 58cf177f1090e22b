//! A partitioned send or receive of bytes.

use std::ffi::c_int;

use super::constants::{BYTE, INFO_NULL, STATUS_IGNORE};
use super::table::{Request, Table, call};
use super::world::{World, count};
use crate::error::Result;

/// One side of a partitioned message, with its memory.
pub struct Partitioned {
    table: &'static Table,
    request: Request,
    memory: Vec<u8>,
}

impl Partitioned {
    /// Creates a message of `partitions` of `each` bytes to (`sends`) or from a peer.
    pub fn new(
        world: &World,
        sends: bool,
        partitions: usize,
        each: usize,
        peer: usize,
    ) -> Result<Self> {
        let table = world.table();
        let mut memory = vec![1u8; partitions * each];
        let (n, each, data) = (count(partitions)?, each as i64, memory.as_mut_ptr().cast());
        let (peer, comm, info, mut request) = (peer as c_int, world.handle(), INFO_NULL, 0);
        // SAFETY: the memory is that of `self`, which completes what it starts; one handle is
        // written.
        unsafe {
            match sends {
                true => call!(
                    table,
                    psend_init(data, n, each, BYTE, peer, 3, comm, info, &mut request)
                ),
                false => call!(
                    table,
                    precv_init(data, n, each, BYTE, peer, 3, comm, info, &mut request)
                ),
            }
        }?;
        Ok(Self {
            table,
            request,
            memory,
        })
    }

    /// `MPI_Start`.
    pub fn start(&self) -> Result<()> {
        let mut request = self.request;
        // SAFETY: an inactive request of this message.
        unsafe { call!(self.table, start(&mut request)) }
    }

    /// `MPI_Pready`.
    pub fn ready(&self, partition: usize) -> Result<()> {
        // SAFETY: an active request of this message.
        unsafe { call!(self.table, pready(partition as c_int, self.request)) }
    }

    /// `MPI_Wait`.
    pub fn wait(&self) -> Result<()> {
        let mut request = self.request;
        // SAFETY: an active request of this message, which stays.
        unsafe { call!(self.table, wait(&mut request, STATUS_IGNORE)) }
    }

    /// Frees the request and returns the memory.
    pub fn free(mut self) -> Result<Vec<u8>> {
        // SAFETY: an inactive request of this message, not used again.
        unsafe { call!(self.table, request_free(&mut self.request)) }?;
        Ok(self.memory)
    }
}
