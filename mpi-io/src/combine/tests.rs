use std::ops::Range;
use std::path::PathBuf;
use std::ptr::NonNull;

use libc::iovec;
use netmod::{OpenError, RemoteKey, SharedSegment};

use super::*;
use crate::amode::Amode;
use crate::direction::Direction;
use crate::hints::Hints;
use crate::locks::Locks;
use crate::view::Run;
use crate::writers::Writers;

/// Memory aligned to a cache line.
#[derive(Clone)]
#[repr(align(64))]
#[allow(dead_code, reason = "it is used by its address")]
struct Line([u64; 8]);

/// Memory of this process in place of shared memory.
struct Piece(NonNull<u64>);

// SAFETY: the tests access the memory as members of a file do, by atomic words or in turn.
unsafe impl Send for Piece {}
// SAFETY: the tests access the memory as members of a file do, by atomic words or in turn.
unsafe impl Sync for Piece {}

impl Piece {
    fn shared(members: usize) -> Arc<dyn SharedSegment> {
        let len = piece_len(members);
        let memory = Box::leak(vec![Line([0; 8]); len / 64].into_boxed_slice());
        Arc::new(Piece(NonNull::from(memory).cast()))
    }
}

impl SharedSegment for Piece {
    fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
    fn key(&self) -> RemoteKey {
        RemoteKey {
            address: 0,
            words: [0; 2],
        }
    }
    fn reserve(&self, _: usize, _: usize) -> std::result::Result<(), OpenError> {
        Ok(())
    }
    fn seal(&self) {}
}

/// A file in memory with at most `most` bytes, which moves a few bytes at a time.
pub(crate) struct Memory {
    pub bytes: Mutex<Vec<u8>>,
    most: usize,
    calls: AtomicU32,
    pub reads: AtomicU32,
}

struct Handle(Arc<Memory>);

impl Storage for Handle {
    unsafe fn read_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize> {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = self.0.bytes.lock();
        let from = bytes.get(at as usize..).unwrap_or_default();
        let len = from.len().min(pieces[0].iov_len);
        // SAFETY: the caller of `read_at` guarantees valid pieces, and `len` is at most the first
        // one's length.
        let to = unsafe { std::slice::from_raw_parts_mut(pieces[0].iov_base.cast(), len) };
        to.copy_from_slice(&from[..len]);
        Ok(len)
    }

    unsafe fn write_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let mut bytes = self.0.bytes.lock();
        let (mut next, mut left) = (at as usize, 70_000);
        for piece in pieces {
            let len = piece.iov_len.min(left);
            if next + len > self.0.most {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            if bytes.len() < next + len {
                bytes.resize(next + len, 0);
            }
            // SAFETY: the caller of `write_at` guarantees valid pieces, and `len` is at most this
            // one's length.
            let from = unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), len) };
            bytes[next..next + len].copy_from_slice(from);
            next += len;
            left -= len;
        }
        Ok(next - at as usize)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().len() as u64)
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn lock(&self, _: &Range<u64>, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn unlock(&self, _: &Range<u64>) -> io::Result<()> {
        Ok(())
    }
    fn can_read(&self) -> bool {
        true
    }
    fn is_local(&self) -> bool {
        true
    }
    fn call_cost(&self, _: Direction) -> u64 {
        8192
    }
    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok((0, 0))
    }
}

/// Returns a file as each of its members sees it.
pub(crate) fn members(count: usize, most: usize) -> (Vec<Shared>, Arc<Memory>) {
    let memory = Arc::new(Memory {
        bytes: Mutex::default(),
        most,
        calls: AtomicU32::new(0),
        reads: AtomicU32::new(0),
    });
    let piece = Piece::shared(count);
    let room = Arc::new(SharedArea::Made(piece.clone()));
    let one = |me| {
        let storage = Handle(memory.clone());
        Shared {
            path: PathBuf::from("memory"),
            amode: Amode::default(),
            combiner: Combiner::new(Some(room.clone()), me, count, &storage),
            storage: Box::new(storage),
            locks: Locks::default(),
            writers: Writers::new(Some(piece.clone()), me, count),
            window: Mutex::default(),
            hints: Mutex::new(Arc::new(Hints::default())),
            atomic: false.into(),
        }
    };
    ((0..count).map(one).collect(), memory)
}

