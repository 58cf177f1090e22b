//! Creation of communicators (MPI-3.1 sections 6.4.2 and 6.6.2): how members agree on context and
//! group.
//!
//! One process, the leader, chooses the context and sends it to the others. The leader of an
//! intracommunicator is rank 0. Of the two groups of an intercommunicator one is the *first*, and
//! its rank 0 leads; messages within a group have a context of their own (`Comm::local_intracomm`), and
//! messages between the groups go from one rank 0 to the other.

pub(crate) mod automatic;
pub mod endpoints;
pub mod from_group;
pub(crate) mod intercomm;
pub mod streams;
pub mod vcis;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::automatic::{
    LeaderChoice, proposed_vci, proposed_vci_of_part, settle_new_comm, settle_vci,
};
use mpi_coll::{Buffers, Holder};
use mpi_core::comm::{Comm, ContextId, Purpose};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::pt2pt::request::RequestId;
use mpi_sched::{Block, Buf, Part, Schedule, Team};

/// The most words of a list. A longer one violates the protocol.
const MAX_WORDS: u64 = 1 << 32;

/// A member's arguments to `MPI_Comm_split`. Members of one color are ordered by key, then by old
/// rank. Without a color a member gets no communicator.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Selects the new communicator.
    pub color: Option<u64>,
    /// Orders the members.
    pub key: i32,
}

const NO_COLOR: u64 = u64::MAX;
/// Broadcast by rank 0 if it can't reach the other group. (No valid list consists of this word.)
const FAILED: u64 = u64::MAX;

/// Broadcasts `data` from `root` of an intracommunicator.
fn broadcast(process: &Process, comm: &Comm, root: u32, data: &mut [u64]) -> Result<()> {
    let team = Team::all(comm.rank(), comm.size());
    broadcast_in(
        process,
        comm,
        team,
        root as usize,
        Purpose::Collective,
        comm.next_collective(),
        data,
    )
}

fn broadcast_in(
    process: &Process,
    comm: &Comm,
    team: Team<'_>,
    root: usize,
    purpose: Purpose,
    tag: u32,
    data: &mut [u64],
) -> Result<()> {
    let bytes = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: size_of_val(data),
        datatype: &bytes,
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr().cast(),
    };
    // SAFETY: the schedule reads or writes the bytes of `data`, which is borrowed exclusively.
    unsafe {
        mpi_coll::collective_for(process, comm, purpose, tag, buffers, |schedule| {
            mpi_sched::bcast(schedule, team, root, part, mpi_sched::Bcast::Binomial);
        })
    }
}

/// Broadcasts words from `root` of an intracommunicator; the others need not know their number.
pub(crate) fn broadcast_list(
    process: &Process,
    comm: &Comm,
    root: u32,
    list: &mut Vec<u64>,
) -> Result<()> {
    let mut len = [list.len() as u64];
    broadcast(process, comm, root, &mut len)?;
    resize(list, len[0])?;
    broadcast(process, comm, root, list)
}

/// Exchanges words with the member `number` of a communicator.
fn exchange(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    number: u32,
    tag: u32,
    own: &[u64],
) -> Result<Vec<u64>> {
    let mut len = [0];
    exchange_words(
        process,
        comm,
        purpose,
        number,
        tag,
        &[own.len() as u64],
        &mut len,
    )?;
    let mut theirs = Vec::new();
    resize(&mut theirs, len[0])?;
    exchange_words(process, comm, purpose, number, tag, own, &mut theirs)?;
    Ok(theirs)
}

fn exchange_words(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    number: u32,
    tag: u32,
    own: &[u64],
    theirs: &mut [u64],
) -> Result<()> {
    let buffers = Buffers {
        send: own.as_ptr().cast(),
        recv: theirs.as_mut_ptr().cast(),
    };
    let out = Block::bytes(Buf::Send, 0, size_of_val(own));
    let into = Block::bytes(Buf::Recv, 0, size_of_val(theirs));
    // SAFETY: the blocks are the two slices, and `theirs` is borrowed exclusively.
    unsafe {
        mpi_coll::collective_for(process, comm, purpose, tag, buffers, |schedule| {
            schedule.exchange(number, into, number, out);
        })
    }
}

