//! The tool information interface MPI_T (chapter 14.3). Its functions return codes, call no error
//! handler, and also work before `MPI_Init` and after `MPI_Finalize`.
//!
//! Unless the table calls it `plain`, a function takes the interface's state, which the shim has
//! locked, and returns a `Result`, of which the shim makes a code.

pub mod events;

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use mpi_runtime::settings;
use mpi_runtime::tool::at;
use mpi_runtime::tool::categories::{self, Category, Verbosity};
use mpi_runtime::tool::cvars::{Cvar, Handle, Value, enumerated, enumeration};
use mpi_runtime::tool::named;
use mpi_runtime::tool::outputs::{Output, TextOutput};
use mpi_runtime::tool::pvars;
use mpi_runtime::tool::{Error, Result, Select, Tool};

use crate::abi::{
    MPI_Datatype, MPI_T_BIND_NO_OBJECT, MPI_T_ENUM_NULL, MPI_T_cvar_handle, MPI_T_enum,
    MPI_T_pvar_handle, MPI_T_pvar_session, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
    MPI_THREAD_SINGLE, MPI_UNSIGNED_LONG,
};
use crate::args::ArrayMut;
use crate::data::MPI_T_PVAR_ALL_HANDLES;
use crate::tool_codes::{self, code};

/// `MPI_T_init_thread` (section 14.3.4).
pub fn init_thread(required: c_int, provided: Output<c_int>) -> c_int {
    let run = || {
        provided.demand()?;
        if !(MPI_THREAD_SINGLE..=MPI_THREAD_MULTIPLE).contains(&required) {
            return Err(Error::Invalid);
        }
        let threaded = required == MPI_THREAD_MULTIPLE;
        let level = if mpi_runtime::tool::init(threaded)? == threaded {
            required
        } else {
            MPI_THREAD_SERIALIZED
        };
        provided.put(level)
    };
    code(run())
}

/// `MPI_T_finalize` (section 14.3.4).
pub fn finalize() -> c_int {
    code(mpi_runtime::tool::finalize())
}

/// `MPI_T_enum_get_info` (section 14.3.5).
pub fn enum_get_info(
    _: &mut Tool,
    enumtype: MPI_T_enum,
    num: Output<c_int>,
    name: TextOutput,
) -> Result {
    let variable = enumerated(enumtype.addr())?;
    num.put_optional(variable.names().len() as c_int);
    name.put(variable.name);
    Ok(())
}

/// `MPI_T_enum_get_item` (section 14.3.5).
pub fn enum_get_item(
    _: &mut Tool,
    enumtype: MPI_T_enum,
    index: c_int,
    value: Output<c_int>,
    name: TextOutput,
) -> Result {
    let names = enumerated(enumtype.addr())?.names();
    let item = at(&names, index)?;
    value.put_optional(index);
    name.put(item);
    Ok(())
}

/// Writes a number of items: `MPI_T_cvar_get_num` …
pub(crate) fn number(_: &mut Tool, out: Output<c_int>, number: usize) -> Result {
    out.put(number as c_int)
}

