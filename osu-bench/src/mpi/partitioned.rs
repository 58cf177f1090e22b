//! A partitioned send or receive of bytes.

use std::ffi::c_int;

use super::constants::{BYTE, INFO_NULL, STATUS_IGNORE};
use super::entry::Request;
use super::table::Table;
use super::world::{World, check, count};
use crate::error::Result;

/// One side of a partitioned message, with its memory.
pub struct Partitioned {
    table: &'static Table,
    request: Request,
    memory: Vec<u8>,
}

impl Partitioned {
    /// `partitions` of `each` bytes to (`sends`) or from a peer.
    pub fn new(
        world: &World,
        sends: bool,
        partitions: usize,
        each: usize,
        peer: usize,
    ) -> Result<Self> {
        let table = world.table();
        let mut memory = vec![1u8; partitions * each];
        let mut request = 0;
        let (n, each) = (count(partitions)?, each as i64);
        let (peer, comm) = (peer as c_int, world.handle());
        // SAFETY: the memory is that of `self`, which completes what it starts; one handle is written.
        unsafe {
            let data = memory.as_mut_ptr().cast();
            if sends {
                let init = table.psend_init.get()?;
                let code = init(data, n, each, BYTE, peer, 3, comm, INFO_NULL, &mut request);
                check("MPI_Psend_init", code)?;
            } else {
                let init = table.precv_init.get()?;
                let code = init(data, n, each, BYTE, peer, 3, comm, INFO_NULL, &mut request);
                check("MPI_Precv_init", code)?;
            }
        }
        Ok(Self {
            table,
            request,
            memory,
        })
    }

    /// `MPI_Start`.
    pub fn start(&self) -> Result<()> {
        let (start, mut request) = (self.table.start.get()?, self.request);
        // SAFETY: an inactive request of ours.
        check("MPI_Start", unsafe { start(&mut request) })
    }

    /// `MPI_Pready`.
    pub fn ready(&self, partition: usize) -> Result<()> {
        let ready = self.table.pready.get()?;
        // SAFETY: an active request of ours.
        check("MPI_Pready", unsafe {
            ready(partition as c_int, self.request)
        })
    }

    /// `MPI_Wait`.
    pub fn wait(&self) -> Result<()> {
        let (wait, mut request) = (self.table.wait.get()?, self.request);
        // SAFETY: an active request of ours, which stays.
        check("MPI_Wait", unsafe { wait(&mut request, STATUS_IGNORE) })
    }

    /// `MPI_Request_free`, and the memory.
    pub fn free(mut self) -> Result<Vec<u8>> {
        let free = self.table.request_free.get()?;
        // SAFETY: an inactive request of ours, not used again.
        check("MPI_Request_free", unsafe { free(&mut self.request) })?;
        Ok(self.memory)
    }
}
