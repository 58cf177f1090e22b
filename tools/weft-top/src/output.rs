//! The job's output, kept in files until the view is closed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Most bytes of both streams that are kept for the view.
const SHOWN: usize = 16 << 10;

/// A captured stream.
struct Kept {
    file: File,
    /// Whether bytes are forwarded at once.
    through: bool,
    to: Box<dyn Write + Send>,
}

/// The streams of the job that would go to the terminal.
pub struct Output {
    kept: Vec<Arc<Mutex<Kept>>>,
    readers: Vec<JoinHandle<()>>,
    last: Arc<Mutex<VecDeque<u8>>>,
}

impl Output {
    /// Starts a reader per stream that is a pipe.
    pub fn of(child: &mut Child) -> io::Result<Output> {
        let mut output = Output {
            kept: Vec::new(),
            readers: Vec::new(),
            last: Arc::default(),
        };
        if let Some(out) = child.stdout.take() {
            output.read(out, Box::new(io::stdout()))?;
        }
        if let Some(errors) = child.stderr.take() {
            output.read(errors, Box::new(io::stderr()))?;
        }
        Ok(output)
    }

    fn read(
        &mut self,
        mut from: impl Read + Send + 'static,
        to: Box<dyn Write + Send>,
    ) -> io::Result<()> {
        let kept = Arc::new(Mutex::new(Kept {
            file: tempfile::tempfile()?,
            through: false,
            to,
        }));
        let (of_thread, last) = (kept.clone(), self.last.clone());
        self.readers.push(std::thread::spawn(move || {
            let mut piece = [0; 8192];
            loop {
                match from.read(&mut piece) {
                    Ok(0) => return,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                    Ok(len) => {
                        locked(&of_thread).take(&piece[..len]);
                        let mut last = locked(&last);
                        last.extend(&piece[..len]);
                        let more = last.len().saturating_sub(SHOWN);
                        last.drain(..more);
                    }
                }
            }
        }));
        self.kept.push(kept);
        Ok(())
    }

    /// Returns the last lines for the view.
    pub fn last(&self, lines: usize) -> Vec<String> {
        let bytes: Vec<u8> = locked(&self.last).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let clean = |line: &str| {
            let line = line.replace('\t', "    ");
            line.chars().filter(|one| !one.is_control()).collect()
        };
        let all: Vec<String> = text.lines().map(clean).collect();
        all[all.len().saturating_sub(lines)..].to_vec()
    }

    /// Prints what was kept, and forwards further bytes at once.
    pub fn let_through(&self) {
        for kept in &self.kept {
            locked(kept).let_through();
        }
    }

    /// Prints everything, up to the end of the streams.
    pub fn finish(self) {
        self.let_through();
        for reader in self.readers {
            let _ = reader.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn take(&mut self, bytes: &[u8]) {
        // If the disk is full, output in the view is better than no output.
        if self.through || self.file.write_all(bytes).is_err() {
            // Errors mean that the reader has closed the stream.
            let _ = self.to.write_all(bytes).and_then(|()| self.to.flush());
        }
    }

    fn let_through(&mut self) {
        if std::mem::replace(&mut self.through, true) {
            return;
        }
        let _ = self.file.rewind();
        let _ = io::copy(&mut self.file, &mut self.to);
        let _ = self.to.flush();
    }
}
