//! Opens libibverbs at run time.

use crate::events::{ibv_async_event, ibv_event_type};
use crate::ffi::*;
use netmod::OpenError;
use netmod_kit::library::{self, Advice, text};
use std::ffi::{c_char, c_int, c_void};

netmod_kit::symbols! {
    /// The exported functions of libibverbs in use; all others go through tables of operations.
    pub(crate) struct Library, "ibv_" {
        get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
        free_device_list: fn(*mut *mut ibv_device);
        get_device_name: fn(*mut ibv_device) -> *const c_char;
        open_device: fn(*mut ibv_device) -> *mut ibv_context;
        close_device: fn(*mut ibv_context) -> c_int;
        query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        query_gid: fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
        alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
        dealloc_pd: fn(*mut ibv_pd) -> c_int;
        reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
        dereg_mr: fn(*mut ibv_mr) -> c_int;
        create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
        destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
        create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
        resize_cq: fn(*mut ibv_cq, c_int) -> c_int;
        destroy_cq: fn(*mut ibv_cq) -> c_int;
        get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
        ack_cq_events: fn(*mut ibv_cq, u32);
        create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
        destroy_srq: fn(*mut ibv_srq) -> c_int;
        create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        destroy_qp: fn(*mut ibv_qp) -> c_int;
        create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        destroy_ah: fn(*mut ibv_ah) -> c_int;
        wc_status_str: fn(ibv_wc_status) -> *const c_char;
        get_async_event: fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
        ack_async_event: fn(*mut ibv_async_event);
        event_type_str: fn(ibv_event_type) -> *const c_char;
    }
}

const ADVICE: Advice = Advice {
    missing: "install rdma-core's libibverbs (Debian: libibverbs1 and ibverbs-providers), or set \
              WEFT_VERBS_LIBRARY to its path",
    unsuitable: "it is too old or not libibverbs; install rdma-core 1.1 or newer, or set \
                 WEFT_VERBS_LIBRARY to the path of one",
};

impl Library {
    /// Opens the library `name`: a file name for the loader's search path, or a path. It stays open
    /// until the process ends.
    pub(crate) fn open(name: &str) -> Result<Self, OpenError> {
        let opened = library::Library::open(name, ADVICE)?;
        // SAFETY: each field has the type of the function of its name in `infiniband/verbs.h`;
        // `query_port` writes the beginning of a structure that its caller has zeroed.
        unsafe { Library::load(&opened) }
    }

    /// Returns the text of a completion's status.
    pub(crate) fn status_text(&self, status: ibv_wc_status) -> String {
        // SAFETY: the function takes any number and returns a static string.
        unsafe { text((self.wc_status_str)(status)) }
    }
}
