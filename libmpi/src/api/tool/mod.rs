//! The tool information interface MPI_T (chapter 14.3). Its functions return codes, call no error
//! handler, and also work before `MPI_Init` and after `MPI_Finalize`.

pub mod events;

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use mpi_runtime::settings;
use mpi_runtime::tool::Error;
use mpi_runtime::tool::Select;
use mpi_runtime::tool::at;
use mpi_runtime::tool::categories::{self, Category, Verbosity};
use mpi_runtime::tool::cvars::{Cvar, Handle, Value, enumerated, enumeration};
use mpi_runtime::tool::named;
use mpi_runtime::tool::outputs::{name_of, put, put_optional, put_text};
use mpi_runtime::tool::pvars;
use mpi_runtime::tool::tool;

use crate::abi::{
    MPI_Datatype, MPI_T_BIND_NO_OBJECT, MPI_T_ENUM_NULL, MPI_T_cvar_handle, MPI_T_enum,
    MPI_T_pvar_handle, MPI_T_pvar_session, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
    MPI_THREAD_SINGLE, MPI_UNSIGNED_LONG,
};
use crate::data::MPI_T_PVAR_ALL_HANDLES;
use crate::tool_codes::{self, code};

/// `MPI_T_init_thread` (section 14.3.4).
pub unsafe fn init_thread(required: c_int, provided: *mut c_int) -> c_int {
    let run = || {
        if provided.is_null() || !(MPI_THREAD_SINGLE..=MPI_THREAD_MULTIPLE).contains(&required) {
            return Err(Error::Invalid);
        }
        let threaded = required == MPI_THREAD_MULTIPLE;
        let level = if mpi_runtime::tool::init(threaded)? == threaded {
            required
        } else {
            MPI_THREAD_SERIALIZED
        };
        // SAFETY: the caller's contract.
        unsafe { put(provided, level) }
    };
    code(run())
}

/// `MPI_T_finalize` (section 14.3.4).
pub fn finalize() -> c_int {
    code(mpi_runtime::tool::finalize())
}

/// `MPI_T_enum_get_info` (section 14.3.5).
pub unsafe fn enum_get_info(
    enumtype: MPI_T_enum,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let variable = enumerated(enumtype.addr())?;
        // SAFETY: the caller's contract.
        unsafe {
            put_optional(num, variable.names().len() as c_int);
            put_text(name, name_len, variable.name);
        }
        Ok(())
    };
    code(run())
}

/// `MPI_T_enum_get_item` (section 14.3.5).
pub unsafe fn enum_get_item(
    enumtype: MPI_T_enum,
    index: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let names = enumerated(enumtype.addr())?.names();
        let item = at(&names, index)?;
        // SAFETY: the caller's contract.
        unsafe {
            put_optional(value, index);
            put_text(name, name_len, item);
        }
        Ok(())
    };
    code(run())
}

/// Writes a number of items.
///
/// # Safety
/// `out` is valid or NULL.
pub(crate) unsafe fn number(out: *mut c_int, number: usize) -> c_int {
    // SAFETY: the caller's contract.
    code(tool().and_then(|_initialised| unsafe { put(out, number as c_int) }))
}

/// Writes the index of the item with a name.
///
/// # Safety
/// `name` is NULL or ends in NUL; `index` is valid or NULL.
pub(crate) unsafe fn index<T>(
    name: *const c_char,
    index: *mut c_int,
    all: &'static [T],
    name_if_fit: impl Fn(&'static T) -> Option<&'static str>,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        // SAFETY: the caller's contract.
        let name = unsafe { name_of(name)? };
        let found = named(all, name, name_if_fit)?;
        // SAFETY: the caller's contract.
        unsafe { put(index, found as c_int) }
    };
    code(run())
}

/// `MPI_T_cvar_get_num` (section 14.3.6).
pub unsafe fn cvar_get_num(num_cvar: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { number(num_cvar, settings::variables().len()) }
}

