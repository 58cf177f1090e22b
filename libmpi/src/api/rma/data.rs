//! Communication calls on windows (section 11.3).

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use mpi_core::datatype::{Datatype, Group};
use mpi_core::op::PredefinedOp;
use mpi_core::{Class, Error, RequestId, Result};
use mpi_rma::{Completion, Origin, Target, Window};
use mpi_runtime::handles::types;
use mpi_runtime::handles::wins;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::requests;

use crate::api::rma::element::{swap_element, update_element};
pub(crate) use crate::api::rma::fast_path::{
    win_accumulate_fast, win_compare_and_swap_fast, win_fetch_and_op_fast, win_get_accumulate_fast,
    win_get_fast, win_put_fast, win_rget_accumulate_fast, win_rget_fast, win_rput_fast,
};
use crate::api::rma::window::check_rank;
// The fast paths raise no errors, so they need not know which of the two forms was called.
use crate::abi::{
    MPI_Aint, MPI_Count, MPI_Datatype, MPI_NO_OP, MPI_Op, MPI_PROC_NULL, MPI_Request, MPI_Win,
};
pub(crate) use crate::api::rma::fast_path::{
    win_accumulate_fast as win_accumulate_c_fast,
    win_get_accumulate_fast as win_get_accumulate_c_fast, win_get_fast as win_get_c_fast,
    win_put_fast as win_put_c_fast, win_rget_accumulate_fast as win_rget_accumulate_c_fast,
    win_rget_fast as win_rget_c_fast, win_rput_fast as win_rput_c_fast,
};
use crate::api::{null, put};
use crate::ops;

/// The origin buffer of a call.
#[derive(Clone, Copy)]
struct From {
    address: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
}

impl From {
    /// Checks the origin buffer of a transfer with this target.
    fn check(&self, rank: c_int) -> Result<Origin<'static>> {
        let (count, datatype) = types::checked(self.count, self.datatype)?;
        if rank != MPI_PROC_NULL {
            types::check_address(self.address, count, datatype)?;
        }
        Ok(Origin {
            base: self.address.cast_mut().cast(),
            count,
            datatype,
        })
    }
}

/// The target of a call.
#[derive(Clone, Copy)]
struct To {
    rank: c_int,
    displacement: MPI_Aint,
    count: MPI_Count,
    datatype: MPI_Datatype,
}

impl To {
    /// Checks the target; `None` for `MPI_PROC_NULL`.
    fn check(&self, window: &Window) -> Result<Option<Target<'static>>> {
        let (count, datatype) = types::checked(self.count, self.datatype)?;
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

/// The output for the request of a call, if it returns one.
type Into = Option<*mut MPI_Request>;

fn completion(into: Into) -> Result<Completion> {
    match into {
        None => Ok(Completion::Blocking),
        Some(request) if request.is_null() => Err(null("request")),
        Some(_) => Ok(Completion::Request),
    }
}

/// # Safety
/// The address is valid, if there is one.
unsafe fn give(into: Into, started: Option<RequestId>) -> Result<()> {
    match into {
        None => Ok(()),
        // SAFETY: the caller's contract.
        Some(request) => unsafe { put(request, "request", requests::handle(started)) },
    }
}

fn site(win: MPI_Win) -> Result<(&'static Runtime, &'static Window)> {
    Ok((runtime()?, &wins::get(win)?.window))
}

#[inline(always)]
unsafe fn any_put(from: From, to: To, win: MPI_Win, into: Into) -> Result<()> {
    let (runtime, window) = site(win)?;
    let completion = completion(into)?;
    let (origin, target) = (from.check(to.rank)?, to.check(window)?);
    let Some(target) = target else {
        // SAFETY: the caller's contract.
        return unsafe { give(into, None) };
    };
    // SAFETY: the caller's contract.
    unsafe {
        let started = window.put(&runtime.process, origin, target, completion)?;
        give(into, started)
    }
}

#[inline(always)]
unsafe fn any_get(from: From, to: To, win: MPI_Win, into: Into) -> Result<()> {
    let (runtime, window) = site(win)?;
    let completion = completion(into)?;
    let (origin, target) = (from.check(to.rank)?, to.check(window)?);
    let Some(target) = target else {
        // SAFETY: the caller's contract.
        return unsafe { give(into, None) };
    };
    // SAFETY: the caller's contract.
    unsafe {
        let started = window.get(&runtime.process, origin, target, completion)?;
        give(into, started)
    }
}

/// Starts an accumulate whose arguments are not checked yet. Out of line, so that updates of one
/// element don't pay for it.
///
/// # Safety
/// The standard's contract of an accumulate.
#[inline(never)]
unsafe fn any_accumulate(
    from: From,
    result: Option<From>,
    to: To,
    op: MPI_Op,
    win: MPI_Win,
    into: Into,
) -> Result<()> {
    let (runtime, window) = site(win)?;
    let completion = completion(into)?;
    let op = ops::lookup(op)?;
    // With MPI_NO_OP the origin's arguments are ignored (section 11.3.4).
    let reads = op.as_predefined() == Some(PredefinedOp::NoOp);
    if reads && result.is_none() {
        let why = "op is MPI_NO_OP, which only MPI_Get_accumulate, MPI_Rget_accumulate and MPI_Fetch_and_op accept";
        return Err(Error::new(Class::Op, why));
    }
    let origin = match reads {
        true => None,
        false => Some(from.check(to.rank)?),
    };
    let result = result.map(|result| result.check(to.rank)).transpose()?;
    let target = to.check(window)?;
    op.check_accumulate(&types::object(to.datatype)?.datatype)?;
    let Some(target) = target else {
        // SAFETY: the caller's contract.
        return unsafe { give(into, None) };
    };
    // SAFETY: the caller's contract.
    unsafe {
        let started =
            window.accumulate(&runtime.process, origin, result, target, op, completion)?;
        give(into, started)
    }
}

/// `MPI_Put` (section 11.3.1).
///
/// # Safety
/// The origin's buffer is readable until the epoch ends.
pub unsafe fn win_put(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_put(from, to, win, None) }
}

