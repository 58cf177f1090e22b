//! Allgather and allgatherv (MPI-3.1 section 5.7).

use super::collective::Allgather;
use super::schedule::{Block, Buf, Schedule, Staged};
use super::team::{Blocks, Layout, Part, Team};

/// The arguments of the builders.
pub(crate) struct AllgatherArgs<'a> {
    team: Team<'a>,
    /// This member's block where the caller has it.
    source: Block,
    blocks: Blocks<'a>,
    /// A block, if all are alike.
    uniform: Option<Part<'a>>,
}

impl AllgatherArgs<'_> {
    /// Returns whether all blocks are alike.
    pub fn is_uniform(&self) -> bool {
        self.uniform.is_some()
    }

    /// Returns whether the number of members is a power of two.
    pub fn is_power_of_two(&self) -> bool {
        self.team.size().is_power_of_two()
    }

    /// Returns whether the number of members is even.
    pub fn is_even(&self) -> bool {
        self.team.size().is_multiple_of(2)
    }
}

/// Builds an allgather to the receive buffer; `send` is `None` in place.
pub fn allgather(
    schedule: &mut Schedule,
    team: Team<'_>,
    send: Option<Part<'_>>,
    recv: Layout<'_>,
    algorithm: Allgather,
) {
    let size = team.size();
    let blocks = recv.of(Buf::Recv, schedule);
    let own = blocks.get(team.rank, schedule);
    let uniform = match recv {
        Layout::Uniform(part) => Some(part),
        _ => None,
    };
    if size == 1 || uniform.is_some_and(|part| part.bytes() == 0) {
        if let Some(send) = send {
            let send = send.block(Buf::Send, schedule);
            schedule.copy(send, own);
        }
        return;
    }
    let source = match send {
        Some(send) => send.block(Buf::Send, schedule),
        None => own,
    };
    let args = AllgatherArgs {
        team,
        source,
        blocks,
        uniform,
    };
    algorithm.build(schedule, &args);
}

pub(crate) fn recursive_doubling(schedule: &mut Schedule, args: &AllgatherArgs<'_>) {
    let Some(dense) = Dense::new(schedule, args) else {
        return;
    };
    doubling(schedule, args.team, |from, len| dense.run(from, len));
    dense.staged.unpack(schedule);
}

pub(crate) fn neighbor_exchange(schedule: &mut Schedule, args: &AllgatherArgs<'_>) {
    let Some(dense) = Dense::new(schedule, args) else {
        return;
    };
    pairs(schedule, args.team, |pair| dense.run(2 * pair, 2));
    dense.staged.unpack(schedule);
}

pub(crate) fn ring(schedule: &mut Schedule, args: &AllgatherArgs<'_>) {
    let team = args.team;
    let Some(dense) = Dense::new(schedule, args) else {
        let own = args.blocks.get(team.rank, schedule);
        schedule.copy(args.source, own);
        ring_blocks(schedule, team, args.blocks);
        return;
    };
    let peer = |i| team.peer(i);
    let piece = |i| dense.run(i, 1);
    ring_bytes(
        schedule,
        team.size(),
        team.rank,
        peer,
        piece,
        |member, piece| member == piece,
    );
    dense.staged.unpack(schedule);
}

/// The equal blocks of all ranks as contiguous bytes in the order of ranks.
struct Dense {
    staged: Staged,
    each: usize,
}

impl Dense {
    /// Stages the blocks and copies the rank's own one to its position; `None` if they are not alike.
    fn new(schedule: &mut Schedule, args: &AllgatherArgs<'_>) -> Option<Dense> {
        let AllgatherArgs {
            team,
            source,
            blocks,
            ..
        } = *args;
        let part = args.uniform?;
        let first = blocks.get(0, schedule);
        let whole = Block {
            count: team.size() * part.count,
            ..first
        };
        let staged = schedule.stage(whole, part.datatype);
        let dense = Dense {
            staged,
            each: part.bytes(),
        };
        let own = blocks.get(team.rank, schedule);
        if staged.apart || source != own {
            schedule.copy(source, dense.run(team.rank, 1));
        }
        Some(dense)
    }

    fn run(&self, from: usize, len: usize) -> Block {
        self.staged
            .bytes
            .cut(from * self.each..(from + len) * self.each)
    }
}

fn doubling(schedule: &mut Schedule, team: Team<'_>, run: impl Fn(usize, usize) -> Block) {
    let mut distance = 1;
    while distance < team.size() {
        let partner = team.rank ^ distance;
        let mine = team.rank & !(distance - 1);
        let theirs = partner & !(distance - 1);
        let peer = team.peer(partner);
        schedule.exchange(peer, run(theirs, distance), peer, run(mine, distance));
        distance *= 2;
    }
}

