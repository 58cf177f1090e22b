//! The functions that `infiniband/verbs.h` defines inline: calls through tables of operations.

use crate::ffi::*;
use netmod::breakdown::{Part, enter};
use std::mem::offset_of;

/// Posts a list of work requests. Returns an error number, or 0.
///
/// # Safety
/// The queue pair is open and the list valid; the memory that it names stays valid until
/// completion.
#[inline]
pub(crate) unsafe fn post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> i32 {
    let _part = enter(Part::System);
    let mut bad = std::ptr::null_mut();
    // SAFETY: queue pair and list are valid by the caller's contract; `ops` belongs to the open
    // context.
    unsafe {
        match (*(*qp).context).ops.post_send {
            Some(call) => call(qp, wr, &mut bad),
            None => libc::ENOSYS,
        }
    }
}

/// Posts a list of work requests. On error also returns the first request that was not posted.
///
/// # Safety
/// The queue pair is open and the list valid; the memory that it names stays valid until
/// completion.
#[inline]
pub(crate) unsafe fn post_list(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
) -> Result<(), (i32, *mut ibv_send_wr)> {
    let _part = enter(Part::System);
    let mut bad = wr;
    // SAFETY: queue pair and list are valid by the caller's contract; `ops` belongs to the open
    // context.
    let rc = unsafe {
        match (*(*qp).context).ops.post_send {
            Some(call) => call(qp, wr, &mut bad),
            None => libc::ENOSYS,
        }
    };
    if rc == 0 { Ok(()) } else { Err((rc, bad)) }
}

/// Posts a list of receive buffers to a queue pair. Returns an error number, or 0.
///
/// # Safety
/// The queue pair is open and the list valid; the buffers stay valid until completion.
pub(crate) unsafe fn post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr) -> i32 {
    let mut bad = std::ptr::null_mut();
    // SAFETY: the objects are open and the arguments valid by the caller's contract.
    unsafe {
        match (*(*qp).context).ops.post_recv {
            Some(call) => call(qp, wr, &mut bad),
            None => libc::ENOSYS,
        }
    }
}

/// Posts a list of receive buffers to a shared receive queue. Returns an error number, or 0.
///
/// # Safety
/// The queue is open and the list valid; the buffers stay valid until completion.
#[inline]
pub(crate) unsafe fn post_srq_recv(srq: *mut ibv_srq, wr: *mut ibv_recv_wr) -> i32 {
    let mut bad = std::ptr::null_mut();
    // SAFETY: the objects are open and the arguments valid by the caller's contract.
    unsafe {
        match (*(*srq).context).ops.post_srq_recv {
            Some(call) => call(srq, wr, &mut bad),
            None => libc::ENOSYS,
        }
    }
}

/// Takes at most `count` completions. Returns their number, or a negative value on error.
///
/// # Safety
/// The queue is open, and `wc` has space for `count` entries.
#[inline]
pub(crate) unsafe fn poll_cq(cq: *mut ibv_cq, count: i32, wc: *mut ibv_wc) -> i32 {
    let _part = enter(Part::System);
    // SAFETY: the objects are open and the arguments valid by the caller's contract.
    unsafe {
        match (*(*cq).context).ops.poll_cq {
            Some(call) => call(cq, count, wc),
            None => -1,
        }
    }
}

/// Requests an event on the next completion.
///
/// # Safety
/// The queue is open and has a channel.
pub(crate) unsafe fn req_notify_cq(cq: *mut ibv_cq) -> i32 {
    // SAFETY: the objects are open and the arguments valid by the caller's contract.
    unsafe {
        match (*(*cq).context).ops.req_notify_cq {
            Some(call) => call(cq, 0),
            None => libc::ENOSYS,
        }
    }
}

/// Returns the extended context around a context if the library's version of it reaches beyond
/// `offset`. It grows at its front, and `sz` is its size.
///
/// # Safety
/// The context is open.
unsafe fn extended(context: *mut ibv_context, offset: usize) -> Option<*mut verbs_context> {
    // SAFETY: the context is open by the caller's contract; the marker (all ones) shows that it is
    // part of an extended one, whose size is then known.
    unsafe {
        if (*context).abi_compat as usize != usize::MAX {
            return None;
        }
        let whole = context
            .byte_sub(offset_of!(verbs_context, context))
            .cast::<verbs_context>();
        ((*whole).sz >= size_of::<verbs_context>() - offset).then_some(whole)
    }
}

/// Makes a thread domain, which promises that its queue pairs are used by one thread at a time.
/// `Err` is an error number; `EOPNOTSUPP` if the device has none.
///
/// # Safety
/// The context is open.
pub(crate) unsafe fn alloc_td(context: *mut ibv_context) -> Result<*mut ibv_td, i32> {
    // SAFETY: the objects are open and the arguments valid by the caller's contract.
    unsafe {
        let call = extended(context, offset_of!(verbs_context, alloc_td))
            .and_then(|whole| (*whole).alloc_td)
            .ok_or(libc::EOPNOTSUPP)?;
        let mut attr = ibv_td_init_attr { comp_mask: 0 };
        let td = call(context, &mut attr);
        if td.is_null() { Err(errno()) } else { Ok(td) }
    }
}

/// Frees a thread domain.
///
/// # Safety
/// The domain is open and has no queue pairs or protection domains.
pub(crate) unsafe fn dealloc_td(td: *mut ibv_td) {
    // SAFETY: the domain is open by the caller's contract; a context that could allocate it can
    // free it.
    unsafe {
        let whole = extended((*td).context, offset_of!(verbs_context, dealloc_td));
        if let Some(call) = whole.and_then(|whole| (*whole).dealloc_td) {
            call(td);
        }
    }
}

/// Makes a protection domain that combines `pd` and `td`. `Err` is an error number.
///
/// # Safety
/// Context and domains are open.
pub(crate) unsafe fn alloc_parent_domain(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    td: *mut ibv_td,
) -> Result<*mut ibv_pd, i32> {
    // SAFETY: the objects are open and the arguments valid by the caller's contract.
    unsafe {
        let call = extended(context, offset_of!(verbs_context, alloc_parent_domain))
            .and_then(|whole| (*whole).alloc_parent_domain)
            .ok_or(libc::EOPNOTSUPP)?;
        let mut attr: ibv_parent_domain_init_attr = std::mem::zeroed();
        attr.pd = pd;
        attr.td = td;
        let domain = call(context, &mut attr);
        if domain.is_null() {
            Err(errno())
        } else {
            Ok(domain)
        }
    }
}

/// Returns the error number of this thread's last call.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns the text of an error number.
pub(crate) fn errno_text(number: i32) -> String {
    std::io::Error::from_raw_os_error(number).to_string()
}

/// Makes a work request with one memory block.
#[inline]
pub(crate) fn work(opcode: ibv_wr_opcode, sge: &mut ibv_sge) -> ibv_send_wr {
    // SAFETY: all fields are numbers and pointers, for which zero is valid.
    let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
    wr.opcode = opcode;
    wr.sg_list = sge;
    wr.num_sge = 1;
    wr
}
