//! Which ranks of a node share memory, and a table that they have in common, so that a peer's card is asked of the
//! launcher once per node.
//!
//! The first of the ranks to listen on a socket whose name is the job's and the node's is the maker: it makes the table in
//! anonymous shared memory. The others connect, and open the table once all have published their cards. Maker and member
//! try whether each can open the other's memory (user namespaces, security modules and executables that can't be read
//! forbid it), and the maker notes the members in the table; a rank that is no member is not reached by shared memory.
//! Sockets of abstract names end with their process, so that nothing is left behind.
//!
//! Processes of all users can connect to such a name, or take it first. Both ends therefore ask the kernel for the
//! other's user (`SO_PEERCRED`) and ignore another one, no rank waits for room in the queue of connections for longer
//! than a second, and the queue is served once.
//!
//! ```text
//! member                                maker
//!   | -- connect, Hello ---------------> |       before the fence
//!   | <------------- key of the table -- |       after it
//!   | -- OPENED or REFUSED ------------> |
//!   | <-- number of members, or 0 ------ |
//! ```

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netmod::{OpenError, Peer, RemoteKey, SharedMemory, SharedSegment};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::bootstrap::scheduling;

/// Bytes of a slot: its state, the length of a card, and a card.
const SLOT: usize = 512;
/// The longest card that is kept.
const ROOM: usize = SLOT - 8;

/// Nobody has asked.
const EMPTY: u32 = 0;
/// Somebody is asking.
const ASKING: u32 = 1;
/// The card is there.
const READY: u32 = 2;

/// How long to wait for another rank's answer from the launcher before asking oneself: it may have
/// ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections that the kernel queues, at most. The ranks of a node are fewer.
const QUEUE: i32 = 4096;

/// How long the maker waits for all members to open the table. They do so as soon as they have passed the fence.
const OPENING: Duration = Duration::from_secs(10);

/// How long a member waits for the maker, which may have waited for others.
const TELLING: Duration = Duration::from_secs(30);

/// A member's answer: whether it could open the table.
const OPENED: u8 = 1;
const REFUSED: u8 = 0;

/// On the way to a table, before the fence.
pub enum Begun {
    /// This rank has made it.
    Made(UnixListener, Box<dyn SharedSegment>),
    /// This rank will be told of it.
    Told(UnixStream),
}

/// A member's first message: its rank, and one of its descriptors, by which the maker tests whether it may open the
/// member's descriptors.
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

/// The inode of a socket that a process has open, if this process may open its descriptors.
fn socket_inode(process: &str, fd: u32) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{process}/fd/{fd}")).ok()?;
    let link = link.to_str()?.strip_prefix("socket:[")?;
    link.strip_suffix(']')?.parse().ok()
}

fn address(job: &str, node: u64) -> Option<SocketAddr> {
    let mut hasher = DefaultHasher::new();
    (job, node).hash(&mut hasher);
    SocketAddr::from_abstract_name(format!("weft-{:016x}", hasher.finish())).ok()
}

/// Connects without waiting for room in the listener's queue.
fn connect(name: &SocketAddr) -> rustix::io::Result<UnixStream> {
    let name = name.as_abstract_name().unwrap_or_default();
    let name = SocketAddrUnix::new_abstract_name(name)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &name)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(UnixStream::from(socket))
}

/// Returns the bytes of a table for `size` processes: a slot each, and a mark each whether the process is a member.
fn length(size: usize) -> Option<usize> {
    size.checked_mul(SLOT + 1)
}

/// Before the fence: finds who makes the table of a job of so many processes.
pub fn begin(
    job: &str,
    node: u64,
    (me, size): (Peer, usize),
    memory: &dyn SharedMemory,
) -> Option<Begun> {
    let address = address(job, node)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => {
                rustix::net::listen(&listener, QUEUE).ok()?;
                let piece = memory.create(length(size)?).ok()?;
                return Some(Begun::Made(listener, piece));
            }
            Err(error) if error.kind() != ErrorKind::AddrInUse => return None,
            Err(_) => {}
        }
        match connect(&address) {
            Ok(mut stream) if scheduling::is_own(&stream) => {
                let hello = Hello::new(me, &stream).to_bytes();
                return stream.write_all(&hello).ok().map(|()| Begun::Told(stream));
            }
            Ok(_) => return None,
            // The socket has a name, but does not listen yet, or strangers fill its queue.
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_micros(100)),
            Err(_) => return None,
        }
    }
}

