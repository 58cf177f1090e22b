//! Members on their ways to locks, in all orders of their steps.

use super::*;
use std::collections::{HashMap, VecDeque};

/// The words of a window with two targets that matter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Words {
    home: u64,
    locks: [u64; 2],
}

impl Words {
    fn word(&mut self, place: Place, target: usize) -> &mut u64 {
        match place {
            Place::Home => &mut self.home,
            Place::Lock => &mut self.locks[target],
        }
    }

    fn act(&mut self, step: Step, target: usize) -> u64 {
        let Step::Do {
            place,
            op,
            operand,
            compare,
        } = step
        else {
            panic!("{step:?} is no atomic");
        };
        let word = self.word(place, target);
        let found = *word;
        match op {
            AtomicOp::Add => *word = found.wrapping_add(operand),
            AtomicOp::CompareSwap if found == compare => *word = operand,
            _ => {}
        }
        found
    }
}

/// What a member does: a lock inside another, or one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Deed {
    Lock(Wish, usize),
    Unlock,
}

/// A member: how far it is in its script, and what it has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Member {
    at: usize,
    acquire: Option<(Acquire, usize)>,
    /// Locks had: the wish, the target, and what is to be added to release it.
    had: Vec<(Wish, usize, [u64; 2])>,
    /// What is still to be added of a release.
    rest: Vec<(Place, usize, u64)>,
    dead: bool,
    /// It was told that somebody died.
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
            had: Vec::new(),
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

    /// The states that a step of a member leads to; none if it can't do any.
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
        if let Some((place, target, what)) = member.rest.pop() {
            let word = words.word(place, target);
            *word = word.wrapping_add(what);
            return Some(next);
        }
        let Some((acquire, target)) = &mut member.acquire else {
            match *scripts[who].get(member.at)? {
                Deed::Unlock => {
                    if let Some((_, target, undo)) = member.had.pop() {
                        // As long as other exclusive locks are had, home is left as it is.
                        member.rest = undo_steps(undo, target);
                    }
                    member.at += 1;
                }
                Deed::Lock(wish, target) => {
                    let held = !member.had.is_empty();
                    let writes = member.had.iter().any(|had| had.0 == Wish::Exclusive);
                    let acquire = Acquire::new(layout, who as u32, wish, held, writes);
                    member.acquire = Some((acquire, target));
                }
            }
            return Some(next);
        };
        let target = *target;
        match acquire.next() {
            Step::Granted => {
                let Deed::Lock(wish, _) = scripts[who][member.at] else {
                    panic!("granted what was not asked for");
                };
                member.had.push((wish, target, acquire.undo()));
                member.acquire = None;
                member.at += 1;
            }
            step @ Step::Do { .. } => acquire.found(words.act(step, target)),
            Step::Pause(place, word) => {
                for dead in losses {
                    let Some(part) = layout.part_of(place, word, dead) else {
                        give_up(member, target);
                        return Some(next);
                    };
                    if part == 0 {
                        continue;
                    }
                    let now = words.word(place, target);
                    if *now == word {
                        *now = word.wrapping_sub(part);
                        if acquire.is_blocked_by(place, part) {
                            give_up(member, target);
                        }
                    } else {
                        acquire.go_on();
                    }
                    return Some(next);
                }
                acquire.go_on();
            }
        }
        Some(next)
    }

    /// Nobody has what excludes what another has.
    fn check(&self) {
        let had = |member: &Member| member.had.clone();
        for (one, member) in self.members.iter().enumerate() {
            for other in &self.members[one + 1..] {
                if member.dead || other.dead {
                    continue;
                }
                for (wish, target, _) in had(member) {
                    for (their, at, _) in had(other) {
                        let same = target == at || wish == Wish::All || their == Wish::All;
                        let alone = wish == Wish::Exclusive || their == Wish::Exclusive;
                        assert!(!(same && alone), "two have locks at once: {self:?}");
                    }
                }
            }
        }
    }
}

fn undo_steps([home, lock]: [u64; 2], target: usize) -> Vec<(Place, usize, u64)> {
    let mut rest = Vec::new();
    if home != 0 {
        rest.push((Place::Home, target, home));
    }
    if lock != 0 {
        rest.push((Place::Lock, target, lock));
    }
    rest
}

/// The member leaves its lock out, and the next unlock with it.
fn give_up(member: &mut Member, target: usize) {
    if let Some((acquire, _)) = member.acquire.take() {
        member.rest = undo_steps(acquire.undo(), target);
    }
    member.failed = true;
    member.at += 2;
}

