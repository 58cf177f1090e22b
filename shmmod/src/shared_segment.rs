//! Memory shared by several processes of a node, of which windows are made.
//!
//! Like a VCI's segment it is an anonymous file that peers open through `/proc`, so that it
//! disappears with the job. The first page identifies the file.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use netmod::{OpenError, RemoteKey, SharedMemory, SharedSegment};
use netmod_kit::usable::page_size;

use crate::anonymous;
use crate::segment::{map_pages, random_nonce};

/// Bytes. Segments up to this length are allocated and mapped as a whole, which costs less than
/// calls for their parts.
const SMALL: usize = 64 << 10;

/// Creates and opens shared segments.
#[derive(Clone, Copy, Default, Debug)]
pub struct SharedSegments;

struct Mapping {
    base: NonNull<u8>,
    /// Length without the first page.
    len: usize,
    key: RemoteKey,
    /// The file, until the segment is settled.
    file: Mutex<Option<File>>,
    /// The file's number in its file system.
    inode: u64,
}

// SAFETY: the mapping outlives `self` on any thread; the users of the segment synchronize their
// accesses.
unsafe impl Send for Mapping {}
// SAFETY: all methods use atomics, locks or the immutable base; the users of the segment
// synchronize their accesses.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn map(file: File, len: usize, key: RemoteKey) -> Result<Mapping, OpenError> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping, placed by the kernel, of a file of this length.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len + page_size(),
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        let base = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED);
        let base = base.ok_or_else(|| {
            failed(
                "mmap",
                len,
                &io::Error::last_os_error(),
                "ask for less, or raise the address-space limit (ulimit -v)",
            )
        })?;
        if len <= SMALL {
            // SAFETY: whole pages of the new mapping, which were allocated when the file was
            // created.
            unsafe {
                map_pages(
                    base.as_ptr(),
                    (len + page_size()).next_multiple_of(page_size()),
                )
            };
        }
        let inode = file.metadata().map_or(0, |metadata| metadata.ino());
        Ok(Mapping {
            base,
            len,
            key,
            file: Mutex::new(Some(file)),
            inode,
        })
    }

    fn nonce(&self) -> &AtomicU64 {
        // SAFETY: the first page is mapped and aligned as long as `self` lives.
        unsafe { self.base.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` mapped this length, and no user of the segment outlives its owner.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.len + page_size());
        }
    }
}

impl SharedSegment for Mapping {
    fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(page_size())
    }

    fn key(&self) -> RemoteKey {
        self.key
    }

    fn reserve(&self, offset: usize, len: usize) -> Result<(), OpenError> {
        if len == 0 {
            return Ok(());
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &*file else {
            return Err(OpenError(
                "internal error: the shared segment is already settled".into(),
            ));
        };
        if self.len <= SMALL {
            return Ok(());
        }
        reserve(file.as_raw_fd(), offset + page_size(), len)?;
        let (first, end) = (
            offset / page_size() * page_size(),
            (offset + len).min(self.len),
        );
        if let Some(len) = end.checked_sub(first) {
            // SAFETY: the range is within the mapping and begins with a page.
            unsafe { map_pages(self.as_ptr().wrapping_add(first), len) };
        }
        Ok(())
    }

    fn seal(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_open(&self) -> bool {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let metadata = file.as_ref().and_then(|file| file.metadata().ok());
        metadata.is_some_and(|metadata| metadata.ino() == self.inode)
    }
}

impl SharedMemory for SharedSegments {
    fn create(&self, len: usize) -> Result<Box<dyn SharedSegment>, OpenError> {
        let file = anonymous::create(c"weft-window").map_err(|error| {
            failed("memfd_create", len, &error, "raise the limit of open files")
        })?;
        let fd = file.as_raw_fd();
        let total = len
            .checked_add(page_size())
            .and_then(|len| u64::try_from(len).ok());
        let sized = match total.filter(|total| i64::try_from(*total).is_ok()) {
            Some(total) => file.set_len(total),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        };
        sized.map_err(|error| {
            OpenError(format!(
                "cannot create {len} bytes of shared memory: {error}"
            ))
        })?;
        reserve(
            fd,
            0,
            if len <= SMALL {
                len + page_size()
            } else {
                page_size()
            },
        )?;
        let mut piece = Mapping::map(file, len, RemoteKey::default())?;
        let nonce = random_nonce(piece.base.as_ptr());
        piece.nonce().store(nonce, Ordering::Release);
        piece.key = RemoteKey {
            address: nonce,
            words: [u64::from(std::process::id()), fd as u64],
        };
        Ok(Box::new(piece))
    }

    fn commits_lazily(&self, len: usize) -> Result<bool, OpenError> {
        crate::overcommit::commits_lazily(len)
    }

    fn prefers_direct_copy(&self) -> bool {
        netmod_kit::Machine::get().has_cheap_kernel_copy()
    }

    fn open(&self, key: &RemoteKey, len: usize) -> Result<Box<dyn SharedSegment>, OpenError> {
        let path = format!("/proc/{}/fd/{}", key.words[0], key.words[1]);
        let open = File::options().read(true).write(true).open(&path);
        let file = open
            .map_err(|error| OpenError(format!("cannot open shared memory at {path}: {error}")))?;
        let stranger = || OpenError(format!("{path} is not the expected shared memory"));
        let total = file.metadata().map_or(0, |metadata| metadata.len());
        if total != (len + page_size()) as u64 {
            return Err(stranger());
        }
        let piece = Mapping::map(file, len, *key)?;
        if piece.nonce().load(Ordering::Acquire) != key.address {
            return Err(stranger());
        }
        Ok(Box::new(piece))
    }
}

/// Allocates pages of a file, so that a shortage is an error here and not a SIGBUS later.
fn reserve(fd: RawFd, offset: usize, len: usize) -> Result<(), OpenError> {
    // SAFETY: the call accesses no memory of this process; the descriptor is open.
    match unsafe { libc::posix_fallocate(fd, offset as libc::off_t, len as libc::off_t) } {
        0 => Ok(()),
        code => Err(OpenError(format!(
            "cannot allocate {len} bytes of shared memory ({}); ask for less, or raise the \
             memory limit of the job or container",
            io::Error::from_raw_os_error(code)
        ))),
    }
}

fn failed(call: &str, len: usize, error: &io::Error, advice: &str) -> OpenError {
    OpenError(format!(
        "cannot create shared memory: {call} failed for {len} bytes ({error}); {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_map_the_same_memory_until_it_is_settled() {
        let own = SharedSegments.create(10_000).unwrap();
        own.reserve(0, 10_000).unwrap();
        let other = SharedSegments.open(&own.key(), 10_000).unwrap();
        // SAFETY: both mappings have 10,000 bytes.
        unsafe {
            own.as_ptr().add(9_999).write(7);
            assert_eq!(other.as_ptr().add(9_999).read(), 7);
        }
        assert!(SharedSegments.open(&own.key(), 9_999).is_err());
        let wrong = RemoteKey {
            address: own.key().address ^ 1,
            ..own.key()
        };
        assert!(SharedSegments.open(&wrong, 10_000).is_err());
        other.seal();
        own.seal();
        assert!(own.reserve(0, 1).is_err());
        assert!(SharedSegments.create(usize::MAX - 100).is_err());
    }

    #[test]
    fn a_segment_whose_descriptor_was_replaced_is_not_open() {
        let own = SharedSegments.create(100).unwrap();
        assert!(own.is_open());
        let fd = own.key().words[1] as RawFd;
        let other = File::open("/dev/null").unwrap();
        // SAFETY: both descriptors are open; the segment's is replaced on purpose, as a program may
        // do.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        assert!(!own.is_open());
        assert!(SharedSegments.open(&own.key(), 100).is_err());
        own.seal();
        assert!(!own.is_open());
    }
}
