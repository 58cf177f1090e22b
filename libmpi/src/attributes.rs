//! Attribute keys by handle, with callbacks of C and of other languages (sections 6.7 and 17.2.7).

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_core::attr::{Attributes, CopyFn, DeleteFn, Keyval, WeakKeyval};
use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::abi::{
    MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_KEYVAL_INVALID, MPI_SUCCESS,
};
use crate::handles::{HandleTable, Type, predefined_index};

/// The attributes of an object, which callbacks know by its handle.
pub type Store = Attributes<c_int, Value>;

/// The value of an attribute. Which language set it matters when another reads it (section 17.2.7):
/// what C gets of an integer that Fortran has set is its address.
#[derive(Clone, Debug)]
pub enum Value {
    /// A pointer, set by C.
    Pointer(usize),
    /// An `INTEGER`, set by `MPI_ATTR_PUT`.
    Integer(Arc<AtomicI32>),
    /// An `INTEGER(KIND=MPI_ADDRESS_KIND)`, set by `MPI_COMM_SET_ATTR` and its like.
    Address(Arc<AtomicIsize>),
}

/// How an attribute's value is given or wanted: the ABI's numbers, as companion libraries pass them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// 0: a pointer, as in C.
    Pointer,
    /// 1: an address-sized integer.
    Address,
    /// 3: an integer.
    Integer,
}

impl Form {
    /// The form behind a number.
    pub fn named(number: c_int) -> Result<Form> {
        match number {
            0 => Ok(Form::Pointer),
            1 => Ok(Form::Address),
            3 => Ok(Form::Integer),
            _ => Err(Error::new(
                Class::Arg,
                format!("{number} is not a form of attribute values: 0, 1 and 3 are"),
            )),
        }
    }

    fn number(self) -> c_int {
        match self {
            Form::Pointer => 0,
            Form::Address => 1,
            Form::Integer => 3,
        }
    }
}

impl Value {
    /// The value with these bits.
    pub fn new(form: Form, bits: *mut c_void) -> Value {
        let bits = bits.expose_provenance();
        match form {
            Form::Pointer => Value::Pointer(bits),
            Form::Address => Value::Address(Arc::new(AtomicIsize::new(bits as isize))),
            Form::Integer => Value::Integer(Arc::new(AtomicI32::new(bits as c_int))),
        }
    }

    fn form(&self) -> Form {
        match self {
            Value::Pointer(_) => Form::Pointer,
            Value::Address(_) => Form::Address,
            Value::Integer(_) => Form::Integer,
        }
    }

    /// What Fortran gets: the integer, or the address that C has set.
    pub fn bits(&self) -> isize {
        match self {
            Value::Pointer(bits) => *bits as isize,
            Value::Address(value) => value.load(Ordering::Relaxed),
            Value::Integer(value) => value.load(Ordering::Relaxed) as isize,
        }
    }

    /// What C gets: the pointer, or the address of Fortran's integer, valid as long as the
    /// attribute is.
    pub fn pointer(&self) -> *mut c_void {
        match self {
            Value::Pointer(bits) => std::ptr::with_exposed_provenance_mut(*bits),
            Value::Address(value) => value.as_ptr().cast(),
            Value::Integer(value) => value.as_ptr().cast(),
        }
    }
}

