//! libfabric's binary interface as of 1.17 (symbol version `FABRIC_1.3` of its structures), trimmed
//! to what this crate uses.
//!
//! Only a handful of symbols are real functions (see [`crate::library`]); everything else is a call
//! through an operation table that hangs off the object, which the C headers wrap in inline
//! functions and this module in `#[inline]` ones. Names are C's own. Values of C enumerations are
//! plain integers: a newer library may send ones that this list doesn't have.
//!
//! Table entries that are never called are typed as plain pointers. The entries that are called are
//! read one at a time through raw pointers, so that an entry that a provider left null is read only
//! when it is called; providers fill the tables of the requested capabilities with functions
//! (unsupported ones answer `-FI_ENOSYS`).
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

pub type fi_addr_t = u64;
type Unused = *const c_void;

pub const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_ATOMIC: u64 = 1 << 4;
pub const FI_TRANSMIT: u64 = 1 << 11;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub const FI_COMPLETION: u64 = 1 << 24;
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
/// Of `fi_query_atomic`: asks about fetching operations.
pub const FI_FETCH_ATOMIC: u64 = 1 << 58;
/// Of `fi_query_atomic`: asks about comparing operations.
pub const FI_COMPARE_ATOMIC: u64 = 1 << 59;

pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;

pub const FI_MR_LOCAL: c_int = 1 << 2;
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub const FI_MR_ALLOCATED: c_int = 1 << 5;
pub const FI_MR_PROV_KEY: c_int = 1 << 6;

pub const FI_ORDER_WAW: u64 = 1 << 4;
pub const FI_ORDER_SAS: u64 = 1 << 8;
pub const FI_ORDER_RMA_WAW: u64 = 1 << 35;

pub const FI_SOCKADDR_IN: u32 = 2;
pub const FI_SOCKADDR_IN6: u32 = 3;

pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;

pub const FI_PROGRESS_AUTO: c_int = 1;
pub const FI_THREAD_SAFE: c_int = 1;
pub const FI_RM_ENABLED: c_int = 2;
pub const FI_EP_RDM: c_int = 3;
pub const FI_AV_UNSPEC: c_int = 0;

pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;

pub const FI_WAIT_NONE: c_int = 0;
pub const FI_WAIT_FD: c_int = 3;
pub const FI_CQ_FORMAT_DATA: c_int = 3;

pub const FI_UINT64: c_int = 7;
pub const FI_SUM: c_int = 2;
pub const FI_BOR: c_int = 6;
pub const FI_BAND: c_int = 7;
pub const FI_BXOR: c_int = 9;
pub const FI_ATOMIC_READ: c_int = 10;
pub const FI_ATOMIC_WRITE: c_int = 11;
pub const FI_CSWAP: c_int = 12;

pub const FI_EAVAIL: isize = 259;

#[repr(C)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
pub struct fi_ep_attr {
    pub type_: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

#[repr(C)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut fid,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut c_void,
}

#[repr(C)]
pub struct fi_ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
    pub ops_open: Unused,
    pub tostr: Unused,
    pub ops_set: Unused,
}

#[repr(C)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

#[repr(C)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_info,
        *mut *mut fid_domain,
        *mut c_void,
    ) -> c_int,
    pub passive_ep: Unused,
    pub eq_open: Unused,
    pub wait_open: Unused,
    pub trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
    pub domain2: Unused,
}

#[repr(C)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

#[repr(C)]
pub struct fi_av_attr {
    pub type_: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert: unsafe extern "C" fn(
        *mut fid_av,
        *const c_void,
        usize,
        *mut fi_addr_t,
        u64,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

#[repr(C)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct fi_atomic_attr {
    pub count: usize,
    pub size: usize,
}

#[repr(C)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_av_attr,
        *mut *mut fid_av,
        *mut c_void,
    ) -> c_int,
    pub cq_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_cq_attr,
        *mut *mut fid_cq,
        *mut c_void,
    ) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
    pub scalable_ep: Unused,
    pub cntr_open: Unused,
    pub poll_open: Unused,
    pub stx_ctx: Unused,
    pub srx_ctx: Unused,
    pub query_atomic: Option<
        unsafe extern "C" fn(*mut fid_domain, c_int, c_int, *mut fi_atomic_attr, u64) -> c_int,
    >,
}

