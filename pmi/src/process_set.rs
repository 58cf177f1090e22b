//! Sets of processes that launchers have names for.

/// A set of processes of the job that the launcher has a name for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSet {
    /// The name.
    pub name: String,
    /// Its processes, by rank.
    pub ranks: Vec<u32>,
}
