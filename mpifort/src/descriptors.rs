//! Array descriptors of choice buffers in `mpi_f08`: the standard's and gfortran's.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use crate::sentinels;

/// Largest number of dimensions of an array.
const RANKS: usize = 15;

/// `CFI_cdesc_t` (ISO_Fortran_binding.h), without its dimensions, which follow.
#[repr(C)]
#[derive(Debug)]
pub struct Standard {
    base: *mut c_void,
    element: usize,
    version: c_int,
    rank: i8,
    attribute: i8,
    kind: i16,
    dimensions: [StandardDimension; 0],
}

/// A dimension of [`Standard`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct StandardDimension {
    lower: isize,
    /// -1 for the last dimension of an array of assumed size.
    extent: isize,
    /// Bytes from one element to the next.
    stride: isize,
}

impl Standard {
    /// Returns the size of an element, or the length of a string.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Returns address and length of a string.
    pub fn text(&self) -> (*const c_char, usize) {
        (self.base.cast(), self.element)
    }
}

/// The descriptor of gfortran since version 9, without its dimensions, which follow.
#[repr(C)]
#[derive(Debug)]
pub struct Gfortran {
    base: *mut c_void,
    offset: isize,
    element: usize,
    version: c_int,
    rank: i8,
    kind: i8,
    attribute: i16,
    /// Unit of the strides in bytes. gfortran 13 and 14 leave it undefined in a local allocatable
    /// array that an assignment from an intrinsic function has allocated.
    span: isize,
    dimensions: [GfortranDimension; 0],
}

/// A dimension of [`Gfortran`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct GfortranDimension {
    stride: isize,
    lower: isize,
    upper: isize,
}

/// Values of [`Gfortran::kind`].
const DERIVED: i8 = 5;
const CHARACTER: i8 = 6;

impl Gfortran {
    /// Returns the size of an element, and the unit of the strides.
    fn sizes(&self) -> (usize, isize) {
        let element = self.element as isize;
        let alignment = 1 << self.element.trailing_zeros().min(3);
        // The element is part of a larger one: a component, a substring, or the declared type of a
        // polymorphic array.
        let is_part = self.span > element && self.span % alignment == 0 && !self.fills_allocation();
        match self.kind {
            0..=CHARACTER if is_part => (self.element, self.span),
            0..=CHARACTER => (self.element, element),
            // CLASS(*): `element` is the size of an address.
            _ => (self.span as usize, self.span),
        }
    }

    /// Returns the number of elements if they follow each other without gaps.
    fn contiguous_len(&self) -> Option<usize> {
        let first = (&raw const self.dimensions).cast::<GfortranDimension>();
        let mut len: isize = 1;
        for index in 0..usize::try_from(self.rank).ok()?.min(RANKS) {
            // SAFETY: `rank` dimensions follow in memory that gfortran made for all of them.
            let dimension = unsafe { first.add(index).read() };
            if dimension.stride != len {
                return None;
            }
            len = len.checked_mul((dimension.upper - dimension.lower + 1).max(0))?;
        }
        usize::try_from(len).ok()
    }

