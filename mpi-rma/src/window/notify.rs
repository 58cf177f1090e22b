//! Puts and gets that notify their target (`MPIX_Put_notify`, `MPIX_Get_notify`).
//!
//! A window may have counters at each member, which notified accesses increment when their data is
//! in place, and which only their owner reads. They lie in a window of their own, whose memory the
//! library allocates: an origin on the target's node increments a counter itself, after a direct
//! copy. All other accesses are one message, with which the target increments the counter, even
//! where the network has remote memory: the owner reads its counters only by calls that make
//! progress, so that a write and an atomic update behind it would only be longer.

use std::sync::atomic::Ordering;

use crate::copied::deferred::TargetProgress;
use crate::messages::counters::OwnCounters;
use crate::messages::message::{Kind, Layout};
use crate::window::buffers::{Completion, Origin, Target};
use crate::window::counters::{Awaited, COUNTER, Counters, find, no_counters};
use crate::window::members::{Messages, Route};
use crate::window::transfer::TargetMemory;
use crate::window::{Flavor, Hints, Window};
use mpi_core::process::Process;
use mpi_types::error::{Class, Error, Result};

impl Window {
    /// Gives the window counters, `count` of them in this process; collective
    /// (`MPIX_Win_create_notify`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` if it has some, `MPI_ERR_NO_MEM` if memory is short.
    pub fn create_counters(&self, process: &Process, count: usize) -> Result<()> {
        if self.has_counters() {
            let why = "win has notifications already; call MPIX_Win_free_notify first";
            return Err(Error::new(Class::RmaFlavor, why));
        }
        let flavor = match self.service {
            // No member would serve messages.
            None => Flavor::Shared { contiguous: false },
            Some(_) => Flavor::Allocated,
        };
        let (bytes, unit, hints) = (count * COUNTER, COUNTER as i64, Hints::default());
        // SAFETY: the window has no memory of the program.
        let window = unsafe { Window::new(process, &self.comm, flavor, bytes, unit, &hints)? };
        let counters = Counters { window };
        for index in 0..count {
            counters.own(index as i64)?.store(0, Ordering::Relaxed);
        }
        if let Some(service) = &self.service {
            let first = counters.window.base().cast_const().cast();
            let own = OwnCounters { first, len: count };
            service.state.lock().counters = Some(own);
        }
        *self.counters.write() = Some(counters);
        mpi_coll::barrier(process, &self.comm)
    }

    /// Frees the window's counters; collective (`MPIX_Win_free_notify`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` if it has none.
    pub fn free_counters(&self, process: &Process) -> Result<()> {
        if !self.has_counters() {
            return Err(no_counters());
        }
        // All accesses must be complete at their targets.
        if self.service.is_some() {
            self.flush_dirty(process)?;
            mpi_coll::barrier(process, &self.comm)?;
        }
        if let Some(service) = &self.service {
            service.state.lock().counters = None;
        }
        let counters = self.counters.write().take();
        counters.map_or(Ok(()), |counters| counters.window.free(process))
    }

    /// Returns whether the window has counters.
    pub(crate) fn has_counters(&self) -> bool {
        self.counters.read_recursive().is_some()
    }

    /// Sets a counter of this process (`MPIX_Win_set_notify`).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if there is none with this index.
    pub fn set_notifications(&self, index: i64, value: i64) -> Result<()> {
        let counters = find(&self.counters)?;
        counters.own(index)?.store(value, Ordering::Release);
        Ok(())
    }

    /// Starts a request that is complete when a counter of this process is at least `value`
    /// (`MPIX_Win_get_notify_request`). Progress must call [`Awaited::advance`].
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if there is none with this index.
    pub fn await_notifications(
        &self,
        process: &Process,
        index: i64,
        value: i64,
    ) -> Result<Awaited> {
        find(&self.counters)?.own(index)?;
        Ok(Awaited {
            counters: self.counters.clone(),
            index,
            value,
            request: process.start_external(self.comm.vci(), self.comm.owner())?,
        })
    }

    /// Returns the value of a counter of this process, and makes progress (`MPIX_Win_get_notify`).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if there is none with this index; those of progress.
    pub fn notifications(&self, process: &Process, index: i64) -> Result<i64> {
        let counters = find(&self.counters)?;
        let counter = counters.own(index)?;
        let before = counter.load(Ordering::Acquire);
        if !process.poll(self.comm.vci())? && counter.load(Ordering::Acquire) == before {
            // What the counter waits for may need this core.
            process.yield_after_test();
        }
        Ok(counter.load(Ordering::Acquire))
    }

    /// Accesses a target's memory, and increments its counter with this index when the data is in
    /// place: written to the target (`write`), or read from it.
    ///
    /// # Errors
    /// Those of [`Window::put`]; `MPI_ERR_ARG` if the target has no such counter.
    ///
    /// # Safety
    /// That of [`Window::put`] (`write`) or of [`Window::get`].
    pub unsafe fn access_and_notify(
        &self,
        process: &Process,
        write: bool,
        (origin, target): (Origin<'_>, Target<'_>),
        index: i64,
    ) -> Result<()> {
        let (counters, rank) = (find(&self.counters)?, target.rank);
        let index = counters.check(rank, index)?;
        let checked = self.check(process, origin, target, Completion::Blocking)?;
        let counter = counters.mapped(rank);
        if let (Some(counter), Some((route @ (Route::Mapped(_) | Route::Copied(_)), transfer))) =
            (counter, &checked)
        {
            // SAFETY: the contract of this function is that of the route.
            unsafe {
                match write {
                    true => route.put(transfer)?,
                    false => route.get(transfer)?,
                };
            }
            self.settle(process, Some(rank), TargetProgress::Unknown)?;
            counter.increment(index);
            return Ok(());
        }
        let notify = index as u64 + 1;
        match (checked, counter) {
            (Some((_, mut transfer)), _) => {
                transfer.notify = notify;
                // SAFETY: the contract of this function is that of the route.
                unsafe {
                    match write {
                        true => Messages.put(&transfer)?,
                        false => Messages.get(&transfer)?,
                    };
                }
            }
            // There is no data.
            (None, Some(counter)) => {
                counter.increment(index);
            }
            (None, None) => {
                let service = self.service()?;
                let message = service.message(Kind::Put, 0, [notify, 0], Layout::NONE);
                let to = (rank, service.lanes.any());
                self.ask(process, to, message, false)?;
            }
        }
        Ok(())
    }
}
