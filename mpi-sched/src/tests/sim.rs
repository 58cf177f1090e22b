//! A simulation of ranks in one thread: messages and remote writes with seeded random delays, in
//! virtual time.

#![allow(unsafe_code, reason = "a port of the tests")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use crate::run::{Flag, Port, Progress, Put, Run, has_come};
use crate::schedule::{CAME, FREE, FREED, NODE, SENT, Step, slot_offset};
use crate::slots::THROUGH;
use mpi_types::datatype::Datatype;
use mpi_types::error::{Class, Error, Result};

/// The delays of messages.
#[derive(Clone, Copy, Debug)]
pub enum Network {
    /// Random delays, random order of ranks, sends at random buffered or only read when received.
    Random(u64),
    /// A rank sends one message at a time, each takes one unit; the rest costs nothing.
    OnePort,
}

/// The cost of a run of all ranks.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Time at which the last rank was done.
    pub time: u64,
    /// Time at which each rank was done with its last run.
    pub done: Vec<u64>,
    /// Messages that each rank sent.
    pub sent: Vec<u64>,
    /// Bytes that each rank sent.
    pub bytes: Vec<u64>,
    /// Writes of each rank to other ranks' memory.
    pub puts: Vec<u64>,
}

/// Bytes of data in a slot.
pub const ROOM: usize = 256;
/// Slots of a cell.
pub const DEPTH: u32 = 4;
/// Slots of an edge that are freed together.
const HALF: u64 = DEPTH as u64 / 2;
/// The number of the first phase, a multiple of [`DEPTH`]: numbers wrap after the twelfth.
pub const FIRST: u64 = u64::MAX - 11;

/// Bytes of a slot's memory, enough for tests with larger data.
const STRIDE: usize = 64 + 4096;

/// A remote write in flight: whether it goes to the writer's own memory (its data is already
/// there), target rank, cell, number, data.
type Write = (bool, u32, u32, u64, Vec<u8>);

/// A slot as a rank may see it: its flag appears late, its data with the flag.
#[derive(Clone)]
#[repr(C, align(64))]
struct SlotMemory([u8; STRIDE]);

#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(fastrand::Rng::with_seed(seed))
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }
}

type Channel = (u32, u32, u32);

enum Payload {
    Bytes(Vec<u8>),
    Later {
        buf: *const u8,
        count: usize,
        datatype: Datatype,
        request: usize,
    },
}

struct Posted {
    buf: *mut u8,
    count: usize,
    datatype: Datatype,
    request: usize,
}

enum State {
    Pending,
    Complete(Result<()>),
    Gone,
}

/// All messages and slots. Ranks are global here; each rank's port may number its peers
/// differently.
pub struct World {
    network: Network,
    rng: Rng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Channel)>>,
    sent: HashMap<Channel, VecDeque<(u64, Payload)>>,
    posted: HashMap<Channel, VecDeque<Posted>>,
    requests: Vec<State>,
    port_free: Vec<u64>,
    changes: u64,
    cost: Cost,
    /// All slots, by rank, cell and index in the ring.
    slots: Vec<SlotMemory>,
    cells: usize,
    /// Slots of each cell's ring, and the largest of them.
    rings: Vec<u32>,
    most: u32,
    flags: Vec<u64>,
    /// For each rank, the chunk up to which slots of the next rank are free.
    freed: Vec<u64>,
    /// Writes by arrival time, then in the order sent.
    writes: BTreeMap<(u64, u64), Write>,
    /// Arrival time of the last write from one rank to another.
    last_write: HashMap<(u32, u32), u64>,
    written: u64,
}

struct SimPort<'a> {
    world: &'a mut World,
    rank: u32,
    /// Maps a peer number to its rank in the world.
    peers: &'a dyn Fn(u32, u32) -> u32,
    /// The world's ranks of a node, by their numbers in cells [`NODE`].
    node: &'a [u32],
}

