//! A window of memory that ranks read and write directly: allocated by MPI, locked for all
//! (passive target), displacements in bytes.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use super::constants::{BYTE, INFO_NULL, INT64, MODE_NOCHECK, SUM};
use super::world::{Info, World, check, count};
use crate::error::{Error, Result};

/// Windows are whole pages: MPICH 4.0.2 over UCX accesses the wrong place in windows that
/// `MPI_Win_allocate` made with a size that is not a multiple of 64.
const PAGE: usize = 4096;

/// A window of `length` bytes at every rank, in an epoch that lasts until [`Window::free`].
pub struct Window<'a> {
    world: &'a World,
    handle: c_int,
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is MPI's and reached by its calls, or through `&mut self`.
unsafe impl Send for Window<'_> {}
// SAFETY: as above; several threads may call MPI at once where it was initialized for that.
unsafe impl Sync for Window<'_> {}

impl<'a> Window<'a> {
    /// Allocates a window and locks it at all ranks.
    pub fn allocate(world: &'a World, length: usize) -> Result<Self> {
        Self::allocate_with(world, length, &[])
    }

    /// As [`Window::allocate`], with hints.
    pub fn allocate_with(
        world: &'a World,
        length: usize,
        hints: &[(&CStr, String)],
    ) -> Result<Self> {
        let info = match hints {
            [] => None,
            hints => Some(Info::new(world.table(), hints)?),
        };
        let allocate = world.table().win_allocate.get()?;
        let lock_all = world.table().win_lock_all.get()?;
        let size = count(length.max(1).next_multiple_of(PAGE))? as isize;
        let (mut base, mut handle) = (std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: MPI writes the address of the memory to `base`, declared void* in C for being
        // a pointer to any pointer, and the window to `handle`.
        let code = unsafe {
            allocate(
                size,
                1,
                info.as_ref().map_or(INFO_NULL, |info| info.handle),
                world.handle(),
                (&raw mut base).cast(),
                &mut handle,
            )
        };
        check("MPI_Win_allocate", code)?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| Error::new("MPI_Win_allocate gave no memory"))?;
        // SAFETY: a window just made, in no epoch.
        check("MPI_Win_lock_all", unsafe {
            lock_all(MODE_NOCHECK, handle)
        })?;
        Ok(Self {
            world,
            handle,
            base,
            length,
        })
    }

    /// Ends the epoch and frees the window; all ranks must call it.
    pub fn free(mut self) -> Result<()> {
        let unlock_all = self.world.table().win_unlock_all.get()?;
        let free = self.world.table().win_free.get()?;
        // SAFETY: the window is in the epoch that `allocate` began.
        check("MPI_Win_unlock_all", unsafe { unlock_all(self.handle) })?;
        // SAFETY: the window is in no epoch, and `self` is used up.
        check("MPI_Win_free", unsafe { free(&mut self.handle) })
    }

