//! The facts of a call that selections of algorithms depend on.

/// What all ranks of a call know.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Ranks in the communicator.
    pub ranks: usize,
    /// The most ranks on one node.
    pub per_node: usize,
    /// Bytes of data: of a broadcast or reduction the vector, of an allgather all that a rank
    /// receives, of a reduce-scatter all that a rank gives, of a gather, scatter or alltoall one
    /// block; of a `v` or `w` form that not all ranks know, 0.
    pub bytes: usize,
    /// Whether the operation commutes.
    pub commutes: bool,
}
