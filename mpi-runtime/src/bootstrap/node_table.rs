//! The table of ranks that share memory on a node, with the address records of their peers.
//!
//! The table lets a peer's record be requested from the launcher once per node. It marks the ranks that
//! share memory, its members; a rank that is not a member is not reached by shared memory.
//!
//! Ranks that have inherited the node's memory from `mpiexec` ([`shmmod::inherit`]) meet in it: each marks
//! itself before the fence, and counts the others after it. Under other launchers the first rank to listen
//! on a socket named after the job and the node is the maker: it creates the table in memory of its own.
//! The other ranks connect, and open the table through `/proc` once all have published their records.
//! Maker and member test whether each can open the other's memory (user namespaces, security modules and
//! unreadable executables forbid it). Abstract names end with their sockets, so nothing is left behind.
//!
//! Processes of all users can connect to such a name, or bind it first. Both ends therefore ask the
//! kernel for the other's user (`SO_PEERCRED`) and ignore a different one, no rank waits for space
//! in the queue of connections for longer than a second, and the queue is served once.
//!
//! ```text
//! member                                maker
//!   | -- connect, Hello ---------------> |       before the fence
//!   | <- key of the table, Machine ----- |       after it
//!   | -- OPENED or REFUSED ------------> |
//!   | <-- number of members, or 0 ------ |
//! ```

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netmod::{OpenError, Peer, RemoteKey, SharedMemory, SharedSegment};
use netmod_kit::Machine;
use netmod_kit::process_number::{own_number, pid_of};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::bootstrap::scheduling;

/// Bytes of a slot: its state, the length of a record, and the record.
const SLOT: usize = 512;
/// The longest record kept, in bytes.
const MAX_RECORD: usize = SLOT - 8;

/// State of a slot whose record no rank has requested.
const EMPTY: u32 = 0;
/// State of a slot whose record a rank is requesting.
const REQUESTING: u32 = 1;
/// State of a slot that holds its record.
const READY: u32 = 2;

/// Limit on waiting for another rank's request to the launcher; that rank may have ended. Also
/// limits the wait for space in the queue of connections.
const LOOKUP_LIMIT: Duration = Duration::from_secs(1);

/// Limit of the kernel's queue of connections, above the number of ranks of a node.
const BACKLOG: i32 = 4096;

/// Limit on the maker's wait for the members to open the table, which they do right after the
/// fence.
const MEMBERS_LIMIT: Duration = Duration::from_secs(10);

/// Limit on a member's wait for the maker, which may be waiting for other members.
const MAKER_LIMIT: Duration = Duration::from_secs(30);

/// A member's answer: whether it opened the table.
const OPENED: u8 = 1;
const REFUSED: u8 = 0;

/// The role of this rank in setting up the table, decided before the fence.
pub enum Role {
    /// A rank that has marked itself in the table, which lies in inherited memory.
    Inherited(Table),
    /// The rank that creates the table, with its socket and the table's memory.
    Maker(UnixListener, Box<dyn SharedSegment>),
    /// A rank that receives the table's key, with its connection to the maker.
    Member(UnixStream),
}

/// A member's first message. Names one of its descriptors, on which the maker tests whether it may
/// open the member's descriptors.
struct Hello {
    rank: Peer,
    pid: u32,
    fd: u32,
    inode: u64,
}

impl Hello {
    const SIZE: usize = 20;

    fn new(rank: Peer, stream: &UnixStream) -> Hello {
        let fd = stream.as_raw_fd() as u32;
        Hello {
            rank,
            pid: std::process::id(),
            fd,
            inode: socket_inode("self", fd).unwrap_or(0),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let words = [self.rank, self.pid, self.fd].map(u32::to_ne_bytes);
        [&words.concat()[..], &self.inode.to_ne_bytes()].concat()
    }

    fn parse(bytes: &[u8; Self::SIZE]) -> Hello {
        let word = |at: usize| {
            let bytes = bytes[at..at + 4].try_into();
            bytes.map_or(0, u32::from_ne_bytes)
        };
        Hello {
            rank: word(0),
            pid: word(4),
            fd: word(8),
            inode: bytes[12..].try_into().map_or(0, u64::from_ne_bytes),
        }
    }

    /// Returns whether this process may open the member's descriptors.
    fn is_reachable(&self) -> bool {
        self.inode != 0 && socket_inode(&self.pid.to_string(), self.fd) == Some(self.inode)
    }
}

/// Returns the inode of a socket that a process has open, if this process may open its descriptors.
fn socket_inode(process: &str, fd: u32) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{process}/fd/{fd}")).ok()?;
    let link = link.to_str()?.strip_prefix("socket:[")?;
    link.strip_suffix(']')?.parse().ok()
}

