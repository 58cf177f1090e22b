//! The lock protocol of passive-target windows: words in exposed memory that members change by the
//! network's atomics alone.
//!
//! The protocol has two levels, as in foMPI (Gerstenberger, Besta, Hoefler: "Enabling
//! highly-scalable remote memory access programming with MPI-3 one sided", 2013):
//!
//! - One member of the window has the *home* word. It lists the members that hold or await locks of
//!   all targets, and those that hold or await exclusive locks of single targets. These two groups
//!   exclude each other.
//! - Each target has a *lock* word. It lists the readers and the writer of this target.
//!
//! Without contention `MPI_Win_lock_all` and a shared lock take one atomic each, the first
//! exclusive lock of a process takes two, and its others take one.
//!
//! A member registers by adding a number of its own to a word, and leaves by subtracting it. In
//! windows of few members the number is a bit per member, so that a word names all of them. In
//! larger windows it is 1, so that a word holds counts and names only the writer.
//!
//! [`Acquire`] is the state machine of one acquisition. It does not know how atomics are carried
//! out, so that a test can run several of them in all orders.

use netmod::AtomicOp;

/// A word of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LockWord {
    /// The word of the window.
    Home,
    /// The word of the target.
    Lock,
}

/// The type of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LockMode {
    /// One target, shared with other readers.
    Shared,
    /// One target, exclusive.
    Exclusive,
    /// All targets, shared.
    All,
}

/// Encoding of members in words of three 21-bit fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Layout {
    /// A bit per member in each field.
    Few,
    /// A count of members in each field.
    Many,
}

const FIELD: u32 = 21;
const MASK: u64 = (1 << FIELD) - 1;

impl Layout {
    /// Selects the encoding for a window of `members`. Returns `None` if they are too many.
    pub fn of(members: u32) -> Option<Layout> {
        match u64::from(members) {
            0..=21 => Some(Layout::Few),
            22..=MASK => Some(Layout::Many),
            _ => None,
        }
    }

    /// The number that a member adds to a field.
    fn one(self, member: u32) -> u64 {
        match self {
            Layout::Few => 1 << member,
            Layout::Many => 1,
        }
    }

    // The home word.

    /// The home word's part of a member that holds all locks.
    pub fn has_all(self, member: u32) -> u64 {
        self.one(member)
    }

    /// The home word's part of a member that waits for all locks.
    fn awaits_all(self, member: u32) -> u64 {
        self.one(member) << FIELD
    }

    /// The home word's part of a member that holds exclusive locks, or is about to acquire one.
    pub fn writes(self, member: u32) -> u64 {
        self.one(member) << (2 * FIELD)
    }

    // The lock word.

    /// The lock word's part of a reader.
    pub fn reader(self, member: u32) -> u64 {
        self.one(member)
    }

    /// The lock word's part of a writer.
    pub fn writer(self, member: u32) -> u64 {
        u64::from(member + 1) << (2 * FIELD)
    }

    /// Returns the part of a lost member in a word. `None` if counts do not show it.
    pub fn share_of(self, lock_word: LockWord, word: u64, member: u32) -> Option<u64> {
        let all = match lock_word {
            LockWord::Home => self.one(member) * (1 | 1 << FIELD | 1 << (2 * FIELD)),
            LockWord::Lock => self.one(member),
        };
        let writes = match lock_word {
            LockWord::Lock if writer_of(word) == Some(member) => self.writer(member),
            _ => 0,
        };
        match (self, lock_word) {
            (Layout::Few, _) => Some(word & all | writes),
            (Layout::Many, LockWord::Lock) if field(word, 0) == 0 => Some(writes),
            (Layout::Many, LockWord::Home) if word == 0 => Some(0),
            (Layout::Many, _) => None,
        }
    }
}

/// Returns a field of a word.
fn field(word: u64, number: u32) -> u64 {
    word >> (number * FIELD) & MASK
}

/// Returns the writer that a lock word names.
pub(crate) fn writer_of(word: u64) -> Option<u32> {
    (word >> (2 * FIELD)).checked_sub(1).map(|rank| rank as u32)
}

/// The next action of an acquisition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Carry out an atomic and pass the previous value to [`Acquire::handle_result`].
    Atomic {
        lock_word: LockWord,
        op: AtomicOp,
        operand: u64,
        compare: u64,
    },
    /// Wait: other members block the lock, as this value of the word shows. Then call
    /// [`Acquire::resume`].
    Pause(LockWord, u64),
    /// The lock is acquired.
    Granted,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// Next: register at home, for exclusive locks or for all.
    Register,
    /// Next: withdraw that registration, or turn it from holding all into waiting for all.
    StepBack,
    /// The home word shows conflicting members.
    BlockedAtHome(u64),
    /// Next: load the home word.
    LookAtHome,
    /// Next: turn waiting for all into holding all, if the home word still has this value.
    Promote(u64),
    /// Next: register at the target.
    Enter,
    /// The lock word shows conflicting members.
    BlockedAtLock(u64),
    /// Next: load the lock word.
    LookAtLock,
    Granted,
}

/// The acquisition of a lock by one member, as a state machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Acquire {
    layout: Layout,
    me: u32,
    mode: LockMode,
    /// Whether the member holds other locks. It then ignores members that only wait, since they may
    /// be waiting for it.
    held: bool,
    state: State,
    /// The numbers that it has added to the words.
    at_home: u64,
    at_lock: u64,
}

