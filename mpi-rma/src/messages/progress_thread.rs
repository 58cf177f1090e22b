//! Progress of windows served by messages while the program computes, by one thread per process.

use std::time::{Duration, Instant};

use crate::messages::serve;
use crate::window::registry::Windows;
use mpi_core::process::Process;

/// Time after a fruitful round during which pauses are [`SHORT`].
const ALERT: Duration = Duration::from_millis(5);
/// Pause after a fruitless round within [`ALERT`].
const SHORT: Duration = Duration::from_micros(20);
/// Pause after a fruitless round later.
const LONG: Duration = Duration::from_micros(200);

/// Serves this process's windows until [`end_serving`]. Sleeps while no window needs it. The process
/// must support several threads.
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
            // A process is lost. The program's threads get the error too, and can report it.
            Err(_) => return,
        }
    }
}

/// Makes [`keep_serving`] return.
pub fn end_serving(process: &Process) {
    process.source::<Windows>().signal.state.lock().to_end = true;
    process.source::<Windows>().signal.call.notify_all();
}

/// Runs one round of progress on the VCIs of windows. Does not advance collectives, which may call
/// the program's reduction functions.
fn serve_once(process: &Process) -> mpi_core::Result<bool> {
    let mut any = false;
    let windows = process.source::<Windows>();
    for vci in windows.vcis() {
        any |= process.progress_on(vci)? | serve::advance_services(windows, process, vci)?;
    }
    Ok(any)
}
