//! The program that `io` starts: one file, read and written by all ranks in one pattern after the
//! other, by MPI or by plain calls of the system.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum as _};

use super::Pattern;
use super::plain::{Manner, Plain, Pointer};
use crate::error::{Error, Result};
use crate::library::cores;
use crate::mpi::{Access, Combine, SharedFile, Table, World};
use crate::output;

/// Options of the program.
#[derive(Args, Debug)]
pub struct RankOptions {
    /// The file; it is made anew for each pattern, and deleted.
    #[arg(long)]
    file: PathBuf,
    /// Bytes of a rank.
    #[arg(long)]
    bytes: usize,
    /// Runs of each pattern; the best counts.
    #[arg(long)]
    repeats: u32,
    /// The patterns.
    #[arg(long, value_enum, value_delimiter = ',')]
    patterns: Vec<Pattern>,
    /// By plain calls of the system in place of MPI's.
    #[arg(long)]
    plain: bool,
}

/// A call of a contiguous pattern.
const TRANSFER: usize = 1 << 20;
/// A collective call of pieces.
const TOGETHER: usize = 4 << 20;
/// A piece, and a small one.
const PIECE: usize = 4096;
const SMALL_PIECE: usize = 512;

/// Runs the patterns and prints a line for each.
pub fn run(options: &RankOptions) -> Result<()> {
    let world = World::init(Table::open()?, false)?;
    for pattern in &options.patterns {
        let mut best: Option<f64> = None;
        for _ in 0..options.repeats {
            let trial = Trial {
                world: &world,
                options,
            };
            let value = trial.run(*pattern)?;
            best = Some(best.map_or(value, |best| best.max(value)));
        }
        if let (0, Some(best)) = (world.rank, best) {
            output::say(&line(*pattern, best));
        }
    }
    world.finalize()
}

fn line(pattern: Pattern, value: f64) -> String {
    format!("{} {value:.3}", pattern.text())
}

/// Parses the values that the program has printed.
pub fn parse(text: &str) -> Vec<(Pattern, f64)> {
    let one = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((
            Pattern::from_str(name, false).ok()?,
            value.trim().parse().ok()?,
        ))
    };
    text.lines().filter_map(one).collect()
}

/// One run of a pattern.
struct Trial<'a> {
    world: &'a World,
    options: &'a RankOptions,
}

/// Returns the byte at a place of the data that a rank writes.
fn byte(rank: usize, place: usize) -> u8 {
    ((place >> 9).wrapping_mul(31) ^ place ^ rank.wrapping_mul(97)) as u8
}

/// The layout of the ranks' data in the file.
#[derive(Clone, Copy)]
enum Layout {
    /// One part of the file per rank.
    Contiguous,
    /// Pieces of this many bytes by turns, accessed collectively if `together`.
    Pieces { piece: usize, together: bool },
}

