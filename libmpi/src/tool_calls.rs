//! Callbacks of a tool for events (MPI-4.1 section 15.3.8).

use std::ffi::c_void;
use std::ptr;

use mpi_runtime::tool::events::{Instance, Listener};

use crate::abi::{
    MPI_T_CB_REQUIRE_NONE, MPI_T_event_cb_function, MPI_T_event_free_cb_function,
    MPI_T_event_registration,
};

/// A registered callback with its argument.
pub struct Callback {
    /// The function.
    pub function: MPI_T_event_cb_function,
    /// Its last argument.
    pub user_data: *mut c_void,
}

// SAFETY: the library passes the pointers back to the tool and does not dereference them; by
// registering the callback the tool agrees that any thread may call it.
unsafe impl Send for Callback {}
// SAFETY: shared references only copy the pointers, and nothing is modified.
unsafe impl Sync for Callback {}

impl Listener for Callback {
    fn on_event(&self, instance: &Instance, registration: usize) {
        // SAFETY: the tool provided this function as a callback for events; `instance` lives until
        // it returns, and `registration` is the handle that the tool got.
        unsafe {
            (self.function)(
                instance.handle().cast_mut().cast(),
                ptr::without_provenance_mut(registration),
                MPI_T_CB_REQUIRE_NONE,
                self.user_data,
            );
        }
    }
}

/// A tool's callback for the end of a registration.
pub struct End {
    /// The function.
    pub function: MPI_T_event_free_cb_function,
    /// The registration.
    pub registration: MPI_T_event_registration,
    /// The function's last argument.
    pub user_data: *mut c_void,
}

// SAFETY: the library passes the pointers back to the tool and does not dereference them; the tool
// agrees that any thread may call the function.
unsafe impl Send for End {}

impl End {
    /// Calls the callback.
    pub fn call(self) {
        // SAFETY: the tool provided this function, with its last argument, for the end of the
        // registration.
        unsafe { (self.function)(self.registration, MPI_T_CB_REQUIRE_NONE, self.user_data) };
    }
}
