//! The memory of a node: files without a name, of which processes map ranges.
//!
//! `mpiexec` makes some files, and its ranks inherit all of them. So they share memory whatever separates
//! them: namespaces, users, no `/proc`, executables that can't be read. Each rank allocates in one of them:
//! the kernel takes locks of a file for each page that it allocates or frees. A rank of another launcher
//! makes a file of its own when it needs one. Other ranks, and ranks of other jobs, open that one by the
//! maker's pid and descriptor, through `/proc`. So it does when the memory is full or the program has closed
//! its descriptor.
//!
//! Ranges are never used again. The last process that unmaps a range frees its pages.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use netmod::{OpenError, Peer, RemoteKey, SharedMemory, SharedSegment};
use netmod_kit::process_number::{own_number, pid_of, take_number};
use netmod_kit::usable::page_size;
use parking_lot::Mutex;

use crate::shared_segment::SharedSegments;

/// The format of ranges; part of their names.
const MAGIC: u64 = u64::from_le_bytes(*b"weftshm8");

/// Offset of a count for each rank, behind the front.
const COUNTS: usize = 64;

/// Meetings have numbers below this one, which divides the size of a page.
const NUMBERS: u64 = 4096;

/// Bytes. Ranges of at least this length begin at a multiple of it, where huge pages begin, if the file's
/// length permits it.
const HUGE: u64 = 2 << 20;

/// The beginning of the file.
#[repr(C)]
struct Front {
    /// A random number, by which processes recognize the file.
    id: AtomicU64,
    /// Bytes of ranges that have been allocated.
    allocated: AtomicU64,
    /// The offset of the segment of the last [`meet`], a whole number of pages, and behind it that
    /// meeting's number.
    meeting: AtomicU64,
}

const _: () = assert!(size_of::<Front>() <= COUNTS);

/// An open file.
pub(crate) struct Memory {
    file: Arc<File>,
    device: u64,
    inode: u64,
    id: u64,
    /// `None` if this process allocates nothing in the file.
    front: Option<NonNull<Front>>,
    /// Number of ranks with a count; 0 in all files but the first inherited one.
    ranks: usize,
    /// Whether all ranks of the node that mpiexec has started have the file.
    is_inherited: bool,
}

// SAFETY: the front consists of atomics and is mapped as long as `self` lives.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`; the other fields are never written.
unsafe impl Sync for Memory {}

/// The memory of this process, if it has any: what it has inherited, and behind it what it has made. It
/// allocates in the last one.
static OWN: Mutex<Vec<Arc<Memory>>> = Mutex::new(Vec::new());

/// Takes the files that the launcher describes: by the launcher's PID namespace as `/proc/self/ns/pid` shows
/// it, and by descriptor, device and inode of each. Takes none if one of the descriptors is another file, or
/// if this process has memory already.
pub fn inherit(description: &str, (me, size): (Peer, usize)) {
    let mut own = OWN.lock();
    if own.is_empty() {
        own.extend(Memory::inherited(description, (me, size)).unwrap_or_default());
    }
}

/// Returns the inherited memory in which all ranks have a count.
fn inherited() -> Option<Arc<Memory>> {
    let own = OWN.lock();
    own.iter().find(|memory| memory.ranks > 0).cloned()
}

/// Returns the number of the node's memory if this process has inherited it.
pub fn inherited_id() -> Option<u64> {
    Some(inherited()?.id)
}

/// Returns a segment of `len` bytes, zero at first, that all ranks get that have inherited the memory and
/// call this for the same time. They all have called it before one calls it again: programs that a rank
/// runs one after the other do.
pub fn meet(me: Peer, len: usize) -> Option<Box<dyn SharedSegment>> {
    let memory = inherited()?;
    let number = u64::from(memory.count(me)?.fetch_add(1, Ordering::Relaxed)) + 1;
    let number = number % NUMBERS;
    let (meeting, order) = (&memory.front()?.meeting, Ordering::Acquire);
    let open = |found: u64| {
        let place = memory.place(found - found % NUMBERS);
        SharedSegments.open(&place.key(), len).ok()
    };
    let found = meeting.load(order);
    if found != 0 && found % NUMBERS == number {
        return open(found);
    }
    let made = SharedSegments::create_in(&memory, len).ok()?;
    let own = Place::of(&made.key()).offset + number;
    match meeting.compare_exchange(found, own, Ordering::AcqRel, order) {
        Ok(_) => Some(made),
        Err(first) => open(first),
    }
}