impl SimPort<'_> {
    /// Returns whether the slot of a chunk sent to the next rank is free. Polls each flag by its
    /// number, as over a network: a flag may free one half only.
    fn is_free(&mut self, number: u64) -> bool {
        let rank = self.rank;
        loop {
            let freed = self.world.freed[rank as usize];
            if has_come(freed, number) {
                return true;
            }
            let next = freed.wrapping_add(HALF);
            if self.world.flags[self.world.place(rank, FREED, next)] != next {
                return false;
            }
            self.world.freed[rank as usize] = next;
        }
    }

    /// Returns the rank that owns the slots.
    fn owner(&self, of: u32, cell: u32) -> u32 {
        match cell {
            NODE => self.node[of as usize],
            _ => (self.peers)(self.rank, of),
        }
    }
}

fn packed(buf: *const u8, count: usize, datatype: &Datatype) -> Vec<u8> {
    let mut bytes = vec![0; count * datatype.size()];
    if !bytes.is_empty() {
        // SAFETY: by contract of isend the elements are readable.
        unsafe { datatype.pack(buf, count, 0, &mut bytes) };
    }
    bytes
}

impl World {
    fn deliver(&mut self, channel: Channel) {
        loop {
            let Some(queue) = self.sent.get_mut(&channel) else {
                return;
            };
            let Some(receives) = self.posted.get_mut(&channel) else {
                return;
            };
            if receives.is_empty() || queue.front().is_none_or(|m| m.0 > self.now) {
                return;
            }
            let (_, payload) = queue.pop_front().unwrap();
            let receive = receives.pop_front().unwrap();
            let bytes = match payload {
                Payload::Bytes(bytes) => bytes,
                Payload::Later {
                    buf,
                    count,
                    datatype,
                    request,
                } => {
                    self.requests[request] = State::Complete(Ok(()));
                    packed(buf, count, &datatype)
                }
            };
            let room = receive.count * receive.datatype.size();
            let fits = bytes.len().min(room);
            if fits > 0 {
                let (buf, count) = (receive.buf, receive.count);
                // SAFETY: by contract of irecv the elements are writable.
                unsafe { receive.datatype.unpack(buf, count, 0, &bytes[..fits]) };
            }
            let result = match bytes.len() > room {
                true => Err(Error::new(Class::Truncate, "too long")),
                false => Ok(()),
            };
            self.requests[receive.request] = State::Complete(result);
            self.changes += 1;
        }
    }

    fn place(&self, of: u32, cell: u32, number: u64) -> usize {
        // Cells of edges and nodes come last.
        let cell = match cell {
            NODE => self.cells as u32 - 1,
            SENT | CAME => self.cells as u32 - 2,
            FREE | FREED => self.cells as u32 - 3,
            _ => cell,
        };
        assert!((cell as usize) < self.cells);
        let ring = self.rings[cell as usize];
        let cell = of as usize * self.cells + cell as usize;
        cell * self.most as usize + number as usize % ring as usize
    }

    /// Performs the writes that have arrived.
    fn land(&mut self) {
        while let Some(entry) = self.writes.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (own, to, cell, number, data) = entry.remove();
            let place = self.place(to, cell, number);
            let slot = &mut self.slots[place].0;
            slot[8..16].copy_from_slice(&(data.len() as u64).to_ne_bytes());
            if !own {
                let at = slot_offset(data.len()) as usize;
                slot[at..at + data.len()].copy_from_slice(&data);
            }
            assert!(!has_come(self.flags[place], number), "a flag goes down");
            self.flags[place] = number;
            self.changes += 1;
        }
    }

    fn request(&mut self, state: State) -> usize {
        self.requests.push(state);
        self.changes += 1;
        self.requests.len() - 1
    }
}

