//! Gather and scatter, with and without `v` (MPI-3.1 sections 5.5 and 5.6).

use super::collective::{Gather, Scatter};
use super::schedule::{Block, Buf, Schedule};
use super::team::{Binomial, Blocks, Layout, Part, Team};

/// The arguments of a gather's builders.
pub(crate) struct GatherArgs<'a> {
    team: Team<'a>,
    root: usize,
    send: Option<Part<'a>>,
    /// The blocks at the root; `None` at all other members.
    recv: Option<Layout<'a>>,
}

impl GatherArgs<'_> {
    /// Returns whether all blocks are of one size, as far as this member knows.
    pub fn is_uniform(&self) -> bool {
        matches!(self.recv, None | Some(Layout::Uniform(_)))
    }

    /// The data that a member sends to the root.
    fn sent(&self) -> Option<Part<'_>> {
        self.send.filter(|send| send.bytes() > 0)
    }
}

/// The arguments of a scatter's builders.
pub(crate) struct ScatterArgs<'a> {
    team: Team<'a>,
    root: usize,
    /// The blocks at the root; `None` at all other members.
    send: Option<Layout<'a>>,
    recv: Option<Part<'a>>,
}

impl ScatterArgs<'_> {
    /// Returns whether all blocks are of one size, as far as this member knows.
    pub fn is_uniform(&self) -> bool {
        matches!(self.send, None | Some(Layout::Uniform(_)))
    }

    /// The data that a member receives from the root.
    fn received(&self) -> Option<Part<'_>> {
        self.recv.filter(|recv| recv.bytes() > 0)
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
    let args = GatherArgs {
        team,
        root,
        send,
        recv: recv.filter(|_| is_root),
    };
    algorithm.build(schedule, &args);
}

pub(crate) fn linear_gather(schedule: &mut Schedule, args: &GatherArgs<'_>) {
    let GatherArgs { team, root, .. } = *args;
    let Some(layout) = args.recv else {
        if let Some(send) = args.sent() {
            let block = send.block(Buf::Send, schedule);
            schedule.send(team.peer(root), block);
        }
        return;
    };
    let blocks = layout.of(Buf::Recv, schedule);
    for i in 1..team.size() {
        let from = team.after(i);
        let block = blocks.get(from, schedule);
        if layout.bytes(from) > 0 {
            schedule.recv(team.peer(from), block);
        }
    }
    let block = blocks.get(root, schedule);
    own(schedule, args.send, Buf::Send, block, true);
}

pub(crate) fn binomial_gather(schedule: &mut Schedule, args: &GatherArgs<'_>) {
    let GatherArgs { team, root, .. } = *args;
    if let Some(Layout::Uniform(part)) = args.recv {
        let blocks = Layout::Uniform(part).of(Buf::Recv, schedule);
        binomial_gather_root(schedule, team, args.send, blocks, part);
    } else if let Some(send) = args.sent() {
        let block = send.block(Buf::Send, schedule);
        binomial_gather_member(schedule, team, root, block, send.bytes());
    }
}

/// Copies the root's own block, unless it is in place.
fn own(schedule: &mut Schedule, part: Option<Part<'_>>, buf: Buf, block: Block, to_block: bool) {
    let Some(part) = part else { return };
    let whole = part.block(buf, schedule);
    if to_block {
        schedule.copy(whole, block);
    } else {
        schedule.copy(block, whole);
    }
}