/// Calls a copy callback of another language. Gets that, the object, the key, the extra state, the
/// form and bits of the value, and the places for the new value and the flag.
pub type CopyProxy = unsafe extern "C" fn(
    MPI_Comm_copy_attr_function,
    c_int,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;

/// Calls a delete callback of another language. Gets that, the object, the key, form and bits of
/// the value, and the extra state.
pub type DeleteProxy = unsafe extern "C" fn(
    MPI_Comm_delete_attr_function,
    c_int,
    c_int,
    c_int,
    *mut c_void,
    *mut c_void,
) -> c_int;

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

/// A key that has a handle. The handle is good until the program has freed it and no attribute uses
/// the key any more (section 6.7.2): till then no other key is given the same number.
struct Key {
    kind: Kind,
    keyval: WeakKeyval<c_int, Value>,
    /// The program's hold on the key, until it frees it.
    own: Mutex<Option<Keyval<c_int, Value>>>,
    proxies: Arc<OnceLock<(CopyProxy, DeleteProxy)>>,
}

static MADE: HandleTable<Key> = HandleTable::new(Type::Keyval);

/// The handle of a key, which goes with the key.
struct Given(Arc<AtomicI32>);

impl Drop for Given {
    fn drop(&mut self) {
        MADE.remove(self.0.load(Ordering::Relaxed));
    }
}

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
    let proxies = Arc::new(OnceLock::<(CopyProxy, DeleteProxy)>::new());
    // Callbacks are told their key's handle, which exists only once they do.
    let own = Arc::new(AtomicI32::new(MPI_KEYVAL_INVALID));
    let (handle, others) = (own.clone(), proxies.clone());
    let copy = copy.map(|function| -> Arc<CopyFn<c_int, Value>> {
        Arc::new(move |object: &c_int, _: &Keyval<c_int, Value>, value| {
            let (mut out, mut flag) = (null_mut::<c_void>(), 0);
            let key = handle.load(Ordering::Relaxed);
            let form = value.form();
            let (code, form) = match others.get() {
                Some((proxy, _)) => {
                    let bits = std::ptr::with_exposed_provenance_mut(value.bits() as usize);
                    let (out, flag) = (&raw mut out, &raw mut flag);
                    let number = form.number();
                    // SAFETY: the companion library that made the key gave the proxy for the
                    // program's function; it takes these arguments.
                    let code = unsafe {
                        proxy(function, *object, key, extra.get(), number, bits, out, flag)
                    };
                    (code, form)
                }
                // The address of an integer that goes with the old attribute would be no copy.
                None if form != Form::Pointer && is_dup(function) => {
                    let bits = std::ptr::with_exposed_provenance_mut(value.bits() as usize);
                    return Ok(Some(Value::new(form, bits)));
                }
                None => {
                    let place = (&raw mut out).cast();
                    let (value, flag) = (value.pointer(), &raw mut flag);
                    // SAFETY: the program gave this function as an attribute copy callback; the
                    // arguments are what section 6.7.2 says it gets.
                    let code = unsafe { function(*object, key, extra.get(), value, place, flag) };
                    (code, Form::Pointer)
                }
            };
            match code {
                MPI_SUCCESS => Ok((flag != 0).then(|| Value::new(form, out))),
                code => Err(failed("copy", code)),
            }
        })
    });
    let (handle, others) = (own.clone(), proxies.clone());
    let delete = delete.map(|function| -> Arc<DeleteFn<c_int, Value>> {
        Arc::new(move |object: &c_int, _: &Keyval<c_int, Value>, value| {
            let key = handle.load(Ordering::Relaxed);
            let code = match others.get() {
                Some((_, proxy)) => {
                    let bits = std::ptr::with_exposed_provenance_mut(value.bits() as usize);
                    let form = value.form().number();
                    // SAFETY: as for copying.
                    unsafe { proxy(function, *object, key, form, bits, extra.get()) }
                }
                // SAFETY: as for copying.
                None => unsafe { function(*object, key, value.pointer(), extra.get()) },
            };
            match code {
                MPI_SUCCESS => Ok(()),
                code => Err(failed("delete", code)),
            }
        })
    });
    let keyval = Keyval::holding(copy, delete, Box::new(Given(own.clone())));
    let key = Key {
        kind,
        keyval: keyval.downgrade(),
        own: Mutex::new(Some(keyval)),
        proxies,
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

/// Whether a copy callback is the predefined one that copies.
fn is_dup(function: MPI_Comm_copy_attr_function) -> bool {
    std::ptr::fn_addr_eq(
        function,
        crate::shims::MPIR_Dup_fn as MPI_Comm_copy_attr_function,
    )
}

/// Has the callbacks of a key called through functions that know their language. Once only.
pub fn set_proxies(handle: c_int, copy: CopyProxy, delete: DeleteProxy) -> Result<()> {
    let key = MADE.get(handle).ok_or_else(|| invalid(handle))?;
    key.proxies
        .set((copy, delete))
        .map_err(|_| Error::new(Class::Keyval, "the key's language has been told already"))
}

#[cold]
fn failed(what: &str, code: c_int) -> Error {
    Error::new(
        Class::User(code),
        format!("the {what} callback of an attribute returned {code}"),
    )
}

/// The key behind a handle, for objects of this kind.
pub fn key(handle: c_int, kind: Kind) -> Result<Keyval<c_int, Value>> {
    match MADE.get_arc(handle) {
        Some(key) if key.kind == kind => key.keyval.upgrade().ok_or_else(|| invalid(handle)),
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

/// Gives up the program's hold on a key. It and its handle live on as long as attributes use it; to
/// free it again meanwhile is no error, as in other libraries of this ABI.
pub fn free(handle: c_int, kind: Kind) -> Result<()> {
    let used = key(handle, kind)?;
    let own = MADE.get_arc(handle).and_then(|key| key.own.lock().take());
    drop((own, used));
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
