//! Alltoall, alltoallv and alltoallw (MPI-3.1 section 5.8).

use super::collective::Alltoall;
use super::schedule::{Block, Buf, Schedule};
use super::team::{Blocks, Layout, Part, Team};

/// The arguments of the builders.
pub(crate) struct AlltoallArgs<'a> {
    team: Team<'a>,
    /// The outgoing blocks; `None` in place.
    send: Option<Layout<'a>>,
    recv: Layout<'a>,
}

impl AlltoallArgs<'_> {
    /// Returns whether all blocks are of one size.
    pub fn is_uniform(&self) -> bool {
        let is_uniform = |layout: &Layout<'_>| matches!(layout, Layout::Uniform(_));
        self.send.is_none_or(|send| is_uniform(&send)) && is_uniform(&self.recv)
    }
}

/// Most rounds in flight in place, each of which needs a buffer.
const WINDOW: usize = 8;

/// Builds an alltoall; `send` is `None` in place.
pub fn alltoall(
    schedule: &mut Schedule,
    team: Team<'_>,
    send: Option<Layout<'_>>,
    recv: Layout<'_>,
    algorithm: Alltoall,
) {
    algorithm.build(schedule, &AlltoallArgs { team, send, recv });
}

pub(crate) fn pairwise(schedule: &mut Schedule, args: &AlltoallArgs<'_>, window: usize) {
    let window = window.max(1);
    let blocks = args.recv.of(Buf::Recv, schedule);
    match args.send {
        Some(send) => {
            let source = send.of(Buf::Send, schedule);
            exchange(schedule, args.team, source, blocks, window);
        }
        None => swap(schedule, args.team, blocks, window.min(WINDOW)),
    }
}

pub(crate) fn spread(schedule: &mut Schedule, args: &AlltoallArgs<'_>) {
    pairwise(schedule, args, usize::MAX);
}

pub(crate) fn bruck(schedule: &mut Schedule, args: &AlltoallArgs<'_>) {
    let blocks = args.recv.of(Buf::Recv, schedule);
    match (args.send, args.recv) {
        (Some(Layout::Uniform(part)), _) => {
            let source = Layout::Uniform(part).of(Buf::Send, schedule);
            bruck_blocks(schedule, args.team, source, part, blocks);
        }
        (None, Layout::Uniform(part)) => bruck_blocks(schedule, args.team, blocks, part, blocks),
        _ => {}
    }
}

/// Delays a round until the one `rounds` before it is complete.
pub(super) struct Window {
    rounds: usize,
    /// First step of each of the last rounds.
    starts: [u32; Window::LIMIT],
    round: usize,
}

impl Window {
    const LIMIT: usize = 64;

    /// Creates a window for `all` rounds, of which `rounds` may be in flight.
    pub(super) fn new(rounds: usize, all: usize) -> Window {
        Window {
            rounds: if rounds >= all {
                usize::MAX
            } else {
                rounds.min(Window::LIMIT - 1)
            },
            starts: [0; Window::LIMIT],
            round: 0,
        }
    }

    /// Adds the wait with which a round begins.
    pub(super) fn begin(&mut self, schedule: &mut Schedule) {
        self.starts[self.round % Window::LIMIT] = schedule.here();
        if let Some(old) = self.round.checked_sub(self.rounds) {
            let start = self.starts[old % Window::LIMIT];
            let end = self.starts[(old + 1) % Window::LIMIT];
            schedule.wait(start..end);
        }
        self.round += 1;
    }
}

fn exchange(
    schedule: &mut Schedule,
    team: Team<'_>,
    source: Blocks<'_>,
    target: Blocks<'_>,
    window: usize,
) {
    let size = team.size();
    let mut window = Window::new(window, size);
    for round in 1..size {
        window.begin(schedule);
        let (from, to) = (team.before(round), team.after(round));
        if target.layout().bytes(from) > 0 {
            let block = target.get(from, schedule);
            schedule.recv(team.peer(from), block);
        }
        if source.layout().bytes(to) > 0 {
            let block = source.get(to, schedule);
            schedule.send(team.peer(to), block);
        }
    }
    let (from, to) = (
        source.get(team.rank, schedule),
        target.get(team.rank, schedule),
    );
    schedule.copy(from, to);
}

/// Builds an alltoall in place: in round k, rank i exchanges with rank k - i, so that partners
/// meet. Outgoing blocks are copied first, since incoming ones overwrite them.
fn swap(schedule: &mut Schedule, team: Team<'_>, blocks: Blocks<'_>, window: usize) {
    let size = team.size();
    let largest = (0..size).map(|i| blocks.layout().bytes(i)).max();
    let mut slots = [Block::empty(); WINDOW];
    for slot in slots.iter_mut().take(window.min(size)) {
        *slot = schedule.scratch_bytes(largest.unwrap_or(0));
    }
    // Not `Window::new(window, size)`: buffers are reused even if all rounds fit.
    let mut rounds = Window::new(window, usize::MAX);
    for round in 0..size {
        rounds.begin(schedule);
        let partner = (round + size - team.rank) % size;
        let len = blocks.layout().bytes(partner);
        if partner == team.rank || len == 0 {
            continue;
        }
        let block = blocks.get(partner, schedule);
        let slot = slots[round % window].cut(0..len);
        schedule.copy(block, slot);
        schedule.recv(team.peer(partner), block);
        schedule.send(team.peer(partner), slot);
    }
}

/// Builds Bruck's algorithm. Block i has i ranks to travel; in the round of a bit, all blocks whose
/// number has that bit travel its distance.
fn bruck_blocks(
    schedule: &mut Schedule,
    team: Team<'_>,
    source: Blocks<'_>,
    part: Part<'_>,
    target: Blocks<'_>,
) {
    let (size, each) = (team.size(), part.bytes());
    if each == 0 {
        return;
    }
    let slots = schedule.scratch_bytes(size * each);
    let cut = |from: usize, to: usize| slots.cut(from * each..to * each);
    let until_end = size - team.rank;
    for (at, member, len) in [(0, team.rank, until_end), (until_end, 0, team.rank)] {
        let run = source.get(member, schedule);
        let run = Block {
            count: run.count * len,
            ..run
        };
        schedule.copy(run, cut(at, at + len));
    }
    let most = size.div_ceil(2) * each;
    let (going, coming) = (schedule.scratch_bytes(most), schedule.scratch_bytes(most));
    let mut distance = 1;
    while distance < size {
        let runs = || {
            let starts = (distance..size).step_by(2 * distance);
            starts.scan(0, |at, start| {
                let end = (start + distance).min(size);
                let packed = *at * each..(*at + end - start) * each;
                *at += end - start;
                Some((packed, start, end))
            })
        };
        let mut len = 0;
        for (packed, start, end) in runs() {
            len = packed.end;
            schedule.copy(cut(start, end), going.cut(packed));
        }
        let from = team.peer(team.before(distance));
        let to = team.peer(team.after(distance));
        schedule.exchange(from, coming.cut(0..len), to, going.cut(0..len));
        for (packed, start, end) in runs() {
            schedule.copy(coming.cut(packed), cut(start, end));
        }
        distance *= 2;
    }
    for i in 0..size {
        let block = target.get(team.before(i), schedule);
        schedule.copy(cut(i, i + 1), block);
    }
}
