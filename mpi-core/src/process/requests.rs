//! Requests of a process: their completion, cancellation and end.

#![deny(unsafe_code)]

use netmod::VciId;

use super::Process;
use crate::error::{Class, Error, Result};
use crate::pt2pt::request::{Request, RequestId, Role, Status};
use crate::vci::{Vci, VciGuard};

impl Process {
    /// The public half of a request.
    #[inline(always)]
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(id)
    }

    /// The requests that lie together with one, which has been in use, and the number of the first of them: for looking at
    /// many.
    pub fn requests_around(&self, id: RequestId) -> Option<(u32, &[Request])> {
        self.requests.around(id)
    }

    /// Starts a request that is completed by [`Process::complete`] rather than by a message.
    pub fn start_outside(&self, vci: VciId, owner: u32) -> Result<RequestId> {
        let mut state = self.lock(vci)?;
        let id = state.engine.start(owner)?;
        if let Some(record) = state.engine.records.get(id) {
            record.role = Role::Outside;
        }
        Ok(id)
    }

    /// Whether a request is under way that [`Process::start_outside`] made.
    pub fn is_outside(&self, id: RequestId) -> Result<bool> {
        let Some(request) = self.requests.get(id) else {
            return Ok(false);
        };
        let mut state = self.lock(request.vci())?;
        let record = state.engine.records.get(id);
        Ok(record.is_some_and(|record| record.role == Role::Outside && !request.is_done()))
    }

    /// Completes a request made by [`Process::start_outside`].
    pub fn complete(&self, id: RequestId, status: Status, error: Option<Error>) -> Result<()> {
        if let Some(request) = self.requests.get(id) {
            self.lock(request.vci())?
                .engine
                .records
                .complete(id, status, error);
            self.wakeup.notify();
        }
        Ok(())
    }

    /// Wakes a thread that sleeps and looks without a lock for what this one has stored.
    #[inline]
    pub fn notify(&self) {
        if self.is_threaded() {
            self.wakeup.notify_after_store();
        }
    }

    /// Completes with an error an operation that can't be carried on.
    pub fn fail(&self, id: RequestId, error: Error) -> Result<()> {
        if let Some(request) = self.requests.get(id) {
            self.lock(request.vci())?.engine.fail(id, error);
            self.wakeup.notify();
        }
        Ok(())
    }

    /// Asks for an operation to be cancelled (MPI-3.1 section 3.8.4). A message that has arrived already is looked
    /// for first, so that a receive whose message was sent before, by this process too, completes.
    pub fn cancel(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Ok(());
        };
        self.poll(request.vci())?;
        self.lock(request.vci())?.cancel(id);
        self.wakeup.notify();
        Ok(())
    }

    /// Lets go of a request: it is freed when it completes (section 3.7.3).
    pub fn detach(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Ok(());
        };
        let mut state = self.lock(request.vci())?;
        match state.engine.records.get(id) {
            Some(record) => record.detached = true,
            None if request.is_done() => state.engine.records.free(id),
            None => {}
        }
        Ok(())
    }

    /// Takes the result of a completed request and frees it.
    #[inline]
    pub fn finish(&self, id: RequestId) -> Result<(Status, Option<Error>)> {
        let Some(request) = self.requests.get(id) else {
            return Err(Error::new(Class::Request, "the request does not exist"));
        };
        let result = request.result();
        self.free(id, request)?;
        Ok(result)
    }

    /// As [`Process::finish`], for a request that ended without error. `None` for others, which stay.
    ///
    /// For hot paths: a status alone travels in registers.
    #[inline(always)]
    pub fn finish_well(&self, id: RequestId) -> Option<Status> {
        self.finish_found(id, self.requests.get(id)?)
    }

    /// Waits for a request, takes its status and frees it, if it ends without error. `None` for others, which stay.
    ///
    /// For hot paths, which have looked the request up.
    #[inline(always)]
    pub fn wait_well(&self, id: RequestId, request: &Request) -> Result<Option<Status>> {
        if !request.is_done() {
            self.wait_for_found(id, request)?;
        }
        Ok(self.finish_found(id, request))
    }

    #[inline(always)]
    fn finish_found(&self, id: RequestId, request: &Request) -> Option<Status> {
        if request.has_failed() {
            return None;
        }
        let status = request.status();
        self.free(id, request).ok()?;
        Some(status)
    }

    #[inline(always)]
    fn free(&self, id: RequestId, request: &Request) -> Result<()> {
        let vci = self.vci(request.vci())?;
        if !self.is_threaded() {
            vci.lock().engine.records.free_found(id, request);
        } else if let Some(mut state) = vci.try_as_owner() {
            state.engine.records.free_found(id, request);
        } else {
            vci.returned.give(&self.requests, id);
        }
        Ok(())
    }

    /// The VCI, if that costs no exchange. (One that a thread has for itself may have requests that others end.)
    #[inline(always)]
    fn lock_if_cheap<'a>(&self, vci: &'a Vci) -> Option<VciGuard<'a>> {
        match self.is_threaded() {
            false => Some(vci.lock()),
            true => vci.lock_as_owner(),
        }
    }

    /// For requests that end one after the other.
    #[inline(always)]
    pub fn endings(&self) -> Endings<'_> {
        Endings {
            process: self,
            held: None,
        }
    }

    /// The owners of all requests that are under way, or complete and not finished. Slow: looks at all requests.
    pub fn owners(&self) -> Vec<u32> {
        self.requests.owners()
    }

    /// Whether an operation that was started with this owner is not complete, as far as the calling
    /// thread may know: a VCI that one thread has for itself is looked at if it is among `own`. Slow:
    /// looks at all requests.
    pub fn is_pending(&self, owner: u32, own: &[VciId]) -> Result<bool> {
        for number in self.open_vcis() {
            let vci = self.vci(number)?;
            let state = match own.contains(&number) {
                true => Some(vci.lock()),
                false => vci.visit_blocking(),
            };
            let active = state.map_or(Vec::new(), |state| state.engine.records.active());
            let of_owner = |id: &RequestId| {
                self.requests
                    .get(*id)
                    .is_some_and(|request| request.owner() == owner)
            };
            if active.iter().any(of_owner) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Ends several requests: those of a VCI are freed with one taking of its lock, if that is cheap.
///
/// It may have a VCI until it [lets go](Endings::let_go): before anything else is done that needs one, and before long.
pub struct Endings<'a> {
    process: &'a Process,
    held: Option<(VciId, VciGuard<'a>)>,
}

impl Endings<'_> {
    /// Waits for a request of a list, and frees it if it ended without error, after `result` has read it. Returns `None` for
    /// one that failed, which stays.
    ///
    /// # Errors
    /// [`Class::ProcFailedPending`] if the request is not complete and any process is lost.
    #[inline(always)]
    pub fn wait_well<T>(
        &mut self,
        id: RequestId,
        request: &Request,
        result: impl FnOnce(&Request) -> T,
    ) -> Result<Option<T>> {
        if !request.is_done() {
            self.let_go();
            self.process.wait_in_list(request)?;
        }
        if request.has_failed() {
            self.let_go();
            return Ok(None);
        }
        let result = result(request);
        match &mut self.held {
            Some((vci, state)) if *vci == request.vci() => {
                state.engine.records.free_found(id, request);
            }
            _ => self.free_elsewhere(id, request)?,
        }
        Ok(Some(result))
    }

    /// Frees one of another VCI than the one before.
    #[inline(never)]
    fn free_elsewhere(&mut self, id: RequestId, request: &Request) -> Result<()> {
        self.let_go();
        let number = request.vci();
        let vci = self.process.vci(number)?;
        match self.process.lock_if_cheap(vci) {
            Some(mut state) => {
                state.engine.records.free_found(id, request);
                self.held = Some((number, state));
            }
            None => vci.returned.give(&self.process.requests, id),
        }
        Ok(())
    }

    /// Lets others have the VCI.
    #[inline(always)]
    pub fn let_go(&mut self) {
        if self.held.is_some() {
            self.drop_held();
        }
    }

    #[inline(never)]
    fn drop_held(&mut self) {
        self.held = None;
    }
}
