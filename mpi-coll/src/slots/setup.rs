//! Creation of a communicator's slots, by all members together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netmod::{OpenError, RemoteKey, SharedMemory, SharedSegment, Signals, Transport};
use parking_lot::Mutex;

use crate::exec::exchange::{broadcast_u64, gather_all_u64};
use crate::nonblocking::in_slots::NonblockingSlots;
use crate::plan::registration::{Collectives, choices};
use crate::plan::state::CommState;
use crate::slots::network::{self, AwaitedPeers, Memory, NetworkSlots, SIGNAL_LINE};
use crate::slots::share::Share;
use crate::slots::shared::{self, Ring, SharedSlots};
use mpi_core::comm::{Comm, cma};
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_sched::costs::{Network, Quick};
use mpi_sched::model::GUESSED;
use mpi_sched::rdma::{self, Pace};
use mpi_sched::slots::Direct;
use mpi_sched::{Choices, Nodes, Reach, Team};
use netmod_kit::event;

/// Makes the slots of a communicator that are due.
#[cold]
pub(crate) fn make_slots(process: &Process, comm: &Comm, state: &CommState) -> Result<()> {
    if !state.has_tried_slots() {
        let shared = shared(process, comm)?;
        let (remote, node) = match shared {
            Some(_) => (None, None),
            None => network(process, comm, state)?,
        };
        event!(
            Coll,
            Info,
            "slots of {:?}: in shared memory {}, over a network {}, of the node {}",
            comm.context(),
            shared.is_some(),
            remote.is_some(),
            node.is_some()
        );
        state.set_network_slots(remote, node);
        state.set_shared_slots(shared);
    }
    if state.is_time_for_nonblocking_slots() {
        let nonblocking = match state.shared_slots() {
            Some(shared) => nonblocking(process, comm, shared)?,
            None => None,
        };
        state.set_nonblocking_slots(nonblocking);
    }
    Ok(())
}

/// Makes what `team` shares of one node's memory, of which each member has `own` bytes, and which
/// `make` makes of the segment. `None` for `own`: this team can't have it.
///
/// Collective over the communicator, whose members are in one team each; `None` on all members of a
/// team of which one fails.
fn common<T>(
    process: &Process,
    comm: &Comm,
    team: Team<'_>,
    own: Option<usize>,
    make: impl FnOnce(Box<dyn SharedSegment>) -> Option<T>,
) -> Result<Option<T>> {
    let memory = process.shared_memory().zip(own);
    let mut made = None;
    let mut key = [0; 4];
    if let (0, Some((memory, own))) = (team.rank, memory)
        && let Ok(piece) = memory.create(own * team.size())
    {
        let RemoteKey { address, words } = piece.key();
        key = [1, address, words[0], words[1]];
        made = Some(piece);
    }
    let keys = gather_all_u64(process, comm, key)?;
    let [is_made, address, words @ ..] = keys[team.peer(0) as usize];
    if let (None, 1, Some((memory, own))) = (&made, is_made, memory) {
        let key = RemoteKey { address, words };
        made = memory.open(&key, own * team.size()).ok();
    }
    let is_committed = |piece: &dyn SharedSegment| {
        memory.is_some_and(|(memory, own)| commit(&**memory, piece, team, own).is_ok())
    };
    let made = made.filter(|piece| is_committed(&**piece)).and_then(make);
    let ready = gather_all_u64(process, comm, [u64::from(made.is_some())])?;
    let all = (0..team.size()).all(|member| ready[team.peer(member) as usize][0] != 0);
    Ok(made.filter(|_| all))
}

/// Commits a member's `own` bytes of a team's segment, unless they can be committed at first touch.
/// (Committing all costs a microsecond per page, and many communicators use only the first pages of
/// their slots.)
fn commit(
    memory: &dyn SharedMemory,
    piece: &dyn SharedSegment,
    team: Team<'_>,
    own: usize,
) -> std::result::Result<(), OpenError> {
    match memory.commits_lazily(own * team.size())? {
        true => Ok(()),
        false => piece.reserve(own * team.rank, own),
    }
}

/// Returns all members of a communicator.
fn all_members(comm: &Comm) -> Team<'static> {
    Team::all(comm.rank(), comm.size())
}

