//! Post-start-complete-wait epochs of passive-target windows, without the peers' processors.
//!
//! Each member's block has [`POSTS`] words in which posting targets write their rank plus 1, and a
//! count of completed access epochs that only grows. Origins and targets poll their own blocks,
//! which only the network changes. A post goes by a message if the origin has no free word, or if
//! the target does not know its keys.

use std::sync::atomic::Ordering;

use netmod::AtomicOp;

use crate::messages::service::Service;
use crate::network::{POSTS, Passive, Word};
use crate::window::Window;
use mpi_core::process::Process;
use mpi_types::error::{Class, Result};

impl Passive {
    /// Whether `origins` access epochs are complete, those reported by messages included. If so,
    /// consumes them.
    pub fn is_complete(&self, service: &Service, origins: u32) -> bool {
        let by_messages = service.completions.load(Ordering::Acquire);
        let taken = self.completions_taken.load(Ordering::Relaxed);
        let here = self.load(Word::COMPLETIONS).wrapping_sub(taken);
        let wanted = u64::from(origins);
        if here + u64::from(by_messages) < wanted {
            return false;
        }
        let now = here.min(wanted);
        self.completions_taken
            .store(taken.wrapping_add(now), Ordering::Relaxed);
        service
            .completions
            .fetch_sub((wanted - now) as u32, Ordering::Relaxed);
        true
    }
}

impl Window {
    /// Writes this member's post to an origin's block. Returns false if it has no free word.
    pub(crate) fn post_remotely(
        &self,
        process: &Process,
        passive: &Passive,
        origin: u32,
    ) -> Result<bool> {
        let service = self.service()?;
        if !passive.knows(origin) {
            return Ok(false);
        }
        let own = u64::from(self.rank() + 1);
        for step in 0..POSTS {
            let place = (origin, Word::post((self.rank() + step) % POSTS));
            let found = service.atomic(process, place, AtomicOp::CompareSwap, own, 0);
            match found {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                // The loss is reported by the wait for this origin.
                Err(error) if error.class() == Class::ProcFailed => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Consumes a post of `target`. Returns whether there was one.
    pub(crate) fn take_remote_post(
        &self,
        process: &Process,
        passive: &Passive,
        target: u32,
    ) -> Result<bool> {
        let service = self.service()?;
        if service.take_post(target) {
            return Ok(true);
        }
        let wanted = u64::from(target + 1);
        let place = (0..POSTS)
            .map(Word::post)
            .find(|place| passive.load(*place) == wanted);
        match place {
            None => Ok(false),
            Some(place) => {
                service.add_all(process, &[(self.rank(), place, wanted.wrapping_neg())])?;
                Ok(true)
            }
        }
    }
}
