//! Communication calls on windows (section 11.3).

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use mpi_core::datatype::{Datatype, Group};
use mpi_core::op::PredefinedOp;
use mpi_core::{Class, Error, RequestId, Result};
use mpi_rma::{Completion, Origin, Target, Window};
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::types;
use mpi_runtime::handles::wins;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::requests;

use crate::abi::{
    MPI_Aint, MPI_Count, MPI_Datatype, MPI_NO_OP, MPI_Op, MPI_PROC_NULL, MPI_Request, MPI_Win,
};
use crate::api::rma::check_rank;
use crate::api::rma::element::{swap_element, update_element};
use crate::api::{self, null};
use crate::args::{Late, UserBuffer};
use crate::ops;

impl<'c> UserBuffer<'c> {
    /// Returns whether this is one element of a datatype.
    #[inline(always)]
    fn is_one(&self, datatype: MPI_Datatype) -> bool {
        (self.count(), self.datatype()) == (1, datatype)
    }

    /// Checks the origin buffer of a transfer with this target.
    pub(crate) fn origin(&self, rank: c_int) -> Result<Origin<'c>> {
        let (count, datatype) = types::checked(self.count(), self.datatype(), self.call())?;
        if rank != MPI_PROC_NULL {
            types::check_address(self.address(), count, datatype)?;
        }
        Ok(Origin {
            base: self.address().cast(),
            count,
            datatype,
        })
    }
}

/// The target of a call.
#[derive(Clone, Copy)]
pub(crate) struct TargetArgs {
    pub(crate) rank: c_int,
    displacement: MPI_Aint,
    count: MPI_Count,
    datatype: MPI_Datatype,
}

impl TargetArgs {
    /// Returns the rank and the displacement.
    #[inline(always)]
    fn location(&self) -> (c_int, MPI_Aint) {
        (self.rank, self.displacement)
    }

    /// Checks the target; `None` for `MPI_PROC_NULL`.
    pub(crate) fn check<'c>(
        &self,
        window: &Window,
        call: InCall<'c>,
    ) -> Result<Option<Target<'c>>> {
        let (count, datatype) = types::checked(self.count, self.datatype, call)?;
        if self.rank == MPI_PROC_NULL {
            return Ok(None);
        }
        Ok(Some(Target {
            rank: check_rank(window, self.rank)?,
            displacement: self.displacement as isize,
            count,
            datatype,
        }))
    }
}

/// Returns the target's arguments of a call.
#[inline(always)]
pub(crate) fn target(
    rank: c_int,
    displacement: MPI_Aint,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> TargetArgs {
    TargetArgs {
        rank,
        displacement,
        count,
        datatype,
    }
}

/// The output for the request of a call, if it returns one.
type RequestOut = Option<*mut MPI_Request>;

fn completion(request: RequestOut) -> Result<Completion> {
    match request {
        None => Ok(Completion::Blocking),
        Some(request) if request.is_null() => Err(null("request")),
        Some(_) => Ok(Completion::Request),
    }
}

/// # Safety
/// The address is valid, if there is one.
unsafe fn give(request: RequestOut, started: Option<RequestId>) -> Result<()> {
    match request {
        None => Ok(()),
        // SAFETY: the address is valid (# Safety).
        Some(request) => unsafe { api::put(request, "request", requests::handle(started)) },
    }
}

fn site<'c>(Late(win, call): Late<'c, MPI_Win>) -> Result<(&'static Runtime, &'c Window)> {
    Ok((runtime()?, &wins::get(win, call)?.window))
}

/// Starts or carries out a put: `MPI_Put` and `MPI_Rput` (sections 11.3.1 and 11.3.5).
///
/// # Safety
/// The origin's buffer is readable until the epoch ends or the request is complete; `request` is valid.
pub(crate) unsafe fn put(
    origin: UserBuffer,
    target: TargetArgs,
    win: Late<MPI_Win>,
    request: RequestOut,
) -> Result<()> {
    let (runtime, window) = site(win)?;
    let completion = completion(request)?;
    let (origin, target) = (origin.origin(target.rank)?, target.check(window, win.1)?);
    let Some(target) = target else {
        // SAFETY: the address for the request is valid, if there is one (# Safety).
        return unsafe { give(request, None) };
    };
    // SAFETY: the origin is readable until the operation is complete, and `request` is valid
    // (# Safety).
    unsafe {
        let started = window.put(&runtime.process, origin, target, completion)?;
        give(request, started)
    }
}

