//! Datatypes (MPI-3.1 chapter 4).
//!
//! A [`Datatype`] says which bytes of a buffer belong to a message and in which order. It never
//! changes once made, is cheap to clone and may be shared between threads.

mod layout;
pub mod predefined;

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::{Class, Error, Result};
use layout::Node;
pub use predefined::{Group, Kind, Predefined};

/// A datatype, predefined or derived.
///
/// Clones of a derived type count references; a clone of a predefined one writes to no shared
/// memory at all.
#[derive(Clone)]
pub struct Datatype(Repr);

#[derive(Clone)]
enum Repr {
    Static(&'static Inner),
    Shared(Arc<Inner>),
}

struct Inner {
    name: Option<Predefined>,
    element: Option<Predefined>,
    size: usize,
    lb: i64,
    ub: i64,
    true_lb: i64,
    true_ub: i64,
    contiguous: bool,
    layout: Node,
}

static PREDEFINED: LazyLock<Box<[Inner]>> = LazyLock::new(|| {
    let table = Predefined::TABLE.iter();
    table.map(|&(p, ..)| Inner::predefined(p)).collect()
});

impl Inner {
    fn predefined(p: Predefined) -> Inner {
        let kind = p.kind();
        let layout = match kind {
            Kind::ShortInt => Node::Blocks([(0, 2), (4, 4)].into()),
            _ => Node::Run(0, kind.size()),
        };
        let true_ub = match kind {
            Kind::ShortInt => 8,
            _ => kind.size() as i64,
        };
        Inner {
            name: Some(p),
            element: Some(p),
            size: kind.size(),
            lb: 0,
            ub: kind.extent() as i64,
            true_lb: 0,
            true_ub,
            contiguous: kind.size() == kind.extent(),
            layout,
        }
    }
}

impl Datatype {
    /// The datatype that MPI knows as `p`.
    pub fn predefined(p: Predefined) -> Datatype {
        Datatype(Repr::Static(&PREDEFINED[p as usize]))
    }

    fn inner(&self) -> &Inner {
        match &self.0 {
            Repr::Static(inner) => inner,
            Repr::Shared(inner) => inner,
        }
    }

    /// `count` elements of `self`, one after the other (`MPI_Type_contiguous`).
    pub fn contiguous(&self, count: i64) -> Result<Datatype> {
        let old = self.inner();
        let count = usize::try_from(count).map_err(|_| {
            Error::new(
                Class::Count,
                format!("count is {count}; it must be 0 or more"),
            )
        })?;
        let too_large = || {
            Error::new(
                Class::Arg,
                format!("{count} elements of {self} are larger than the address space"),
            )
        };
        let size = old.size.checked_mul(count).ok_or_else(too_large)?;
        let last = i64::try_from(count.saturating_sub(1)).map_err(|_| too_large())?;
        let shift = (old.ub - old.lb).checked_mul(last).ok_or_else(too_large)?;
        let (low, high) = (shift.min(0), shift.max(0));
        let add = |a: i64, b: i64| a.checked_add(b).ok_or_else(too_large);
        let empty = count == 0;
        Ok(Datatype(Repr::Shared(Arc::new(Inner {
            name: None,
            element: old.element,
            size,
            lb: if empty { 0 } else { add(old.lb, low)? },
            ub: if empty { 0 } else { add(old.ub, high)? },
            true_lb: if empty { 0 } else { add(old.true_lb, low)? },
            true_ub: if empty { 0 } else { add(old.true_ub, high)? },
            contiguous: old.contiguous || empty,
            layout: Node::repeat(&old.layout, count, old.ub - old.lb),
        }))))
    }

    /// Bytes of data in one element (`MPI_Type_size`): gaps do not count.
    pub fn size(&self) -> usize {
        self.inner().size
    }

    /// Bytes from one element to the next; may be negative (`MPI_Type_get_extent`).
    pub fn extent(&self) -> isize {
        (self.inner().ub - self.inner().lb) as isize
    }

    /// Lower bound, in bytes from an element's address (`MPI_Type_get_extent`).
    pub fn lb(&self) -> isize {
        self.inner().lb as isize
    }

    /// Where data begins, in bytes from an element's address (`MPI_Type_get_true_extent`).
    pub fn true_lb(&self) -> isize {
        self.inner().true_lb as isize
    }

