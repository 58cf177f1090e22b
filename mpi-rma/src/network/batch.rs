//! Queues of short accumulates in passive-target windows, each carried out in one turn.
//!
//! A turn at a member's memory ([`crate::network::turn`]) takes at least one round trip. So a short
//! accumulate without a result is queued with its data. A target's queue is carried out in one turn
//! at a flush or the end of an epoch, before an accumulate that is not queued, and when it is long.
//! No program may rely on the accumulates earlier (section 11.5).
//!
//! A target's accumulates are carried out in the order of their calls (section 11.7.2), under the
//! queue's lock, so that those of other threads come later.

use std::sync::atomic::Ordering;

use crate::network::batch_queue::{Queue, Queues};
use crate::window::apply::Reduction;
use crate::window::buffers::Origin;
use crate::window::runs::Run;
use crate::window::{Flavor, Window};
use mpi_core::process::Process;
use mpi_types::error::Result;

/// Bytes. Longest accumulate that is queued.
const SHORT: usize = 1024;
/// Maximum number of blocks of an accumulate that is queued.
const FEW: usize = 8;
/// Bytes. Longest queue of a target.
const MOST: usize = 4096;
/// Maximum number of blocks in a target's queue.
const MANY: usize = 64;
/// Maximum number of accumulates in the queues of all targets.
const ALL: usize = 4096;

impl Window {
    /// Queues a short accumulate. Returns false if it is too long, and must be carried out by the
    /// caller.
    ///
    /// # Safety
    /// The origin's buffer must be readable.
    pub(crate) unsafe fn note_accumulate(
        &self,
        process: &Process,
        origin: &Origin<'_>,
        target: u32,
        (runs, reduction): (&[Run], &Reduction),
    ) -> Result<bool> {
        let Some(passive) = self.passive() else {
            return Ok(false);
        };
        let bytes = runs.iter().map(|run| run.1).sum::<usize>() * reduction.extent();
        if !(1..=SHORT).contains(&bytes) || runs.len() > FEW || self.flavor == Flavor::Dynamic {
            return Ok(false);
        }
        let queue = passive.queues.of(target);
        let mut queue = queue.lock();
        let start = queue.input.len();
        queue.input.resize(start + origin.len(), 0);
        // SAFETY: the origin's buffer is readable by this function's contract.
        unsafe { origin.pack(&mut queue.input[start..]) };
        queue.runs.extend_from_slice(runs);
        queue.bytes += bytes;
        let ends = (queue.input.len(), queue.runs.len());
        queue.entries.push((*reduction, ends.0, ends.1));
        let all = passive.queues.count.fetch_add(1, Ordering::Relaxed) + 1;
        if queue.bytes + SHORT > MOST || queue.runs.len() + FEW > MANY || all >= ALL {
            self.carry_out(process, target, &mut queue)?;
        }
        Ok(true)
    }

    /// Carries out the queued accumulates of a target, or of all. Returns the first error.
    #[inline]
    pub(crate) fn carry_out_noted(&self, process: &Process, target: Option<u32>) -> Result<()> {
        match self.passive() {
            Some(passive) if passive.queues.count.load(Ordering::Relaxed) > 0 => {
                self.carry_out_some(process, &passive.queues, target)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn carry_out_some(
        &self,
        process: &Process,
        queues: &Queues,
        target: Option<u32>,
    ) -> Result<()> {
        let mut result = Ok(());
        for (target, queue) in queues.list(target) {
            let mut queue = queue.lock();
            if !queue.entries.is_empty() {
                result = result.and(self.carry_out(process, target, &mut queue));
            }
        }
        result
    }

    /// Carries out a queue, and empties it also on an error.
    fn carry_out(&self, process: &Process, target: u32, queue: &mut Queue) -> Result<()> {
        let places = queue.places();
        let done = self.in_turn(process, target, &places, |memory, read| {
            let mut data = match read {
                Some(read) => read,
                None => {
                    let mut room = vec![0; places.iter().map(|place| place.1).sum()];
                    self.read_in_turn(process, target, memory, &places, &mut room)?;
                    room
                }
            };
            queue.apply(&places, &mut data);
            self.write_in_turn(process, target, memory, &places, &mut data)
        });
        if let Some(passive) = self.passive() {
            let count = queue.entries.len();
            passive.queues.count.fetch_sub(count, Ordering::Relaxed);
        }
        queue.clear();
        done
    }
}
