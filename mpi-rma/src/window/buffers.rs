//! What a call is about: an origin's buffers, and a place in a target's memory.

use std::borrow::Cow;

use mpi_core::pt2pt::buffer::Buffer;
use mpi_types::datatype::Datatype;
use mpi_types::error::{Class, Error, Result};

/// A buffer of the origin's.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    /// Its address.
    pub base: *mut u8,
    /// How many elements.
    pub count: usize,
    /// Of what.
    pub datatype: &'a Datatype,
}

impl Origin<'_> {
    pub(crate) fn len(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// # Safety
    /// As for [`Buffer::typed`].
    pub(crate) unsafe fn buffer(&self) -> Buffer {
        // SAFETY: the caller's promise.
        unsafe { Buffer::typed(self.base, self.count, self.datatype) }
    }

    /// The data if it is gapless.
    #[inline(always)]
    pub(crate) fn plain(&self) -> Option<*mut u8> {
        let gapless = self.datatype.is_contiguous();
        gapless.then(|| self.base.wrapping_offset(self.datatype.true_lb()))
    }

    /// # Safety
    /// The buffer is readable, and `out` as long as its data.
    pub(crate) unsafe fn pack(&self, out: &mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.datatype.pack(self.base, self.count, 0, out) }
    }

    /// As [`Origin::pack`], of what follows the first `skip` bytes of the data.
    ///
    /// # Safety
    /// The buffer is readable, and `out` no longer than the rest of its data.
    pub(crate) unsafe fn pack_from(&self, skip: usize, out: &mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.datatype.pack(self.base, self.count, skip, out) }
    }

    /// The data in one piece.
    ///
    /// # Safety
    /// The buffer is readable.
    pub(crate) unsafe fn packed(&self) -> Cow<'_, [u8]> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.plain() {
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

/// A place in a target's memory.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The target.
    pub rank: u32,
    /// In its units.
    pub displacement: isize,
    /// How many elements.
    pub count: usize,
    /// Of what.
    pub datatype: &'a Datatype,
}

impl Target<'_> {
    pub(crate) fn len(&self) -> usize {
        self.count * self.datatype.size()
    }
}

/// Whether a call gives a request. Without one, and where it is complete when it returns, it is
/// `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// It doesn't.
    Plain,
    /// It does (`MPI_Rput` and its like), in passive target epochs only.
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
