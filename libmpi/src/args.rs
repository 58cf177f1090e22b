//! Conversion and checks of arguments in the shims, before they call the functions of
//! [`api`](crate::api).
//!
//! The table has the kind of each parameter, and the types of the Rust function state in which form
//! it takes it: the plain handle or the object behind it, the plain address or a checked output.
//! Checks and conversions that many functions need are therefore here, once, and errors name the
//! parameter:
//!
//! | kind in the table | type in the function | refused |
//! | --- | --- | --- |
//! | communicator, window, file, group | [`Live`] | before `MPI_Init`; a handle of no object |
//! | session, datatype, operation, error handler | a reference to the object, [`Attached`] | a handle of no object |
//! | info | `&Info`, or `Option<&Info>` where `MPI_INFO_NULL` means no hints | a handle of no object |
//! | result | [`Out`], [`OutInt`] | NULL |
//! | status | [`StatusOut`] | nothing: NULL and the constants mean that it is not wanted |
//! | input and output | `&mut T` | NULL |
//! | string | [`CStr`] | NULL |
//! | callback | the function | NULL |
//!
//! Every argument can also be taken unchecked, by functions that must check other things first, or
//! must report the error to other processes (`MPI_File_open`).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use mpi_core::datatype::Datatype;
use mpi_core::group::Group;
use mpi_core::info::Info;
use mpi_core::op::Op;
use mpi_core::{Class, Error, Result, Status};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::errhandler;
use mpi_runtime::handles::files::{self, FileObject};
use mpi_runtime::handles::groups;
use mpi_runtime::handles::handler::Attached;
use mpi_runtime::handles::infos;
use mpi_runtime::handles::session_object::SessionObject;
use mpi_runtime::handles::sessions;
use mpi_runtime::handles::type_object::TypeObject;
use mpi_runtime::handles::types;
use mpi_runtime::handles::wins::{self, WinObject};
use mpi_runtime::lifecycle::runtime::{Runtime, invalid_argument, runtime};

use crate::abi::{
    MPI_Comm, MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Op,
    MPI_Session, MPI_Status, MPI_UNDEFINED, MPI_Win,
};
use crate::api::null;
use crate::{ops, status};
use mpi_runtime::handles::counts::{IntOut, too_large};

/// The kinds of parameters in the table. Handles are all integers, so their types do not
/// distinguish them.
pub mod kind {
    #![allow(missing_docs, reason = "handles by their names")]

    pub struct Comm;
    pub struct Group;
    pub struct Win;
    pub struct File;
    pub struct Session;
    pub struct Datatype;
    pub struct Op;
    pub struct Errhandler;
    pub struct Info;
    /// The address of an output.
    pub struct Output;
    /// The address of an input and output.
    pub struct Variable;
    /// An input string.
    pub struct Text;
    /// A function of the program.
    pub struct Callback;
}

/// A form in which a function can take an argument. `Raw` is the argument's type in C, `Kind` the
/// parameter's kind in the table.
pub trait Given<Kind, Raw>: Sized {
    /// Converts and checks the argument for the parameter `name`.
    ///
    /// # Errors
    /// Those of the table in the module's documentation.
    ///
    /// # Safety
    /// The argument satisfies the [chapter on safety](crate::api), and the value is not used beyond
    /// the call.
    unsafe fn given(raw: Raw, name: &'static str) -> Result<Self>;
}

/// Converts an argument in a shim, by [`Given::given`].
///
/// # Errors
/// Those of the table in the module's documentation.
///
/// # Safety
/// The argument satisfies the [chapter on safety](crate::api), and the value is not used beyond the
/// call.
#[inline(always)]
pub unsafe fn given<Kind, Raw, T: Given<Kind, Raw>>(raw: Raw, name: &'static str) -> Result<T> {
    // SAFETY: the caller of this function guarantees the same contract.
    unsafe { T::given(raw, name) }
}

/// The unchanged argument.
impl<Kind, Raw> Given<Kind, Raw> for Raw {
    #[inline(always)]
    unsafe fn given(raw: Raw, _: &'static str) -> Result<Raw> {
        Ok(raw)
    }
}

/// An object behind a handle, in an initialized process.
pub struct Live<T: 'static, Handle = c_int> {
    /// The process.
    pub runtime: &'static Runtime,
    /// The handle.
    pub handle: Handle,
    /// The object, which exists until the program frees it.
    pub object: &'static T,
}

