//! Completion, cancellation and release of requests.

#![deny(unsafe_code)]

use netmod::VciId;

use super::Process;
use crate::error::{Class, Error, Result};
use crate::pt2pt::request::{Request, RequestId, Role, Status};
use crate::vci::{Vci, VciGuard};

impl Process {
    /// Returns the public half of a request.
    #[inline(always)]
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(id)
    }

    /// Returns the chunk of the request table that holds `id`, and the number of its first request,
    /// for scans over many requests.
    pub fn request_segment(&self, id: RequestId) -> Option<(u32, &[Request])> {
        self.requests.around(id)
    }

    /// Starts a request that [`Process::complete`] completes instead of a message.
    pub fn start_external(&self, vci: VciId, owner: u32) -> Result<RequestId> {
        let mut state = self.lock(vci)?;
        let id = state.engine.start(owner)?;
        if let Some(record) = state.engine.records.get(id) {
            record.role = Role::External;
        }
        Ok(id)
    }

    /// Whether a request from [`Process::start_external`] is pending.
    pub fn is_external(&self, id: RequestId) -> Result<bool> {
        let Some(request) = self.requests.get(id) else {
            return Ok(false);
        };
        let mut state = self.lock(request.vci())?;
        let record = state.engine.records.get(id);
        Ok(record.is_some_and(|record| record.role == Role::External && !request.is_done()))
    }

    /// Completes a request from [`Process::start_external`].
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

    /// Wakes a sleeping thread whose condition this thread has stored without a lock.
    #[inline]
    pub fn notify(&self) {
        if self.is_threaded() {
            self.wakeup.notify_after_store();
        }
    }

    /// Completes a pending operation with an error.
    pub fn fail(&self, id: RequestId, error: Error) -> Result<()> {
        if let Some(request) = self.requests.get(id) {
            self.lock(request.vci())?.engine.fail(id, error);
            self.wakeup.notify();
        }
        Ok(())
    }

    /// Cancels an operation (MPI-3.1 section 3.8.4). Polls first, so that a receive whose message
    /// has arrived completes.
    pub fn cancel(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Ok(());
        };
        self.poll(request.vci())?;
        self.lock(request.vci())?.cancel(id);
        self.wakeup.notify();
        Ok(())
    }

    /// Releases a request, which is freed when it completes (section 3.7.3).
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

    /// Returns the result of a completed request and frees it.
    #[inline]
    pub fn finish(&self, id: RequestId) -> Result<(Status, Option<Error>)> {
        let Some(request) = self.requests.get(id) else {
            return Err(Error::new(Class::Request, "the request does not exist"));
        };
        let result = request.result();
        self.free(id, request)?;
        Ok(result)
    }

    /// Returns the status of a completed request and frees it. Returns `None` and keeps the request
    /// if it failed.
    ///
    /// For hot paths: a status alone is returned in registers.
    #[inline(always)]
    pub fn finish_ok(&self, id: RequestId) -> Option<Status> {
        self.finish_request(id, self.requests.get(id)?)
    }

    /// Waits for a request, returns its status and frees it. Returns `None` and keeps the request
    /// if it failed.
    ///
    /// For hot paths that have looked up the request already.
    #[inline(always)]
    pub fn wait_ok(&self, id: RequestId, request: &Request) -> Result<Option<Status>> {
        if !request.is_done() {
            self.wait_for_request(id, request)?;
        }
        Ok(self.finish_request(id, request))
    }

    #[inline(always)]
    fn finish_request(&self, id: RequestId, request: &Request) -> Option<Status> {
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
            vci.lock().engine.records.free_request(id, request);
        } else if let Some(mut state) = vci.try_lease() {
            state.engine.records.free_request(id, request);
        } else {
            vci.returned.give(&self.requests, id);
        }
        Ok(())
    }

    /// Locks the VCI if that takes no atomic exchange. An exclusive VCI may have requests that
    /// other threads complete.
    #[inline(always)]
    fn lock_if_cheap<'a>(&self, vci: &'a Vci) -> Option<VciGuard<'a>> {
        match self.is_threaded() {
            false => Some(vci.lock()),
            true => vci.try_lease().map(VciGuard::from),
        }
    }

    /// Starts the completion of several requests.
    #[inline(always)]
    pub fn batch_completion(&self) -> BatchCompletion<'_> {
        BatchCompletion {
            process: self,
            held: None,
        }
    }

    /// Returns the owners of all requests that are pending, or complete and not finished. Slow:
    /// scans all requests.
    pub fn owners(&self) -> Vec<u32> {
        self.requests.owners()
    }

    /// Whether an operation started with this owner is pending, as far as the calling thread may
    /// check: exclusive VCIs are skipped unless listed in `own`. Slow: scans all requests.
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

/// Completes several requests and frees those of one VCI under one acquisition of its lock, if that
/// is cheap.
///
/// Holds the VCI until [`BatchCompletion::release`], which must be called before any other use of a VCI.
pub struct BatchCompletion<'a> {
    process: &'a Process,
    held: Option<(VciId, VciGuard<'a>)>,
}

impl BatchCompletion<'_> {
    /// Waits for a request of a list and, if it succeeded, frees it after `result` has read it.
    /// Returns `None` and keeps the request if it failed.
    ///
    /// # Errors
    /// [`Class::ProcFailedPending`] if the request is pending and any process has failed.
    #[inline(always)]
    pub fn wait_ok<T>(
        &mut self,
        id: RequestId,
        request: &Request,
        result: impl FnOnce(&Request) -> T,
    ) -> Result<Option<T>> {
        if !request.is_done() {
            self.release();
            self.process.wait_in_list(request)?;
        }
        if request.has_failed() {
            self.release();
            return Ok(None);
        }
        let result = result(request);
        match &mut self.held {
            Some((vci, state)) if *vci == request.vci() => {
                state.engine.records.free_request(id, request);
            }
            _ => self.free_elsewhere(id, request)?,
        }
        Ok(Some(result))
    }

    /// Frees a request of another VCI than the held one.
    #[inline(never)]
    fn free_elsewhere(&mut self, id: RequestId, request: &Request) -> Result<()> {
        self.release();
        let number = request.vci();
        let vci = self.process.vci(number)?;
        match self.process.lock_if_cheap(vci) {
            Some(mut state) => {
                state.engine.records.free_request(id, request);
                self.held = Some((number, state));
            }
            None => vci.returned.give(&self.process.requests, id),
        }
        Ok(())
    }

    /// Releases the held VCI.
    #[inline(always)]
    pub fn release(&mut self) {
        if self.held.is_some() {
            self.drop_held();
        }
    }

    #[inline(never)]
    fn drop_held(&mut self) {
        self.held = None;
    }
}
