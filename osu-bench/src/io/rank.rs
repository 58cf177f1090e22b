//! The program that `io` starts: one file, read and written by all ranks in one pattern after the other.

use std::fmt::Write;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::plain::{Manner, Plain, Pointer};
use super::{Pattern, Unit};
use crate::error::{Error, Result};
use crate::mpi::{Combine, SharedFile, Table, Way, World};
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
    /// How often each pattern is run; the best counts.
    #[arg(long)]
    repeats: u32,
    /// Which patterns.
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
            let value = match options.plain {
                true => trial.run_plain(*pattern)?,
                false => trial.run(*pattern)?,
            };
            best = Some(best.map_or(value, |best| best.max(value)));
        }
        if let (0, Some(best)) = (world.rank, best) {
            output::say(&line(*pattern, best));
        }
    }
    world.finalize()
}

fn line(pattern: Pattern, value: f64) -> String {
    let mut text = pattern.text();
    // A String takes all that is written to it.
    let _ = write!(text, " {value:.3}");
    text
}

/// The values in what the program has printed.
pub fn parse(text: &str) -> Vec<(Pattern, f64)> {
    let one = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((Pattern::of(name)?, value.trim().parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// One run of a pattern.
struct Trial<'a> {
    world: &'a World,
    options: &'a RankOptions,
}

/// The byte at a place of what a rank writes.
fn byte(rank: usize, place: usize) -> u8 {
    ((place >> 9).wrapping_mul(31) ^ place ^ rank.wrapping_mul(97)) as u8
}

impl Trial<'_> {
    /// Bytes that this rank moves in a pattern: whole calls and pieces.
    fn bytes(&self) -> usize {
        self.options.bytes.next_multiple_of(TOGETHER)
    }

    fn data(&self) -> Vec<u8> {
        (0..self.bytes())
            .map(|place| byte(self.world.rank, place))
            .collect()
    }

    /// A new file.
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

    /// Seconds from when the first rank begins until the last has ended, by the clock of the machine. With
    /// fewer cores than ranks some leave the barrier when others are through already.
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
        match pattern {
            Pattern::ContiguousWrite => self.contiguous(true),
            Pattern::ContiguousRead => self.contiguous(false),
            Pattern::InterleavedWrite => self.pieces(PIECE, true, true),
            Pattern::InterleavedRead => self.pieces(PIECE, true, false),
            Pattern::StridedWrite => self.pieces(PIECE, false, true),
            Pattern::StridedRead => self.pieces(PIECE, false, false),
            Pattern::SmallStridedWrite => self.pieces(SMALL_PIECE, false, true),
            Pattern::SmallStridedRead => self.pieces(SMALL_PIECE, false, false),
            Pattern::Append => self.append(),
            Pattern::Overlap => self.overlap(self.world.size),
            Pattern::OverlapIdle => self.overlap(0),
            Pattern::OverlapSpare => self.overlap((cores() / 2).max(1)),
            Pattern::OverlapBound => self.overlap_bound(),
        }
    }

    fn megabytes_per_second(&self, seconds: f64) -> f64 {
        (self.bytes() * self.world.size) as f64 / 1e6 / seconds
    }

    /// Each rank has one part of the file, and moves it by calls of a megabyte.
    fn contiguous(&self, writes: bool) -> Result<f64> {
        let file = self.open()?;
        let start = (self.world.rank * self.bytes()) as u64;
        let both = self.write_and_read(&file, start, TRANSFER, false)?;
        self.end(file)?;
        Ok(self.megabytes_per_second(if writes { both.0 } else { both.1 }))
    }

    /// Pieces of the ranks lie in the file by turns.
    fn pieces(&self, piece: usize, together: bool, writes: bool) -> Result<f64> {
        let file = self.open()?;
        let (rank, size) = (self.world.rank, self.world.size);
        file.view_blocks(piece, rank, size, self.bytes() / piece)?;
        let both = self.write_and_read(&file, 0, TOGETHER, together)?;
        self.end(file)?;
        Ok(self.megabytes_per_second(if writes { both.0 } else { both.1 }))
    }

    /// Seconds of writing and of reading, by calls of so many bytes. What is read is checked.
    fn write_and_read(
        &self,
        file: &SharedFile,
        start: u64,
        call: usize,
        together: bool,
    ) -> Result<(f64, f64)> {
        let mut data = self.data();
        let go = |way: Way, data: &mut [u8]| {
            let mut at = start;
            for part in data.chunks_mut(call) {
                file.access(way, at, part)?;
                at += part.len() as u64;
            }
            Ok(())
        };
        let write = self.time(|| go(Way::Write { together }, &mut data))?;
        data.fill(0);
        let read = self.time(|| go(Way::Read { together }, &mut data))?;
        self.check(&data)?;
        Ok((write, read))
    }

    fn check(&self, data: &[u8]) -> Result<()> {
        let rank = self.world.rank;
        let wrong = |(place, found): (usize, &u8)| *found != byte(rank, place);
        match data.iter().enumerate().position(wrong) {
            None => Ok(()),
            Some(place) => Err(Error::new(format!(
                "rank {rank} read something else at its byte {place} than it had written"
            ))),
        }
    }

    /// Ranks append pieces at the shared pointer.
    fn append(&self) -> Result<f64> {
        let file = self.open()?;
        let mut data = self.data();
        let took = self.time(|| {
            data.chunks_mut(PIECE)
                .try_for_each(|piece| file.append(piece))
        })?;
        file.close()?;
        // Every piece is there, whole, once.
        self.world.barrier()?;
        let size = std::fs::metadata(&self.options.file)?.len();
        let all = (self.bytes() * self.world.size) as u64;
        if size != all {
            let why = format!("the file has {size} bytes after appending {all}");
            return Err(Error::new(why));
        }
        self.world.barrier()?;
        if self.world.rank == 0 {
            SharedFile::delete(self.world, &self.options.file)?;
        }
        Ok(self.megabytes_per_second(took))
    }

    /// How much of a collective write goes on while the first ranks compute (`busy` of them) and the others wait
    /// for something else, such as an accelerator, in percent: computing takes as long as the write.
    fn overlap(&self, busy: usize) -> Result<f64> {
        let file = self.open()?;
        let mut data = self.data();
        let at = (self.world.rank * self.bytes()) as u64;
        // The file's room is taken by a first write.
        file.start_write(at, &mut data)?.wait()?;
        let write = self.time(|| file.start_write(at, &mut data)?.wait())?;
        let work = Work::of(write, self.world.rank < busy);
        let alone = self.time(|| {
            work.go();
            Ok(())
        })?;
        let both = self.time(|| {
            let access = file.start_write(at, &mut data)?;
            work.go();
            access.wait()
        })?;
        self.end(file)?;
        Ok(100.0 * (1.0 - (both - alone) / write).clamp(0.0, 1.0))
    }
}

