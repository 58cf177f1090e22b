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
//! | handle that is looked up later | [`Late`] | nothing: it is looked up where it is used |
//! | info | `&Info`, or `Option<&Info>` where `MPI_INFO_NULL` means no hints | a handle of no object |
//! | result | [`Out`], [`OutInt`] | NULL |
//! | result that is checked later | [`LateOut`], [`LateOutInt`]; of a tool [`Output`] | nothing |
//! | array with its length, as `[array; n]` in the table | [`Array`], [`ArrayMut`] | nothing: it is checked where it is used |
//! | buffer, count and datatype, as `buffer(…)` in the table | [`UserBuffer`] | nothing: it is checked where it is used |
//! | status | [`StatusOut`] | nothing: NULL and the constants mean that it is not wanted |
//! | status that is read | [`StatusIn`] | nothing: it is checked where it is read |
//! | input and output | `&mut T`, or `Option<&mut T>` | NULL, or nothing |
//! | string | [`CStr`] | NULL |
//! | string that is returned | [`OutText`] | nothing: it is checked where it is written |
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
use mpi_core::{Buffer, Class, Error, Result, Status};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::errhandler;
use mpi_runtime::handles::files::{self, FileObject};
use mpi_runtime::handles::groups;
use mpi_runtime::handles::handler::{self, Attached};
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::infos;
use mpi_runtime::handles::session_object::SessionObject;
use mpi_runtime::handles::sessions;
use mpi_runtime::handles::type_object::TypeObject;
use mpi_runtime::handles::types;
use mpi_runtime::handles::wins::{self, WinObject};
use mpi_runtime::lifecycle::runtime::{Runtime, invalid_argument, runtime};
use mpi_runtime::settings::text;
use mpi_runtime::tool::outputs::Output;

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
    pub struct Request;
    /// The address of an output.
    pub struct Output;
    /// The address of an input and output.
    pub struct Variable;
    /// An input string.
    pub struct Text;
    /// An output string.
    pub struct OutText;
    /// The address of an input status.
    pub struct StatusIn;
    /// A function of the program.
    pub struct Callback;
    /// The function of an error handler.
    pub struct ErrorFunction;
}

/// A form in which a function can take an argument. `Raw` is the argument's type in C, `Kind` the
/// parameter's kind in the table.
pub trait Given<'c, Kind, Raw>: Sized {
    /// Converts and checks the argument of a call for the parameter `name`.
    ///
    /// # Errors
    /// Those of the table in the module's documentation.
    ///
    /// # Safety
    /// The argument satisfies the [chapter on safety](crate::api), and the value is not used beyond
    /// the call.
    unsafe fn given(raw: Raw, name: &'static str, call: InCall<'c>) -> Result<Self>;
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
pub unsafe fn given<'c, Kind, Raw, T: Given<'c, Kind, Raw>>(
    raw: Raw,
    name: &'static str,
) -> Result<T> {
    // SAFETY: the argument satisfies the chapter on safety, by which no other thread frees a handle
    // of the call's; the value, which may borrow for `'c`, is not used beyond the call (# Safety).
    unsafe { T::given(raw, name, InCall::begin()) }
}

/// The unchanged argument.
impl<Kind, Raw> Given<'_, Kind, Raw> for Raw {
    #[inline(always)]
    unsafe fn given(raw: Raw, _: &'static str, _: InCall) -> Result<Raw> {
        Ok(raw)
    }
}

/// An unchanged handle, or variable with one, and the call in which it is to be looked up.
#[derive(Clone, Copy)]
pub struct Late<'c, Handle>(pub Handle, pub InCall<'c>);

impl<'c, Handle> Late<'c, Handle> {
    /// Returns a handle that a call looks up.
    ///
    /// # Safety
    /// The handle is an argument of the call, and satisfies the [chapter on safety](crate::api). `'c`
    /// ends with the call.
    #[inline(always)]
    pub unsafe fn new(handle: Handle) -> Self {
        // SAFETY: by the chapter on safety no other thread frees a handle of the call's.
        Late(handle, unsafe { InCall::begin() })
    }
}

