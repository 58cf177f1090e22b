//! Error handlers (section 8.3).

use std::sync::Arc;

use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::abi::{
    MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_Errhandler,
};
pub use crate::handler::{Handler, Proxy};
use crate::handler::{Made, Uses};
use crate::library::LIBRARY;
use crate::settings;

impl Made {
    /// Takes note of a change; who gives up the last use takes the handle out of the table.
    fn change(&self, change: impl FnOnce(&mut Uses)) -> MPI_Errhandler {
        let mut uses = self.uses.lock();
        change(&mut uses);
        let (handle, over) = (uses.handle, uses.given == 0 && uses.attached == 0);
        drop(uses);
        if over {
            LIBRARY.errhandlers.remove(handle);
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
    let name = settings::raw(settings::INITIAL_ERRHANDLER);
    name.and_then(|name| named(&name)).unwrap_or(FATAL)
}

/// A predefined error handler by the name that it has in info objects and on command lines.
pub fn named(name: &str) -> Option<Attached> {
    match name {
        "mpi_errors_are_fatal" => Some(FATAL),
        "mpi_errors_abort" => Some(ABORT),
        "mpi_errors_return" => Some(RETURN),
        _ => None,
    }
}

/// `MPI::ERRORS_THROW_EXCEPTIONS` of programs in C++ (MPI-2.2, section 16.1.8): the functions of C
/// return the code, and the C++ binding, which finds this handle on the object, throws it.
const THROW: MPI_Errhandler = 0x5400_0002;

impl Attached {
    /// What to do on an error.
    pub fn handler(&self) -> Handler {
        match &self.made {
            Some(hold) => hold.0.handler,
            None => match self.handle {
                MPI_ERRORS_ARE_FATAL => Handler::Fatal,
                MPI_ERRORS_ABORT => Handler::Abort,
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

fn is_predefined(handle: MPI_Errhandler) -> bool {
    matches!(
        handle,
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_RETURN | MPI_ERRORS_ABORT | THROW
    )
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
    let made = LIBRARY.errhandlers.get_arc(handle);
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
    let handle = LIBRARY.errhandlers.insert(made.clone()).ok_or_else(|| {
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

/// Has the function of a handler called through `proxy`.
pub fn set_proxy(handle: MPI_Errhandler, proxy: Proxy) -> Result<()> {
    let made = LIBRARY
        .errhandlers
        .get_arc(handle)
        .ok_or_else(|| invalid(handle))?;
    if let Some(address) = made.handler.address() {
        let mut proxies = LIBRARY.errhandler_proxies.lock();
        proxies.retain(|(other, _)| *other != address);
        proxies.push((address, proxy));
    }
    Ok(())
}

impl Handler {
    /// What calls the program's function, if that is not one of C.
    pub fn proxy(self) -> Option<Proxy> {
        let address = self.address()?;
        let proxies = LIBRARY.errhandler_proxies.lock();
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
    Error::new(Class::Errhandler, what)
}
