//! A progress bar on standard error, if that is a terminal.
//!
//! The thread that starts runs draws the bar between them, so nothing of it runs during a
//! measurement.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The visible bar, if there is one.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

const FORM: &str = "{bar:24} {pos} of {len}, {elapsed}, about {eta} left: {wide_msg}";
/// The estimate before the first step is done.
const FIRST: &str = "{bar:24} {pos} of {len}: {wide_msg}";

/// A progress bar, which disappears when this is dropped.
pub struct Progress {
    bar: ProgressBar,
    /// Number of started steps.
    begun: u64,
}

impl Progress {
    /// Shows a bar of steps that take about the same time each.
    pub fn new(steps: usize) -> Progress {
        // Without a limit of the rate of drawing, since steps are few.
        let target = ProgressDrawTarget::stderr_with_hz(255);
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        bar.set_style(style(FIRST));
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = Some(bar.clone());
        Progress { bar, begun: 0 }
    }

    /// Starts the next step, named `what`; those before it are done.
    pub fn step(&mut self, what: impl Into<String>) {
        if self.begun == 1 {
            self.bar.set_style(style(FORM));
        }
        self.bar.set_position(self.begun);
        self.begun += 1;
        self.bar.set_message(what.into());
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = None;
        self.bar.finish_and_clear();
    }
}

fn style(form: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(form);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("#>-")
}

/// Prints a line above the bar.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}
