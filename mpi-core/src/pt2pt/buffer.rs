//! User buffers: the one type through which mpi-core accesses the program's memory.

use std::ptr;
use std::slice;

use netmod::IoVec;

use crate::datatype::Datatype;

/// Bytes. Mean length of contiguous blocks from which a gather list beats packing: the kernel's
/// work for a block costs about as much as copying this much again.
const LISTABLE: usize = 1024;

/// `count` elements of a datatype at an address, as a program passes them to MPI.
///
/// Contiguous data is recognised at construction, so that hot paths see a pointer and a length.
pub struct Buffer {
    /// Contiguous: the first byte of data. Otherwise the buffer's address as MPI means it.
    ptr: *mut u8,
    /// Contiguous: the length in bytes. Otherwise the number of elements.
    count: usize,
    /// `None` if contiguous.
    layout: Option<Datatype>,
}

// SAFETY: the program lends the address range to the library until the operation completes (MPI-3.1
// section 3.7.2); any thread that makes progress may move the data.
unsafe impl Send for Buffer {}

/// Adds the offsets that a debugger needs to read a buffer.
#[cfg(not(loom))]
pub(crate) fn debugger(layout: &mut crate::layout::Layout) {
    use std::mem::offset_of;
    layout.add("buffer.address", offset_of!(Buffer, ptr));
    layout.add("buffer.count", offset_of!(Buffer, count));
    let gapless = Buffer::EMPTY;
    let gaps = crate::layout::offset_in(&gapless, &gapless.layout);
    // SAFETY: `gapless.layout` is an initialised local of at least one byte, and its discriminant
    // comes first.
    let none = unsafe { std::ptr::from_ref(&gapless.layout).cast::<u8>().read() };
    layout.add("buffer.layout", gaps);
    layout.add("buffer.gapless", none.into());
    let names = [
        ["static.tag", "static.pointer", "static.size"],
        ["shared.tag", "shared.pointer", "shared.size"],
    ];
    for (names, one) in names.iter().zip(Datatype::specimens().iter().flatten()) {
        let start = std::ptr::from_ref(&one.datatype).cast::<u8>();
        // SAFETY: the specimen is initialised; its discriminant comes first, and `one.pointer` is
        // the offset of its pointer.
        let (tag, word) = unsafe { (start.read(), start.add(one.pointer).cast::<usize>().read()) };
        layout.add(names[0], tag.into());
        layout.add(names[1], one.pointer);
        layout.add(names[2], one.size - word);
    }
}

impl Buffer {
    /// A buffer without data.
    pub const EMPTY: Buffer = Buffer {
        ptr: ptr::null_mut(),
        count: 0,
        layout: None,
    };

    /// Makes a buffer of `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The memory must stay valid, for reads in a send and for writes in a receive, and must not be
    /// accessed otherwise until the operation has completed.
    #[inline(always)]
    pub unsafe fn bytes(ptr: *mut u8, len: usize) -> Buffer {
        Buffer {
            ptr,
            count: len,
            layout: None,
        }
    }

    /// Makes a buffer of `count` elements of `datatype` at `ptr`.
    ///
    /// # Safety
    /// Every byte that the datatype describes must stay valid, for reads in a send and for writes
    /// in a receive, and must not be accessed otherwise until the operation has completed.
    #[inline]
    pub unsafe fn typed(ptr: *mut u8, count: usize, datatype: &Datatype) -> Buffer {
        if datatype.is_contiguous() {
            let first = ptr.wrapping_offset(datatype.true_lb());
            Buffer {
                ptr: first,
                count: count * datatype.size(),
                layout: None,
            }
        } else {
            Buffer {
                ptr,
                count,
                layout: Some(datatype.clone()),
            }
        }
    }

    /// Copies the buffer's description for another operation on the same memory.
    ///
    /// # Safety
    /// The promise made to [`Buffer::bytes`] or [`Buffer::typed`] must also hold until the other
    /// operation has completed.
    pub unsafe fn alias(&self) -> Buffer {
        Buffer {
            ptr: self.ptr,
            count: self.count,
            layout: self.layout.clone(),
        }
    }

