//! Barrier (MPI-3.1 section 5.3).

use super::schedule::{Block, Schedule};
use super::team::{Binomial, Team};

/// The algorithm of a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    /// Every rank signals ranks 1, 2, 4, … further on: ⌈log2 N⌉ rounds.
    Dissemination,
    /// Up and down a binomial tree: 2 ⌈log2 N⌉ rounds but only 2 (N - 1) messages.
    Tree,
}

/// Builds a barrier.
pub fn barrier(schedule: &mut Schedule, team: Team<'_>, algorithm: Barrier) {
    match algorithm {
        Barrier::Dissemination => dissemination(schedule, team),
        Barrier::Tree => {
            arrive(schedule, team);
            release(schedule, team);
        }
    }
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

fn dissemination(schedule: &mut Schedule, team: Team<'_>) {
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