fn address(job: &str, node: u64) -> Option<SocketAddrUnix> {
    let mut hasher = DefaultHasher::new();
    (job, node).hash(&mut hasher);
    SocketAddrUnix::new_abstract_name(format!("weft-{:016x}", hasher.finish()).as_bytes()).ok()
}

/// Returns the bytes of a table for `size` processes: one slot and one membership mark each, and the front.
fn length(size: usize) -> Option<usize> {
    size.checked_mul(SLOT + 1)?
        .checked_next_multiple_of(FRONT_ALIGN)?
        .checked_add(size_of::<Front>())
}

/// Marks this rank in the inherited memory. Returns `None` if it has none.
pub fn join((me, size): (Peer, usize)) -> Option<Role> {
    let segment = shmmod::meet(me, length(size)?)?;
    let table = Table::over(segment, size);
    table
        .segment
        .reserve(size * SLOT, table.len - size * SLOT)
        .ok()?;
    let (front, order) = (table.front(), Ordering::Relaxed);
    if front
        .first
        .compare_exchange(0, me + 1, order, order)
        .is_ok()
    {
        // Measures while other ranks start.
        let costs = Machine::get().to_bytes();
        for (place, byte) in front.costs.iter().zip(costs) {
            place.store(byte, Ordering::Relaxed);
        }
        front.processes[0].store(own_number(), Ordering::Release);
    } else {
        front.processes[1].store(own_number(), order);
    }
    table.note(me);
    Some(Role::Inherited(table))
}

/// Decides before the fence which rank makes the table, for a job of `size` processes that have
/// inherited no memory.
pub fn begin(
    job: &str,
    node: u64,
    (me, size): (Peer, usize),
    memory: &dyn SharedMemory,
) -> Option<Role> {
    let address = address(job, node)?;
    let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(unix, stream, SocketFlags::CLOEXEC, None).ok()?;
    // A connection does not wait for space in the listener's queue.
    rustix::io::ioctl_fionbio(&socket, true).ok()?;
    let until = Instant::now() + LOOKUP_LIMIT;
    loop {
        match rustix::net::bind(&socket, &address) {
            Ok(()) => {
                rustix::net::listen(&socket, BACKLOG).ok()?;
                let listener = socket.into();
                let segment = memory.create(length(size)?).ok()?;
                // Measures while other ranks start.
                Machine::get();
                return Some(Role::Maker(listener, segment));
            }
            Err(Errno::ADDRINUSE) => {}
            Err(_) => return None,
        }
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {
                let mut stream = UnixStream::from(socket);
                let is_usable =
                    stream.set_nonblocking(false).is_ok() && netmod_kit::is_own(&stream);
                let hello = Hello::new(me, &stream).to_bytes();
                let is_said = is_usable && stream.write_all(&hello).is_ok();
                return is_said.then_some(Role::Member(stream));
            }
            // The socket has a name, but does not listen yet, or others fill its queue.
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_micros(100)),
            Err(_) => return None,
        }
    }
}