fn runs(first: u64, len: u64, step: u64, count: u64) -> Runs {
    let mut runs = Runs::default();
    (0..count).for_each(|n| {
        runs.push(Run {
            at: first + n * step,
            len,
        })
    });
    runs
}

fn write(shared: &Shared, runs: Runs, data: &[u8]) -> io::Result<()> {
    assert_eq!(runs.bytes, data.len() as u64);
    shared
        .combiner
        .write(shared, runs, data.as_ptr())
        .expect("what can be combined")
}

#[test]
fn what_members_write_at_the_same_time_is_all_there() {
    const MEMBERS: u64 = 4;
    const WINDOWS: u64 = 40;
    // The last member leaves its pieces out in every other window, so gaps are read and written
    // back.
    let (all, memory) = members(MEMBERS as usize, usize::MAX);
    memory.bytes.lock().resize(5000, 77);
    std::thread::scope(|scope| {
        for (me, shared) in all.iter().enumerate() {
            scope.spawn(move || {
                let me = me as u64;
                let _sieving = shared.combiner.sieve();
                shared.writers.announce();
                for window in 0..WINDOWS {
                    if me == 3 && window % 2 == 0 {
                        continue;
                    }
                    let first = window * 64 * 1024 + me * 256;
                    let data = vec![me as u8 + 1; 64 * 256];
                    write(shared, runs(first, 256, 1024, 64), &data).unwrap();
                }
            });
        }
    });
    let bytes = memory.bytes.lock();
    for (place, byte) in bytes.iter().enumerate() {
        let (window, member) = (place / 65_536, place / 256 % 4);
        let left_out = member == 3 && window.is_multiple_of(2);
        let old = if place < 5000 { 77 } else { 0 };
        let wanted = if left_out { old } else { member as u8 + 1 };
        assert_eq!(*byte, wanted, "byte {place}");
    }
}

#[test]
fn appended_pieces_are_written_whole_and_reported() {
    let (all, memory) = members(3, 30_000);
    let next = AtomicU64::new(0);
    let reported: usize = std::thread::scope(|scope| {
        let one = |me: usize| {
            let (all, next) = (&all, &next);
            scope.spawn(move || {
                let data = vec![me as u8 + 1; 100];
                let tries = (0..120).map(|_| {
                    let at = next.fetch_add(100, Ordering::Relaxed);
                    write(&all[me], runs(at, 100, 100, 1), &data)
                });
                // The file holds 300 of 360 bytes.
                let full = |error: &io::Error| error.raw_os_error() == Some(libc::ENOSPC);
                tries
                    .filter(|tried| match tried {
                        Ok(()) => true,
                        Err(error) => {
                            assert!(full(error), "{error}");
                            false
                        }
                    })
                    .count()
            })
        };
        let threads: Vec<_> = (0..3).map(one).collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    });
    let bytes = memory.bytes.lock();
    let whole = bytes
        .chunks(100)
        .filter(|piece| {
            piece.len() == 100 && piece[0] != 0 && piece.iter().all(|one| *one == piece[0])
        })
        .count();
    assert!(
        reported <= whole && whole <= 300,
        "{reported} reported, {whole} written"
    );
    assert!(reported >= 290, "{reported}");
}

