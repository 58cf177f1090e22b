//! Start and end of MPI in a process, and the end of the job by an error.
//!
//! One `runtime` serves the world model and all sessions. The first that opens makes it. When none
//! is open it is suspended, and the next one resumes it, because opening a session is local: the
//! addresses of new transports could not be published. Transports are closed when the process ends,
//! before their libraries clean up; after a loss, in `MPI_Finalize`.

pub mod crash_report;
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
