//! User buffers: the one type through which mpi-core touches the program's memory.

use std::ptr;
use std::slice;

use netmod::IoVec;

use crate::datatype::Datatype;

/// Mean length of runs, in bytes, from which a gather list beats packing: the kernel's work for a run
/// costs about as much as copying this much once more.
const LISTABLE: usize = 1024;

/// `count` elements of a datatype at an address: what a program passes to MPI.
///
/// Gapless data is recognised when the buffer is made, so that hot paths see a pointer and a length.
pub struct Buffer {
    /// Gapless: the first byte of data. Otherwise the buffer's address as MPI means it.
    ptr: *mut u8,
    /// Gapless: the length in bytes. Otherwise the number of elements.
    count: usize,
    /// `None` if gapless.
    layout: Option<Datatype>,
}

// SAFETY: a buffer is an address range that the program has lent to the library until the operation
// completes (MPI-3.1 section 3.7.2); whichever thread makes progress may move the data.
unsafe impl Send for Buffer {}

/// Tells where a debugger finds what a buffer says.
#[cfg(not(loom))]
pub(crate) fn debugger(places: &mut crate::places::Places) {
    use std::mem::offset_of;
    places.add("buffer.address", offset_of!(Buffer, ptr));
    places.add("buffer.count", offset_of!(Buffer, count));
    let gapless = Buffer::EMPTY;
    let gaps = crate::places::within(&gapless, &gapless.layout);
    // SAFETY: what tells one kind of datatype from the other, and from none, begins with this byte.
    let none = unsafe { std::ptr::from_ref(&gapless.layout).cast::<u8>().read() };
    places.add("buffer.layout", gaps);
    places.add("buffer.gapless", none.into());
    let names = [
        ["static.tag", "static.pointer", "static.size"],
        ["shared.tag", "shared.pointer", "shared.size"],
    ];
    for (names, one) in names.iter().zip(Datatype::specimens().iter().flatten()) {
        let start = std::ptr::from_ref(&one.datatype).cast::<u8>();
        // SAFETY: what tells one kind from the other begins with this byte, and the pointer is one word of it.
        let (tag, word) = unsafe { (start.read(), start.add(one.pointer).cast::<usize>().read()) };
        places.add(names[0], tag.into());
        places.add(names[1], one.pointer);
        places.add(names[2], one.size - word);
    }
}

impl Buffer {
    /// No data.
    pub const EMPTY: Buffer = Buffer {
        ptr: ptr::null_mut(),
        count: 0,
        layout: None,
    };

    /// `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The memory must stay valid, for reading if the buffer is sent from and for writing if it is
    /// received into, and not be touched otherwise, until the operation has completed.
    #[inline(always)]
    pub unsafe fn bytes(ptr: *mut u8, len: usize) -> Buffer {
        Buffer {
            ptr,
            count: len,
            layout: None,
        }
    }

    /// `count` elements of `datatype` at `ptr`.
    ///
    /// # Safety
    /// As for [`Buffer::bytes`], for every byte of the data that the datatype describes.
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

    /// The same memory once more, for another operation.
    ///
    /// # Safety
    /// As for [`Buffer::bytes`]: the promise holds for the operation that gets this one, too.
    pub unsafe fn again(&self) -> Buffer {
        Buffer {
            ptr: self.ptr,
            count: self.count,
            layout: self.layout.clone(),
        }
    }

    /// Bytes of data.
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

    /// The data, if it is gapless.
    #[inline(always)]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.layout {
            // SAFETY: `bytes` and `typed` were promised that the memory is valid.
            None if self.count > 0 => Some(unsafe { slice::from_raw_parts(self.ptr, self.count) }),
            None => Some(&[]),
            Some(_) => None,
        }
    }

    /// Where gapless data lies, for transports that write to it.
    #[inline(always)]
    pub fn as_ptr(&self) -> Option<*mut u8> {
        self.layout.is_none().then_some(self.ptr)
    }

    /// Its address, for people.
    pub fn start(&self) -> *mut u8 {
        self.ptr
    }

    /// Whether the data has gaps between runs that are long enough to be named in a gather list rather
    /// than packed.
    pub fn is_listable(&self) -> bool {
        const LOOKED_AT: usize = 32;
        let Some(datatype) = &self.layout else {
            return false;
        };
        let runs = datatype.pieces(self.ptr, self.count, 0, LOOKED_AT);
        let (count, bytes) = runs.fold((0, 0), |(count, bytes), run| (count + 1, bytes + run.1));
        bytes >= count * LISTABLE
    }

    /// Fills `list` with the runs of data from byte `skip` of the packed data on, no more than `len`
    /// bytes of it. Returns how many runs, and how many bytes in them.
    pub fn list(&self, skip: usize, len: usize, list: &mut [IoVec]) -> (usize, usize) {
        let Some(datatype) = &self.layout else {
            return (0, 0);
        };
        let (mut count, mut bytes) = (0, 0);
        for (ptr, run) in datatype.pieces(self.ptr, self.count, skip, list.len()) {
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

    /// Copies the packed data from byte `skip` on to `out`, all of which is within the data.
    #[inline]
    pub fn read(&self, skip: usize, out: &mut [u8]) {
        assert!(skip + out.len() <= self.len());
        match &self.layout {
            // SAFETY: the range lies within memory promised valid for reading; `out` is a
            // reference and so cannot overlap what the program has lent.
            None => unsafe {
                netmod_kit::copy(self.ptr.add(skip), out.as_mut_ptr(), out.len());
            },
            // SAFETY: as promised to `typed`.
            Some(datatype) => unsafe { datatype.pack(self.ptr, self.count, skip, out) },
        }
    }

    /// A copy of the data. `None`: there is no memory for it.
    pub fn to_vec(&self) -> Option<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(self.len()).ok()?;
        match &self.layout {
            // SAFETY: memory promised valid for reading goes to as much that was reserved just now.
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

    /// Writes data to the beginning, as much as there is room for: [`Buffer::write`] for hot paths.
    #[inline(always)]
    pub fn write_all(&mut self, data: &[u8]) {
        match self.layout {
            // SAFETY: `bytes` and `typed` were promised that the memory is valid, and apart from the library's.
            None => unsafe {
                netmod_kit::copy(data.as_ptr(), self.ptr, data.len().min(self.count))
            },
            Some(_) => self.write(0, data),
        }
    }

    /// Writes packed data at byte `skip`; what lies beyond the buffer's end is left out.
    #[inline]
    pub fn write(&mut self, skip: usize, data: &[u8]) {
        let room = self.len().saturating_sub(skip);
        let data = &data[..data.len().min(room)];
        if data.is_empty() {
            return;
        }
        match &self.layout {
            // SAFETY: the range lies within memory promised valid for writing.
            None => unsafe {
                netmod_kit::copy(data.as_ptr(), self.ptr.add(skip), data.len());
            },
            // SAFETY: as promised to `typed`.
            Some(datatype) => unsafe { datatype.unpack(self.ptr, self.count, skip, data) },
        }
    }
}
