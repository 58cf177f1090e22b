//! The slots of a communicator whose members share a node: one piece of shared memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use netmod::{OpenError, RemoteKey, SharedMemory, SharedPiece};

use crate::coll::Slots;
use crate::coll::run::has_come;
use crate::comm::Comm;
use crate::error::Result;
use crate::process::Process;
use crate::rma;

/// Slots of each rank.
const DEPTH: u32 = 4;
/// Bytes of data of all ranks in one phase, if ranks are many.
const TOTAL: usize = 1 << 20;
/// The most bytes of a slot: two slots of each of two ranks stay in a core's own cache.
const MOST: usize = 32 << 10;
/// Ranks beyond which looking at everyone's flag takes longer than rounds of messages.
const RANKS: u32 = 128;
/// Communicators of a process that have slots: memory for more is better spent otherwise.
const BOARDS: usize = 64;
/// The first phase of a communicator. Numbers may wrap, and soon do.
const FIRST: u64 = u64::MAX - 10_000;

/// Memory that all members of an intracommunicator of one node see, `own` bytes for each, by rank. All call
/// this; those who could not have it get none.
pub(super) fn common_piece(
    process: &Process,
    comm: &Comm,
    memory: &dyn SharedMemory,
    own: usize,
) -> Result<Option<Box<dyn SharedPiece>>> {
    let (rank, total) = (comm.rank(), own * comm.size() as usize);
    let mut made = None;
    let mut key = [0; 4];
    if rank == 0
        && let Ok(piece) = memory.create(total)
    {
        let RemoteKey { address, words } = piece.key();
        key = [1, address, words[0], words[1]];
        made = Some(piece);
    }
    process.broadcast_u64(comm, &mut key)?;
    if made.is_none() && key[0] != 0 {
        let key = RemoteKey {
            address: key[1],
            words: [key[2], key[3]],
        };
        made = memory.open(&key, total).ok();
    }
    Ok(made.and_then(|piece| {
        let ready: std::result::Result<_, OpenError> = piece.reserve(own * rank as usize, own);
        ready.ok().map(|()| piece)
    }))
}

/// A communicator's slots.
pub(crate) struct Board {
    pub slots: Slots,
    base: *mut u8,
    /// From a slot to the next.
    stride: usize,
    /// The number of the next phase.
    next: AtomicU64,
    /// The latest phase whose flag was seen, of each rank.
    seen: Box<[AtomicU64]>,
    _place: Place,
    /// What `base` points to.
    _piece: Box<dyn SharedPiece>,
}

/// One of the process's [`BOARDS`].
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    pub fn take(taken: &Arc<AtomicUsize>) -> Option<Place> {
        let free = |count| (count < BOARDS).then_some(count + 1);
        let place = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
        place.ok().map(|_| Place(taken.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// SAFETY: the memory is mapped as long as the board is there, and is written and read by the rules of
// `coll::slots`, whichever threads do it; the program sees to it that collectives on a communicator
// are called one after the other (section 5.12).
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

impl Board {
    /// Makes the slots of an intracommunicator, all of whose members call this. None where they can't
    /// all share memory, on all of them.
    pub fn new(process: &Process, comm: &Comm) -> Result<Option<Board>> {
        let (rank, size) = (comm.rank(), comm.size());
        let mut peers = (0..size).map(|rank| comm.local().peer(rank));
        let local = peers.all(|peer| peer == process.me() || process.is_local(peer));
        let memory = process.windows.memory.get();
        let place = Place::take(&process.collectives.boards);
        let able = local && memory.is_some() && (2..=RANKS).contains(&size) && place.is_some();
        // Read by others, to find out whether they can read this process's memory.
        let probe = Box::new(AtomicU64::new(0));
        let probe_at = (&raw const *probe).expose_provenance() as u64;
        let told = process.gather_all_u64(comm, [u64::from(able), probe_at])?;
        let probes: Vec<u64> = told.iter().map(|member| member[1]).collect();
        let (Some(memory), Some(place), true) =
            (memory, place, told.iter().all(|able| able[0] != 0))
        else {
            return Ok(None);
        };
        let room = (TOTAL / size as usize).min(MOST) & !63;
        let stride = 64 + room;
        let piece = common_piece(process, comm, &**memory, stride * DEPTH as usize)?;
        let mut board = piece.map(|piece| Board {
            slots: Slots {
                rank,
                size,
                room,
                depth: DEPTH,
                direct: false,
                several: false,
            },
            base: piece.as_ptr(),
            stride,
            next: AtomicU64::new(FIRST),
            seen: (0..size).map(|_| AtomicU64::new(FIRST - 1)).collect(),
            _place: place,
            _piece: piece,
        });
        // All flags say that nothing has come before anybody looks.
        if let Some(board) = &board {
            for slot in 0..DEPTH.into() {
                board.flag(rank, slot).store(FIRST - 1, Ordering::Release);
            }
        }
        let direct = (0..size).all(|of| rma::can_copy(process, comm, of, probes[of as usize]));
        let state = [u64::from(board.is_some()), u64::from(direct)];
        let told = process.gather_all_u64(comm, state)?;
        if let Some(board) = &mut board {
            board._piece.settle();
            board.slots.direct = told.iter().all(|ready| ready[1] != 0);
        }
        Ok(board.filter(|_| told.iter().all(|ready| ready[0] != 0)))
    }

    /// Numbers for so many phases.
    pub fn take(&self, phases: u32) -> u64 {
        // No other thread does: collectives on a communicator come one after the other.
        let first = self.next.load(Ordering::Relaxed);
        self.next
            .store(first.wrapping_add(phases.into()), Ordering::Relaxed);
        first
    }

    /// A slot's first byte.
    #[inline(always)]
    pub fn slot(&self, of: u32, number: u64) -> *mut u8 {
        debug_assert!(of < self.slots.size);
        let place = of as usize * DEPTH as usize + number as usize % DEPTH as usize;
        self.base.wrapping_add(place * self.stride)
    }

    #[inline(always)]
    fn flag(&self, of: u32, number: u64) -> &AtomicU64 {
        // SAFETY: every slot begins with its flag, aligned, in memory that lives as long as `self`.
        unsafe { &*self.slot(of, number).cast() }
    }

    #[inline(always)]
    fn length_at(&self, of: u32, number: u64) -> &AtomicU64 {
        // SAFETY: as for the flag, which it comes after.
        unsafe { &*self.slot(of, number).add(8).cast() }
    }

    /// Raises the own flag of a phase, in which there are `len` bytes.
    #[inline(always)]
    pub fn raise(&self, number: u64, len: usize) {
        let rank = self.slots.rank;
        self.length_at(rank, number)
            .store(len as u64, Ordering::Relaxed);
        self.flag(rank, number).store(number, Ordering::Release);
    }

    /// The bytes in a phase's slot whose flag is up.
    #[inline]
    pub fn length(&self, of: u32, number: u64) -> usize {
        self.length_at(of, number).load(Ordering::Relaxed) as usize
    }

    /// Whether the flag of a phase is up; looks `times` times before it says no.
    #[inline(always)]
    pub fn is_up(&self, of: u32, number: u64, times: u32) -> bool {
        let seen = &self.seen[of as usize];
        if has_come(seen.load(Ordering::Relaxed), number) {
            return true;
        }
        let flag = self.flag(of, number);
        for _ in 0..times {
            let value = flag.load(Ordering::Acquire);
            if has_come(value, number) {
                seen.store(value, Ordering::Relaxed);
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }
}
