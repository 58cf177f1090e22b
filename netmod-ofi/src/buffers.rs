//! Eager buffers and the contexts that libfabric returns with completions.

use crate::ffi::{FI_READ, FI_RECV, FI_SEND, FI_WRITE};
use crate::shared::{Region, Shared};
use netmod::{OpenError, Token};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The purpose of an operation, for its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// No operation is pending.
    Idle,
    /// A receive buffer was filled.
    Recv { buffer: u32 },
    /// A message left its send buffer.
    Send { buffer: u32, endpoint: u32 },
    /// The payload of a zero-copy message left the program's memory; its head was in the send
    /// buffer.
    Lent {
        buffer: u32,
        endpoint: u32,
        token: Token,
    },
    /// An empty message left its send buffer.
    Nop { buffer: u32 },
    /// A small put left its send buffer and is visible.
    Put {
        buffer: u32,
        endpoint: u32,
        epoch: u32,
    },
    /// An atomic is complete; its result is in the send buffer.
    Atomic { buffer: u32, op: u32 },
    /// A part of a get or put is complete.
    Part { slot: u32, op: u32 },
}

/// The context of an operation: space for the provider (`struct fi_context2`), then the role.
#[repr(C)]
pub(crate) struct Context {
    provider: [*mut c_void; 8],
    pub(crate) role: Role,
}

/// Contexts at fixed addresses.
struct Contexts(Box<[UnsafeCell<Context>]>);

impl Contexts {
    fn new(count: usize) -> Self {
        let idle = || {
            UnsafeCell::new(Context {
                provider: [null_mut(); 8],
                role: Role::Idle,
            })
        };
        Contexts((0..count).map(|_| idle()).collect())
    }
    /// Sets the role of a context and returns the pointer for libfabric.
    #[inline]
    fn set(&self, index: u32, role: Role) -> *mut c_void {
        let context = self.0[index as usize].get();
        // SAFETY: the context is idle, so libfabric does not use it; the owning lane is borrowed by
        // one caller, and no reference exists.
        unsafe { (*context).role = role };
        context.cast()
    }
}

/// Returns the role of a returned context.
///
/// # Safety
/// `context` was made by [`Buffers`], which still exist.
#[inline]
pub(crate) unsafe fn role(context: *mut c_void) -> Role {
    // SAFETY: the context exists by the caller's contract; its operation is complete, so libfabric
    // no longer uses it.
    unsafe { (*context.cast::<Context>()).role }
}

/// An array of equal buffers.
struct Area {
    base: *mut u8,
    len: usize,
    size: usize,
    region: Option<Region>,
}

impl Area {
    fn new(shared: &Shared, size: usize, count: usize, access: u64) -> Result<Self, OpenError> {
        // Multiples of a cache line, so that buffers share none.
        let size = size.next_multiple_of(128);
        let Some(len) = size.checked_mul(count) else {
            return Err(OpenError(format!(
                "cannot allocate {count} eager buffers of {size} bytes"
            )));
        };
        // Pages are allocated on first use, and most are never used.
        // SAFETY: a new mapping, which touches no other memory.
        let base = unsafe {
            libc::mmap(
                null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(OpenError(format!(
                "cannot allocate {count} eager buffers of {size} bytes"
            )));
        }
        let mut area = Area {
            base: base.cast(),
            len,
            size,
            region: None,
        };
        if shared.needs_local_regions() {
            // SAFETY: the region is dropped before the memory (see `Drop`).
            area.region = Some(unsafe { shared.register(area.base, len, access)? });
        }
        Ok(area)
    }
    #[inline]
    fn at(&self, buffer: u32) -> *mut u8 {
        let offset = buffer as usize * self.size;
        debug_assert!(offset < self.len);
        // SAFETY: buffer numbers come from `Buffers` and are less than the count, so the offset is
        // within the mapping.
        unsafe { self.base.add(offset) }
    }
    fn desc(&self) -> *mut c_void {
        self.region.as_ref().map_or(null_mut(), Region::desc)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: the memory was mapped with this length and is unmapped only here; lanes close the
        // endpoint that used it first.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// The buffers and contexts of a lane.
pub(crate) struct Buffers {
    recv: Area,
    send: Area,
    recv_contexts: Contexts,
    send_contexts: Contexts,
    part_contexts: Contexts,
    free: Vec<u32>,
    free_parts: Vec<u32>,
    sends: usize,
    /// libfabric's descriptor of the send buffers.
    pub(crate) send_desc: *mut c_void,
    /// libfabric's descriptor of the receive buffers.
    pub(crate) recv_desc: *mut c_void,
}

impl Buffers {
    pub(crate) fn new(shared: &Shared) -> Result<Self, OpenError> {
        let config = &shared.config;
        let recv = Area::new(shared, shared.buffer_size, config.recv_buffers, FI_RECV)?;
        // Puts and atomics leave from send buffers, too, and results of atomics arrive there.
        let access = if shared.rma {
            FI_SEND | FI_WRITE | FI_READ
        } else {
            FI_SEND
        };
        let send = Area::new(shared, shared.buffer_size, config.send_buffers, access)?;
        Ok(Buffers {
            send_desc: send.desc(),
            recv_desc: recv.desc(),
            recv,
            send,
            recv_contexts: Contexts::new(config.recv_buffers),
            send_contexts: Contexts::new(config.send_buffers),
            part_contexts: Contexts::new(config.operations),
            free: (0..config.send_buffers as u32).rev().collect(),
            free_parts: (0..config.operations as u32).rev().collect(),
            sends: config.send_buffers,
        })
    }

    /// Takes a free send buffer.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }
    #[inline]
    pub(crate) fn give(&mut self, buffer: u32) {
        debug_assert!(self.free.len() < self.sends);
        self.free.push(buffer);
    }
    /// Takes a context for a part of a get or put.
    #[inline]
    pub(crate) fn take_part(&mut self) -> Option<u32> {
        self.free_parts.pop()
    }
    #[inline]
    pub(crate) fn give_part(&mut self, slot: u32) {
        self.free_parts.push(slot);
    }
    #[inline]
    pub(crate) fn send_at(&self, buffer: u32) -> *mut u8 {
        self.send.at(buffer)
    }
    #[inline]
    pub(crate) fn recv_at(&self, buffer: u32) -> *mut u8 {
        self.recv.at(buffer)
    }
    #[inline]
    pub(crate) fn recv_context(&self, buffer: u32) -> *mut c_void {
        self.recv_contexts.set(buffer, Role::Recv { buffer })
    }
    #[inline]
    pub(crate) fn send_context(&self, buffer: u32, role: Role) -> *mut c_void {
        self.send_contexts.set(buffer, role)
    }
    #[inline]
    pub(crate) fn part_context(&self, slot: u32, op: u32) -> *mut c_void {
        self.part_contexts.set(slot, Role::Part { slot, op })
    }
}
