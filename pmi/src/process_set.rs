//! Process sets named by launchers.

/// A set of processes of the job, named by the launcher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSet {
    /// The name.
    pub name: String,
    /// Its processes, by rank.
    pub ranks: Vec<u32>,
}