impl<'c, Kind> Given<'c, Kind, c_int> for Late<'c, c_int> {
    #[inline(always)]
    unsafe fn given(handle: c_int, _: &'static str, call: InCall<'c>) -> Result<Self> {
        Ok(Late(handle, call))
    }
}

impl<'c, T> Given<'c, kind::Variable, *mut T> for Late<'c, &'c mut T> {
    #[inline(always)]
    unsafe fn given(variable: *mut T, name: &'static str, call: InCall<'c>) -> Result<Self> {
        // SAFETY: the variable satisfies the contract of this function.
        Ok(Late(unsafe { given(variable, name)? }, call))
    }
}

impl<'c, T> Given<'c, kind::Variable, *mut T> for Late<'c, Option<&'c mut T>> {
    #[inline(always)]
    unsafe fn given(variable: *mut T, name: &'static str, call: InCall<'c>) -> Result<Self> {
        // SAFETY: the variable satisfies the contract of this function.
        Ok(Late(unsafe { given(variable, name)? }, call))
    }
}

/// An object behind a handle, in an initialized process.
pub struct Live<'c, T, Handle = c_int> {
    /// The process.
    pub runtime: &'static Runtime,
    /// The handle.
    pub handle: Handle,
    /// The object, which exists during the call.
    pub object: &'c T,
    /// The call.
    pub call: InCall<'c>,
}

/// A communicator.
pub type LiveComm<'c> = Live<'c, CommObject>;
/// A group.
pub type LiveGroup<'c> = Live<'c, Group>;
/// A window.
pub type LiveWin<'c> = Live<'c, WinObject>;
/// A file.
pub type LiveFile<'c> = Live<'c, FileObject, MPI_File>;

impl<T, Handle> Deref for Live<'_, T, Handle> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.object
    }
}

impl<'c> Given<'c, kind::Comm, MPI_Comm> for LiveComm<'c> {
    #[inline(always)]
    unsafe fn given(handle: MPI_Comm, name: &'static str, call: InCall<'c>) -> Result<Self> {
        let runtime = runtime()?;
        let object = runtime.find_comm(handle, call);
        Ok(Live {
            runtime,
            handle,
            object: object.ok_or_else(|| invalid_argument(handle, name))?,
            call,
        })
    }
}

impl<'c> Given<'c, kind::Group, MPI_Group> for LiveGroup<'c> {
    #[inline(always)]
    unsafe fn given(handle: MPI_Group, name: &'static str, call: InCall<'c>) -> Result<Self> {
        Ok(Live {
            runtime: runtime()?,
            handle,
            object: groups::get_named(handle, name, call)?,
            call,
        })
    }
}

impl<'c> Given<'c, kind::Win, MPI_Win> for LiveWin<'c> {
    #[inline(always)]
    unsafe fn given(handle: MPI_Win, _: &'static str, call: InCall<'c>) -> Result<Self> {
        Ok(Live {
            runtime: runtime()?,
            handle,
            object: wins::get(handle, call)?,
            call,
        })
    }
}

impl<'c> Given<'c, kind::File, MPI_File> for LiveFile<'c> {
    #[inline(always)]
    unsafe fn given(handle: MPI_File, _: &'static str, call: InCall<'c>) -> Result<Self> {
        Ok(Live {
            runtime: runtime()?,
            handle,
            object: files::get(handle, call)?,
            call,
        })
    }
}

impl<'c> Given<'c, kind::Session, MPI_Session> for &'c SessionObject {
    #[inline(always)]
    unsafe fn given(handle: MPI_Session, _: &'static str, call: InCall<'c>) -> Result<Self> {
        sessions::get(handle, call)
    }
}

impl<'c> Given<'c, kind::Datatype, MPI_Datatype> for &'c TypeObject {
    #[inline(always)]
    unsafe fn given(handle: MPI_Datatype, name: &'static str, call: InCall<'c>) -> Result<Self> {
        types::object_named(handle, name, call)
    }
}

