//! Barrier (MPI-3.1 section 5.3).

use super::collective::Barrier;
use super::schedule::{Block, Schedule};
use super::team::{Binomial, Team};

/// The arguments of the builders: the members.
pub(crate) type BarrierArgs<'a> = Team<'a>;

/// Builds a barrier.
pub fn barrier(schedule: &mut Schedule, team: Team<'_>, algorithm: Barrier) {
    algorithm.build(schedule, &team);
}

pub(crate) fn tree(schedule: &mut Schedule, team: &BarrierArgs<'_>) {
    arrive(schedule, *team);
    release(schedule, *team);
}

/// Builds the upward half of a tree barrier: once member 0 completes it, all members have entered.
pub(super) fn arrive(schedule: &mut Schedule, team: Team<'_>) {
    let tree = Binomial::of(team, 0);
    let first = schedule.here();
    for child in tree.children() {
        schedule.recv(team.peer(child.start), Block::empty());
    }
    schedule.wait(first..schedule.here());
    if let Some(parent) = tree.parent() {
        schedule.send(team.peer(parent), Block::empty());
    }
}

/// Builds the downward half of a tree barrier: no member completes it before member 0 enters it.
pub(super) fn release(schedule: &mut Schedule, team: Team<'_>) {
    let tree = Binomial::of(team, 0);
    if let Some(parent) = tree.parent() {
        let signal = schedule.recv(team.peer(parent), Block::empty());
        schedule.wait_for(signal);
    }
    for child in tree.children() {
        schedule.send(team.peer(child.start), Block::empty());
    }
}

pub(crate) fn dissemination(schedule: &mut Schedule, team: &BarrierArgs<'_>) {
    let mut distance = 1;
    while distance < team.size() {
        let from = team.peer(team.before(distance));
        let to = team.peer(team.after(distance));
        let arrival = schedule.recv(from, Block::empty());
        schedule.send(to, Block::empty());
        schedule.wait_for(arrival);
        distance *= 2;
    }
}