impl Begun {
    /// Makes or opens the table after the fence, when all ranks of the node have begun. Returns `None` if this rank shares
    /// memory with no other.
    ///
    /// # Errors
    /// The maker does not answer, so that it is unknown whether the others count this rank as a member.
    pub fn finish(
        self,
        (me, size): (Peer, usize),
        memory: &dyn SharedMemory,
    ) -> Result<Option<Table>, OpenError> {
        let mut stream = match self {
            Begun::Made(listener, piece) => return Ok(tell(&listener, piece, (me, size))),
            Begun::Told(stream) => stream,
        };
        let silent = |error: std::io::Error| match error.kind() {
            // It has ended, or could not make the table.
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => None,
            _ => Some(OpenError(format!(
                "the rank of this node that makes the table of its ranks did not answer within {} s \
                 ({error}); set WEFT_SHM=0 to do without shared memory",
                TELLING.as_secs()
            ))),
        };
        let opened = (|| {
            stream.set_read_timeout(Some(TELLING))?;
            let mut bytes = [0; 24];
            stream.read_exact(&mut bytes)?;
            let word = |i: usize| {
                let bytes = bytes[8 * i..8 * i + 8].try_into();
                bytes.map_or(0, u64::from_ne_bytes)
            };
            let key = RemoteKey {
                address: word(0),
                words: [word(1), word(2)],
            };
            let piece = length(size).and_then(|len| memory.open(&key, len).ok());
            let answer = if piece.is_some() { OPENED } else { REFUSED };
            stream.write_all(&[answer])?;
            let mut members = [0; 4];
            stream.read_exact(&mut members)?;
            Ok((piece, u32::from_ne_bytes(members)))
        })();
        match opened {
            Ok((Some(piece), members @ 1..)) => Ok(Some(Table {
                piece,
                size,
                members: members as usize,
                apart: scheduling::is_apart(scheduling::peer(&stream)),
            })),
            Ok(_) => Ok(None),
            Err(error) => silent(error).map_or(Ok(None), Err),
        }
    }
}

/// Sends the table's key to all ranks that have connected, and notes them as members. They have connected before the
/// fence, so the maker only waits for their answers. If a rank can't open the table, or this process can't open the
/// rank's descriptors, there is no table.
fn tell(
    listener: &UnixListener,
    piece: Box<dyn SharedSegment>,
    (me, size): (Peer, usize),
) -> Option<Table> {
    let mut table = Table {
        piece,
        size,
        members: 1,
        apart: false,
    };
    let key = table.piece.key();
    let key = [key.address, key.words[0], key.words[1]];
    let key = key.map(u64::to_ne_bytes).concat();
    let mut whole = table.piece.reserve(size * SLOT, size).is_ok();
    listener.set_nonblocking(true).ok()?;
    let mut told = Vec::new();
    // No rank is behind the first `QUEUE + 1` connections: all have connected before the fence.
    for _ in 0..=QUEUE {
        let Ok((mut stream, _)) = listener.accept() else {
            break;
        };
        // Ranks have sent their hello before the fence, and run as the same user.
        let mut hello = [0; Hello::SIZE];
        let is_ready = stream.set_nonblocking(true).is_ok() && scheduling::is_own(&stream);
        if is_ready && stream.read_exact(&mut hello).is_ok() {
            let hello = Hello::parse(&hello);
            whole &= hello.is_reachable();
            // An error shows where the answer is read.
            let _ = stream.write_all(&key);
            told.push((hello.rank, stream));
        }
    }
    let until = Instant::now() + OPENING;
    for (rank, stream) in &mut told {
        let left = until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        let mut answer = [REFUSED];
        let answered = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(left)))
            .and_then(|()| stream.read_exact(&mut answer));
        whole &= answered.is_ok() && answer == [OPENED];
        table.apart |= scheduling::is_apart(scheduling::peer(stream));
        if whole && (*rank as usize) < size {
            table.members += usize::from(!table.has(*rank));
            table.note(*rank);
        }
    }
    if whole {
        table.note(me);
    }
    let members = if whole { table.members as u32 } else { 0 };
    for (_, stream) in &mut told {
        // Who has ended meanwhile needs no table.
        let _ = stream.write_all(&members.to_ne_bytes());
    }
    whole.then_some(table)
}