/// Starts or carries out a get: `MPI_Get` and `MPI_Rget` (sections 11.3.2 and 11.3.5).
///
/// # Safety
/// The origin's buffer is writable until the epoch ends or the request is complete; `request` is valid.
pub(crate) unsafe fn get(
    origin: UserBuffer,
    target: TargetArgs,
    win: Late<MPI_Win>,
    request: RequestOut,
) -> Result<()> {
    let (runtime, window) = site(win)?;
    let completion = completion(request)?;
    let (origin, target) = (origin.origin(target.rank)?, target.check(window, win.1)?);
    let Some(target) = target else {
        // SAFETY: the address for the request is valid, if there is one (# Safety).
        return unsafe { give(request, None) };
    };
    // SAFETY: the origin is writable until the operation is complete, and `request` is valid
    // (# Safety).
    unsafe {
        let started = window.get(&runtime.process, origin, target, completion)?;
        give(request, started)
    }
}

/// Starts an accumulate whose arguments are not checked yet. Out of line, so that updates of one
/// element don't pay for it.
///
/// # Safety
/// The standard's contract of an accumulate.
#[inline(never)]
pub(crate) unsafe fn accumulate(
    origin: UserBuffer,
    result: Option<UserBuffer>,
    target: TargetArgs,
    op: MPI_Op,
    win: Late<MPI_Win>,
    request: RequestOut,
) -> Result<()> {
    let (runtime, window) = site(win)?;
    let completion = completion(request)?;
    let op = ops::lookup(op, win.1)?;
    // With MPI_NO_OP the origin's arguments are ignored (section 11.3.4).
    let reads = op.as_predefined() == Some(PredefinedOp::NoOp);
    if reads && result.is_none() {
        let why = "op is MPI_NO_OP, which only MPI_Get_accumulate, MPI_Rget_accumulate and MPI_Fetch_and_op accept";
        return Err(Error::new(Class::Op, why));
    }
    let origin = match reads {
        true => None,
        false => Some(origin.origin(target.rank)?),
    };
    let result = result
        .map(|result| result.origin(target.rank))
        .transpose()?;
    let (datatype, target) = (target.datatype, target.check(window, win.1)?);
    op.check_accumulate(&types::object(datatype, win.1)?.datatype)?;
    let Some(target) = target else {
        // SAFETY: the address for the request is valid, if there is one (# Safety).
        return unsafe { give(request, None) };
    };
    // SAFETY: the standard lets the origin be read and the result be written until the operation is
    // complete (# Safety), as the checked arguments describe them.
    unsafe {
        let started =
            window.accumulate(&runtime.process, origin, result, target, op, completion)?;
        give(request, started)
    }
}