    /// Returns whether the array, if its unit is the element, is exactly what one call of glibc's
    /// `malloc` returned. An array that is part of a larger one is not, but for a few elements of
    /// less than 24 bytes in all.
    #[cold]
    fn fills_allocation(&self) -> bool {
        /// Bytes: alignment of `malloc`, its smallest block, the size that precedes a block, and
        /// the smallest page.
        const ALIGNMENT: usize = 16;
        const LEAST: usize = 32;
        const HEADER: usize = size_of::<usize>();
        const PAGE: usize = 4096;
        /// Flags in a block's size: all, and that of a block with pages of its own.
        const FLAGS: usize = 7;
        const IS_MAPPED: usize = 2;
        let address = self.base as usize;
        if !cfg!(target_env = "gnu") || address == 0 || !address.is_multiple_of(ALIGNMENT) {
            return false;
        }
        let Some(len) = self.contiguous_len().filter(|len| *len > 0) else {
            return false;
        };
        let bytes = len.saturating_mul(self.element);
        let as_part = (len - 1)
            .saturating_mul(self.span as usize)
            .saturating_add(self.element);
        let before = self.base.cast::<usize>().wrapping_sub(1);
        let header = match address.is_multiple_of(PAGE) {
            // SAFETY: the word before the array is on the page of its first element, which is
            // readable. Its value is only compared.
            false => unsafe { before.read_volatile() },
            true => match read_checked(before) {
                Some(header) => header,
                None => return false,
            },
        };
        let block = header & !FLAGS;
        if header & IS_MAPPED != 0 {
            return block == bytes.saturating_add(2 * HEADER).next_multiple_of(PAGE);
        }
        let least = bytes
            .saturating_add(HEADER)
            .next_multiple_of(ALIGNMENT)
            .max(LEAST);
        // A rest that is too small for a block of its own stays with this one.
        block == least || (block == least + ALIGNMENT && as_part > block - HEADER)
    }
}

/// Reads a word of this process by the kernel. Returns `None` if the word can't be read.
fn read_checked(at: *const usize) -> Option<usize> {
    let mut word = 0usize;
    let iovec = |base: *mut c_void| libc::iovec {
        iov_base: base,
        iov_len: size_of::<usize>(),
    };
    let (to, from) = (iovec((&raw mut word).cast()), iovec(at.cast_mut().cast()));
    // SAFETY: `word` is valid for the bytes; the kernel checks the other address.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    (read == size_of::<usize>() as isize).then_some(word)
}

/// A choice buffer.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The address of the first element.
    pub base: *mut c_void,
    /// Bytes of an element.
    pub(crate) element: usize,
    pub(crate) rank: usize,
    /// Size of a polymorphic array's elements, if more than `element`, the size of its declared
    /// type; or distance of the components of derived type that a pointer refers to. 0 for other
    /// arrays.
    dynamic: usize,
    /// Whether lower bounds are 0.
    zero_based: bool,
    /// Whether the array is freed after the call; see [`Section::of_later`].
    temporary: bool,
    /// Only the first `rank` are initialised: initialising all would cost more than most calls.
    dimensions: [MaybeUninit<Dimension>; RANKS],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    /// Negative for the last dimension of an array of assumed size.
    pub extent: isize,
    /// Bytes from one element to the next.
    pub stride: isize,
}

const NO_DIMENSION: MaybeUninit<Dimension> = MaybeUninit::uninit();

impl Section {
    /// Reads a descriptor of the standard.
    ///
    /// # Safety
    /// The argument points to such a descriptor.
    #[inline]
    pub unsafe fn of_standard(descriptor: *const Standard) -> Section {
        // SAFETY: the caller's contract; `rank` dimensions follow.
        unsafe {
            let rank = usize::try_from((*descriptor).rank).unwrap_or(0).min(RANKS);
            let mut dimensions = [NO_DIMENSION; RANKS];
            let first = (&raw const (*descriptor).dimensions).cast::<StandardDimension>();
            for (index, dimension) in dimensions[..rank].iter_mut().enumerate() {
                let raw = first.add(index).read();
                dimension.write(Dimension {
                    extent: raw.extent,
                    stride: raw.stride,
                });
            }
            Section {
                base: (*descriptor).base,
                element: (*descriptor).element,
                rank,
                dynamic: 0,
                zero_based: false,
                temporary: false,
                dimensions,
            }
        }
    }