impl Port for SimPort<'_> {
    type Req = usize;

    unsafe fn isend(
        &mut self,
        buf: *const u8,
        count: usize,
        datatype: &Datatype,
        to: u32,
        tag: u32,
    ) -> Result<usize> {
        let channel = (self.rank, (self.peers)(self.rank, to), tag);
        let world = &mut *self.world;
        let from = self.rank as usize;
        world.cost.sent[from] += 1;
        world.cost.bytes[from] += (count * datatype.size()) as u64;
        let mut due = match world.network {
            Network::Random(_) => world.now + world.rng.below(20),
            Network::OnePort => {
                let free = world.port_free[from].max(world.now) + 1;
                world.port_free[from] = free;
                free
            }
        };
        let queue = world.sent.entry(channel).or_default();
        if let Some(last) = queue.back() {
            due = due.max(last.0);
        }
        let buffered = matches!(world.network, Network::OnePort) || world.rng.below(2) == 0;
        let request = world.request(State::Pending);
        let payload = if buffered {
            world.requests[request] = State::Complete(Ok(()));
            Payload::Bytes(packed(buf, count, datatype))
        } else {
            let datatype = datatype.clone();
            Payload::Later {
                buf,
                count,
                datatype,
                request,
            }
        };
        world
            .sent
            .get_mut(&channel)
            .unwrap()
            .push_back((due, payload));
        world.events.push(Reverse((due, channel)));
        Ok(request)
    }

    unsafe fn irecv(
        &mut self,
        buf: *mut u8,
        count: usize,
        datatype: &Datatype,
        from: u32,
        tag: u32,
    ) -> Result<usize> {
        let channel = ((self.peers)(self.rank, from), self.rank, tag);
        let request = self.world.request(State::Pending);
        let posted = Posted {
            buf,
            count,
            datatype: datatype.clone(),
            request,
        };
        let queue = self.world.posted.entry(channel).or_default();
        queue.push_back(posted);
        self.world.deliver(channel);
        Ok(request)
    }

    fn test(&mut self, request: usize) -> Result<bool> {
        match std::mem::replace(&mut self.world.requests[request], State::Gone) {
            State::Pending => {
                self.world.requests[request] = State::Pending;
                Ok(false)
            }
            State::Complete(result) => {
                self.world.changes += 1;
                result.map(|()| true)
            }
            State::Gone => panic!("a request was tested after it was gone"),
        }
    }

    unsafe fn put(
        &mut self,
        to: u32,
        cell: u32,
        number: u64,
        data: *const u8,
        len: usize,
    ) -> Result<Put<usize>> {
        if cell == FREE && !number.wrapping_add(1).is_multiple_of(HALF) {
            return Ok(Put::Done);
        }
        let (from, to) = (self.rank, self.owner(to, cell));
        let world = &mut *self.world;
        if from != to {
            world.cost.puts[from as usize] += 1;
            world.cost.bytes[from as usize] += len as u64;
        }
        let mut due = match world.network {
            Network::Random(_) => world.now + world.rng.below(20),
            // Other ranks read the flag in this rank's memory: one step, like a message.
            Network::OnePort => {
                let free = world.port_free[from as usize].max(world.now) + 1;
                world.port_free[from as usize] = free;
                free
            }
        };
        let last = world.last_write.entry((from, to)).or_default();
        due = due.max(*last);
        *last = due;
        let data = match len {
            0 => Vec::new(),
            _ if from == to => vec![0; len],
            // SAFETY: by contract the bytes are readable.
            _ => unsafe { std::slice::from_raw_parts(data, len) }.to_vec(),
        };
        world.written += 1;
        world
            .writes
            .insert((due, world.written), (from == to, to, cell, number, data));
        world.changes += 1;
        Ok(Put::Done)
    }

    fn is_up(&mut self, of: u32, cell: u32, number: u64, _call: bool) -> Flag {
        let place = self.world.place(self.owner(of, cell), cell, number);
        let flag = self.world.flags[place];
        let up = match cell {
            FREED => self.is_free(number),
            _ => has_come(flag, number),
        };
        match up {
            true => Flag::Up,
            false => Flag::Down,
        }
    }

    fn disagreement(&mut self, of: u32, number: u64) -> Result<Error> {
        panic!("rank {of} was not asked about phase {number}");
    }

    unsafe fn direct(
        &mut self,
        _of: u32,
        write: bool,
        local: *mut u8,
        len: usize,
        remote: u64,
    ) -> Result<()> {
        let there = std::ptr::with_exposed_provenance_mut::<u8>(remote as usize);
        // SAFETY: all ranks are in one process; the bytes were lent.
        unsafe {
            match write {
                true => std::ptr::copy_nonoverlapping(local, there, len),
                false => std::ptr::copy_nonoverlapping(there, local, len),
            }
        }
        self.world.changes += 1;
        Ok(())
    }

    fn own_slot(&self, number: u64, offset: isize) -> *mut u8 {
        let place = self.world.place(self.rank, 0, number);
        let slot = self.world.slots[place].0.as_ptr().cast_mut();
        slot.wrapping_offset(offset)
    }

    fn length(&self, of: u32, cell: u32, number: u64) -> Option<usize> {
        let place = self.world.place(self.owner(of, cell), cell, number);
        let bytes = self.world.slots[place].0[8..16].try_into().unwrap();
        Some(u64::from_ne_bytes(bytes) as usize)
    }

    fn slot(&self, of: u32, cell: u32, number: u64, offset: isize) -> *mut u8 {
        let place = self.world.place(self.owner(of, cell), cell, number);
        let slot = self.world.slots[place].0.as_ptr().cast_mut();
        slot.wrapping_offset(offset)
    }
}

