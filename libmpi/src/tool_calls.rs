//! Callbacks of a tool's for events (MPI-4.1 section 15.3.8).

use std::ffi::c_void;
use std::ptr;

use mpi_runtime::tool::events::{Instance, Listener};

use crate::abi::{
    MPI_T_CB_REQUIRE_NONE, MPI_T_event_cb_function, MPI_T_event_free_cb_function,
    MPI_T_event_registration,
};

/// What a tool has registered: its function, and what that is given.
pub struct Callback {
    /// The function.
    pub function: MPI_T_event_cb_function,
    /// Its last argument.
    pub user_data: *mut c_void,
}

// SAFETY: the pointers are the tool's, handed back to it and never followed; that its callbacks may be
// called by any thread is what the tool agrees to when it registers them.
unsafe impl Send for Callback {}
// SAFETY: as above; nothing is changed.
unsafe impl Sync for Callback {}

impl Listener for Callback {
    fn hear(&self, instance: &Instance, registration: usize) {
        // SAFETY: the tool gave this function as a callback for events; the instance is there until
        // it returns, and the number is the handle that it was given.
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

/// What a tool wants to be called when a registration has ended.
pub struct End {
    /// The function.
    pub function: MPI_T_event_free_cb_function,
    /// The registration.
    pub registration: MPI_T_event_registration,
    /// The function's last argument.
    pub user_data: *mut c_void,
}

// SAFETY: as for `Callback`: any thread may call it, and the pointers are only handed back.
unsafe impl Send for End {}

impl End {
    /// Calls it.
    pub fn call(self) {
        // SAFETY: the tool gave this function for the end of the registration, and the last argument.
        unsafe { (self.function)(self.registration, MPI_T_CB_REQUIRE_NONE, self.user_data) };
    }
}