/// `MPI_T_cvar_get_info` (section 14.3.6).
pub unsafe fn cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let variable = at(settings::variables(), cvar_index)?;
        let names = enumeration(cvar_index as usize);
        let names = names.map_or(MPI_T_ENUM_NULL, ptr::without_provenance_mut);
        let level = categories::of_cvar(variable.name).verbosity;
        // SAFETY: the caller's contract.
        unsafe {
            put_text(name, name_len, variable.name);
            put_optional(verbosity, tool_codes::verbosity(level));
            put_optional(datatype, variable.datatype());
            put_optional(enumtype, names);
            put_text(desc, desc_len, &variable.description());
            put_optional(bind, MPI_T_BIND_NO_OBJECT);
            put_optional(scope, tool_codes::scope(variable.scope()));
        }
        Ok(())
    };
    code(run())
}

/// `MPI_T_cvar_get_index` (section 14.3.6).
pub unsafe fn cvar_get_index(name: *const c_char, cvar_index: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { index(name, cvar_index, settings::variables(), |it| Some(it.name)) }
}

/// `MPI_T_cvar_handle_alloc` (section 14.3.6).
pub unsafe fn cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_cvar_handle,
    count: *mut c_int,
) -> c_int {
    let run = || {
        let mut tool = tool()?;
        let made = Handle::new(at(settings::variables(), cvar_index)?);
        if handle.is_null() || count.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: the caller's contract.
        unsafe {
            put(count, made.count as c_int)?;
            put(handle, ptr::without_provenance_mut(tool.add_cvar(made)))
        }
    };
    code(run())
}

/// `MPI_T_cvar_handle_free` (section 14.3.6).
pub unsafe fn cvar_handle_free(handle: *mut MPI_T_cvar_handle) -> c_int {
    let run = || {
        let mut tool = tool()?;
        // SAFETY: the caller's contract.
        let handle = unsafe { handle.as_mut() }.ok_or(Error::Invalid)?;
        tool.remove_cvar(handle.addr())?;
        *handle = ptr::null_mut();
        Ok(())
    };
    code(run())
}

/// `MPI_T_cvar_read` (section 14.3.6).
pub unsafe fn cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> c_int {
    let run = || {
        let tool = tool()?;
        let handle = tool.cvar(handle.addr())?;
        match handle.variable.value() {
            // SAFETY: the caller's contract: room for an int.
            Value::Number(number) => unsafe { put(buf.cast::<c_int>(), number) },
            Value::Text(text) => {
                if buf.is_null() {
                    return Err(Error::Invalid);
                }
                let mut room = handle.count as c_int;
                // SAFETY: by the contract of this function `buf` has space for as many characters as
                // `cvar_handle_alloc` returned for this handle.
                unsafe { put_text(buf.cast(), &raw mut room, &text) };
                Ok(())
            }
        }
    };
    code(run())
}

/// `MPI_T_cvar_write` (section 14.3.6).
pub unsafe fn cvar_write(handle: MPI_T_cvar_handle, buf: *const c_void) -> c_int {
    let run = || {
        let tool = tool()?;
        let handle = tool.cvar(handle.addr())?;
        if buf.is_null() {
            return Err(Error::Invalid);
        }
        let value = match handle.variable.value() {
            // SAFETY: the caller's contract: an int.
            Value::Number(_) => Value::Number(unsafe { buf.cast::<c_int>().read() }),
            Value::Text(_) => {
                let mut text = Vec::new();
                // SAFETY: the caller's contract: characters to a NUL, at most the handle's count.
                let char_at = |place| unsafe { buf.cast::<u8>().add(place).read() };
                text.extend((0..handle.count).map(char_at).take_while(|it| *it != 0));
                if text.len() == handle.count {
                    return Err(Error::Invalid); // no NUL
                }
                Value::Text(String::from_utf8(text).map_err(|_| Error::Invalid)?)
            }
        };
        handle.variable.set(value)
    };
    code(run())
}

/// `MPI_T_pvar_get_num` (section 14.3.7).
pub unsafe fn pvar_get_num(num_pvar: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { number(num_pvar, pvars::VARIABLES.len()) }
}