    /// Runs `f` on this rank's memory. Other ranks must not access it meanwhile; barriers around
    /// see to that.
    pub fn with_memory<T>(&mut self, f: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        let sync = self.world.table().win_sync.get()?;
        // SAFETY: a window in an epoch.
        check("MPI_Win_sync", unsafe { sync(self.handle) })?;
        // SAFETY: MPI allocated `length` bytes here, zeroed or not: written to before use by
        // `allocate`'s callers or by other ranks; u8 has no invalid values.
        let result = f(unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.length) });
        // SAFETY: as above.
        check("MPI_Win_sync", unsafe { sync(self.handle) })?;
        Ok(result)
    }

    /// Completes everything that this rank started at `target`.
    #[inline]
    pub fn flush(&self, target: usize) -> Result<()> {
        let flush = self.world.table().win_flush.get()?;
        // SAFETY: a window in an epoch.
        check("MPI_Win_flush", unsafe {
            flush(target as c_int, self.handle)
        })
    }

    /// `MPI_Put` to the start of the target's memory.
    ///
    /// # Safety
    /// `data` stays unchanged until the next flush.
    #[inline]
    pub unsafe fn put(&self, data: &[u8], target: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.put_at(data, target, 0) }
    }

    /// `MPI_Put` to the target's memory from `place` on.
    ///
    /// # Safety
    /// As for [`Window::put`].
    #[inline]
    pub unsafe fn put_at(&self, data: &[u8], target: usize, place: usize) -> Result<()> {
        let put = self.world.table().put.get()?;
        self.fitting(place.saturating_add(data.len()))?;
        let n = count(data.len())?;
        let (from, to) = (data.as_ptr().cast(), target as c_int);
        // SAFETY: n bytes are read here, by the caller until the flush, and fit the window.
        check("MPI_Put", unsafe {
            put(from, n, BYTE, to, place as isize, n, BYTE, self.handle)
        })
    }

    /// `MPI_Get` from the start of the target's memory.
    ///
    /// # Safety
    /// `data` stays untouched until the next flush.
    #[inline]
    pub unsafe fn get(&self, data: &mut [u8], target: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.get_at(data, target, 0) }
    }

    /// `MPI_Get` from the target's memory from `place` on.
    ///
    /// # Safety
    /// As for [`Window::get`].
    #[inline]
    pub unsafe fn get_at(&self, data: &mut [u8], target: usize, place: usize) -> Result<()> {
        let get = self.world.table().get.get()?;
        self.fitting(place.saturating_add(data.len()))?;
        let n = count(data.len())?;
        let (to, from) = (data.as_mut_ptr().cast(), target as c_int);
        // SAFETY: n bytes are written here, by the caller until the flush, and fit the window.
        check("MPI_Get", unsafe {
            get(to, n, BYTE, from, place as isize, n, BYTE, self.handle)
        })
    }

    /// `MPI_Accumulate` of 64-bit integers with `MPI_SUM` to the start of the target's memory.
    ///
    /// # Safety
    /// `data` stays unchanged until the next flush.
    #[inline]
    pub unsafe fn accumulate(&self, data: &[i64], target: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_at(data, target, 0) }
    }

    /// `MPI_Accumulate` to the target's memory from `place` on.
    ///
    /// # Safety
    /// As for [`Window::accumulate`].
    #[inline]
    pub unsafe fn accumulate_at(&self, data: &[i64], target: usize, place: usize) -> Result<()> {
        let accumulate = self.world.table().accumulate.get()?;
        self.fitting(place.saturating_add(size_of_val(data)))?;
        let n = count(data.len())?;
        let (from, to) = (data.as_ptr().cast(), target as c_int);
        let place = place as isize;
        // SAFETY: n integers are read here, by the caller until the flush, and fit the window.
        let code = unsafe { accumulate(from, n, INT64, to, place, n, INT64, SUM, self.handle) };
        check("MPI_Accumulate", code)
    }

    /// `MPI_Fetch_and_op` with `MPI_SUM` at the start of the target's memory, and its flush.
    #[inline]
    pub fn fetch_and_add(&self, value: i64, target: usize) -> Result<i64> {
        let fetch_and_op = self.world.table().fetch_and_op.get()?;
        self.fitting(size_of::<i64>())?;
        let mut old = 0_i64;
        let (from, to) = ((&raw const value).cast(), (&raw mut old).cast());
        // SAFETY: both places are an integer and live until the flush below.
        let code = unsafe { fetch_and_op(from, to, INT64, target as c_int, 0, SUM, self.handle) };
        check("MPI_Fetch_and_op", code)?;
        self.flush(target)?;
        Ok(old)
    }

    /// `MPI_Compare_and_swap` at the start of the target's memory, and its flush.
    #[inline]
    pub fn compare_and_swap(&self, expected: i64, value: i64, target: usize) -> Result<i64> {
        let compare_and_swap = self.world.table().compare_and_swap.get()?;
        self.fitting(size_of::<i64>())?;
        let mut old = 0_i64;
        let (new, compare) = ((&raw const value).cast(), (&raw const expected).cast());
        let to = (&raw mut old).cast();
        // SAFETY: all three places are an integer and live until the flush below.
        let code =
            unsafe { compare_and_swap(new, compare, to, INT64, target as c_int, 0, self.handle) };
        check("MPI_Compare_and_swap", code)?;
        self.flush(target)?;
        Ok(old)
    }

    /// `bytes` as a count, if the window has so many.
    #[inline]
    fn fitting(&self, bytes: usize) -> Result<c_int> {
        if bytes > self.length {
            return Err(Error::new("an access goes beyond the window"));
        }
        count(bytes)
    }
}
