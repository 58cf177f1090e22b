//! Reduce (MPI-3.1 section 5.9.1).

use super::collective::Reduce;
use super::pairs::{Pairs, halve, halved, take_in};
use super::schedule::{Block, Schedule};
use super::team::{Binomial, Part, Reduction, Team};

/// The arguments of the builders.
pub(crate) struct ReduceArgs<'a> {
    team: Team<'a>,
    root: usize,
    send: Block,
    /// The buffer of the result, at the root.
    recv: Option<Block>,
    part: Part<'a>,
    commutes: bool,
}

impl ReduceArgs<'_> {
    /// Returns whether the vector has an element for each member that halving counts.
    pub fn is_long_enough(&self) -> bool {
        self.part.count >= 1 << self.team.size().ilog2()
    }
}

/// Builds a reduction to member `root`'s receive buffer, from the send buffers or, at the root,
/// in place.
pub fn reduce(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    of: Reduction<'_>,
    algorithm: Reduce,
) {
    let is_root = team.rank == root;
    let Some((send, recv)) = of.at(is_root).begin(schedule) else {
        return;
    };
    let args = ReduceArgs {
        team,
        root,
        send,
        recv: is_root.then_some(recv),
        part: of.part,
        commutes: of.op.is_commutative(),
    };
    algorithm.build(schedule, &args);
}

pub(crate) fn binomial(schedule: &mut Schedule, args: &ReduceArgs<'_>) {
    let ReduceArgs { team, root, .. } = *args;
    reduce_blocks(
        schedule,
        team,
        root,
        args.send,
        args.recv,
        args.part,
        args.commutes,
    );
}

/// Builds a binomial reduction of `send` to `recv`, which only the root has. `part` describes both.
pub(super) fn reduce_blocks(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    send: Block,
    recv: Option<Block>,
    part: Part<'_>,
    commutes: bool,
) {
    if commutes || root == 0 {
        up_the_tree(schedule, team, root, send, recv, part);
        return;
    }
    // Only a tree rooted at rank 0 has its members in the order of ranks.
    let target =
        (team.rank == 0).then(|| schedule.scratch_for(part.count, part.datatype, send.datatype));
    let first = schedule.here();
    up_the_tree(schedule, team, 0, send, target, part);
    if let Some(target) = target {
        schedule.send(team.peer(root), target);
    }
    if let Some(recv) = recv {
        schedule.wait(first..schedule.here());
        schedule.recv(team.peer(0), recv);
    }
}

/// Builds the steps up the tree, from the smallest child's subtree to the largest, which keeps the
/// order of ranks.
fn up_the_tree(
    schedule: &mut Schedule,
    team: Team<'_>,
    root: usize,
    send: Block,
    recv: Option<Block>,
    part: Part<'_>,
) {
    let tree = Binomial::of(team, root);
    let member = |relative: usize| team.peer((relative + root) % team.size());
    let children = tree.children().count();
    // The sum, the operand to be added to it, and the next one in flight. Each sum replaces its
    // operand, so that nothing is copied; the last operand arrives in `recv`.
    let mut slots = [send; 3];
    for slot in slots.iter_mut().take(children) {
        *slot = schedule.scratch_for(part.count, part.datatype, send.datatype);
    }
    let place = |i: usize| match recv {
        Some(recv) if i + 1 == children && (i > 0 || send != recv) => recv,
        _ => slots[i % 3],
    };
    let mut sum = send;
    let mut arrival = 0;
    for (i, child) in tree.children().rev().enumerate() {
        if i == 0 {
            arrival = schedule.recv(member(child.start), place(0));
        }
        schedule.wait_for(arrival);
        let next = tree.children().rev().nth(i + 1);
        let next = next.map(|next| (member(next.start), place(i + 1)));
        let early = next.filter(|&(_, place)| place != sum);
        if let Some((from, place)) = early {
            arrival = schedule.recv(from, place);
        }
        schedule.reduce(sum, place(i));
        sum = place(i);
        if let (Some((from, place)), None) = (next, early) {
            arrival = schedule.recv(from, place);
        }
    }
    if let Some(recv) = recv {
        schedule.copy(sum, recv);
    }
    if let Some(parent) = tree.parent() {
        schedule.send(member(parent), sum);
    }
}

pub(crate) fn halving(schedule: &mut Schedule, args: &ReduceArgs<'_>) {
    let ReduceArgs {
        team,
        root,
        send,
        recv,
        part,
        commutes,
    } = *args;
    let pairs = Pairs::new(team);
    let Some(number) = pairs.number else {
        let gone = schedule.send(team.peer(team.rank + 1), send);
        if let Some(recv) = recv {
            schedule.wait_for(gone);
            schedule.recv(team.peer(team.rank + 1), recv);
        }
        return;
    };
    let (count, extent) = (part.count, part.datatype.extent());
    let mut room = || schedule.scratch_for(count, part.datatype, send.datatype);
    let (sum, spare) = (recv.unwrap_or_else(&mut room), room());
    take_in(schedule, team, pairs.is_double(number), send, sum, spare);
    let pieces = |number, levels| halved(count, number, levels);
    let own = halve(
        schedule, team, pairs, number, sum, spare, extent, commutes, pieces,
    );
    let levels = pairs.power.ilog2();
    schedule.copy(own, sum.slice(extent, pieces(number, levels)));
    // A root that was absorbed gets the result from the rank that absorbed it.
    let (target, extra) = match pairs.number_of(root) {
        Some(number) => (number, false),
        None => (root / 2, true),
    };
    for level in (0..levels).rev() {
        let mate = number ^ (1 << level);
        let partner = team.peer(pairs.member(mate));
        if number >> level & 1 == target >> level & 1 {
            let arrival = schedule.recv(partner, sum.slice(extent, pieces(mate, level + 1)));
            schedule.wait_for(arrival);
        } else {
            schedule.send(partner, sum.slice(extent, pieces(number, level + 1)));
            return;
        }
    }
    if extra && number == target {
        schedule.send(team.peer(root), sum);
    }
}
