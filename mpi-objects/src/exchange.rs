//! A send and a receive behind one request (MPI-4.0 section 3.10).

use mpi_core::process::Vcis;
use mpi_core::process::loan::Loan;
use mpi_core::{Class, Error, Process, RequestId, Result, Status};
use parking_lot::Mutex;

use crate::own_request::{Ended, OwnRequest};

/// A send that was not complete when it was started.
pub enum Sending {
    /// Of the program's memory.
    Own(RequestId),
    /// Of a copy.
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

/// Both of them, none of which the program has completed yet.
pub struct Exchange {
    /// None from `MPI_PROC_NULL`.
    receive: Option<RequestId>,
    /// None once it was completed.
    send: Mutex<Option<Sending>>,
    owner: u32,
}

impl Exchange {
    /// Of two that were started on the communicator `owner`.
    pub fn new(receive: Option<RequestId>, send: Sending, owner: u32) -> Exchange {
        Exchange {
            receive,
            send: Mutex::new(Some(send)),
            owner,
        }
    }

    /// Those that the process has.
    fn both(&self) -> impl Iterator<Item = RequestId> {
        let send = self.send.lock().as_ref().map(Sending::id);
        self.receive.into_iter().chain(send)
    }
}

fn is_done(process: &Process, id: RequestId) -> bool {
    let request = process.request(id);
    request.is_none_or(|request| request.is_done())
}

impl OwnRequest for Exchange {
    fn is_persistent(&self) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        false
    }

    fn is_complete(&self, process: &Process) -> bool {
        self.both().all(|id| is_done(process, id))
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
        for id in self.both() {
            process.wait_for(id)?;
        }
        Ok(())
    }

    /// The status is that of the receive, and so is the error if both failed.
    fn take(&self, process: &Process) -> Result<Ended> {
        let (status, received) = match self.receive {
            Some(id) => process.finish(id)?,
            None => (Status::PROC_NULL, None),
        };
        let sent = match self.send.lock().take() {
            Some(Sending::Own(id)) => process.finish(id)?.1,
            Some(Sending::Copy(loan)) => loan.take(process)?.1,
            None => None,
        };
        let error = received.or(sent).map(|error| error.on(self.owner));
        Ok(Ended { status, error })
    }

    fn peek(&self, process: &Process) -> Status {
        match self.receive {
            Some(id) => process
                .request(id)
                .map_or(Status::EMPTY, |request| request.status()),
            None => Status::PROC_NULL,
        }
    }

    /// Both complete by themselves. A copy that has not left yet stays behind.
    fn let_go(&self, process: &Process) -> Result<()> {
        if let Some(id) = self.receive {
            process.detach(id)?;
        }
        match self.send.lock().take() {
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
