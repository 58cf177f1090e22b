//! Events of the tool information interface (MPI-4.1 section 15.3.8), their sources and categories.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use mpi_core::info::Info;
use mpi_runtime::handles::infos;
use mpi_runtime::tool::Error;
use mpi_runtime::tool::Result;
use mpi_runtime::tool::at;
use mpi_runtime::tool::categories::{self, Category, Verbosity};
use mpi_runtime::tool::events::{self, EVENTS, Event, FreeCallback, Instance, Listener};
use mpi_runtime::tool::outputs::{put, put_optional, put_text};
use mpi_runtime::tool::sources::{self, SOURCES};
use mpi_runtime::tool::tool;

use crate::abi::{
    MPI_Aint, MPI_Count, MPI_Datatype, MPI_INT, MPI_Info, MPI_T_BIND_NO_OBJECT, MPI_T_ENUM_NULL,
    MPI_T_SOURCE_ORDERED, MPI_T_cb_safety, MPI_T_enum, MPI_T_event_cb_function,
    MPI_T_event_dropped_cb_function, MPI_T_event_free_cb_function, MPI_T_event_instance,
    MPI_T_event_registration, MPI_T_source_order,
};
use crate::api::tool::{index, members, number};
use crate::tool_calls::{Callback, End};
use crate::tool_codes::{self, code};

/// Returns an empty info object: events have no hints.
///
/// # Safety
/// `out` is valid or NULL.
unsafe fn no_hints(out: *mut MPI_Info) -> Result {
    if out.is_null() {
        return Err(Error::Invalid);
    }
    let info = infos::insert(Info::new()).map_err(|_| Error::Memory)?;
    // SAFETY: the caller's contract.
    unsafe { put(out, info) }
}

/// Checks that hints are an info object, or `MPI_INFO_NULL`.
fn check_hints(info: MPI_Info) -> Result {
    infos::hints(info).map(drop).map_err(|_| Error::Invalid)
}

/// `MPI_T_source_get_num`: there is one.
pub unsafe fn source_get_num(num_sources: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { number(num_sources, SOURCES.len()) }
}

/// `MPI_T_source_get_info`.
///
/// # Safety
/// The addresses for texts satisfy [`mpi_runtime::tool::outputs::put_text`].
pub unsafe fn source_get_info(
    source_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    ordering: *mut MPI_T_source_order,
    ticks_per_second: *mut MPI_Count,
    max_ticks: *mut MPI_Count,
    info: *mut MPI_Info,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let source = at(&SOURCES, source_index)?;
        // SAFETY: the caller's contract.
        unsafe {
            put_text(name, name_len, source.name);
            put_text(desc, desc_len, source.help);
            put_optional(ordering, MPI_T_SOURCE_ORDERED);
            put_optional(ticks_per_second, sources::TICKS_PER_SECOND);
            put_optional(max_ticks, MPI_Count::MAX);
            if !info.is_null() {
                no_hints(info)?;
            }
        }
        Ok(())
    };
    code(run())
}

/// `MPI_T_source_get_timestamp`.
pub unsafe fn source_get_timestamp(source_index: c_int, timestamp: *mut MPI_Count) -> c_int {
    let run = || {
        let _initialised = tool()?;
        at(&SOURCES, source_index)?;
        // SAFETY: the caller's contract.
        unsafe { put(timestamp, sources::now()) }
    };
    code(run())
}

/// `MPI_T_event_get_num`.
pub unsafe fn event_get_num(num_events: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { number(num_events, EVENTS.len()) }
}

/// `MPI_T_event_get_index`.
///
/// # Safety
/// `name` is NULL or ends in NUL.
pub unsafe fn event_get_index(name: *const c_char, event_index: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { index(name, event_index, &EVENTS, |event| Some(event.name)) }
}

/// `MPI_T_event_get_info`.
///
/// # Safety
/// The arrays have `num_elements` elements, or are NULL; the addresses for texts satisfy
/// [`mpi_runtime::tool::outputs::put_text`].
pub unsafe fn event_get_info(
    event_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    array_of_datatypes: *mut MPI_Datatype,
    array_of_displacements: *mut MPI_Aint,
    num_elements: *mut c_int,
    enumtype: *mut MPI_T_enum,
    info: *mut MPI_Info,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let event: &Event = at(&EVENTS, event_index)?;
        // SAFETY: the caller's contract.
        unsafe {
            put_text(name, name_len, event.name);
            put_text(desc, desc_len, event.help);
            put_optional(verbosity, tool_codes::verbosity(Verbosity::UserBasic));
            put_optional(enumtype, MPI_T_ENUM_NULL);
            put_optional(bind, MPI_T_BIND_NO_OBJECT);
            if let Some(count) = num_elements.as_mut() {
                let room = usize::try_from(*count).unwrap_or(0).min(event.elements);
                for place in 0..room {
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
            if !info.is_null() {
                no_hints(info)?;
            }
        }
        Ok(())
    };
    code(run())
}

/// `MPI_T_event_handle_alloc`. No event is bound to an object.
pub unsafe fn event_handle_alloc(
    event_index: c_int,
    _obj_handle: *mut c_void,
    info: MPI_Info,
    event_registration: *mut MPI_T_event_registration,
) -> c_int {
    let run = || {
        let mut tool = tool()?;
        at(&EVENTS, event_index)?;
        check_hints(info)?;
        if event_registration.is_null() {
            return Err(Error::Invalid);
        }
        let number = tool.number();
        events::register(number, event_index as usize);
        // SAFETY: the caller's contract.
        unsafe { put(event_registration, ptr::without_provenance_mut(number)) }
    };
    code(run())
}

/// `MPI_T_event_handle_set_info`: there are no hints.
pub fn event_handle_set_info(registration: MPI_T_event_registration, info: MPI_Info) -> c_int {
    let run = || {
        let _initialised = tool()?;
        events::check(registration.addr())?;
        check_hints(info)
    };
    code(run())
}

/// `MPI_T_event_handle_get_info`.
pub unsafe fn event_handle_get_info(
    registration: MPI_T_event_registration,
    info_used: *mut MPI_Info,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        events::check(registration.addr())?;
        // SAFETY: the caller's contract.
        unsafe { no_hints(info_used) }
    };
    code(run())
}