/// The datatype need not be committed.
impl<'c> Given<'c, kind::Datatype, MPI_Datatype> for &'c Datatype {
    #[inline(always)]
    unsafe fn given(handle: MPI_Datatype, name: &'static str, call: InCall<'c>) -> Result<Self> {
        Ok(&types::object_named(handle, name, call)?.datatype)
    }
}

impl<'c> Given<'c, kind::Op, MPI_Op> for &'c Op {
    #[inline(always)]
    unsafe fn given(handle: MPI_Op, _: &'static str, call: InCall<'c>) -> Result<Self> {
        ops::lookup(handle, call)
    }
}

impl Given<'_, kind::Errhandler, MPI_Errhandler> for Attached {
    #[inline(always)]
    unsafe fn given(handle: MPI_Errhandler, _: &'static str, _: InCall) -> Result<Self> {
        errhandler::attach(handle)
    }
}

impl<'c> Given<'c, kind::Info, MPI_Info> for &'c Info {
    #[inline(always)]
    unsafe fn given(handle: MPI_Info, _: &'static str, call: InCall<'c>) -> Result<Self> {
        infos::get(handle, call)
    }
}

/// Hints; `MPI_INFO_NULL` is `None`.
impl<'c> Given<'c, kind::Info, MPI_Info> for Option<&'c Info> {
    #[inline(always)]
    unsafe fn given(handle: MPI_Info, _: &'static str, call: InCall<'c>) -> Result<Self> {
        infos::hints(handle, call)
    }
}

/// A string of the program.
impl Given<'_, kind::Text, *const c_char> for &CStr {
    #[inline(always)]
    unsafe fn given(text: *const c_char, name: &'static str, _: InCall) -> Result<Self> {
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

impl Given<'_, kind::Text, *const c_char> for InfoKey<'_> {
    unsafe fn given(text: *const c_char, name: &'static str, _: InCall) -> Result<Self> {
        // SAFETY: the caller guarantees that `text` is NULL or a string that ends in NUL.
        Ok(InfoKey(unsafe { bytes(text, name, Class::InfoKey)? }))
    }
}

/// A value of an info object.
pub struct InfoValue<'a>(pub &'a [u8]);

impl Given<'_, kind::Text, *const c_char> for InfoValue<'_> {
    unsafe fn given(text: *const c_char, name: &'static str, _: InCall) -> Result<Self> {
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

impl<Function> Given<'_, kind::Callback, Option<Function>> for Function {
    #[inline(always)]
    unsafe fn given(function: Option<Function>, name: &'static str, _: InCall) -> Result<Self> {
        function.ok_or_else(|| null(name))
    }
}

/// The function of an error handler, of a type that depends on the object.
impl<F: Copy> Given<'_, kind::ErrorFunction, Option<F>> for handler::Function {
    #[inline(always)]
    unsafe fn given(function: Option<F>, name: &'static str, _: InCall) -> Result<Self> {
        const { assert!(size_of::<F>() == size_of::<handler::Function>()) };
        let function = function.ok_or_else(|| null(name))?;
        // SAFETY: both are addresses of functions; before it is called it becomes again what it was.
        Ok(unsafe { std::mem::transmute_copy(&function) })
    }
}

impl<T> Given<'_, kind::Variable, *mut T> for &mut T {
    #[inline(always)]
    unsafe fn given(variable: *mut T, name: &'static str, _: InCall) -> Result<Self> {
        // SAFETY: the pointer is NULL, or the caller guarantees a variable that no other thread
        // uses during the call.
        unsafe { variable.as_mut() }.ok_or_else(|| null(name))
    }
}

