//! Windows (section 11.2), with their names, attributes and error handlers.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_rma::{Flavor, Window};
use mpi_runtime::handles::destructors;
use mpi_runtime::handles::groups;
use mpi_runtime::handles::handler::Attached;
use mpi_runtime::handles::infos;
use mpi_runtime::handles::wins::{self, WinObject};
use mpi_runtime::lifecycle::runtime::{demand_memory, runtime};
use mpi_runtime::settings::hints::Hints;
use mpi_runtime::settings::text;

use crate::abi::{
    MPI_Aint, MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_MAX_OBJECT_NAME, MPI_PROC_NULL,
    MPI_WIN_NULL, MPI_Win,
};
use crate::api::attr;
use crate::api::errhandler::{call, demand_made_by};
use crate::api::rma::check_rank;
use crate::args::{Late, LateOut, LiveWin, Out, OutInt, OutText};
use crate::attributes::{self, Form, ObjectKind, Value};
use crate::raise::On;
use crate::win_values;

/// Makes a window and gives it a handle.
///
/// # Safety
/// The memory satisfies the contract of [`Window::new`].
unsafe fn make(
    Late(comm, call): Late<MPI_Comm>,
    flavor: Flavor,
    size: MPI_Aint,
    unit: MPI_Aint,
    info: MPI_Info,
    win: &LateOut<MPI_Win>,
) -> Result<Arc<WinObject>> {
    let runtime = runtime()?;
    let comm = &runtime.comm(comm, call)?.comm;
    if comm.remote().is_some() {
        let why = "comm is an intercommunicator; windows are made of intracommunicators only";
        return Err(Error::new(Class::Comm, why));
    }
    let Ok(bytes) = usize::try_from(size) else {
        return Err(Error::new(
            Class::Size,
            format!("size is {size}; it must be 0 or more"),
        ));
    };
    if unit <= 0 {
        return Err(Error::new(
            Class::Disp,
            format!("disp_unit is {unit}; it must be 1 or more"),
        ));
    }
    if let Flavor::Created(base) = flavor {
        check_base(base.cast(), bytes)?;
    }
    let info = infos::hints(info, call)?;
    let win = win.demand()?;
    let flavor = match flavor {
        Flavor::Shared { .. } => {
            let hint = info.and_then(|info| info.hint("alloc_shared_noncontig"));
            Flavor::Shared {
                contiguous: hint.as_deref() != Some("true"),
            }
        }
        other => other,
    };
    let mut hints = Hints::default();
    if let Some(info) = info {
        hints.update_win(info);
    }
    let wishes = hints.of_window();
    // SAFETY: the memory satisfies the contract of `Window::new` (# Safety).
    let window = unsafe { Window::new(&runtime.process, comm, flavor, bytes, unit, &wishes)? };
    hints.settle_win(&window);
    let values = win_values::of(&window);
    let handle = wins::insert(WinObject::new(window, hints, values))?;
    win.set(handle);
    wins::hold(handle)
}

/// Refuses NULL and `MPI_IN_PLACE` as memory of a window.
fn check_base(base: *const c_void, size: usize) -> Result<()> {
    if size > 0 && base.is_null() {
        let why = format!("base is NULL, but size is {size}");
        return Err(Error::new(Class::Base, why));
    }
    match size {
        0 => Ok(()),
        _ => demand_memory("base", base, Class::Base),
    }
}

/// `MPI_Win_create` (section 11.2.1).
///
/// # Safety
/// `base` is valid for `size` bytes until the window is freed.
pub unsafe fn win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: Late<MPI_Comm>,
    win: LateOut<MPI_Win>,
) -> Result<()> {
    // SAFETY: `base` is valid for `size` bytes as long as the window has it (# Safety).
    unsafe {
        make(
            comm,
            Flavor::Created(base.cast()),
            size,
            disp_unit,
            info,
            &win,
        )
    }
    .map(drop)
}

