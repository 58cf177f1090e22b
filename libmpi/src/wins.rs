//! Windows by handle.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_core::process::foreign::Uses;
use mpi_core::{Class, Error, Result};
use mpi_init::hints::Hints;
use mpi_rma::{Flavor, Window};
use parking_lot::Mutex;

use crate::abi::{
    MPI_Aint, MPI_UNDEFINED, MPI_WIN_BASE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT,
    MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC, MPI_WIN_FLAVOR_SHARED,
    MPI_WIN_MODEL, MPI_WIN_NULL, MPI_WIN_SIZE, MPI_WIN_UNIFIED, MPI_Win,
};
use crate::attributes::Store;
use crate::handler::{Attached, FATAL};
use mpi_init::handles::{self, HandleTable, Type};

/// A window that has a handle.
pub struct WinObject {
    /// The window.
    pub window: Window,
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
    /// Whether the program has set it.
    pub handler_chosen: AtomicBool,
    /// Its attributes, but for the predefined ones.
    pub attributes: Store,
    /// Its hints, as far as they are understood.
    pub hints: Mutex<Hints>,
    size: MPI_Aint,
    unit: c_int,
    flavor: c_int,
    model: c_int,
    /// Members of other jobs stay connected as long as it lives.
    uses: OnceLock<Uses>,
}

static MADE: HandleTable<WinObject> = HandleTable::new(Type::Win);

impl WinObject {
    /// With the initial error handler (section 8.3).
    pub fn new(window: Window, hints: Hints) -> WinObject {
        let (size, unit) = window.extent_of(window.rank());
        WinObject {
            errhandler: Mutex::new(FATAL),
            handler_chosen: AtomicBool::new(false),
            attributes: Store::new(),
            hints: Mutex::new(hints),
            size: size as MPI_Aint,
            // A larger one can be told by MPI_Win_shared_query_c only.
            unit: c_int::try_from(unit).unwrap_or(MPI_UNDEFINED),
            flavor: match window.flavor() {
                Flavor::Created(_) => MPI_WIN_FLAVOR_CREATE,
                Flavor::Allocated => MPI_WIN_FLAVOR_ALLOCATE,
                Flavor::Shared { .. } => MPI_WIN_FLAVOR_SHARED,
                Flavor::Dynamic => MPI_WIN_FLAVOR_DYNAMIC,
            },
            model: MPI_WIN_UNIFIED,
            uses: OnceLock::new(),
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

/// As [`get`], to be kept over callbacks, which may free the window.
pub fn hold(handle: MPI_Win) -> Result<Arc<WinObject>> {
    MADE.get_arc(handle).ok_or_else(|| invalid(handle))
}

/// The windows whose handles come first, as [`quick`] finds them.
static FIRST: [AtomicPtr<Window>; 4096] = [const { AtomicPtr::new(ptr::null_mut()) }; 4096];

#[inline(always)]
fn first(handle: MPI_Win) -> Option<&'static AtomicPtr<Window>> {
    let index = (handle as u32).wrapping_sub(handles::made(Type::Win, 0) as u32);
    FIRST.get(index as usize)
}

/// The window behind a handle if it is one of those, without a word about why there is none.
/// MPI is up if there is one.
#[inline(always)]
pub fn quick(handle: MPI_Win) -> Option<&'static Window> {
    // SAFETY: there from `insert` to `remove`, which frees it; a program that uses a window meanwhile
    // is wrong.
    unsafe { first(handle)?.load(Ordering::Acquire).as_ref() }
}

/// Has [`quick`] find nothing any more, so that calls after `MPI_Finalize` go the long way, which
/// says what is wrong with them.
pub fn forget() {
    for place in &FIRST {
        place.store(ptr::null_mut(), Ordering::Release);
    }
}

/// A handle for a window.
pub fn insert(object: WinObject) -> Result<MPI_Win> {
    if let Some(runtime) = crate::runtime::running() {
        let foreign = runtime.process.foreign();
        let window = &object.window;
        if let Ok(group) = window.group() {
            let uses = foreign.use_peers(window.owner(), group.peers());
            let _ = object.uses.set(uses);
        }
    }
    let object = Arc::new(object);
    let handle = MADE.insert(object.clone()).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 window handles are in use; free some",
        )
    })?;
    if let Some(place) = first(handle) {
        place.store((&raw const object.window).cast_mut(), Ordering::Release);
    }
    Ok(handle)
}

/// Takes a window out.
pub fn remove(handle: MPI_Win) -> Result<Arc<WinObject>> {
    let removed = MADE.remove(handle).ok_or_else(|| invalid(handle))?;
    if let Some(place) = first(handle) {
        // Unless its handle has been given to another already.
        let own = (&raw const removed.window).cast_mut();
        let _ = place.compare_exchange(own, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }
    Ok(removed)
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
