//! Locks of windows as words in exposed memory, which members change by the network's atomics alone: two
//! levels, as in foMPI (Gerstenberger, Besta, Hoefler: "Enabling highly-scalable remote memory access
//! programming with MPI-3 one sided", 2013).
//!
//! One member of the window has the *home* word. Who has, or wants, locks of all targets is noted there, and
//! who has, or wants, exclusive locks of some: these two exclude each other. Each target has a *lock* word,
//! of those who have it for reading or for writing. `MPI_Win_lock_all` takes one atomic, a shared lock one,
//! the first exclusive lock of a process two and others one, if nobody is in the way.
//!
//! Everything that a member notes is a number of its own that it adds, and takes away by adding its
//! negative. In windows of few members that is a bit for each, so that a word says who is there. With more
//! it is a count (and for an exclusive lock the rank): who is there is then known of writers only.
//!
//! An [`Acquire`] is the way of one member to a lock, one step after the other and without knowledge of how
//! atomics are carried out, so that a test can run several in all orders.

use netmod::AtomicOp;

/// Which word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    /// That of the window.
    Home,
    /// That of the target.
    Lock,
}

/// What is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Wish {
    /// A target, with others.
    Shared,
    /// A target, alone.
    Exclusive,
    /// All targets, with others.
    All,
}

/// How members are noted in words of three fields of 21 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Layout {
    /// Each has a bit.
    Few,
    /// They are counted.
    Many,
}

const FIELD: u32 = 21;
const MASK: u64 = (1 << FIELD) - 1;

impl Layout {
    /// For a window of so many members; `None` if they are too many.
    pub fn of(members: u32) -> Option<Layout> {
        match u64::from(members) {
            0..=21 => Some(Layout::Few),
            22..=MASK => Some(Layout::Many),
            _ => None,
        }
    }

    /// A member in a field of others like it.
    fn one(self, member: u32) -> u64 {
        match self {
            Layout::Few => 1 << member,
            Layout::Many => 1,
        }
    }

    // The home word.

    /// A member has all locks.
    pub fn has_all(self, member: u32) -> u64 {
        self.one(member)
    }

    /// A member waits for all locks.
    fn awaits_all(self, member: u32) -> u64 {
        self.one(member) << FIELD
    }

    /// A member has exclusive locks, or is about to have one.
    pub fn writes(self, member: u32) -> u64 {
        self.one(member) << (2 * FIELD)
    }

    // The lock word.

    /// A member reads.
    pub fn reader(self, member: u32) -> u64 {
        self.one(member)
    }

    /// A member writes.
    pub fn writer(self, member: u32) -> u64 {
        u64::from(member + 1) << (2 * FIELD)
    }

    /// What a lost member has in a word; `None` if that can't be told.
    pub fn part_of(self, place: Place, word: u64, member: u32) -> Option<u64> {
        let all = match place {
            Place::Home => self.one(member) * (1 | 1 << FIELD | 1 << (2 * FIELD)),
            Place::Lock => self.one(member),
        };
        let writes = match place {
            Place::Lock if writer_of(word) == Some(member) => self.writer(member),
            _ => 0,
        };
        match (self, place) {
            (Layout::Few, _) => Some(word & all | writes),
            (Layout::Many, Place::Lock) if field(word, 0) == 0 => Some(writes),
            (Layout::Many, Place::Home) if word == 0 => Some(0),
            (Layout::Many, _) => None,
        }
    }
}

/// A field of a word.
fn field(word: u64, number: u32) -> u64 {
    word >> (number * FIELD) & MASK
}

/// The member that writes, by a lock word.
pub(crate) fn writer_of(word: u64) -> Option<u32> {
    (word >> (2 * FIELD)).checked_sub(1).map(|rank| rank as u32)
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// An atomic; [`Acquire::found`] is to be told what it found.
    Do {
        place: Place,
        op: AtomicOp,
        operand: u64,
        compare: u64,
    },
    /// Others are in the way, by this word. Later the next step is another look.
    Pause(Place, u64),
    /// The lock is had.
    Granted,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// To note at home that exclusive locks are wanted, or all.
    Register,
    /// To take that back, or to wait instead of having.
    StepBack,
    /// Others are in the way at home.
    BlockedAtHome(u64),
    /// To look again there.
    LookAtHome,
    /// To have all, if home is still so.
    Promote(u64),
    /// To enter at the target.
    Enter,
    /// Others are in the way there.
    BlockedAtLock(u64),
    /// To look again there.
    LookAtLock,
    Granted,
}

/// A member's way to a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Acquire {
    layout: Layout,
    me: u32,
    wish: Wish,
    /// The member has other locks: it doesn't give way to those who only wait, since they may wait for it.
    held: bool,
    state: State,
    /// What it has added to the words.
    at_home: u64,
    at_lock: u64,
}

impl Acquire {
    /// The beginning. `held`: the member has other locks; `writes`: among them exclusive ones.
    pub fn new(layout: Layout, me: u32, wish: Wish, held: bool, writes: bool) -> Acquire {
        let state = match wish {
            Wish::Shared => State::Enter,
            Wish::Exclusive if writes => State::Enter,
            _ => State::Register,
        };
        Acquire {
            layout,
            me,
            wish,
            held,
            state,
            at_home: 0,
            at_lock: 0,
        }
    }