impl Trial<'_> {
    /// Returns the bytes that this rank moves in a pattern: whole calls and pieces.
    fn bytes(&self) -> usize {
        self.options.bytes.next_multiple_of(TOGETHER)
    }

    /// Returns the place of this rank's part of the file.
    fn start(&self) -> u64 {
        (self.world.rank * self.bytes()) as u64
    }

    fn data(&self) -> Vec<u8> {
        let rank = self.world.rank;
        (0..self.bytes()).map(|place| byte(rank, place)).collect()
    }

    /// Creates the file anew.
    fn open(&self) -> Result<SharedFile> {
        let (world, path) = (self.world, &self.options.file);
        if world.rank == 0 && path.exists() {
            SharedFile::delete(world, path)?;
        }
        world.barrier()?;
        SharedFile::open(world, path)
    }

    /// Closes the file, and deletes it.
    fn end(&self, file: SharedFile) -> Result<()> {
        file.close()?;
        self.world.barrier()?;
        match self.world.rank {
            0 => SharedFile::delete(self.world, &self.options.file),
            _ => Ok(()),
        }
    }

    fn plain(&self) -> Result<Plain> {
        Plain::open(self.world, &self.options.file)
    }

    /// Deletes the file when no rank uses it any more.
    fn plain_end(&self, plain: Plain) -> Result<()> {
        drop(plain);
        self.world.barrier()?;
        if self.world.rank == 0 {
            std::fs::remove_file(&self.options.file)?;
        }
        Ok(())
    }

    /// Returns the seconds from when the first rank begins until the last has ended, by the clock
    /// of the machine. With fewer cores than ranks some leave the barrier when others have ended.
    fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.world.barrier()?;
        let start = monotonic();
        work()?;
        let end = monotonic();
        let start = self.world.agree(start, Combine::Min)?;
        let end = self.world.agree(end, Combine::Max)?;
        Ok((end - start).max(1e-9))
    }

    fn run(&self, pattern: Pattern) -> Result<f64> {
        let pieces = |piece, together| Layout::Pieces { piece, together };
        let plain = self.options.plain;
        match pattern {
            Pattern::ContiguousWrite => self.moved(Layout::Contiguous, true),
            Pattern::ContiguousRead => self.moved(Layout::Contiguous, false),
            Pattern::InterleavedWrite => self.moved(pieces(PIECE, true), true),
            Pattern::InterleavedRead => self.moved(pieces(PIECE, true), false),
            Pattern::StridedWrite => self.moved(pieces(PIECE, false), true),
            Pattern::StridedRead => self.moved(pieces(PIECE, false), false),
            Pattern::SmallStridedWrite => self.moved(pieces(SMALL_PIECE, false), true),
            Pattern::SmallStridedRead => self.moved(pieces(SMALL_PIECE, false), false),
            Pattern::Append => self.append(),
            Pattern::Overlap => self.overlap(self.world.size),
            Pattern::OverlapIdle => self.overlap(0),
            Pattern::OverlapSpare => self.overlap((cores() / 2).max(1)),
            Pattern::OverlapBound if plain => Ok(100.0),
            Pattern::OverlapBound => self.overlap_bound(),
        }
    }

    fn megabytes_per_second(&self, seconds: f64) -> f64 {
        (self.bytes() * self.world.size) as f64 / 1e6 / seconds
    }

    /// Writes and reads in a layout and returns the rate of one of both. Plain calls take the
    /// fastest manner.
    fn moved(&self, layout: Layout, writes: bool) -> Result<f64> {
        let world = self.world;
        let mut least = f64::INFINITY;
        if self.options.plain {
            let manners = match layout {
                Layout::Pieces {
                    together: false, ..
                } => &[Manner::Calls, Manner::Sieved][..],
                _ => &[Manner::Together],
            };
            for &manner in manners {
                let plain = self.plain()?;
                least = least.min(self.write_and_read(writes, |writes, data| match layout {
                    Layout::Contiguous => plain.calls(writes, self.start(), TRANSFER, data),
                    Layout::Pieces { piece, .. } => {
                        plain.pieces(world, manner, writes, piece, data)
                    }
                })?);
                self.plain_end(plain)?;
            }
        } else {
            let file = self.open()?;
            let (start, call, together) = match layout {
                Layout::Contiguous => (self.start(), TRANSFER, false),
                Layout::Pieces { piece, together } => {
                    file.view_blocks(piece, world.rank, world.size, self.bytes() / piece)?;
                    (0, TOGETHER, together)
                }
            };
            least = self.write_and_read(writes, |writes, data| {
                let mut at = start;
                for part in data.chunks_mut(call) {
                    file.access(Access { writes, together }, at, part)?;
                    at += part.len() as u64;
                }
                Ok(())
            })?;
            self.end(file)?;
        }
        Ok(self.megabytes_per_second(least))
    }

    /// Writes, reads and checks. Returns the seconds of one of both.
    fn write_and_read(
        &self,
        writes: bool,
        transfer: impl Fn(bool, &mut [u8]) -> Result<()>,
    ) -> Result<f64> {
        let mut data = self.data();
        let write = self.time(|| transfer(true, &mut data))?;
        data.fill(0);
        let read = self.time(|| transfer(false, &mut data))?;
        let rank = self.world.rank;
        let wrong = |(place, found): (usize, &u8)| *found != byte(rank, place);
        match data.iter().enumerate().position(wrong) {
            None => Ok(if writes { write } else { read }),
            Some(place) => Err(Error::new(format!(
                "rank {rank} read something else at its byte {place} than it had written"
            ))),
        }
    }

    /// Ranks append pieces at the shared pointer.
    fn append(&self) -> Result<f64> {
        let mut data = self.data();
        let took = if self.options.plain {
            let plain = self.plain()?;
            let pointer = Pointer::new(self.world, &self.options.file)?;
            let took = self.time(|| plain.append(&pointer, PIECE, &data))?;
            self.plain_end(plain)?;
            took
        } else {
            let file = self.open()?;
            let took = self.time(|| {
                let mut pieces = data.chunks_mut(PIECE);
                pieces.try_for_each(|piece| file.append(piece))
            })?;
            self.world.barrier()?;
            // Every piece is there, whole, once.
            let size = std::fs::metadata(&self.options.file)?.len();
            let all = (self.bytes() * self.world.size) as u64;
            if size != all {
                let why = format!("the file has {size} bytes after appending {all}");
                return Err(Error::new(why));
            }
            self.end(file)?;
            took
        };
        Ok(self.megabytes_per_second(took))
    }

    /// Returns the share of a collective write, in percent, that goes on while the first `busy`
    /// ranks compute and the others wait for something else, such as an accelerator. Computing
    /// takes as long as the write.
    fn overlap(&self, busy: usize) -> Result<f64> {
        let (mut data, at) = (self.data(), self.start());
        if self.options.plain {
            let plain = self.plain()?;
            let hidden = self.hidden(busy, |work| plain.write_while(at, &data, work))?;
            self.plain_end(plain)?;
            Ok(hidden)
        } else {
            let file = self.open()?;
            let hidden = self.hidden(busy, |work| {
                let write = file.start_write(at, &mut data)?;
                work();
                write.wait()
            })?;
            self.end(file)?;
            Ok(hidden)
        }
    }

    /// Measures the share of `write` that is hidden behind the work that runs beside it.
    fn hidden(
        &self,
        busy: usize,
        mut write: impl FnMut(&(dyn Fn() + Sync)) -> Result<()>,
    ) -> Result<f64> {
        // A first write allocates the file's space.
        write(&|| ())?;
        let alone = self.time(|| write(&|| ()))?;
        let work = Work::of(alone, self.world.rank < busy);
        let working = self.time(|| {
            work.go();
            Ok(())
        })?;
        let both = self.time(|| write(&|| work.go()))?;
        Ok(100.0 * (1.0 - (both - working) / alone).clamp(0.0, 1.0))
    }

    /// Returns the overlap that the processor time of a plain write leaves, where all cores compute
    /// meanwhile.
    fn overlap_bound(&self) -> Result<f64> {
        let file = self.open()?;
        let (mut data, at) = (self.data(), self.start());
        file.start_write(at, &mut data)?.wait()?;
        let write = self.time(|| file.start_write(at, &mut data)?.wait())?;
        let plain = OpenOptions::new().write(true).open(&self.options.file)?;
        self.world.barrier()?;
        let before = processor_time();
        plain.write_all_at(&data, at)?;
        let took = processor_time() - before;
        let took = self.world.agree(took, Combine::Sum)?;
        self.end(file)?;
        Ok(100.0 * (1.0 - took / (cores() as f64 * write)).clamp(0.0, 1.0))
    }
}

