//! Windows by handle.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use crate::settings::hints::Hints;
use mpi_core::process::foreign::ForeignMembers;
use mpi_core::{Class, Error, Result};
use mpi_rma::Window;
use parking_lot::Mutex;

use crate::handles::attribute_value::Store;
use crate::handles::handler::{Attached, FATAL};
use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_Aint, MPI_WIN_NULL, MPI_Win};
use crate::handles::{self, HandleTable, Type};

/// A window with a handle.
pub struct WinObject {
    /// The window.
    pub window: Window,
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
    /// Whether the program has set its error handler.
    pub handler_chosen: AtomicBool,
    /// Its attributes, without the predefined ones.
    pub attributes: Store,
    /// The hints that Weft understands.
    pub hints: Mutex<Hints>,
    /// The values of its predefined attributes, without the base.
    pub values: Values,
    /// Keeps members of other jobs connected as long as the window exists.
    uses: OnceLock<ForeignMembers>,
}

/// The values of a window's predefined attributes (section 11.2.6), in the ABI's numbers. Programs
/// get the addresses of these fields.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// `MPI_WIN_SIZE`.
    pub size: MPI_Aint,
    /// `MPI_WIN_DISP_UNIT`.
    pub unit: c_int,
    /// `MPI_WIN_CREATE_FLAVOR`.
    pub flavor: c_int,
    /// `MPI_WIN_MODEL`.
    pub model: c_int,
}

static MADE: HandleTable<WinObject> = HandleTable::new(Type::Win);

impl WinObject {
    /// Creates an object with the initial error handler (section 8.3).
    pub fn new(window: Window, hints: Hints, values: Values) -> WinObject {
        WinObject {
            errhandler: Mutex::new(FATAL),
            handler_chosen: AtomicBool::new(false),
            attributes: Store::new(),
            hints: Mutex::new(hints),
            values,
            uses: OnceLock::new(),
            window,
        }
    }
}

/// Returns the window behind a handle.
#[inline(always)]
pub fn get<'c>(handle: MPI_Win, call: InCall<'c>) -> Result<&'c WinObject> {
    MADE.get(handle, call).ok_or_else(|| invalid(handle))
}

/// Returns a reference that keeps the window alive over callbacks, which may free it.
pub fn hold(handle: MPI_Win) -> Result<Arc<WinObject>> {
    MADE.get_arc(handle).ok_or_else(|| invalid(handle))
}

/// The windows with the first handles, for [`find_early`].
static FIRST: [AtomicPtr<Window>; 4096] = [const { AtomicPtr::new(ptr::null_mut()) }; 4096];

#[inline(always)]
fn first(handle: MPI_Win) -> Option<&'static AtomicPtr<Window>> {
    let index = (handle as u32).wrapping_sub(handles::made(Type::Win, 0) as u32);
    FIRST.get(index as usize)
}

/// Returns the window behind one of the first handles, without an error text. If it returns one,
/// MPI is initialized.
#[inline(always)]
pub fn find_early<'c>(handle: MPI_Win, _call: InCall<'c>) -> Option<&'c Window> {
    // SAFETY: the pointer is null or of a window that `MADE` owns from `insert` to `remove`, which
    // clears the slot, and which nobody calls while the call uses the window (`InCall::begin`).
    unsafe { first(handle)?.load(Ordering::Acquire).as_ref() }
}

/// Empties the table of [`find_early`], so that calls after `MPI_Finalize` take the slow path, which
/// reports the error.
pub fn forget() {
    for place in &FIRST {
        place.store(ptr::null_mut(), Ordering::Release);
    }
}

/// Inserts a window. Returns its handle.
pub fn insert(object: WinObject) -> Result<MPI_Win> {
    if let Some(runtime) = crate::lifecycle::runtime::running() {
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
        if !object.window.has_all_members() {
            place.store(ptr::null_mut(), Ordering::Release);
        }
    }
    Ok(handle)
}

/// Removes a window.
pub fn remove(handle: MPI_Win) -> Result<Arc<WinObject>> {
    let removed = MADE.remove(handle).ok_or_else(|| invalid(handle))?;
    if let Some(place) = first(handle) {
        // The slot may already have the next window with this handle.
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
