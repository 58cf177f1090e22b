//! The token of a call of MPI, which bounds references to objects behind handles.

use std::marker::PhantomData;

/// A running call of an MPI function.
///
/// Objects behind handles are borrowed for `'c`, which ends with the call, so that no reference
/// to an object that the program may free outlives the call that was given its handle. The token
/// takes no space.
///
/// The table that owns an object frees it when its handle is freed. That no other thread frees a
/// handle that a call uses is the program's duty (MPI-5.0 section 11.6.2), on which whoever
/// [begins](InCall::begin) a call relies. Functions of the program that a call runs may free handles:
/// such a call holds what it uses afterwards by
/// [`HandleTable::get_arc`](crate::handles::HandleTable::get_arc).
///
/// ```
/// use mpi_core::info::Info;
/// use mpi_runtime::handles::{in_call::InCall, infos};
///
/// fn find(handle: i32, call: InCall<'_>) -> &Info {
///     infos::get(handle, call).unwrap()
/// }
/// ```
///
/// A reference can't be kept:
///
/// ```compile_fail
/// use mpi_core::info::Info;
/// use mpi_runtime::handles::{in_call::InCall, infos};
///
/// fn find(handle: i32, call: InCall<'_>) -> &'static Info {
///     infos::get(handle, call).unwrap()
/// }
/// ```
#[derive(Clone, Copy)]
pub struct InCall<'c>(PhantomData<&'c ()>);

impl InCall<'_> {
    /// Begins a call.
    ///
    /// # Safety
    /// `'c` ends before the program's call of MPI returns. Until then no object that is looked up
    /// with this token is freed while a reference to it is in use: not by other threads of the
    /// program, for which this is an error (MPI-5.0 section 11.6.2), nor by the call itself, nor by
    /// functions of the program that it runs.
    #[inline(always)]
    pub unsafe fn begin<'c>() -> InCall<'c> {
        InCall(PhantomData)
    }
}