/// Exchanges words between the two groups of an intercommunicator.
///
/// All members of a group pass the same words (or only rank 0 does), and all get the other group's.
fn exchange_groups(process: &Process, comm: &Comm, own: &[u64]) -> Result<Vec<u64>> {
    let tag = comm.next_collective();
    let mut theirs = Vec::new();
    let mut traded = Ok(());
    if comm.rank() == 0 {
        match exchange(process, comm, Purpose::Collective, comm.size(), tag, own) {
            Ok(received) => theirs = received,
            // The other members must not wait for ever.
            Err(error) => (theirs, traded) = (vec![FAILED], Err(error)),
        }
    }
    broadcast_list(process, &comm.local_intracomm(), 0, &mut theirs)?;
    traded?;
    if theirs == [FAILED] {
        let why = "rank 0 of the local group can't reach rank 0 of the remote group";
        return Err(Error::new(Class::ProcFailed, why));
    }
    Ok(theirs)
}

/// Duplicates a communicator (`MPI_Comm_dup`), with its topology, for a program.
///
/// The copy gets a VCI of its own where possible, so that threads that use both don't contend
/// ([`automatic`]).
pub fn dup_comm_apart(process: &Process, comm: &Comm) -> Result<Comm> {
    dup(process, comm, proposed_vci(process, comm))
}

/// Duplicates a communicator on VCI 0, for a caller that chooses VCIs later or needs none.
pub fn dup_comm(process: &Process, comm: &Comm) -> Result<Comm> {
    dup(process, comm, 0)
}

fn dup(process: &Process, comm: &Comm, proposed_vci: u64) -> Result<Comm> {
    let mut received = [offer(process, comm), proposed_vci];
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: received.as_mut_ptr().cast(),
    };
    // SAFETY: the schedule reads or writes the bytes of `received`, which lives until it has run.
    unsafe {
        mpi_coll::collective(process, comm, buffers, |schedule| {
            build_broadcast(schedule, comm, received.len())
        })?
    };
    let [context, word] = received;
    let context = ContextId::from_bits(context);
    let vci = settle_vci(process, comm, word)?;
    LeaderChoice { context, vci }.apply(process, comm, comm.duplicate_in(context))
}

/// Starts to duplicate a communicator (`MPI_Comm_idup`). The copy can be used once the request is
/// complete.
///
/// `object` makes the program's object of it. `known` is called before the request completes, with
/// the object and the first of its contexts.
pub fn start_dup_comm<T: AsRef<Comm> + Send + Sync + 'static>(
    process: &Process,
    holder: Holder,
    object: impl FnOnce(Comm) -> T,
    known: fn(&Process, &T, ContextId),
) -> Result<(Arc<T>, RequestId)> {
    let original = holder.clone();
    let comm: &Comm = (*original).as_ref();
    let copy = comm.duplicate_in(ContextId::UNKNOWN);
    // To agree on other VCIs would have to wait.
    copy.share_vcis_of(comm);
    let object = Arc::new(object(copy));
    // Not in the copy itself: its context is read meanwhile, for instance when a communicator is
    // revoked.
    let received = Arc::new(AtomicU64::new(offer(process, comm)));
    let place = received.as_ptr().cast();
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: place,
    };
    let copy = object.clone();
    let then = move |process: &Process| {
        let context = ContextId::from_bits(received.load(Ordering::Relaxed));
        (*copy).as_ref().learn_context(context);
        known(process, &copy, context);
    };
    // SAFETY: the schedule reads or writes the 8 bytes, which `then` keeps alive; `then` reads them
    // after the schedule has ended.
    let request = unsafe {
        mpi_coll::started::start_collective(
            process,
            holder,
            buffers,
            |schedule| build_broadcast(schedule, comm, 1),
            Some(Box::new(then)),
        )?
    };
    Ok((object, request))
}

