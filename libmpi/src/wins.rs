//! Windows by handle.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_core::rma::{Flavor, Window};
use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::abi::{
    MPI_Aint, MPI_WIN_BASE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT, MPI_WIN_FLAVOR_ALLOCATE,
    MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC, MPI_WIN_FLAVOR_SHARED, MPI_WIN_MODEL,
    MPI_WIN_NULL, MPI_WIN_SIZE, MPI_WIN_UNIFIED, MPI_Win,
};
use crate::attributes::Store;
use crate::errhandler::{Attached, FATAL};
use crate::handles::{HandleTable, Type};
use crate::hints::Hints;

/// A window that has a handle.
pub struct WinObject {
    /// The window.
    pub window: Window,
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
    /// Its attributes, but for the predefined ones.
    pub attributes: Store,
    /// Its hints, as far as they are understood.
    pub hints: Mutex<Hints>,
    size: MPI_Aint,
    unit: c_int,
    flavor: c_int,
    model: c_int,
}

static MADE: HandleTable<WinObject> = HandleTable::new(Type::Win);

impl WinObject {
    /// With the initial error handler (section 8.3).
    pub fn new(window: Window, hints: Hints) -> WinObject {
        let (size, unit) = window.extent_of(window.rank());
        WinObject {
            errhandler: Mutex::new(FATAL),
            attributes: Store::new(),
            hints: Mutex::new(hints),
            size: size as MPI_Aint,
            unit: unit as c_int,
            flavor: match window.flavor() {
                Flavor::Created(_) => MPI_WIN_FLAVOR_CREATE,
                Flavor::Allocated => MPI_WIN_FLAVOR_ALLOCATE,
                Flavor::Shared { .. } => MPI_WIN_FLAVOR_SHARED,
                Flavor::Dynamic => MPI_WIN_FLAVOR_DYNAMIC,
            },
            model: MPI_WIN_UNIFIED,
            window,
        }
    }

    /// The value of a predefined attribute (section 11.2.6): the window's base, or the address of
    /// a number.
    pub fn predefined(&self, keyval: c_int) -> Option<*mut c_void> {
        let number = |number: &c_int| (&raw const *number).cast_mut().cast();
        Some(match keyval {
            MPI_WIN_BASE => self.window.base().cast(),
            MPI_WIN_SIZE => (&raw const self.size).cast_mut().cast(),
            MPI_WIN_DISP_UNIT => number(&self.unit),
            MPI_WIN_CREATE_FLAVOR => number(&self.flavor),
            MPI_WIN_MODEL => number(&self.model),
            _ => return None,
        })
    }
}

/// The window behind a handle.
#[inline(always)]
pub fn get(handle: MPI_Win) -> Result<&'static WinObject> {
    MADE.get(handle).ok_or_else(|| invalid(handle))
}

/// A handle for a window.
pub fn insert(object: WinObject) -> Result<MPI_Win> {
    MADE.insert(Arc::new(object)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 window handles are in use; free some",
        )
    })
}

/// Takes a window out.
pub fn remove(handle: MPI_Win) -> Result<Arc<WinObject>> {
    MADE.remove(handle).ok_or_else(|| invalid(handle))
}

#[cold]
fn invalid(handle: MPI_Win) -> Error {
    let what = if handle == MPI_WIN_NULL {
        "win is MPI_WIN_NULL".to_string()
    } else {
        format!("window {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Win, what)
}
