//! Units that change hands: where two processes send to each other by turns, the receiver of a message keeps its units and
//! writes the answer there.
//!
//! What a core has just read lies in its cache, and is written there without a word to the other core; what the other core
//! has read last has to be taken from it line by line. So an exchange by turns costs one transfer of
//! each line for two (docs/decisions/long-messages.md, where it is measured).
//!
//! A unit stays its owner's. The name of a pipe says whether its receiver may keep the units; he says so when he ends the
//! pipe; they are the owner's again when it has read the answer, or when they are given back by
//! [`Segment::returned`], for lack of an answer.

use std::sync::atomic::Ordering;

use netmod::{Peer, VciId};

use crate::segment::Segment;
use crate::shape::row;

/// The most units that go from hand to hand between two: all fit well into a core's own cache.
pub(crate) const MOST: usize = 32;
/// The most units that a process lacks for that.
const ALL: u32 = 64;

/// Units of a peer's that this process has kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// The use of the pipe that brought them.
    pub generation: u32,
    /// A bit for each.
    pub units: u128,
}

impl Kept {
    /// Whether they are so many.
    pub fn are(self, count: usize) -> bool {
        // Mostly they lie one behind the other; to count bits takes long on processors that may lack an instruction for it.
        let lowest = self.units.trailing_zeros();
        let is_row = self.units != 0 && self.units >> lowest == row(0, count as u32);
        is_row || self.units.count_ones() as usize == count
    }

    /// Gives them back to their owner.
    pub fn give_back(self, owner: &Segment) {
        for unit in bits(self.units) {
            owner
                .returned(unit)
                .store(self.generation, Ordering::Release);
        }
    }
}

/// The numbers of the bits that are set, lowest first.
pub(crate) fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then_some(set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(lowest)
    })
}

/// Units of this process's that a peer has kept.
struct Loan {
    to: (Peer, VciId),
    kept: Kept,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Lent {
    loans: Vec<Loan>,
}

impl Lent {
    /// Whether the receiver of so many units may keep them.
    pub fn may_grow(&self, units: usize) -> bool {
        // Mostly there are none.
        let lent: u32 = self
            .loans
            .iter()
            .map(|loan| loan.kept.units.count_ones())
            .sum();
        units <= MOST && lent + units as u32 <= ALL
    }

    /// A receiver keeps units.
    pub fn add(&mut self, to: (Peer, VciId), kept: Kept) {
        self.loans.push(Loan { to, kept });
    }

    /// Takes units back that were written to by whom they were lent to. `false`: they weren't lent to him.
    pub fn take_back(&mut self, from: (Peer, VciId), units: u128) -> bool {
        let of_him = |loan: &&mut Loan| loan.to == from && loan.kept.units & units == units;
        match self.loans.iter_mut().find(of_him) {
            Some(loan) => loan.kept.units &= !units,
            None => return false,
        }
        self.loans.retain(|loan| loan.kept.units != 0);
        true
    }

    /// The units that have been given back.
    pub fn returned(&mut self, own: &Segment) -> u128 {
        let mut all = 0;
        for Loan { kept, .. } in &mut self.loans {
            for unit in bits(kept.units) {
                // Acquire: who had it reads no more of it.
                if own.returned(unit).load(Ordering::Acquire) == kept.generation {
                    kept.units &= !(1 << unit);
                    all |= 1 << unit;
                }
            }
        }
        self.loans.retain(|loan| loan.kept.units != 0);
        all
    }

    /// What a peer had, who is lost.
    pub fn forget(&mut self, peer: Peer) -> u128 {
        let of_him = |loan: &Loan| loan.to.0 == peer;
        let loans = self.loans.iter().filter(|loan| of_him(loan));
        let all = loans.fold(0, |all, loan| all | loan.kept.units);
        self.loans.retain(|loan| !of_him(loan));
        all
    }
}