/// `MPI_T_event_register_callback`. Without a function, removes the callback.
///
/// # Safety
/// The function satisfies the standard's contract of a callback.
pub unsafe fn event_register_callback(
    registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info: MPI_Info,
    user_data: *mut c_void,
    function: Option<MPI_T_event_cb_function>,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        check_hints(info)?;
        let listener = function.map(|function| -> Arc<dyn Listener> {
            Arc::new(Callback {
                function,
                user_data,
            })
        });
        let safety = tool_codes::safety(cb_safety)?;
        events::set_callback(registration.addr(), safety, listener)
    };
    code(run())
}

/// `MPI_T_event_callback_set_info`: there are no hints.
pub fn event_callback_set_info(
    registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info: MPI_Info,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        events::check(registration.addr())?;
        tool_codes::safety(cb_safety)?;
        check_hints(info)
    };
    code(run())
}

/// `MPI_T_event_callback_get_info`.
pub unsafe fn event_callback_get_info(
    registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info_used: *mut MPI_Info,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        events::check(registration.addr())?;
        tool_codes::safety(cb_safety)?;
        // SAFETY: the caller's contract.
        unsafe { no_hints(info_used) }
    };
    code(run())
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
///
/// # Safety
/// No requirements.
pub unsafe fn event_set_dropped_handler(
    registration: MPI_T_event_registration,
    _dropped_cb_function: Option<MPI_T_event_dropped_cb_function>,
) -> c_int {
    code(tool().and_then(|_initialised| events::check(registration.addr())))
}

/// Passes the event that this thread is delivering to `look`.
///
/// # Errors
/// `MPI_T_ERR_NOT_INITIALIZED`; `MPI_T_ERR_INVALID_HANDLE`: the handle is valid within the callback
/// only.
fn look_at<T>(instance: MPI_T_event_instance, look: impl FnOnce(&Instance) -> T) -> Result<T> {
    tool().map(drop)?;
    events::current(instance.cast(), look)
}

/// `MPI_T_event_read`: one element.
///
/// # Safety
/// `buffer` has room for an int, or is NULL.
pub unsafe fn event_read(
    instance: MPI_T_event_instance,
    element_index: c_int,
    buffer: *mut c_void,
) -> c_int {
    let run = || {
        look_at(instance, |told| {
            let elements = &told.elements[..EVENTS[told.event].elements];
            let element = *at(elements, element_index)?;
            // SAFETY: the caller's contract.
            unsafe { put(buffer.cast(), element) }
        })?
    };
    code(run())
}

/// `MPI_T_event_copy`: all elements.
///
/// # Safety
/// `buffer` has room for them, or is NULL.
pub unsafe fn event_copy(instance: MPI_T_event_instance, buffer: *mut c_void) -> c_int {
    let run = || {
        look_at(instance, |told| {
            if buffer.is_null() {
                return Err(Error::Invalid);
            }
            let elements = &told.elements[..EVENTS[told.event].elements];
            // SAFETY: the caller's contract.
            unsafe {
                ptr::copy_nonoverlapping(elements.as_ptr(), buffer.cast(), elements.len());
            }
            Ok(())
        })?
    };
    code(run())
}

/// `MPI_T_event_get_timestamp`.
pub unsafe fn event_get_timestamp(
    instance: MPI_T_event_instance,
    event_timestamp: *mut MPI_Count,
) -> c_int {
    let time = look_at(instance, |told| told.time);
    // SAFETY: the caller's contract.
    code(time.and_then(|time| unsafe { put(event_timestamp, time) }))
}

/// `MPI_T_event_get_source`.
pub unsafe fn event_get_source(instance: MPI_T_event_instance, source_index: *mut c_int) -> c_int {
    let told = look_at(instance, |_| ());
    // SAFETY: the caller's contract.
    code(told.and_then(|()| unsafe { put(source_index, 0) }))
}

/// `MPI_T_category_get_num_events`.
pub unsafe fn category_get_num_events(cat_index: c_int, num_events: *mut c_int) -> c_int {
    let found = tool().and_then(|_initialised| at(categories::all(), cat_index));
    // SAFETY: the caller's contract.
    code(found.and_then(|category| unsafe { put(num_events, category.events().len() as c_int) }))
}

/// `MPI_T_category_get_events`.
///
/// # Safety
/// `indices` is NULL or has room for `len` integers.
pub unsafe fn category_get_events(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { members(cat_index, len, indices, Category::events) }
}
