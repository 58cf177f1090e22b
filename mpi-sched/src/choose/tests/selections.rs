//! Compares all selections of the built-in tables, and what names and rules override, with a file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::iter;

use super::super::*;
use crate::collective::entries;
use crate::costs::Quick;
use crate::slots::Direct;

/// The expected selections. A line has a collective, what is selected, numbers of ranks, and from
/// which bytes on what is selected.
const EXPECTED: &str = include_str!("selections.txt");

const RANKS: [usize; 13] = [2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 300];

/// Returns the bytes between which selections may change, for binary search.
fn probes(ranks: usize) -> BTreeSet<usize> {
    let powers = (0..27).map(|level| 1_usize << level);
    let multiples = powers
        .clone()
        .flat_map(|bytes| [bytes, 3 * bytes, ranks * bytes]);
    let shares = powers.map(|bytes| bytes / ranks);
    let around = |bytes: usize| [bytes.saturating_sub(1), bytes, bytes + 1];
    multiples.chain(shares).flat_map(around).collect()
}

/// Lists from which bytes on `select` returns what.
fn ranges(ranks: usize, select: impl Fn(usize) -> String) -> String {
    let (mut last, mut value) = (0, select(0));
    let mut text = format!("0: {value}");
    for probe in probes(ranks) {
        let next = select(probe);
        if next != value {
            let (mut low, mut high) = (last, probe);
            while low + 1 < high {
                let middle = (low + high) / 2;
                match select(middle) == value {
                    true => low = middle,
                    false => high = middle,
                }
            }
            let _ = write!(text, "; {high}: {next}");
            value = next;
        }
        last = probe;
    }
    text
}

/// Returns lines for all numbers of ranks; equal ones share a line.
fn lines(line: impl Fn(usize) -> String) -> String {
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for ranks in RANKS {
        let new = line(ranks);
        match lines.iter_mut().find(|(_, line)| *line == new) {
            Some((all, _)) => all.push(ranks.to_string()),
            None => lines.push((vec![ranks.to_string()], new)),
        }
    }
    let lines = lines
        .iter()
        .map(|(ranks, line)| format!("  {} ranks: {line}\n", ranks.join(" ")));
    lines.collect()
}

/// Adds a block of lines below `heading`, or the heading to an equal block.
fn add(blocks: &mut Vec<(Vec<String>, String)>, heading: String, lines: String) {
    match blocks.iter_mut().find(|(_, block)| *block == lines) {
        Some((headings, _)) => headings.push(heading),
        None => blocks.push((vec![heading], lines)),
    }
}

fn messages(choices: &Choices, collective: Collective, at: &Situation) -> String {
    match collective {
        Collective::Barrier => format!("{:?}", choices.barrier(at)),
        Collective::Bcast => format!("{:?}", choices.bcast(at)),
        Collective::Gather => format!("{:?}", choices.gather(at)),
        Collective::Scatter => format!("{:?}", choices.scatter(at)),
        Collective::Allgather => format!("{:?}", choices.allgather(at)),
        Collective::Alltoall => format!("{:?}", choices.alltoall(at)),
        Collective::Reduce => format!("{:?}", choices.reduce(at)),
        Collective::Allreduce => format!("{:?}", choices.allreduce(at)),
        Collective::ReduceScatter => format!("{:?}", choices.reduce_scatter(at)),
        Collective::Scan => format!("{:?}", choices.scan(at)),
        Collective::Exscan => format!("{:?}", choices.exscan(at)),
    }
}

fn tree(choices: &Choices, collective: Collective, at: &Situation, slots: Slots) -> Option<Tree> {
    let is_reduce = collective == Collective::Reduce;
    is_reduce.then(|| choices.reduce_tree(at, slots)).flatten()
}

fn within_node(choices: &Choices, collective: Collective, at: &Situation, slots: Slots) -> String {
    let direct = choices.goes_direct(collective, at, slots);
    let in_slots = choices.in_slots(collective, at, slots.into());
    let tree = tree(choices, collective, at, slots);
    let tree = tree.map_or(String::new(), |tree| format!(" tree {}", tree.degree));
    match (direct, in_slots) {
        (true, true) => format!("direct or slots{tree}"),
        (true, false) => "direct".to_string(),
        (false, true) => format!("slots{tree}"),
        (false, false) => "messages".to_string(),
    }
}