/// `MPI_Win_allocate` (section 11.2.2).
pub fn win_allocate(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: Late<MPI_Comm>,
    baseptr: Out<*mut c_void>,
    win: LateOut<MPI_Win>,
) -> Result<()> {
    // SAFETY: the window has no memory of the program.
    let object = unsafe { make(comm, Flavor::Allocated, size, disp_unit, info, &win)? };
    baseptr.set(object.window.base().cast());
    Ok(())
}

/// `MPI_Win_allocate_shared` (section 11.2.3).
pub fn win_allocate_shared(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: Late<MPI_Comm>,
    baseptr: Out<*mut c_void>,
    win: LateOut<MPI_Win>,
) -> Result<()> {
    let flavor = Flavor::Shared { contiguous: true };
    // SAFETY: the window has no memory of the program.
    let object = unsafe { make(comm, flavor, size, disp_unit, info, &win)? };
    baseptr.set(object.window.base().cast());
    Ok(())
}

/// `MPI_Win_shared_query` (MPI-4.1 section 12.2.3): for all windows but dynamic ones.
pub fn win_shared_query(
    win: LiveWin,
    rank: c_int,
    size: Out<MPI_Aint>,
    disp_unit: OutInt,
    baseptr: Out<*mut c_void>,
) -> Result<()> {
    let window = &win.window;
    let rank = match rank {
        MPI_PROC_NULL => None,
        rank => Some(check_rank(window, rank)?),
    };
    let (base, bytes, unit) = window.shared_query(rank).ok_or_else(|| {
        Error::new(
            Class::RmaFlavor,
            "win is dynamic and has no memory to query; pass a window of MPI_Win_allocate_shared",
        )
    })?;
    size.set(bytes as MPI_Aint);
    disp_unit.set(unit, "the unit of displacements")?;
    baseptr.set(base.cast());
    Ok(())
}

/// `MPI_Win_create_dynamic` (section 11.2.4).
pub fn win_create_dynamic(
    info: MPI_Info,
    comm: Late<MPI_Comm>,
    win: LateOut<MPI_Win>,
) -> Result<()> {
    // SAFETY: the window has no memory of the program yet.
    unsafe { make(comm, Flavor::Dynamic, 0, 1, info, &win) }.map(drop)
}

/// `MPI_Win_attach` (section 11.2.4).
///
/// # Safety
/// `base` is valid for `size` bytes until it is detached or the window freed.
pub unsafe fn win_attach(win: LiveWin, base: *mut c_void, size: MPI_Aint) -> Result<()> {
    let window = &win.window;
    let Ok(bytes) = usize::try_from(size) else {
        return Err(Error::new(
            Class::Size,
            format!("size is {size}; it must be 0 or more"),
        ));
    };
    check_base(base, bytes)?;
    // SAFETY: `base` is valid for `size` bytes as long as the window has it (# Safety).
    unsafe { window.attach(base.cast(), bytes) }
}

/// `MPI_Win_detach` (section 11.2.4).
pub fn win_detach(win: LiveWin, base: *const c_void) -> Result<()> {
    win.window.detach(base.cast())
}

/// `MPI_Win_free` (section 11.2.5).
pub fn win_free(win: &mut MPI_Win) -> Result<()> {
    let runtime = runtime()?;
    let object = wins::hold(*win)?;
    object.window.check_free()?;
    object.attributes.delete_all(win)?;
    // A callback may have freed the window.
    if !wins::hold(*win).is_ok_and(|still| Arc::ptr_eq(&still, &object)) {
        let why = "win was freed by a delete callback of one of its attributes";
        return Err(Error::new(Class::Win, why));
    }
    object.window.free(&runtime.process)?;
    wins::remove(*win)?;
    *win = MPI_WIN_NULL;
    drop(object);
    destructors::run();
    Ok(())
}

/// `MPI_Win_get_group` (section 11.2.7).
pub fn win_get_group(win: LiveWin, group: Out<MPI_Group>) -> Result<()> {
    let window = &win.window;
    group.set(groups::insert(window.group()?.clone())?);
    Ok(())
}