impl Role {
    /// Makes or opens the table after the fence, when all ranks of the node have begun. Returns
    /// `None` if this rank shares memory with no other.
    ///
    /// # Errors
    /// The maker does not answer, so that it is unknown whether the others count this rank as a
    /// member.
    pub fn finish(
        self,
        (me, size): (Peer, usize),
        memory: &dyn SharedMemory,
    ) -> Result<Option<Table>, OpenError> {
        let mut stream = match self {
            Role::Inherited(table) => return Ok(Some(table.meet_others())),
            Role::Maker(listener, segment) => {
                return Ok(admit_members(&listener, segment, (me, size)));
            }
            Role::Member(stream) => stream,
        };
        let silent = |error: std::io::Error| match error.kind() {
            // The maker has ended, or could not make the table.
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => None,
            _ => Some(OpenError(format!(
                "the maker of this node's table of ranks did not answer within {} s ({error}); set WEFT_SHM=0 \
                 to run without shared memory",
                MAKER_LIMIT.as_secs()
            ))),
        };
        let opened = (|| {
            stream.set_read_timeout(Some(MAKER_LIMIT))?;
            let (mut bytes, mut costs) = ([0; 24], [0; Machine::SIZE]);
            stream.read_exact(&mut bytes)?;
            stream.read_exact(&mut costs)?;
            Machine::adopt(costs);
            let word = |i: usize| {
                let bytes = bytes[8 * i..8 * i + 8].try_into();
                bytes.map_or(0, u64::from_ne_bytes)
            };
            let key = RemoteKey {
                address: word(0),
                words: [word(1), word(2)],
            };
            let segment = length(size).and_then(|len| memory.open(&key, len).ok());
            let answer = if segment.is_some() { OPENED } else { REFUSED };
            stream.write_all(&[answer])?;
            let mut members = [0; 4];
            stream.read_exact(&mut members)?;
            Ok((segment, u32::from_ne_bytes(members)))
        })();
        match opened {
            Ok((Some(segment), members @ 1..)) => Ok(Some(Table {
                members: members as usize,
                apart: scheduling::is_apart(scheduling::peer(&stream)),
                ..Table::over(segment, size)
            })),
            Ok(_) => Ok(None),
            Err(error) => silent(error).map_or(Ok(None), Err),
        }
    }
}

/// Sends the table's key, and what copies cost on this node, to all ranks that have connected, and
/// marks them as members.
///
/// They connected before the fence, so the maker only waits for their answers. If a rank cannot
/// open the table, or this process cannot open the rank's descriptors, there is no table.
fn admit_members(
    listener: &UnixListener,
    segment: Box<dyn SharedSegment>,
    (me, size): (Peer, usize),
) -> Option<Table> {
    let mut table = Table::over(segment, size);
    let key = table.segment.key();
    let key = [key.address, key.words[0], key.words[1]];
    let mut key = key.map(u64::to_ne_bytes).concat();
    key.extend(Machine::get().to_bytes());
    let mut is_complete = table.segment.reserve(size * SLOT, size).is_ok();
    listener.set_nonblocking(true).ok()?;
    let mut members = Vec::new();
    // All ranks connected before the fence, so they are among the first `BACKLOG + 1` connections.
    for _ in 0..=BACKLOG {
        let Ok((mut stream, _)) = listener.accept() else {
            break;
        };
        // A rank sent its hello before the fence, and runs as the same user.
        let mut hello = [0; Hello::SIZE];
        let is_ready = stream.set_nonblocking(true).is_ok() && netmod_kit::is_own(&stream);
        if is_ready && stream.read_exact(&mut hello).is_ok() {
            let hello = Hello::parse(&hello);
            is_complete &= hello.is_reachable();
            // A write error shows as a missing answer below.
            let _ = stream.write_all(&key);
            // Asked while the member opens the table.
            table.apart |= scheduling::is_apart(scheduling::peer(&stream));
            members.push((hello.rank, stream));
        }
    }
    let until = Instant::now() + MEMBERS_LIMIT;
    for (rank, stream) in &mut members {
        let left = until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        let mut answer = [REFUSED];
        let answered = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(left)))
            .and_then(|()| stream.read_exact(&mut answer));
        is_complete &= answered.is_ok() && answer == [OPENED];
        if is_complete && (*rank as usize) < size {
            table.members += usize::from(!table.has(*rank));
            table.note(*rank);
        }
    }
    if is_complete {
        table.note(me);
    }
    let count = if is_complete { table.members as u32 } else { 0 };
    for (_, stream) in &mut members {
        // A member that has ended meanwhile needs no answer.
        let _ = stream.write_all(&count.to_ne_bytes());
    }
    is_complete.then_some(table)
}

/// The end of the table, for ranks that have inherited it.
#[repr(C)]
struct Front {
    /// The first rank to come, plus 1.
    first: AtomicU32,
    /// The number of its process, and of another rank's: the last one that has come.
    processes: [AtomicU32; 2],
    /// What copies cost on this node, measured by that rank.
    costs: [AtomicU8; Machine::SIZE],
}

