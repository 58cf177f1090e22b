//! Jobs of many processes in one operating-system process, over the simulated transport.
//!
//! Random tests print their seed when they fail. `WEFT_TEST_SEED` reruns one seed, `WEFT_TEST_RUNS`
//! multiplies the number of seeds tried.

mod exact;
mod forged;
mod job;
mod loss;
mod memory;
mod model;
mod partitioned;
mod program;
mod protocol;
mod random;
