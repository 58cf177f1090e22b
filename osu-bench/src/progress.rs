//! How far a command has come that takes a while: a bar on standard error, if that is a terminal.
//!
//! It is drawn between runs only, by the thread that starts them: nothing of it runs while something is measured.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar that is shown, if one is.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

const FORM: &str = "{bar:24} {pos} of {len}, {elapsed}, about {eta} left: {wide_msg}";
/// Of what it can't be said how long it takes before the first step is done.
const FIRST: &str = "{bar:24} {pos} of {len}: {wide_msg}";

/// A bar. It is removed when this is dropped.
pub struct Progress {
    bar: ProgressBar,
    /// Steps that were begun.
    begun: u64,
}

impl Progress {
    /// Shows a bar of so many steps, which take about the same time each.
    pub fn new(steps: usize) -> Progress {
        // Removed or drawn when asked to, not at a rate that a terminal could keep up with: there are few steps.
        let target = ProgressDrawTarget::stderr_with_hz(255);
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        bar.set_style(style(FIRST));
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = Some(bar.clone());
        Progress { bar, begun: 0 }
    }

    /// Another step begins, and those before it are done; `what` says which one.
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

/// Prints something: on a terminal the bar makes room for it.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}