const FRONT_ALIGN: usize = align_of::<Front>();

/// The table shared by the ranks of a node.
pub struct Table {
    segment: Box<dyn SharedSegment>,
    /// Bytes of the table.
    len: usize,
    /// Number of processes of the job.
    size: usize,
    /// Number of ranks that share memory with this one, including itself.
    members: usize,
    /// Whether the maker, or a member, is in another scheduling group than this rank.
    apart: bool,
}

/// A slot that this rank is to fill. Dropped unfilled, it is free for another rank to try.
pub struct Slot<'a> {
    table: &'a Table,
    peer: Peer,
}

/// The result of looking up a peer's record.
pub enum Lookup<'a> {
    /// The peer's record.
    Record(Vec<u8>),
    /// No record yet; this rank is to request it.
    Vacant(Slot<'a>),
    /// The table cannot provide the record.
    Unavailable,
}

impl Table {
    fn over(segment: Box<dyn SharedSegment>, size: usize) -> Table {
        Table {
            segment,
            len: length(size).unwrap_or(0),
            size,
            members: 1,
            apart: false,
        }
    }

    fn front(&self) -> &Front {
        let place = self
            .segment
            .as_ptr()
            .wrapping_add(self.len - size_of::<Front>());
        // SAFETY: the front is at the end of the `len` bytes of `segment`, which are mapped as long as
        // `self` lives; `length` aligns it. It consists of atomics, for which any bytes are valid.
        unsafe { &*place.cast() }
    }

    /// Counts the ranks that have marked themselves in inherited memory before the fence.
    fn meet_others(mut self) -> Table {
        self.members = (0..self.size as Peer)
            .filter(|rank| self.has(*rank))
            .count();
        let front = self.front();
        let [first, other] = front.processes.each_ref();
        let [first, other] = [first, other].map(|process| process.load(Ordering::Acquire));
        if first != 0 {
            let costs = front.costs.each_ref();
            Machine::adopt(costs.map(|byte| byte.load(Ordering::Relaxed)));
        }
        let compared = if first == own_number() { other } else { first };
        self.apart = compared != 0 && scheduling::is_apart(pid_of(compared));
        self
    }

    /// Returns whether yielding the core does not let other ranks of the node run.
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Returns the number of ranks that share memory with this one, including itself.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns whether a process shares memory with this one.
    pub fn has(&self, peer: Peer) -> bool {
        (peer as usize) < self.size && self.mark(peer).load(Ordering::Relaxed) != 0
    }

    fn note(&self, peer: Peer) {
        self.mark(peer).store(1, Ordering::Relaxed);
    }

    fn mark(&self, peer: Peer) -> &AtomicU8 {
        assert!((peer as usize) < self.size);
        let place = self
            .segment
            .as_ptr()
            .wrapping_add(self.size * SLOT + peer as usize);
        // SAFETY: `place` is in the marks behind the slots, since `peer` is below `self.size`;
        // `segment` is mapped as long as `self` lives.
        unsafe { AtomicU8::from_ptr(place) }
    }

    fn place(&self, peer: Peer) -> *mut u8 {
        debug_assert!((peer as usize) < self.size);
        self.segment.as_ptr().wrapping_add(peer as usize * SLOT)
    }

    fn state(&self, peer: Peer) -> &AtomicU32 {
        // SAFETY: the slot of `peer` is within `segment`, which is mapped as long as `self` lives
        // and starts on a page, so the state is aligned.
        unsafe { AtomicU32::from_ptr(self.place(peer).cast()) }
    }

