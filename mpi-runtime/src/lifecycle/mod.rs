//! The process between `MPI_Init` and `MPI_Finalize`: bringing MPI up and down, and the end of the job by an error.
//!
//! One `runtime` serves the world model and all sessions. The first that opens makes it; it rests
//! when none is open and can be woken, because opening a session is local: the addresses of new
//! transports could not be told to others. Transports are closed when the process ends, before
//! their libraries clean up; after a loss, in `MPI_Finalize`.

mod failures;
pub mod fatal;
pub mod identity;
pub mod init;
pub mod library;
pub mod progress_thread;
pub mod psets;
pub mod runtime;
pub mod thread_level;
pub mod wait_report;