/// Makes the slots of an intracommunicator in shared memory. Collective; `None` on all members if
/// they can't all share memory.
fn shared(process: &Process, comm: &Comm) -> Result<Option<SharedSlots>> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut peers = (0..size).map(|rank| comm.local().peer(rank));
    let local = peers.all(|peer| peer == process.me() || process.is_local(peer));
    let memory = process.shared_memory();
    let share = Share::take(&process.source::<Collectives>().with_slots);
    let able =
        local && memory.is_some() && (2..=shared::MAX_RANKS).contains(&size) && share.is_some();
    // Other members read it to learn whether they can copy from this process's memory.
    let probe = Box::new(AtomicU64::new(0));
    let probe_at = (&raw const *probe).expose_provenance() as u64;
    let gathered = gather_all_u64(process, comm, [u64::from(able), probe_at])?;
    let probes: Vec<u64> = gathered.iter().map(|member| member[1]).collect();
    let (Some(memory), Some(share), true) =
        (memory, share, gathered.iter().all(|able| able[0] != 0))
    else {
        return Ok(None);
    };
    let ring = Ring::of(size);
    let make = |piece| Some(SharedSlots::over(piece, rank, size, ring, share));
    let mut shared = common(process, comm, all_members(comm), Some(ring.bytes()), make)?;
    let can_copy = (0..size).all(|of| cma::can_copy(process, comm, of, probes[of as usize]));
    let direct = match can_copy {
        true if memory.prefers_direct_copy() => Direct::Quicker,
        true => Direct::Possible,
        false => Direct::No,
    };
    let crowded = u64::from(process.is_oversubscribed());
    let gathered = gather_all_u64(process, comm, [direct as u64, crowded])?;
    if let Some(shared) = &mut shared {
        let direct = agreed(gathered.iter().map(|known| known[0]));
        shared.settle(direct, gathered.iter().any(|known| known[1] != 0));
    }
    Ok(shared)
}

/// Returns what all members can do, by each one's [`Direct`] as a number.
fn agreed(members: impl Iterator<Item = u64>) -> Direct {
    let least = members.min().unwrap_or_default();
    [Direct::Quicker, Direct::Possible]
        .into_iter()
        .find(|direct| *direct as u64 <= least)
        .unwrap_or(Direct::No)
}

/// Makes slots for one persistent collective of an intracommunicator that has slots for blocking
/// ones.
///
/// Collective; `None` on all members if they can't all have them. `ring`: the slots' layout.
pub(crate) fn persistent(
    process: &Process,
    comm: &Comm,
    shared: &SharedSlots,
    ring: Ring,
    share: Option<Share>,
) -> Result<Option<SharedSlots>> {
    let (rank, size) = (comm.rank(), comm.size());
    let make = |piece| Some(SharedSlots::over(piece, rank, size, ring, share?));
    let mut own = common(process, comm, all_members(comm), Some(ring.bytes()), make)?;
    if let Some(own) = &mut own {
        own.settle(shared.slots.direct, shared.slots.crowded);
    }
    Ok(own)
}

/// Makes slots for nonblocking collectives of an intracommunicator that has slots for blocking
/// ones. Collective; `None` on all members if they can't all have them.
fn nonblocking(
    process: &Process,
    comm: &Comm,
    shared: &SharedSlots,
) -> Result<Option<NonblockingSlots>> {
    let own = NonblockingSlots::bytes_of_rank(comm.size());
    let make = |piece| Some(NonblockingSlots::over(piece, shared.slots));
    let nonblocking = common(process, comm, all_members(comm), Some(own), make)?;
    if let Some(nonblocking) = &nonblocking {
        nonblocking.ring.seal();
    }
    Ok(nonblocking)
}

/// Makes the slots of an intracommunicator on several nodes. Collective.
///
/// Either all ranks get slots, if they can write to each other's memory over one network; or the
/// nodes' leaders get those, and each node's ranks share slots beside them. `None` on ranks without
/// slots.
fn network(
    process: &Process,
    comm: &Comm,
    state: &CommState,
) -> Result<(Option<NetworkSlots>, Option<SharedSlots>)> {
    let own = state.choices();
    let choices = own.as_deref().unwrap_or(choices(process));
    let writes = choices.wants_writes(true);
    if writes {
        let all = Writers {
            number: Some(comm.rank()),
            count: comm.size(),
            ranks: None,
        };
        let slots = writers_slots(process, comm, choices, &all)?;
        if slots.is_some() {
            return Ok((slots, None));
        }
    }
    let nodes = find_nodes(process, comm)?;
    if nodes.largest() == 1 {
        state.set_single_rank_nodes();
    }
    if nodes.largest() == 1 || nodes.count() == 1 {
        return Ok((None, None)); // on all ranks
    }
    let nodes = state.set_nodes(nodes);
    let node = match choices.wants_slots() {
        true => node_slots(process, comm, nodes)?,
        false => None, // on all ranks
    };
    if !writes {
        return Ok((None, node)); // on all ranks
    }
    let leaders = Writers {
        number: nodes.leaders().map(|leaders| leaders.rank as u32),
        count: nodes.count() as u32,
        ranks: Some(nodes.leader_ranks()),
    };
    Ok((writers_slots(process, comm, choices, &leaders)?, node))
}

