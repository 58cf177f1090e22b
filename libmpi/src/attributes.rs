//! Attribute keys by handle, with callbacks of C (section 6.7).

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use mpi_core::attr::{Attributes, CopyFn, DeleteFn, Keyval};
use mpi_core::{Class, Error, Result};

use crate::abi::{
    MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_KEYVAL_INVALID, MPI_SUCCESS,
};
use crate::handles::{HandleTable, Type, predefined_index};

/// The attributes of an object, which callbacks know by its handle. Values are the program's
/// pointers.
pub type Store = Attributes<c_int, usize>;

/// The kinds of objects that have attributes. Their callbacks have the same C types, because all
/// handles are integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Comm,
    Type,
    Win,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Comm => "communicators",
            Kind::Type => "datatypes",
            Kind::Win => "windows",
        }
    }
}

/// A key that has a handle.
pub struct Key {
    kind: Kind,
    /// The key.
    pub keyval: Keyval<c_int, usize>,
}

static MADE: HandleTable<Key> = HandleTable::new(Type::Keyval);

/// A pointer of the program's that is only handed back to it.
#[derive(Clone, Copy)]
struct Extra(*mut c_void);

// SAFETY: the library doesn't look at what is behind it, and the program's callbacks may be called
// on any of its threads.
unsafe impl Send for Extra {}
// SAFETY: as above.
unsafe impl Sync for Extra {}

impl Extra {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Makes a key with callbacks and what they are to be given; gives its handle.
pub fn create(
    kind: Kind,
    copy: Option<MPI_Comm_copy_attr_function>,
    delete: Option<MPI_Comm_delete_attr_function>,
    extra: *mut c_void,
) -> Result<c_int> {
    let extra = Extra(extra);
    // Callbacks are told their key's handle, which exists only once they do.
    let own = Arc::new(AtomicI32::new(MPI_KEYVAL_INVALID));
    let handle = own.clone();
    let copy = copy.map(|function| -> Arc<CopyFn<c_int, usize>> {
        Arc::new(move |object: &c_int, _: &Keyval<c_int, usize>, value| {
            let (mut out, mut flag) = (null_mut::<c_void>(), 0);
            let value = std::ptr::with_exposed_provenance_mut(value);
            let key = handle.load(Ordering::Relaxed);
            let place = (&raw mut out).cast();
            // SAFETY: the program gave this function as an attribute copy callback; the arguments
            // are what section 6.7.2 says it gets.
            let code = unsafe { function(*object, key, extra.get(), value, place, &raw mut flag) };
            match code {
                MPI_SUCCESS => Ok((flag != 0).then(|| out.expose_provenance())),
                code => Err(failed("copy", code)),
            }
        })
    });
    let handle = own.clone();
    let delete = delete.map(|function| -> Arc<DeleteFn<c_int, usize>> {
        Arc::new(move |object: &c_int, _: &Keyval<c_int, usize>, value| {
            let value = std::ptr::with_exposed_provenance_mut(value);
            let key = handle.load(Ordering::Relaxed);
            // SAFETY: as for copying.
            match unsafe { function(*object, key, value, extra.get()) } {
                MPI_SUCCESS => Ok(()),
                code => Err(failed("delete", code)),
            }
        })
    });
    let key = Key {
        kind,
        keyval: Keyval::new(copy, delete),
    };
    let given = MADE.insert(Arc::new(key)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 attribute keys are in use; free some",
        )
    })?;
    own.store(given, Ordering::Relaxed);
    Ok(given)
}

#[cold]
fn failed(what: &str, code: c_int) -> Error {
    Error::new(
        Class::User(code),
        format!("the {what} callback of an attribute returned {code}"),
    )
}

/// The key behind a handle, for objects of this kind.
pub fn key(handle: c_int, kind: Kind) -> Result<&'static Keyval<c_int, usize>> {
    match MADE.get(handle) {
        Some(key) if key.kind == kind => Ok(&key.keyval),
        Some(key) => Err(Error::new(
            Class::Keyval,
            format!(
                "the key is for {}; this needs one for {}",
                key.kind.name(),
                kind.name()
            ),
        )),
        None => Err(invalid(handle)),
    }
}

/// Frees the handle of a key; the key itself lives on in attributes.
pub fn free(handle: c_int, kind: Kind) -> Result<()> {
    key(handle, kind)?;
    MADE.remove(handle);
    Ok(())
}

#[cold]
fn invalid(handle: c_int) -> Error {
    let what = if handle == MPI_KEYVAL_INVALID {
        "the key is MPI_KEYVAL_INVALID".to_string()
    } else if predefined_index(handle, Type::Keyval).is_some() {
        format!("the attributes of predefined keys ({handle:#x}) can only be read")
    } else {
        format!("attribute key {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Keyval, what)
}
