//! How the living members of a communicator agree, whoever of them dies meanwhile: a state machine without I/O.
//!
//! The lowest living member *coordinates*. Each member sends it what it contributes. When it has that of all who
//! live it decides, sends the decision to all, waits until all who live say that they have it, and then tells them
//! to go on. So whoever goes on knows that all the living have the decision. If the coordinator dies, each member
//! that finds out turns to the next with its contribution and the decision, if it has one: who has one spreads it,
//! and only a coordinator without one, who has heard from all the living, makes a new one. Nobody has gone on by an
//! earlier one then.
//!
//! It relies on that who is found lost is dead: see docs/design.md. Who is waited for is looked after, so no death
//! stays unnoticed.
//!
//! Where n live it takes 4 (n - 1) messages, one after the other at the coordinator, and four times the way.

use super::set::Set;

/// What the members agree on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Decision {
    /// All flags of the members of a group, combined by bitwise and: those of the first group, and of the second of an
    /// intercommunicator.
    pub flags: [u32; 2],
    /// Members known to have failed.
    pub failed: Set,
    /// Whether one of these has not been acknowledged by all the living.
    pub raises: bool,
    /// A context for what is made of the living, if there was an offer.
    pub context: u64,
}

/// What a member brings.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Contribution {
    pub flag: u32,
    /// Members that it knows to have failed, and those whose failure it has acknowledged.
    pub failed: Set,
    pub acknowledged: Set,
    /// What a coordinator has decided that it has heard of.
    pub held: Option<Decision>,
}

/// What members tell each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// To the coordinator.
    Contribute(Contribution),
    /// The coordinator has decided, or passes on what another has.
    Decide(Decision),
    /// To the coordinator: it has come.
    Got,
    /// All the living have the decision.
    GoOn,
}

/// The answer of a member that has gone on, or has even freed the communicator, to who hasn't: all the living had the
/// decision then, so there is no need to remember it. `None`: there is none, it is the beginning of another agreement.
pub(super) fn answer_late(message: &Message) -> Option<Message> {
    match message {
        Message::Decide(_) => Some(Message::Got),
        Message::Contribute(Contribution { held: Some(_), .. }) => Some(Message::GoOn),
        _ => None,
    }
}

/// Whether a message that comes before this member has begun is to be kept for then.
pub(super) fn is_early(message: &Message) -> bool {
    matches!(
        message,
        Message::Contribute(Contribution { held: None, .. })
    )
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Another coordinates.
    Follows,
    /// This one does, and waits for contributions.
    Gathers,
    /// It has decided, and waits until all have that.
    Spreads,
    /// All have it.
    Over,
}

/// One agreement at one member.
#[derive(Debug)]
pub(super) struct Agreement {
    me: u32,
    size: u32,
    /// So many members are of the first group.
    first: u32,
    mine: Contribution,
    /// For the decision, if this one makes it.
    offer: u64,
    failed: Set,
    coordinator: u32,
    phase: Phase,
    contributions: Vec<Option<Contribution>>,
    got: Set,
    outbox: Vec<(u32, Message)>,
}

impl Agreement {
    /// Of `size` members of which the `first` are of the first group; `failed` of them are known to have.
    pub fn begin(me: u32, [size, first]: [u32; 2], mine: Contribution, offer: u64) -> Agreement {
        let mut agreement = Agreement {
            me,
            size,
            first,
            failed: mine.failed.clone(),
            mine,
            offer,
            coordinator: 0,
            phase: Phase::Follows,
            contributions: vec![None; size as usize],
            got: Set::default(),
            outbox: Vec::new(),
        };
        agreement.turn_to_next();
        agreement
    }

    /// What is to be sent.
    pub fn take_outbox(&mut self) -> Vec<(u32, Message)> {
        std::mem::take(&mut self.outbox)
    }

    /// What was decided, once this member may go on.
    pub fn outcome(&self) -> Option<&Decision> {
        match self.phase {
            Phase::Over => self.mine.held.as_ref(),
            _ => None,
        }
    }

