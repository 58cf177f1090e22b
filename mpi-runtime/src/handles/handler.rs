//! What error handlers are, and how they are attached to objects (section 8.3).

use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::Arc;

use crate::settings::{self, ERRHANDLERS};
use parking_lot::Mutex;

use crate::handles::HandleTable;
use crate::handles::destructors::Kept;
use crate::handles::predefined::{
    MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_Errhandler,
};

/// `MPI::ERRORS_THROW_EXCEPTIONS` of programs in C++ (MPI-2.2, section 16.1.8): the functions of C
/// return the code, and the C++ binding, which asks whether this was the handler, throws it.
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
    /// A function of the program's for communicators.
    Comm(Callback),
    /// A function of the program's for windows.
    Win(Callback),
    /// A function of the program's for files.
    File(Callback),
    /// A function of the program's for sessions.
    Session(Callback),
}

/// A handler that the program made. It has one handle from the beginning to the end, which the
/// program is given by `MPI_Comm_get_errhandler` and its like as often as it asks.
pub struct Made {
    /// What it does.
    pub handler: Handler,
    /// Where its handle is.
    pub table: &'static HandleTable<Made>,
    /// What keeps it.
    pub uses: Mutex<Uses>,
}

/// What keeps a handler of the program's.
pub struct Uses {
    /// Its handle.
    pub handle: MPI_Errhandler,
    /// How often the program has been given the handle and not freed it.
    pub given: usize,
    /// How many objects it is attached to.
    pub attached: usize,
}

/// A function of the program's, whose handle and arguments only the library of the ABI knows.
pub type Function = unsafe extern "C" fn();

/// A function of the program's, and what it is given beside the object and the error.
#[derive(Clone)]
pub enum Callback {
    /// Nothing.
    Plain(Function),
    /// A state (`MPIX_Comm_create_errhandler_x` and its like).
    WithState(Function, Arc<Kept>),
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Callback::Plain(_) => "Plain",
            Callback::WithState(..) => "WithState",
        })
    }
}

/// Calls an error handler of C++: gets the kind of the object (0 for a communicator, 1 for a file, 2
/// for a window), the addresses of its handle and of the code, and the program's function.
pub type Proxy = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, Function);

/// How a function of the program's is called that is not one of C.
#[derive(Clone, Copy)]
pub enum Caller {
    /// Through this.
    Proxy(Proxy),
    /// As a subroutine of Fortran: it gets the address of the integer that stands for the handle.
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

    /// Where the program's function is, if it can be of another language than C.
    pub fn address(&self) -> Option<usize> {
        match self.callback()? {
            Callback::Plain(function) => Some(*function as usize),
            Callback::WithState(..) => None,
        }
    }

    /// Whether the program waits for its end.
    pub(crate) fn has_state(&self) -> bool {
        matches!(self.callback(), Some(Callback::WithState(..)))
    }
}

impl Made {
    /// Takes note of a change; who gives up the last use takes the handle out of the table.
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

/// One attachment of a handler of the program's.
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
    /// Of a predefined one.
    handle: MPI_Errhandler,
    /// Keeps a handler of the program's alive after its handle has been freed.
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

/// The initial error handler (MPI-4.1 section 9.3), which whoever starts the program may choose; by its
/// name in `WEFT_INITIAL_ERRHANDLER`.
pub fn initial() -> Attached {
    named(initial_name()).unwrap_or(FATAL)
}

/// The name of the initial error handler in info objects.
pub fn initial_name() -> &'static str {
    let chosen = settings::raw(settings::INITIAL_ERRHANDLER);
    let known = ERRHANDLERS
        .iter()
        .find(|known| chosen.as_ref().is_some_and(|name| name == *known));
    known.copied().unwrap_or(ERRHANDLERS[0])
}

/// A predefined error handler by the name that it has in info objects and on command lines.
pub fn named(name: &str) -> Option<Attached> {
    let place = ERRHANDLERS.iter().position(|known| *known == name)?;
    [FATAL, ABORT, RETURN].into_iter().nth(place)
}

impl Attached {
    /// A predefined one, by its handle.
    pub fn predefined(handle: MPI_Errhandler) -> Attached {
        Attached { handle, made: None }
    }

    /// One of the program's, by its handle.
    pub fn made(handle: MPI_Errhandler, made: Arc<Made>) -> Attached {
        Attached {
            handle,
            made: Some(Hold::new(made)),
        }
    }

    /// What to do on an error.
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

    /// Its handle, to be freed by the program. It is the same each time.
    pub fn handle(&self) -> MPI_Errhandler {
        match &self.made {
            Some(hold) => hold.0.change(|uses| uses.given += 1),
            None => self.handle,
        }
    }
}
