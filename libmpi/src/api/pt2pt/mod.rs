//! Point-to-point communication (chapter 3).

pub mod buffers;
pub mod grequest;
pub mod partitioned;
pub mod persistent;
pub mod request;
pub mod request_some;
pub mod request_status;
pub mod status_fields;

pub mod buffered;
pub(crate) mod check;
pub mod isendrecv;
pub mod probe;
pub mod recv;
pub mod send;
pub mod sendrecv;
pub mod status;