/// Returns the seconds of a clock that all processes of the machine have in common.
fn monotonic() -> f64 {
    seconds_of(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time of this process in seconds.
fn processor_time() -> f64 {
    seconds_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn seconds_of(clock: libc::clockid_t) -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is a local variable.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// A computation, or idling, of a certain length.
enum Work {
    Compute(u64),
    Sleep(Duration),
}

impl Work {
    fn of(seconds: f64, busy: bool) -> Work {
        if !busy {
            return Work::Sleep(Duration::from_secs_f64(seconds));
        }
        let mut turns = 1 << 16;
        loop {
            let start = Instant::now();
            compute(turns);
            let took = start.elapsed().as_secs_f64();
            if took > 1e-3 {
                return Work::Compute((turns as f64 * seconds / took) as u64 + 1);
            }
            turns *= 2;
        }
    }

    fn go(&self) {
        match self {
            Work::Compute(turns) => compute(*turns),
            Work::Sleep(time) => thread::sleep(*time),
        }
    }
}

fn compute(turns: u64) {
    let mut number = 1_u64;
    for turn in 0..turns {
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005) ^ turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = format!("noise\n{}\n", line(Pattern::SmallStridedRead, 12.5));
        assert_eq!(parse(&text), [(Pattern::SmallStridedRead, 12.5)]);
        assert!(parse("append\nappend x\n").is_empty());
    }

    #[test]
    fn data_tells_ranks_and_places_apart() {
        let differ = |one: (usize, usize), other: (usize, usize)| {
            (0..64).any(|n| byte(one.0, one.1 + n) != byte(other.0, other.1 + n))
        };
        assert!(differ((0, 0), (1, 0)));
        assert!(differ((0, 0), (0, SMALL_PIECE)));
        assert!(differ((0, 0), (0, 1)));
    }
}