impl Memory {
    /// Makes memory that other processes open through `/proc`.
    pub fn create() -> io::Result<Memory> {
        let mut memory = Memory::over(netmod_kit::node_file()?, 0, None)?;
        memory.is_inherited = false;
        Ok(memory)
    }

    /// Returns the inherited files; the last one is that in which this process allocates.
    fn inherited(description: &str, (me, size): (Peer, usize)) -> Option<Vec<Arc<Memory>>> {
        let mut fields = description.split(' ');
        let namespace = fields.next()?;
        let numbers: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
        let (files, []) = numbers.as_chunks() else {
            return None;
        };
        let (first, _) = files.split_first()?;
        if !files.iter().all(is_described) {
            return None;
        }
        let first = Memory::over(take(first), size, None).ok()?;
        let seen = std::fs::read_link("/proc/self/ns/pid").ok();
        let sees_pids = seen.and_then(|link| link.into_os_string().into_string().ok());
        take_number(&first.file, me, sees_pids.as_deref() == Some(namespace)).ok()?;
        let own = me as usize % files.len();
        let mut all = vec![Arc::new(first)];
        for (index, file) in files.iter().enumerate().skip(1) {
            let id = all[0].id.wrapping_add(2 * index as u64);
            let file = take(file);
            all.push(Arc::new(match index == own {
                true => Memory::over(file, 0, Some(id)).ok()?,
                false => Memory::new(file, id, None).ok()?,
            }));
        }
        all.swap(own, files.len() - 1);
        Some(all)
    }

    fn new(file: File, id: u64, front: Option<NonNull<Front>>) -> io::Result<Memory> {
        let metadata = file.metadata()?;
        Ok(Memory {
            file: Arc::new(file),
            device: metadata.dev(),
            inode: metadata.ino(),
            id,
            front,
            ranks: 0,
            is_inherited: true,
        })
    }

    /// Maps the front of a file, with a count for each of `ranks`. Without an `id` the file has the one that
    /// the first process to map it has drawn.
    fn over(file: File, ranks: usize, id: Option<u64>) -> io::Result<Memory> {
        let len = Memory::front_len(ranks);
        if crate::overcommit::touches_may_fail() {
            reserve(&file, 0, len)?;
        }
        let base = map(&file, 0, len)?;
        let front: NonNull<Front> = base.cast();
        // SAFETY: the front is mapped and aligned; it consists of atomics, for which any bytes are valid.
        let drawn = unsafe { &front.as_ref().id };
        let order = Ordering::Relaxed;
        let id = id.unwrap_or_else(|| {
            let new = random(base.as_ptr());
            match drawn.compare_exchange(0, new, order, order) {
                Ok(_) => new,
                Err(found) => found,
            }
        });
        let mut memory = Memory::new(file, id, Some(front))?;
        memory.ranks = ranks;
        Ok(memory)
    }

    fn front_len(ranks: usize) -> usize {
        (COUNTS + ranks * size_of::<AtomicU32>()).next_multiple_of(page_size())
    }

    fn front(&self) -> Option<&Front> {
        // SAFETY: the front is mapped and aligned as long as `self` lives; it consists of atomics, for
        // which any bytes are valid.
        self.front.map(|front| unsafe { front.as_ref() })
    }

    /// Returns how often a rank has met others.
    fn count(&self, rank: Peer) -> Option<&AtomicU32> {
        let (front, rank) = (self.front?, rank as usize);
        // SAFETY: the front is mapped with a count for each rank, and outlives the reference.
        (rank < self.ranks).then(|| unsafe {
            let counts = front.byte_add(COUNTS).cast::<AtomicU32>();
            counts.add(rank).as_ref()
        })
    }

    /// Returns whether the descriptor still is the file: a program may have closed it.
    pub fn is_intact(&self) -> bool {
        let metadata = self.file.metadata();
        metadata.is_ok_and(|now| (now.dev(), now.ino()) == (self.device, self.inode))
    }

