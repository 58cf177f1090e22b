//! Agreements whose members fail at any step, over a network that keeps only the order between two
//! members.
//!
//! Seeds are printed; `WEFT_TEST_SEED` repeats one.

use std::collections::VecDeque;

use super::agreement::{Agreement, Contribution, Decision, Message, answer_late, is_early};
use super::set::Set;

enum State {
    /// Messages that came before its call.
    Waits(Vec<(u32, Message)>),
    Agrees(Agreement),
    Committed(Decision),
    Dead,
}

struct World {
    members: Vec<State>,
    contributions: Vec<Contribution>,
    /// Whether it contributed before it died, or may have.
    called: Vec<bool>,
    /// Messages from each member to each other one.
    links: Vec<VecDeque<Message>>,
    /// The members that each has found dead.
    found: Vec<Set>,
    first: u32,
}

impl World {
    fn size(&self) -> usize {
        self.members.len()
    }

    /// Sends a member's outgoing messages; it dies after `most` of them.
    fn send(&mut self, from: usize, most: usize) {
        let size = self.size();
        let State::Agrees(agreement) = &mut self.members[from] else {
            return;
        };
        let said = agreement.take_outbox();
        let dies = said.len() > most;
        for (to, message) in said.into_iter().take(most) {
            self.links[from * size + to as usize].push_back(message);
        }
        if dies {
            self.members[from] = State::Dead;
        } else if let Some(decision) = agreement.outcome().cloned() {
            self.members[from] = State::Committed(decision);
        }
    }

    fn call(&mut self, me: usize, most: usize) {
        let State::Waits(early) = &mut self.members[me] else {
            return;
        };
        let early = std::mem::take(early);
        let mut mine = self.contributions[me].clone();
        mine.failed.add_all(&self.found[me]);
        let sizes = [self.size() as u32, self.first];
        let mut agreement = Agreement::begin(me as u32, sizes, mine, 100 + me as u64);
        for (from, message) in early {
            agreement.receive(from, message);
        }
        self.called[me] = true;
        self.members[me] = State::Agrees(agreement);
        self.send(me, most);
    }

    fn deliver(&mut self, from: usize, to: usize, most: usize) {
        let size = self.size();
        let Some(message) = self.links[from * size + to].pop_front() else {
            return;
        };
        match &mut self.members[to] {
            State::Waits(early) if is_early(&message) => early.push((from as u32, message)),
            State::Agrees(agreement) => agreement.receive(from as u32, message),
            State::Waits(_) | State::Committed(_) => {
                if let Some(answer) = answer_late(&message) {
                    self.links[to * size + from].push_back(answer);
                }
            }
            State::Dead => {}
        }
        self.send(to, most);
    }

    /// Makes a member find another one dead; messages of that one may arrive before or after.
    fn notice(&mut self, me: usize, dead: usize, most: usize) {
        self.found[me].add(dead as u32);
        if let State::Agrees(agreement) = &mut self.members[me] {
            agreement.lose(dead as u32);
        }
        self.send(me, most);
    }

    /// The events that can happen next.
    fn choices(&self) -> Vec<(usize, usize, usize)> {
        let size = self.size();
        let mut choices = Vec::new();
        for me in 0..size {
            match &self.members[me] {
                State::Waits(_) => choices.push((0, me, 0)),
                State::Dead => continue,
                _ => {}
            }
            for other in 0..size {
                if !self.links[other * size + me].is_empty() {
                    choices.push((1, other, me));
                }
                // Only members that are waited for are sure to be found dead.
                let awaited = match &self.members[me] {
                    State::Agrees(agreement) => agreement.awaited().contains(&(other as u32)),
                    _ => false,
                };
                let dead = matches!(self.members[other], State::Dead);
                if dead && awaited && !self.found[me].has(other as u32) {
                    choices.push((2, me, other));
                }
            }
        }
        choices
    }
}

