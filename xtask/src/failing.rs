//! Collects the names of failed tests, and ThreadSanitizer's summaries, from their output, for the error
//! at the end of a run.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Wait for more names: a process that a test left behind may keep the output open.
const PATIENCE: Duration = Duration::from_secs(5);

/// Begins the line in which ThreadSanitizer locates a race.
pub const SUMMARY: &str = "SUMMARY: ThreadSanitizer";

/// Shown characters of a summary, which may have long mangled names.
const SUMMARY_LENGTH: usize = 240;

/// Returns the first characters of a summary.
pub fn shortened(summary: &str) -> String {
    summary.chars().take(SUMMARY_LENGTH).collect()
}

/// Parser of the lists of failures that Rust's tests print at their end, and of summaries.
#[derive(Default)]
pub struct Failing {
    is_list: bool,
    names: Vec<String>,
}

impl Failing {
    /// Parses a line of the output.
    fn line(&mut self, line: &str) {
        if line.starts_with(SUMMARY) {
            let summary = shortened(line);
            if !self.names.contains(&summary) {
                self.names.push(summary);
            }
        } else if line == "failures:" {
            self.is_list = true;
        } else if let (true, Some(name)) = (self.is_list, line.strip_prefix("    ")) {
            self.names.push(name.to_owned());
        } else if !line.is_empty() {
            self.is_list = false;
        }
    }

    /// Returns the names in a whole output.
    pub fn of(output: &str) -> Vec<String> {
        let mut failing = Failing::default();
        output.lines().for_each(|line| failing.line(line));
        failing.names
    }
}

/// A process's output that is shown as it arrives.
pub struct Shown(Receiver<String>);

impl Shown {
    /// Starts to copy `output` to `to`.
    pub fn begin(output: impl Read + Send + 'static, mut to: impl Write + Send + 'static) -> Shown {
        let (send, receive) = channel();
        thread::spawn(move || {
            let mut failing = Failing::default();
            let mut lines = BufReader::new(output);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                // If `to` is closed, names are still collected.
                let _ = to.write_all(&line);
                failing.line(String::from_utf8_lossy(&line).trim_end());
                for name in failing.names.drain(..) {
                    let _ = send.send(name);
                }
                line.clear();
            }
        });
        Shown(receive)
    }

    /// Returns the names of the failed tests. The command must have ended.
    pub fn failing(self) -> Vec<String> {
        let mut names = Vec::new();
        while let Ok(name) = self.0.recv_timeout(PATIENCE) {
            names.push(name);
        }
        names
    }
}

/// Formats the names for the end of an error text.
pub fn said(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; failing: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\ntest d ... \n\
        panicked\nFAILED\n\nfailures:\n\n---- b::c stdout ----\n    not a name\n\nfailures:\n    b::c\n    \
        d\n\ntest result: FAILED. 1 passed; 2 failed\n    Running another\n\nfailures:\n    e\n";

    #[test]
    fn the_lists_at_the_end_have_the_names() {
        assert_eq!(Failing::of(OUTPUT), ["b::c", "d", "e"]);
        assert_eq!(Failing::of("test result: ok\n    Finished"), [""; 0]);
        assert_eq!(said(&Failing::of(OUTPUT)), "; failing: b::c, d, e");
        assert_eq!(said(&[]), "");
    }

    #[test]
    fn summaries_are_quoted_once() {
        let line = "SUMMARY: ThreadSanitizer: data race src/lane.rs:7 in lane::poll";
        let output = format!("WARNING: …\n{line}\n==1==\n{line}\nSUMMARY: something\n");
        assert_eq!(said(&Failing::of(&output)), format!("; failing: {line}"));
        assert_eq!(shortened(&"é".repeat(300)).chars().count(), 240);
    }

    #[test]
    fn what_is_shown_is_read() {
        let shown = Shown::begin(OUTPUT.as_bytes(), std::io::sink());
        assert_eq!(shown.failing(), ["b::c", "d", "e"]);
    }
}
