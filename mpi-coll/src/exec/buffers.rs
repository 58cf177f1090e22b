//! What a collective is given: its buffers and its communicator.

use std::sync::Arc;

use mpi_core::comm::Comm;
use mpi_core::pt2pt::request::RequestId;

/// A collective's message: none if its send was complete at once.
pub(crate) type Message = Option<RequestId>;

/// Where a collective's data is.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// The send buffer, if the schedule uses one.
    pub send: *const u8,
    /// The receive buffer, if the schedule uses one.
    pub recv: *mut u8,
}

impl Buffers {
    /// For schedules without data.
    pub const NONE: Buffers = Buffers {
        send: std::ptr::null(),
        recv: std::ptr::null_mut(),
    };
}

/// Something that keeps a communicator alive.
pub type Holder = Arc<dyn AsRef<Comm> + Send + Sync>;
