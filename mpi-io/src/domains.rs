//! Aggregators and their file domains in a collective access.

use std::ops::Range;

use mpi_core::Process;
use mpi_core::comm::Comm;
use mpi_types::Result;

use crate::hints::{self, Choice, Hints};

/// The hints that must be equal on all members, as numbers.
pub(crate) type Alike = [u64; 12];

/// Makes all members use the first one's values of the hints that must be equal, so that they take
/// the same decisions.
pub(crate) fn settle(process: &Process, comm: &Comm, hints: &mut Hints) -> Result<()> {
    if comm.size() == 1 {
        return Ok(());
    }
    let mut numbers = to_numbers(hints);
    mpi_coll::broadcast_u64(process, comm, &mut numbers)?;
    apply(hints, numbers);
    Ok(())
}

/// Returns the hints that must be equal, as numbers.
pub(crate) fn to_numbers(hints: &Hints) -> Alike {
    let choice = |choice: Choice| choice as u64;
    let per_node = hints::per_node(&hints.cb_config_list).flatten();
    [
        hints.cb_buffer_size,
        u64::from(hints.cb_nodes),
        choice(hints.cb_read),
        choice(hints.cb_write),
        choice(hints.ds_read),
        choice(hints.ds_write),
        u64::from(hints.no_indep_rw),
        hints.cb_block_size.unwrap_or(0),
        hints.striping_unit.unwrap_or(0),
        hints.striping_factor.unwrap_or(0),
        u64::from(per_node.unwrap_or(0)),
        u64::from(hints.file_perm.map_or(0, |mode| mode + 1)),
    ]
}

/// Replaces the hints that must be equal by those of the first member.
pub(crate) fn apply(hints: &mut Hints, numbers: Alike) {
    let per_node = hints::per_node(&hints.cb_config_list).flatten();
    let chosen = |number: u64| match number {
        1 => Choice::Enable,
        2 => Choice::Disable,
        _ => Choice::Automatic,
    };
    let some = |number: u64| (number > 0).then_some(number);
    hints.cb_buffer_size = numbers[0].max(1);
    hints.cb_nodes = numbers[1] as u32;
    hints.cb_read = chosen(numbers[2]);
    hints.cb_write = chosen(numbers[3]);
    hints.ds_read = chosen(numbers[4]);
    hints.ds_write = chosen(numbers[5]);
    hints.no_indep_rw = numbers[6] != 0;
    hints.cb_block_size = some(numbers[7]);
    hints.striping_unit = some(numbers[8]);
    hints.striping_factor = some(numbers[9]);
    if per_node != some(numbers[10]).map(|count| count as u32) {
        hints.cb_config_list = match numbers[10] {
            0 => "*:*".to_owned(),
            count => format!("*:{count}"),
        };
    }
    hints.file_perm = some(numbers[11]).map(|mode| mode as u32 - 1);
}

/// Returns the aggregators in the order of their domains: up to the configured number per node,
/// nodes in turn.
///
/// The result is the same on all members, since the hints are.
pub(crate) fn aggregators(process: &Process, comm: &Comm, hints: &Hints) -> Vec<u32> {
    let node = |rank: u32| process.node_of(comm.local().peer(rank)).unwrap_or(0);
    let mut nodes: Vec<(u32, Vec<u32>)> = Vec::new();
    for rank in 0..comm.size() {
        let node = node(rank);
        match nodes.iter_mut().find(|(number, _)| *number == node) {
            Some((_, ranks)) => ranks.push(rank),
            None => nodes.push((node, vec![rank])),
        }
    }
    let per_node = hints::per_node(&hints.cb_config_list).flatten();
    let per_node = per_node.unwrap_or(u32::MAX) as usize;
    let most = match (hints.cb_nodes, hints.striping_factor) {
        (0, None) => usize::MAX,
        // One per server of a striped file, or a multiple if more are allowed.
        (0, Some(factor)) => factor as usize,
        (nodes, _) => nodes as usize,
    };
    let mut chosen = Vec::new();
    for turn in 0..per_node {
        let before = chosen.len();
        for (_, ranks) in &nodes {
            if let Some(rank) = ranks.get(turn)
                && chosen.len() < most
            {
                chosen.push(*rank);
            }
        }
        if chosen.len() == before {
            break;
        }
    }
    chosen
}

/// The file domains of the aggregators in one access: equal parts of the file, whose borders are
/// those of file system blocks.
#[derive(Clone, Debug)]
pub(crate) struct Domains {
    all: Range<u64>,
    /// The lower border of the first domain, at or before the start of `all`.
    first: u64,
    step: u64,
    /// Bytes that an aggregator moves at a time.
    window: u64,
}

/// Domain borders lie at multiples of this number of bytes, unless hints ask for more.
const BLOCK: u64 = 4096;

impl Domains {
    /// Divides the bytes `all` of the file.
    pub fn new(all: Range<u64>, aggregators: usize, hints: &Hints) -> Domains {
        let unit = hints
            .striping_unit
            .or(hints.cb_block_size)
            .unwrap_or(BLOCK)
            .max(1);
        let first = all.start / unit * unit;
        let count = aggregators.max(1) as u64;
        let step = (all.end - first)
            .div_ceil(count)
            .next_multiple_of(unit)
            .max(unit);
        Domains {
            first,
            step,
            window: hints.cb_buffer_size.min(step),
            all,
        }
    }

    /// Returns how many windows every aggregator moves.
    pub fn rounds(&self) -> u64 {
        self.step.div_ceil(self.window)
    }

    /// Returns the window of aggregator number `index` in a round; it may be empty.
    pub fn window(&self, index: usize, round: u64) -> Range<u64> {
        let start = self
            .first
            .saturating_add(self.step.saturating_mul(index as u64));
        let end = start.saturating_add(self.step);
        let from = start
            .saturating_add(self.window.saturating_mul(round))
            .min(end);
        let to = from.saturating_add(self.window).min(end);
        let clip = |place: u64| place.clamp(self.all.start, self.all.end);
        clip(from)..clip(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_everything_once() {
        for (all, aggregators, buffer) in [
            (0..1_000_000, 3, 10_000),
            (5000..5001, 4, 1 << 20),
            (4095..20_000, 2, 4096),
            (1 << 40..(1 << 40) + 70_000, 5, 5000),
        ] {
            let hints = Hints {
                cb_buffer_size: buffer,
                ..Hints::default()
            };
            let domains = Domains::new(all.clone(), aggregators, &hints);
            let mut next = all.start;
            for index in 0..aggregators {
                for round in 0..domains.rounds() {
                    let window = domains.window(index, round);
                    if !window.is_empty() {
                        assert_eq!(window.start, next);
                        assert!(window.end - window.start <= buffer);
                        next = window.end;
                    }
                }
            }
            assert_eq!(next, all.end);
        }
    }
}