#[repr(C)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: unsafe extern "C" fn(
        *mut fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fi_cq_data_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    // A newer library, asked with an older version number, writes no further than the above; the
    // room costs nothing.
    pub reserved: [u64; 4],
}

#[repr(C)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
    pub readfrom: Unused,
    pub readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
    pub sread: Unused,
    pub sreadfrom: Unused,
    pub signal: Unused,
    pub strerror: unsafe extern "C" fn(
        *mut fid_cq,
        c_int,
        *const c_void,
        *mut c_char,
        usize,
    ) -> *const c_char,
}

#[repr(C)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

#[repr(C)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub recvv: Unused,
    pub recvmsg: Unused,
    pub send: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub sendv: unsafe extern "C" fn(
        *mut fid_ep,
        *const iovec,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub sendmsg: Unused,
    pub inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize,
    pub senddata: Unused,
    pub injectdata: Unused,
}

#[repr(C)]
pub struct iovec {
    pub base: *mut c_void,
    pub len: usize,
}

#[repr(C)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

#[repr(C)]
pub struct fi_msg_rma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_ops_rma {
    pub size: usize,
    pub read: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub readv: Unused,
    pub readmsg: Unused,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
    pub inject:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64) -> isize,
}

#[repr(C)]
pub struct fi_ops_atomic {
    pub size: usize,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: Unused,
    pub inject: Unused,
    pub readwrite: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        c_int,
        c_int,
        *mut c_void,
    ) -> isize,
    pub readwritev: Unused,
    pub readwritemsg: Unused,
    pub compwrite: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        *const c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        c_int,
        c_int,
        *mut c_void,
    ) -> isize,
}

#[repr(C)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: Unused,
    pub getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut c_void,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut c_void,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut c_void,
}

// The inline functions of the C headers. All of them: `self` objects must be open, buffers and
// contexts must stay valid as libfabric's manual pages say (until completion).

/// Defines functions that call an entry of an object's table.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $out:ty
            = $table:tt.$entry:ident($($given:expr),* $(,)?);
    )*) => {$(
        $(#[$doc])*
        #[inline]
        pub unsafe fn $name($($arg: $kind),*) -> $out {
            // SAFETY: by the function's contract, the object and its table are valid.
            unsafe { ($table.$entry)($($given),*) }
        }
    )*};
}