/// A variable that is checked after other arguments; NULL is `None`.
impl<T> Given<'_, kind::Variable, *mut T> for Option<&mut T> {
    #[inline(always)]
    unsafe fn given(variable: *mut T, _: &'static str, _: InCall) -> Result<Self> {
        // SAFETY: the pointer is NULL, or the caller guarantees a variable that no other thread
        // uses during the call.
        Ok(unsafe { variable.as_mut() })
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

impl<T> Given<'_, kind::Output, *mut T> for Out<'_, T> {
    #[inline(always)]
    unsafe fn given(place: *mut T, name: &'static str, _: InCall) -> Result<Self> {
        Out::new(place, name)
    }
}

/// `void *` is the type of the address of a pointer if that is an output (MPI-4.1 section 9.2).
impl Given<'_, kind::Output, *mut c_void> for Out<'_, *mut c_void> {
    #[inline(always)]
    unsafe fn given(place: *mut c_void, name: &'static str, _: InCall) -> Result<Self> {
        Out::new(place.cast(), name)
    }
}

/// An output that is checked after other arguments, whose errors come first.
pub struct LateOut<'a, T> {
    place: *mut T,
    name: &'static str,
    _of: PhantomData<&'a mut T>,
}

impl<'a, T> LateOut<'a, T> {
    /// Checks the address.
    ///
    /// # Errors
    /// Of class `Arg` if it is NULL.
    #[inline(always)]
    pub fn demand(&self) -> Result<Out<'a, T>> {
        Out::new(self.place, self.name)
    }
}

impl<T> Given<'_, kind::Output, *mut T> for LateOut<'_, T> {
    #[inline(always)]
    unsafe fn given(place: *mut T, name: &'static str, _: InCall) -> Result<Self> {
        let _of = PhantomData;
        Ok(LateOut { place, name, _of })
    }
}

/// `void *` is the type of the address of a pointer if that is an output (MPI-4.1 section 9.2).
impl Given<'_, kind::Output, *mut c_void> for LateOut<'_, *mut c_void> {
    #[inline(always)]
    unsafe fn given(place: *mut c_void, name: &'static str, _: InCall) -> Result<Self> {
        let _of = PhantomData;
        let place = place.cast();
        Ok(LateOut { place, name, _of })
    }
}

/// A string output with space for `SPACE` characters, one of the `MPI_MAX_…` constants. It is checked
/// where it is written.
pub struct OutText<'a, const SPACE: c_int> {
    start: *mut c_char,
    name: &'static str,
    _of: PhantomData<&'a mut [c_char]>,
}

impl<const SPACE: c_int> OutText<'_, SPACE> {
    /// Checks the address.
    ///
    /// # Errors
    /// Of class `Arg` if it is NULL.
    pub fn demand(&self) -> Result<()> {
        match self.start.is_null() {
            true => Err(null(self.name)),
            false => Ok(()),
        }
    }

    /// Writes a string, as much as there is space for, and a NUL. Returns the length.
    ///
    /// # Errors
    /// Of class `Arg` if the address is NULL.
    pub fn write(&self, text: &[u8]) -> Result<c_int> {
        self.demand()?;
        let length = text.len().min(SPACE as usize - 1);
        // SAFETY: not NULL, so there is space by the contract of `given`; memory of the program
        // doesn't overlap with the text.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.start, length);
            self.start.add(length).write(0);
        }
        Ok(length as c_int)
    }

    /// Writes a text of the library in the program's encoding ([`text::bytes`]), and its length.
    ///
    /// # Errors
    /// Of class `Arg` if the address is NULL.
    pub fn set(&self, text: &str, resultlen: &Out<c_int>) -> Result<()> {
        let length = match text.is_ascii() {
            true => self.write(text.as_bytes())?,
            false => self.write(&text::bytes(text))?,
        };
        resultlen.set(length);
        Ok(())
    }
}

impl<const SPACE: c_int> Given<'_, kind::OutText, *mut c_char> for OutText<'_, SPACE> {
    unsafe fn given(start: *mut c_char, name: &'static str, _: InCall) -> Result<Self> {
        let _of = PhantomData;
        Ok(OutText { start, name, _of })
    }
}

/// An array argument that is read, with the argument that is its length.
#[derive(Clone, Copy)]
pub struct Array<'a, T> {
    start: *const T,
    name: &'static str,
    length: c_int,
    length_name: &'static str,
    call: InCall<'a>,
}

