//! Asynchronous events of an adapter. They give the cause of a queue pair's failure, which its
//! completions do not.

use crate::device::Context;
use crate::ffi::{ibv_context, ibv_cq, ibv_qp, ibv_srq};
use netmod_kit::library::text;
use std::ffi::{c_int, c_uint};

/// The object of an event, by the event's type.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "the library's name")]
pub(crate) union ibv_async_event_element {
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    srq: *mut ibv_srq,
    port_num: c_int,
}

#[allow(non_camel_case_types, reason = "the library's name")]
pub(crate) type ibv_event_type = c_uint;

/// An event, as in `infiniband/verbs.h` of rdma-core 44.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "the library's name")]
pub(crate) struct ibv_async_event {
    element: ibv_async_event_element,
    event_type: ibv_event_type,
}

/// Makes reads of events non-blocking.
///
/// # Safety
/// The context is open.
pub(crate) unsafe fn do_not_wait(context: *mut ibv_context) {
    // SAFETY: the context is open by the caller's contract, and so is its descriptor.
    unsafe {
        let fd = (*context).async_fd;
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

impl Context {
    /// Takes the events of this context since the last call. Returns their names, in order. Does
    /// not wait.
    pub(crate) fn events(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut event = ibv_async_event {
            element: ibv_async_event_element { port_num: 0 },
            event_type: 0,
        };
        // SAFETY: the context is open, and its descriptor does not wait; each event is acknowledged
        // once.
        unsafe {
            while (self.lib.get_async_event)(self.raw, &mut event) == 0 {
                names.push(text((self.lib.event_type_str)(event.event_type)));
                (self.lib.ack_async_event)(&mut event);
            }
        }
        names
    }
}