/// `MPI_Win_set_info` (section 11.2.7).
pub fn win_set_info(win: LiveWin, info: Option<&Info>) -> Result<()> {
    let object = win.object;
    if let Some(info) = info {
        let mut hints = object.hints.lock();
        hints.update_win(info);
        hints.settle_win(&object.window);
    }
    Ok(())
}

/// `MPI_Win_get_info` (section 11.2.7).
pub fn win_get_info(win: LiveWin, info_used: Out<MPI_Info>) -> Result<()> {
    let info = win.hints.lock().to_win_info()?;
    crate::api::info::give(info, info_used)
}

/// `MPI_Win_set_name` (section 6.8). Longer names are cut.
pub fn win_set_name(win: LiveWin, win_name: &CStr) -> Result<()> {
    let name = text::beginning(win_name.to_bytes(), MPI_MAX_OBJECT_NAME as usize - 1);
    win.window.set_name(&name);
    Ok(())
}

/// `MPI_Win_get_name` (section 6.8). The null handle has a name, too (MPI-4.0 section 7.8).
pub fn win_get_name(
    Late(win, call): Late<MPI_Win>,
    win_name: OutText<MPI_MAX_OBJECT_NAME>,
    resultlen: Out<c_int>,
) -> Result<()> {
    runtime()?;
    let name = match win {
        MPI_WIN_NULL => "MPI_WIN_NULL".into(),
        win => wins::get(win, call)?.window.name(),
    };
    win_name.set(&name, &resultlen)
}

/// `MPI_Win_set_attr` and `MPII_Win_set_attr` (section 6.7).
pub fn win_set_attr(form: Form, win: MPI_Win, keyval: c_int, value: *mut c_void) -> Result<()> {
    runtime()?;
    // The delete callback of the old value may free the window.
    let object = wins::hold(win)?;
    object.attributes.set(
        &win,
        &attributes::key(keyval, ObjectKind::Win)?,
        Value::new(form, value),
    )
}

/// `MPI_Win_delete_attr` (section 6.7). An attribute that is not set is no error.
pub fn win_delete_attr(win: MPI_Win, keyval: c_int) -> Result<()> {
    runtime()?;
    let object = wins::hold(win)?;
    object
        .attributes
        .delete(&win, &attributes::key(keyval, ObjectKind::Win)?)
        .map(drop)
}

/// `MPI_Win_get_attr` (section 6.7).
pub fn win_get_attr(
    win: LiveWin,
    keyval: c_int,
    attribute_val: Out<*mut c_void>,
    flag: Out<c_int>,
) -> Result<()> {
    let object = win.object;
    let found = match win_values::find(object, keyval) {
        Some(found) => Some(found),
        None => attr::stored(&object.attributes, keyval, ObjectKind::Win, win.call)?,
    };
    attr::tell(found, attribute_val, flag);
    Ok(())
}

/// `MPI_Win_set_errhandler` (section 8.3.2).
pub fn win_set_errhandler(win: LiveWin, errhandler: Attached) -> Result<()> {
    demand_made_by("MPI_Win_create_errhandler", &errhandler)?;
    let before = std::mem::replace(&mut *win.errhandler.lock(), errhandler);
    win.handler_chosen.store(true, Ordering::Relaxed);
    drop(before);
    destructors::run();
    Ok(())
}

/// `MPI_Win_get_errhandler` (section 8.3.2).
pub fn win_get_errhandler(win: LiveWin, errhandler: Out<MPI_Errhandler>) -> Result<()> {
    errhandler.set(win.errhandler.lock().clone().handle());
    Ok(())
}

/// `MPI_Win_call_errhandler` (section 8.5).
pub fn win_call_errhandler(win: LiveWin, errorcode: c_int) -> Result<()> {
    call("MPI_Win_call_errhandler", On::Win(win.handle), errorcode)
}