/// Writes the index of the item with a name: `MPI_T_cvar_get_index` …
pub(crate) fn index<T>(
    _: &mut Tool,
    name: &CStr,
    index: Output<c_int>,
    all: &'static [T],
    name_if_fit: impl Fn(&'static T) -> Option<&'static str>,
) -> Result {
    index.put(named(all, name.to_bytes(), name_if_fit)? as c_int)
}

/// `MPI_T_cvar_get_info` (section 14.3.6).
pub fn cvar_get_info(
    _: &mut Tool,
    cvar_index: c_int,
    name: TextOutput,
    verbosity: Output<c_int>,
    datatype: Output<MPI_Datatype>,
    enumtype: Output<MPI_T_enum>,
    desc: TextOutput,
    bind: Output<c_int>,
    scope: Output<c_int>,
) -> Result {
    let variable = at(settings::variables(), cvar_index)?;
    let names = enumeration(cvar_index as usize);
    let level = categories::of_cvar(variable.name).verbosity;
    name.put(variable.name);
    verbosity.put_optional(tool_codes::verbosity(level));
    datatype.put_optional(variable.datatype());
    enumtype.put_optional(names.map_or(MPI_T_ENUM_NULL, ptr::without_provenance_mut));
    desc.put(&variable.description());
    bind.put_optional(MPI_T_BIND_NO_OBJECT);
    scope.put_optional(tool_codes::scope(variable.scope()));
    Ok(())
}

/// `MPI_T_cvar_handle_alloc` (section 14.3.6).
pub fn cvar_handle_alloc(
    tool: &mut Tool,
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: Output<MPI_T_cvar_handle>,
    count: Output<c_int>,
) -> Result {
    let made = Handle::new(at(settings::variables(), cvar_index)?);
    handle.demand()?;
    count.put(made.count as c_int)?;
    handle.put(ptr::without_provenance_mut(tool.add_cvar(made)))
}

/// `MPI_T_cvar_handle_free` (section 14.3.6).
pub fn cvar_handle_free(tool: &mut Tool, handle: &mut MPI_T_cvar_handle) -> Result {
    tool.remove_cvar(handle.addr())?;
    *handle = ptr::null_mut();
    Ok(())
}

/// `MPI_T_cvar_read` (section 14.3.6).
pub unsafe fn cvar_read(tool: &mut Tool, handle: MPI_T_cvar_handle, buf: *mut c_void) -> Result {
    let handle = tool.cvar(handle.addr())?;
    match handle.variable.value() {
        // SAFETY: `buf` is NULL or has space for an int (output arguments, chapter of the module
        // `api`).
        Value::Number(number) => unsafe { Output::new(buf.cast()) }.put(number),
        Value::Text(_) if buf.is_null() => Err(Error::Invalid),
        Value::Text(text) => {
            let mut space = handle.count as c_int;
            // SAFETY: `buf` has space for as many characters as `cvar_handle_alloc` returned for
            // this handle.
            unsafe { TextOutput::new(buf.cast(), &raw mut space) }.put(&text);
            Ok(())
        }
    }
}

/// `MPI_T_cvar_write` (section 14.3.6).
pub unsafe fn cvar_write(tool: &mut Tool, handle: MPI_T_cvar_handle, buf: *const c_void) -> Result {
    let handle = tool.cvar(handle.addr())?;
    if buf.is_null() {
        return Err(Error::Invalid);
    }
    let value = match handle.variable.value() {
        // SAFETY: `buf` is not NULL, so an int (buffers, chapter of the module `api`).
        Value::Number(_) => Value::Number(unsafe { buf.cast::<c_int>().read() }),
        Value::Text(_) => {
            let mut text = Vec::new();
            // SAFETY: `buf` has characters up to a NUL, or as many as the handle's count.
            let char_at = |place| unsafe { buf.cast::<u8>().add(place).read() };
            text.extend((0..handle.count).map(char_at).take_while(|it| *it != 0));
            if text.len() == handle.count {
                return Err(Error::Invalid); // no NUL
            }
            Value::Text(String::from_utf8(text).map_err(|_| Error::Invalid)?)
        }
    };
    handle.variable.set(value)
}

/// `MPI_T_pvar_get_info` (section 14.3.7).
pub fn pvar_get_info(
    _: &mut Tool,
    pvar_index: c_int,
    name: TextOutput,
    verbosity: Output<c_int>,
    var_class: Output<c_int>,
    datatype: Output<MPI_Datatype>,
    enumtype: Output<MPI_T_enum>,
    desc: TextOutput,
    bind: Output<c_int>,
    readonly: Output<c_int>,
    continuous: Output<c_int>,
    atomic: Output<c_int>,
) -> Result {
    let variable = at(pvars::VARIABLES, pvar_index)?;
    let level = categories::of_pvar(variable).map_or(Verbosity::UserBasic, |it| it.verbosity);
    let fixed = variable.class.is_continuous();
    name.put(variable.name);
    verbosity.put_optional(tool_codes::verbosity(level));
    var_class.put_optional(tool_codes::class(variable.class));
    datatype.put_optional(MPI_UNSIGNED_LONG);
    enumtype.put_optional(MPI_T_ENUM_NULL);
    desc.put(variable.help);
    bind.put_optional(MPI_T_BIND_NO_OBJECT);
    readonly.put_optional(c_int::from(fixed));
    continuous.put_optional(c_int::from(fixed));
    atomic.put_optional(c_int::from(!fixed));
    Ok(())
}

/// `MPI_T_pvar_get_index` (section 14.3.7).
pub fn pvar_get_index(
    tool: &mut Tool,
    name: &CStr,
    var_class: c_int,
    pvar_index: Output<c_int>,
) -> Result {
    let fits = |it: &'static pvars::Variable| {
        (tool_codes::class(it.class) == var_class).then_some(it.name)
    };
    index(tool, name, pvar_index, pvars::VARIABLES, fits)
}