impl Acquire {
    /// Begins an acquisition. `held`: the member holds other locks; `writes`: exclusive ones among
    /// them.
    pub fn new(layout: Layout, me: u32, mode: LockMode, held: bool, writes: bool) -> Acquire {
        let state = match mode {
            LockMode::Shared => State::Enter,
            LockMode::Exclusive if writes => State::Enter,
            _ => State::Register,
        };
        Acquire {
            layout,
            me,
            mode,
            held,
            state,
            at_home: 0,
            at_lock: 0,
        }
    }

    /// Whether the home word shows members that exclude this one.
    fn is_blocked_at_home(&self, word: u64) -> bool {
        match self.mode {
            LockMode::All => field(word, 2) != 0,
            _ => field(word, 0) != 0 || !self.held && field(word, 1) != 0,
        }
    }

    /// Whether a lost member's part of a word excludes this member.
    pub fn is_blocked_by(&self, lock_word: LockWord, part: u64) -> bool {
        match (self.mode, lock_word) {
            (LockMode::All, _) => field(part, 2) != 0,
            (_, LockWord::Home) => field(part, 0) != 0,
            (LockMode::Shared, LockWord::Lock) => writer_of(part).is_some(),
            (LockMode::Exclusive, LockWord::Lock) => part != 0,
        }
    }

    /// Whether an exclusive acquisition has completed its registration at home.
    pub fn has_passed_home(&self) -> bool {
        matches!(
            self.state,
            State::Enter | State::BlockedAtLock(_) | State::LookAtLock | State::Granted
        )
    }

    /// Returns the next action.
    pub fn next(&self) -> Step {
        let add = |lock_word, operand| Step::Atomic {
            lock_word,
            op: AtomicOp::Add,
            operand,
            compare: 0,
        };
        let look = |lock_word| Step::Atomic {
            lock_word,
            op: AtomicOp::Load,
            operand: 0,
            compare: 0,
        };
        let swap = |lock_word, compare, operand| Step::Atomic {
            lock_word,
            op: AtomicOp::CompareSwap,
            operand,
            compare,
        };
        let Acquire { layout, me, .. } = *self;
        match (self.state, self.mode) {
            (State::Register, LockMode::All) => add(LockWord::Home, layout.has_all(me)),
            (State::Register, _) => add(LockWord::Home, layout.writes(me)),
            (State::StepBack, LockMode::All) => add(LockWord::Home, self.waits_instead()),
            (State::StepBack, _) => add(LockWord::Home, layout.writes(me).wrapping_neg()),
            (State::BlockedAtHome(word), _) => Step::Pause(LockWord::Home, word),
            (State::LookAtHome, _) => look(LockWord::Home),
            (State::Promote(word), _) => {
                let promoted = word.wrapping_sub(self.waits_instead());
                swap(LockWord::Home, word, promoted)
            }
            (State::Enter, LockMode::Shared) => add(LockWord::Lock, layout.reader(me)),
            (State::Enter, _) => swap(LockWord::Lock, 0, layout.writer(me)),
            (State::BlockedAtLock(word), _) => Step::Pause(LockWord::Lock, word),
            (State::LookAtLock, _) => look(LockWord::Lock),
            (State::Granted, _) => Step::Granted,
        }
    }

    /// The difference that turns holding all into waiting for all.
    fn waits_instead(&self) -> u64 {
        let (layout, me) = (self.layout, self.me);
        layout.awaits_all(me).wrapping_sub(layout.has_all(me))
    }

    /// Ends a pause: the next step examines the word again.
    pub fn resume(&mut self) {
        self.state = match (self.state, self.mode) {
            (State::BlockedAtHome(_), _) => State::LookAtHome,
            (State::BlockedAtLock(_), LockMode::Shared) => State::LookAtLock,
            // The compare-and-swap also returns the current value.
            (State::BlockedAtLock(_), _) => State::Enter,
            (state, _) => state,
        };
    }

    /// Handles the previous value that the atomic of [`Acquire::next`] returned.
    pub fn handle_result(&mut self, word: u64) {
        let (layout, me) = (self.layout, self.me);
        self.state = match (self.state, self.mode) {
            (State::Register, mode) => {
                self.at_home = match mode {
                    LockMode::All => layout.has_all(me),
                    _ => layout.writes(me),
                };
                match (self.is_blocked_at_home(word), mode) {
                    (true, _) => State::StepBack,
                    (false, LockMode::All) => State::Granted,
                    (false, _) => State::Enter,
                }
            }
            (State::StepBack, mode) => {
                self.at_home = match mode {
                    LockMode::All => layout.awaits_all(me),
                    _ => 0,
                };
                State::BlockedAtHome(word)
            }
            (State::LookAtHome, mode) => match (self.is_blocked_at_home(word), mode) {
                (true, _) => State::BlockedAtHome(word),
                (false, LockMode::All) => State::Promote(word),
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
            (State::Enter, LockMode::Shared) => {
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

    /// Returns the numbers to add to the home and the lock word to release the lock, or to abandon
    /// the acquisition.
    pub fn undo(&self) -> [u64; 2] {
        [self.at_home.wrapping_neg(), self.at_lock.wrapping_neg()]
    }
}

#[cfg(test)]
#[path = "lock_protocol_tests.rs"]
mod tests;
