//! A performance variable of the tool interface that counts.

use std::ffi::{CStr, c_void};
use std::ptr;

use super::constants::{PVAR_CLASS_COUNTER, THREAD_MULTIPLE};
use super::table::{Table, call};
use super::world::World;
use crate::error::Result;

/// A started counter, which is kept until the process ends.
pub struct Counter {
    table: &'static Table,
    session: *mut c_void,
    handle: *mut c_void,
}

impl Counter {
    /// Finds and starts the counter `name`.
    ///
    /// # Errors
    /// The library has no such variable.
    pub fn start(world: &World, name: &CStr) -> Result<Self> {
        let table = world.table();
        let (mut level, mut index, mut count) = (0, 0, 0);
        let (mut session, mut handle) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: each call writes the integers and handles that it gets; the name ends with NUL.
        unsafe {
            call!(table, t_init_thread(THREAD_MULTIPLE, &mut level))?;
            call!(
                table,
                t_pvar_get_index(name.as_ptr(), PVAR_CLASS_COUNTER, &mut index)
            )?;
            call!(table, t_pvar_session_create(&mut session))?;
            call!(
                table,
                t_pvar_handle_alloc(session, index, ptr::null_mut(), &mut handle, &mut count)
            )?;
            call!(table, t_pvar_start(session, handle))?;
        }
        Ok(Self {
            table,
            session,
            handle,
        })
    }

    /// Returns the value.
    pub fn read(&self) -> Result<u64> {
        let mut value = 0_u64;
        let place = (&raw mut value).cast();
        // SAFETY: the counter is one unsigned long.
        unsafe { call!(self.table, t_pvar_read(self.session, self.handle, place)) }?;
        Ok(value)
    }
}
