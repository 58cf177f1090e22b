//! Queue pairs and other objects of a device context, closed when dropped.

use crate::calls::{alloc_parent_domain, alloc_td, dealloc_td, errno, errno_text};
use crate::device::{Context, Port};
use crate::ffi::*;
use crate::wire::Address;
use netmod::OpenError;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts of the adapter's resources in use.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) contexts: AtomicUsize,
    pub(crate) thread_domains: AtomicUsize,
    pub(crate) queue_pairs: AtomicUsize,
    pub(crate) completion_queues: AtomicUsize,
    pub(crate) receive_queues: AtomicUsize,
    pub(crate) buffer_bytes: AtomicUsize,
}

/// Adds an amount to a count while it lives.
pub(crate) struct Counted {
    counts: Arc<Counts>,
    which: fn(&Counts) -> &AtomicUsize,
    amount: usize,
}

impl Counted {
    pub(crate) fn new(
        counts: &Arc<Counts>,
        which: fn(&Counts) -> &AtomicUsize,
        amount: usize,
    ) -> Counted {
        which(counts).fetch_add(amount, Ordering::Relaxed);
        Counted {
            counts: counts.clone(),
            which,
            amount,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.which)(&self.counts).fetch_sub(self.amount, Ordering::Relaxed);
    }
}

/// A thread domain, and the protection domain that uses it.
pub(crate) struct ThreadDomain {
    td: *mut ibv_td,
    pub(crate) pd: *mut ibv_pd,
    context: Arc<Context>,
}

// SAFETY: libibverbs' objects may move between threads.
unsafe impl Send for ThreadDomain {}

impl ThreadDomain {
    /// Makes a thread domain. `Err` is an error number.
    pub(crate) fn open(context: &Arc<Context>) -> Result<ThreadDomain, i32> {
        // SAFETY: the context is open.
        let td = unsafe { alloc_td(context.raw)? };
        // SAFETY: the context owns an open protection domain, and `td` was just made.
        match unsafe { alloc_parent_domain(context.raw, context.pd, td) } {
            Ok(pd) => Ok(ThreadDomain {
                td,
                pd,
                context: context.clone(),
            }),
            Err(number) => {
                // SAFETY: the thread domain is open and unused.
                unsafe { dealloc_td(td) };
                Err(number)
            }
        }
    }
}

impl Drop for ThreadDomain {
    fn drop(&mut self) {
        // SAFETY: the domain is open and closed only here; the engine drops its queue pairs before
        // it.
        unsafe {
            (self.context.lib.dealloc_pd)(self.pd);
            dealloc_td(self.td);
        }
    }
}

/// A shared receive queue.
pub(crate) struct Srq {
    pub(crate) raw: *mut ibv_srq,
    pub(crate) depth: usize,
    context: Arc<Context>,
}

// SAFETY: libibverbs' objects may move between threads.
unsafe impl Send for Srq {}

impl Srq {
    pub(crate) fn open(context: &Arc<Context>, depth: usize) -> Result<Srq, OpenError> {
        let mut attr = ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: ibv_srq_attr {
                max_wr: depth as u32,
                max_sge: 1,
                srq_limit: 0,
            },
        };
        // SAFETY: the domain is open, `attr` valid.
        let raw = unsafe { (context.lib.create_srq)(context.pd, &mut attr) };
        if raw.is_null() {
            return Err(OpenError(format!(
                "cannot make a shared receive queue of {depth} entries: {}{}",
                errno_text(errno()),
                memory_hint(errno())
            )));
        }
        Ok(Srq {
            raw,
            depth,
            context: context.clone(),
        })
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: the queue is open and closed only here; the engine drops the queue pairs that use
        // it before it.
        unsafe { (self.context.lib.destroy_srq)(self.raw) };
    }
}

fn memory_hint(number: i32) -> &'static str {
    match number {
        libc::ENOMEM => "; raise the limit on locked memory (ulimit -l)",
        libc::EMFILE | libc::ENFILE => "; raise the limit on open files (ulimit -n)",
        _ => "",
    }
}

/// A queue pair.
pub(crate) struct Qp {
    pub(crate) raw: *mut ibv_qp,
    context: Arc<Context>,
}

// SAFETY: libibverbs' objects may move between threads.
unsafe impl Send for Qp {}

/// Parameters of a queue pair.
pub(crate) struct QpPlan {
    pub(crate) kind: ibv_qp_type,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) cq: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
    pub(crate) send: u32,
    pub(crate) recv: u32,
    pub(crate) inline: u32,
}

/// The key of datagrams; adapters drop datagrams with another key.
pub(crate) const DATAGRAM_KEY: u32 = 0x5765_6674;