calls! {
    /// # Safety
    /// `object` is an open object with nothing bound to it that is still open.
    fi_close(object: *mut fid) -> c_int
        = (*(*object).ops).close(object);

    /// # Safety
    /// Both objects are open.
    fi_ep_bind(ep: *mut fid_ep, object: *mut fid, flags: u64) -> c_int
        = (*(*ep).fid.ops).bind(&raw mut (*ep).fid, object, flags);

    /// # Safety
    /// `ep` is open and has what it needs bound to it.
    fi_enable(ep: *mut fid_ep) -> c_int
        = (*(*ep).fid.ops).control(&raw mut (*ep).fid, FI_ENABLE, null_mut());

    /// # Safety
    /// `object` is open; `arg` is what `command` takes.
    fi_control(object: *mut fid, command: c_int, arg: *mut c_void) -> c_int
        = (*(*object).ops).control(object, command, arg);

    /// # Safety
    /// `fabric` and `info` are valid; `domain` is written.
    fi_domain(fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain) -> c_int
        = (*(*fabric).ops).domain(fabric, info, domain, null_mut());

    /// # Safety
    /// `fabric` and the `count` objects are open.
    fi_trywait(fabric: *mut fid_fabric, objects: *mut *mut fid, count: c_int) -> c_int
        = (*(*fabric).ops).trywait(fabric, objects, count);

    /// # Safety
    /// `domain` is open, `attr` valid; `av` is written.
    fi_av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av) -> c_int
        = (*(*domain).ops).av_open(domain, attr, av, null_mut());

    /// # Safety
    /// `domain` is open, `attr` valid; `cq` is written.
    fi_cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq) -> c_int
        = (*(*domain).ops).cq_open(domain, attr, cq, null_mut());

    /// # Safety
    /// `domain` is open, `info` valid; `ep` is written.
    fi_endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep) -> c_int
        = (*(*domain).ops).endpoint(domain, info, ep, null_mut());

    /// # Safety
    /// `av` is open and `addr` holds one address of its format; `fi_addr` is written.
    fi_av_insert(av: *mut fid_av, addr: *const c_void, fi_addr: *mut fi_addr_t) -> c_int
        = (*(*av).ops).insert(av, addr, 1, fi_addr, 0, null_mut());

    /// # Safety
    /// `cq` is open and `buf` has room for `count` entries of its format.
    fi_cq_read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize
        = (*(*cq).ops).read(cq, buf, count);

    /// # Safety
    /// `cq` is open; `entry` is initialized and is written.
    fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry) -> isize
        = (*(*cq).ops).readerr(cq, entry, 0);

    /// # Safety
    /// `cq` is open, `error` comes from its latest `fi_cq_readerr`, `buf` has `len` bytes.
    fi_cq_strerror(cq: *mut fid_cq, error: &fi_cq_err_entry, buf: *mut c_char,
        len: usize) -> *const c_char
        = (*(*cq).ops).strerror(cq, error.prov_errno, error.err_data, buf, len);

    /// # Safety
    /// `ep` is open; `addr` has `*len` bytes.
    fi_getname(ep: *mut fid_ep, addr: *mut c_void, len: *mut usize) -> c_int
        = (*(*ep).cm).getname(&raw mut (*ep).fid, addr, len);

    /// # Safety
    /// The objects are open; buffers and contexts stay valid until completion.
    fi_recv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void,
        context: *mut c_void) -> isize
        = (*(*ep).msg).recv(ep, buf, len, desc, FI_ADDR_UNSPEC, context);

    /// # Safety
    /// The objects are open; buffers and contexts stay valid until completion.
    fi_send(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, to: fi_addr_t,
        context: *mut c_void) -> isize
        = (*(*ep).msg).send(ep, buf, len, desc, to, context);

    /// # Safety
    /// The objects are open; buffers and contexts stay valid until completion; the list itself
    /// may be freed on return.
    fi_sendv(ep: *mut fid_ep, pieces: &[iovec], desc: *mut *mut c_void, to: fi_addr_t,
        context: *mut c_void) -> isize
        = (*(*ep).msg).sendv(ep, pieces.as_ptr(), desc, pieces.len(), to, context);

    /// # Safety
    /// The objects are open; `buf` has `len` bytes, which are read during the call only.
    fi_inject(ep: *mut fid_ep, buf: *const c_void, len: usize, to: fi_addr_t) -> isize
        = (*(*ep).msg).inject(ep, buf, len, to);

    /// # Safety
    /// The objects are open; buffers and contexts stay valid until completion. `ep` was opened
    /// with `FI_RMA`.
    fi_read(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, from: fi_addr_t,
        addr: u64, key: u64, context: *mut c_void) -> isize
        = (*(*ep).rma).read(ep, buf, len, desc, from, addr, key, context);

    /// # Safety
    /// The objects are open; buffers and contexts stay valid until completion. `ep` was opened
    /// with `FI_RMA`. `msg` and what it points to, except the data, may be freed on return.
    fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize
        = (*(*ep).rma).writemsg(ep, msg, flags);

    /// # Safety
    /// The objects are open; `buf` has `len` bytes, at most the provider's inject size, which are read
    /// during the call only. `ep` was opened with `FI_RMA`.
    fi_inject_write(ep: *mut fid_ep, buf: *const c_void, len: usize, to: fi_addr_t, addr: u64,
        key: u64) -> isize
        = (*(*ep).rma).inject(ep, buf, len, to, addr, key);
}