    /// What the home word has to be free of.
    fn is_blocked_at_home(&self, word: u64) -> bool {
        match self.wish {
            Wish::All => field(word, 2) != 0,
            _ => field(word, 0) != 0 || !self.held && field(word, 1) != 0,
        }
    }

    /// Whether what a lost member had in a word kept this one from its lock.
    pub fn is_blocked_by(&self, place: Place, part: u64) -> bool {
        match (self.wish, place) {
            (Wish::All, _) => field(part, 2) != 0,
            (_, Place::Home) => field(part, 0) != 0,
            (Wish::Shared, Place::Lock) => writer_of(part).is_some(),
            (Wish::Exclusive, Place::Lock) => part != 0,
        }
    }

    /// Whether nothing is left to do at home, for exclusive locks.
    pub fn is_past_home(&self) -> bool {
        matches!(
            self.state,
            State::Enter | State::BlockedAtLock(_) | State::LookAtLock | State::Granted
        )
    }

    /// The next step.
    pub fn next(&self) -> Step {
        let add = |place, operand| Step::Do {
            place,
            op: AtomicOp::Add,
            operand,
            compare: 0,
        };
        let look = |place| Step::Do {
            place,
            op: AtomicOp::Load,
            operand: 0,
            compare: 0,
        };
        let swap = |place, compare, operand| Step::Do {
            place,
            op: AtomicOp::CompareSwap,
            operand,
            compare,
        };
        let Acquire { layout, me, .. } = *self;
        match (self.state, self.wish) {
            (State::Register, Wish::All) => add(Place::Home, layout.has_all(me)),
            (State::Register, _) => add(Place::Home, layout.writes(me)),
            (State::StepBack, Wish::All) => add(Place::Home, self.waits_instead()),
            (State::StepBack, _) => add(Place::Home, layout.writes(me).wrapping_neg()),
            (State::BlockedAtHome(word), _) => Step::Pause(Place::Home, word),
            (State::LookAtHome, _) => look(Place::Home),
            (State::Promote(word), _) => {
                let promoted = word.wrapping_sub(self.waits_instead());
                swap(Place::Home, word, promoted)
            }
            (State::Enter, Wish::Shared) => add(Place::Lock, layout.reader(me)),
            (State::Enter, _) => swap(Place::Lock, 0, layout.writer(me)),
            (State::BlockedAtLock(word), _) => Step::Pause(Place::Lock, word),
            (State::LookAtLock, _) => look(Place::Lock),
            (State::Granted, _) => Step::Granted,
        }
    }

    /// From having all to waiting for all.
    fn waits_instead(&self) -> u64 {
        let (layout, me) = (self.layout, self.me);
        layout.awaits_all(me).wrapping_sub(layout.has_all(me))
    }

    /// After a pause: look again.
    pub fn go_on(&mut self) {
        self.state = match (self.state, self.wish) {
            (State::BlockedAtHome(_), _) => State::LookAtHome,
            (State::BlockedAtLock(_), Wish::Shared) => State::LookAtLock,
            // The attempt is a look, too.
            (State::BlockedAtLock(_), _) => State::Enter,
            (state, _) => state,
        };
    }

    /// What the atomic of [`Acquire::next`] found, which was carried out.
    pub fn found(&mut self, word: u64) {
        let (layout, me) = (self.layout, self.me);
        self.state = match (self.state, self.wish) {
            (State::Register, wish) => {
                self.at_home = match wish {
                    Wish::All => layout.has_all(me),
                    _ => layout.writes(me),
                };
                match (self.is_blocked_at_home(word), wish) {
                    (true, _) => State::StepBack,
                    (false, Wish::All) => State::Granted,
                    (false, _) => State::Enter,
                }
            }
            (State::StepBack, wish) => {
                self.at_home = match wish {
                    Wish::All => layout.awaits_all(me),
                    _ => 0,
                };
                State::BlockedAtHome(word)
            }
            (State::LookAtHome, wish) => match (self.is_blocked_at_home(word), wish) {
                (true, _) => State::BlockedAtHome(word),
                (false, Wish::All) => State::Promote(word),
                (false, _) => State::Register,
            },
            (State::Promote(expected), _) if word == expected => {
                self.at_home = layout.has_all(me);
                State::Granted
            }
            (State::Promote(_), _) => match self.is_blocked_at_home(word) {
                true => State::BlockedAtHome(word),
                false => State::Promote(word),
            },
            (State::Enter, Wish::Shared) => {
                self.at_lock = layout.reader(me);
                match writer_of(word) {
                    Some(_) => State::BlockedAtLock(word),
                    None => State::Granted,
                }
            }
            (State::Enter, _) if word == 0 => {
                self.at_lock = layout.writer(me);
                State::Granted
            }
            (State::Enter, _) => State::BlockedAtLock(word),
            (State::LookAtLock, _) => match writer_of(word) {
                Some(_) => State::BlockedAtLock(word),
                None => State::Granted,
            },
            (state, _) => state,
        };
    }

    /// What is to be added to the two words, home and lock, to take back what this has noted there: the lock
    /// is given back, or not waited for any more.
    pub fn undo(&self) -> [u64; 2] {
        [self.at_home.wrapping_neg(), self.at_lock.wrapping_neg()]
    }
}

#[cfg(test)]
#[path = "lock_protocol_tests.rs"]
mod tests;