/// The cards of peers as the ranks of this node have got them.
pub struct Table {
    piece: Box<dyn SharedSegment>,
    /// Processes of the job.
    size: usize,
    /// Ranks that share memory with this one, itself among them.
    members: usize,
    /// Whether a rank that made it, or was told of it, is scheduled apart from this one.
    apart: bool,
}

/// A slot of the table, which this rank is to fill. If it is dropped empty another may try.
pub struct Slot<'a> {
    table: &'a Table,
    peer: Peer,
}

/// What the table has to say of a peer.
pub enum Found<'a> {
    /// Its card.
    Card(Vec<u8>),
    /// Nothing yet, and nobody else is asking.
    Vacant(Slot<'a>),
    /// Nothing.
    Nothing,
}

impl Table {
    /// Whether yielding the core does nothing for another rank of the node.
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// The number of ranks that share memory with this one, itself among them.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Whether a process shares memory with this one.
    pub fn has(&self, peer: Peer) -> bool {
        (peer as usize) < self.size && self.mark(peer).load(Ordering::Relaxed) != 0
    }

    fn note(&self, peer: Peer) {
        self.mark(peer).store(1, Ordering::Relaxed);
    }

    fn mark(&self, peer: Peer) -> &AtomicU8 {
        assert!((peer as usize) < self.size);
        let place = self
            .piece
            .as_ptr()
            .wrapping_add(self.size * SLOT + peer as usize);
        // SAFETY: the marks lie behind the slots, within the piece, which is mapped as long as `self` lives.
        unsafe { AtomicU8::from_ptr(place) }
    }

    fn place(&self, peer: Peer) -> *mut u8 {
        debug_assert!((peer as usize) < self.size);
        self.piece.as_ptr().wrapping_add(peer as usize * SLOT)
    }

    fn state(&self, peer: Peer) -> &AtomicU32 {
        // SAFETY: the place is within the piece, which is mapped and aligned to pages.
        unsafe { AtomicU32::from_ptr(self.place(peer).cast()) }
    }

    /// Looks a peer up; waits while another rank asks for it.
    pub fn find(&self, peer: Peer) -> Found<'_> {
        if peer as usize >= self.size {
            return Found::Nothing;
        }
        // Before it is touched, so that a lack of memory is no crash.
        if self.piece.reserve(peer as usize * SLOT, SLOT).is_err() {
            return Found::Nothing;
        }
        let state = self.state(peer);
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = state.compare_exchange(EMPTY, ASKING, Ordering::Acquire, Ordering::Acquire);
            match seen {
                Ok(_) => return Found::Vacant(Slot { table: self, peer }),
                Err(READY) => return self.card(peer).map_or(Found::Nothing, Found::Card),
                Err(_) if Instant::now() < until => thread::sleep(Duration::from_micros(20)),
                Err(_) => return Found::Nothing,
            }
        }
    }

    fn card(&self, peer: Peer) -> Option<Vec<u8>> {
        let place = self.place(peer);
        // SAFETY: the slot is within the piece and was filled before it became ready; nobody writes
        // to it any more. The length is checked before it is used.
        unsafe {
            let len = place.add(4).cast::<u32>().read() as usize;
            (len <= ROOM).then(|| std::slice::from_raw_parts(place.add(8), len).to_vec())
        }
    }
}

