//! Array descriptors of choice buffers in `mpi_f08`: those of the standard, and gfortran's own.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use crate::sentinels;

/// The most dimensions of an array.
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
    /// The size of an element, or the length of a string.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Address and length of a string.
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
    /// Unit of the strides in bytes. gfortran leaves it undefined in an allocatable array that an assignment from an
    /// intrinsic function has allocated.
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
        // An element of a larger one: a component, a part of a string, what a polymorphic array has of its declared type.
        let is_part = self.span >= element && self.span % alignment == 0;
        match self.kind {
            0..=CHARACTER if is_part => (self.element, self.span),
            0..=CHARACTER => (self.element, element),
            // CLASS(*): `element` is the size of an address.
            _ => (self.span as usize, self.span),
        }
    }
}

/// A choice buffer.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The address of the first element.
    pub base: *mut c_void,
    /// Bytes.
    pub(crate) element: usize,
    pub(crate) rank: usize,
    /// Size of the elements of a polymorphic array, if that is more than `element`, which is that of its declared
    /// type; or distance of the components of derived type that a pointer points to. 0 in other arrays.
    dynamic: usize,
    /// Whether lower bounds are 0.
    zero_based: bool,
    /// Whether it ends with the call; see [`Section::of_later`].
    temporary: bool,
    /// The first `rank` are there: to fill in all would cost more than most calls do.
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
                let told = first.add(index).read();
                dimension.write(Dimension {
                    extent: told.extent,
                    stride: told.stride,
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
                let told = first.add(index).read();
                zero_based &= told.lower == 0;
                dimension.write(Dimension {
                    extent: told.upper - told.lower + 1,
                    stride: told.stride * unit,
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

    /// Returns the buffer of an operation that goes on after the call.
    ///
    /// gfortran passes a copy of what it has no descriptor for: components and parts of strings (`a%x`, `a(:)(2:3)`),
    /// expressions. It gives the copy the lower bounds 0 and frees it behind the call. Other arrays have the lower
    /// bounds 1, by gfortran from version 12 on, and our module has no descriptors with older ones. Programs that were
    /// compiled with another library's module may come from an older one, so that nothing is known of their arrays.
    #[inline]
    #[must_use]
    pub fn of_later(mut self) -> Section {
        self.temporary = self.zero_based && self.len() > 0 && sentinels::is_linked_by_mpifort();
        self
    }

    /// Whether it ends with the call.
    #[inline(always)]
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Returns the array with elements of the dynamic type, if `total` bytes of a datatype of this extent need it.
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
        // SAFETY: every constructor fills in the first `rank` dimensions, and `rank` is at most `RANKS`.
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

    /// The number of its elements.
    pub(crate) fn len(&self) -> usize {
        let extents = self
            .dimensions()
            .iter()
            .map(|one| one.extent.max(0) as usize);
        extents.product()
    }

    /// Returns whether the buffer can be used as it is. An absent array, as ranks other than the root may pass to a
    /// collective, has meaningless dimensions.
    pub(crate) fn is_plain(&self) -> bool {
        self.base.is_null() || self.is_contiguous() || self.len() == 0
    }

    /// Calls `visit` with the address of each element, in array element order.
    ///
    /// # Safety
    /// The section is the program's.
    pub(crate) unsafe fn each(&self, rank: usize, at: *mut u8, visit: &mut impl FnMut(*mut u8)) {
        let Some(level) = rank.checked_sub(1) else {
            return visit(at);
        };
        let dimension = self.dimensions()[level];
        for index in 0..dimension.extent {
            // SAFETY: the caller's contract: within the array.
            unsafe { self.each(level, at.wrapping_offset(index * dimension.stride), visit) };
        }
    }
}