/// # Safety
/// `domain` is open; `attr` is written.
#[inline]
pub unsafe fn fi_query_atomic(
    domain: *mut fid_domain,
    datatype: c_int,
    op: c_int,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    // SAFETY: by the contract, `domain` and its table are valid; the entry is read only if the
    // table is long enough to have it.
    unsafe {
        let ops = (*domain).ops;
        if (*ops).size <= std::mem::offset_of!(fi_ops_domain, query_atomic) {
            return -libc::ENOSYS;
        }
        match (*ops).query_atomic {
            Some(query) => query(domain, datatype, op, attr, flags),
            None => -libc::ENOSYS,
        }
    }
}

/// # Safety
/// `domain` is open and `len` bytes at `buf` stay mapped until the region is closed.
#[inline]
pub unsafe fn fi_mr_reg(
    domain: *mut fid_domain,
    buf: *const c_void,
    len: usize,
    access: u64,
    requested_key: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: by the contract, `domain` and its tables are valid.
    unsafe {
        let reg = (*(*domain).mr).reg;
        let fid = &raw mut (*domain).fid;
        reg(fid, buf, len, access, 0, requested_key, 0, mr, null_mut())
    }
}

/// # Safety
/// The objects are open; buffers and contexts stay valid until completion. `ep` was opened
/// with `FI_ATOMIC`; `buf` and `result` have 8 bytes.
#[inline]
pub unsafe fn fi_fetch_atomic(
    ep: *mut fid_ep,
    buf: *const c_void,
    result: *mut c_void,
    desc: *mut c_void,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    op: c_int,
    context: *mut c_void,
) -> isize {
    // SAFETY: by the contract, `ep` and its table are valid.
    unsafe {
        let call = (*(*ep).atomic).readwrite;
        call(
            ep, buf, 1, desc, result, desc, to, addr, key, FI_UINT64, op, context,
        )
    }
}

/// # Safety
/// The objects are open; buffers and contexts stay valid until completion. `ep` was opened
/// with `FI_ATOMIC`; `buf`, `compare` and `result` have 8 bytes.
#[inline]
pub unsafe fn fi_compare_atomic(
    ep: *mut fid_ep,
    buf: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    desc: *mut c_void,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: by the contract, `ep` and its table are valid.
    unsafe {
        let call = (*(*ep).atomic).compwrite;
        let kind = FI_UINT64;
        call(
            ep, buf, 1, desc, compare, desc, result, desc, to, addr, key, kind, FI_CSWAP, context,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Sizes and offsets as a C compiler gives them for the headers of libfabric 1.17 on x86-64.
    #[test]
    fn layouts_are_those_of_c() {
        assert_eq!(size_of::<fi_info>(), 120);
        assert_eq!(size_of::<fi_tx_attr>(), 80);
        assert_eq!(size_of::<fi_rx_attr>(), 64);
        assert_eq!(size_of::<fi_ep_attr>(), 96);
        assert_eq!(size_of::<fi_domain_attr>(), 192);
        assert_eq!(size_of::<fi_fabric_attr>(), 32);
        assert_eq!(size_of::<fi_av_attr>(), 48);
        assert_eq!(size_of::<fi_cq_attr>(), 40);
        assert_eq!(size_of::<fi_cq_data_entry>(), 40);
        assert_eq!(offset_of!(fi_cq_err_entry, reserved), 80);
        assert_eq!(size_of::<fi_msg_rma>(), 64);
        assert_eq!(size_of::<fid_ep>(), 80);
        assert_eq!(size_of::<fid_mr>(), 40);
        assert_eq!(offset_of!(fi_ops_msg, inject), 56);
        assert_eq!(offset_of!(fi_ops_rma, writemsg), 48);
        assert_eq!(offset_of!(fi_ops_atomic, compwrite), 64);
        assert_eq!(offset_of!(fi_ops_fabric, trywait), 40);
        assert_eq!(offset_of!(fi_ops_domain, query_atomic), 72);
        assert_eq!(offset_of!(fi_ops_cq, strerror), 56);
    }
}
