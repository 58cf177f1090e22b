//! Broadcast (MPI-3.1 section 5.4).

use super::allgather::ring_bytes;
use super::collective::Bcast;
use super::schedule::{Block, Buf, Schedule};
use super::team::{Binomial, Part, Team, share};
use mpi_types::datatype::Datatype;

/// The arguments of the builders.
pub(crate) struct BcastArgs<'a> {
    team: Team<'a>,
    root: usize,
    typed: Block,
    datatype: &'a Datatype,
}

/// Messages in flight on each link of a chain.
const CHAIN_WINDOW: usize = 4;

/// Builds a broadcast of the receive buffer from `root` (a member of the team).
pub fn bcast(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    part: Part<'_>,
    algorithm: Bcast,
) {
    let size = part.bytes();
    if team.size() == 1 || size == 0 {
        return;
    }
    let typed = part.block(Buf::Recv, schedule);
    let datatype = part.datatype;
    let args = BcastArgs {
        team,
        root,
        typed,
        datatype,
    };
    algorithm.build(schedule, &args);
}

/// Builds a binomial broadcast of the root's data.
pub(crate) fn whole(schedule: &mut Schedule, args: &BcastArgs<'_>) {
    binomial(
        schedule,
        args.team,
        args.root,
        None,
        args.typed,
        args.datatype,
    );
}

/// Builds a binomial broadcast. The root has the data, or receives it from `source` first.
pub(super) fn binomial(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    source: Option<u32>,
    typed: Block,
    datatype: &Datatype,
) {
    let tree = Binomial::of(team, root);
    let member = |relative: usize| team.peer((relative + root) % team.size());
    let from = tree.parent().map(member).or(source);
    let children = tree.children().count();
    // Data with gaps is packed once for all children; a forwarding rank unpacks it last.
    let pass_on = children > 0 && (from.is_some() || children > 1);
    let staged = pass_on.then(|| schedule.stage(typed, datatype));
    let block = staged.map_or(typed, |staged| staged.bytes);
    if let Some(from) = from {
        let arrival = schedule.recv(from, block);
        schedule.wait_for(arrival);
    } else if let Some(staged) = staged {
        staged.pack(schedule);
    }
    for child in tree.children() {
        schedule.send(member(child.start), block);
    }
    if let (Some(staged), Some(_)) = (staged, from) {
        staged.unpack(schedule);
    }
}

/// Builds steps that move the data as bytes: packed at the root, and unpacked at all others.
fn packed(schedule: &mut Schedule, args: &BcastArgs<'_>, build: impl FnOnce(&mut Schedule, Block)) {
    let is_root = args.team.rank == args.root;
    let staged = schedule.stage(args.typed, args.datatype);
    if is_root {
        staged.pack(schedule);
    }
    build(schedule, staged.bytes);
    if !is_root {
        staged.unpack(schedule);
    }
}

pub(crate) fn scatter_ring(schedule: &mut Schedule, args: &BcastArgs<'_>) {
    packed(schedule, args, |schedule, bytes| {
        scatter_ring_bytes(schedule, args, bytes)
    });
}

fn scatter_ring_bytes(schedule: &mut Schedule, args: &BcastArgs<'_>, bytes: Block) {
    let BcastArgs { team, root, .. } = *args;
    let size = team.size();
    let tree = Binomial::of(team, root);
    let member = |relative: usize| team.peer((relative + root) % size);
    let pieces = |from: usize, to: usize| {
        let range = share(bytes.count, size, from).start..share(bytes.count, size, to - 1).end;
        bytes.cut(range)
    };
    if let Some(parent) = tree.parent() {
        let own = tree.span();
        let block = pieces(own.start, own.end);
        if block.count > 0 {
            let arrival = schedule.recv(member(parent), block);
            schedule.wait_for(arrival);
        }
    }
    for child in tree.children() {
        let block = pieces(child.start, child.end);
        if block.count > 0 {
            schedule.send(member(child.start), block);
        }
    }
    let holds =
        |relative: usize, piece: usize| Binomial::new(relative, size).span().contains(&piece);
    ring_bytes(
        schedule,
        size,
        tree.relative,
        member,
        |i| pieces(i, i + 1),
        holds,
    );
}

pub(crate) fn chain(schedule: &mut Schedule, args: &BcastArgs<'_>, segment: usize) {
    packed(schedule, args, |schedule, bytes| {
        chain_bytes(schedule, args, bytes, segment.max(1))
    });
}

fn chain_bytes(schedule: &mut Schedule, args: &BcastArgs<'_>, bytes: Block, segment: usize) {
    let BcastArgs { team, root, .. } = *args;
    let size = team.size();
    let relative = team.before(root);
    let parent = (relative > 0).then(|| team.peer(team.before(1)));
    let child = (relative + 1 < size).then(|| team.peer(team.after(1)));
    let pieces = bytes.count.div_ceil(segment);
    let piece = |k: usize| bytes.cut(k * segment..((k + 1) * segment).min(bytes.count));
    // The steps that receive and send each of the last segments.
    let mut arrivals = [0u32; CHAIN_WINDOW];
    let mut departures = [0u32; CHAIN_WINDOW];
    if let Some(parent) = parent {
        for (k, arrival) in arrivals.iter_mut().enumerate().take(pieces) {
            *arrival = schedule.recv(parent, piece(k));
        }
    }
    for k in 0..pieces {
        let slot = k % CHAIN_WINDOW;
        if let Some(parent) = parent {
            schedule.wait_for(arrivals[slot]);
            if k + CHAIN_WINDOW < pieces {
                arrivals[slot] = schedule.recv(parent, piece(k + CHAIN_WINDOW));
            }
        }
        if let Some(child) = child {
            if k >= CHAIN_WINDOW {
                schedule.wait_for(departures[slot]);
            }
            departures[slot] = schedule.send(child, piece(k));
        }
    }
}