/// Executes all started runs (of rank 0, 1, …; several per rank overlap) to completion.
pub fn run_all(
    runs: &mut [Vec<Run<usize>>],
    network: Network,
    peers: &dyn Fn(u32, u32) -> u32,
) -> (Cost, Vec<Result<()>>) {
    run_late(runs, network, peers, &|_| DEPTH, None)
}

/// Executes all runs; with a late rank, every rank executes its runs one after the other, and the
/// late one slowly.
pub fn run_late(
    runs: &mut [Vec<Run<usize>>],
    network: Network,
    peers: &dyn Fn(u32, u32) -> u32,
    rings: &dyn Fn(u32) -> u32,
    late: Option<usize>,
) -> (Cost, Vec<Result<()>>) {
    run_telling(runs, network, peers, rings, late, &mut |_, _| None)
}

/// Executes all runs like [`run_late`]; after each run, `through` returns the last phase up to
/// which the rank has completed all of them, for its [`THROUGH`] flag.
pub fn run_telling(
    runs: &mut [Vec<Run<usize>>],
    network: Network,
    peers: &dyn Fn(u32, u32) -> u32,
    rings: &dyn Fn(u32) -> u32,
    late: Option<usize>,
    through: &mut dyn FnMut(usize, usize) -> Option<u64>,
) -> (Cost, Vec<Result<()>>) {
    let size = runs.len();
    let used = runs.iter().flatten().flat_map(|run| run.schedule().steps());
    let cells = used.filter_map(|step| match step {
        Step::Put { slot, .. } => Some(slot.cell),
        Step::Await { cell, .. } => Some(*cell),
        _ => None,
    });
    let cells: Vec<u32> = cells.collect();
    let flat = cells.iter().filter(|cell| **cell < FREED).max();
    let mut rings: Vec<u32> = (0..flat.map_or(0, |last| last + 1)).map(rings).collect();
    let edges = cells.iter().any(|cell| *cell >= FREED);
    rings.extend(vec![DEPTH; if edges { 3 } else { 0 }]);
    let cells = rings.len();
    let most = rings.iter().copied().max().unwrap_or(0);
    let slots = size * cells * most as usize;
    let seed = match network {
        Network::Random(seed) => seed,
        Network::OnePort => 0,
    };
    let mut world = World {
        network,
        rng: Rng::new(seed),
        now: 0,
        events: BinaryHeap::new(),
        sent: HashMap::new(),
        posted: HashMap::new(),
        requests: Vec::new(),
        port_free: vec![0; size],
        changes: 0,
        cost: Cost {
            time: 0,
            done: vec![0; size],
            sent: vec![0; size],
            bytes: vec![0; size],
            puts: vec![0; size],
        },
        slots: vec![SlotMemory([0; STRIDE]); slots],
        cells,
        rings,
        most,
        flags: vec![FIRST.wrapping_sub(1); slots],
        freed: vec![FIRST.wrapping_sub(1); size],
        writes: BTreeMap::new(),
        last_write: HashMap::new(),
        written: 0,
    };
    let mut turn = vec![0; size];
    let mut results: Vec<Result<()>> = (0..size).map(|_| Ok(())).collect();
    let mut active: Vec<(usize, usize)> = Vec::new();
    for (rank, list) in runs.iter().enumerate() {
        let first = if late.is_some() { 1 } else { usize::MAX };
        active.extend((0..list.len()).take(first).map(|i| (rank, i)));
    }
    while !active.is_empty() {
        let before = world.changes;
        if let Network::Random(_) = network {
            for i in (1..active.len()).rev() {
                active.swap(i, world.rng.below(i as u64 + 1) as usize);
            }
        }
        let (mut asleep, mut finished) = (false, Vec::new());
        active.retain(|&(rank, i)| {
            if late == Some(rank) && world.rng.below(40) > 0 {
                asleep = true;
                return true;
            }
            let node = runs[rank][i].schedule().node().to_vec();
            let mut port = SimPort {
                world: &mut world,
                rank: rank as u32,
                peers,
                node: &node,
            };
            let progress = runs[rank][i].advance(&mut port);
            port.world.cost.done[rank] = port.world.now;
            if !matches!(progress, Ok(Progress::Pending)) {
                if let Some(number) = through(rank, i) {
                    let own = rank as u32;
                    // SAFETY: there is no data.
                    let told = unsafe { port.put(own, THROUGH, number, std::ptr::null(), 0) };
                    assert_eq!(told.unwrap(), Put::Done);
                }
                finished.push(rank);
                world.changes += 1;
            }
            match progress {
                Ok(Progress::Pending) => true,
                Ok(Progress::Done) => false,
                Err(error) => {
                    results[rank] = Err(error);
                    false
                }
            }
        });
        for rank in finished {
            turn[rank] += 1;
            if late.is_some() && turn[rank] < runs[rank].len() {
                active.push((rank, turn[rank]));
            }
        }
        if world.changes != before || active.is_empty() {
            continue;
        }
        let message = world.events.peek().map(|event| event.0.0);
        let write = world.writes.first_key_value().map(|write| write.0.0);
        if let Some(write) = write.filter(|write| message.is_none_or(|message| *write <= message)) {
            world.now = world.now.max(write);
            world.land();
            if world
                .events
                .peek()
                .is_none_or(|event| event.0.0 > world.now)
            {
                continue;
            }
        }
        if asleep && world.events.is_empty() {
            continue;
        }
        let Some(Reverse((time, channel))) = world.events.pop() else {
            let stuck: BTreeMap<_, _> = active.iter().map(|&at| (at, &runs[at.0][at.1])).collect();
            panic!("deadlock in {network:?} at {}: {stuck:#?}", world.now);
        };
        world.now = world.now.max(time);
        world.deliver(channel);
        // Delivers everything that arrives at this time: ranks do not poll in between.
        while let Some(&Reverse((time, channel))) = world.events.peek() {
            if time > world.now {
                break;
            }
            world.events.pop();
            world.deliver(channel);
        }
    }
    world.cost.time = world.now;
    let left: usize = world.sent.values().map(VecDeque::len).sum();
    if results.iter().all(Result::is_ok) {
        assert_eq!(left, 0, "messages that nobody received");
        for (channel, queue) in &world.posted {
            assert!(queue.is_empty(), "receive without message: {channel:?}");
        }
    }
    (world.cost, results)
}