/// Returns the context and the VCI that rank 0 of an intracommunicator chooses for a new
/// communicator.
pub(crate) fn lead(process: &Process, comm: &Comm) -> Result<LeaderChoice> {
    let mut received = [offer(process, comm), proposed_vci(process, comm)];
    broadcast(process, comm, 0, &mut received)?;
    let [context, word] = received;
    Ok(LeaderChoice {
        context: ContextId::from_bits(context),
        vci: settle_vci(process, comm, word)?,
    })
}

/// Whether this process chooses contexts for communicators made of `comm`.
fn leads(comm: &Comm) -> bool {
    comm.rank() == 0 && comm.is_first()
}

/// On the leader, takes the contexts that a duplicate of `comm` needs and returns the first.
fn offer(process: &Process, comm: &Comm) -> u64 {
    if leads(comm) {
        process.new_contexts(comm.contexts()).to_bits()
    } else {
        0
    }
}

/// Divides a communicator (`MPI_Comm_split`).
///
/// Returns `None` for members without a color, and in intercommunicators for colors that the other
/// group doesn't have.
pub fn split_comm(process: &Process, comm: &Comm, choice: Choice) -> Result<Option<Comm>> {
    comm.check_plain("MPI_Comm_split")?;
    let color = choice.color.unwrap_or(NO_COLOR);
    // Each member offers a context; the new communicator's first member leads.
    let own = [
        color,
        i64::from(choice.key) as u64,
        process.new_context().to_bits(),
        proposed_vci(process, comm),
    ];
    let Some(remote) = comm.remote() else {
        let all = mpi_coll::gather_all_u64(process, comm, own)?;
        // Members that get no communicator take part too.
        let vci = settle_vci(process, comm, all.first().map_or(0, |first| first[3]))?;
        let Some(color) = choice.color else {
            return Ok(None);
        };
        let chosen = ColorGroup::of(&all, color);
        let (group, place) = (chosen.group(comm.local()), chosen.position(comm.rank()));
        let context = chosen.context;
        let made = Comm::new(context, group, place);
        return LeaderChoice { context, vci }
            .apply(process, comm, made)
            .map(Some);
    };
    let all = mpi_coll::gather_all_u64(process, &comm.local_intracomm(), own)?;
    let theirs = exchange_groups(process, comm, all.as_flattened())?;
    let (theirs, _) = theirs.as_chunks::<4>();
    if theirs.len() != remote.size() as usize {
        return Err(Error::new(
            Class::Intern,
            "internal error: the remote group sent a list for another size",
        ));
    }
    let Some(color) = choice.color else {
        return Ok(None);
    };
    let (near, far) = (ColorGroup::of(&all, color), ColorGroup::of(theirs, color));
    if far.ranks.is_empty() {
        return Ok(None);
    }
    let context = if comm.is_first() {
        near.context
    } else {
        far.context
    };
    let (local, other) = (near.group(comm.local()), far.group(remote));
    let rank = near.position(comm.rank());
    Ok(Some(Comm::inter(
        context,
        local,
        other,
        rank,
        comm.is_first(),
    )))
}

