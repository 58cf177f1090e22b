//! Endpoints, an extension of Weft (docs/vcis.md): several ranks of one communicator or window in a
//! process.

use std::ffi::{c_int, c_void};

use mpi_comm::creation::endpoints::MAX_ENDPOINTS;
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_rma::{Flavor, Window};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::wins::{self, WinObject};
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::lifecycle::thread_level::ThreadLevel;
use mpi_runtime::settings::hints::Hints;

use crate::abi::{MPI_Aint, MPI_Comm, MPI_Win};
use crate::api::null;
use crate::args::{Late, LiveComm};
use crate::win_values;

/// The number of endpoints that the argument `name` asks for.
pub(crate) fn count_of(name: &str, value: c_int) -> Result<u32> {
    let count = u32::try_from(value).ok().filter(|it| *it <= MAX_ENDPOINTS);
    count.ok_or_else(|| {
        let why = format!("{name} is {value}; it must be a number from 0 to {MAX_ENDPOINTS}");
        Error::new(Class::Arg, why)
    })
}

/// Makes this process's endpoints, after the local checks.
fn make(runtime: &Runtime, parent: &CommObject, count: c_int, room: bool) -> Result<Vec<Comm>> {
    let count = count_of("my_num_ep", count)?;
    if count > 0 && !room {
        return Err(null("the array of handles"));
    }
    let made =
        mpi_comm::creation::endpoints::create_endpoints(&runtime.process, &parent.comm, count)?;
    Ok(made)
}

/// `MPIX_Comm_create_endpoints`: makes a communicator in which each process has as many ranks as it
/// asks for. One thread of each process calls it. Hints are not read.
pub unsafe fn comm_create_endpoints(
    parent_comm: LiveComm,
    my_num_ep: c_int,
    _info: Option<&Info>,
    out_comm_hdls: *mut MPI_Comm,
) -> Result<()> {
    let (runtime, parent) = (parent_comm.runtime, parent_comm.object);
    let made = make(runtime, parent, my_num_ep, !out_comm_hdls.is_null())?;
    for (i, comm) in made.into_iter().enumerate() {
        let handle = runtime.add_comm(comm, Some(parent))?;
        // SAFETY: the caller's contract; there are as many as were asked for.
        unsafe { out_comm_hdls.add(i).write(handle) };
    }
    Ok(())
}

/// Memory of one endpoint.
#[derive(Clone, Copy)]
struct Piece(*mut c_void, usize);

// SAFETY: an address, which the program has lent for the window.
unsafe impl Send for Piece {}

impl Piece {
    fn take(self) -> (*mut c_void, usize) {
        (self.0, self.1)
    }
}

/// `MPIX_Win_create_endpoints`: makes a window in which each process has as many ranks as it asks
/// for, each with memory of its own. One thread of each process calls it.
///
/// # Safety
/// The arrays have `my_num_ep` elements, and the memory is valid until the windows are freed.
pub unsafe fn win_create_endpoints(
    base: *mut *mut c_void,
    size: *const MPI_Aint,
    disp_unit: c_int,
    my_num_ep: c_int,
    info: Option<&Info>,
    Late(comm, call): Late<MPI_Comm>,
    out_win_hdls: *mut MPI_Win,
) -> Result<()> {
    let runtime = runtime()?;
    if *runtime.thread_level.lock() != ThreadLevel::Multiple {
        let why = "MPIX_Win_create_endpoints needs MPI_THREAD_MULTIPLE from MPI_Init_thread";
        return Err(Error::new(Class::Other, why));
    }
    if disp_unit <= 0 {
        let why = format!("disp_unit is {disp_unit}; it must be 1 or more");
        return Err(Error::new(Class::Disp, why));
    }
    let mut hints = Hints::default();
    if let Some(info) = info {
        hints.update_win(info);
    }
    if my_num_ep > 0 && (base.is_null() || size.is_null()) {
        return Err(null(if base.is_null() { "base" } else { "size" }));
    }
    let mut pieces = Vec::new();
    for i in 0..my_num_ep.max(0) as usize {
        // SAFETY: the arrays have `my_num_ep` elements (# Safety).
        let (base, size) = unsafe { (*base.add(i), *size.add(i)) };
        match usize::try_from(size) {
            Ok(bytes) if bytes == 0 || !base.is_null() => pieces.push(Piece(base, bytes)),
            Ok(_) => {
                let why = format!("base[{i}] is NULL, but size[{i}] is {size}");
                return Err(Error::new(Class::Base, why));
            }
            Err(_) => {
                let why = format!("size[{i}] is {size}; it must be 0 or more");
                return Err(Error::new(Class::Size, why));
            }
        }
    }
    let parent = runtime.comm(comm, call)?;
    let made = make(runtime, parent, my_num_ep, !out_win_hdls.is_null())?;
    // The creation is collective over the endpoints, so each has a thread.
    let windows = std::thread::scope(|scope| {
        let threads: Vec<_> = made
            .iter()
            .zip(&pieces)
            .map(|(comm, piece)| {
                let (piece, wishes) = (*piece, hints.of_window());
                std::thread::Builder::new().spawn_scoped(scope, move || {
                    let (base, bytes) = piece.take();
                    let (process, flavor) = (&runtime.process, Flavor::Created(base.cast()));
                    // SAFETY: the program lends `bytes` bytes at `base` until the window is freed
                    // (# Safety).
                    unsafe { Window::new(process, comm, flavor, bytes, disp_unit.into(), &wishes) }
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let thread = thread.map_err(|error| {
                Error::new(
                    Class::NoMem,
                    format!("cannot start a thread for an endpoint: {error}"),
                )
            })?;
            match thread.join() {
                Ok(made) => made,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        ended.collect::<Result<Vec<Window>>>()
    })?;
    for (i, window) in windows.into_iter().enumerate() {
        let mut hints = hints.clone();
        hints.settle_win(&window);
        let values = win_values::of(&window);
        let handle = wins::insert(WinObject::new(window, hints, values))?;
        // SAFETY: the caller's contract; there are as many as were asked for.
        unsafe { out_win_hdls.add(i).write(handle) };
    }
    Ok(())
}
