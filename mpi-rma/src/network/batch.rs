//! Accumulates that wait for company, in windows whose members do without each other's processors.
//!
//! A turn at a member's memory ([`crate::network::turn`]) takes a trip or more, whatever is done in it. So a short
//! accumulate whose result nobody wants is noted here, with its data. All that is noted for a target is done in one
//! turn: when it is flushed or an epoch ends, before another accumulate that is not noted, and when there is much
//! of it. Until then nobody may rely on it (section 11.5).
//!
//! What is noted for a target is carried out in the order in which it was noted (section 11.7.2), under the
//! queue's lock, for which other threads wait meanwhile: so theirs come behind it.

use std::sync::atomic::Ordering;

use crate::network::batch_queue::{Queue, Queues};
use crate::window::apply::Reduction;
use crate::window::buffers::Origin;
use crate::window::runs::Run;
use crate::window::{Flavor, Window};
use mpi_core::process::Process;
use mpi_types::error::Result;

/// The most bytes and runs of one accumulate that is noted, and of all that are noted for a target.
const SHORT: usize = 1024;
const FEW: usize = 8;
const MOST: usize = 4096;
const MANY: usize = 64;
/// The most accumulates that are noted for all targets together.
const ALL: usize = 4096;

impl Window {
    /// Notes an accumulate, if it is a short one. Returns whether it is noted, or carried out.
    ///
    /// # Safety
    /// The origin's buffer holds what it says.
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
        // SAFETY: the caller's promise.
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

    /// Carries out what is noted for a target, or for all. The first error.
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

    /// Carries out what is in a queue, which is empty then, whatever becomes of it.
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