/// `MPI_Accumulate` (section 11.3.4).
///
/// # Safety
/// The standard's contract of an accumulate.
#[inline(always)]
pub(crate) unsafe fn blocking_accumulate(
    origin: UserBuffer,
    target: TargetArgs,
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Result<()> {
    if origin.is_one(target.datatype)
        && target.count == 1
        && op != MPI_NO_OP
        // SAFETY: the origin's buffer holds one element (# Safety).
        && unsafe { update_element(origin.address(), null_mut(), target.datatype, target.location(), op, win) }
            .is_some()
    {
        return Ok(());
    }
    // SAFETY: the contract of an accumulate is that of this function.
    unsafe { accumulate(origin, None, target, op, win, None) }
}

/// `MPI_Get_accumulate` (section 11.3.4).
///
/// # Safety
/// The standard's contract of an accumulate.
#[inline(always)]
pub(crate) unsafe fn blocking_get_accumulate(
    origin: UserBuffer,
    result: UserBuffer,
    target: TargetArgs,
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Result<()> {
    let to = result.address();
    // With MPI_NO_OP the origin's arguments are ignored (section 11.3.4).
    if (op == MPI_NO_OP || origin.is_one(target.datatype))
        && result.is_one(target.datatype)
        && target.count == 1
        && types::may_be_data(to)
        // SAFETY: the buffers hold one element each (# Safety).
        && unsafe { update_element(origin.address(), to, target.datatype, target.location(), op, win) }.is_some()
    {
        return Ok(());
    }
    // SAFETY: the contract of an accumulate is that of this function.
    unsafe { accumulate(origin, Some(result), target, op, win, None) }
}

/// `MPI_Fetch_and_op` (section 11.3.4).
///
/// # Safety
/// The standard's contract of an accumulate.
#[inline(always)]
pub(crate) unsafe fn fetch_and_op(
    origin: UserBuffer,
    result: UserBuffer,
    target: TargetArgs,
    op: MPI_Op,
    win: Late<MPI_Win>,
) -> Result<()> {
    let to = result.address();
    if types::may_be_data(to)
        // SAFETY: the buffers hold one element each (# Safety).
        && unsafe { update_element(origin.address(), to, target.datatype, target.location(), op, win) }.is_some()
    {
        return Ok(());
    }
    predefined(target.datatype, win.1)?;
    // SAFETY: the contract of an accumulate is that of this function.
    unsafe { accumulate(origin, Some(result), target, op, win, None) }
}

/// Returns a datatype that must be predefined.
fn predefined<'c>(datatype: MPI_Datatype, call: InCall<'c>) -> Result<&'c Datatype> {
    let found = &types::object(datatype, call)?.datatype;
    if found.as_predefined().is_none() {
        return Err(Error::new(
            Class::Type,
            format!("datatype {datatype:#x} ({found}) is derived; it must be a predefined one"),
        ));
    }
    Ok(found)
}

/// `MPI_Compare_and_swap` (section 11.3.4): `buffers` are the new value, the one to compare with,
/// and the result.
///
/// # Safety
/// The standard's contract of a compare-and-swap.
#[inline(always)]
pub(crate) unsafe fn compare_and_swap(
    buffers: [*mut c_void; 3],
    target: TargetArgs,
    win: Late<MPI_Win>,
) -> Result<()> {
    // SAFETY: the buffers hold one element each (# Safety).
    unsafe {
        if swap_element(buffers, target.datatype, target.location(), win).is_some() {
            return Ok(());
        }
        compare_and_swap_long(buffers, target, win)
    }
}

/// The slow path of [`compare_and_swap`], kept out of line so that the fast path does not pay
/// for it.
///
/// # Safety
/// The standard's contract of a compare-and-swap.
#[inline(never)]
unsafe fn compare_and_swap_long(
    buffers: [*mut c_void; 3],
    target: TargetArgs,
    win: Late<MPI_Win>,
) -> Result<()> {
    let [origin_addr, compare_addr, result_addr] = buffers;
    let (runtime, window) = site(win)?;
    let element = predefined(target.datatype, win.1)?;
    let group = element.as_predefined().map(|element| element.group());
    let Some(
        Group::CInteger | Group::FInteger | Group::Logical | Group::MultiLanguage | Group::Byte,
    ) = group
    else {
        return Err(Error::new(
            Class::Type,
            format!("{element} can't be compared; it must be an integer, a logical or a byte"),
        ));
    };
    let Some(target) = target.check(window, win.1)? else {
        return Ok(());
    };
    types::check_address(origin_addr, 1, element)?;
    types::check_address(compare_addr, 1, element)?;
    types::check_address(result_addr, 1, element)?;
    // SAFETY: the caller's contract; of these groups are integers, logicals and bytes.
    unsafe {
        window.compare_and_swap(
            &runtime.process,
            origin_addr.cast(),
            compare_addr.cast(),
            result_addr.cast(),
            target,
        )
    }
}
