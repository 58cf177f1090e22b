//! What ranks tell of themselves, by files that they keep up to date (`weft-profile/src/board.rs` has their layout).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// As in `weft-profile`.
const MAGIC: u64 = 0x3150_4f54_5446_4557;
const NAMES: usize = 256;

/// A rank, as it was when it was looked at last.
pub struct Rank {
    /// The function it is in, and for how many nanoseconds; none: it computes.
    pub doing: Option<(String, u64)>,
    /// The other rank of the call, if it names one; -2 stands for any.
    pub peer: Option<i32>,
    /// The tag, likewise; -1 stands for any.
    pub tag: Option<i32>,
    /// The communicator's name.
    pub comm: String,
    /// Its part of the time in MPI since the last look, in percent.
    pub share: f64,
    /// Calls so far.
    pub calls: u64,
    /// Bytes that calls have said they move.
    pub bytes: u64,
    /// Whether the process is there no more.
    pub gone: bool,
    seen: (u64, u64),
}

/// All ranks of this machine.
#[derive(Default)]
pub struct Board {
    /// By number.
    pub ranks: BTreeMap<u32, Rank>,
    /// How many the job has.
    pub size: u32,
}

fn now() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place can be written to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Board {
    /// Looks at all files.
    pub fn look(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Some((number, size, rank)) = self.read(&entry.path()) {
                self.size = self.size.max(size);
                self.ranks.insert(number, rank);
            }
        }
    }

    fn read(&self, path: &Path) -> Option<(u32, u32, Rank)> {
        let file = File::open(path).ok()?;
        let mut head = [0; NAMES];
        file.read_exact_at(&mut head, 0).ok()?;
        let word = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let half = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap_or_default());
        if word(0) != MAGIC {
            return None;
        }
        let (number, size, pid) = (half(8), half(12), half(16));
        let (function, peer, tag) = (half(20), half(24).cast_signed(), half(28).cast_signed());
        let (since, inside, calls, bytes) = (word(32), word(40), word(48), word(56));
        let comm = head[64..128]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default();
        let now = now();
        let current = if function == 0 {
            0
        } else {
            now.saturating_sub(since)
        };
        let seen = (now, inside + current);
        let share = match self.ranks.get(&number) {
            Some(before) if now > before.seen.0 => {
                let spent = seen.1.saturating_sub(before.seen.1) as f64;
                (100.0 * spent / (now - before.seen.0) as f64).min(100.0)
            }
            _ => 0.0,
        };
        const NOTHING: i32 = i32::MIN;
        let rank = Rank {
            doing: (function != 0).then(|| (name(&file, function - 1), current)),
            peer: Some(peer).filter(|peer| *peer != NOTHING),
            tag: Some(tag).filter(|tag| *tag != NOTHING),
            comm: String::from_utf8_lossy(comm).into_owned(),
            share,
            calls,
            bytes,
            gone: !Path::new(&format!("/proc/{pid}")).exists(),
            seen,
        };
        Some((number, size, rank))
    }
}

/// The name of a function.
fn name(file: &File, index: u32) -> String {
    let mut names = vec![0; 1 << 16];
    let read = file.read_at(&mut names, NAMES as u64).unwrap_or(0);
    let text = String::from_utf8_lossy(&names[..read]);
    text.split('\n')
        .nth(index as usize)
        .unwrap_or("?")
        .to_owned()
}