#[test]
fn deposits_that_wait_are_written_with_the_next() {
    let (all, memory) = members(3, usize::MAX);
    // Two members have filled their deposits.
    for (me, byte) in [(0_usize, 1_u8), (2, 3)] {
        let (head, _, room) = all[me].combiner.deposit(me).unwrap();
        let words = runs(10 * me as u64, 10, 10, 1).head();
        for (place, word) in head.runs.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        // SAFETY: a deposit holds more than 10 bytes.
        unsafe { room.write_bytes(byte, 10) };
        head.state.store(POSTED, Ordering::Release);
    }
    write(&all[1], runs(10, 10, 10, 1), &[2; 10]).unwrap();
    let expected: Vec<u8> = (0..30).map(|place| place / 10 + 1).collect();
    assert_eq!(*memory.bytes.lock(), expected);
    assert_eq!(memory.calls.load(Ordering::Relaxed), 1);
    for me in [0, 2] {
        let (head, ..) = all[me].combiner.deposit(me).unwrap();
        assert_eq!(head.state.load(Ordering::Relaxed), DONE);
        assert_eq!(head.error.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_rank_that_is_ahead_waits_for_others_in_the_same_stretch() {
    let (all, memory) = members(2, usize::MAX);
    let _sieving = (all[0].combiner.sieve(), all[1].combiner.sieve());
    // Alternating pieces of 1 KiB, eight of each member in a stretch.
    let of = |stretch: u64, me: u64| runs(stretch * 16_384 + me * 1024, 1024, 2048, 8);
    let (head, _, room) = all[0].combiner.deposit(0).unwrap();
    for (place, word) in head.runs.iter().zip(of(1, 0).head()) {
        place.store(word, Ordering::Relaxed);
    }
    // SAFETY: a deposit holds more than 8192 bytes.
    unsafe { room.write_bytes(1, 8192) };
    head.patient.store(1, Ordering::Relaxed);
    head.state.store(POSTED, Ordering::Release);
    write(&all[1], of(0, 1), &[2; 8192]).unwrap();
    assert_eq!(head.state.load(Ordering::Relaxed), POSTED);
    let calls = memory.calls.load(Ordering::Relaxed);
    write(&all[1], of(1, 1), &[2; 8192]).unwrap();
    assert_eq!(head.state.load(Ordering::Relaxed), DONE);
    assert_eq!(head.together.load(Ordering::Relaxed), 2);
    assert_eq!(memory.calls.load(Ordering::Relaxed), calls + 1);
    let bytes = memory.bytes.lock();
    assert_eq!(bytes.len(), 32_768);
    for (place, byte) in bytes.iter().enumerate() {
        let wanted = match (place / 16_384, place / 1024 % 2) {
            (0, 0) => 0,
            (_, member) => member as u8 + 1,
        };
        assert_eq!(*byte, wanted, "byte {place}");
    }
}

#[test]
fn nonsense_from_others_is_refused() {
    let (all, memory) = members(2, usize::MAX);
    for words in [
        [u64::MAX, 5, 0, 1, 1, 1],
        [1, 1 << 40, 0, 1 << 40, 1 << 40, 1],
        [2, 20, u64::MAX - 5, 10, 10, 10],
    ] {
        let (head, ..) = all[0].combiner.deposit(0).unwrap();
        for (place, word) in head.runs.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        head.state.store(POSTED, Ordering::Release);
        write(&all[1], runs(0, 3, 3, 1), &[9; 3]).unwrap();
        assert_eq!(head.state.load(Ordering::Relaxed), DONE);
        assert_eq!(head.error.load(Ordering::Relaxed), libc::EIO as u32);
    }
    assert_eq!(*memory.bytes.lock(), [9; 3]);
}

#[test]
fn stretches_of_a_window_are_written_with_what_stands_between() {
    let (all, memory) = members(2, usize::MAX);
    memory.bytes.lock().resize(2500, 7);
    let data: Vec<u8> = (0..200_000_u32).map(|place| (place % 251) as u8).collect();
    let mut list = runs(1000, 10, 1000, 60).list;
    list.push(Run {
        at: 150_000,
        len: 20,
    });
    list.push(Run {
        at: 199_999,
        len: 1,
    });
    crate::sieve::store(&all[0], &list, &data, 0).unwrap();
    // Adjacent pieces are written together, distant ones separately.
    assert_eq!(memory.calls.load(Ordering::Relaxed), 3);
    let bytes = memory.bytes.lock();
    assert_eq!(bytes.len(), 200_000);
    for (place, byte) in bytes.iter().enumerate() {
        let at = place as u64;
        let new = list.iter().any(|run| run.at <= at && at < run.end());
        let old = if place < 2500 { 7 } else { 0 };
        assert_eq!(*byte, if new { data[place] } else { old }, "byte {place}");
    }
}

#[test]
fn the_turn_of_the_dead_is_taken() {
    let (all, memory) = members(2, usize::MAX);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let common = all[0].combiner.common().unwrap();
    common.turn.store(dead, Ordering::Relaxed);
    write(&all[1], runs(0, 3, 3, 1), &[9; 3]).unwrap();
    assert_eq!(*memory.bytes.lock(), [9; 3]);
}

#[test]
fn what_has_no_room_is_left_to_the_caller() {
    let (all, _) = members(1, usize::MAX);
    let data = vec![0_u8; 2 * ROOM];
    for long in [
        runs(0, 2 * ROOM as u64, 1, 1),
        runs(0, 4, 8, 100),
        Runs::default(),
    ] {
        let start = data.as_ptr();
        assert!(all[0].combiner.write(&all[0], long, start).is_none());
    }
}