    /// Looks up a peer's record; waits while another rank requests it.
    pub fn find(&self, peer: Peer) -> Lookup<'_> {
        if peer as usize >= self.size {
            return Lookup::Unavailable;
        }
        // Reserved before the first access, so that a lack of memory is an error and not SIGBUS.
        if self.segment.reserve(peer as usize * SLOT, SLOT).is_err() {
            return Lookup::Unavailable;
        }
        let state = self.state(peer);
        let until = Instant::now() + LOOKUP_LIMIT;
        loop {
            let seen =
                state.compare_exchange(EMPTY, REQUESTING, Ordering::Acquire, Ordering::Acquire);
            match seen {
                Ok(_) => return Lookup::Vacant(Slot { table: self, peer }),
                Err(READY) => {
                    return self
                        .record(peer)
                        .map_or(Lookup::Unavailable, Lookup::Record);
                }
                Err(_) if Instant::now() < until => thread::sleep(Duration::from_micros(20)),
                Err(_) => return Lookup::Unavailable,
            }
        }
    }

    fn record(&self, peer: Peer) -> Option<Vec<u8>> {
        let place = self.place(peer);
        // SAFETY: the slot is within `segment`; its filler stored READY after its last write, and
        // no rank writes to it afterwards. The length is checked before it is used.
        unsafe {
            let len = place.add(4).cast::<u32>().read() as usize;
            (len <= MAX_RECORD).then(|| std::slice::from_raw_parts(place.add(8), len).to_vec())
        }
    }
}

