//! Arguments of a collective's execution: its buffers and its communicator.

use std::sync::Arc;

use mpi_core::comm::Comm;
use mpi_core::pt2pt::request::RequestId;

/// A collective's message; `None` if its send was complete at once.
pub(crate) type Message = Option<RequestId>;

/// The addresses of a collective's data.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// The send buffer, if the schedule uses one.
    pub send: *const u8,
    /// The receive buffer, if the schedule uses one.
    pub recv: *mut u8,
}

impl Buffers {
    /// No buffers, for schedules without data.
    pub const NONE: Buffers = Buffers {
        send: std::ptr::null(),
        recv: std::ptr::null_mut(),
    };
}

/// Keeps a communicator alive.
pub type Holder = Arc<dyn AsRef<Comm> + Send + Sync>;
