//! A table that the ranks of a node have in common, so that a peer's card is asked of the launcher once
//! per node.
//!
//! It is anonymous shared memory, made by whoever of the ranks is first to listen on a socket whose
//! name is the job's and the node's. The others connect, and are told how to open it once all have
//! published their cards. Sockets of abstract names end with their process, so that nothing is left
//! behind. Where any of this fails the ranks ask for themselves.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netmod::{Peer, RemoteKey, SharedMemory, SharedSegment};

use crate::scheduling;

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

/// How long to wait to be told of the table. It is told as soon as its maker has passed the fence.
const TELLING: Duration = Duration::from_secs(1);

/// On the way to a table, before the fence.
pub enum Begun {
    /// This rank has made it.
    Made(UnixListener, Box<dyn SharedSegment>),
    /// This rank will be told of it.
    Told(UnixStream),
}

fn address(job: &str, node: u64) -> Option<SocketAddr> {
    let mut hasher = DefaultHasher::new();
    (job, node).hash(&mut hasher);
    SocketAddr::from_abstract_name(format!("weft-{:016x}", hasher.finish())).ok()
}

/// Before the fence: finds who makes the table of a job of so many processes.
pub fn begin(job: &str, node: u64, size: usize, memory: &dyn SharedMemory) -> Option<Begun> {
    let address = address(job, node)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => {
                let piece = memory.create(size.checked_mul(SLOT)?).ok()?;
                return Some(Begun::Made(listener, piece));
            }
            Err(error) if error.kind() != ErrorKind::AddrInUse => return None,
            Err(_) => {}
        }
        match UnixStream::connect_addr(&address) {
            Ok(stream) => return Some(Begun::Told(stream)),
            // It has a name, but does not listen yet.
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_micros(100)),
            Err(_) => return None,
        }
    }
}

impl Begun {
    /// After the fence, when all ranks of the node have begun.
    pub fn finish(self, size: usize, memory: &dyn SharedMemory) -> Option<Table> {
        let (piece, apart) = match self {
            Begun::Made(listener, piece) => {
                let apart = tell(&listener, &piece.key());
                (piece, apart)
            }
            Begun::Told(mut stream) => {
                let mut bytes = [0; 24];
                stream.set_read_timeout(Some(TELLING)).ok()?;
                stream.read_exact(&mut bytes).ok()?;
                let word = |i: usize| {
                    let bytes = bytes[8 * i..8 * i + 8].try_into();
                    bytes.map_or(0, u64::from_ne_bytes)
                };
                let key = RemoteKey {
                    address: word(0),
                    words: [word(1), word(2)],
                };
                let piece = memory.open(&key, size.checked_mul(SLOT)?).ok()?;
                (piece, scheduling::is_apart(scheduling::peer(&stream)))
            }
        };
        Some(Table { piece, size, apart })
    }
}

/// Tells all who have connected. They have done so before the fence, so nobody is waited for. Returns
/// whether one of them is scheduled apart from this process.
fn tell(listener: &UnixListener, key: &RemoteKey) -> bool {
    let words = [key.address, key.words[0], key.words[1]];
    let bytes = words.map(u64::to_ne_bytes).concat();
    let mut apart = false;
    if listener.set_nonblocking(true).is_err() {
        return apart;
    }
    while let Ok((mut stream, _)) = listener.accept() {
        apart = apart || scheduling::is_apart(scheduling::peer(&stream));
        // Who has ended meanwhile needs no table.
        let _ = stream.write_all(&bytes);
    }
    apart
}

/// The cards of peers as the ranks of this node have got them.
pub struct Table {
    piece: Box<dyn SharedSegment>,
    /// Processes of the job.
    size: usize,
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
            let rank = || {
                fence.wait();
                let begun = begin(job, node, size, &shmmod::SharedSegments).unwrap();
                fence.wait();
                begun.finish(size, &shmmod::SharedSegments).unwrap()
            };
            let threads: Vec<_> = (0..ranks).map(|_| scope.spawn(rank)).collect();
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