/// The same by plain calls of the system.
impl Trial<'_> {
    fn run_plain(&self, pattern: Pattern) -> Result<f64> {
        match pattern {
            Pattern::ContiguousWrite => self.plain_contiguous(true),
            Pattern::ContiguousRead => self.plain_contiguous(false),
            Pattern::InterleavedWrite => self.plain_pieces(PIECE, true, true),
            Pattern::InterleavedRead => self.plain_pieces(PIECE, true, false),
            Pattern::StridedWrite => self.plain_pieces(PIECE, false, true),
            Pattern::StridedRead => self.plain_pieces(PIECE, false, false),
            Pattern::SmallStridedWrite => self.plain_pieces(SMALL_PIECE, false, true),
            Pattern::SmallStridedRead => self.plain_pieces(SMALL_PIECE, false, false),
            Pattern::Append => self.plain_append(),
            Pattern::Overlap => self.plain_overlap(self.world.size),
            Pattern::OverlapIdle => self.plain_overlap(0),
            Pattern::OverlapSpare => self.plain_overlap((cores() / 2).max(1)),
            Pattern::OverlapBound => Ok(100.0),
        }
    }

    fn plain(&self) -> Result<Plain> {
        Plain::open(self.world, &self.options.file)
    }

    /// Deletes the file when all are through with it.
    fn plain_end(&self, plain: Plain) -> Result<()> {
        drop(plain);
        self.world.barrier()?;
        if self.world.rank == 0 {
            std::fs::remove_file(&self.options.file)?;
        }
        Ok(())
    }

    fn plain_contiguous(&self, writes: bool) -> Result<f64> {
        let (plain, mut data) = (self.plain()?, self.data());
        let start = (self.world.rank * self.bytes()) as u64;
        let mut took = self.time(|| plain.calls(true, start, TRANSFER, &mut data))?;
        if !writes {
            data.fill(0);
            took = self.time(|| plain.calls(false, start, TRANSFER, &mut data))?;
            self.check(&data)?;
        }
        self.plain_end(plain)?;
        Ok(self.megabytes_per_second(took))
    }

    /// In the manner that is the quickest one.
    fn plain_pieces(&self, piece: usize, together: bool, writes: bool) -> Result<f64> {
        let manners = match together {
            true => &[Manner::Together][..],
            false => &[Manner::Calls, Manner::Sieved],
        };
        let mut least = f64::INFINITY;
        for manner in manners {
            let (plain, mut data) = (self.plain()?, self.data());
            let go = |writes: bool, data: &mut [u8]| {
                self.time(|| plain.pieces(self.world, *manner, writes, piece, data))
            };
            let mut took = go(true, &mut data)?;
            if !writes {
                data.fill(0);
                took = go(false, &mut data)?;
                self.check(&data)?;
            }
            least = least.min(took);
            self.plain_end(plain)?;
        }
        Ok(self.megabytes_per_second(least))
    }

    fn plain_append(&self) -> Result<f64> {
        let (plain, data) = (self.plain()?, self.data());
        let pointer = Pointer::new(self.world, &self.options.file)?;
        let took = self.time(|| plain.append(&pointer, PIECE, &data))?;
        self.plain_end(plain)?;
        Ok(self.megabytes_per_second(took))
    }

    fn plain_overlap(&self, busy: usize) -> Result<f64> {
        let (plain, data) = (self.plain()?, self.data());
        let at = (self.world.rank * self.bytes()) as u64;
        plain.write_while(at, &data, || {})?;
        let write = self.time(|| plain.write_while(at, &data, || {}))?;
        let work = Work::of(write, self.world.rank < busy);
        let alone = self.time(|| {
            work.go();
            Ok(())
        })?;
        let both = self.time(|| plain.write_while(at, &data, || work.go()))?;
        self.plain_end(plain)?;
        Ok(100.0 * (1.0 - (both - alone) / write).clamp(0.0, 1.0))
    }
}

impl Trial<'_> {
    /// Which overlap the processor time of a plain write leaves, where all cores compute meanwhile.
    fn overlap_bound(&self) -> Result<f64> {
        let file = self.open()?;
        let mut data = self.data();
        let at = (self.world.rank * self.bytes()) as u64;
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

/// Cores that this process may run on.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Seconds by a clock that all processes of the machine have in common.
fn monotonic() -> f64 {
    seconds_of(libc::CLOCK_MONOTONIC)
}

/// Seconds that cores have worked for this process.
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

/// Something that takes a while.
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

impl Pattern {
    /// What its value is.
    pub fn unit(self) -> Unit {
        match self {
            Pattern::Overlap
            | Pattern::OverlapIdle
            | Pattern::OverlapSpare
            | Pattern::OverlapBound => Unit::Percent,
            _ => Unit::Megabytes,
        }
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
