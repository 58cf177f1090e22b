//! What an adapter reports of its own accord: its asynchronous events. They say why a queue pair has ended where its
//! completions only say that it has.

use crate::device::Context;
use crate::ffi::{ibv_context, ibv_cq, ibv_qp, ibv_srq};
use netmod_kit::library::text;
use std::ffi::{c_int, c_uint};

/// What an event is about, by its type.
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

/// Makes that who asks for an event that there isn't does not wait for it.
///
/// # Safety
/// The context is open.
pub(crate) unsafe fn do_not_wait(context: *mut ibv_context) {
    // SAFETY: the context and its descriptor are open.
    unsafe {
        let fd = (*context).async_fd;
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

impl Context {
    /// Takes what the adapter has reported since the last time about what hangs off this context: the names of the
    /// events, in their order. Does not wait.
    pub(crate) fn events(&self) -> Vec<String> {
        let mut said = Vec::new();
        let mut event = ibv_async_event {
            element: ibv_async_event_element { port_num: 0 },
            event_type: 0,
        };
        // SAFETY: the context is open, and its descriptor does not wait; each event is acknowledged once.
        unsafe {
            while (self.lib.get_async_event)(self.raw, &mut event) == 0 {
                said.push(text((self.lib.event_type_str)(event.event_type)));
                (self.lib.ack_async_event)(&mut event);
            }
        }
        said
    }
}
