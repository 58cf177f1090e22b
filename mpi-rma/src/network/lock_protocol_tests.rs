//! Model checking of the lock protocol: several members, in all orders of their steps.

use super::*;
use std::collections::{HashMap, VecDeque};

/// The words of the protocol in a window with two targets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Words {
    home: u64,
    locks: [u64; 2],
}

impl Words {
    fn word(&mut self, lock_word: LockWord, target: usize) -> &mut u64 {
        match lock_word {
            LockWord::Home => &mut self.home,
            LockWord::Lock => &mut self.locks[target],
        }
    }

    fn act(&mut self, step: Step, target: usize) -> u64 {
        let Step::Atomic {
            lock_word,
            op,
            operand,
            compare,
        } = step
        else {
            panic!("{step:?} is no atomic");
        };
        let word = self.word(lock_word, target);
        let found = *word;
        match op {
            AtomicOp::Add => *word = found.wrapping_add(operand),
            AtomicOp::CompareSwap if found == compare => *word = operand,
            _ => {}
        }
        found
    }
}

/// A step of a member's script.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Deed {
    Lock(LockMode, usize),
    Unlock,
}

/// State of a member: its position in its script, and its locks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Member {
    at: usize,
    acquire: Option<(Acquire, usize)>,
    /// Locks held: mode, target, and the numbers to add to release it.
    held_locks: Vec<(LockMode, usize, [u64; 2])>,
    /// The rest of a release: numbers to add to words.
    rest: Vec<(LockWord, usize, u64)>,
    dead: bool,
    /// Whether an acquisition has failed by the death of a holder.
    failed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    words: Words,
    members: Vec<Member>,
}

impl World {
    fn new(members: usize) -> World {
        let member = Member {
            at: 0,
            acquire: None,
            held_locks: Vec::new(),
            rest: Vec::new(),
            dead: false,
            failed: false,
        };
        World {
            words: Words::default(),
            members: vec![member; members],
        }
    }

    fn is_over(&self, scripts: &[Vec<Deed>]) -> bool {
        let mut all = self.members.iter().zip(scripts);
        all.all(|(member, script)| {
            member.dead || member.at == script.len() && member.rest.is_empty()
        })
    }

    /// Returns the state after a step of a member. `None` if it has no step to make.
    fn step(&self, layout: Layout, scripts: &[Vec<Deed>], who: usize) -> Option<World> {
        let mut next = self.clone();
        let World { words, members } = &mut next;
        let losses: Vec<u32> = (0..)
            .zip(&*members)
            .filter(|(_, member)| member.dead)
            .map(|(rank, _)| rank)
            .collect();
        let member = &mut members[who];
        if member.dead {
            return None;
        }
        if let Some((lock_word, target, what)) = member.rest.pop() {
            let word = words.word(lock_word, target);
            *word = word.wrapping_add(what);
            return Some(next);
        }
        let Some((acquire, target)) = &mut member.acquire else {
            match *scripts[who].get(member.at)? {
                Deed::Unlock => {
                    if let Some((_, target, undo)) = member.held_locks.pop() {
                        // The registration at home stays while the member holds exclusive locks.
                        member.rest = undo_steps(undo, target);
                    }
                    member.at += 1;
                }
                Deed::Lock(mode, target) => {
                    let held = !member.held_locks.is_empty();
                    let writes = member
                        .held_locks
                        .iter()
                        .any(|had| had.0 == LockMode::Exclusive);
                    let acquire = Acquire::new(layout, who as u32, mode, held, writes);
                    member.acquire = Some((acquire, target));
                }
            }
            return Some(next);
        };
        let target = *target;
        match acquire.next() {
            Step::Granted => {
                let Deed::Lock(mode, _) = scripts[who][member.at] else {
                    panic!("granted what was not asked for");
                };
                member.held_locks.push((mode, target, acquire.undo()));
                member.acquire = None;
                member.at += 1;
            }
            step @ Step::Atomic { .. } => acquire.handle_result(words.act(step, target)),
            Step::Pause(lock_word, word) => {
                for dead in losses {
                    let Some(part) = layout.share_of(lock_word, word, dead) else {
                        skip_lock(member, target);
                        return Some(next);
                    };
                    if part == 0 {
                        continue;
                    }
                    let now = words.word(lock_word, target);
                    if *now == word {
                        *now = word.wrapping_sub(part);
                        if acquire.is_blocked_by(lock_word, part) {
                            skip_lock(member, target);
                        }
                    } else {
                        acquire.resume();
                    }
                    return Some(next);
                }
                acquire.resume();
            }
        }
        Some(next)
    }

