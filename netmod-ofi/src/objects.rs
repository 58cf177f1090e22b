//! libfabric's objects of a lane, closed when dropped.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::null_mut;

use crate::ffi::*;
use crate::shared::Shared;

/// libfabric's objects of a lane.
pub(crate) struct Objects {
    pub(crate) ep: *mut fid_ep,
    pub(crate) cq: *mut fid_cq,
    pub(crate) av: *mut fid_av,
}

impl Objects {
    /// Drains the queue. ofi_rxm over verbs (1.17) crashes when an endpoint is closed while a
    /// message is in its queue.
    fn drain(&mut self) {
        for _ in 0..1000 {
            let mut entries = [const { MaybeUninit::<fi_cq_data_entry>::uninit() }; 16];
            // SAFETY: the queue is open and has this format; `entries` has space.
            let got = unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), entries.len()) };
            if got == -FI_EAVAIL {
                // SAFETY: all fields are numbers and pointers, for which zero is valid.
                let mut error: fi_cq_err_entry = unsafe { std::mem::zeroed() };
                // SAFETY: the queue is open, `error` is written.
                if unsafe { fi_cq_readerr(self.cq, &mut error) } <= 0 {
                    break;
                }
            } else if got <= 0 {
                break;
            }
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        if !self.ep.is_null() && !self.cq.is_null() {
            self.drain();
        }
        let objects: [*mut fid; 3] = [self.ep.cast(), self.cq.cast(), self.av.cast()];
        for object in objects {
            if !object.is_null() {
                // SAFETY: the objects are open and closed only here, the endpoint before those
                // bound to it.
                unsafe { fi_close(object) };
            }
        }
    }
}

/// Opens the queue, with a file descriptor to wait on if the provider has one. `Err` is libfabric's
/// code.
pub(crate) fn open_cq(shared: &Shared, objects: &mut Objects) -> Result<Option<RawFd>, i32> {
    let config = &shared.config;
    let mut attr = fi_cq_attr {
        // Space for all operations that the lane can have pending.
        size: config.send_buffers + config.recv_buffers + config.operations,
        flags: 0,
        format: FI_CQ_FORMAT_DATA,
        wait_obj: FI_WAIT_FD,
        signaling_vector: 0,
        wait_cond: 0,
        wait_set: null_mut(),
    };
    if config.wake_up {
        // SAFETY: the domain is open, `attr` is valid, and the call writes `objects.cq`.
        let rc = unsafe { fi_cq_open(shared.domain, &mut attr, &mut objects.cq) };
        if rc == 0 {
            let mut fd: RawFd = -1;
            // SAFETY: the queue is open; for FI_WAIT_FD the call writes a descriptor to `fd`.
            let rc = unsafe {
                fi_control(
                    objects.cq.cast(),
                    FI_GETWAIT,
                    (&raw mut fd).cast::<c_void>(),
                )
            };
            return Ok((rc == 0 && fd >= 0).then_some(fd));
        }
        objects.cq = null_mut();
    }
    attr.wait_obj = FI_WAIT_NONE;
    // SAFETY: the domain is open, `attr` is valid, and the call writes `objects.cq`.
    let rc = unsafe { fi_cq_open(shared.domain, &mut attr, &mut objects.cq) };
    if rc == 0 { Ok(None) } else { Err(rc) }
}
