//! A send and a receive behind one request (MPI-4.0 section 3.10).

use mpi_core::process::Vcis;
use mpi_core::process::loan::{self, Loan};
use mpi_core::{Class, Error, Process, Request, RequestId, Result, Status};
use parking_lot::Mutex;

use crate::requests::compound_request::{CompoundRequest, Ended};

/// A send that was not complete when it was started.
pub enum Sending {
    /// From the program's memory.
    Own(RequestId),
    /// From a copy.
    Copy(Loan<Vec<u8>>),
}

impl Sending {
    fn id(&self) -> RequestId {
        match self {
            Sending::Own(id) => *id,
            Sending::Copy(loan) => loan.id(),
        }
    }
}

/// A send and a receive that complete as one request.
pub struct Exchange {
    halves: Mutex<Halves>,
    /// False for a receive from `MPI_PROC_NULL`.
    receives: bool,
    owner: u32,
}

/// The operations left: `None` once completed, or ended because the other one failed.
struct Halves {
    receive: Option<RequestId>,
    send: Option<Sending>,
}

impl Exchange {
    /// Creates a request for two operations on the communicator `owner`.
    pub fn new(receive: Option<RequestId>, send: Sending, owner: u32) -> Exchange {
        Exchange {
            halves: Mutex::new(Halves {
                receive,
                send: Some(send),
            }),
            receives: receive.is_some(),
            owner,
        }
    }

    /// Returns the operations that are left.
    fn both(&self) -> impl Iterator<Item = RequestId> {
        let halves = self.halves.lock();
        let send = halves.send.as_ref().map(Sending::id);
        halves.receive.into_iter().chain(send)
    }
}

impl Halves {
    /// Returns whether both operations are over. If a loss has ended one of them, ends the other
    /// one, which may never complete.
    fn are_over(&mut self, process: &Process) -> bool {
        let receive = self.receive.filter(|id| !is_done(process, *id));
        let send = self.send.as_ref().map(Sending::id);
        let send = send.filter(|id| !is_done(process, *id));
        if receive.is_none() && send.is_none() {
            return true;
        }
        if process.losses() == 0 {
            return false;
        }
        let is_lost = |id: RequestId| process.request(id).is_some_and(Request::is_lost);
        match (receive, self.send.as_ref().map(Sending::id)) {
            // An error of ending the receive is dropped: the program gets the loss.
            (Some(id), Some(send)) if is_lost(send) => {
                let over = loan::try_abort(process, id).unwrap_or(true);
                self.receive = (!over).then_some(id);
                over
            }
            (None, Some(_)) if self.receive.is_some_and(is_lost) => match self.send.take() {
                Some(Sending::Own(id)) => {
                    let over = loan::try_abort(process, id).unwrap_or(true);
                    self.send = (!over).then_some(Sending::Own(id));
                    over
                }
                Some(Sending::Copy(loan)) => {
                    if let Ok(Err(loan)) = loan.try_abort(process) {
                        self.send = Some(Sending::Copy(loan));
                    }
                    self.send.is_none()
                }
                None => true,
            },
            _ => false,
        }
    }
}

fn is_done(process: &Process, id: RequestId) -> bool {
    let request = process.request(id);
    request.is_none_or(|request| request.is_done())
}

impl CompoundRequest for Exchange {
    fn is_persistent(&self) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        false
    }

    fn is_complete(&self, process: &Process) -> bool {
        self.halves.lock().are_over(process)
    }

    fn add_vcis(&self, process: &Process, vcis: &mut Vcis) {
        for id in self.both() {
            if let Some(request) = process.request(id)
                && !request.is_done()
            {
                vcis.add(request.vci());
            }
        }
    }

    fn wait(&self, process: &Process) -> Result<()> {
        let mut vcis = Vcis::default();
        self.add_vcis(process, &mut vcis);
        process.wait_until_among(&vcis, || {
            if self.halves.lock().are_over(process) {
                return Ok(Some(()));
            }
            let receive = self.halves.lock().receive;
            receive.map_or(Ok(()), |id| process.check_interruption(id))?;
            Ok(None)
        })
    }

    /// The status is the receive's, and so is the error if both failed.
    fn take(&self, process: &Process) -> Result<Ended> {
        let mut halves = self.halves.lock();
        let (status, received) = match halves.receive.take() {
            Some(id) => process.finish(id)?,
            None if self.receives => (Status::EMPTY, None),
            None => (Status::PROC_NULL, None),
        };
        let sent = match halves.send.take() {
            Some(Sending::Own(id)) => process.finish(id)?.1,
            Some(Sending::Copy(loan)) => loan.take(process)?.1,
            None => None,
        };
        let error = received.or(sent).map(|error| error.on(self.owner));
        Ok(Ended {
            status: Some(status),
            error,
        })
    }

    fn peek(&self, process: &Process) -> Option<Status> {
        match self.halves.lock().receive {
            Some(id) => process.request(id).map(Request::status),
            None if self.receives => Some(Status::EMPTY),
            None => Some(Status::PROC_NULL),
        }
    }

    /// Both operations complete without the request. The memory of a copy still being sent is
    /// leaked.
    fn release(&self, process: &Process) -> Result<()> {
        let mut halves = self.halves.lock();
        if let Some(id) = halves.receive.take() {
            process.detach(id)?;
        }
        match halves.send.take() {
            Some(Sending::Own(id)) => process.detach(id),
            Some(Sending::Copy(loan)) if loan.is_done(process) => loan.take(process).map(drop),
            Some(Sending::Copy(loan)) => process.detach(loan.id()),
            None => Ok(()),
        }
    }

    fn cancel(&self, _process: &Process) -> Result<()> {
        Err(Error::new(
            Class::Request,
            "request is of MPI_Isendrecv or MPI_Isendrecv_replace and cannot be cancelled; complete it with \
             MPI_Wait or MPI_Test",
        ))
    }
}
