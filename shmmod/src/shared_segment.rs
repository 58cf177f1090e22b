//! Memory that several processes of a node have mapped: what windows are made of.
//!
//! As a queue's segment it is an anonymous file that peers open through `/proc`, so that nothing is
//! left behind. The first page holds what tells it from any other file.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use netmod::{OpenError, RemoteKey, SharedMemory, SharedSegment};

use crate::segment::{map_pages, random_nonce};

const PAGE: usize = 4096;
/// Pieces up to this length are had and mapped as a whole: that costs less than calls for parts of them.
const SMALL: usize = 64 << 10;

/// Makes and opens pieces.
#[derive(Clone, Copy, Default, Debug)]
pub struct SharedSegments;

struct Mapping {
    base: NonNull<u8>,
    /// Without the first page.
    len: usize,
    key: RemoteKey,
    /// Until it is settled.
    file: Mutex<Option<File>>,
    /// The file's number in its file system.
    inode: u64,
}

// SAFETY: a piece is shared memory; who uses it settles how.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn map(file: File, len: usize, key: RemoteKey) -> Result<Mapping, OpenError> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping, placed by the kernel, of a file that is so long.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len + PAGE,
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
                "ask for less, or raise the address-space limit (ulimit -v)",
            )
        })?;
        if len <= SMALL {
            // SAFETY: the mapping just made, whose pages were taken when the file was made.
            unsafe { map_pages(base.as_ptr(), (len + PAGE).next_multiple_of(PAGE)) };
        }
        let inode = file.metadata().map_or(0, |told| told.ino());
        Ok(Mapping {
            base,
            len,
            key,
            file: Mutex::new(Some(file)),
            inode,
        })
    }

    fn nonce(&self) -> &AtomicU64 {
        // SAFETY: the first page is mapped, and aligned, as long as `self` lives.
        unsafe { self.base.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length by `map`; the owner is done with it.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.len + PAGE);
        }
    }
}

impl SharedSegment for Mapping {
    fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(PAGE)
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
            return Err(OpenError("the piece of shared memory is settled".into()));
        };
        if self.len <= SMALL {
            return Ok(());
        }
        reserve(file.as_raw_fd(), offset + PAGE, len)?;
        let (first, end) = (offset / PAGE * PAGE, (offset + len).min(self.len));
        if let Some(len) = end.checked_sub(first) {
            // SAFETY: within the mapping, from the beginning of a page on.
            unsafe { map_pages(self.as_ptr().wrapping_add(first), len) };
        }
        Ok(())
    }

    fn settle(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_open(&self) -> bool {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let told = file.as_ref().and_then(|file| file.metadata().ok());
        told.is_some_and(|told| told.ino() == self.inode)
    }
}

impl SharedMemory for SharedSegments {
    fn create(&self, len: usize) -> Result<Box<dyn SharedSegment>, OpenError> {
        // SAFETY: the name is a C string; the call returns a new descriptor or -1.
        let fd = unsafe { libc::memfd_create(c"weft-window".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed("memfd_create", len, "raise the limit of open files"));
        }
        // SAFETY: just made, owned by nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        let total = len
            .checked_add(PAGE)
            .and_then(|len| u64::try_from(len).ok());
        let sized = match total.filter(|total| i64::try_from(*total).is_ok()) {
            Some(total) => file.set_len(total),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        };
        sized.map_err(|error| OpenError(format!("no {len} bytes of shared memory: {error}")))?;
        reserve(fd, 0, if len <= SMALL { len + PAGE } else { PAGE })?;
        let mut piece = Mapping::map(file, len, RemoteKey::default())?;
        let nonce = random_nonce(piece.base.as_ptr());
        piece.nonce().store(nonce, Ordering::Release);
        piece.key = RemoteKey {
            address: nonce,
            words: [u64::from(std::process::id()), fd as u64],
        };
        Ok(Box::new(piece))
    }

    fn may_wait(&self, len: usize) -> Result<bool, OpenError> {
        crate::room::may_wait(len)
    }

    fn open(&self, key: &RemoteKey, len: usize) -> Result<Box<dyn SharedSegment>, OpenError> {
        let path = format!("/proc/{}/fd/{}", key.words[0], key.words[1]);
        let open = File::options().read(true).write(true).open(&path);
        let file = open.map_err(|error| {
            OpenError(format!("shared memory at {path} can't be opened: {error}"))
        })?;
        let stranger = || {
            OpenError(format!(
                "{path} is not the shared memory that was announced"
            ))
        };
        let total = file.metadata().map_or(0, |metadata| metadata.len());
        if total != (len + PAGE) as u64 {
            return Err(stranger());
        }
        let piece = Mapping::map(file, len, *key)?;
        if piece.nonce().load(Ordering::Acquire) != key.address {
            return Err(stranger());
        }
        Ok(Box::new(piece))
    }
}

/// Allocated, not only sized: a lack of memory shows here and not as SIGBUS later.
fn reserve(fd: RawFd, offset: usize, len: usize) -> Result<(), OpenError> {
    // SAFETY: plain system call on an open descriptor.
    match unsafe { libc::posix_fallocate(fd, offset as libc::off_t, len as libc::off_t) } {
        0 => Ok(()),
        code => Err(OpenError(format!(
            "no shared memory: {len} bytes could not be allocated ({}); ask for less, or raise the \
             memory limit of the job or container",
            io::Error::from_raw_os_error(code)
        ))),
    }
}

fn failed(call: &str, len: usize, advice: &str) -> OpenError {
    OpenError(format!(
        "no shared memory: {call} failed for {len} bytes ({}); {advice}",
        io::Error::last_os_error()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_a_piece_sees_the_same_memory_until_it_is_settled() {
        let own = SharedSegments.create(10_000).unwrap();
        own.reserve(0, 10_000).unwrap();
        let other = SharedSegments.open(&own.key(), 10_000).unwrap();
        // SAFETY: both map 10,000 bytes.
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
        other.settle();
        own.settle();
        assert!(own.reserve(0, 1).is_err());
        assert!(SharedSegments.create(usize::MAX - 100).is_err());
    }

    #[test]
    fn a_piece_whose_descriptor_has_become_another_file_is_not_open() {
        let own = SharedSegments.create(100).unwrap();
        assert!(own.is_open());
        let fd = own.key().words[1] as RawFd;
        let other = File::open("/dev/null").unwrap();
        // SAFETY: both are open; what the piece was made by is closed by this, which is what a program may do.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        assert!(!own.is_open());
        assert!(SharedSegments.open(&own.key(), 100).is_err());
        own.settle();
        assert!(!own.is_open());
    }
}
