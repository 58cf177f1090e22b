//! The operations of a launcher, independent of the protocol.

use std::fmt::Debug;

use crate::{Limits, PmiError, ProcessSet, Spawn};

/// A protocol with a launcher. [`crate::Client`] has checked and encoded keys, values and names.
pub(crate) trait Link: Debug + Send + Sync {
    /// Describes the protocol and how it was found.
    fn describe(&self) -> String;
    /// Returns the name of the key-value space.
    fn space(&self) -> &str;
    /// Returns the longest names, keys and values.
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
                "this launcher ({}) cannot start processes for Weft; use Weft's or Hydra's mpiexec",
                self.describe()
            ),
        })
    }
    /// Returns a value of [`Spawn::preput`] for this job, if it was spawned.
    fn preput(&self, key: &str) -> Result<Option<String>, PmiError> {
        self.get(0, key)
    }
    /// Reports a standstill to the launcher. Returns whether it wants a report.
    fn stands_still(&self, _seconds: u64) -> Result<bool, PmiError> {
        Ok(false)
    }
    /// Asks why a spawned job has ended, by its [`crate::server::SPAWN_NUMBER`]. Returns `None` if it
    /// has not ended, or the launcher does not know.
    fn spawn_end(&self, _number: &str) -> Result<Option<String>, PmiError> {
        Ok(None)
    }
    /// Requests the end of the job, without waiting for other threads' exchanges.
    fn abort(&self, code: i32, message: &str) -> Result<(), PmiError>;
    /// Requests the end of some ranks, a list of [`crate::ranks`]. A launcher that does not support
    /// this ends the job.
    fn abort_some(&self, code: i32, _ranks: &str) -> Result<(), PmiError> {
        self.abort(code, "")
    }
    /// Returns whether a rank was ended by [`Link::abort_some`], as far as the launcher says.
    fn is_aborted(&self, _rank: u32) -> Result<bool, PmiError> {
        Ok(false)
    }
    /// Takes leave of the launcher.
    fn finalize(&self) -> Result<(), PmiError>;
    /// `MPI_APPNUM`.
    fn appnum(&self) -> Result<Option<i32>, PmiError>;
    /// `MPI_UNIVERSE_SIZE`.
    fn universe_size(&self) -> Result<Option<u32>, PmiError>;
    /// Lists the process sets that the launcher names.
    fn psets(&self) -> Result<Vec<ProcessSet>, PmiError> {
        Ok(Vec::new())
    }
    /// Returns the node of each rank, numbered from 0.
    fn nodes(&self, size: u32) -> Result<Option<Vec<u32>>, PmiError>;
}
