//! What the job prints: kept in files until the terminal is free, its last lines for the screen.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes of both streams that are there for the screen.
const SHOWN: usize = 16 << 10;

/// A stream.
struct Kept {
    file: File,
    /// Whether it goes on as it comes.
    through: bool,
    to: Box<dyn Write + Send>,
}

/// Those streams of the job that end at our terminal.
pub struct Output {
    kept: Vec<Arc<Mutex<Kept>>>,
    readers: Vec<JoinHandle<()>>,
    last: Arc<Mutex<VecDeque<u8>>>,
}

impl Output {
    /// Begins to read those that are pipes.
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

    /// The last lines, for the screen.
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

    /// The terminal is free: what was kept is printed, and what comes goes on at once.
    pub fn let_through(&self) {
        for kept in &self.kept {
            locked(kept).let_through();
        }
    }

    /// All of it, when the job has ended.
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
        // A full disk: what can't be kept is better in the picture than nowhere.
        if self.through || self.file.write_all(bytes).is_err() {
            // Who has closed the stream does not want it.
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