    /// Those whose death must be noticed.
    pub fn awaited(&self) -> Vec<u32> {
        match self.phase {
            Phase::Follows => vec![self.coordinator],
            Phase::Gathers => {
                let silent = |one: &u32| self.contributions[*one as usize].is_none();
                self.living().filter(silent).collect()
            }
            Phase::Spreads => self.living().filter(|one| !self.got.has(*one)).collect(),
            Phase::Over => Vec::new(),
        }
    }

    fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size).filter(|one| !self.failed.has(*one))
    }

    /// A member is dead.
    pub fn lose(&mut self, member: u32) {
        if self.failed.has(member) || member == self.me {
            return;
        }
        self.failed.add(member);
        self.mine.failed.add(member);
        match self.phase {
            Phase::Follows if member == self.coordinator => self.turn_to_next(),
            Phase::Gathers => self.look_at_contributions(),
            Phase::Spreads => self.look_at_answers(),
            Phase::Follows | Phase::Over => {}
        }
    }

    /// Turns to the lowest living member; this one is among them.
    fn turn_to_next(&mut self) {
        let lowest = self.living().next();
        self.coordinator = lowest.unwrap_or(self.me);
        if self.coordinator != self.me {
            let message = Message::Contribute(self.mine.clone());
            return self.outbox.push((self.coordinator, message));
        }
        self.contributions[self.me as usize] = Some(self.mine.clone());
        match self.mine.held.clone() {
            Some(decision) => self.spread(decision),
            None => {
                self.phase = Phase::Gathers;
                self.look_at_contributions();
            }
        }
    }

    /// A message has come from another member.
    pub fn receive(&mut self, from: u32, message: Message) {
        // What a dead one has sent counts no more: others may have gone on without.
        if from >= self.size || self.failed.has(from) || self.phase == Phase::Over {
            return;
        }
        match message {
            Message::Contribute(theirs) => {
                self.contributions[from as usize] = Some(theirs);
                match (self.phase, self.mine.held.clone()) {
                    (Phase::Gathers, _) => self.look_at_contributions(),
                    // It may have passed over what was sent before it found out who coordinates.
                    (Phase::Spreads, Some(decision)) => {
                        self.outbox.push((from, Message::Decide(decision)));
                    }
                    _ => {}
                }
            }
            // Who decides has found all below it dead.
            Message::Decide(decision) if from >= self.coordinator => {
                self.coordinator = from;
                self.phase = Phase::Follows;
                self.mine.held = Some(decision);
                self.outbox.push((from, Message::Got));
            }
            Message::Decide(_) => {}
            Message::Got if self.phase == Phase::Spreads => {
                self.got.add(from);
                self.look_at_answers();
            }
            Message::Got => {}
            Message::GoOn if self.mine.held.is_some() => self.go_on(),
            Message::GoOn => {}
        }
    }

    /// Goes on as another says. Those who have turned to this member meanwhile hear nothing from another any more.
    fn go_on(&mut self) {
        self.phase = Phase::Over;
        let me = self.me;
        let turned = (0..self.size).zip(&self.contributions);
        for (one, _) in turned.filter(|(one, theirs)| *one != me && theirs.is_some()) {
            self.outbox.push((one, Message::GoOn));
        }
    }

    /// Decides, once all the living have contributed.
    fn look_at_contributions(&mut self) {
        let silent = |one: u32| self.contributions[one as usize].is_none();
        if self.living().any(silent) {
            return;
        }
        let mut all = self.contributions.iter().flatten();
        let decision = match all.find_map(|one| one.held.clone()) {
            Some(decision) => decision,
            None => self.decide(),
        };
        self.spread(decision);
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

    fn spread(&mut self, decision: Decision) {
        self.phase = Phase::Spreads;
        self.mine.held = Some(decision.clone());
        self.got.add(self.me);
        let others: Vec<u32> = self.living().filter(|one| *one != self.me).collect();
        for one in others {
            self.outbox.push((one, Message::Decide(decision.clone())));
        }
        self.look_at_answers();
    }

    /// Goes on, once all the living have the decision.
    fn look_at_answers(&mut self) {
        if self.living().any(|one| !self.got.has(one)) {
            return;
        }
        self.phase = Phase::Over;
        let others: Vec<u32> = self.living().filter(|one| *one != self.me).collect();
        for one in others {
            self.outbox.push((one, Message::GoOn));
        }
    }
}