/// Returns the blocks of `len` members from `first` on as one block.
fn joined(schedule: &mut Schedule, blocks: &Blocks<'_>, first: usize, len: usize) -> Block {
    let block = blocks.get(first, schedule);
    Block {
        count: block.count * len,
        ..block
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

fn binomial_gather_root(
    schedule: &mut Schedule,
    team: Team<'_>,
    send: Option<Part<'_>>,
    blocks: Blocks<'_>,
    part: Part<'_>,
) {
    let (root, size) = (team.rank, team.size());
    let tree = Binomial::new(0, size);
    let first = schedule.here();
    let mut split = None;
    if part.bytes() > 0 {
        for child in tree.children() {
            let peer = team.peer((child.start + root) % size);
            let mut parts = runs(team, root, child.clone());
            match (parts.next(), parts.next()) {
                (Some((_, member, len)), None) => {
                    let block = joined(schedule, &blocks, member, len);
                    schedule.recv(peer, block);
                }
                // The subtree wraps around the last member; that happens to at most one child.
                _ => {
                    let bytes = schedule.scratch_bytes(child.len() * part.bytes());
                    schedule.recv(peer, bytes);
                    split = Some((child, bytes));
                }
            }
        }
    }
    let block = blocks.get(root, schedule);
    own(schedule, send, Buf::Send, block, true);
    if let Some((child, bytes)) = split {
        schedule.wait(first..schedule.here());
        for (at, member, len) in runs(team, root, child) {
            let block = joined(schedule, &blocks, member, len);
            let at = at * part.bytes();
            schedule.copy(bytes.cut(at..at + len * part.bytes()), block);
        }
    }
}

fn binomial_gather_member(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    block: Block,
    each: usize,
) {
    let size = team.size();
    let tree = Binomial::of(team, root);
    let Some(parent) = tree.parent() else { return };
    let member = |relative: usize| team.peer((relative + root) % size);
    let span = tree.span();
    if span.len() == 1 {
        schedule.send(member(parent), block);
        return;
    }
    let bytes = schedule.scratch_bytes(span.len() * each);
    let first = schedule.here();
    for child in tree.children() {
        let at = (child.start - span.start) * each;
        schedule.recv(member(child.start), bytes.cut(at..at + child.len() * each));
    }
    let until = schedule.here();
    schedule.copy(block, bytes.cut(0..each));
    schedule.wait(first..until);
    schedule.send(member(parent), bytes);
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
    let args = ScatterArgs {
        team,
        root,
        send: send.filter(|_| is_root),
        recv,
    };
    algorithm.build(schedule, &args);
}

pub(crate) fn linear_scatter(schedule: &mut Schedule, args: &ScatterArgs<'_>) {
    let ScatterArgs { team, root, .. } = *args;
    let Some(layout) = args.send else {
        if let Some(recv) = args.received() {
            let block = recv.block(Buf::Recv, schedule);
            schedule.recv(team.peer(root), block);
        }
        return;
    };
    let blocks = layout.of(Buf::Send, schedule);
    for i in 1..team.size() {
        let to = team.after(i);
        let block = blocks.get(to, schedule);
        if layout.bytes(to) > 0 {
            schedule.send(team.peer(to), block);
        }
    }
    let block = blocks.get(root, schedule);
    own(schedule, args.recv, Buf::Recv, block, false);
}

pub(crate) fn binomial_scatter(schedule: &mut Schedule, args: &ScatterArgs<'_>) {
    let ScatterArgs { team, root, .. } = *args;
    if let Some(Layout::Uniform(part)) = args.send {
        let blocks = Layout::Uniform(part).of(Buf::Send, schedule);
        binomial_scatter_root(schedule, team, blocks, part);
        let block = blocks.get(root, schedule);
        own(schedule, args.recv, Buf::Recv, block, false);
    } else if let Some(recv) = args.received() {
        let block = recv.block(Buf::Recv, schedule);
        binomial_scatter_member(schedule, team, root, block, recv.bytes());
    }
}

fn binomial_scatter_root(
    schedule: &mut Schedule,
    team: Team<'_>,
    blocks: Blocks<'_>,
    part: Part<'_>,
) {
    if part.bytes() == 0 {
        return;
    }
    let (root, size) = (team.rank, team.size());
    for child in Binomial::new(0, size).children() {
        let peer = team.peer((child.start + root) % size);
        let mut parts = runs(team, root, child.clone());
        if let (Some((_, member, len)), None) = (parts.next(), parts.next()) {
            let block = joined(schedule, &blocks, member, len);
            schedule.send(peer, block);
            continue;
        }
        let bytes = schedule.scratch_bytes(child.len() * part.bytes());
        for (at, member, len) in runs(team, root, child) {
            let block = joined(schedule, &blocks, member, len);
            let at = at * part.bytes();
            schedule.copy(block, bytes.cut(at..at + len * part.bytes()));
        }
        schedule.send(peer, bytes);
    }
}

fn binomial_scatter_member(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    block: Block,
    each: usize,
) {
    let size = team.size();
    let tree = Binomial::of(team, root);
    let Some(parent) = tree.parent() else { return };
    let member = |relative: usize| team.peer((relative + root) % size);
    let span = tree.span();
    if span.len() == 1 {
        schedule.recv(member(parent), block);
        return;
    }
    let bytes = schedule.scratch_bytes(span.len() * each);
    let arrival = schedule.recv(member(parent), bytes);
    schedule.wait_for(arrival);
    for child in tree.children() {
        let at = (child.start - span.start) * each;
        schedule.send(member(child.start), bytes.cut(at..at + child.len() * each));
    }
    schedule.copy(bytes.cut(0..each), block);
}