    fn place(&self, offset: u64) -> Place {
        Place {
            memory: self.id,
            process: own_number(),
            fd: self.file.as_raw_fd() as u32,
            offset,
        }
    }

    /// Returns the offset of a new range.
    fn allocate(&self, len: usize) -> io::Result<u64> {
        let end = self.file.metadata()?.len();
        let (ranges, page) = (Memory::front_len(self.ranks) as u64, page_size() as u64);
        let at = |from: u64, align: u64| {
            let first = (ranges + from).checked_next_multiple_of(align)?;
            let last = first.checked_add(len as u64)?;
            (last <= end).then_some((first, last.next_multiple_of(page) - ranges))
        };
        let after = |from: u64| match len as u64 {
            HUGE.. => at(from, HUGE).or_else(|| at(from, page)),
            _ => at(from, page),
        };
        let allocated = &self.front().ok_or(io::ErrorKind::Unsupported)?.allocated;
        let order = Ordering::Relaxed;
        let from = allocated.fetch_update(order, order, |from| Some(after(from)?.1));
        let first = from.ok().and_then(after);
        first
            .map(|(first, _)| first)
            .ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(front) = self.front {
            // SAFETY: `over` mapped this length, and no reference outlives `self`.
            unsafe { libc::munmap(front.as_ptr().cast(), Memory::front_len(self.ranks)) };
        }
    }
}

/// Returns whether the descriptor is the file of this device and inode.
fn is_described(&[fd, device, inode]: &[u64; 3]) -> bool {
    let Ok(fd) = RawFd::try_from(fd) else {
        return false;
    };
    // SAFETY: the descriptor is only asked for its file, and not closed.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let found = file.metadata();
    found.is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
}

/// Takes a file that the launcher has described. Programs that this process runs don't inherit it.
fn take(&[fd, ..]: &[u64; 3]) -> File {
    let fd = fd as RawFd;
    // SAFETY: the descriptor is open; no memory is passed. The launcher made it for this library to use and
    // close.
    unsafe {
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        File::from_raw_fd(fd)
    }
}

/// Where peers find a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The number of the memory.
    pub memory: u64,
    /// A process that has the file, and its descriptor.
    pub process: u32,
    pub fd: u32,
    pub offset: u64,
}

impl Place {
    pub fn key(&self) -> RemoteKey {
        RemoteKey {
            address: self.memory,
            words: [
                u64::from(self.process) << 32 | u64::from(self.fd),
                self.offset,
            ],
        }
    }

    pub fn of(key: &RemoteKey) -> Place {
        Place {
            memory: key.address,
            process: (key.words[0] >> 32) as u32,
            fd: key.words[0] as u32,
            offset: key.words[1],
        }
    }

    /// Returns the number that the range begins with.
    pub fn name(&self) -> u64 {
        (self.memory ^ MAGIC).wrapping_add(self.offset)
    }
}

/// The beginning of a range.
#[repr(C)]
pub(crate) struct Head {
    name: AtomicU64,
    len: AtomicU64,
    /// Processes that have mapped the range.
    users: AtomicU32,
}

/// A mapped range. Begins with its [`Head`].
pub(crate) struct Range {
    base: NonNull<u8>,
    len: usize,
    pub place: Place,
}

// SAFETY: the mapping outlives `self` on any thread, and users of the range synchronize their accesses.
unsafe impl Send for Range {}
// SAFETY: as for `Send`; the head consists of atomics.
unsafe impl Sync for Range {}

impl Range {
    /// Makes a range of this process's memory, and memory on the first call, and when the last one is
    /// full or its descriptor lost. Returns the file, too.
    pub fn create(len: usize, first: usize) -> io::Result<(Range, Arc<File>)> {
        let mut own = OWN.lock();
        if let Some(memory) = own.last().filter(|memory| memory.is_intact()) {
            match Range::create_in(memory, len, first) {
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {}
                made => return made,
            }
        }
        let memory = Memory::create()?;
        let made = Range::create_in(&memory, len, first)?;
        // A lost descriptor may have become another file's, which must stay open.
        own.retain(|memory| memory.is_inherited || !memory.is_intact());
        own.push(Arc::new(memory));
        Ok(made)
    }