/// Goes through all orders. Nobody may exclude another wrongly, and from everywhere there must be a way to the
/// end. `mortal` may die at any time. Gives how many states there are, and in how many ends somebody failed.
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
    // Backwards from the ends everything must be reached.
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

fn one(wish: Wish, target: usize) -> Vec<Deed> {
    vec![Deed::Lock(wish, target), Deed::Unlock]
}

fn nested(outer: (Wish, usize), inner: (Wish, usize)) -> Vec<Deed> {
    vec![
        Deed::Lock(outer.0, outer.1),
        Deed::Lock(inner.0, inner.1),
        Deed::Unlock,
        Deed::Unlock,
    ]
}

#[test]
fn locks_exclude_what_they_are_to_in_every_order_and_nobody_is_stuck() {
    use Wish::{All, Exclusive, Shared};
    let wishes = [Shared, Exclusive, All];
    for layout in [Layout::Few, Layout::Many] {
        let mut states = 0;
        for a in wishes {
            // (Members are alike: each set once.)
            for b in wishes.into_iter().filter(|b| *b as u8 >= a as u8) {
                for c in wishes.into_iter().filter(|c| *c as u8 >= b as u8) {
                    let scripts = [one(a, 0), one(b, 0), one(c, 0)];
                    states += explore(layout, &scripts, None).0;
                }
            }
            // Twice in a row, against an exclusive one.
            let twice = [one(a, 0), one(a, 0)].concat();
            states += explore(layout, &[twice.clone(), one(Exclusive, 0)], None).0;
            states += explore(layout, &[twice, one(All, 0), one(Exclusive, 1)], None).0;
        }
        println!("{layout:?}: {states} states of three members");
    }
}

#[test]
fn who_has_a_lock_does_not_wait_for_those_who_wait_for_it() {
    use Wish::{All, Exclusive, Shared};
    for layout in [Layout::Few, Layout::Many] {
        for outer in [Shared, Exclusive] {
            for inner in [Shared, Exclusive] {
                // In one order, so that the program is right, with one who wants all meanwhile.
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
fn whenever_a_member_dies_the_others_come_to_an_end_and_later_ones_get_their_locks() {
    use Wish::{All, Exclusive, Shared};
    let wishes = [Shared, Exclusive, All];
    for layout in [Layout::Few, Layout::Many] {
        let mut failed = 0;
        for dies in wishes {
            for a in wishes {
                // The other one comes a second time.
                let again = [one(a, 0), one(a, 0)].concat();
                failed += explore(layout, &[one(dies, 0), again], Some(0)).1;
                for b in wishes.into_iter().filter(|b| *b as u8 >= a as u8) {
                    let scripts = [one(dies, 0), one(a, 0), one(b, 0)];
                    failed += explore(layout, &scripts, Some(0)).1;
                }
            }
        }
        assert!(failed > 0);
    }
}

#[test]
fn a_dead_member_of_few_leaves_nothing_behind_that_holds_anybody_up() {
    // It had everything that one can have in these words, and only others' parts stay.
    let layout = Layout::Few;
    let (home, lock) = (
        layout.has_all(3) | layout.awaits_all(4) | layout.writes(3) | layout.writes(20),
        layout.reader(3) | layout.reader(0) | layout.writer(3),
    );
    let part = layout.part_of(Place::Home, home, 3).unwrap();
    assert_eq!(home - part, layout.awaits_all(4) | layout.writes(20));
    let part = layout.part_of(Place::Lock, lock, 3).unwrap();
    assert_eq!(lock - part, layout.reader(0));
    assert_eq!(layout.part_of(Place::Lock, layout.writer(2), 3), Some(0));
    // Of many, writers are known, and others if there are none.
    let many = Layout::Many;
    let most = (1 << 21) - 2;
    assert_eq!(writer_of(many.writer(most)), Some(most));
    assert_eq!(
        many.part_of(Place::Lock, many.writer(7), 7),
        Some(many.writer(7))
    );
    assert_eq!(
        many.part_of(Place::Lock, many.writer(7) + many.reader(9), 9),
        None
    );
    assert_eq!(many.part_of(Place::Home, 0, 9), Some(0));
}

#[test]
fn a_million_members_have_room() {
    assert_eq!(Layout::of(21), Some(Layout::Few));
    assert_eq!(Layout::of(1 << 20), Some(Layout::Many));
    assert_eq!(Layout::of(1 << 21), None);
}
