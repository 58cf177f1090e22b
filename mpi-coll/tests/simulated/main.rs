//! Many processes in one, over the simulated transport: collectives. (Messages are tested in
//! `mpi-core`, whose job this uses; it says how to run a seed again.)

mod collectives;
mod disagree;
#[path = "../../../mpi-core/tests/simulated/job.rs"]
mod job;
