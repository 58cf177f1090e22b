//! Progress for windows that messages serve while the program computes: by a thread that the owner
//! of the process lends, one per process.

use std::time::{Duration, Instant};

use crate::messages::serve;
use crate::window::registry::Windows;
use mpi_core::process::Process;

/// Between two looks that found nothing, for so long after one that found something …
const ALERT: Duration = Duration::from_millis(5);
const SHORT: Duration = Duration::from_micros(20);
/// … and later.
const LONG: Duration = Duration::from_micros(200);

/// Serves this process's windows to others until [`end_serving`]. Sleeps while there
/// are none that need it. The process must have been made for several threads.
pub fn keep_serving(process: &Process) {
    let mut last = Instant::now();
    while process.source::<Windows>().signal.wait() {
        match serve_once(process) {
            Ok(true) => {
                last = Instant::now();
                // The program's own threads may want the lock.
                std::thread::yield_now();
            }
            Ok(false) if last.elapsed() < ALERT => std::thread::sleep(SHORT),
            Ok(false) => std::thread::sleep(LONG),
            // A process is lost: the program's threads find out too, and can tell whom.
            Err(_) => return,
        }
    }
}

/// Has [`keep_serving`] return.
pub fn end_serving(process: &Process) {
    process.source::<Windows>().signal.state.lock().to_end = true;
    process.source::<Windows>().signal.call.notify_all();
}

/// One round of progress on the VCIs of windows. (Not of collectives: they may call functions of
/// the program's.)
fn serve_once(process: &Process) -> mpi_core::Result<bool> {
    let mut any = false;
    let windows = process.source::<Windows>();
    for vci in windows.vcis() {
        any |= process.progress_on(vci)? | serve::advance_services(windows, process, vci)?;
    }
    Ok(any)
}
