//! Error handlers (section 8.3).

use std::sync::Arc;

use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::abi::{MPI_ERRHANDLER_NULL, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_Errhandler};
pub use crate::handler::{Handler, Proxy};
use crate::handler::{Made, Uses};
use crate::library::LIBRARY;

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

/// `MPI::ERRORS_THROW_EXCEPTIONS` of programs in C++ (MPI-2.2, section 16.1.8): the functions of C
/// return the code, and the C++ binding, which finds this handle on the object, throws it.
const THROW: MPI_Errhandler = 0x5400_0002;

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
    Error::new(Class::Arg, what)
}
