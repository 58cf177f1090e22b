//! Error handlers and their attachment to objects (section 8.3).

use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::Arc;

use crate::settings::{self, ERRHANDLERS};
use parking_lot::Mutex;

use crate::handles::HandleTable;
use crate::handles::destructors::OwnedState;
use crate::handles::predefined::{
    MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_Errhandler,
};

/// `MPI::ERRORS_THROW_EXCEPTIONS` of C++ programs (MPI-2.2, section 16.1.8). The C functions return
/// the code; the C++ binding asks whether this was the handler, and throws the exception.
pub(crate) const THROW: MPI_Errhandler = 0x5400_0002;

/// An error handler.
#[derive(Clone, Debug)]
pub enum Handler {
    /// `MPI_ERRORS_ARE_FATAL`.
    Fatal,
    /// `MPI_ERRORS_ABORT`.
    Abort,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// `MPI::ERRORS_THROW_EXCEPTIONS`.
    Throw,
    /// A function of the program for communicators.
    Comm(Callback),
    /// A function of the program for windows.
    Win(Callback),
    /// A function of the program for files.
    File(Callback),
    /// A function of the program for sessions.
    Session(Callback),
}

/// A handler that the program made.
///
/// It has one handle for its whole life, which `MPI_Comm_get_errhandler` and the like return on
/// every call.
pub struct Made {
    /// The handler itself.
    pub handler: Handler,
    /// The table that has its handle.
    pub table: &'static HandleTable<Made>,
    /// The uses that keep it alive.
    pub uses: Mutex<Uses>,
}

/// The uses that keep a handler of the program alive.
pub struct Uses {
    /// Its handle.
    pub handle: MPI_Errhandler,
    /// How many times the program obtained the handle, minus how many times it freed it.
    pub given: usize,
    /// Number of objects that it is attached to.
    pub attached: usize,
}

/// A function of the program, of a type that depends on the ABI.
pub type Function = unsafe extern "C" fn();

/// A function of the program with its additional argument.
#[derive(Clone)]
pub enum Callback {
    /// No additional argument.
    Plain(Function),
    /// A state (`MPIX_Comm_create_errhandler_x` and the like).
    WithState(Function, Arc<OwnedState>),
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Callback::Plain(_) => "Plain",
            Callback::WithState(..) => "WithState",
        })
    }
}

/// Calls a C++ error handler. Takes the object's type (0: communicator, 1: file, 2: window), the
/// addresses of its handle and of the code, and the program's function.
pub type Proxy = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, Function);

/// The calling convention of a function that is not a C function.
#[derive(Clone, Copy)]
pub enum Caller {
    /// Through this proxy.
    Proxy(Proxy),
    /// As a Fortran subroutine, with the address of the integer handle.
    Fortran,
}

impl Handler {
    fn callback(&self) -> Option<&Callback> {
        match self {
            Handler::Fatal | Handler::Abort | Handler::Return | Handler::Throw => None,
            Handler::Comm(callback)
            | Handler::Win(callback)
            | Handler::File(callback)
            | Handler::Session(callback) => Some(callback),
        }
    }

    /// Returns the address of the program's function, if it may be of another language than C.
    pub fn address(&self) -> Option<usize> {
        match self.callback()? {
            Callback::Plain(function) => Some(*function as usize),
            Callback::WithState(..) => None,
        }
    }

    /// Returns whether the program has a destructor for the handler's state.
    pub(crate) fn has_state(&self) -> bool {
        matches!(self.callback(), Some(Callback::WithState(..)))
    }
}

impl Made {
    /// Applies a change to the uses. The last use removes the handle from the table.
    pub fn change(&self, change: impl FnOnce(&mut Uses)) -> MPI_Errhandler {
        let mut uses = self.uses.lock();
        change(&mut uses);
        let (handle, over) = (uses.handle, uses.given == 0 && uses.attached == 0);
        drop(uses);
        if over {
            self.table.remove(handle);
        }
        handle
    }
}

/// One attachment of a handler of the program.
struct Hold(Arc<Made>);

impl Hold {
    fn new(made: Arc<Made>) -> Hold {
        made.change(|uses| uses.attached += 1);
        Hold(made)
    }
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        Hold::new(self.0.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.change(|uses| uses.attached -= 1);
    }
}

/// An error handler attached to an object.
#[derive(Clone)]
pub struct Attached {
    /// The handle of a predefined handler; unused for the program's own.
    handle: MPI_Errhandler,
    /// Keeps a handler of the program alive after its handle has been freed.
    made: Option<Hold>,
}

/// `MPI_ERRORS_ARE_FATAL`, attached.
pub const FATAL: Attached = Attached {
    handle: MPI_ERRORS_ARE_FATAL,
    made: None,
};

/// `MPI_ERRORS_RETURN`, attached.
pub const RETURN: Attached = Attached {
    handle: MPI_ERRORS_RETURN,
    made: None,
};

/// `MPI_ERRORS_ABORT`, attached.
pub const ABORT: Attached = Attached {
    handle: MPI_ERRORS_ABORT,
    made: None,
};

/// Returns the initial error handler (MPI-4.1 section 9.3), named by `WEFT_INITIAL_ERRHANDLER`.
pub fn initial() -> Attached {
    named(initial_name()).unwrap_or(FATAL)
}

/// Returns the name of the initial error handler in info objects.
pub fn initial_name() -> &'static str {
    let chosen = settings::raw(settings::INITIAL_ERRHANDLER);
    let known = ERRHANDLERS
        .iter()
        .find(|known| chosen.as_ref().is_some_and(|name| name == *known));
    known.copied().unwrap_or(ERRHANDLERS[0])
}

/// Returns a predefined error handler by its name in info objects and on command lines.
pub fn named(name: &str) -> Option<Attached> {
    let place = ERRHANDLERS.iter().position(|known| *known == name)?;
    [FATAL, ABORT, RETURN].into_iter().nth(place)
}

impl Attached {
    /// Attaches a predefined handler.
    pub fn predefined(handle: MPI_Errhandler) -> Attached {
        Attached { handle, made: None }
    }

    /// Attaches a handler of the program.
    pub fn made(handle: MPI_Errhandler, made: Arc<Made>) -> Attached {
        Attached {
            handle,
            made: Some(Hold::new(made)),
        }
    }

    /// Returns the handler.
    pub fn handler(&self) -> Handler {
        match &self.made {
            Some(hold) => hold.0.handler.clone(),
            None => match self.handle {
                MPI_ERRORS_ARE_FATAL => Handler::Fatal,
                MPI_ERRORS_ABORT => Handler::Abort,
                THROW => Handler::Throw,
                _ => Handler::Return,
            },
        }
    }

    /// Returns its handle, to be freed by the program; the same on every call.
    pub fn handle(&self) -> MPI_Errhandler {
        match &self.made {
            Some(hold) => hold.0.change(|uses| uses.given += 1),
            None => self.handle,
        }
    }
}
