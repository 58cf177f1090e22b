//! Ranks in one thread, over messages whose delays come from a seed, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use super::run::{Port, Progress, Run};
use crate::datatype::Datatype;
use crate::error::{Class, Error, Result};

/// How long messages take.
#[derive(Clone, Copy, Debug)]
pub enum Network {
    /// Random delays, random order of ranks, sends at random buffered or only read when received.
    Random(u64),
    /// A rank sends one message at a time, each takes one unit; the rest costs nothing.
    OnePort,
}

/// What a run of all ranks cost.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// When the last rank was done.
    pub time: u64,
    /// When each rank was done with its last run.
    pub done: Vec<u64>,
    /// Messages that each rank sent.
    pub sent: Vec<u64>,
    /// Bytes that each rank sent.
    pub bytes: Vec<u64>,
}

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        rng.below(2);
        rng.below(2);
        rng
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
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

/// All messages. Ranks are global here; each rank's port may number its peers otherwise.
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
}

struct SimPort<'a> {
    world: &'a mut World,
    rank: u32,
    /// Peer number → rank in the world.
    peers: &'a dyn Fn(u32, u32) -> u32,
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
}

/// Runs all started runs (of rank 0, 1, …; several per rank overlap) to their ends.
pub fn run_all(
    runs: &mut [Vec<Run<usize>>],
    network: Network,
    peers: &dyn Fn(u32, u32) -> u32,
) -> (Cost, Vec<Result<()>>) {
    let size = runs.len();
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
        },
    };
    let mut results: Vec<Result<()>> = (0..size).map(|_| Ok(())).collect();
    let mut active: Vec<(usize, usize)> = Vec::new();
    for (rank, list) in runs.iter().enumerate() {
        active.extend((0..list.len()).map(|i| (rank, i)));
    }
    while !active.is_empty() {
        let before = world.changes;
        if let Network::Random(_) = network {
            for i in (1..active.len()).rev() {
                active.swap(i, world.rng.below(i as u64 + 1) as usize);
            }
        }
        active.retain(|&(rank, i)| {
            let mut port = SimPort {
                world: &mut world,
                rank: rank as u32,
                peers,
            };
            let progress = runs[rank][i].advance(&mut port);
            world.cost.done[rank] = world.now;
            match progress {
                Ok(Progress::Pending) => true,
                Ok(Progress::Done) => false,
                Err(error) => {
                    results[rank] = Err(error);
                    false
                }
            }
        });
        if world.changes != before || active.is_empty() {
            continue;
        }
        let Some(Reverse((time, channel))) = world.events.pop() else {
            let stuck: BTreeMap<_, _> = active.iter().map(|&at| (at, &runs[at.0][at.1])).collect();
            panic!("deadlock in {network:?} at {}: {stuck:#?}", world.now);
        };
        world.now = world.now.max(time);
        world.deliver(channel);
        // All that arrives at this time: ranks don't look in between.
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