/// A communicator.
pub type LiveComm = Live<CommObject>;
/// A group.
pub type LiveGroup = Live<Group>;
/// A window.
pub type LiveWin = Live<WinObject>;
/// A file.
pub type LiveFile = Live<FileObject, MPI_File>;

impl<T, Handle> Deref for Live<T, Handle> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.object
    }
}

impl Given<kind::Comm, MPI_Comm> for LiveComm {
    #[inline(always)]
    unsafe fn given(handle: MPI_Comm, name: &'static str) -> Result<Self> {
        let runtime = runtime()?;
        let object = runtime.find_comm(handle);
        Ok(Live {
            runtime,
            handle,
            object: object.ok_or_else(|| invalid_argument(handle, name))?,
        })
    }
}

impl Given<kind::Group, MPI_Group> for LiveGroup {
    #[inline(always)]
    unsafe fn given(handle: MPI_Group, name: &'static str) -> Result<Self> {
        Ok(Live {
            runtime: runtime()?,
            handle,
            object: groups::get_named(handle, name)?,
        })
    }
}

impl Given<kind::Win, MPI_Win> for LiveWin {
    #[inline(always)]
    unsafe fn given(handle: MPI_Win, _: &'static str) -> Result<Self> {
        Ok(Live {
            runtime: runtime()?,
            handle,
            object: wins::get(handle)?,
        })
    }
}

impl Given<kind::File, MPI_File> for LiveFile {
    #[inline(always)]
    unsafe fn given(handle: MPI_File, _: &'static str) -> Result<Self> {
        Ok(Live {
            runtime: runtime()?,
            handle,
            object: files::get(handle)?,
        })
    }
}

impl Given<kind::Session, MPI_Session> for &'static SessionObject {
    #[inline(always)]
    unsafe fn given(handle: MPI_Session, _: &'static str) -> Result<Self> {
        sessions::get(handle)
    }
}

impl Given<kind::Datatype, MPI_Datatype> for &'static TypeObject {
    #[inline(always)]
    unsafe fn given(handle: MPI_Datatype, name: &'static str) -> Result<Self> {
        types::object_named(handle, name)
    }
}

/// The datatype need not be committed.
impl Given<kind::Datatype, MPI_Datatype> for &'static Datatype {
    #[inline(always)]
    unsafe fn given(handle: MPI_Datatype, name: &'static str) -> Result<Self> {
        Ok(&types::object_named(handle, name)?.datatype)
    }
}

impl Given<kind::Op, MPI_Op> for &'static Op {
    #[inline(always)]
    unsafe fn given(handle: MPI_Op, _: &'static str) -> Result<Self> {
        ops::lookup(handle)
    }
}

impl Given<kind::Errhandler, MPI_Errhandler> for Attached {
    #[inline(always)]
    unsafe fn given(handle: MPI_Errhandler, _: &'static str) -> Result<Self> {
        errhandler::attach(handle)
    }
}

impl Given<kind::Info, MPI_Info> for &'static Info {
    #[inline(always)]
    unsafe fn given(handle: MPI_Info, _: &'static str) -> Result<Self> {
        infos::get(handle)
    }
}

/// Hints; `MPI_INFO_NULL` is `None`.
impl Given<kind::Info, MPI_Info> for Option<&'static Info> {
    #[inline(always)]
    unsafe fn given(handle: MPI_Info, _: &'static str) -> Result<Self> {
        infos::hints(handle)
    }
}

/// A string of the program.
impl Given<kind::Text, *const c_char> for &CStr {
    #[inline(always)]
    unsafe fn given(text: *const c_char, name: &'static str) -> Result<Self> {
        if text.is_null() {
            return Err(no_text(name));
        }
        // SAFETY: the pointer is not NULL, so the caller guarantees a string that ends in NUL and
        // stays unchanged during the call.
        Ok(unsafe { CStr::from_ptr(text) })
    }
}

/// A key of an info object.
pub struct InfoKey<'a>(pub &'a [u8]);

impl Given<kind::Text, *const c_char> for InfoKey<'_> {
    unsafe fn given(text: *const c_char, name: &'static str) -> Result<Self> {
        // SAFETY: the caller guarantees that `text` is NULL or a string that ends in NUL.
        Ok(InfoKey(unsafe { bytes(text, name, Class::InfoKey)? }))
    }
}

