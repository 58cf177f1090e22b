//! Error handlers (section 8.3).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::abi::{
    MPI_Comm_errhandler_function, MPI_ERRHANDLER_NULL, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN,
    MPI_Errhandler, MPI_File_errhandler_function, MPI_Win_errhandler_function,
};
use crate::handles::{HandleTable, Type};

/// An error handler.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// `MPI_ERRORS_ARE_FATAL`.
    Fatal,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// A function of the program's for communicators.
    Comm(MPI_Comm_errhandler_function),
    /// A function of the program's for windows.
    Win(MPI_Win_errhandler_function),
    /// A function of the program's for files.
    File(MPI_File_errhandler_function),
}

/// A handler that the program made. It has one handle from the beginning to the end, which the
/// program is given by `MPI_Comm_get_errhandler` and its like as often as it asks.
struct Made {
    handler: Handler,
    uses: Mutex<Uses>,
}

/// What keeps a handler of the program's.
struct Uses {
    handle: MPI_Errhandler,
    /// How often the program has been given the handle and not freed it.
    given: usize,
    /// How many objects it is attached to.
    attached: usize,
}

impl Made {
    /// Takes note of a change; who gives up the last use takes the handle out of the table.
    fn change(&self, change: impl FnOnce(&mut Uses)) -> MPI_Errhandler {
        let mut uses = self.uses.lock();
        change(&mut uses);
        let (handle, over) = (uses.handle, uses.given == 0 && uses.attached == 0);
        drop(uses);
        if over {
            MADE.remove(handle);
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

/// `MPI::ERRORS_THROW_EXCEPTIONS` of programs in C++ (MPI-2.2, section 16.1.8): the functions of C
/// return the code, and the C++ binding, which finds this handle on the object, throws it.
const THROW: MPI_Errhandler = 0x5400_0002;

static MADE: HandleTable<Made> = HandleTable::new(Type::Errhandler);

impl Attached {
    /// What to do on an error.
    pub fn handler(&self) -> Handler {
        match &self.made {
            Some(hold) => hold.0.handler,
            None if self.handle != MPI_ERRORS_ARE_FATAL => Handler::Return,
            None => Handler::Fatal,
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

fn is_predefined(handle: MPI_Errhandler) -> bool {
    matches!(handle, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_RETURN | THROW)
}

/// The handler behind a handle, to be attached.
pub fn attach(handle: MPI_Errhandler) -> Result<Attached> {
    if is_predefined(handle) {
        return Ok(Attached { handle, made: None });
    }
    Ok(Attached {
        handle,
        made: Some(Hold::new(given(handle)?)),
    })
}

/// The handler behind a handle that the program has and has not freed as often as it was given it.
fn given(handle: MPI_Errhandler) -> Result<Arc<Made>> {
    let made = MADE.get_arc(handle);
    let given = made.filter(|made| made.uses.lock().given > 0);
    given.ok_or_else(|| invalid(handle))
}

/// A handle for a handler of the program's.
pub fn make(handler: Handler) -> Result<MPI_Errhandler> {
    let made = Arc::new(Made {
        handler,
        uses: Mutex::new(Uses {
            handle: MPI_ERRHANDLER_NULL,
            given: 1,
            attached: 0,
        }),
    });
    let handle = MADE.insert(made.clone()).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 error handler handles are in use; free some",
        )
    })?;
    made.uses.lock().handle = handle;
    Ok(handle)
}

/// Frees a handle; the handler lives on where it is attached. Predefined ones stay.
pub fn free(handle: MPI_Errhandler) -> Result<()> {
    if is_predefined(handle) {
        return Ok(());
    }
    given(handle)?.change(|uses| uses.given -= 1);
    Ok(())
}

/// Calls an error handler of C++: gets the kind of the object (0 for a communicator, 1 for a file, 2
/// for a window), the addresses of its handle and of the code, and the program's function.
pub type Proxy = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, unsafe extern "C" fn());

/// The addresses of the program's functions that are called through a proxy, and their proxies.
static PROXIES: Mutex<Vec<(usize, Proxy)>> = Mutex::new(Vec::new());

/// Has the function of a handler called through `proxy`.
pub fn set_proxy(handle: MPI_Errhandler, proxy: Proxy) -> Result<()> {
    let made = MADE.get_arc(handle).ok_or_else(|| invalid(handle))?;
    if let Some(address) = made.handler.address() {
        let mut proxies = PROXIES.lock();
        proxies.retain(|(other, _)| *other != address);
        proxies.push((address, proxy));
    }
    Ok(())
}

impl Handler {
    /// Where the program's function is.
    fn address(self) -> Option<usize> {
        match self {
            Handler::Fatal | Handler::Return => None,
            Handler::Comm(function) => Some(function as usize),
            Handler::Win(function) => Some(function as usize),
            Handler::File(function) => Some(function as usize),
        }
    }

    /// What calls the program's function, if that is not one of C.
    pub fn proxy(self) -> Option<Proxy> {
        let address = self.address()?;
        let proxies = PROXIES.lock();
        let found = proxies.iter().find(|(other, _)| *other == address);
        found.map(|(_, proxy)| *proxy)
    }
}

#[cold]
fn invalid(handle: MPI_Errhandler) -> Error {
    let what = if handle == MPI_ERRHANDLER_NULL {
        "errhandler is MPI_ERRHANDLER_NULL".to_string()
    } else {
        format!("error handler {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Arg, what)
}
