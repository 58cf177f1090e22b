//! `WEFT_HANG`: a process in which nothing happens says so to Weft's launcher, again and again. When all processes of
//! the job do, the launcher has them report what they wait for.

use std::sync::Arc;
use std::time::Duration;

use mpi_core::process::Watch;
use parking_lot::Mutex;
use pmi::Client;

/// How often to say it; the launcher's patience (`tools/mpiexec/src/standstill.rs`) is a few times as long.
const EVERY: Duration = Duration::from_millis(500);

/// Tells the launcher.
pub struct Teller {
    launcher: Arc<Client>,
    /// For how long nothing must have happened.
    patience: Duration,
    /// When to tell it next, counted from when something last happened.
    due: Mutex<Duration>,
}

impl Teller {
    /// One that begins to tell it after so many seconds.
    pub fn new(launcher: Arc<Client>, seconds: u64) -> Teller {
        Teller {
            launcher,
            patience: Duration::from_secs(seconds),
            due: Mutex::default(),
        }
    }
}

impl Watch for Teller {
    fn moved(&self) {
        *self.due.lock() = self.patience;
    }

    fn still(&self, time: Duration) -> bool {
        {
            let mut due = self.due.lock();
            if time < *due {
                return false;
            }
            *due = time + EVERY;
        }
        // Whoever can't be told learns of no hang.
        let told = || self.launcher.stands_still(self.patience.as_secs());
        !others_run() && told().unwrap_or(false)
    }
}

/// Whether another thread of this process computes, or reads or writes files. Those that wait sleep nearly all of
/// the time.
fn others_run() -> bool {
    // SAFETY: the call has no preconditions.
    let me = unsafe { libc::gettid() }.to_string();
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    threads.flatten().any(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before the state is in parentheses, and may hold some.
        let state = state.rsplit_once(") ").map_or("", |(_, rest)| rest);
        thread.file_name() != *me && state.starts_with(['R', 'D'])
    })
}