/// Makes a communicator of a part of another (`MPI_Comm_create`). All members call it, each with
/// the group that it is to be in, if any.
///
/// # Errors
/// `MPI_ERR_GROUP` if the group has members that are not in the (local group of the) communicator.
pub fn create_comm(process: &Process, comm: &Comm, group: &Group) -> Result<Option<Comm>> {
    comm.check_plain("MPI_Comm_create")?;
    let ranks = ranks_in(comm, group)?;
    let place = group.rank_of(process.me());
    let Some(remote) = comm.remote() else {
        let tag = comm.next_collective();
        return create_among(
            process,
            comm,
            group,
            place,
            &ranks,
            Purpose::Collective,
            tag,
        );
    };
    let mut own = vec![process.new_context().to_bits()];
    own.extend(ranks.iter().map(|rank| u64::from(*rank)));
    let theirs = exchange_groups(process, comm, &own)?;
    let Some((context, theirs)) = theirs.split_first() else {
        return Err(Error::new(
            Class::Intern,
            "internal error: the remote group sent an empty reply while creating the intercommunicator",
        ));
    };
    // The contexts are those that the ranks 0 offer.
    let mut first = [if comm.is_first() { own[0] } else { *context }];
    broadcast(process, &comm.local_intracomm(), 0, &mut first)?;
    let peer = |rank: &u64| {
        let rank = u32::try_from(*rank).ok();
        rank.and_then(|rank| remote.get(rank))
    };
    let peers: Option<Vec<u32>> = theirs.iter().map(peer).collect();
    let Some(peers) = peers else {
        return Err(Error::new(
            Class::Intern,
            "internal error: the remote group sent ranks beyond its size",
        ));
    };
    let Some(rank) = place.filter(|_| !peers.is_empty()) else {
        return Ok(None);
    };
    let context = ContextId::from_bits(first[0]);
    let other = Group::from_peers(&peers)?;
    Ok(Some(Comm::inter(
        context,
        group.clone(),
        other,
        rank,
        comm.is_first(),
    )))
}

/// Makes a communicator of a part of an intracommunicator, called by the group's members only
/// (`MPI_Comm_create_group`). `tag` distinguishes concurrent calls.
///
/// # Errors
/// `MPI_ERR_GROUP` if the group has members that are not in the communicator.
pub fn create_comm_group(
    process: &Process,
    comm: &Comm,
    group: &Group,
    tag: u32,
) -> Result<Option<Comm>> {
    comm.check_plain("MPI_Comm_create_group")?;
    let ranks = ranks_in(comm, group)?;
    let place = group.rank_of(process.me());
    create_among(process, comm, group, place, &ranks, Purpose::Creation, tag)
}

fn create_among(
    process: &Process,
    comm: &Comm,
    group: &Group,
    place: Option<u32>,
    ranks: &[u32],
    purpose: Purpose,
    tag: u32,
) -> Result<Option<Comm>> {
    let Some(place) = place else { return Ok(None) };
    let all_call = purpose == Purpose::Collective;
    let mut received = match (place, all_call) {
        (0, true) => [process.new_context().to_bits(), proposed_vci(process, comm)],
        (0, false) => [
            process.new_context().to_bits(),
            proposed_vci_of_part(process, comm),
        ],
        _ => [0; 2],
    };
    let team = Team::some(place as usize, ranks);
    broadcast_in(process, comm, team, 0, purpose, tag, &mut received)?;
    let [context, word] = received;
    let made = Comm::new(ContextId::from_bits(context), group.clone(), place);
    if all_call {
        made.automatic().inherit(comm.automatic());
    }
    settle_new_comm(process, made, word).map(Some)
}

/// Makes an intracommunicator of both groups of an intercommunicator (`MPI_Intercomm_merge`).
///
/// The group that passes `high` comes last; if both pass the same, the first group comes first.
pub fn merge_intercomm(process: &Process, comm: &Comm, high: bool) -> Result<Comm> {
    let Some(remote) = comm.remote() else {
        return Err(Error::new(
            Class::Comm,
            "comm is an intracommunicator; pass an intercommunicator",
        ));
    };
    let mut own = [u64::from(high), offer(process, comm)];
    broadcast(process, &comm.local_intracomm(), 0, &mut own)?;
    let theirs = exchange_groups(process, comm, &own)?;
    let [their_high, their_context] = theirs[..] else {
        return Err(Error::new(
            Class::Intern,
            "internal error: the remote group sent a malformed reply while merging the groups",
        ));
    };
    let own_first = match (own[0] != 0, their_high != 0) {
        (false, true) => true,
        (true, false) => false,
        _ => comm.is_first(),
    };
    let context = if comm.is_first() {
        own[1]
    } else {
        their_context
    };
    let (one, two) = if own_first {
        (comm.local(), remote)
    } else {
        (remote, comm.local())
    };
    let rank = if own_first {
        comm.rank()
    } else {
        remote.size() + comm.rank()
    };
    Ok(Comm::new(
        ContextId::from_bits(context),
        one.union(two),
        rank,
    ))
}

