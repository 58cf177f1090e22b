//! Events of the tool information interface (MPI-4.1 section 15.3.8), their sources and categories.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use mpi_core::info::Info;
use mpi_runtime::handles::infos;
use mpi_runtime::tool::at;
use mpi_runtime::tool::categories::{self, Verbosity};
use mpi_runtime::tool::events::{self, EVENTS, Event, FreeCallback, Instance, Listener};
use mpi_runtime::tool::outputs::{Output, TextOutput};
use mpi_runtime::tool::sources::{self, SOURCES};
use mpi_runtime::tool::{Error, Result, Tool, tool};

use crate::abi::{
    MPI_Aint, MPI_Count, MPI_Datatype, MPI_INT, MPI_Info, MPI_T_BIND_NO_OBJECT, MPI_T_ENUM_NULL,
    MPI_T_SOURCE_ORDERED, MPI_T_cb_safety, MPI_T_enum, MPI_T_event_cb_function,
    MPI_T_event_free_cb_function, MPI_T_event_instance, MPI_T_event_registration,
    MPI_T_source_order,
};
use crate::args::Late;
use crate::tool_calls::{Callback, End};
use crate::tool_codes::{self, code};

/// Returns an empty info object: events have no hints.
fn no_hints(out: &Output<MPI_Info>) -> Result {
    out.demand()?;
    out.put(infos::insert(Info::new()).map_err(|_| Error::Memory)?)
}

/// Checks that hints are an info object, or `MPI_INFO_NULL`.
fn check_hints(Late(info, call): Late<MPI_Info>) -> Result {
    infos::hints(info, call)
        .map(drop)
        .map_err(|_| Error::Invalid)
}

/// `MPI_T_source_get_info`.
pub fn source_get_info(
    _: &mut Tool,
    source_index: c_int,
    name: TextOutput,
    desc: TextOutput,
    ordering: Output<MPI_T_source_order>,
    ticks_per_second: Output<MPI_Count>,
    max_ticks: Output<MPI_Count>,
    info: Output<MPI_Info>,
) -> Result {
    let source = at(&SOURCES, source_index)?;
    name.put(source.name);
    desc.put(source.help);
    ordering.put_optional(MPI_T_SOURCE_ORDERED);
    ticks_per_second.put_optional(sources::TICKS_PER_SECOND);
    max_ticks.put_optional(MPI_Count::MAX);
    match info.is_null() {
        true => Ok(()),
        false => no_hints(&info),
    }
}

/// `MPI_T_source_get_timestamp`.
pub fn source_get_timestamp(
    _: &mut Tool,
    source_index: c_int,
    timestamp: Output<MPI_Count>,
) -> Result {
    at(&SOURCES, source_index)?;
    timestamp.put(sources::now())
}

/// `MPI_T_event_get_info`.
///
/// # Safety
/// The arrays have `num_elements` elements, or are NULL; so `num_elements` is valid or NULL.
pub unsafe fn event_get_info(
    _: &mut Tool,
    event_index: c_int,
    name: TextOutput,
    verbosity: Output<c_int>,
    array_of_datatypes: *mut MPI_Datatype,
    array_of_displacements: *mut MPI_Aint,
    num_elements: *mut c_int,
    enumtype: Output<MPI_T_enum>,
    info: Output<MPI_Info>,
    desc: TextOutput,
    bind: Output<c_int>,
) -> Result {
    let event: &Event = at(&EVENTS, event_index)?;
    name.put(event.name);
    desc.put(event.help);
    verbosity.put_optional(tool_codes::verbosity(Verbosity::UserBasic));
    enumtype.put_optional(MPI_T_ENUM_NULL);
    bind.put_optional(MPI_T_BIND_NO_OBJECT);
    // SAFETY: `num_elements` is valid or NULL, and the arrays have that many elements, or are NULL
    // (# Safety).
    unsafe {
        if let Some(count) = num_elements.as_mut() {
            let space = usize::try_from(*count).unwrap_or(0).min(event.elements);
            for place in 0..space {
                if !array_of_datatypes.is_null() {
                    array_of_datatypes.add(place).write(MPI_INT);
                }
                if !array_of_displacements.is_null() {
                    let at = place * size_of::<c_int>();
                    array_of_displacements.add(place).write(at as MPI_Aint);
                }
            }
            *count = event.elements as c_int;
        }
    }
    match info.is_null() {
        true => Ok(()),
        false => no_hints(&info),
    }
}

/// `MPI_T_event_handle_alloc`. No event is bound to an object.
pub fn event_handle_alloc(
    tool: &mut Tool,
    event_index: c_int,
    _obj_handle: *mut c_void,
    info: Late<MPI_Info>,
    event_registration: Output<MPI_T_event_registration>,
) -> Result {
    at(&EVENTS, event_index)?;
    check_hints(info)?;
    event_registration.demand()?;
    let number = tool.number();
    events::register(number, event_index as usize);
    event_registration.put(ptr::without_provenance_mut(number))
}

