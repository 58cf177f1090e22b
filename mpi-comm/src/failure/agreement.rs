//! Agreement among the survivors of a communicator, whichever members fail meanwhile: a state
//! machine without I/O.
//!
//! The lowest living member *coordinates*. Each member sends it a contribution. When it has the
//! contributions of all living members it decides, sends the decision to all, waits for the
//! acknowledgement of all living members, and then sends them a commit. So a member that has
//! committed knows that all living members have the decision. If the coordinator fails, each member
//! that finds out turns to the next one, with its contribution and with the decision, if it has
//! one. A coordinator with a decision distributes that one; only a coordinator that has heard from
//! all living members, none of which has a decision, makes a new one. No member has committed an
//! earlier one then.
//!
//! It relies on failed members being dead (see docs/design.md), and on members that are waited for
//! being watched, so that every failure is noticed.
//!
//! Among n living members it takes 4 (n - 1) messages, one after the other at the coordinator, and
//! four latencies.

use super::set::Set;

/// The decision of an agreement.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Decision {
    /// The members' flags combined by bitwise and, of the first group and, on an intercommunicator,
    /// of the second.
    pub flags: [u32; 2],
    /// Members known to have failed.
    pub failed: Set,
    /// Whether a living member has not acknowledged all these failures.
    pub raises: bool,
    /// A context for a communicator of the survivors, if one was offered.
    pub context: u64,
}

/// A member's contribution.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Contribution {
    pub flag: u32,
    /// Members that it knows to have failed; below, those whose failure it has acknowledged.
    pub failed: Set,
    pub acknowledged: Set,
    /// A coordinator's decision that it has received.
    pub held: Option<Decision>,
}

/// The messages of an agreement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// To the coordinator.
    Contribute(Contribution),
    /// From a coordinator that has decided, or forwards an earlier decision.
    Decide(Decision),
    /// To the coordinator: acknowledges the decision.
    Ack,
    /// All living members have the decision.
    Commit,
}

/// Returns a committed member's answer to a message of an agreement that it has finished, even if
/// it has freed the communicator: all living members had the decision then, so nothing need be
/// remembered.
///
/// `None`: the message begins another agreement.
pub(super) fn answer_late(message: &Message) -> Option<Message> {
    match message {
        Message::Decide(_) => Some(Message::Ack),
        Message::Contribute(Contribution { held: Some(_), .. }) => Some(Message::Commit),
        _ => None,
    }
}

/// Whether a message that precedes this member's call must be kept for it.
pub(super) fn is_early(message: &Message) -> bool {
    matches!(
        message,
        Message::Contribute(Contribution { held: None, .. })
    )
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Another member coordinates.
    Following,
    /// This member coordinates, and waits for contributions.
    Gathering,
    /// This member has decided, and waits for acknowledgements.
    Distributing,
    /// All living members have the decision.
    Committed,
}

/// One agreement at one member.
#[derive(Debug)]
pub(super) struct Agreement {
    me: u32,
    size: u32,
    /// Number of members in the first group.
    first: u32,
    mine: Contribution,
    /// Context for the decision, if this member makes it.
    offer: u64,
    failed: Set,
    coordinator: u32,
    phase: Phase,
    contributions: Vec<Option<Contribution>>,
    acked: Set,
    outbox: Vec<(u32, Message)>,
}

impl Agreement {
    /// Begins an agreement of `size` members, of which `first` are in the first group.
    pub fn begin(me: u32, [size, first]: [u32; 2], mine: Contribution, offer: u64) -> Agreement {
        let mut agreement = Agreement {
            me,
            size,
            first,
            failed: mine.failed.clone(),
            mine,
            offer,
            coordinator: 0,
            phase: Phase::Following,
            contributions: vec![None; size as usize],
            acked: Set::default(),
            outbox: Vec::new(),
        };
        agreement.turn_to_next();
        agreement
    }

    /// Takes the outgoing messages.
    pub fn take_outbox(&mut self) -> Vec<(u32, Message)> {
        std::mem::take(&mut self.outbox)
    }

    /// Returns the decision, once this member may use it.
    pub fn outcome(&self) -> Option<&Decision> {
        match self.phase {
            Phase::Committed => self.mine.held.as_ref(),
            _ => None,
        }
    }

    /// Returns the members whose failure must be noticed.
    pub fn awaited(&self) -> Vec<u32> {
        match self.phase {
            Phase::Following => vec![self.coordinator],
            Phase::Gathering => {
                let silent = |one: &u32| self.contributions[*one as usize].is_none();
                self.living().filter(silent).collect()
            }
            Phase::Distributing => self.living().filter(|one| !self.acked.has(*one)).collect(),
            Phase::Committed => Vec::new(),
        }
    }

    fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size).filter(|one| !self.failed.has(*one))
    }

    /// Handles the failure of a member.
    pub fn lose(&mut self, member: u32) {
        if self.failed.has(member) || member == self.me {
            return;
        }
        self.failed.add(member);
        self.mine.failed.add(member);
        match self.phase {
            Phase::Following if member == self.coordinator => self.turn_to_next(),
            Phase::Gathering => self.check_contributions(),
            Phase::Distributing => self.check_acks(),
            Phase::Following | Phase::Committed => {}
        }
    }

    /// Turns to the lowest living member; this one is alive.
    fn turn_to_next(&mut self) {
        let lowest = self.living().next();
        self.coordinator = lowest.unwrap_or(self.me);
        if self.coordinator != self.me {
            let message = Message::Contribute(self.mine.clone());
            return self.outbox.push((self.coordinator, message));
        }
        self.contributions[self.me as usize] = Some(self.mine.clone());
        match self.mine.held.clone() {
            Some(decision) => self.distribute(decision),
            None => {
                self.phase = Phase::Gathering;
                self.check_contributions();
            }
        }
    }

    /// Handles a message from another member.
    pub fn receive(&mut self, from: u32, message: Message) {
        // A failed member's messages don't count: others may have gone on without it.
        if from >= self.size || self.failed.has(from) || self.phase == Phase::Committed {
            return;
        }
        match message {
            Message::Contribute(theirs) => {
                self.contributions[from as usize] = Some(theirs);
                match (self.phase, self.mine.held.clone()) {
                    (Phase::Gathering, _) => self.check_contributions(),
                    // It may have ignored a decision that was sent before it knew the coordinator.
                    (Phase::Distributing, Some(decision)) => {
                        self.outbox.push((from, Message::Decide(decision)));
                    }
                    _ => {}
                }
            }
            // The sender of a decision has found all members below it dead.
            Message::Decide(decision) if from >= self.coordinator => {
                self.coordinator = from;
                self.phase = Phase::Following;
                self.mine.held = Some(decision);
                self.outbox.push((from, Message::Ack));
            }
            Message::Decide(_) => {}
            Message::Ack if self.phase == Phase::Distributing => {
                self.acked.add(from);
                self.check_acks();
            }
            Message::Ack => {}
            Message::Commit if self.mine.held.is_some() => self.commit(),
            Message::Commit => {}
        }
    }

    /// Commits, and forwards the commit to members that have turned to this one meanwhile: no other
    /// member answers them.
    fn commit(&mut self) {
        self.phase = Phase::Committed;
        let me = self.me;
        let turned = (0..self.size).zip(&self.contributions);
        for (one, _) in turned.filter(|(one, theirs)| *one != me && theirs.is_some()) {
            self.outbox.push((one, Message::Commit));
        }
    }

    /// Decides, once all living members have contributed.
    fn check_contributions(&mut self) {
        let silent = |one: u32| self.contributions[one as usize].is_none();
        if self.living().any(silent) {
            return;
        }
        let mut all = self.contributions.iter().flatten();
        let decision = match all.find_map(|one| one.held.clone()) {
            Some(decision) => decision,
            None => self.decide(),
        };
        self.distribute(decision);
    }

    fn decide(&self) -> Decision {
        let mut decision = Decision {
            flags: [u32::MAX; 2],
            failed: self.failed.clone(),
            raises: false,
            context: self.offer,
        };
        let each = (0..self.size).zip(&self.contributions);
        for (member, theirs) in each.filter_map(|(member, one)| Some((member, one.as_ref()?))) {
            decision.flags[usize::from(member >= self.first)] &= theirs.flag;
            decision.failed.add_all(&theirs.failed);
        }
        let knows = |one: u32| {
            let theirs = self.contributions[one as usize].as_ref();
            theirs.is_none_or(|theirs| theirs.acknowledged.has_all(&decision.failed))
        };
        decision.raises = !self.living().all(knows);
        decision
    }

    fn distribute(&mut self, decision: Decision) {
        self.phase = Phase::Distributing;
        self.mine.held = Some(decision.clone());
        self.acked.add(self.me);
        let others: Vec<u32> = self.living().filter(|one| *one != self.me).collect();
        for one in others {
            self.outbox.push((one, Message::Decide(decision.clone())));
        }
        self.check_acks();
    }

    /// Commits, once all living members have the decision.
    fn check_acks(&mut self) {
        if self.living().any(|one| !self.acked.has(one)) {
            return;
        }
        self.phase = Phase::Committed;
        let others: Vec<u32> = self.living().filter(|one| *one != self.me).collect();
        for one in others {
            self.outbox.push((one, Message::Commit));
        }
    }
}
