//! Gather and scatter, with and without `v` (MPI-3.1 sections 5.5 and 5.6).
//!
//! A scatter moves the blocks of a gather the other way.

use super::collective::{Gather, Scatter};
use super::schedule::{Block, Buf, Schedule};
use super::team::{Binomial, Blocks, Layout, Part, Team};

/// Whether blocks go to the root or come from it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToRoot,
    FromRoot,
}

/// The arguments of a gather's builders, or of a scatter's.
pub(crate) struct RootedArgs<'a> {
    direction: Direction,
    team: Team<'a>,
    root: usize,
    /// This member's block.
    own: Option<Part<'a>>,
    /// The blocks at the root; `None` at all other members.
    blocks: Option<Layout<'a>>,
}

pub(crate) type GatherArgs<'a> = RootedArgs<'a>;
pub(crate) type ScatterArgs<'a> = RootedArgs<'a>;

impl<'a> RootedArgs<'a> {
    /// Returns whether all blocks are of one size, as far as this member knows.
    pub fn is_uniform(&self) -> bool {
        matches!(self.blocks, None | Some(Layout::Uniform(_)))
    }

    /// Returns the block that this member exchanges with the root or with a tree's members, and its
    /// bytes; `None` if it is empty.
    fn part(&self, schedule: &mut Schedule) -> Option<(Block, usize)> {
        let part = self.own.filter(|part| part.bytes() > 0)?;
        Some((part.block(self.own_buffer(), schedule), part.bytes()))
    }

    fn own_buffer(&self) -> Buf {
        match self.direction {
            Direction::ToRoot => Buf::Send,
            Direction::FromRoot => Buf::Recv,
        }
    }

