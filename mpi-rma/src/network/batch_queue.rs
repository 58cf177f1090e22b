//! Data structures of queued accumulates; [`crate::network::batch`] describes when they are used.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use netmod_kit::NumberMap;
use parking_lot::Mutex;

use crate::window::apply::Reduction;
use crate::window::runs::Run;

/// The queued accumulates of one target.
#[derive(Default)]
pub(crate) struct Queue {
    /// The packed data of all accumulates.
    pub input: Vec<u8>,
    /// The blocks of elements of all accumulates.
    pub runs: Vec<Run>,
    /// Bytes of the target's memory that these cover.
    pub bytes: usize,
    /// The operation of each accumulate, and the ends of its data and of its blocks.
    pub entries: Vec<(Reduction, usize, usize)>,
}

impl Queue {
    pub fn clear(&mut self) {
        self.input.clear();
        self.runs.clear();
        self.entries.clear();
        self.bytes = 0;
    }

    /// Returns the blocks of the target's memory that change, sorted, with adjacent ones joined.
    pub fn places(&self) -> Vec<(u64, usize)> {
        let mut places = Vec::with_capacity(self.runs.len());
        let ends = self.entries.iter().map(|entry| entry.2);
        let mut begin = 0;
        for ((reduction, ..), end) in self.entries.iter().zip(ends) {
            let extent = reduction.extent();
            let of_entry = &self.runs[begin..end];
            places.extend(of_entry.iter().map(|run| (run.0 as u64, run.1 * extent)));
            begin = end;
        }
        places.sort_unstable();
        places.dedup_by(|next, last| {
            let end = last.0 + last.1 as u64;
            let joins = next.0 <= end;
            if joins {
                last.1 = last.1.max((next.0 - last.0) as usize + next.1);
            }
            joins
        });
        places
    }

    /// Carries out all accumulates on `data`, the concatenated bytes of `places`.
    pub fn apply(&self, places: &[(u64, usize)], data: &mut [u8]) {
        let (mut first_run, mut first_byte) = (0, 0);
        for &(reduction, end_byte, end_run) in &self.entries {
            let mut input = &self.input[first_byte..end_byte];
            for &(at, count) in &self.runs[first_run..end_run] {
                let (now, later) = input.split_at(count * reduction.packed());
                input = later;
                let before: usize = places
                    .iter()
                    .take_while(|place| place.0 + place.1 as u64 <= at as u64)
                    .map(|place| place.1)
                    .sum();
                let place = places.iter().find(|one| at as u64 - one.0 < one.1 as u64);
                let skip = place.map_or(0, |place| at as u64 - place.0) as usize;
                let room = &mut data[before + skip..][..count * reduction.extent()];
                // SAFETY: the slices above have the lengths of `count` elements.
                unsafe {
                    reduction.apply_exclusive(
                        room.as_mut_ptr(),
                        count,
                        now.as_ptr(),
                        std::ptr::null_mut(),
                    );
                }
            }
            (first_run, first_byte) = (end_run, end_byte);
        }
    }
}

/// The queued accumulates of a window, by target.
#[derive(Default)]
pub(crate) struct Queues {
    queues: Mutex<NumberMap<u32, Arc<Mutex<Queue>>>>,
    /// Number of queued accumulates.
    pub count: AtomicUsize,
}

impl Queues {
    /// Returns a target's queue.
    pub fn of(&self, target: u32) -> Arc<Mutex<Queue>> {
        self.queues.lock().entry(target).or_default().clone()
    }

    /// Lists a target's queue, or all.
    pub fn list(&self, target: Option<u32>) -> Vec<(u32, Arc<Mutex<Queue>>)> {
        let queues = self.queues.lock();
        let wanted = queues
            .iter()
            .filter(|(of, _)| target.is_none_or(|one| one == **of));
        wanted.map(|(of, queue)| (*of, queue.clone())).collect()
    }

    /// Bytes of heap memory in use.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let queues = self.queues.lock();
        let places = queues.len() * (size_of::<Queue>() + 2 * size_of::<usize>());
        let bytes = |queue: &Arc<Mutex<Queue>>| {
            let queue = queue.lock();
            let entries = queue.entries.capacity() * size_of::<(Reduction, usize, usize)>();
            queue.input.capacity() + queue.runs.capacity() * size_of::<Run>() + entries
        };
        places + queues.values().map(bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_types::datatype::{Datatype, Predefined};
    use mpi_types::op::{Op, PredefinedOp};

    fn noted(entries: &[(PredefinedOp, &[Run], &[i16])]) -> Queue {
        let mut queue = Queue::default();
        for (op, runs, values) in entries {
            let datatype = Datatype::predefined(Predefined::Int16T);
            let reduction = Reduction::new(&Op::predefined(*op), &datatype).unwrap();
            queue
                .input
                .extend(values.iter().flat_map(|value| value.to_ne_bytes()));
            queue.runs.extend_from_slice(runs);
            let ends = (queue.input.len(), queue.runs.len());
            queue.entries.push((reduction, ends.0, ends.1));
        }
        queue
    }

    #[test]
    fn places_are_those_of_all_runs_and_nothing_between() {
        let sum = PredefinedOp::Sum;
        let runs: &[Run] = &[(100, 2), (8, 1)];
        let queue = noted(&[(sum, runs, &[1; 3]), (sum, &[(6, 1), (101, 3)], &[1; 4])]);
        assert_eq!(queue.places(), [(6, 4), (100, 7)]);
    }

    #[test]
    fn all_are_carried_out_in_order_on_their_places() {
        let queue = noted(&[
            (PredefinedOp::Sum, &[(2, 2), (10, 1)], &[1, 2, 3]),
            (PredefinedOp::Replace, &[(4, 1)], &[50]),
            (PredefinedOp::Prod, &[(10, 2), (4, 1)], &[5, 7, 2]),
        ]);
        let places = queue.places();
        assert_eq!(places, [(2, 4), (10, 4)]);
        let mut data: Vec<u8> = [10i16, 20, 30, 40]
            .iter()
            .flat_map(|it| it.to_ne_bytes())
            .collect();
        queue.apply(&places, &mut data);
        let found: Vec<i16> = data
            .chunks(2)
            .map(|it| i16::from_ne_bytes([it[0], it[1]]))
            .collect();
        assert_eq!(found, [11, 100, 165, 280]);
    }
}