/// Waits until this process's operations on a communicator are complete, and until all members have
/// called it (`MPI_Comm_disconnect`).
pub fn settle_comm(process: &Process, comm: &Comm) -> Result<()> {
    let owner = comm.owner();
    let own = comm.agreed_vcis();
    process.wait_ignoring_loss(comm.vci(), || {
        for vci in own {
            process.poll(*vci)?;
        }
        match process.is_pending(owner, own)? {
            true => comm.trouble(process).map_or(Ok(None), Err),
            false => Ok(Some(())),
        }
    })?;
    if comm.remote().is_some() {
        // All of this group, then both leaders, then all of this group again.
        mpi_coll::gather_all_u64(process, &comm.local_intracomm(), [0])?;
        exchange_groups(process, comm, &[]).map(drop)
    } else {
        mpi_coll::gather_all_u64(process, comm, [0]).map(drop)
    }
}

/// Builds the broadcast of words (a context first) from the leader to all members.
fn build_broadcast(schedule: &mut Schedule, comm: &Comm, words: usize) {
    let bytes = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: words * size_of::<u64>(),
        datatype: &bytes,
    };
    let word = Block::bytes(Buf::Recv, 0, words * size_of::<u64>());
    let team = Team::all(comm.rank(), comm.size());
    if comm.remote().is_some() && comm.rank() == 0 {
        let other = comm.size();
        if comm.is_first() {
            schedule.send(other, word);
        } else {
            let step = schedule.recv(other, word);
            schedule.wait_for(step);
        }
    }
    mpi_sched::bcast(schedule, team, 0, part, mpi_sched::Bcast::Binomial);
}

/// The members of one color.
struct ColorGroup {
    ranks: Vec<u32>,
    context: ContextId,
}

impl ColorGroup {
    fn of(all: &[[u64; 4]], color: u64) -> ColorGroup {
        let of_color = all
            .iter()
            .enumerate()
            .filter(|(_, received)| received[0] == color);
        let mut chosen: Vec<(i64, u32)> = of_color
            .map(|(rank, received)| (received[1] as i64, rank as u32))
            .collect();
        chosen.sort_unstable();
        let first = chosen
            .first()
            .and_then(|(_, first)| all.get(*first as usize));
        ColorGroup {
            context: first.map_or(ContextId::UNKNOWN, |received| {
                ContextId::from_bits(received[2])
            }),
            ranks: chosen.into_iter().map(|(_, rank)| rank).collect(),
        }
    }

    fn group(&self, of: &Group) -> Group {
        of.of_ranks(&self.ranks)
    }

    /// Returns the position of a rank, which is one of them.
    fn position(&self, rank: u32) -> u32 {
        self.ranks.iter().position(|one| *one == rank).unwrap_or(0) as u32
    }
}

/// Returns the ranks of a group's members in a communicator's local group.
fn ranks_in(comm: &Comm, group: &Group) -> Result<Vec<u32>> {
    let rank = |(place, peer)| {
        comm.local().rank_of(peer).ok_or_else(|| {
            Error::new(
                Class::Group,
                format!(
                    "rank {place} of the group is not in the communicator; take a subset of the \
                     communicator's group"
                ),
            )
        })
    };
    group.peers().enumerate().map(rank).collect()
}

fn resize(list: &mut Vec<u64>, len: u64) -> Result<()> {
    if len > MAX_WORDS {
        return Err(Error::new(
            Class::Intern,
            format!("internal error: a message announces {len} words, more than any list has"),
        ));
    }
    list.resize(len as usize, 0);
    Ok(())
}
