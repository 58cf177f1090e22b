//! What any launcher offers, whatever the protocol.

use std::fmt::Debug;

use crate::{Limits, PmiError, ProcessSet, Spawn};

/// One way of talking to a launcher. Keys, values and names have been checked and made words by
/// [`crate::Client`] before they come here.
pub(crate) trait Link: Debug + Send + Sync {
    /// The protocol and how it was found, for people.
    fn describe(&self) -> String;
    /// The name of the key-value space.
    fn space(&self) -> &str;
    /// How long names, keys and values may be.
    fn limits(&self) -> Limits {
        Limits::default()
    }
    /// Stores a value under this process's name.
    fn put(&self, key: &str, value: &str) -> Result<(), PmiError>;
    /// The value that rank `from` stored before the last fence.
    fn get(&self, from: u32, key: &str) -> Result<Option<String>, PmiError>;
    /// Waits for all processes of the job.
    fn fence(&self) -> Result<(), PmiError>;
    /// Publishes a port.
    fn publish(&self, service: &str, port: &str) -> Result<(), PmiError>;
    /// Withdraws a port.
    fn unpublish(&self, service: &str) -> Result<(), PmiError>;
    /// Looks up a port.
    fn lookup(&self, service: &str) -> Result<Option<String>, PmiError>;
    /// Starts processes as a job of their own.
    fn spawn(&self, _spawn: &Spawn) -> Result<(), PmiError> {
        Err(PmiError::Refused {
            command: "spawn",
            reason: format!(
                "Weft can't ask this launcher ({}) to start processes; use Weft's or Hydra's mpiexec",
                self.describe()
            ),
        })
    }
    /// A value that [`Spawn::preput`] has for this job, if it was spawned.
    fn preput(&self, key: &str) -> Result<Option<String>, PmiError> {
        self.get(0, key)
    }
    /// Tells the launcher that nothing happens here. Returns whether it wants a report.
    fn stands_still(&self, _seconds: u64) -> Result<bool, PmiError> {
        Ok(false)
    }
    /// Asks why a spawned job has ended, by its [`crate::server::SPAWN_NUMBER`]. `None`: it has not, or the launcher
    /// can't say.
    fn spawn_end(&self, _number: &str) -> Result<Option<String>, PmiError> {
        Ok(None)
    }
    /// Asks for the end of the job; doesn't wait for other threads' exchanges.
    fn abort(&self, code: i32, message: &str) -> Result<(), PmiError>;
    /// Asks the launcher to end some ranks, a list of [`crate::ranks`]. A launcher that can't do this ends the job.
    fn abort_some(&self, code: i32, _ranks: &str) -> Result<(), PmiError> {
        self.abort(code, "")
    }
    /// Whether a rank was ended by [`Link::abort_some`], as far as the launcher says.
    fn is_aborted(&self, _rank: u32) -> Result<bool, PmiError> {
        Ok(false)
    }
    /// Takes leave.
    fn finalize(&self) -> Result<(), PmiError>;
    /// `MPI_APPNUM`.
    fn appnum(&self) -> Result<Option<i32>, PmiError>;
    /// `MPI_UNIVERSE_SIZE`.
    fn universe_size(&self) -> Result<Option<u32>, PmiError>;
    /// The sets of processes that the launcher has names for.
    fn psets(&self) -> Result<Vec<ProcessSet>, PmiError> {
        Ok(Vec::new())
    }
    /// The node of each rank, numbered from 0.
    fn nodes(&self, size: u32) -> Result<Option<Vec<u32>>, PmiError>;
}