    /// Bytes from the first to the last byte of data (`MPI_Type_get_true_extent`).
    pub fn true_extent(&self) -> isize {
        (self.inner().true_ub - self.inner().true_lb) as isize
    }

    /// Whether `count` elements are one run of `count * size()` bytes without gaps, in order,
    /// that starts [`true_lb`](Self::true_lb) bytes from the buffer's address, for every `count`.
    pub fn is_contiguous(&self) -> bool {
        self.inner().contiguous
    }

    /// Which predefined datatype this is, if it is one.
    pub fn as_predefined(&self) -> Option<Predefined> {
        self.inner().name
    }

    /// The one predefined datatype that the whole type map consists of, if so.
    pub fn element(&self) -> Option<Predefined> {
        self.inner().element
    }

    /// Copies bytes `skip` to `skip + out.len()` of the packed form of `count` elements at
    /// `base` to `out`.
    ///
    /// # Safety
    /// The data of `count` elements at `base` must be readable and not overlap `out`, and
    /// `skip + out.len()` must not exceed `count * size()`.
    pub unsafe fn pack(&self, base: *const u8, count: usize, skip: usize, out: &mut [u8]) {
        let inner = self.inner();
        debug_assert!(skip + out.len() <= inner.size * count);
        let mut to = out.as_mut_ptr();
        let mut copy = |offset: i64, len: usize| {
            // SAFETY: the caller vouches for the user's buffer; the walk visits `out.len()` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(base.wrapping_offset(offset as isize), to, len);
                to = to.add(len);
            }
        };
        inner.walk(count, skip, out.len(), &mut copy);
    }

    /// Copies `data` to bytes `skip` to `skip + data.len()` of the packed form of `count`
    /// elements at `base`.
    ///
    /// # Safety
    /// The data of `count` elements at `base` must be writable and not overlap `data`, and
    /// `skip + data.len()` must not exceed `count * size()`.
    pub unsafe fn unpack(&self, base: *mut u8, count: usize, skip: usize, data: &[u8]) {
        let inner = self.inner();
        debug_assert!(skip + data.len() <= inner.size * count);
        let mut from = data.as_ptr();
        let mut copy = |offset: i64, len: usize| {
            // SAFETY: the caller vouches for the user's buffer; the walk visits `data.len()` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(from, base.wrapping_offset(offset as isize), len);
                from = from.add(len);
            }
        };
        inner.walk(count, skip, data.len(), &mut copy);
    }
}

impl Inner {
    fn walk(&self, count: usize, skip: usize, len: usize, visit: &mut impl FnMut(i64, usize)) {
        if len == 0 {
            return;
        }
        if self.contiguous {
            visit(self.true_lb + skip as i64, len);
            return;
        }
        let extent = self.ub - self.lb;
        layout::walk_loop(&self.layout, count, extent, 0, skip, len, visit);
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_predefined() {
            Some(p) => f.write_str(p.name()),
            None => write!(f, "derived datatype of {} bytes", self.size()),
        }
    }
}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_of_ints_is_one_run() {
        let t = Datatype::predefined(Predefined::Int).contiguous(5).unwrap();
        assert_eq!((t.size(), t.extent(), t.lb()), (20, 20, 0));
        assert!(t.is_contiguous());
        let data: Vec<u8> = (0..40).collect();
        let mut out = [0; 7];
        // SAFETY: two elements of 20 bytes are there.
        unsafe { t.pack(data.as_ptr(), 2, 17, &mut out) };
        assert_eq!(out, [17, 18, 19, 20, 21, 22, 23]);
    }

    #[test]
    fn short_int_skips_its_gap() {
        let t = Datatype::predefined(Predefined::ShortInt)
            .contiguous(2)
            .unwrap();
        assert_eq!((t.size(), t.extent()), (12, 16));
        let data: Vec<u8> = (0..16).collect();
        let mut out = [0; 9];
        // SAFETY: one element of extent 16 is there.
        unsafe { t.pack(data.as_ptr(), 1, 1, &mut out) };
        assert_eq!(out, [1, 4, 5, 6, 7, 8, 9, 12, 13]);
        let mut back = [0u8; 16];
        // SAFETY: as above.
        unsafe { t.unpack(back.as_mut_ptr(), 1, 1, &out) };
        assert_eq!(back, [0, 1, 0, 0, 4, 5, 6, 7, 8, 9, 0, 0, 12, 13, 0, 0]);
    }
}