    /// Returns the root's blocks.
    fn blocks_of(&self, layout: Layout<'a>, schedule: &mut Schedule) -> Blocks<'a> {
        let buf = match self.direction {
            Direction::ToRoot => Buf::Recv,
            Direction::FromRoot => Buf::Send,
        };
        layout.of(buf, schedule)
    }

    /// Adds a message between this member and one that is farther from the root.
    fn with_farther(&self, schedule: &mut Schedule, peer: u32, block: Block) {
        match self.direction {
            Direction::ToRoot => schedule.recv(peer, block),
            Direction::FromRoot => schedule.send(peer, block),
        };
    }

    /// Adds a message between this member and one that is nearer to the root; returns the step.
    fn with_nearer(&self, schedule: &mut Schedule, peer: u32, block: Block) -> u32 {
        match self.direction {
            Direction::ToRoot => schedule.send(peer, block),
            Direction::FromRoot => schedule.recv(peer, block),
        }
    }

    /// Adds a copy from the block farther from the root to the one nearer to it, or back.
    fn copy(&self, schedule: &mut Schedule, farther: Block, nearer: Block) {
        match self.direction {
            Direction::ToRoot => schedule.copy(farther, nearer),
            Direction::FromRoot => schedule.copy(nearer, farther),
        }
    }

    /// Copies the root's own block, unless it is in place.
    fn copy_own(&self, schedule: &mut Schedule, blocks: &Blocks<'_>) {
        let block = blocks.get(self.root, schedule);
        if let Some(part) = self.own {
            let whole = part.block(self.own_buffer(), schedule);
            self.copy(schedule, whole, block);
        }
    }

    /// Returns the rank of the member with this number from the root.
    fn peer(&self, relative: usize) -> u32 {
        self.team.peer((relative + self.root) % self.team.size())
    }
}

/// Builds a gather to member `root`'s receive buffer.
///
/// `send` is `None` in place (at the root); `recv` is needed at the root only.
pub fn gather(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    send: Option<Part<'_>>,
    recv: Option<Layout<'_>>,
    algorithm: Gather,
) {
    let is_root = team.rank == root;
    if is_root && recv.is_none() {
        return;
    }
    let args = RootedArgs {
        direction: Direction::ToRoot,
        team,
        root,
        own: send,
        blocks: recv.filter(|_| is_root),
    };
    algorithm.build(schedule, &args);
}

/// Builds a scatter from member `root`'s send buffer.
///
/// `send` is needed at the root only; `recv` is `None` in place (at the root).
pub fn scatter(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    send: Option<Layout<'_>>,
    recv: Option<Part<'_>>,
    algorithm: Scatter,
) {
    let is_root = team.rank == root;
    if is_root && send.is_none() {
        return;
    }
    let args = RootedArgs {
        direction: Direction::FromRoot,
        team,
        root,
        own: recv,
        blocks: send.filter(|_| is_root),
    };
    algorithm.build(schedule, &args);
}

/// Builds messages between the root and each other member.
pub(crate) fn linear(schedule: &mut Schedule, args: &RootedArgs<'_>) {
    let team = args.team;
    let Some(layout) = args.blocks else {
        if let Some((block, _)) = args.part(schedule) {
            args.with_nearer(schedule, team.peer(args.root), block);
        }
        return;
    };
    let blocks = args.blocks_of(layout, schedule);
    for i in 1..team.size() {
        let other = team.after(i);
        let block = blocks.get(other, schedule);
        if layout.bytes(other) > 0 {
            args.with_farther(schedule, team.peer(other), block);
        }
    }
    args.copy_own(schedule, &blocks);
}

/// Builds messages along a binomial tree.
pub(crate) fn binomial(schedule: &mut Schedule, args: &RootedArgs<'_>) {
    if let Some(Layout::Uniform(part)) = args.blocks {
        at_root(schedule, args, part);
    } else if let Some((block, each)) = args.part(schedule) {
        at_member(schedule, args, block, each);
    }
}

/// Splits `range`, whose members are numbered from the root, into consecutive members of the team;
/// each comes with its position in the range.
fn runs(
    team: Team<'_>,
    root: usize,
    range: std::ops::Range<usize>,
) -> impl Iterator<Item = (usize, usize, usize)> {
    let size = team.size();
    let first = (range.start + root) % size;
    let until_end = range.len().min(size - first);
    let rest = range.len() - until_end;
    [(0, first, until_end), (until_end, 0, rest)]
        .into_iter()
        .filter(|run| run.2 > 0)
}

fn at_root(schedule: &mut Schedule, args: &RootedArgs<'_>, part: Part<'_>) {
    let (team, root) = (args.team, args.root);
    let blocks = args.blocks_of(Layout::Uniform(part), schedule);
    let joined = |schedule: &mut Schedule, first: usize, len: usize| {
        let block = blocks.get(first, schedule);
        let count = block.count * len;
        Block { count, ..block }
    };
    // Copies a subtree's blocks between their places and consecutive bytes.
    let copy_runs = |schedule: &mut Schedule, child, bytes: Block| {
        for (at, member, len) in runs(team, root, child) {
            let block = joined(schedule, member, len);
            let at = at * part.bytes();
            args.copy(schedule, bytes.cut(at..at + len * part.bytes()), block);
        }
    };
    let first = schedule.here();
    let mut split = None;
    if part.bytes() > 0 {
        for child in Binomial::new(0, team.size()).children() {
            let peer = args.peer(child.start);
            let mut parts = runs(team, root, child.clone());
            if let (Some((_, member, len)), None) = (parts.next(), parts.next()) {
                let block = joined(schedule, member, len);
                args.with_farther(schedule, peer, block);
                continue;
            }
            // The subtree wraps around the last member; that happens to at most one child.
            let bytes = schedule.scratch_bytes(child.len() * part.bytes());
            match args.direction {
                Direction::ToRoot => split = Some((child, bytes)),
                Direction::FromRoot => copy_runs(schedule, child, bytes),
            }
            args.with_farther(schedule, peer, bytes);
        }
    }
    args.copy_own(schedule, &blocks);
    if let Some((child, bytes)) = split {
        schedule.wait(first..schedule.here());
        copy_runs(schedule, child, bytes);
    }
}

fn at_member(schedule: &mut Schedule, args: &RootedArgs<'_>, block: Block, each: usize) {
    let tree = Binomial::of(args.team, args.root);
    let Some(parent) = tree.parent() else { return };
    let (parent, span) = (args.peer(parent), tree.span());
    if span.len() == 1 {
        args.with_nearer(schedule, parent, block);
        return;
    }
    let bytes = schedule.scratch_bytes(span.len() * each);
    if args.direction == Direction::FromRoot {
        let arrival = args.with_nearer(schedule, parent, bytes);
        schedule.wait_for(arrival);
    }
    let first = schedule.here();
    for child in tree.children() {
        let at = (child.start - span.start) * each;
        let block = bytes.cut(at..at + child.len() * each);
        args.with_farther(schedule, args.peer(child.start), block);
    }
    let until = schedule.here();
    args.copy(schedule, block, bytes.cut(0..each));
    if args.direction == Direction::ToRoot {
        schedule.wait(first..until);
        args.with_nearer(schedule, parent, bytes);
    }
}