/// `MPI_T_event_handle_set_info`: there are no hints.
pub fn event_handle_set_info(
    _: &mut Tool,
    registration: MPI_T_event_registration,
    info: Late<MPI_Info>,
) -> Result {
    events::check(registration.addr())?;
    check_hints(info)
}

/// `MPI_T_event_handle_get_info`.
pub fn event_handle_get_info(
    _: &mut Tool,
    registration: MPI_T_event_registration,
    info_used: Output<MPI_Info>,
) -> Result {
    events::check(registration.addr())?;
    no_hints(&info_used)
}

/// `MPI_T_event_register_callback`. Without a function, removes the callback.
///
/// # Safety
/// The function satisfies the standard's contract of a callback.
pub unsafe fn event_register_callback(
    _: &mut Tool,
    registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info: Late<MPI_Info>,
    user_data: *mut c_void,
    function: Option<MPI_T_event_cb_function>,
) -> Result {
    check_hints(info)?;
    let listener = function.map(|function| -> Arc<dyn Listener> {
        Arc::new(Callback {
            function,
            user_data,
        })
    });
    let safety = tool_codes::safety(cb_safety)?;
    events::set_callback(registration.addr(), safety, listener)
}

/// `MPI_T_event_callback_set_info`: there are no hints.
pub fn event_callback_set_info(
    _: &mut Tool,
    registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info: Late<MPI_Info>,
) -> Result {
    events::check(registration.addr())?;
    tool_codes::safety(cb_safety)?;
    check_hints(info)
}

/// `MPI_T_event_callback_get_info`.
pub fn event_callback_get_info(
    _: &mut Tool,
    registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info_used: Output<MPI_Info>,
) -> Result {
    events::check(registration.addr())?;
    tool_codes::safety(cb_safety)?;
    no_hints(&info_used)
}

/// `MPI_T_event_handle_free`. The free callback is called after running callbacks, possibly the
/// caller's own, have returned, by the thread that ran the last one.
///
/// # Safety
/// The function satisfies the standard's contract of a callback, or is NULL.
pub unsafe fn event_handle_free(
    registration: MPI_T_event_registration,
    user_data: *mut c_void,
    free_cb_function: Option<MPI_T_event_free_cb_function>,
) -> c_int {
    let free_callback = free_cb_function.map(|function| -> FreeCallback {
        let end = End {
            function,
            registration,
            user_data,
        };
        Box::new(move || end.call())
    });
    let freed =
        tool().and_then(|_initialised| events::unregister(registration.addr(), free_callback));
    // The function may use the interface, whose lock is released.
    code(freed.map(drop))
}

/// `MPI_T_event_set_dropped_handler`: no event is ever dropped, so the handler is never called.
pub fn event_set_dropped_handler(_: &mut Tool, registration: MPI_T_event_registration) -> Result {
    events::check(registration.addr())
}

/// Passes the event that this thread is delivering to `look`, and returns the code of its result.
///
/// # Errors
/// `MPI_T_ERR_NOT_INITIALIZED`; `MPI_T_ERR_INVALID_HANDLE`: the handle is valid within the callback
/// only.
fn look_at(instance: MPI_T_event_instance, look: impl FnOnce(&Instance) -> Result) -> c_int {
    let looked = tool().map(drop);
    code(looked.and_then(|()| events::current(instance.cast(), look)?))
}

/// `MPI_T_event_read`: one element.
pub fn event_read(
    instance: MPI_T_event_instance,
    element_index: c_int,
    buffer: Output<c_int>,
) -> c_int {
    look_at(instance, |seen| {
        let elements = &seen.elements[..EVENTS[seen.event].elements];
        buffer.put(*at(elements, element_index)?)
    })
}

/// `MPI_T_event_copy`: all elements.
///
/// # Safety
/// `buffer` has space for them, or is NULL.
pub unsafe fn event_copy(instance: MPI_T_event_instance, buffer: *mut c_void) -> c_int {
    look_at(instance, |seen| {
        if buffer.is_null() {
            return Err(Error::Invalid);
        }
        let elements = &seen.elements[..EVENTS[seen.event].elements];
        // SAFETY: `buffer` is not NULL, so has space for all elements (# Safety).
        unsafe { ptr::copy_nonoverlapping(elements.as_ptr(), buffer.cast(), elements.len()) };
        Ok(())
    })
}

/// `MPI_T_event_get_timestamp`.
pub fn event_get_timestamp(
    instance: MPI_T_event_instance,
    event_timestamp: Output<MPI_Count>,
) -> c_int {
    look_at(instance, |seen| event_timestamp.put(seen.time))
}

/// `MPI_T_event_get_source`.
pub fn event_get_source(instance: MPI_T_event_instance, source_index: Output<c_int>) -> c_int {
    look_at(instance, |_| source_index.put(0))
}

/// `MPI_T_category_get_num_events`.
pub fn category_get_num_events(
    _: &mut Tool,
    cat_index: c_int,
    num_events: Output<c_int>,
) -> Result {
    let category = at(categories::all(), cat_index)?;
    num_events.put(category.events().len() as c_int)
}