/// Makes the slots of each node's ranks. Collective over the communicator; `None` on all ranks of a
/// node that can't all have them.
fn node_slots(process: &Process, comm: &Comm, nodes: &Nodes) -> Result<Option<SharedSlots>> {
    let node = nodes.node();
    let (place, size) = (node.rank as u32, node.size() as u32);
    let possible = (2..=shared::MAX_RANKS).contains(&size) && comm.endpoint_table().is_none();
    let share = Share::take(&process.source::<Collectives>().with_slots);
    let ring = Ring::of(size);
    let make = |piece| {
        let mut slots = SharedSlots::over(piece, place, size, ring, share?);
        slots.set_comm_ranks((0..node.size()).map(|place| node.peer(place)).collect());
        Some(slots)
    };
    let mut slots = common(process, comm, node, possible.then(|| ring.bytes()), make)?;
    if let Some(slots) = &mut slots {
        slots.settle(Direct::No, false);
    }
    Ok(slots)
}

/// Finds the ranks that share nodes, since launchers don't always name them.
fn find_nodes(process: &Process, comm: &Comm) -> Result<Nodes> {
    let is_here = |rank: &u32| {
        let peer = comm.local().peer(*rank);
        peer == process.me() || process.is_local(peer)
    };
    let first = (0..comm.size()).find(is_here).unwrap_or(comm.rank());
    let firsts = gather_all_u64(process, comm, [u64::from(first)])?;
    let node_of: Vec<u32> = firsts.iter().map(|first| first[0] as u32).collect();
    Ok(Nodes::new(comm.rank(), &node_of))
}

/// The ranks of a communicator that write to each other's memory.
struct Writers<'a> {
    /// This rank's number among them, if it is one.
    number: Option<u32>,
    count: u32,
    /// Their ranks, if they aren't all.
    ranks: Option<&'a [u32]>,
}

impl Writers<'_> {
    fn rank(&self, number: u32) -> u32 {
        match self.ranks {
            None => number,
            Some(ranks) => ranks[number as usize],
        }
    }
}

/// A rank's prepared resources for slots over a network.
struct Prepared {
    transport: Arc<dyn Transport>,
    signals: Signals,
    memory: Memory,
    exposed: RemoteKey,
    share: Share,
}

/// A transport by which this rank can write to all others, and the limits of its writes.
type WriteTransport = (Arc<dyn Transport>, Signals);

fn write_transport(
    process: &Process,
    comm: &Comm,
    writers: &Writers<'_>,
) -> Option<WriteTransport> {
    let number = writers.number?;
    let others = (0..writers.count).filter(|other| *other != number);
    let peers = others.map(|other| comm.local().peer(writers.rank(other)));
    let transport = process.common_transport(peers)?;
    let signals = transport.limits().signals?;
    Some((transport, signals))
}

/// Prepares this rank's resources, if it can.
fn prepare(
    process: &Process,
    comm: &Comm,
    (transport, signals): WriteTransport,
    writers: &Writers<'_>,
) -> Option<(Prepared, Reach)> {
    let number = writers.number?;
    let share = Share::take(&process.source::<Collectives>().with_slots);
    let reach = Reach {
        rank: number,
        size: writers.count,
        room: signals.max_data.min(network::MAX_ROOM) & !63,
        depth: network::DEPTH,
    };
    let possible = (2..=network::MAX_RANKS).contains(&reach.size)
        && comm.endpoint_table().is_none()
        && reach.room >= network::MIN_ROOM;
    let (share, true) = (share?, possible) else {
        return None;
    };
    let memory = Memory::new(reach.memory())?;
    // SAFETY: dropping `NetworkSlots` withdraws the exposure before it frees the memory, and so
    // does `writers_slots` if no slots are made.
    let exposed = unsafe { transport.expose(memory.base, reach.memory()) }.ok()?;
    let ready = Prepared {
        transport,
        signals,
        memory,
        exposed,
        share,
    };
    Some((ready, reach))
}

