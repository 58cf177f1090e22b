//! Remote writes of very many ranks in virtual time: no data, no memory but the programs.
//!
//! A rank sends one write at a time, each takes one unit; the rest costs nothing.

use std::collections::HashMap;

use super::schedule::{Schedule, Step};

/// What a schedule costs all ranks together.
pub struct Total {
    /// When the last rank is done.
    pub time: u64,
    /// The most writes of a rank.
    pub most_puts: u64,
}

#[derive(Clone, Copy)]
enum Act {
    Put(u32, u32),
    Await(u32),
}

#[derive(Default)]
struct Rank {
    acts: Box<[Act]>,
    next: usize,
    now: u64,
    port_free: u64,
    puts: u64,
}

/// Runs the schedules of one phase that `build` makes for each rank.
pub fn of(size: usize, build: &dyn Fn(usize, &mut Schedule)) -> Total {
    let mut schedule = Schedule::new();
    let mut ranks: Vec<Rank> = (0..size)
        .map(|rank| {
            schedule.clear();
            build(rank, &mut schedule);
            assert_eq!(schedule.phases(), 1);
            let acts = schedule.steps().iter().filter_map(|step| match *step {
                Step::Put { slot, .. } => Some(Act::Put(slot.of, slot.cell)),
                Step::Await { first, cell, .. } => {
                    assert_eq!(first as usize, rank);
                    Some(Act::Await(cell))
                }
                _ => None,
            });
            Rank {
                acts: acts.collect(),
                ..Rank::default()
            }
        })
        .collect();
    // When flags that nobody waited for so far went up.
    let mut up: HashMap<(u32, u32), u64> = HashMap::new();
    let mut ready: Vec<u32> = (0..size as u32).collect();
    let mut blocked: Vec<Option<u32>> = vec![None; size];
    let mut done = 0;
    while let Some(number) = ready.pop() {
        let rank = &mut ranks[number as usize];
        loop {
            match rank.acts.get(rank.next) {
                None => {
                    done += 1;
                    break;
                }
                Some(&Act::Put(to, cell)) => {
                    rank.port_free = rank.port_free.max(rank.now) + 1;
                    rank.puts += 1;
                    up.insert((to, cell), rank.port_free);
                    if blocked[to as usize] == Some(cell) {
                        blocked[to as usize] = None;
                        ready.push(to);
                    }
                }
                Some(&Act::Await(cell)) => match up.remove(&(number, cell)) {
                    Some(time) => rank.now = rank.now.max(time),
                    None => {
                        blocked[number as usize] = Some(cell);
                        break;
                    }
                },
            }
            rank.next += 1;
        }
    }
    assert_eq!(done, size, "ranks that wait for ever");
    Total {
        time: ranks
            .iter()
            .map(|rank| rank.now.max(rank.port_free))
            .max()
            .unwrap_or(0),
        most_puts: ranks.iter().map(|rank| rank.puts).max().unwrap_or(0),
    }
}