impl Qp {
    /// Makes a queue pair, in its initial state. `Err` is an error number.
    pub(crate) fn open(context: &Arc<Context>, plan: &QpPlan) -> Result<Qp, i32> {
        // SAFETY: all fields are numbers and pointers, for which zero is valid.
        let mut attr: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        attr.send_cq = plan.cq;
        attr.recv_cq = plan.cq;
        attr.srq = plan.srq;
        attr.cap.max_send_wr = plan.send;
        attr.cap.max_recv_wr = plan.recv;
        attr.cap.max_send_sge = 1;
        attr.cap.max_recv_sge = 1;
        attr.cap.max_inline_data = plan.inline;
        attr.qp_type = plan.kind;
        attr.sq_sig_all = 0;
        // SAFETY: domain and queues are open: the plan's owner keeps them.
        let raw = unsafe { (context.lib.create_qp)(plan.pd, &mut attr) };
        if raw.is_null() {
            return Err(errno());
        }
        Ok(Qp {
            raw,
            context: context.clone(),
        })
    }

    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the queue pair is open.
        unsafe { (*self.raw).qp_num }
    }

    fn modify(&self, attr: &mut ibv_qp_attr, mask: u32) -> Result<(), i32> {
        // SAFETY: the queue pair is open, `attr` valid.
        match unsafe { (self.context.lib.modify_qp)(self.raw, attr, mask as i32) } {
            0 => Ok(()),
            number => Err(number),
        }
    }

    fn attr(state: ibv_qp_state) -> ibv_qp_attr {
        // SAFETY: all fields are numbers, for which zero is a value.
        let mut attr: ibv_qp_attr = unsafe { std::mem::zeroed() };
        attr.qp_state = state;
        attr
    }

    /// Starts a datagram queue pair.
    pub(crate) fn start_datagrams(&self, port: &Port) -> Result<(), i32> {
        let mut attr = Self::attr(IBV_QPS_INIT);
        attr.port_num = port.number;
        attr.qkey = DATAGRAM_KEY;
        self.modify(
            &mut attr,
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
        )?;
        self.modify(&mut Self::attr(IBV_QPS_RTR), IBV_QP_STATE)?;
        self.modify(&mut Self::attr(IBV_QPS_RTS), IBV_QP_STATE | IBV_QP_SQ_PSN)
    }

    /// Sets the port of a reliable queue pair.
    pub(crate) fn initialize(&self, port: &Port) -> Result<(), i32> {
        let mut attr = Self::attr(IBV_QPS_INIT);
        attr.port_num = port.number;
        attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE
            | IBV_ACCESS_REMOTE_WRITE
            | IBV_ACCESS_REMOTE_READ
            | IBV_ACCESS_REMOTE_ATOMIC;
        self.modify(
            &mut attr,
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        )
    }

    /// Connects a reliable queue pair, which then receives and sends.
    pub(crate) fn connect(&self, port: &Port, plan: &ConnectPlan) -> Result<(), i32> {
        let mut attr = Self::attr(IBV_QPS_RTR);
        attr.path_mtu = plan.mtu;
        attr.dest_qp_num = plan.qpn;
        attr.rq_psn = plan.their_psn;
        attr.max_dest_rd_atomic = plan.reads_in;
        attr.min_rnr_timer = 12;
        attr.ah_attr = route(port, &plan.address);
        self.modify(
            &mut attr,
            IBV_QP_STATE
                | IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
        )?;
        let mut attr = Self::attr(IBV_QPS_RTS);
        attr.timeout = plan.timeout;
        attr.retry_cnt = plan.retries;
        // 7 means unlimited: a receiver that computes is no error.
        attr.rnr_retry = 7;
        attr.sq_psn = plan.our_psn;
        attr.max_rd_atomic = plan.reads_out;
        self.modify(
            &mut attr,
            IBV_QP_STATE
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_SQ_PSN
                | IBV_QP_MAX_QP_RD_ATOMIC,
        )
    }

    /// Ends all pending work requests with errors.
    pub(crate) fn abort(&self) {
        // A queue pair that refuses is already in this state.
        let _ = self.modify(&mut Self::attr(IBV_QPS_ERR), IBV_QP_STATE);
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: the queue pair is open and closed only here.
        unsafe { (self.context.lib.destroy_qp)(self.raw) };
    }
}

/// Parameters for connecting a queue pair to another one.
pub(crate) struct ConnectPlan {
    pub(crate) address: Address,
    pub(crate) qpn: u32,
    pub(crate) our_psn: u32,
    pub(crate) their_psn: u32,
    pub(crate) mtu: ibv_mtu,
    pub(crate) reads_out: u8,
    pub(crate) reads_in: u8,
    pub(crate) timeout: u8,
    pub(crate) retries: u8,
}

/// Returns the route to a port.
fn route(port: &Port, to: &Address) -> ibv_ah_attr {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
    attr.port_num = port.number;
    attr.dlid = to.lid;
    if port.is_ethernet || port.gid[..8] != to.gid[..8] {
        attr.is_global = 1;
        attr.grh.dgid.raw = to.gid;
        attr.grh.sgid_index = port.gid_index;
        attr.grh.hop_limit = 64;
    }
    attr
}

/// An address handle: the route to a datagram queue pair.
pub(crate) struct Ah {
    pub(crate) raw: *mut ibv_ah,
    context: Arc<Context>,
}

// SAFETY: libibverbs' objects may move between threads.
unsafe impl Send for Ah {}

impl Ah {
    pub(crate) fn open(context: &Arc<Context>, port: &Port, to: &Address) -> Result<Ah, i32> {
        let mut attr = route(port, to);
        // SAFETY: the domain is open, `attr` valid.
        let raw = unsafe { (context.lib.create_ah)(context.pd, &mut attr) };
        if raw.is_null() {
            return Err(errno());
        }
        Ok(Ah {
            raw,
            context: context.clone(),
        })
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: the handle is open and closed only here.
        unsafe { (self.context.lib.destroy_ah)(self.raw) };
    }
}