    /// Makes a range of `len` zero bytes, `first` of which are allocated. Returns the file, too.
    pub fn create_in(memory: &Memory, len: usize, first: usize) -> io::Result<(Range, Arc<File>)> {
        let place = memory.place(memory.allocate(len)?);
        if first > 0 {
            reserve(&memory.file, place.offset, first)?;
        }
        let base = map(&memory.file, place.offset, len)?;
        let range = Range { base, len, place };
        let head = range.head();
        head.users.store(1, Ordering::Relaxed);
        head.len.store(len as u64, Ordering::Relaxed);
        head.name.store(place.name(), Ordering::Release);
        Ok((range, memory.file.clone()))
    }

    /// Maps a range that a peer has made. Returns the file, too.
    pub fn open(place: &Place, len: usize) -> Result<(Range, Arc<File>), OpenError> {
        let is_it = |own: &&Arc<Memory>| own.id == place.memory && own.is_intact();
        let own = OWN.lock().iter().find(is_it).cloned();
        let file = match &own {
            Some(own) => Ok(own.file.clone()),
            None => open_file(place).map(Arc::new),
        };
        let failed = |error: io::Error| {
            let (process, fd) = (place.process, place.fd);
            OpenError(format!(
                "cannot open shared memory of process {process}, /proc/{process}/fd/{fd} ({error}); if it \
                 runs under another user or in another container, set WEFT_SHM=0"
            ))
        };
        let file = file.map_err(failed)?;
        let stranger = || {
            failed(io::Error::other(
                "not the expected memory: the process is another one, has freed it, or runs another \
                 version of Weft",
            ))
        };
        let end = place.offset.checked_add(len as u64).ok_or_else(stranger)?;
        if file.metadata().map_or(0, |metadata| metadata.len()) < end {
            return Err(stranger());
        }
        let base = map(&file, place.offset, len).map_err(failed)?;
        let range = ManuallyDrop::new(Range {
            base,
            len,
            place: *place,
        });
        let head = range.head();
        let is_it = head.name.load(Ordering::Acquire) == place.name()
            && head.len.load(Ordering::Relaxed) == len as u64;
        let order = Ordering::AcqRel;
        let more = |users: u32| (users > 0).then(|| users + 1);
        if !is_it
            || head
                .users
                .fetch_update(order, Ordering::Relaxed, more)
                .is_err()
        {
            range.unmap();
            return Err(stranger());
        }
        Ok((ManuallyDrop::into_inner(range), file))
    }

    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub fn len(&self) -> usize {
        self.len
    }

    fn head(&self) -> &Head {
        // SAFETY: the range is mapped, aligned to a page, and longer than a head as long as `self` lives;
        // a head consists of atomics, for which any bytes are valid.
        unsafe { self.base.cast().as_ref() }
    }

    fn unmap(&self) {
        // SAFETY: `map` mapped this length, and the callers' references end here.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if self.head().users.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the range is a mapping of whole pages that no process uses any more.
            unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_REMOVE) };
        }
        self.unmap();
    }
}

/// Opens the file of a process that this one sees.
fn open_file(place: &Place) -> io::Result<File> {
    let pid = pid_of(place.process).ok_or(io::ErrorKind::NotFound)?;
    let path = format!("/proc/{pid}/fd/{}", place.fd);
    File::options().read(true).write(true).open(path)
}

