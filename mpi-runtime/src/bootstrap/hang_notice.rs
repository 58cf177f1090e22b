//! `WEFT_HANG`: notices to Weft's launcher that this process makes no progress.
//!
//! A waiting process repeats its notice. When all processes of the job have sent one, the launcher
//! asks each to report its pending operations.

use std::sync::Arc;
use std::time::Duration;

use mpi_core::process::Watch;
use parking_lot::Mutex;
use pmi::Client;

/// Period of the notices; the launcher keeps one for several periods
/// (`tools/mpiexec/src/hang_detector.rs`).
const PERIOD: Duration = Duration::from_millis(500);

/// Sends the notices.
pub struct HangNotices {
    launcher: Arc<Client>,
    /// Time without progress before the first notice.
    patience: Duration,
    /// When the next notice is due, counted from the last progress.
    due: Mutex<Duration>,
}

impl HangNotices {
    /// Creates a reporter that sends its first notice after `seconds` without progress.
    pub fn new(launcher: Arc<Client>, seconds: u64) -> HangNotices {
        HangNotices {
            launcher,
            patience: Duration::from_secs(seconds),
            due: Mutex::default(),
        }
    }
}

impl Watch for HangNotices {
    fn on_progress(&self) {
        *self.due.lock() = self.patience;
    }

    fn on_stall(&self, time: Duration) -> bool {
        {
            let mut due = self.due.lock();
            if time < *due {
                return false;
            }
            *due = time + PERIOD;
        }
        // Without a launcher that takes notices there is no report.
        let sent = || self.launcher.stands_still(self.patience.as_secs());
        !others_run() && sent().unwrap_or(false)
    }
}

/// Returns whether another thread of this process computes, or reads or writes files. Waiting
/// threads are asleep nearly all of the time.
fn others_run() -> bool {
    let me = rustix::thread::gettid().to_string();
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    threads.flatten().any(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The thread's name precedes the state, in parentheses, and may contain parentheses itself.
        let state = state.rsplit_once(") ").map_or("", |(_, rest)| rest);
        thread.file_name() != *me && state.starts_with(['R', 'D'])
    })
}
