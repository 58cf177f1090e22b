//! Point-to-point communication (chapter 3).

pub mod buffered;
pub(crate) mod check;
pub mod isendrecv;
pub mod probe;
pub mod recv;
pub mod send;
pub mod sendrecv;
pub mod status;
