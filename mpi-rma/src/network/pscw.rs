//! Epochs of some origins and some targets where neither need be in the library for the other.
//!
//! Each member's block has [`POSTS`] places in which targets that have posted write their ranks, counted
//! from 1, and a count of completed accesses that only grows. An origin waits for its targets in its own block,
//! a target for its origins likewise; both are changed by the network alone, and read by their owner. If there
//! is no place left at an origin, or it was never in contact with the target, the post goes as a message.

use std::sync::atomic::Ordering;

use netmod::AtomicOp;

use crate::messages::service::Service;
use crate::network::{POSTS, Passive, Word};
use crate::window::Window;
use mpi_core::process::Process;
use mpi_types::error::{Class, Result};

impl Passive {
    /// Whether `origins` accesses are complete, with those that messages told of; if so, takes note of that.
    pub fn is_complete(&self, service: &Service, origins: u32) -> bool {
        let by_messages = service.completions.load(Ordering::Acquire);
        let taken = self.completions_taken.load(Ordering::Relaxed);
        let here = self.look(Word::COMPLETIONS).wrapping_sub(taken);
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
    /// Tells an origin that this member has posted its memory. Returns whether there was a place for it.
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
                // Whoever needs it learns so by waiting.
                Err(error) if error.class() == Class::ProcFailed => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Takes note of a post of `target`'s, if there is one.
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
            .find(|place| passive.look(*place) == wanted);
        match place {
            None => Ok(false),
            Some(place) => {
                service.add_all(process, &[(self.rank(), place, wanted.wrapping_neg())])?;
                Ok(true)
            }
        }
    }
}