/// A value of an info object.
pub struct InfoValue<'a>(pub &'a [u8]);

impl Given<kind::Text, *const c_char> for InfoValue<'_> {
    unsafe fn given(text: *const c_char, name: &'static str) -> Result<Self> {
        // SAFETY: the caller guarantees that `text` is NULL or a string that ends in NUL.
        Ok(InfoValue(unsafe { bytes(text, name, Class::InfoValue)? }))
    }
}

/// Returns the bytes of a string. NULL is an error of class `class`.
///
/// # Safety
/// `text` is NULL, or a string that ends in NUL and stays unchanged during the call.
unsafe fn bytes<'a>(text: *const c_char, name: &'static str, class: Class) -> Result<&'a [u8]> {
    // SAFETY: the caller guarantees that `text` is NULL or a string that ends in NUL.
    let text: Result<&CStr> = unsafe { given::<kind::Text, _, _>(text, name) };
    match text {
        Ok(text) => Ok(text.to_bytes()),
        Err(error) => Err(Error::new(class, error.detail())),
    }
}

#[cold]
fn no_text(name: &str) -> Error {
    Error::new(Class::Arg, format!("{name} is NULL; it must be a string"))
}

impl<Function> Given<kind::Callback, Option<Function>> for Function {
    #[inline(always)]
    unsafe fn given(function: Option<Function>, name: &'static str) -> Result<Self> {
        function.ok_or_else(|| null(name))
    }
}

impl<T> Given<kind::Variable, *mut T> for &mut T {
    #[inline(always)]
    unsafe fn given(variable: *mut T, name: &'static str) -> Result<Self> {
        // SAFETY: the pointer is NULL, or the caller guarantees a variable that no other thread
        // uses during the call.
        unsafe { variable.as_mut() }.ok_or_else(|| null(name))
    }
}

/// An output of the program, possibly uninitialized.
pub struct Out<'a, T> {
    place: NonNull<T>,
    _of: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    /// Writes the result.
    #[inline(always)]
    pub fn set(&self, value: T) {
        // SAFETY: `new` got the address from an argument that the caller of `given` guarantees to
        // be valid for writes during the call.
        unsafe { self.place.write(value) };
    }

    #[inline(always)]
    fn new(place: *mut T, name: &'static str) -> Result<Self> {
        Ok(Out {
            place: NonNull::new(place).ok_or_else(|| null(name))?,
            _of: PhantomData,
        })
    }
}

impl<T> Given<kind::Output, *mut T> for Out<'_, T> {
    #[inline(always)]
    unsafe fn given(place: *mut T, name: &'static str) -> Result<Self> {
        Out::new(place, name)
    }
}

/// `void *` is the type of the address of a pointer if that is an output (MPI-4.1 section 9.2).
impl Given<kind::Output, *mut c_void> for Out<'_, *mut c_void> {
    #[inline(always)]
    unsafe fn given(place: *mut c_void, name: &'static str) -> Result<Self> {
        Out::new(place.cast(), name)
    }
}

/// An integer output: an `int`, or an `MPI_Count` in functions with large counts.
pub enum OutInt<'a> {
    /// An output of type `int`.
    Int(Out<'a, c_int>),
    /// An output of type `MPI_Count`.
    Large(Out<'a, MPI_Count>),
}

impl Given<kind::Output, IntOut> for OutInt<'_> {
    #[inline(always)]
    unsafe fn given(place: IntOut, name: &'static str) -> Result<Self> {
        Ok(match place {
            IntOut::Int(place) => OutInt::Int(Out::new(place, name)?),
            IntOut::Large(place) => OutInt::Large(Out::new(place, name)?),
        })
    }
}