/// Builds Bruck's algorithm. Scratch memory holds the blocks in the order of ranks from this one
/// on, so that the gathered ones always come first. In each round a rank that has `known` blocks
/// gets more from `radix` - 1 ranks: `known`, 2 `known`, … further on.
pub(crate) fn bruck(schedule: &mut Schedule, args: &AllgatherArgs<'_>, radix: usize) {
    let AllgatherArgs {
        team,
        source,
        blocks,
        ..
    } = *args;
    let size = team.size();
    let radix = radix.clamp(2, size.max(2));
    let bytes_of = |i: usize| blocks.layout().bytes((team.rank + i) % size);
    let bytes_in = |range: std::ops::Range<usize>| range.map(bytes_of).sum::<usize>();
    let room = schedule.scratch_bytes(bytes_in(0..size));
    let mut known = 1;
    let mut have = bytes_of(0);
    schedule.copy(source, room.cut(0..have));
    while known < size {
        let first = schedule.here();
        let mut next = known;
        while next < size && next < known * radix {
            let more = known.min(size - next);
            let (given, taken) = (bytes_in(0..more), bytes_in(next..next + more));
            if taken > 0 {
                let from = team.peer(team.after(next));
                schedule.recv(from, room.cut(have..have + taken));
            }
            if given > 0 {
                schedule.send(team.peer(team.before(next)), room.cut(0..given));
            }
            have += taken;
            next += more;
        }
        schedule.wait(first..schedule.here());
        known = next;
    }
    let mut at = 0;
    for i in 0..size {
        let len = bytes_of(i);
        let block = blocks.get((team.rank + i) % size, schedule);
        if len > 0 && block != source {
            schedule.copy(room.cut(at..at + len), block);
        }
        at += len;
    }
}

/// Builds neighbour exchange between pairs of ranks. In each round a pair receives blocks of the
/// previous pair through its even rank, or of the next pair through its odd rank, and then
/// exchanges them.
fn pairs(schedule: &mut Schedule, team: Team<'_>, pair: impl Fn(usize) -> Block) {
    let pairs = team.size() / 2;
    let own = team.rank / 2;
    let even = team.rank.is_multiple_of(2);
    let mate = team.peer(team.rank ^ 1);
    let other = team.peer(if even { team.before(1) } else { team.after(1) });
    let both = pair(own);
    let each = both.count / 2;
    let (low, high) = (both.cut(0..each), both.cut(each..2 * each));
    match even {
        true => schedule.exchange(mate, high, mate, low),
        false => schedule.exchange(mate, low, mate, high),
    }
    let mut latest = own;
    for round in 1..pairs {
        let distance = round.div_ceil(2);
        let outside = round % 2 == 1;
        let back = outside == even;
        let coming = match back {
            true => (own + pairs - distance) % pairs,
            false => (own + distance) % pairs,
        };
        let peer = if outside { other } else { mate };
        schedule.exchange(peer, pair(coming), peer, pair(latest));
        latest = coming;
    }
}

fn ring_blocks(schedule: &mut Schedule, team: Team<'_>, blocks: Blocks<'_>) {
    let size = team.size();
    let (from, to) = (team.peer(team.before(1)), team.peer(team.after(1)));
    for round in 0..size - 1 {
        let (coming, going) = (team.before(round + 1), team.before(round));
        let first = schedule.here();
        if blocks.layout().bytes(coming) > 0 {
            let block = blocks.get(coming, schedule);
            schedule.recv(from, block);
        }
        if blocks.layout().bytes(going) > 0 {
            let block = blocks.get(going, schedule);
            schedule.send(to, block);
        }
        schedule.wait(first..schedule.here());
    }
}

/// Builds a ring: every member has its own chunk and receives all others from the member before it.
///
/// Members are numbered along the ring; this one is `own`. `holds(member, piece)` returns whether a
/// member has a chunk from the start, its own at least; such chunks are not sent to it.
pub(super) fn ring_bytes(
    schedule: &mut Schedule,
    size: usize,
    own: usize,
    member: impl Fn(usize) -> u32,
    piece: impl Fn(usize) -> Block,
    holds: impl Fn(usize, usize) -> bool,
) {
    let next = (own + 1) % size;
    let (from, to) = (member((own + size - 1) % size), member(next));
    for round in 0..size - 1 {
        let coming = (own + size - 1 - round) % size;
        let going = (own + size - round) % size;
        let first = schedule.here();
        if !holds(own, coming) && piece(coming).count > 0 {
            schedule.recv(from, piece(coming));
        }
        if !holds(next, going) && piece(going).count > 0 {
            schedule.send(to, piece(going));
        }
        schedule.wait(first..schedule.here());
    }
}