/// Allocates pages of the file, so that a shortage is an error here and not a SIGBUS later.
pub(crate) fn reserve(file: &File, offset: u64, len: usize) -> io::Result<()> {
    let (offset, len) = (offset as libc::off_t, len as libc::off_t);
    // SAFETY: the call accesses no memory of this process; the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, len) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn map(file: &File, offset: u64, len: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (fd, offset) = (file.as_raw_fd(), offset as libc::off_t);
    // SAFETY: a new shared mapping, placed by the kernel, of a part of the file.
    let base = unsafe {
        let nowhere = std::ptr::null_mut();
        libc::mmap(nowhere, len, access, libc::MAP_SHARED, fd, offset)
    };
    match NonNull::new(base.cast()) {
        Some(mapped) if base != libc::MAP_FAILED => Ok(mapped),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps pages that the file already has, all at once: page faults would take several times as long.
/// Where the kernel cannot do it, they are mapped on first touch.
///
/// # Safety
/// `start` begins a whole number of pages of one mapping of shared memory.
pub(crate) unsafe fn map_pages(start: *mut u8, len: usize) {
    // SAFETY: the pages belong to one mapping by the caller's contract; the call changes no memory.
    unsafe { libc::madvise(start.cast(), len, libc::MADV_POPULATE_READ) };
}

/// Returns a random number other than 0.
fn random(base: *const u8) -> u64 {
    let mut number = [0u8; 8];
    // SAFETY: the buffer is 8 bytes long. If the call fails, address and process number suffice.
    unsafe { libc::getrandom(number.as_mut_ptr().cast(), number.len(), 0) };
    (u64::from_ne_bytes(number) ^ (base as u64) ^ u64::from(std::process::id()) << 40) | 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_of_a_range_frees_its_pages() {
        let memory = Memory::create().unwrap();
        let blocks = || memory.file.metadata().unwrap().blocks();
        let before = blocks();
        let (own, _) = Range::create_in(&memory, 100_000, 100_000).unwrap();
        let (peer, _) = Range::open(&own.place, 100_000).unwrap();
        assert!(blocks() >= before + 100_000 / 512);
        let place = own.place;
        drop(own);
        assert!(Range::open(&place, 99_999).is_err());
        let (again, _) = Range::open(&place, 100_000).unwrap();
        drop((peer, again));
        assert_eq!(blocks(), before);
        assert!(Range::open(&place, 100_000).is_err());
    }

    #[test]
    fn ranges_do_not_overlap_and_end_with_the_file() {
        let memory = Memory::create().unwrap();
        let page = page_size() as u64;
        assert_eq!(memory.allocate(1).unwrap(), page);
        assert_eq!(memory.allocate(4 << 20).unwrap(), HUGE);
        let after = HUGE + (4 << 20);
        assert_eq!(memory.allocate(1).unwrap(), after);
        assert_eq!(memory.allocate(1).unwrap(), after + page);
        for len in [usize::MAX, usize::MAX - 4096, 1 << 61] {
            assert!(memory.allocate(len).is_err());
        }
    }

    #[test]
    fn only_described_files_are_inherited() {
        let files = [(); 3].map(|()| netmod_kit::node_file().unwrap());
        let described = |file: &File, wrong: u64| {
            let metadata = file.metadata().unwrap();
            let (fd, inode) = (file.as_raw_fd(), metadata.ino() + wrong);
            format!(" {fd} {} {inode}", metadata.dev())
        };
        let inherit = |me: u32, text: &str| Memory::inherited(text, (me, 4));
        for refused in ["", "x", "x y z 1", "x 9999 1 1", "x 1 1 99999999999"] {
            assert!(inherit(0, refused).is_none(), "{refused}");
        }
        // The launcher's namespace is this process's.
        let seen = std::fs::read_link("/proc/self/ns/pid").unwrap();
        let describe = |files: [&File; 3]| {
            let files = files.map(|file| described(file, 0)).concat();
            format!("{}{files}", seen.display())
        };
        let all = describe(files.each_ref());
        assert!(inherit(0, &format!("{all}{}", described(&files[0], 1))).is_none());
        assert!(inherit(0, &format!("{all} 5")).is_none());

        // Each process has the files at descriptors of its own, and allocates in one of them.
        let copies = [0, 1].map(|_| files.each_ref().map(|file| file.try_clone().unwrap()));
        let [zero, two] = [0, 2]
            .map(|me: u32| inherit(me, &describe(copies[me as usize / 2].each_ref())).unwrap());
        let _ = copies.map(|files| files.map(std::os::fd::IntoRawFd::into_raw_fd));
        let ids = |memories: &[Arc<Memory>]| memories.iter().map(|it| it.id).collect::<Vec<_>>();
        let (zero_ids, two_ids) = (ids(&zero), ids(&two));
        assert!(zero_ids.iter().all(|id| two_ids.contains(id)));
        assert_eq!(
            (zero_ids[2], two_ids[2]),
            (two_ids[0], two_ids[0].wrapping_add(4))
        );
        let meets = |memories: &[Arc<Memory>]| memories.iter().filter(|it| it.ranks > 0).count();
        assert_eq!((meets(&zero), meets(&two)), (1, 1));
        assert!(zero[2].allocate(1).is_ok() && two[2].allocate(1).is_ok());
    }
}
