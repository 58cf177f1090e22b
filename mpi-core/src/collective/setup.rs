//! Making the slots of a communicator, which all its members do together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netmod::{OpenError, RemoteKey, SharedMemory, SharedSegment};
use parking_lot::Mutex;

use super::exchange::{broadcast_u64, gather_all_u64};
use super::network::{self, AwaitedPeers, Memory, NetworkSlots, SIGNAL_LINE};
use super::nonblocking::NonblockingSlots;
use super::registration::{Collectives, choices};
use super::share::Share;
use super::shared::{self, SharedSlots};
use super::state::CommState;
use crate::comm::{Comm, single_copy};
use crate::error::Result;
use crate::process::Process;
use mpi_coll::Reach;
use mpi_coll::rdma::Pace;

/// Gives a communicator the slots for which it is time.
#[cold]
pub(super) fn make_slots(process: &Process, comm: &Comm, state: &CommState) -> Result<()> {
    if !process.is_threaded() {
        // SAFETY: below MPI_THREAD_MULTIPLE the program's calls don't overlap (section 12.4.3), and no
        // thread of the library's own makes progress then.
        unsafe { state.set_alone() };
    }
    if !state.has_tried_slots() {
        let shared = shared(process, comm)?;
        let remote = match shared {
            Some(_) => None,
            None => network(process, comm, state)?,
        };
        state.set_network_slots(remote);
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

/// Memory that all members of an intracommunicator of one node see, `own` bytes for each, by rank. All call
/// this; those who could not have it get none.
fn common_piece(
    process: &Process,
    comm: &Comm,
    memory: &dyn SharedMemory,
    own: usize,
) -> Result<Option<Box<dyn SharedSegment>>> {
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
    broadcast_u64(process, comm, &mut key)?;
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

/// Makes the slots of an intracommunicator, all of whose members call this. None where they can't
/// all share memory, on all of them.
fn shared(process: &Process, comm: &Comm) -> Result<Option<SharedSlots>> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut peers = (0..size).map(|rank| comm.local().peer(rank));
    let local = peers.all(|peer| peer == process.me() || process.is_local(peer));
    let memory = process.shared_memory();
    let share = Share::take(&process.source::<Collectives>().with_slots);
    let able = local && memory.is_some() && (2..=shared::RANKS).contains(&size) && share.is_some();
    // Read by others, to find out whether they can read this process's memory.
    let probe = Box::new(AtomicU64::new(0));
    let probe_at = (&raw const *probe).expose_provenance() as u64;
    let told = gather_all_u64(process, comm, [u64::from(able), probe_at])?;
    let probes: Vec<u64> = told.iter().map(|member| member[1]).collect();
    let (Some(memory), Some(share), true) = (memory, share, told.iter().all(|able| able[0] != 0))
    else {
        return Ok(None);
    };
    let room = SharedSlots::room(size);
    let piece = common_piece(process, comm, &**memory, SharedSlots::bytes_of_rank(room))?;
    let mut shared = piece.map(|piece| SharedSlots::over(piece, rank, size, room, share));
    let direct = (0..size).all(|of| single_copy::can_copy(process, comm, of, probes[of as usize]));
    let state = [u64::from(shared.is_some()), u64::from(direct)];
    let told = gather_all_u64(process, comm, state)?;
    if let Some(shared) = &mut shared {
        shared.settle(told.iter().all(|ready| ready[1] != 0));
    }
    Ok(shared.filter(|_| told.iter().all(|ready| ready[0] != 0)))
}

/// Makes slots for one persistent collective of an intracommunicator that has slots for blocking ones: of
/// so much room. All members call this; none where not all can have
/// them, on all of them.
pub(super) fn persistent(
    process: &Process,
    comm: &Comm,
    shared: &SharedSlots,
    room: usize,
    share: Option<Share>,
) -> Result<Option<SharedSlots>> {
    let Some(memory) = process.shared_memory() else {
        return Ok(None); // nobody would have slots
    };
    let piece = common_piece(process, comm, &**memory, SharedSlots::bytes_of_rank(room))?;
    let mut own = match (piece, share) {
        (Some(piece), Some(share)) => {
            let (rank, size) = (comm.rank(), comm.size());
            Some(SharedSlots::over(piece, rank, size, room, share))
        }
        _ => None,
    };
    let told = gather_all_u64(process, comm, [u64::from(own.is_some())])?;
    if let Some(own) = &mut own {
        own.settle(shared.slots.direct);
    }
    Ok(own.filter(|_| told.iter().all(|ready| ready[0] != 0)))
}

/// Makes the slots of an intracommunicator that has slots for blocking collectives. All members call
/// this; none where not all can have them, on all of them.
fn nonblocking(
    process: &Process,
    comm: &Comm,
    shared: &SharedSlots,
) -> Result<Option<NonblockingSlots>> {
    let Some(memory) = process.shared_memory() else {
        return Ok(None); // nobody would have slots
    };
    let piece = common_piece(
        process,
        comm,
        &**memory,
        NonblockingSlots::bytes_of_rank(comm.size()),
    )?;
    let nonblocking =
        piece.map(|piece| NonblockingSlots::over(piece, shared.slots, !process.is_threaded()));
    let told = gather_all_u64(process, comm, [u64::from(nonblocking.is_some())])?;
    if let Some(nonblocking) = &nonblocking {
        nonblocking.settle();
    }
    Ok(nonblocking.filter(|_| told.iter().all(|ready| ready[0] != 0)))
}

/// Makes the slots of an intracommunicator, all of whose members call this. None, on all of them,
/// where not all can write to each other's memory over one network.
fn network(process: &Process, comm: &Comm, state: &CommState) -> Result<Option<NetworkSlots>> {
    let own = state.choices();
    let choices = own.as_deref().unwrap_or(choices(process));
    if !choices.wants_writes(true) {
        return Ok(None); // nobody does
    }
    let (rank, size) = (comm.rank(), comm.size());
    let share = Share::take(&process.source::<Collectives>().with_slots);
    let others = (0..size).filter(|other| *other != rank);
    let way = process.common_transport(others.map(|other| comm.local().peer(other)));
    let signals = way.as_ref().and_then(|way| way.limits().signals);
    let signals = signals.filter(|signals| choices.wants_writes(signals.faster_up_to.is_some()));
    let reach = Reach {
        rank,
        size,
        room: signals.map_or(0, |signals| signals.max_data.min(network::ROOM) & !63),
        depth: network::DEPTH,
    };
    let possible = (2..=network::RANKS).contains(&size)
        && comm.points().is_none()
        && reach.room >= network::ROOM_LEAST;
    let made = match (way, signals, share) {
        (Some(transport), Some(signals), Some(share)) if possible => {
            let len = reach.memory();
            Memory::new(len).and_then(|memory| {
                // SAFETY: withdrawn before the memory is freed, when the slots are dropped.
                let exposed = unsafe { transport.expose(memory.base, len) }.ok()?;
                Some((transport, signals, memory, exposed, share))
            })
        }
        _ => None,
    };
    let own = match &made {
        Some((transport, signals, _, key, _)) => {
            let name = transport.name().bytes().fold(
                reach.room as u64 ^ signals.faster_up_to.map_or(0, |quick| quick as u64 + 1),
                |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()),
            );
            [name, key.address, key.words[0], key.words[1]]
        }
        None => [0; 4],
    };
    let told = gather_all_u64(process, comm, own)?;
    let Some((transport, signals, memory, exposed, share)) = made else {
        return Ok(None);
    };
    if told.iter().any(|member| member[0] != own[0]) {
        transport.withdraw(&exposed);
        return Ok(None);
    }
    let key = |member: &[u64; 4]| RemoteKey {
        address: member[1],
        words: [member[2], member[3]],
    };
    let neighbours = reach.neighbours().into_iter();
    let awaited = Arc::new(AwaitedPeers {
        vci: comm.vci(),
        peers: neighbours.map(|rank| comm.local().peer(rank)).collect(),
        waits: AtomicBool::new(false),
    });
    let network = NetworkSlots {
        reach,
        quick: signals.faster_up_to.unwrap_or(0),
        memory,
        keys: told.iter().map(key).collect(),
        transport,
        exposed,
        unaided: signals.passive_target,
        pace: Mutex::new(Pace::new(network::FIRST)),
        awaited,
        _share: share,
    };
    // Flags of barriers begin with a number that nobody waits for.
    for slot in 0..(reach.memory() / SIGNAL_LINE) {
        let at = slot * SIGNAL_LINE;
        if network.is_flag_place(at) {
            network
                .word_at(at)
                .store(network::FIRST - 1, Ordering::Relaxed);
        }
    }
    let awaited_peers = &process.source::<Collectives>().awaited_peers;
    let mut awaited_peers = awaited_peers.lock();
    awaited_peers.retain(|awaited| Arc::strong_count(awaited) > 1);
    awaited_peers.push(network.awaited.clone());
    drop(awaited_peers);
    // Nobody writes before all are ready.
    gather_all_u64(process, comm, [0])?;
    Ok(Some(network))
}
