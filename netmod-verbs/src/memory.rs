//! Registered memory: regions, the registry of live registrations, and pools of eager buffers.
//!
//! An adapter reaches memory only after registration, which pins its pages and costs microseconds.
//! A registration that outlives its mapping would refer to pages that the program no longer has. To
//! notice that, a library must catch every call that unmaps memory, over which two libraries in one
//! program can conflict, or have the kernel serve it page faults (`userfaultfd`), which programs
//! may use themselves. So a registration lives exactly as long as the memory is guaranteed to stay:
//! while it is exposed, or while an operation uses it. Meanwhile all users of the same memory share
//! one registration.

use crate::calls::{errno, errno_text};
use crate::device::Context;
use crate::ffi::*;
use netmod::OpenError;
use rustix::process::{Resource, getrlimit};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A registration, ended when dropped.
pub(crate) struct Region {
    raw: *mut ibv_mr,
    base: usize,
    len: usize,
    /// Whether the adapter may write to it.
    writable: bool,
    context: Arc<Context>,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for Region {}
// SAFETY: libibverbs' objects may be used from any thread, and a shared reference only reads plain
// fields.
unsafe impl Sync for Region {}

impl Region {
    /// Returns the key for work requests of this process.
    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the region is open.
        unsafe { (*self.raw).lkey }
    }
    /// Returns the key for work requests of peers.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: the region is open.
        unsafe { (*self.raw).rkey }
    }
    fn covers(&self, base: usize, len: usize, writable: bool) -> bool {
        self.base <= base && base + len <= self.base + self.len && (self.writable || !writable)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is open and closed only here.
        unsafe { (self.context.lib.dereg_mr)(self.raw) };
    }
}

/// Access rights of peers and the adapter to writable memory.
const ALL: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_ATOMIC;

/// Registers memory for all accesses, or for reading only if not `writable`.
///
/// # Safety
/// The memory stays mapped as long as the region lives.
unsafe fn register(
    context: &Arc<Context>,
    base: *mut u8,
    len: usize,
    writable: bool,
) -> Result<Region, i32> {
    let access = if writable {
        ALL
    } else {
        IBV_ACCESS_REMOTE_READ
    };
    // SAFETY: the context's domain is open, and the memory stays mapped by the caller's contract.
    let raw = unsafe { (context.lib.reg_mr)(context.pd, base.cast(), len, access as i32) };
    if raw.is_null() {
        return Err(errno());
    }
    Ok(Region {
        raw,
        base: base as usize,
        len,
        writable,
        context: context.clone(),
    })
}

/// Returns the error of a failed registration, with a remedy.
pub(crate) fn refusal(base: *const u8, len: usize, number: i32) -> OpenError {
    let hint = if number == libc::ENOMEM || number == libc::EAGAIN {
        if let Some(limit) = getrlimit(Resource::Memlock).current {
            format!(
                "; this process may lock {} KiB: raise the limit on locked memory (`ulimit -l \
                 unlimited`, or memlock in /etc/security/limits.conf; under Slurm, \
                 PropagateResourceLimitsExcept=MEMLOCK)",
                limit / 1024
            )
        } else {
            "; the adapter or the system is out of memory for registrations".to_string()
        }
    } else {
        String::new()
    };
    OpenError(format!(
        "cannot register {len} bytes at {base:p} with the adapter: {}{hint}",
        errno_text(number)
    ))
}

/// The live registrations of one device context.
pub(crate) struct Registry {
    pub(crate) context: Arc<Context>,
    alive: Mutex<BTreeMap<(usize, usize), Weak<Region>>>,
}

/// Neighbours that are checked for one that covers a range.
const LOOK_BACK: usize = 4;

impl Registry {
    pub(crate) fn new(context: Arc<Context>) -> Registry {
        Registry {
            context,
            alive: Mutex::default(),
        }
    }

    /// Returns a live registration that covers the memory, or a new one. If not `writable`, the
    /// memory may be read-only.
    ///
    /// # Safety
    /// The memory stays mapped as long as the region is held.
    pub(crate) unsafe fn get(
        &self,
        base: *mut u8,
        len: usize,
        writable: bool,
    ) -> Result<Arc<Region>, i32> {
        let start = base as usize;
        {
            let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
            // The memory of each is mapped, as its holder has promised.
            let found = alive
                .range(..=(start, usize::MAX))
                .rev()
                .take(LOOK_BACK)
                .filter_map(|(_, region)| region.upgrade())
                .find(|region| region.covers(start, len, writable));
            if let Some(region) = found {
                return Ok(region);
            }
        }
        // SAFETY: the memory stays mapped while the region is held, by the caller's contract.
        // Writable memory is registered for all accesses, so that other users can share it.
        let region = match unsafe { register(&self.context, base, len, true) } {
            Ok(region) => region,
            // SAFETY: the memory stays mapped while the region is held, by the caller's contract.
            Err(libc::EFAULT | libc::EACCES | libc::EPERM) if !writable => unsafe {
                register(&self.context, base, len, false)?
            },
            Err(number) => return Err(number),
        };
        let region = Arc::new(region);
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        // Bounds the table: dead entries are removed each time that its size has doubled.
        if alive.len() >= 64 && alive.len().is_power_of_two() {
            alive.retain(|_, region| region.strong_count() > 0);
        }
        alive.insert((start, len), Arc::downgrade(&region));
        Ok(region)
    }
}

/// An array of equal registered buffers.
pub(crate) struct Area {
    base: *mut u8,
    layout: Layout,
    size: usize,
    region: Option<Region>,
}

// SAFETY: the area owns its memory and its region.
unsafe impl Send for Area {}

impl Area {
    pub(crate) fn new(
        context: &Arc<Context>,
        size: usize,
        count: usize,
    ) -> Result<Self, OpenError> {
        // Multiples of a cache line pair, so that buffers share none.
        let size = size.next_multiple_of(128);
        let layout = Layout::from_size_align(size * count, 4096)
            .map_err(|_| OpenError(format!("cannot allocate {count} buffers of {size} bytes")))?;
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        let mut area = Area {
            base,
            layout,
            size,
            region: None,
        };
        // SAFETY: the region is dropped before the memory (see `Drop`).
        let region = unsafe { register(context, base, layout.size(), true) };
        area.region = Some(region.map_err(|number| refusal(base, layout.size(), number))?);
        Ok(area)
    }

    #[inline]
    pub(crate) fn at(&self, buffer: usize) -> *mut u8 {
        let offset = buffer * self.size;
        debug_assert!(offset < self.layout.size());
        // SAFETY: buffer numbers are less than the count, so the offset is within the allocation.
        unsafe { self.base.add(offset) }
    }

    #[inline]
    pub(crate) fn lkey(&self) -> u32 {
        self.region.as_ref().map_or(0, Region::lkey)
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: the memory was allocated with this layout and is freed only here; the owners drop
        // the queues that used it first.
        unsafe { dealloc(self.base, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = refusal(std::ptr::null(), 4096, libc::EFAULT).to_string();
        assert!(
            refused.contains("4096 bytes") && !refused.contains("ulimit"),
            "{refused}"
        );
        let refused = refusal(std::ptr::null(), 4096, libc::ENOMEM).to_string();
        let is_limited = getrlimit(Resource::Memlock).current.is_some();
        assert_eq!(
            refused.contains("ulimit -l unlimited"),
            is_limited,
            "{refused}"
        );
    }
}