/// `MPI_T_pvar_get_info` (section 14.3.7).
pub unsafe fn pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let variable = at(pvars::VARIABLES, pvar_index)?;
        let level = categories::of_pvar(variable).map_or(Verbosity::UserBasic, |it| it.verbosity);
        let fixed = variable.class.is_continuous();
        // SAFETY: the caller's contract.
        unsafe {
            put_text(name, name_len, variable.name);
            put_optional(verbosity, tool_codes::verbosity(level));
            put_optional(var_class, tool_codes::class(variable.class));
            put_optional(datatype, MPI_UNSIGNED_LONG);
            put_optional(enumtype, MPI_T_ENUM_NULL);
            put_text(desc, desc_len, variable.help);
            put_optional(bind, MPI_T_BIND_NO_OBJECT);
            put_optional(readonly, c_int::from(fixed));
            put_optional(continuous, c_int::from(fixed));
            put_optional(atomic, c_int::from(!fixed));
        }
        Ok(())
    };
    code(run())
}

/// `MPI_T_pvar_get_index` (section 14.3.7).
pub unsafe fn pvar_get_index(
    name: *const c_char,
    var_class: c_int,
    pvar_index: *mut c_int,
) -> c_int {
    let fits = |it: &'static pvars::Variable| {
        (tool_codes::class(it.class) == var_class).then_some(it.name)
    };
    // SAFETY: the caller's contract.
    unsafe { index(name, pvar_index, pvars::VARIABLES, fits) }
}

/// `MPI_T_pvar_session_create` (section 14.3.7).
pub unsafe fn pvar_session_create(session: *mut MPI_T_pvar_session) -> c_int {
    let run = || {
        let mut tool = tool()?;
        if session.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: the caller's contract.
        unsafe { put(session, ptr::without_provenance_mut(tool.add_session())) }
    };
    code(run())
}

/// `MPI_T_pvar_session_free` (section 14.3.7).
pub unsafe fn pvar_session_free(session: *mut MPI_T_pvar_session) -> c_int {
    let run = || {
        let mut tool = tool()?;
        // SAFETY: the caller's contract.
        let session = unsafe { session.as_mut() }.ok_or(Error::Invalid)?;
        tool.remove_session(session.addr())?;
        *session = ptr::null_mut();
        Ok(())
    };
    code(run())
}

/// `MPI_T_pvar_handle_alloc` (section 14.3.7).
pub unsafe fn pvar_handle_alloc(
    session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_pvar_handle,
    count: *mut c_int,
) -> c_int {
    let run = || {
        let mut tool = tool()?;
        let variable = at(pvars::VARIABLES, pvar_index)?;
        if handle.is_null() || count.is_null() {
            return Err(Error::Invalid);
        }
        let made = tool.add_pvar(session.addr(), variable)?;
        // SAFETY: the caller's contract.
        unsafe {
            put(count, 1)?;
            put(handle, ptr::without_provenance_mut(made))
        }
    };
    code(run())
}

/// `MPI_T_pvar_handle_free` (section 14.3.7).
pub unsafe fn pvar_handle_free(
    session: MPI_T_pvar_session,
    handle: *mut MPI_T_pvar_handle,
) -> c_int {
    let run = || {
        let mut tool = tool()?;
        // SAFETY: the caller's contract.
        let handle = unsafe { handle.as_mut() }.ok_or(Error::Invalid)?;
        tool.remove_pvar(session.addr(), handle.addr())?;
        *handle = ptr::null_mut();
        Ok(())
    };
    code(run())
}

/// Returns the handle or handles that the tool selects.
fn select(handle: MPI_T_pvar_handle) -> Select {
    // SAFETY: the variable is written by nobody.
    let all = unsafe { MPI_T_PVAR_ALL_HANDLES.get().read() };
    if handle == all {
        Select::All
    } else {
        Select::One(handle.addr())
    }
}