/// Returns an array argument. It is checked where it is used.
///
/// # Safety
/// `start` is NULL, or the array has `length` elements, which stay unchanged during the call, which
/// `'a` does not outlast.
#[inline(always)]
pub unsafe fn array<'a, T>(
    start: *const T,
    name: &'static str,
    length: c_int,
    length_name: &'static str,
) -> Array<'a, T> {
    Array {
        start,
        name,
        length,
        length_name,
        // SAFETY: the array is an argument of the call (# Safety), whose handles no other thread
        // frees, by the chapter on safety.
        call: unsafe { InCall::begin() },
    }
}

impl<'a, T> Array<'a, T> {
    /// Returns the call whose argument it is.
    #[inline(always)]
    pub fn call(&self) -> InCall<'a> {
        self.call
    }

    /// Returns the length argument, which may be negative.
    pub fn length(&self) -> c_int {
        self.length
    }

    /// Returns the elements. An empty array may have any address.
    ///
    /// # Errors
    /// [`Class::Arg`] for a negative length, and for NULL with elements.
    #[inline]
    pub fn list(&self) -> Result<&'a [T]> {
        self.list_or(Class::Arg)
    }

    /// Returns the elements; a negative length is an error of class `negative`.
    ///
    /// # Errors
    /// Of that class for a negative length, [`Class::Arg`] for NULL with elements.
    #[inline]
    pub fn list_or(&self, negative: Class) -> Result<&'a [T]> {
        let length = usize::try_from(self.length)
            .map_err(|_| wrong_length(negative, self.length, self.length_name))?;
        match self.start.is_null() {
            _ if length == 0 => Ok(&[]),
            true => Err(null(self.name)),
            // SAFETY: not NULL, so the array has that many elements by the contract of `array`.
            false => Ok(unsafe { std::slice::from_raw_parts(self.start, length) }),
        }
    }
}

/// An array argument that is written, with the argument that is its length.
pub struct ArrayMut<'a, T> {
    start: *mut T,
    array: Array<'a, T>,
}

/// Returns an array argument that is written. It is checked where it is used.
///
/// # Safety
/// `start` is NULL, or the array has `length` elements, which nothing else uses during the call,
/// which `'a` does not outlast.
#[inline(always)]
pub unsafe fn array_mut<'a, T>(
    start: *mut T,
    name: &'static str,
    length: c_int,
    length_name: &'static str,
) -> ArrayMut<'a, T> {
    // SAFETY: nothing else changes the elements during the call (# Safety).
    let array = unsafe { array(start, name, length, length_name) };
    ArrayMut { start, array }
}

impl<'a, T> ArrayMut<'a, T> {
    /// Returns the call whose argument it is.
    #[inline(always)]
    pub fn call(&self) -> InCall<'a> {
        self.array.call
    }

    /// Returns the elements. An empty array may have any address.
    ///
    /// # Errors
    /// [`Class::Arg`] for a negative length, and for NULL with elements.
    #[inline]
    pub fn list(self) -> Result<&'a mut [T]> {
        self.list_or(Class::Arg)
    }

    /// Returns the elements; a negative length is an error of class `negative`.
    ///
    /// # Errors
    /// Of that class for a negative length, [`Class::Arg`] for NULL with elements.
    #[inline]
    pub fn list_or(self, negative: Class) -> Result<&'a mut [T]> {
        match self.array.list_or(negative)?.len() {
            0 => Ok(&mut []),
            // SAFETY: not NULL, so the array has that many elements by the contract of `array_mut`,
            // which nothing else uses; `self` is consumed.
            length => Ok(unsafe { std::slice::from_raw_parts_mut(self.start, length) }),
        }
    }

    /// Writes values to the beginning of the array.
    ///
    /// # Errors
    /// Of class `class` if the array is too short; those of [`ArrayMut::list`].
    pub fn fill(self, values: impl ExactSizeIterator<Item = T>, class: Class) -> Result<()> {
        let (needed, length, name) = (values.len(), self.array.length, self.array.name);
        if usize::try_from(length).is_ok_and(|length| length < needed) {
            let length_name = self.array.length_name;
            return Err(Error::new(
                class,
                format!(
                    "{length_name} is {length}, but {needed} elements are to be written to {name}"
                ),
            ));
        }
        for (place, value) in self.list()?.iter_mut().zip(values) {
            *place = value;
        }
        Ok(())
    }
}

