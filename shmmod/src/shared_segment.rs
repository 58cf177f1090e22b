//! Memory shared by several processes of a node, of which windows are made: ranges of the node's
//! memory, whose first page identifies them.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

use netmod::{OpenError, RemoteKey, SharedMemory, SharedSegment};
use netmod_kit::usable::page_size;

use crate::memory::{Memory, Place, Range, map_pages, reserve};

/// Bytes. Segments up to this length are allocated and mapped as a whole, which costs less than
/// calls for their parts.
const SMALL: usize = 64 << 10;

/// Creates and opens shared segments.
#[derive(Clone, Copy, Default, Debug)]
pub struct SharedSegments;

struct Mapping {
    range: Range,
    /// The file, until the segment is settled.
    file: Mutex<Option<Arc<File>>>,
    /// The file's number in its file system.
    inode: u64,
}

impl Mapping {
    fn over((range, file): (Range, Arc<File>)) -> Mapping {
        if range.len() <= SMALL + page_size() {
            // SAFETY: whole pages of the new mapping, which were allocated when it was made.
            unsafe {
                map_pages(
                    range.base().as_ptr(),
                    range.len().next_multiple_of(page_size()),
                )
            };
        }
        Mapping {
            range,
            inode: file.metadata().map_or(0, |metadata| metadata.ino()),
            file: Mutex::new(Some(file)),
        }
    }

    /// Returns the length without the first page.
    fn len(&self) -> usize {
        self.range.len() - page_size()
    }

    /// Makes a segment of `len` bytes in a range that `create` makes.
    fn create(
        len: usize,
        create: impl FnOnce(usize, usize) -> io::Result<(Range, Arc<File>)>,
    ) -> Result<Mapping, OpenError> {
        let total = len
            .checked_add(page_size())
            .ok_or_else(|| OpenError(format!("cannot create {len} bytes of shared memory")))?;
        let first = if len <= SMALL { total } else { page_size() };
        let made = create(total, first);
        made.map(Mapping::over).map_err(|error| failed(len, &error))
    }
}

impl SharedSegments {
    /// Makes a segment in this memory.
    pub(crate) fn create_in(
        memory: &Memory,
        len: usize,
    ) -> Result<Box<dyn SharedSegment>, OpenError> {
        let create = |total, first| Range::create_in(memory, total, first);
        Ok(Box::new(Mapping::create(len, create)?))
    }
}

impl SharedSegment for Mapping {
    fn as_ptr(&self) -> *mut u8 {
        self.range.base().as_ptr().wrapping_add(page_size())
    }

    fn key(&self) -> RemoteKey {
        self.range.place.key()
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
        if self.len() <= SMALL {
            return Ok(());
        }
        let from = self.range.place.offset + (offset + page_size()) as u64;
        reserve(file, from, len).map_err(|error| failed(len, &error))?;
        let (first, end) = (
            offset / page_size() * page_size(),
            (offset + len).min(self.len()),
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
        Ok(Box::new(Mapping::create(len, Range::create)?))
    }

    fn commits_lazily(&self, len: usize) -> Result<bool, OpenError> {
        crate::overcommit::commits_lazily(len)
    }

    fn prefers_direct_copy(&self) -> bool {
        netmod_kit::Machine::get().has_cheap_kernel_copy()
    }

    fn open(&self, key: &RemoteKey, len: usize) -> Result<Box<dyn SharedSegment>, OpenError> {
        let total = len.saturating_add(page_size());
        let opened = Range::open(&Place::of(key), total)?;
        Ok(Box::new(Mapping::over(opened)))
    }
}

fn failed(len: usize, error: &io::Error) -> OpenError {
    OpenError(format!(
        "cannot allocate {len} bytes of shared memory ({error}); ask for less, or raise the memory limit of \
         the job or container, or the limits of address space (ulimit -v), file sizes (ulimit -f) and open files"
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
        use std::os::fd::AsRawFd;
        let memory = Memory::create().unwrap();
        let own = SharedSegments::create_in(&memory, 100).unwrap();
        assert!(own.is_open());
        let fd = Place::of(&own.key()).fd.cast_signed();
        let other = File::open("/dev/null").unwrap();
        // SAFETY: both descriptors are open; the segment's is replaced on purpose, as a program may
        // do.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        assert!(!own.is_open() && !memory.is_intact());
        assert!(SharedSegments.open(&own.key(), 100).is_err());
        assert!(SharedSegments::create_in(&memory, 100).is_err());
        own.seal();
        assert!(!own.is_open());
    }
}
