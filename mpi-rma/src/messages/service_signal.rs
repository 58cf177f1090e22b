//! Where the thread that serves windows waits for one to serve.

use parking_lot::{Condvar, Mutex};

/// Where the thread sleeps while this process exposes nothing by messages.
#[derive(Default)]
pub(crate) struct ServiceSignal {
    pub(crate) state: Mutex<SignalState>,
    pub(crate) call: Condvar,
}

#[derive(Default)]
pub(crate) struct SignalState {
    /// Windows that are served by messages.
    pub(crate) windows: usize,
    pub(crate) to_end: bool,
}

impl ServiceSignal {
    /// There is a window to serve.
    pub fn window_added(&self) {
        self.state.lock().windows += 1;
        self.call.notify_all();
    }

    /// A window is gone.
    pub fn window_removed(&self) {
        self.state.lock().windows -= 1;
    }

    /// Sleeps until there is; `false` if the thread is to end.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.windows == 0 && !state.to_end {
            self.call.wait(&mut state);
        }
        !state.to_end
    }
}
