//! A page of memory that the two ranks share beside MPI, through a file: how one tells the other
//! what it has done without sending a message.

use std::fs::OpenOptions;
use std::hint;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::error::Result;

/// The size of the file, in bytes.
pub const SIZE: u64 = 4096;

#[repr(C)]
struct Counters {
    posted: AtomicU64,
    sent: AtomicU64,
}

/// The shared page, mapped for as long as the process lives.
pub struct Page(NonNull<Counters>);

impl Page {
    /// Maps the file, which must have [`SIZE`] bytes.
    pub fn open(file: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(file)?;
        if file.metadata()?.len() < SIZE {
            return Err(crate::error::Error::new("the shared file is too short"));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let address = unsafe {
            let fd = file.as_raw_fd();
            libc::mmap(
                ptr::null_mut(),
                SIZE as usize,
                access,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        NonNull::new(address.cast())
            .map(Self)
            .ok_or_else(|| crate::error::Error::new("the shared file was mapped at address 0"))
    }

    fn counters(&self) -> &Counters {
        // SAFETY: the mapping is never undone, is page-aligned and large enough, and atomics may
        // be shared with another process.
        unsafe { self.0.as_ref() }
    }

    /// Tells that receive number `n` is posted.
    pub fn post(&self, n: u64) {
        self.counters().posted.store(n, Ordering::Release);
    }

    /// Waits until receive number `n` is posted.
    pub fn await_posted(&self, n: u64) {
        wait_for(&self.counters().posted, n);
    }

    /// Tells that message number `n` is sent.
    pub fn send(&self, n: u64) {
        self.counters().sent.store(n, Ordering::Release);
    }

    /// Waits until message number `n` is sent.
    pub fn await_sent(&self, n: u64) {
        wait_for(&self.counters().sent, n);
    }
}

/// Waits for a counter to reach `n`; the other rank may need this core, so it yields.
fn wait_for(counter: &AtomicU64, n: u64) {
    while counter.load(Ordering::Acquire) < n {
        for _ in 0..64 {
            hint::spin_loop();
        }
        thread::yield_now();
    }
}
