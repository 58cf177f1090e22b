//! Attributes (section 6.7).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use mpi_core::Result;
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};

use crate::abi::{
    MPI_APPNUM, MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Datatype,
    MPI_HOST, MPI_IO, MPI_KEYVAL_INVALID, MPI_LASTUSEDCODE, MPI_TAG_UB, MPI_UNIVERSE_SIZE,
    MPI_WTIME_IS_GLOBAL,
};
use crate::args::{Late, LiveComm, Out};
use crate::attributes::{self, Form, ObjectKind, Store, Value};
use crate::codes;
use crate::library::LIBRARY;

/// Creates a key: `MPI_Comm_create_keyval`, `MPI_Type_create_keyval` and `MPI_Win_create_keyval`
/// (section 6.7).
pub(crate) fn create_keyval(
    kind: ObjectKind,
    copy: Option<MPI_Comm_copy_attr_function>,
    delete: Option<MPI_Comm_delete_attr_function>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> Result<()> {
    runtime()?;
    keyval.set(attributes::create(kind, copy, delete, extra_state)?);
    Ok(())
}

/// Frees a key: `MPI_Comm_free_keyval`, `MPI_Type_free_keyval` and `MPI_Win_free_keyval` (section
/// 6.7).
pub(crate) fn free_keyval(kind: ObjectKind, keyval: &mut c_int) -> Result<()> {
    runtime()?;
    attributes::free(*keyval, kind)?;
    *keyval = MPI_KEYVAL_INVALID;
    Ok(())
}

/// Writes an attribute's value and flag.
pub(crate) fn tell(found: Option<*mut c_void>, value: Out<*mut c_void>, flag: Out<c_int>) {
    flag.set(c_int::from(found.is_some()));
    if let Some(found) = found {
        value.set(found);
    }
}

#[inline(never)]
pub(crate) fn stored(
    store: &Store,
    keyval: c_int,
    kind: ObjectKind,
    call: InCall,
) -> Result<Option<*mut c_void>> {
    if let Some(found) = attributes::peek(store, keyval, kind, call) {
        return Ok(found);
    }
    let value = store.get(&attributes::key(keyval, kind)?);
    Ok(value.map(|value| value.pointer()))
}

/// `MPI_Comm_set_attr` and `MPII_Comm_set_attr` (section 6.7).
pub fn comm_set_attr(
    form: Form,
    Late(comm, call): Late<MPI_Comm>,
    keyval: c_int,
    value: *mut c_void,
) -> Result<()> {
    let runtime = runtime()?;
    if form == Form::Pointer
        && let Some(object) = runtime.find_comm(comm, call)
        && attributes::replace(&object.attributes, keyval, value)
    {
        return Ok(());
    }
    // The delete callback of the old value may free the communicator.
    let object = runtime.comm_arc(comm)?;
    object.attributes.set(
        &comm,
        &attributes::key(keyval, ObjectKind::Comm)?,
        Value::new(form, value),
    )
}

/// `MPI_Comm_delete_attr` (section 6.7). An attribute that is not set is no error.
pub fn comm_delete_attr(comm: MPI_Comm, keyval: c_int) -> Result<()> {
    let object = runtime()?.comm_arc(comm)?;
    object
        .attributes
        .delete(&comm, &attributes::key(keyval, ObjectKind::Comm)?)
        .map(drop)
}

/// `MPI_Comm_get_attr` (section 6.7).
pub fn comm_get_attr(
    comm: LiveComm,
    keyval: c_int,
    attribute_val: Out<*mut c_void>,
    flag: Out<c_int>,
) -> Result<()> {
    let (runtime, object) = (comm.runtime, comm.object);
    let found = match attributes::peek(&object.attributes, keyval, ObjectKind::Comm, comm.call) {
        Some(found) => found,
        None => match predefined(runtime, keyval) {
            Some(found) => found,
            None => stored(&object.attributes, keyval, ObjectKind::Comm, comm.call)?,
        },
    };
    tell(found, attribute_val, flag);
    Ok(())
}

/// Returns the value of a predefined attribute (section 8.1.2): the address of an integer, or
/// `Some(None)` if it is not set. `None` for keys that are not predefined.
pub(crate) fn predefined(runtime: &Runtime, keyval: c_int) -> Option<Option<*mut c_void>> {
    let found = &LIBRARY.world_attributes;
    let value = match keyval {
        MPI_TAG_UB => Some(&found.tag_ub),
        MPI_HOST => Some(&found.host),
        MPI_IO => Some(&found.io),
        // One clock serves all processes of a node.
        MPI_WTIME_IS_GLOBAL => Some(found.wtime_is_global.get_or_init(|| {
            let nodes = runtime.pmi.process_mapping().ok().flatten();
            let one = nodes.is_some_and(|nodes| nodes.windows(2).all(|pair| pair[0] == pair[1]));
            AtomicI32::new(c_int::from(one || runtime.pmi.size() == 1))
        })),
        MPI_UNIVERSE_SIZE => {
            let ask = || runtime.pmi.universe_size().ok().flatten();
            let told = || {
                ask()
                    .and_then(|size| c_int::try_from(size).ok())
                    .map(AtomicI32::new)
            };
            found.universe_size.get_or_init(told).as_ref()
        }
        MPI_APPNUM => {
            let told = || runtime.pmi.appnum().ok().flatten().map(AtomicI32::new);
            found.appnum.get_or_init(told).as_ref()
        }
        MPI_LASTUSEDCODE => {
            found
                .lastusedcode
                .store(codes::last_used(), Ordering::Relaxed);
            Some(&found.lastusedcode)
        }
        _ => return None,
    };
    Some(value.map(|value| value.as_ptr().cast()))
}

/// `MPI_Type_set_attr` and `MPII_Type_set_attr` (section 6.7).
pub fn type_set_attr(
    form: Form,
    Late(datatype, call): Late<MPI_Datatype>,
    keyval: c_int,
    value: *mut c_void,
) -> Result<()> {
    let object = types::object(datatype, call)?;
    if form == Form::Pointer && attributes::replace(&object.attributes, keyval, value) {
        return Ok(());
    }
    // The delete callback of the old value may free the datatype.
    let _held = types::hold(datatype);
    let store = &types::object(datatype, call)?.attributes;
    store.set(
        &datatype,
        &attributes::key(keyval, ObjectKind::Type)?,
        Value::new(form, value),
    )
}

/// `MPI_Type_delete_attr` (section 6.7). An attribute that is not set is no error.
pub fn type_delete_attr(Late(datatype, call): Late<MPI_Datatype>, keyval: c_int) -> Result<()> {
    let _held = types::hold(datatype);
    let store = &types::object(datatype, call)?.attributes;
    store
        .delete(&datatype, &attributes::key(keyval, ObjectKind::Type)?)
        .map(drop)
}

/// `MPI_Type_get_attr` (section 6.7).
pub fn type_get_attr(
    Late(datatype, call): Late<MPI_Datatype>,
    keyval: c_int,
    attribute_val: Out<*mut c_void>,
    flag: Out<c_int>,
) -> Result<()> {
    let store = &types::object(datatype, call)?.attributes;
    let found = stored(store, keyval, ObjectKind::Type, call)?;
    tell(found, attribute_val, flag);
    Ok(())
}