/// `MPI_Rput` (section 11.3.5).
pub unsafe fn win_rput(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_put(from, to, win, Some(request)) }
}

/// `MPI_Get` (section 11.3.2).
///
/// # Safety
/// The origin's buffer is writable until the epoch ends.
pub unsafe fn win_get(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_get(from, to, win, None) }
}

/// `MPI_Rget` (section 11.3.5).
pub unsafe fn win_rget(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_get(from, to, win, Some(request)) }
}

/// `MPI_Accumulate` (section 11.3.4).
pub unsafe fn win_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let origin = (origin_count, origin_datatype);
    let target = (target_rank, target_disp);
    if origin == (1, target_datatype)
        && target_count == 1
        && op != MPI_NO_OP
        // SAFETY: the caller's contract; the origin's buffer holds one element.
        && unsafe { update_element(origin_addr, null_mut(), target_datatype, target, op, win) }
            .is_some()
    {
        return Ok(());
    }
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_accumulate(from, None, to, op, win, None) }
}

/// `MPI_Raccumulate` (section 11.3.5).
pub unsafe fn win_raccumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_accumulate(from, None, to, op, win, Some(request)) }
}

/// `MPI_Get_accumulate` (section 11.3.4).
pub unsafe fn win_get_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let one = (1, target_datatype);
    let target = (target_rank, target_disp);
    // With MPI_NO_OP the origin's arguments are ignored (section 11.3.4).
    if (op == MPI_NO_OP || (origin_count, origin_datatype) == one)
        && (result_count, result_datatype) == one
        && target_count == 1
        && types::may_be_data(result_addr)
        // SAFETY: the caller's contract; the buffers hold one element each.
        && unsafe { update_element(origin_addr, result_addr, target_datatype, target, op, win) }
            .is_some()
    {
        return Ok(());
    }
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let result = From {
        address: result_addr,
        count: result_count,
        datatype: result_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_accumulate(from, Some(result), to, op, win, None) }
}

/// `MPI_Rget_accumulate` (section 11.3.5).
pub unsafe fn win_rget_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let from = From {
        address: origin_addr,
        count: origin_count,
        datatype: origin_datatype,
    };
    let result = From {
        address: result_addr,
        count: result_count,
        datatype: result_datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_accumulate(from, Some(result), to, op, win, Some(request)) }
}

/// `MPI_Fetch_and_op` (section 11.3.4).
pub unsafe fn win_fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let target = (target_rank, target_disp);
    if types::may_be_data(result_addr)
        // SAFETY: the caller's contract.
        && unsafe { update_element(origin_addr, result_addr, datatype, target, op, win) }.is_some()
    {
        return Ok(());
    }
    predefined(datatype)?;
    let from = From {
        address: origin_addr,
        count: 1,
        datatype,
    };
    let result = From {
        address: result_addr,
        count: 1,
        datatype,
    };
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: 1,
        datatype,
    };
    // SAFETY: the caller's contract.
    unsafe { any_accumulate(from, Some(result), to, op, win, None) }
}

/// Returns a datatype that must be predefined.
fn predefined(datatype: MPI_Datatype) -> Result<&'static Datatype> {
    let found = &types::object(datatype)?.datatype;
    if found.as_predefined().is_none() {
        return Err(Error::new(
            Class::Type,
            format!("datatype {datatype:#x} ({found}) is derived; it must be a predefined one"),
        ));
    }
    Ok(found)
}

/// `MPI_Compare_and_swap` (section 11.3.4).
pub unsafe fn win_compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> Result<()> {
    let buffers = [origin_addr.cast_mut(), compare_addr.cast_mut(), result_addr];
    let target = (target_rank, target_disp);
    // SAFETY: the caller's contract.
    unsafe {
        if swap_element(buffers, datatype, target, win).is_some() {
            return Ok(());
        }
        compare_and_swap_long(buffers, datatype, target, win)
    }
}

/// The slow path of [`win_compare_and_swap`], kept out of line so that the fast path does not pay
/// for it.
///
/// # Safety
/// The standard's contract of a compare-and-swap.
#[inline(never)]
unsafe fn compare_and_swap_long(
    buffers: [*mut c_void; 3],
    datatype: MPI_Datatype,
    (target_rank, target_disp): (c_int, MPI_Aint),
    win: MPI_Win,
) -> Result<()> {
    let [origin_addr, compare_addr, result_addr] = buffers;
    let (runtime, window) = site(win)?;
    let element = predefined(datatype)?;
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
    let to = To {
        rank: target_rank,
        displacement: target_disp,
        count: 1,
        datatype,
    };
    let Some(target) = to.check(window)? else {
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