/// `MPI_T_pvar_session_create` (section 14.3.7).
pub fn pvar_session_create(tool: &mut Tool, session: Output<MPI_T_pvar_session>) -> Result {
    session.demand()?;
    session.put(ptr::without_provenance_mut(tool.add_session()))
}

/// `MPI_T_pvar_session_free` (section 14.3.7).
pub fn pvar_session_free(tool: &mut Tool, session: &mut MPI_T_pvar_session) -> Result {
    tool.remove_session(session.addr())?;
    *session = ptr::null_mut();
    Ok(())
}

/// `MPI_T_pvar_handle_alloc` (section 14.3.7).
pub fn pvar_handle_alloc(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: Output<MPI_T_pvar_handle>,
    count: Output<c_int>,
) -> Result {
    let variable = at(pvars::VARIABLES, pvar_index)?;
    handle.demand()?;
    count.demand()?;
    let made = tool.add_pvar(session.addr(), variable)?;
    count.put(1)?;
    handle.put(ptr::without_provenance_mut(made))
}

/// `MPI_T_pvar_handle_free` (section 14.3.7).
pub fn pvar_handle_free(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    handle: &mut MPI_T_pvar_handle,
) -> Result {
    tool.remove_pvar(session.addr(), handle.addr())?;
    *handle = ptr::null_mut();
    Ok(())
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
pub fn pvar_start(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
) -> Result {
    tool.start(session.addr(), select(handle))
}

/// `MPI_T_pvar_stop` (section 14.3.7).
pub fn pvar_stop(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
) -> Result {
    tool.stop(session.addr(), select(handle))
}

/// `MPI_T_pvar_read` (section 14.3.7).
pub fn pvar_read(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    value: Output<u64>,
) -> Result {
    value.put(tool.read(session.addr(), handle.addr())?)
}

/// `MPI_T_pvar_write` (section 14.3.7).
pub unsafe fn pvar_write(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *const c_void,
) -> Result {
    // SAFETY: `buf` is NULL or an unsigned long (buffers, chapter of the module `api`).
    let value = unsafe { buf.cast::<u64>().as_ref() }.ok_or(Error::Invalid)?;
    tool.write(session.addr(), handle.addr(), *value)
}

/// `MPI_T_pvar_reset` (section 14.3.7).
pub fn pvar_reset(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
) -> Result {
    tool.reset(session.addr(), select(handle))
}

/// `MPI_T_pvar_readreset` (section 14.3.7).
pub fn pvar_readreset(
    tool: &mut Tool,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    value: Output<u64>,
) -> Result {
    value.demand()?;
    value.put(tool.read_reset(session.addr(), handle.addr())?)
}

/// `MPI_T_category_get_info` (section 14.3.8).
pub fn category_get_info(
    _: &mut Tool,
    cat_index: c_int,
    name: TextOutput,
    desc: TextOutput,
    num_cvars: Output<c_int>,
    num_pvars: Output<c_int>,
    num_categories: Output<c_int>,
) -> Result {
    let category = at(categories::all(), cat_index)?;
    name.put(category.name);
    desc.put(category.help);
    num_cvars.put_optional(category.cvars().len() as c_int);
    num_pvars.put_optional(category.pvars().len() as c_int);
    num_categories.put_optional(category.parts().len() as c_int);
    Ok(())
}

/// Writes the members of a category, as many as fit: `MPI_T_category_get_cvars` …
pub(crate) fn members(
    _: &mut Tool,
    cat_index: c_int,
    indices: ArrayMut<c_int>,
    which: fn(&Category) -> Vec<usize>,
) -> Result {
    let category = at(categories::all(), cat_index)?;
    for (place, member) in indices.list()?.iter_mut().zip(which(category)) {
        *place = member as c_int;
    }
    Ok(())
}
