//! Shared copies: long reads of which the owner of the memory copies a share, between two lanes of
//! one process, each in a thread.

mod book;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use netmod::{BadMemory, Issued, Lane, LaneError, RemoteAddr, RemoteKey, Token};
use shmmod::SingleCopy;

const MIB: usize = 1 << 20;
const LENGTHS: [usize; 7] = [
    MIB - 1,
    MIB,
    MIB + 1,
    MIB + 4097,
    (5 << 18) + 100,
    2 * MIB,
    3 * MIB + 5,
];

fn place(memory: &[u8]) -> RemoteAddr {
    let address = memory.as_ptr() as u64;
    let key = RemoteKey {
        address,
        words: [0; 2],
    };
    RemoteAddr { key, offset: 0 }
}

fn byte(at: usize, round: usize) -> u8 {
    (at.wrapping_mul(31) ^ at >> 9 ^ round.wrapping_mul(77)) as u8
}

/// Lane 0 reads `reads`, while lane 1 helps as often as it can. Returns how often it did.
fn with_help(reads: impl FnOnce(&mut dyn Lane)) -> u64 {
    let ([mut reader, mut owner], _transports) = book::lanes(SingleCopy::Always);
    // The owner must know the reader, as the sender of a message does.
    let (mut here, there) = ([0], [1]);
    let known = owner.node().unwrap().direct_copy().unwrap();
    // SAFETY: both bytes belong to arrays of this function.
    unsafe { known.read(0, 0, here.as_mut_ptr(), 1, place(&there).key.address) }.unwrap();
    let (ended, helped) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if owner.node().unwrap().help() {
                    helped.fetch_add(1, Ordering::Relaxed);
                } else {
                    thread::yield_now();
                }
            }
        });
        reads(&mut *reader);
        ended.store(true, Ordering::Relaxed);
    });
    helped.into_inner()
}

#[test]
fn shared_copies_are_complete() {
    let mut helped = 0;
    // On a busy machine the owner may find nothing to copy for a while.
    for _ in 0..20 {
        helped += with_help(|reader| {
            let mut from = vec![0; LENGTHS[6]];
            let mut to = vec![0; LENGTHS[6] + 1];
            for round in 0..40 {
                let len = LENGTHS[round % LENGTHS.len()];
                for (at, out) in from[..len].iter_mut().enumerate() {
                    *out = byte(at, round);
                }
                to.fill(0x5a);
                // SAFETY: both buffers have this length.
                let read =
                    unsafe { reader.get(1, 0, to.as_mut_ptr(), len, place(&from), Token(0)) };
                assert_eq!(read, Ok(Issued::Complete));
                assert!(to[..len] == from[..len], "round {round}, {len} bytes");
                assert!(to[len..].iter().all(|byte| *byte == 0x5a));
            }
        });
        if helped > 10 {
            return;
        }
    }
    panic!("the owner has copied {helped} chunks");
}

/// Pages of which the last is inaccessible.
struct Hole {
    start: *mut u8,
    len: usize,
}

impl Hole {
    const PAGE: usize = 4096;

    fn new(len: usize) -> Hole {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, the last page of which is protected.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let start: *mut u8 = start.cast();
        // SAFETY: the last page of the new mapping, which no reference covers.
        let closed = unsafe {
            libc::mprotect(
                start.add(len - Self::PAGE).cast(),
                Self::PAGE,
                libc::PROT_NONE,
            )
        };
        assert_eq!(closed, 0);
        Hole { start, len }
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length and is no longer used.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Whichever side meets inaccessible memory, the reader reports whose it is.
#[test]
fn the_reader_reports_bad_memory() {
    with_help(|reader| {
        let whole = vec![1; MIB];
        let mut to = vec![0; MIB];
        for round in 0..50 {
            let hole = Hole::new(MIB);
            let bad_page = hole.start as u64 + (MIB - Hole::PAGE) as u64;
            let is_own = round % 2 == 0;
            let (from, to) = match is_own {
                true => (whole.as_ptr(), hole.start),
                false => (hole.start.cast_const(), to.as_mut_ptr()),
            };
            let key = RemoteKey {
                address: from as u64,
                words: [0; 2],
            };
            let from = RemoteAddr { key, offset: 0 };
            // SAFETY: the kernel checks both addresses.
            match unsafe { reader.get(1, 0, to, MIB, from, Token(0)) } {
                Err(LaneError::BadMemory(bad)) => {
                    let BadMemory { is_local, address } = *bad;
                    assert_eq!(
                        is_local, is_own,
                        "{address:#x}, closed from {bad_page:#x} on"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    });
}