fn selections() -> String {
    let mut text = String::new();
    let choices = Choices::default();
    for collective in Collective::ALL {
        let mut blocks = Vec::new();
        for (what, far, commutes) in [
            ("on one node", false, true),
            ("a rank per node", true, true),
            ("in order", false, false),
        ] {
            let lines = lines(|ranks| {
                ranges(ranks, |bytes| {
                    let per_node = if far { 1 } else { ranks };
                    let at = Situation {
                        ranks,
                        per_node,
                        bytes,
                        commutes,
                    };
                    messages(&choices, collective, &at)
                })
            });
            add(&mut blocks, what.to_string(), lines);
        }
        for direct in [Direct::Possible, Direct::Quicker] {
            for (state, is_nonblocking, crowded) in [
                ("free", false, false),
                ("nonblocking", true, false),
                ("crowded", false, true),
            ] {
                let lines = lines(|ranks| {
                    let size = ranks as u32;
                    let slots = Slots {
                        rank: 0,
                        size,
                        room: 1 << 15,
                        depth: 8,
                        direct,
                        is_nonblocking,
                        crowded,
                    };
                    ranges(ranks, |bytes| {
                        let at = Situation {
                            ranks,
                            per_node: ranks,
                            bytes,
                            commutes: true,
                        };
                        within_node(&choices, collective, &at, slots)
                    })
                });
                add(&mut blocks, format!("{state}, direct {direct:?}"), lines);
            }
        }
        for (headings, lines) in blocks {
            let _ = write!(
                text,
                "{} ({}):\n{lines}",
                collective.name(),
                headings.join("; ")
            );
        }
    }
    // What names and rules select: per rule (none, then each algorithm) 1 for slots, 2 for direct,
    // 4 for writes, 8 for a tree.
    let at = Situation {
        ranks: 4,
        per_node: 4,
        bytes: 100,
        commutes: true,
    };
    let slots = Slots {
        rank: 0,
        size: 4,
        room: 1 << 15,
        depth: 8,
        direct: Direct::Possible,
        is_nonblocking: false,
        crowded: false,
    };
    for collective in Collective::ALL {
        let names = || iter::once("auto").chain(entries(collective).map(|entry| entry.name));
        for named in names() {
            let select = |rule: &str| {
                let mut choices = Choices::default();
                if rule != "auto" {
                    let rule = format!("{} 2 1 50 {rule}", collective.name());
                    choices.read_table(&rule).unwrap();
                }
                choices.set(collective.name(), named).unwrap();
                let in_slots = choices.in_slots(collective, &at, slots.into());
                let direct = choices.goes_direct(collective, &at, slots);
                let writes = choices.by_writes(collective, &at, &Quick::all(Some(10)));
                let tree = in_slots && tree(&choices, collective, &at, slots).is_some();
                let flags = [in_slots, direct, writes, tree].into_iter().rev();
                format!("{:x}", flags.fold(0, |all, flag| 2 * all + u32::from(flag)))
            };
            let rules: String = names().map(select).collect();
            let mut choices = Choices::default();
            choices.set(collective.name(), named).unwrap();
            let messages = messages(&choices, collective, &at);
            let _ = writeln!(text, "{}={named}: {rules} {messages}", collective.name());
        }
    }
    text + "by nodes:\n"
        + &lines(|ranks| {
            ranges(ranks, |bytes| {
                let at = Situation {
                    ranks: 2 * ranks,
                    per_node: ranks,
                    bytes,
                    commutes: true,
                };
                choices.by_nodes(&at).to_string()
            })
        })
}

#[test]
fn selections_are_as_expected() {
    let found = selections();
    for (number, (found, expected)) in (1..).zip(found.lines().zip(EXPECTED.lines())) {
        assert_eq!(found, expected, "line {number}");
    }
    assert_eq!(found.lines().count(), EXPECTED.lines().count());
}