impl Slot<'_> {
    /// Fills the slot. A record that is too long is left out.
    pub fn fill(self, record: &[u8]) {
        if record.len() > MAX_RECORD {
            return;
        }
        let place = self.table.place(self.peer);
        // SAFETY: the slot is within `segment`, `record` is at most MAX_RECORD bytes long, and this
        // rank alone holds the slot (it moved the state from EMPTY to REQUESTING).
        unsafe {
            place.add(4).cast::<u32>().write(record.len() as u32);
            std::ptr::copy_nonoverlapping(record.as_ptr(), place.add(8), record.len());
        }
        self.table.state(self.peer).store(READY, Ordering::Release);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let state = self.table.state(self.peer);
        let _ = state.compare_exchange(REQUESTING, EMPTY, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    fn name(job: &str, node: u64) -> SocketAddr {
        let address = address(job, node).unwrap();
        SocketAddr::from_abstract_name(address.abstract_name().unwrap()).unwrap()
    }

    /// Returns the tables of `ranks` ranks of a node, made at the same time.
    fn tables(job: &str, node: u64, ranks: usize, size: usize) -> Vec<Table> {
        let fence = Barrier::new(ranks);
        thread::scope(|scope| {
            let fence = &fence;
            let rank = |me: usize| {
                move || {
                    let memory = &shmmod::SharedSegments;
                    fence.wait();
                    let begun = begin(job, node, (me as Peer, size), memory).unwrap();
                    fence.wait();
                    let table = begun.finish((me as Peer, size), memory);
                    table.unwrap().unwrap()
                }
            };
            let threads: Vec<_> = (0..ranks).map(|me| scope.spawn(rank(me))).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_record_is_requested_once_per_node() {
        let job = format!("test-{}", std::process::id());
        let nodes = [tables(&job, 1, 8, 100), tables(&job, 2, 8, 100)];
        let asked = AtomicUsize::new(0);
        let look = |table: &Table, peer: Peer| match table.find(peer) {
            Lookup::Record(record) => assert_eq!(record, vec![peer as u8; 60 + peer as usize]),
            Lookup::Vacant(slot) => {
                asked.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
                slot.fill(&vec![peer as u8; 60 + peer as usize]);
            }
            Lookup::Unavailable => panic!("no answer"),
        };
        thread::scope(|scope| {
            for table in nodes.iter().flatten() {
                scope.spawn(|| (0..20).for_each(|peer| look(table, peer)));
            }
        });
        assert_eq!(asked.into_inner(), 2 * 20);
        assert!(matches!(nodes[0][0].find(100), Lookup::Unavailable));
    }

    #[test]
    fn members_know_only_each_other() {
        let job = format!("test-{}-c", std::process::id());
        for table in tables(&job, 1, 5, 9) {
            assert_eq!(table.members(), 5);
            assert!((0..9).all(|rank| table.has(rank) == (rank < 5)) && !table.has(9));
        }
    }

    #[test]
    fn no_table_if_a_member_cannot_open_it() {
        let job = format!("test-{}-d", std::process::id());
        let memory = &shmmod::SharedSegments;
        let maker = begin(&job, 1, (0, 3), memory).unwrap();
        let member = begin(&job, 1, (1, 3), memory).unwrap();
        let Role::Member(mut refuser) = begin(&job, 1, (2, 3), memory).unwrap() else {
            panic!("a second maker");
        };
        // A process that connects without a hello is not a member, and is not waited for.
        let _other = UnixStream::connect_addr(&name(&job, 1)).unwrap();
        thread::scope(|scope| {
            let member = scope.spawn(|| member.finish((1, 3), memory).unwrap().is_none());
            scope.spawn(move || refuser.write_all(&[REFUSED]).unwrap());
            assert!(maker.finish((0, 3), memory).unwrap().is_none());
            assert!(member.join().unwrap());
        });
    }

    /// Runs `act` in a child process as the user `nobody` until it is dropped.
    struct OtherUser(libc::pid_t);

    impl OtherUser {
        /// `act` must make system calls only: the child is a copy of a process with several
        /// threads.
        fn new(mut act: impl FnMut()) -> OtherUser {
            // SAFETY: the child only makes system calls.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: the calls take no pointers; the alarm ends the child if its parent dies.
                let is_other_user = unsafe { libc::alarm(60) == 0 && libc::setuid(65534) == 0 };
                if is_other_user {
                    loop {
                        act();
                    }
                }
                // SAFETY: `_exit` ends the child without running handlers of the parent's.
                unsafe { libc::_exit(1) };
            }
            assert!(child > 0);
            OtherUser(child)
        }
    }

    impl Drop for OtherUser {
        fn drop(&mut self) {
            // SAFETY: the PID is a child of this process that was not waited for, so it is not
            // reused.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }

    #[test]
    fn connections_of_other_users_do_not_delay_the_ranks() {
        if !weft_needs::MOUNTS.met() {
            return;
        }
        let job = format!("test-{}-flood", std::process::id());
        let at = name(&job, 1);
        // Two processes that connect as fast as they can and hold as many connections as allowed.
        let others: Vec<OtherUser> = (0..2)
            .map(|_| {
                let mut held = None;
                OtherUser::new(|| match UnixStream::connect_addr(&at) {
                    Ok(stream) => drop(held.replace(stream)),
                    Err(_) => thread::yield_now(),
                })
            })
            .collect();
        let start = Instant::now();
        for _ in 0..5 {
            let fence = Barrier::new(3);
            thread::scope(|scope| {
                for rank in 0..3 {
                    let (fence, job) = (&fence, &job);
                    scope.spawn(move || {
                        fence.wait();
                        let begun = begin(job, 1, (rank, 8), &shmmod::SharedSegments);
                        fence.wait();
                        if let Some(begun) = begun {
                            let _ = begun.finish((rank, 8), &shmmod::SharedSegments);
                        }
                        fence.wait();
                    });
                }
            });
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
        drop(others);
    }

    #[test]
    fn a_name_bound_by_another_user_is_ignored() {
        if !weft_needs::MOUNTS.met() {
            return;
        }
        let job = format!("test-{}-squat", std::process::id());
        let at = name(&job, 1);
        let mut listener = None;
        let other = OtherUser::new(|| {
            let listener = listener.get_or_insert_with(|| UnixListener::bind_addr(&at).unwrap());
            if let Ok((mut stream, _)) = listener.accept() {
                // The key of a table, byte by byte.
                let _ = stream.write_all(&[1; 4]);
                std::mem::forget(stream);
            }
        });
        while UnixStream::connect_addr(&at).is_err() {
            thread::yield_now();
        }
        let start = Instant::now();
        assert!(begin(&job, 1, (0, 8), &shmmod::SharedSegments).is_none());
        assert!(start.elapsed() < Duration::from_millis(500));
        drop(other);
    }

    #[test]
    fn an_unfilled_slot_is_free_again_and_long_records_stay_out() {
        let job = format!("test-{}-b", std::process::id());
        let tables = tables(&job, 1, 2, 4);
        assert!(matches!(tables[0].find(3), Lookup::Vacant(_)));
        let Lookup::Vacant(slot) = tables[1].find(3) else {
            panic!("the slot was given back");
        };
        // A rank that holds the slot and never fills it.
        assert!(matches!(tables[0].find(3), Lookup::Unavailable));
        slot.fill(&[1; MAX_RECORD + 1]);
        let Lookup::Vacant(slot) = tables[0].find(3) else {
            panic!("nothing was kept");
        };
        slot.fill(&[1; MAX_RECORD]);
        assert!(matches!(tables[1].find(3), Lookup::Record(record) if record == [1; MAX_RECORD]));
    }
}