/// Runs an agreement of `size` members of which `deaths` die, by a seed. Returns the survivors'
/// decisions.
fn run(seed: u64, size: usize, deaths: usize) -> (World, Vec<Decision>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut contribution = || Contribution {
        flag: random.u32(..1 << 20) | 1,
        ..Contribution::default()
    };
    let contributions = (0..size).map(|_| contribution()).collect();
    let first = match random.usize(..3) {
        0 => 1 + random.usize(..size) as u32,
        _ => size as u32,
    };
    let mut world = World {
        members: (0..size).map(|_| State::Waits(Vec::new())).collect(),
        contributions,
        called: vec![false; size],
        links: vec![VecDeque::new(); size * size],
        found: vec![Set::default(); size],
        first,
    };
    // Some are dead before; some members know it and some have acknowledged it.
    let early = random.usize(..deaths + 1);
    for _ in 0..early {
        let dead = random.usize(..size);
        world.members[dead] = State::Dead;
        for one in 0..size {
            if one != dead && random.bool() {
                world.found[one].add(dead as u32);
                if random.bool() {
                    world.contributions[one].acknowledged.add(dead as u32);
                }
            }
        }
    }
    let mut left = deaths - early;
    for step in 0.. {
        assert!(step < 100_000, "seed {seed}: no end");
        let choices = world.choices();
        if choices.is_empty() {
            break;
        }
        // Now and then one dies, mostly among many messages that leave together.
        let dies = left > 0 && random.usize(..3 * size) == 0;
        left -= usize::from(dies);
        let most = match dies {
            true => random.usize(..size),
            false => usize::MAX,
        };
        if dies && random.usize(..4) == 0 {
            let dead = random.usize(..size);
            world.members[dead] = State::Dead;
            continue;
        }
        let (what, one, other) = choices[random.usize(..choices.len())];
        match what {
            0 => world.call(one, most),
            1 => world.deliver(one, other, most),
            _ => world.notice(one, other, most),
        }
    }
    let mut decisions = Vec::new();
    for (me, state) in world.members.iter().enumerate() {
        match state {
            State::Committed(decision) => decisions.push(decision.clone()),
            State::Dead => {}
            State::Agrees(agreement) => panic!("seed {seed}: {me} waits for ever: {agreement:?}"),
            State::Waits(_) => panic!("seed {seed}: {me} was never called"),
        }
    }
    (world, decisions)
}

/// Checks the properties of every decision.
fn check(seed: u64, world: &World, decisions: &[Decision]) {
    let Some(decision) = decisions.first() else {
        return;
    };
    let alike = decisions.iter().all(|one| one == decision);
    assert!(alike, "seed {seed}: {decisions:?}");
    // All survivors have contributed, and no member that never called.
    let mut least = [u32::MAX; 2];
    let mut most = [u32::MAX; 2];
    for (member, state) in world.members.iter().enumerate() {
        let group = usize::from(member as u32 >= world.first);
        let flag = world.contributions[member].flag;
        if matches!(state, State::Committed(_)) {
            most[group] &= flag;
        }
        if world.called[member] {
            least[group] &= flag;
        }
        let failed = decision.failed.has(member as u32);
        assert!(!failed || matches!(state, State::Dead), "seed {seed}");
    }
    for group in 0..2 {
        let flags = decision.flags[group];
        assert_eq!(
            flags & !most[group],
            0,
            "seed {seed}: one who lives is missing"
        );
        assert_eq!(
            flags & least[group],
            least[group],
            "seed {seed}: from nobody"
        );
    }
    // If it doesn't raise, all survivors had acknowledged all failures that it names.
    if !decision.raises {
        for (member, state) in world.members.iter().enumerate() {
            let acknowledged = &world.contributions[member].acknowledged;
            let lives = matches!(state, State::Committed(_));
            assert!(
                !lives || acknowledged.has_all(&decision.failed),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn the_living_agree_whoever_dies_and_when() {
    let fixed = std::env::var("WEFT_TEST_SEED").ok();
    let fixed: Option<u64> = fixed.and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let base = fixed.unwrap_or(now.map_or(0, |now| now.as_nanos() as u64));
    println!("WEFT_TEST_SEED={base}");
    let runs = if fixed.is_some() { 1 } else { 20_000 };
    let (mut survived, mut raised) = (0, 0);
    for run_number in 0..runs {
        let seed = base.wrapping_add(run_number);
        let size = 1 + (seed % 7) as usize;
        let deaths = (seed / 7 % (size as u64 + 1)) as usize;
        let (world, decisions) = run(seed, size, deaths);
        check(seed, &world, &decisions);
        survived += decisions.len();
        raised += decisions.iter().filter(|one| one.raises).count();
    }
    assert!(runs == 1 || (survived > 1000 && raised > 1000));
}

#[test]
fn without_deaths_nothing_is_raised_and_all_flags_count() {
    for seed in 0..500 {
        let size = 1 + (seed % 9) as usize;
        let (world, decisions) = run(seed, size, 0);
        assert_eq!(decisions.len(), size);
        check(seed, &world, &decisions);
        assert!(
            decisions
                .iter()
                .all(|one| !one.raises && one.failed == Set::default())
        );
        let of_group = |second: bool| {
            let all = world.contributions.iter().enumerate();
            let group = all.filter(|(member, _)| (*member as u32 >= world.first) == second);
            group.fold(u32::MAX, |flags, (_, one)| flags & one.flag)
        };
        assert_eq!(decisions[0].flags, [of_group(false), of_group(true)]);
        assert!((100..100 + size as u64).contains(&decisions[0].context));
    }
}