    /// Number of bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match &self.layout {
            None => self.count,
            Some(datatype) => self.count * datatype.size(),
        }
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the data, if it is contiguous.
    #[inline(always)]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.layout {
            // SAFETY: the caller of `bytes` or `typed` keeps the memory valid until the operation
            // completes.
            None if self.count > 0 => Some(unsafe { slice::from_raw_parts(self.ptr, self.count) }),
            None => Some(&[]),
            Some(_) => None,
        }
    }

    /// Returns the address of contiguous data, for transports that write it.
    #[inline(always)]
    pub fn as_ptr(&self) -> Option<*mut u8> {
        self.layout.is_none().then_some(self.ptr)
    }

    /// Returns the address, for messages.
    pub fn start(&self) -> *mut u8 {
        self.ptr
    }

    /// Whether the data has gaps between blocks that are long enough for a gather list.
    pub fn is_listable(&self) -> bool {
        const LOOKED_AT: usize = 32;
        let Some(datatype) = &self.layout else {
            return false;
        };
        let runs = datatype.blocks(self.ptr, self.count, 0, LOOKED_AT);
        let (count, bytes) = runs.fold((0, 0), |(count, bytes), run| (count + 1, bytes + run.1));
        bytes >= count * LISTABLE
    }

    /// Fills `list` with the contiguous blocks from byte `skip` of the packed data on, up to `len`
    /// bytes. Returns the number of blocks and of bytes.
    pub fn list(&self, skip: usize, len: usize, list: &mut [IoVec]) -> (usize, usize) {
        let Some(datatype) = &self.layout else {
            return (0, 0);
        };
        let (mut count, mut bytes) = (0, 0);
        for (ptr, run) in datatype.blocks(self.ptr, self.count, skip, list.len()) {
            let run = run.min(len - bytes);
            if run == 0 {
                break;
            }
            list[count] = IoVec { ptr, len: run };
            count += 1;
            bytes += run;
        }
        (count, bytes)
    }

    /// Packs data from byte `skip` on into `out`. The range must lie within the data.
    #[inline]
    pub fn read(&self, skip: usize, out: &mut [u8]) {
        assert!(skip + out.len() <= self.len());
        match &self.layout {
            // SAFETY: the range lies within the buffer, whose memory the caller of `bytes` or
            // `typed` keeps valid for reads; `out` is a reference and so cannot overlap memory that
            // the program has lent.
            None => unsafe {
                netmod_kit::copy(self.ptr.add(skip), out.as_mut_ptr(), out.len());
            },
            // SAFETY: the caller of `typed` keeps the described memory valid for reads.
            Some(datatype) => unsafe { datatype.pack(self.ptr, self.count, skip, out) },
        }
    }

    /// Returns a packed copy of the data. `None` if memory is short.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(self.len()).ok()?;
        match &self.layout {
            // SAFETY: reads memory that the caller of `bytes` or `typed` keeps valid, and writes
            // the `len` bytes reserved above, all of which are then initialised.
            None => unsafe {
                netmod_kit::copy(self.ptr, copy.as_mut_ptr(), self.len());
                copy.set_len(self.len());
            },
            Some(_) => {
                copy.resize(self.len(), 0);
                self.read(0, &mut copy);
            }
        }
        Some(copy)
    }

    /// Writes data at the beginning and drops what exceeds the buffer. For hot paths.
    #[inline(always)]
    pub fn write_all(&mut self, data: &[u8]) {
        match self.layout {
            // SAFETY: the caller of `bytes` or `typed` keeps the memory valid for writes, and it is
            // not the library's.
            None => unsafe {
                netmod_kit::copy(data.as_ptr(), self.ptr, data.len().min(self.count))
            },
            Some(_) => self.write(0, data),
        }
    }

    /// Unpacks data at byte `skip` and drops what exceeds the buffer.
    #[inline]
    pub fn write(&mut self, skip: usize, data: &[u8]) {
        let room = self.len().saturating_sub(skip);
        let data = &data[..data.len().min(room)];
        if data.is_empty() {
            return;
        }
        match &self.layout {
            // SAFETY: the range lies within memory that the caller of `bytes` or `typed` keeps
            // valid for writes.
            None => unsafe {
                netmod_kit::copy(data.as_ptr(), self.ptr.add(skip), data.len());
            },
            // SAFETY: the caller of `typed` keeps the described memory valid for writes.
            Some(datatype) => unsafe { datatype.unpack(self.ptr, self.count, skip, data) },
        }
    }
}