impl Slot<'_> {
    /// Fills the slot. A card that is too long is left out.
    pub fn fill(self, card: &[u8]) {
        if card.len() > ROOM {
            return;
        }
        let place = self.table.place(self.peer);
        // SAFETY: the slot is within the piece, and this rank alone fills it.
        unsafe {
            place.add(4).cast::<u32>().write(card.len() as u32);
            std::ptr::copy_nonoverlapping(card.as_ptr(), place.add(8), card.len());
        }
        self.table.state(self.peer).store(READY, Ordering::Release);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let state = self.table.state(self.peer);
        let _ = state.compare_exchange(ASKING, EMPTY, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    /// The tables of `ranks` ranks of a node, made at the same time.
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
    fn a_card_is_asked_for_once_per_node() {
        let job = format!("test-{}", std::process::id());
        let nodes = [tables(&job, 1, 8, 100), tables(&job, 2, 8, 100)];
        let asked = AtomicUsize::new(0);
        let look = |table: &Table, peer: Peer| match table.find(peer) {
            Found::Card(card) => assert_eq!(card, vec![peer as u8; 60 + peer as usize]),
            Found::Vacant(slot) => {
                asked.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
                slot.fill(&vec![peer as u8; 60 + peer as usize]);
            }
            Found::Nothing => panic!("no answer"),
        };
        thread::scope(|scope| {
            for table in nodes.iter().flatten() {
                scope.spawn(|| (0..20).for_each(|peer| look(table, peer)));
            }
        });
        assert_eq!(asked.into_inner(), 2 * 20);
        assert!(matches!(nodes[0][0].find(100), Found::Nothing));
    }

    #[test]
    fn members_know_each_other_and_nobody_else() {
        let job = format!("test-{}-c", std::process::id());
        for table in tables(&job, 1, 5, 9) {
            assert_eq!(table.members(), 5);
            assert!((0..9).all(|rank| table.has(rank) == (rank < 5)) && !table.has(9));
        }
    }

    #[test]
    fn one_that_cannot_open_the_table_leaves_none_to_any() {
        let job = format!("test-{}-d", std::process::id());
        let memory = &shmmod::SharedSegments;
        let maker = begin(&job, 1, (0, 3), memory).unwrap();
        let member = begin(&job, 1, (1, 3), memory).unwrap();
        let Begun::Told(mut refuser) = begin(&job, 1, (2, 3), memory).unwrap() else {
            panic!("a second maker");
        };
        // A stranger who says nothing is no member, and is not waited for.
        let _stranger = UnixStream::connect_addr(&address(&job, 1).unwrap()).unwrap();
        thread::scope(|scope| {
            let member = scope.spawn(|| member.finish((1, 3), memory).unwrap().is_none());
            scope.spawn(move || refuser.write_all(&[REFUSED]).unwrap());
            assert!(maker.finish((0, 3), memory).unwrap().is_none());
            assert!(member.join().unwrap());
        });
    }

    /// Runs `act` in a child process as the user `nobody` until it is dropped.
    struct Stranger(libc::pid_t);

    impl Stranger {
        /// `act` must make system calls only: the child is a copy of a process with several threads.
        fn new(mut act: impl FnMut()) -> Stranger {
            // SAFETY: the child only makes system calls.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: no memory is passed; the alarm ends the child should its parent die.
                let is_stranger = unsafe { libc::alarm(60) == 0 && libc::setuid(65534) == 0 };
                if is_stranger {
                    loop {
                        act();
                    }
                }
                // SAFETY: ends the child alone.
                unsafe { libc::_exit(1) };
            }
            assert!(child > 0);
            Stranger(child)
        }
    }

    impl Drop for Stranger {
        fn drop(&mut self) {
            // SAFETY: a child of this process that was not waited for.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }

    #[test]
    fn connections_of_strangers_do_not_hold_up_the_ranks() {
        if !weft_needs::MOUNTS.met() {
            return;
        }
        let job = format!("test-{}-flood", std::process::id());
        let at = address(&job, 1).unwrap();
        // Two that connect as fast as they can, and hold as many connections as they may.
        let strangers: Vec<Stranger> = (0..2)
            .map(|_| {
                let mut held = None;
                Stranger::new(|| match UnixStream::connect_addr(&at) {
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
        drop(strangers);
    }

    #[test]
    fn a_stranger_who_has_taken_the_name_feeds_nobody() {
        if !weft_needs::MOUNTS.met() {
            return;
        }
        let job = format!("test-{}-squat", std::process::id());
        let at = address(&job, 1).unwrap();
        let mut listener = None;
        let stranger = Stranger::new(|| {
            let listener = listener.get_or_insert_with(|| UnixListener::bind_addr(&at).unwrap());
            if let Ok((mut stream, _)) = listener.accept() {
                // The address of a table, bit by bit.
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
        drop(stranger);
    }

    #[test]
    fn who_gets_no_answer_lets_others_try_and_long_cards_stay_out() {
        let job = format!("test-{}-b", std::process::id());
        let tables = tables(&job, 1, 2, 4);
        assert!(matches!(tables[0].find(3), Found::Vacant(_)));
        let Found::Vacant(slot) = tables[1].find(3) else {
            panic!("the slot was given back");
        };
        // Somebody who never answers.
        assert!(matches!(tables[0].find(3), Found::Nothing));
        slot.fill(&[1; ROOM + 1]);
        let Found::Vacant(slot) = tables[0].find(3) else {
            panic!("nothing was kept");
        };
        slot.fill(&[1; ROOM]);
        assert!(matches!(tables[1].find(3), Found::Card(card) if card == [1; ROOM]));
    }
}