    /// Reads a descriptor of gfortran.
    ///
    /// # Safety
    /// The argument points to such a descriptor.
    #[inline]
    pub unsafe fn of_gfortran(descriptor: *const Gfortran) -> Section {
        // SAFETY: the caller's contract; `rank` dimensions follow.
        unsafe {
            let rank = usize::try_from((*descriptor).rank).unwrap_or(0).min(RANKS);
            let mut dimensions = [NO_DIMENSION; RANKS];
            let first = (&raw const (*descriptor).dimensions).cast::<GfortranDimension>();
            let (element, unit) = (*descriptor).sizes();
            let mut zero_based = rank > 0;
            for (index, dimension) in dimensions[..rank].iter_mut().enumerate() {
                let raw = first.add(index).read();
                zero_based &= raw.lower == 0;
                dimension.write(Dimension {
                    extent: raw.upper - raw.lower + 1,
                    stride: raw.stride * unit,
                });
            }
            let is_derived = (*descriptor).kind == DERIVED && unit as usize > element;
            Section {
                base: (*descriptor).base,
                element,
                rank,
                dynamic: if is_derived { unit as usize } else { 0 },
                zero_based,
                temporary: false,
                dimensions,
            }
        }
    }

    /// Returns the buffer of an operation that continues after the call, marked if gfortran frees
    /// it.
    ///
    /// gfortran passes a copy of an array that it has no descriptor for: components and substrings
    /// (`a%x`, `a(:)(2:3)`), expressions. It gives the copy lower bounds of 0 and frees it after
    /// the call. Other arrays have lower bounds of 1 from gfortran 12 on; Weft's module has no
    /// descriptors for older ones. Programs compiled with another library's module may come from an
    /// older gfortran, so that their bounds imply nothing.
    #[inline]
    #[must_use]
    pub fn of_later(mut self) -> Section {
        self.temporary = self.zero_based && self.len() > 0 && sentinels::is_linked_by_mpifort();
        self
    }

    /// Returns whether the array is freed after the call.
    #[inline(always)]
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Returns the array with elements of the dynamic type, if `total` bytes of a datatype of this
    /// extent need it.
    pub(crate) fn of_dynamic_type(&self, total: i128, extent: isize) -> Option<Section> {
        let dynamic = self.dynamic as isize;
        let has = (self.len() * self.element) as i128;
        let is_larger = dynamic > 0 && (extent % dynamic == 0 || total > has);
        is_larger.then_some(Section {
            element: self.dynamic,
            dynamic: 0,
            ..*self
        })
    }

    #[inline(always)]
    pub(crate) fn dimensions(&self) -> &[Dimension] {
        // SAFETY: every constructor fills in the first `rank` dimensions, and `rank` is at most
        // `RANKS`.
        unsafe { std::slice::from_raw_parts(self.dimensions.as_ptr().cast(), self.rank) }
    }

    /// Returns whether the buffer is contiguous and outlives its operation.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = self.element as isize;
        for dimension in self.dimensions() {
            if dimension.extent <= 0 {
                return true;
            }
            if dimension.extent != 1 {
                if dimension.stride != expected {
                    return false;
                }
                expected *= dimension.extent;
            }
        }
        !self.temporary
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        let extents = self
            .dimensions()
            .iter()
            .map(|one| one.extent.max(0) as usize);
        extents.product()
    }

    /// Returns whether the buffer can be used as it is. An absent array, as ranks other than the
    /// root may pass to a collective, has meaningless dimensions.
    pub(crate) fn is_plain(&self) -> bool {
        self.base.is_null() || self.is_contiguous() || self.len() == 0
    }

    /// Calls `visit` with the address of each element, in array element order.
    ///
    /// # Safety
    /// The section is an array of the program that is valid now.
    pub(crate) unsafe fn each(&self, rank: usize, at: *mut u8, visit: &mut impl FnMut(*mut u8)) {
        let Some(level) = rank.checked_sub(1) else {
            return visit(at);
        };
        let dimension = self.dimensions()[level];
        for index in 0..dimension.extent {
            // SAFETY: the caller promises a valid array (`# Safety`), which the element is within.
            unsafe { self.each(level, at.wrapping_offset(index * dimension.stride), visit) };
        }
    }
}