/// `MPI_T_pvar_start` (section 14.3.7).
pub fn pvar_start(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    code(tool().and_then(|mut tool| tool.start(session.addr(), select(handle))))
}

/// `MPI_T_pvar_stop` (section 14.3.7).
pub fn pvar_stop(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    code(tool().and_then(|mut tool| tool.stop(session.addr(), select(handle))))
}

/// `MPI_T_pvar_read` (section 14.3.7).
pub unsafe fn pvar_read(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    let run = || {
        let value = tool()?.read(session.addr(), handle.addr())?;
        // SAFETY: the caller's contract: room for an unsigned long.
        unsafe { put(buf.cast::<u64>(), value) }
    };
    code(run())
}

/// `MPI_T_pvar_write` (section 14.3.7).
pub unsafe fn pvar_write(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *const c_void,
) -> c_int {
    let run = || {
        let mut tool = tool()?;
        if buf.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: the caller's contract: an unsigned long.
        let value = unsafe { buf.cast::<u64>().read() };
        tool.write(session.addr(), handle.addr(), value)
    };
    code(run())
}

/// `MPI_T_pvar_reset` (section 14.3.7).
pub fn pvar_reset(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    code(tool().and_then(|mut tool| tool.reset(session.addr(), select(handle))))
}

/// `MPI_T_pvar_readreset` (section 14.3.7).
pub unsafe fn pvar_readreset(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    let run = || {
        let mut tool = tool()?;
        if buf.is_null() {
            return Err(Error::Invalid);
        }
        let value = tool.read_reset(session.addr(), handle.addr())?;
        // SAFETY: the caller's contract: room for an unsigned long.
        unsafe { put(buf.cast::<u64>(), value) }
    };
    code(run())
}

/// `MPI_T_category_get_num` (section 14.3.8).
pub unsafe fn category_get_num(num_cat: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { number(num_cat, categories::all().len()) }
}

/// `MPI_T_category_get_info` (section 14.3.8).
pub unsafe fn category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let category = at(categories::all(), cat_index)?;
        // SAFETY: the caller's contract.
        unsafe {
            put_text(name, name_len, category.name);
            put_text(desc, desc_len, category.help);
            put_optional(num_cvars, category.cvars().len() as c_int);
            put_optional(num_pvars, category.pvars().len() as c_int);
            put_optional(num_categories, category.parts().len() as c_int);
        }
        Ok(())
    };
    code(run())
}

/// `MPI_T_category_get_index` (section 14.3.8).
pub unsafe fn category_get_index(name: *const c_char, cat_index: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { index(name, cat_index, categories::all(), |it| Some(it.name)) }
}

/// Writes the members of a category, as many as fit.
///
/// # Safety
/// `indices` is NULL or has space for `len` integers.
pub(crate) unsafe fn members(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
    which: fn(&Category) -> Vec<usize>,
) -> c_int {
    let run = || {
        let _initialised = tool()?;
        let category = at(categories::all(), cat_index)?;
        let room = usize::try_from(len).map_err(|_| Error::Invalid)?;
        if room > 0 && indices.is_null() {
            return Err(Error::Invalid);
        }
        for (place, member) in which(category).into_iter().take(room).enumerate() {
            // SAFETY: not NULL, and `place` is below `len`: the caller's contract.
            unsafe { indices.add(place).write(member as c_int) };
        }
        Ok(())
    };
    code(run())
}

/// `MPI_T_category_get_cvars` (section 14.3.8).
pub unsafe fn category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { members(cat_index, len, indices, Category::cvars) }
}

/// `MPI_T_category_get_pvars` (section 14.3.8).
pub unsafe fn category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { members(cat_index, len, indices, Category::pvars) }
}

/// `MPI_T_category_get_categories` (section 14.3.8).
pub unsafe fn category_get_categories(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { members(cat_index, len, indices, Category::parts) }
}

/// `MPI_T_category_changed` (section 14.3.8): never.
pub unsafe fn category_changed(update_number: *mut c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { number(update_number, 0) }
}
