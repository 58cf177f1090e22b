//! Arguments of an access: the origin's buffers and the target's memory.

use std::borrow::Cow;

use mpi_core::pt2pt::buffer::Buffer;
use mpi_types::datatype::Datatype;
use mpi_types::error::{Class, Error, Result};

/// A buffer of the origin.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    /// Address as the program gave it.
    pub base: *mut u8,
    /// Number of elements.
    pub count: usize,
    /// Type of the elements.
    pub datatype: &'a Datatype,
}

impl Origin<'_> {
    pub(crate) fn len(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Describes the buffer to the point-to-point engine.
    ///
    /// # Safety
    /// The contract of [`Buffer::typed`].
    pub(crate) unsafe fn buffer(&self) -> Buffer {
        // SAFETY: the memory is valid for `count` elements, as `Buffer::typed` asks (# Safety).
        unsafe { Buffer::typed(self.base, self.count, self.datatype) }
    }

    /// Returns the address of the data if it is contiguous.
    #[inline(always)]
    pub(crate) fn contiguous(&self) -> Option<*mut u8> {
        let gapless = self.datatype.is_contiguous();
        gapless.then(|| self.base.wrapping_offset(self.datatype.true_lb()))
    }

    /// Packs the data into `out`.
    ///
    /// # Safety
    /// The buffer is readable, and `out` as long as its data.
    pub(crate) unsafe fn pack(&self, out: &mut [u8]) {
        // SAFETY: the buffer is readable and `out` fits, by this function's contract.
        unsafe { self.datatype.pack(self.base, self.count, 0, out) }
    }

    /// Packs what follows the first `skip` bytes of the data into `out`.
    ///
    /// # Safety
    /// The buffer is readable, and `out` no longer than the rest of its data.
    pub(crate) unsafe fn pack_from(&self, skip: usize, out: &mut [u8]) {
        // SAFETY: the buffer is readable and `out` fits, by this function's contract.
        unsafe { self.datatype.pack(self.base, self.count, skip, out) }
    }

    /// Unpacks `data` into the buffer.
    ///
    /// # Safety
    /// The buffer is writable, and `data` as long as its data.
    pub(crate) unsafe fn unpack(&self, data: &[u8]) {
        // SAFETY: the buffer is writable and `data` fits, by this function's contract.
        unsafe { self.datatype.unpack(self.base, self.count, 0, data) }
    }

    /// Returns the data in one block, copied only if it is not contiguous.
    ///
    /// # Safety
    /// The buffer is readable.
    pub(crate) unsafe fn packed(&self) -> Cow<'_, [u8]> {
        // SAFETY: the buffer is readable, by this function's contract.
        unsafe {
            match self.contiguous() {
                _ if self.len() == 0 => Cow::Borrowed(&[]),
                Some(data) => Cow::Borrowed(std::slice::from_raw_parts(data, self.len())),
                None => {
                    let mut data = vec![0; self.len()];
                    self.pack(&mut data);
                    Cow::Owned(data)
                }
            }
        }
    }
}

/// The result of an accumulate in packed form: the result's buffer itself, if that is contiguous.
pub(crate) struct ResultBuffer<'a> {
    result: Option<Origin<'a>>,
    /// Packed data of a result that is not contiguous.
    packed: Vec<u8>,
}

impl<'a> ResultBuffer<'a> {
    pub fn new(result: Option<Origin<'a>>) -> ResultBuffer<'a> {
        let len = match &result {
            Some(result) if result.contiguous().is_none() => result.len(),
            _ => 0,
        };
        ResultBuffer {
            result,
            packed: vec![0; len],
        }
    }

    /// Returns the address of the packed result, or NULL if none is wanted.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match self.result.map(|result| result.contiguous()) {
            None => std::ptr::null_mut(),
            Some(Some(data)) => data,
            Some(None) => self.packed.as_mut_ptr(),
        }
    }

    /// Unpacks the result into its buffer, if it is not there already.
    ///
    /// # Safety
    /// The result's buffer is writable.
    pub unsafe fn unpack(self) {
        if let Some(result) = self.result
            && result.contiguous().is_none()
        {
            // SAFETY: the buffer is writable by this function's contract, and `packed` as long.
            unsafe { result.unpack(&self.packed) };
        }
    }
}

/// Returns the address `done` bytes behind `start`, or NULL if that is NULL.
pub(crate) fn skip(start: *const u8, done: usize) -> *const u8 {
    match start.is_null() {
        true => start,
        false => start.wrapping_add(done),
    }
}

/// A range of elements in a target's memory.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Rank of the target.
    pub rank: u32,
    /// Displacement in the target's units.
    pub displacement: isize,
    /// Number of elements.
    pub count: usize,
    /// Type of the elements.
    pub datatype: &'a Datatype,
}

impl Target<'_> {
    pub(crate) fn len(&self) -> usize {
        self.count * self.datatype.size()
    }
}

/// Whether a call returns a request. A call that is complete when it returns has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// No request.
    Blocking,
    /// A request (`MPI_Rput` and the like), in passive target epochs only.
    Request,
}

#[inline(always)]
pub(crate) fn same_length(origin: &Origin<'_>, target: &Target<'_>) -> Result<()> {
    if origin.len() == target.len() {
        return Ok(());
    }
    Err(different(origin.len(), target.len()))
}

#[cold]
fn different(origin: usize, target: usize) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "the origin's buffer has {origin} bytes of data and the target's {target}; counts and \
             datatypes must describe the same data"
        ),
    )
}