impl OutInt<'_> {
    /// Writes an integer, or `MPI_UNDEFINED` for `None` and for a value that does not fit, as the
    /// standard requires of counts (section 3.2.5).
    pub fn set_defined(&self, value: Option<usize>) {
        match self {
            OutInt::Int(place) => {
                let value = value.and_then(|value| value.try_into().ok());
                place.set(value.unwrap_or(MPI_UNDEFINED));
            }
            OutInt::Large(place) => {
                let value = value.and_then(|value| value.try_into().ok());
                place.set(value.unwrap_or(MPI_UNDEFINED.into()));
            }
        }
    }

    /// Writes an integer that must be exact; an error calls it `what`.
    ///
    /// # Errors
    /// Of class `Count` if it does not fit.
    pub fn set(&self, value: MPI_Count, what: &str) -> Result<()> {
        match self {
            OutInt::Int(place) => match c_int::try_from(value) {
                Ok(value) => place.set(value),
                Err(_) => return Err(too_large(value, what)),
            },
            OutInt::Large(place) => place.set(value),
        }
        Ok(())
    }
}

/// A status that the program may ignore.
#[derive(Clone, Copy)]
pub struct StatusOut<'a> {
    place: *mut MPI_Status,
    _of: PhantomData<&'a mut MPI_Status>,
}

impl StatusOut<'_> {
    /// Writes all fields of the status but the error (section 3.2.5).
    #[inline(always)]
    pub fn set(&self, status: &Status) {
        // SAFETY: the caller of `given` guarantees that the address is valid for writes during the
        // call, or is one of the constants.
        unsafe { status::write(self.place, status) };
    }

    /// Writes the status of a completed request, or the empty one if there was nothing to complete.
    pub fn set_ended(&self, status: Option<&Status>) {
        // SAFETY: the caller of `given` guarantees that the address is valid for writes during the
        // call, or is one of the constants.
        unsafe { status::write_ended(self.place, status) };
    }
}

impl Given<kind::Output, *mut MPI_Status> for StatusOut<'_> {
    #[inline(always)]
    unsafe fn given(place: *mut MPI_Status, _: &'static str) -> Result<Self> {
        let _of = PhantomData;
        Ok(StatusOut { place, _of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_unchanged_or_checked() {
        let mut int = 1;
        let place = &raw mut int;
        let none: *mut c_int = std::ptr::null_mut();
        // SAFETY: a local variable, NULL, and a literal.
        unsafe {
            assert_eq!(
                given::<kind::Output, _, *mut c_int>(none, "flag").unwrap(),
                none
            );
            let flag: Result<Out<c_int>> = given::<kind::Output, _, _>(none, "flag");
            let error = flag.err().expect("NULL is refused");
            assert_eq!(error.class(), Class::Arg);
            assert_eq!(
                error.detail(),
                "flag is NULL; it must be the address of a variable"
            );
            let flag: Out<c_int> = given::<kind::Output, _, _>(place, "flag").unwrap();
            flag.set(2);
            let variable: &mut c_int = given::<kind::Variable, _, _>(place, "keyval").unwrap();
            assert_eq!(*variable, 2);
            let variable: Result<&mut c_int> = given::<kind::Variable, _, _>(none, "keyval");
            assert!(variable.is_err());
            let text: &CStr = given::<kind::Text, _, _>(c"key".as_ptr(), "key").unwrap();
            assert_eq!(text, c"key");
            let text: Result<&CStr> = given::<kind::Text, _, _>(std::ptr::null(), "key");
            assert_eq!(
                text.unwrap_err().detail(),
                "key is NULL; it must be a string"
            );
        }
    }

    #[test]
    fn values_that_do_not_fit_are_undefined_or_refused() {
        let (mut int, mut large) = (0, 0);
        // SAFETY: local variables.
        let (narrow, wide): (OutInt, OutInt) = unsafe {
            (
                given::<kind::Output, _, _>(IntOut::Int(&raw mut int), "count").unwrap(),
                given::<kind::Output, _, _>(IntOut::Large(&raw mut large), "count").unwrap(),
            )
        };
        for value in [0, 7, c_int::MAX as usize, 1 << 31, 5_000_000_000] {
            narrow.set_defined(Some(value));
            wide.set_defined(Some(value));
            let fits = value <= c_int::MAX as usize;
            assert_eq!(int, if fits { value as c_int } else { MPI_UNDEFINED });
            assert_eq!(large, value as MPI_Count);
            let value = value as MPI_Count;
            assert_eq!(narrow.set(value, "the size").is_ok(), fits);
            assert!(wide.set(value, "the size").is_ok());
        }
        wide.set_defined(None);
        assert_eq!(large, MPI_UNDEFINED.into());
    }
}