/// Makes slots of these ranks. Collective over the communicator; `None` on all of these ranks if
/// they can't all have them.
fn writers_slots(
    process: &Process,
    comm: &Comm,
    choices: &Choices,
    writers: &Writers<'_>,
) -> Result<Option<NetworkSlots>> {
    // Decided before anything is made: memory would have to be zeroed.
    let transport = write_transport(process, comm, writers);
    let known = transport
        .as_ref()
        .map(|(transport, signals)| choices.network(transport.name(), signals.faster_up_to));
    let network = network_of_first(process, comm, known)?;
    if !choices.wants_writes(network.quick.is_any()) {
        return Ok(None); // on all ranks
    }
    let made = transport.and_then(|transport| prepare(process, comm, transport, writers));
    let own = match &made {
        Some((ready, reach)) => {
            let quick = ready.signals.faster_up_to;
            let name = ready.transport.name().bytes().fold(
                reach.room as u64 ^ quick.map_or(0, |quick| quick as u64 + 1),
                |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()),
            );
            let key = &ready.exposed;
            [name.max(1), key.address, key.words[0], key.words[1]]
        }
        None => [0; 4],
    };
    let gathered = gather_all_u64(process, comm, own).map(|gathered| {
        let of = |number| gathered[writers.rank(number) as usize];
        (0..writers.count).map(of).collect::<Vec<[u64; 4]>>()
    });
    let all_can = |gathered: &Vec<[u64; 4]>| {
        let name = gathered[0][0];
        name != 0 && gathered.iter().all(|member| member[0] == name)
    };
    if !gathered.as_ref().is_ok_and(all_can)
        && let Some((ready, _)) = &made
    {
        ready.transport.withdraw(&ready.exposed);
    }
    let gathered = gathered?;
    if !all_can(&gathered) {
        return Ok(None);
    }
    let ready =
        |(ready, reach)| ready_slots(process, comm, writers, (ready, reach), network, &gathered);
    let slots = made.map(ready);
    // No rank writes before all are ready.
    gather_all_u64(process, comm, [0])?;
    Ok(slots)
}

/// Distributes the first rank's knowledge of the network, so that all choose alike: the hosts'
/// files may differ. The first rank leads its node.
fn network_of_first(process: &Process, comm: &Comm, known: Option<Network>) -> Result<Network> {
    let guessed = Network {
        costs: GUESSED,
        quick: Quick::all(None),
    };
    let mut words = known.unwrap_or(guessed).to_words();
    broadcast_u64(process, comm, &mut words)?;
    Ok(Network::from_words(words))
}

/// Makes the slots of a rank that has received all others' keys.
fn ready_slots(
    process: &Process,
    comm: &Comm,
    writers: &Writers<'_>,
    (ready, reach): (Prepared, Reach),
    network: Network,
    gathered: &[[u64; 4]],
) -> NetworkSlots {
    let key = |number: u32| {
        let [_, address, words @ ..] = gathered[number as usize];
        (number, RemoteKey { address, words })
    };
    let keys = rdma::written_to(reach).into_iter().map(key);
    let neighbours = reach.neighbours().into_iter();
    let awaited = Arc::new(AwaitedPeers {
        vci: comm.vci(),
        peers: neighbours
            .map(|number| comm.local().peer(writers.rank(number)))
            .collect(),
        is_waiting: AtomicBool::new(false),
    });
    let slots = NetworkSlots {
        reach,
        network,
        memory: ready.memory,
        keys: keys.collect(),
        leaders: writers.ranks.map(Box::from),
        transport: ready.transport,
        exposed: ready.exposed,
        arrives_unpolled: ready.signals.passive_target,
        pace: Mutex::new(Pace::new(network::FIRST)),
        freed: AtomicU64::new(network::FIRST - 1),
        awaited,
        _share: ready.share,
    };
    // Flags of barriers begin with a number that no rank waits for.
    for slot in 0..(reach.memory() / SIGNAL_LINE) {
        let at = slot * SIGNAL_LINE;
        if slots.is_flag_place(at) {
            slots
                .word_at(at)
                .store(network::FIRST - 1, Ordering::Relaxed);
        }
    }
    let awaited_peers = &process.source::<Collectives>().awaited_peers;
    let mut awaited_peers = awaited_peers.lock();
    awaited_peers.retain(|awaited| Arc::strong_count(awaited) > 1);
    awaited_peers.push(slots.awaited.clone());
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_agree_on_what_all_can_do() {
        use Direct::*;
        let of = |members: &[Direct]| agreed(members.iter().map(|direct| *direct as u64));
        assert_eq!(of(&[Quicker, Quicker]), Quicker);
        assert_eq!(of(&[Quicker, Possible, Quicker]), Possible);
        assert_eq!(of(&[No, Quicker]), No);
        assert_eq!(of(&[]), No);
    }
}
