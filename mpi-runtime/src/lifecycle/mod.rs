//! Start and end of MPI in a process, and the end of the job by an error.

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