    /// Asserts that no two members hold locks that exclude each other.
    fn check(&self) {
        let had = |member: &Member| member.held_locks.clone();
        for (one, member) in self.members.iter().enumerate() {
            for other in &self.members[one + 1..] {
                if member.dead || other.dead {
                    continue;
                }
                for (mode, target, _) in had(member) {
                    for (their, at, _) in had(other) {
                        let same = target == at || mode == LockMode::All || their == LockMode::All;
                        let alone = mode == LockMode::Exclusive || their == LockMode::Exclusive;
                        assert!(!(same && alone), "two have locks at once: {self:?}");
                    }
                }
            }
        }
    }
}

fn undo_steps([home, lock]: [u64; 2], target: usize) -> Vec<(LockWord, usize, u64)> {
    let mut rest = Vec::new();
    if home != 0 {
        rest.push((LockWord::Home, target, home));
    }
    if lock != 0 {
        rest.push((LockWord::Lock, target, lock));
    }
    rest
}

/// Makes a member skip its lock, and the unlock after it.
fn skip_lock(member: &mut Member, target: usize) {
    if let Some((acquire, _)) = member.acquire.take() {
        member.rest = undo_steps(acquire.undo(), target);
    }
    member.failed = true;
    member.at += 2;
}

/// Explores all orders of steps. Asserts mutual exclusion, and that the end is reachable from every
/// state. `mortal` may die at any time. Returns the number of states, and of final states in which an
/// acquisition has failed.
fn explore(layout: Layout, scripts: &[Vec<Deed>], mortal: Option<usize>) -> (usize, usize) {
    let first = World::new(scripts.len());
    let mut numbers = HashMap::from([(first.clone(), 0usize)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut queue = VecDeque::from([first]);
    let (mut ends, mut failures) = (Vec::new(), 0);
    while let Some(world) = queue.pop_front() {
        let number = numbers[&world];
        world.check();
        if world.is_over(scripts) {
            ends.push(number);
            failures += usize::from(world.members.iter().any(|member| member.failed));
            if mortal.is_none() {
                assert_eq!(world.words, Words::default(), "something was left behind");
            }
        }
        let steps = (0..scripts.len()).filter_map(|who| world.step(layout, scripts, who));
        let death = mortal.filter(|who| !world.members[*who].dead).map(|who| {
            let mut next = world.clone();
            next.members[who].dead = true;
            next
        });
        for next in steps.chain(death) {
            let count = numbers.len();
            let known = *numbers.entry(next.clone()).or_insert(count);
            if known == count {
                before.push(Vec::new());
                queue.push_back(next);
            }
            before[known].push(number);
        }
        assert!(numbers.len() < 3_000_000, "too many states");
    }
    // Every state must be reachable backwards from the final ones.
    let mut reached = vec![false; before.len()];
    let mut stack = ends;
    while let Some(number) = stack.pop() {
        if !std::mem::replace(&mut reached[number], true) {
            stack.extend(&before[number]);
        }
    }
    let stuck = reached.iter().filter(|one| !**one).count();
    assert_eq!(stuck, 0, "{stuck} of {} states lead nowhere", reached.len());
    (reached.len(), failures)
}

fn one(mode: LockMode, target: usize) -> Vec<Deed> {
    vec![Deed::Lock(mode, target), Deed::Unlock]
}

fn nested(outer: (LockMode, usize), inner: (LockMode, usize)) -> Vec<Deed> {
    vec![
        Deed::Lock(outer.0, outer.1),
        Deed::Lock(inner.0, inner.1),
        Deed::Unlock,
        Deed::Unlock,
    ]
}

#[test]
fn locks_exclude_each_other_in_every_order_and_every_state_leads_to_the_end() {
    use LockMode::{All, Exclusive, Shared};
    let modes = [Shared, Exclusive, All];
    for layout in [Layout::Few, Layout::Many] {
        let mut states = 0;
        for a in modes {
            // Members are interchangeable, so each multiset of modes is explored once.
            for b in modes.into_iter().filter(|b| *b as u8 >= a as u8) {
                for c in modes.into_iter().filter(|c| *c as u8 >= b as u8) {
                    let scripts = [one(a, 0), one(b, 0), one(c, 0)];
                    states += explore(layout, &scripts, None).0;
                }
            }
            // Two locks in sequence against an exclusive one.
            let twice = [one(a, 0), one(a, 0)].concat();
            states += explore(layout, &[twice.clone(), one(Exclusive, 0)], None).0;
            states += explore(layout, &[twice, one(All, 0), one(Exclusive, 1)], None).0;
        }
        println!("{layout:?}: {states} states of three members");
    }
}

#[test]
fn a_holder_does_not_wait_for_members_that_wait_for_its_lock() {
    use LockMode::{All, Exclusive, Shared};
    for layout in [Layout::Few, Layout::Many] {
        for outer in [Shared, Exclusive] {
            for inner in [Shared, Exclusive] {
                // All members nest in one order, as a correct program does, while another locks all.
                let both = nested((outer, 0), (inner, 1));
                explore(layout, &[both.clone(), both.clone(), one(All, 0)], None);
                explore(
                    layout,
                    &[both.clone(), one(Exclusive, 1), one(All, 0)],
                    None,
                );
                explore(layout, &[both, nested((Exclusive, 0), (Shared, 1))], None);
            }
        }
    }
}

#[test]
fn whenever_a_member_dies_the_others_finish_and_later_locks_are_granted() {
    use LockMode::{All, Exclusive, Shared};
    let modes = [Shared, Exclusive, All];
    for layout in [Layout::Few, Layout::Many] {
        let mut failed = 0;
        for dies in modes {
            for a in modes {
                // The other member locks a second time.
                let again = [one(a, 0), one(a, 0)].concat();
                failed += explore(layout, &[one(dies, 0), again], Some(0)).1;
                for b in modes.into_iter().filter(|b| *b as u8 >= a as u8) {
                    let scripts = [one(dies, 0), one(a, 0), one(b, 0)];
                    failed += explore(layout, &scripts, Some(0)).1;
                }
            }
        }
        assert!(failed > 0);
    }
}

#[test]
fn the_share_of_a_dead_member_leaves_the_parts_of_others() {
    // The member has all parts that these words can hold for it.
    let layout = Layout::Few;
    let (home, lock) = (
        layout.has_all(3) | layout.awaits_all(4) | layout.writes(3) | layout.writes(20),
        layout.reader(3) | layout.reader(0) | layout.writer(3),
    );
    let part = layout.share_of(LockWord::Home, home, 3).unwrap();
    assert_eq!(home - part, layout.awaits_all(4) | layout.writes(20));
    let part = layout.share_of(LockWord::Lock, lock, 3).unwrap();
    assert_eq!(lock - part, layout.reader(0));
    assert_eq!(
        layout.share_of(LockWord::Lock, layout.writer(2), 3),
        Some(0)
    );
    // In large windows the share of a writer is known, and of others only if the word is clear.
    let many = Layout::Many;
    let most = (1 << 21) - 2;
    assert_eq!(writer_of(many.writer(most)), Some(most));
    assert_eq!(
        many.share_of(LockWord::Lock, many.writer(7), 7),
        Some(many.writer(7))
    );
    assert_eq!(
        many.share_of(LockWord::Lock, many.writer(7) + many.reader(9), 9),
        None
    );
    assert_eq!(many.share_of(LockWord::Home, 0, 9), Some(0));
}

#[test]
fn a_million_members_have_room() {
    assert_eq!(Layout::of(21), Some(Layout::Few));
    assert_eq!(Layout::of(1 << 20), Some(Layout::Many));
    assert_eq!(Layout::of(1 << 21), None);
}