#[cold]
fn wrong_length(class: Class, length: c_int, name: &str) -> Error {
    Error::new(class, format!("{name} is {length}; it must be 0 or more"))
}

/// The buffer that a program describes as `buf, count, datatype`.
#[derive(Clone, Copy)]
pub struct UserBuffer<'c> {
    address: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    call: InCall<'c>,
}

/// Returns the buffer of a call. Its description is checked where it is used.
///
/// # Safety
/// If the description is right, the memory satisfies the [chapter on safety](crate::api) until the
/// operation is complete. `'c` does not outlast the call.
#[inline(always)]
pub unsafe fn buffer<'c>(
    address: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> UserBuffer<'c> {
    UserBuffer {
        address: address.cast_mut(),
        count,
        datatype,
        // SAFETY: the description is an argument of the call (# Safety), whose handles no other
        // thread frees, by the chapter on safety.
        call: unsafe { InCall::begin() },
    }
}

impl<'c> UserBuffer<'c> {
    /// Returns the call whose argument it is.
    #[inline(always)]
    pub fn call(&self) -> InCall<'c> {
        self.call
    }

    /// Returns the address.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// Returns the number of elements.
    #[inline(always)]
    pub fn count(&self) -> MPI_Count {
        self.count
    }

    /// Returns the handle of the datatype.
    #[inline(always)]
    pub fn datatype(&self) -> MPI_Datatype {
        self.datatype
    }

    /// Returns the length of contiguous data of a predefined type ([`types::message_len_large`]).
    #[inline(always)]
    pub fn message_len(&self) -> Option<usize> {
        types::message_len_large(self.address, self.count, self.datatype)
    }

    /// Returns the buffer of a message to or from a rank, `None` for `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// Those of [`types::buffer_for`].
    #[inline(always)]
    pub fn message<Rank>(&self, rank: Option<Rank>) -> Result<Buffer> {
        // SAFETY: the memory is as its description says, by the contract of `buffer`.
        unsafe { types::buffer_for(rank, self.address, self.count, self.datatype, self.call) }
    }

    /// Checks the count and the datatype of a message to or from `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// Those of [`types::check_nobody`].
    #[inline(always)]
    pub fn check_nobody(&self) -> Result<()> {
        types::check_nobody(self.count, self.datatype, self.call)
    }

    /// Checks the description of data that is moved.
    ///
    /// # Errors
    /// Those of [`types::checked`] and [`types::check_address`].
    #[inline]
    pub fn checked(&self) -> Result<(usize, &'c Datatype)> {
        let (count, datatype) = types::checked(self.count, self.datatype, self.call)?;
        types::check_address(self.address, count, datatype)?;
        Ok((count, datatype))
    }
}

/// An output of a tool, checked where it is written: errors that come before it are reported first.
impl<T> Given<'_, kind::Output, *mut T> for Output<T> {
    #[inline(always)]
    unsafe fn given(place: *mut T, _: &'static str, _: InCall) -> Result<Self> {
        // SAFETY: the caller guarantees that the address is NULL or valid for writes during the call.
        Ok(unsafe { Output::new(place) })
    }
}

/// An integer output: an `int`, or an `MPI_Count` in functions with large counts.
pub enum OutInt<'a> {
    /// An output of type `int`.
    Int(Out<'a, c_int>),
    /// An output of type `MPI_Count`.
    Large(Out<'a, MPI_Count>),
}

impl Given<'_, kind::Output, IntOut> for OutInt<'_> {
    #[inline(always)]
    unsafe fn given(place: IntOut, name: &'static str, _: InCall) -> Result<Self> {
        Ok(match place {
            IntOut::Int(place) => OutInt::Int(Out::new(place, name)?),
            IntOut::Large(place) => OutInt::Large(Out::new(place, name)?),
        })
    }
}

/// An integer output that is checked after other arguments, whose errors come first.
pub struct LateOutInt<'a> {
    place: IntOut,
    name: &'static str,
    _of: PhantomData<&'a mut MPI_Count>,
}

