//! What the job prints: kept until the terminal is free.

use std::io::{Read, Write as _};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The most that is kept of each stream; what is older is left out, and said so.
const KEPT: usize = 16 << 20;

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    lost: usize,
}

/// Both streams.
pub struct Output {
    kept: [Arc<Mutex<Kept>>; 2],
    readers: Vec<JoinHandle<()>>,
}

impl Output {
    /// Begins to read them.
    pub fn of(child: &mut Child) -> Output {
        let kept: [Arc<Mutex<Kept>>; 2] = Default::default();
        let mut readers = Vec::new();
        if let Some(out) = child.stdout.take() {
            readers.push(reader(out, kept[0].clone()));
        }
        if let Some(errors) = child.stderr.take() {
            readers.push(reader(errors, kept[1].clone()));
        }
        Output { kept, readers }
    }

    /// The last lines of both, for the screen.
    pub fn last(&self, lines: usize) -> Vec<String> {
        let mut found = Vec::new();
        for kept in &self.kept {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let start = kept.bytes.len().saturating_sub(4096);
            let text = String::from_utf8_lossy(&kept.bytes[start..]);
            let clean = |line: &str| line.chars().filter(|one| !one.is_control()).collect();
            let all: Vec<String> = text.lines().map(clean).collect();
            found.extend(all[all.len().saturating_sub(lines)..].iter().cloned());
        }
        let first = found.len().saturating_sub(lines);
        found.split_off(first)
    }

    /// Prints what is kept, when the job has ended.
    pub fn print(self) {
        for reader in self.readers {
            let _ = reader.join();
        }
        let [out, errors] = self.kept.map(|kept| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *kept)
        });
        for kept in [&out, &errors] {
            if kept.lost > 0 {
                eprintln!(
                    "mpiexec: the first {} bytes of the output are left out",
                    kept.lost
                );
            }
        }
        // Who has closed them does not want it.
        let _ = std::io::stdout().write_all(&out.bytes);
        let _ = std::io::stderr().write_all(&errors.bytes);
    }
}

fn reader(mut from: impl Read + Send + 'static, to: Arc<Mutex<Kept>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(len @ 1..) = from.read(&mut piece) {
            let mut kept = to.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes.extend_from_slice(&piece[..len]);
            if kept.bytes.len() > 2 * KEPT {
                let old = kept.bytes.len() - KEPT;
                kept.bytes.drain(..old);
                kept.lost += old;
            }
        }
    })
}
