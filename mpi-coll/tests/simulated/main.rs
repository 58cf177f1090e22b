//! Many processes in one, over the simulated transport: collectives. Messages are tested in `mpi-core`, which has
//! the job, too, and says how a seed is tried again.

mod collectives;
mod disagree;
#[path = "../../../mpi-core/tests/simulated/job.rs"]
mod job;