impl<'a> LateOutInt<'a> {
    /// Checks the address.
    ///
    /// # Errors
    /// Of class `Arg` if it is NULL.
    pub fn demand(&self) -> Result<OutInt<'a>> {
        // SAFETY: `given` got the address under the same contract.
        unsafe { given(self.place, self.name) }
    }
}

impl Given<'_, kind::Output, IntOut> for LateOutInt<'_> {
    unsafe fn given(place: IntOut, name: &'static str, _: InCall) -> Result<Self> {
        let _of = PhantomData;
        Ok(LateOutInt { place, name, _of })
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

/// A public field of a status.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields by their names")]
pub enum StatusField {
    Source,
    Tag,
    Error,
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

    /// Returns the status, unless the program ignores it.
    ///
    /// # Safety
    /// All fields are initialized.
    pub unsafe fn initialized(&mut self) -> Option<&mut MPI_Status> {
        match status::ignored(self.place) {
            true => None,
            // SAFETY: not one of the constants, so valid during the call by the contract of
            // `given`, and initialized (# Safety).
            false => Some(unsafe { &mut *self.place }),
        }
    }

    /// Sets one of the public fields.
    ///
    /// # Errors
    /// Of class `Arg` for NULL and for the constants.
    pub fn set_field(&self, field: StatusField, value: c_int) -> Result<()> {
        if self.place.is_null() {
            return Err(null("status"));
        }
        if status::ignored(self.place) {
            let why = "status is MPI_STATUS_IGNORE; it must be the address of a variable";
            return Err(Error::new(Class::Arg, why));
        }
        // SAFETY: not one of the constants, so valid for writes by the contract of `given`. The
        // other fields may be uninitialized.
        unsafe {
            match field {
                StatusField::Source => (&raw mut (*self.place).MPI_SOURCE).write(value),
                StatusField::Tag => (&raw mut (*self.place).MPI_TAG).write(value),
                StatusField::Error => (&raw mut (*self.place).MPI_ERROR).write(value),
            }
        }
        Ok(())
    }

    /// Writes the status of a completed request, or the empty one if there was nothing to complete.
    pub fn set_ended(&self, status: Option<&Status>) {
        // SAFETY: the caller of `given` guarantees that the address is valid for writes during the
        // call, or is one of the constants.
        unsafe { status::write_ended(self.place, status) };
    }
}

/// A status that the program passes. It is checked where it is read.
pub struct StatusIn<'a>(*const MPI_Status, PhantomData<&'a MPI_Status>);

impl<'a> StatusIn<'a> {
    /// Returns the status.
    ///
    /// # Errors
    /// Of class `Arg` for NULL and for the constants.
    #[inline]
    pub fn read(&self) -> Result<&'a MPI_Status> {
        // SAFETY: the caller of `given` guarantees that the address is valid during the call, NULL,
        // or one of the constants.
        unsafe { status::told(self.0) }
    }
}

impl Given<'_, kind::StatusIn, *const MPI_Status> for StatusIn<'_> {
    #[inline(always)]
    unsafe fn given(status: *const MPI_Status, _: &'static str, _: InCall) -> Result<Self> {
        Ok(StatusIn(status, PhantomData))
    }
}

/// A status that the program may ignore and of which fields are set.
impl Given<'_, kind::Variable, *mut MPI_Status> for StatusOut<'_> {
    #[inline(always)]
    unsafe fn given(place: *mut MPI_Status, _: &'static str, _: InCall) -> Result<Self> {
        let _of = PhantomData;
        Ok(StatusOut { place, _of })
    }
}

impl Given<'_, kind::Output, *mut MPI_Status> for StatusOut<'_> {
    #[inline(always)]
    unsafe fn given(place: *mut MPI_Status, _: &'static str, _: InCall) -> Result<Self> {
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
