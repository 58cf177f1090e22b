//! A window of memory that ranks read and write directly, with displacements in bytes.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use clap::ValueEnum;

use super::constants::{
    BYTE, INFO_NULL, INT64, LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOCHECK, MODE_NOSUCCEED, SUM,
};
use super::table::call;
use super::world::{Info, World, count};
use crate::error::{Error, Result};
use crate::pages::Pages;

/// Windows are whole pages: MPICH 4.0.2 over UCX accesses the wrong place in windows that
/// `MPI_Win_allocate` made with a size that is not a multiple of 64.
const PAGE: usize = 4096;

/// The owner of a window's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Memory {
    /// The library's (`MPI_Win_allocate`).
    #[default]
    Allocate,
    /// The program's (`MPI_Win_create`).
    Create,
}

/// The synchronization of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Epochs {
    /// One epoch of `MPI_Win_lock_all` for all; each access ends with `MPI_Win_flush`.
    #[default]
    Flush,
    /// `MPI_Win_lock`, shared, and `MPI_Win_unlock` around each access.
    Lock,
    /// Each access ends with `MPI_Win_fence`.
    Fence,
    /// `MPI_Win_start` and `MPI_Win_complete` around each access, `MPI_Win_post` and `MPI_Win_wait`
    /// at the target.
    Pscw,
}

/// A window of `length` bytes at every rank.
pub struct Window<'a> {
    world: &'a World,
    handle: c_int,
    base: NonNull<u8>,
    length: usize,
    epochs: Epochs,
    /// The group of the other rank of two, for [`Epochs::Pscw`].
    other: c_int,
    /// Memory of the program's.
    _own: Pages<u64>,
}

// SAFETY: the memory is MPI's and reached by its calls, or through `&mut self`.
unsafe impl Send for Window<'_> {}
// SAFETY: as above; several threads may call MPI at once where it was initialized for that.
unsafe impl Sync for Window<'_> {}

/// Defines methods that call a function with numbers and the window's handle alone.
macro_rules! methods {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*)
       => $function:ident($($value:expr),*);)*) => {$(
        $(#[$attribute])*
        #[inline]
        pub fn $name(&self, $($argument: $type),*) -> Result<()> {
            // SAFETY: the call gets numbers and the handle of a live window.
            unsafe { call!(self.world.table(), $function($($value,)* self.handle)) }
        }
    )*};
}

impl Window<'_> {
    methods! {
        /// `MPI_Win_fence`; all ranks must call it.
        fence() => win_fence(0);
        /// `MPI_Win_lock`, exclusive or shared.
        lock(target: usize, exclusive: bool) => win_lock(
            if exclusive { LOCK_EXCLUSIVE } else { LOCK_SHARED }, target as c_int, 0);
        /// `MPI_Win_unlock`.
        unlock(target: usize) => win_unlock(target as c_int);
        /// `MPI_Win_lock_all`, with a lock taken.
        lock_all() => win_lock_all(0);
        /// `MPI_Win_unlock_all`.
        unlock_all() => win_unlock_all();
        /// `MPI_Win_post`.
        post(group: c_int) => win_post(group, 0);
        /// `MPI_Win_start`.
        start(group: c_int) => win_start(group, 0);
        /// `MPI_Win_complete`.
        complete() => win_complete();
        /// `MPI_Win_wait`.
        wait() => win_wait();
        /// `MPI_Win_sync`.
        sync() => win_sync();
        /// Completes everything that this rank started at `target`.
        flush(target: usize) => win_flush(target as c_int);
    }
}

impl<'a> Window<'a> {
    /// Allocates a window with hints and locks it at all ranks.
    pub fn allocate(world: &'a World, length: usize, hints: &[(&CStr, String)]) -> Result<Self> {
        Self::make(world, length, Memory::Allocate, Epochs::Flush, hints)
    }

    /// Creates a window for this kind of synchronization, with hints.
    pub fn make(
        world: &'a World,
        length: usize,
        memory: Memory,
        epochs: Epochs,
        hints: &[(&CStr, String)],
    ) -> Result<Self> {
        let table = world.table();
        let info = match hints {
            [] => None,
            hints => Some(Info::new(table, hints)?),
        };
        let info = info.as_ref().map_or(INFO_NULL, |info| info.handle);
        let bytes = length.max(1).next_multiple_of(PAGE);
        let size = count(bytes)? as isize;
        let (mut base, mut handle) = (std::ptr::null_mut::<c_void>(), 0);
        let mut own = Pages::of(0, 0);
        match memory {
            Memory::Allocate => {
                let (comm, place) = (world.handle(), (&raw mut base).cast());
                // SAFETY: MPI writes the address of the memory to `base`, declared void* in C for
                // being a pointer to any pointer, and the window to `handle`.
                unsafe { call!(table, win_allocate(size, 1, info, comm, place, &mut handle)) }?;
            }
            Memory::Create => {
                own = Pages::of(0, bytes / size_of::<u64>());
                base = own.as_mut_ptr().cast();
                // SAFETY: the memory is kept as long as the window.
                unsafe {
                    call!(
                        table,
                        win_create(base, size, 1, info, world.handle(), &mut handle)
                    )
                }?;
            }
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| Error::new("MPI_Win_allocate gave no memory"))?;
        let window = Self {
            world,
            handle,
            base,
            length,
            epochs,
            other: match epochs {
                Epochs::Pscw => world.group(&[1 - world.rank.min(1)])?,
                _ => 0,
            },
            _own: own,
        };
        match epochs {
            // SAFETY: a window just made, in no epoch.
            Epochs::Flush => unsafe { call!(table, win_lock_all(MODE_NOCHECK, handle)) }?,
            Epochs::Fence => window.fence()?,
            Epochs::Pscw | Epochs::Lock => {}
        }
        Ok(window)
    }

    /// Creates another window on the memory of this one, with hints, and locks it at all ranks.
    ///
    /// # Safety
    /// This window is freed after it.
    pub unsafe fn again(&self, world: &'a World, hints: &[(&CStr, String)]) -> Result<Self> {
        let (table, info) = (world.table(), Info::new(world.table(), hints)?);
        let bytes = count(self.length.max(1).next_multiple_of(PAGE))? as isize;
        let (base, mut handle) = (self.base.as_ptr().cast(), 0);
        // SAFETY: the caller keeps the memory as long as the window, which is new and in no epoch.
        unsafe {
            call!(
                table,
                win_create(base, bytes, 1, info.handle, world.handle(), &mut handle)
            )?;
            call!(table, win_lock_all(MODE_NOCHECK, handle))?;
        }
        Ok(Self {
            world,
            handle,
            _own: Pages::of(0, 0),
            ..*self
        })
    }

    /// Begins an access to `target`.
    #[inline]
    pub fn begin(&self, target: usize) -> Result<()> {
        match self.epochs {
            Epochs::Flush | Epochs::Fence => Ok(()),
            Epochs::Lock => self.lock(target, false),
            Epochs::Pscw => self.start(self.other),
        }
    }

    /// Ends it: it is complete.
    #[inline]
    pub fn end(&self, target: usize) -> Result<()> {
        match self.epochs {
            Epochs::Flush => self.flush(target),
            Epochs::Fence => self.fence(),
            Epochs::Lock => self.unlock(target),
            Epochs::Pscw => self.complete(),
        }
    }

    /// Does the target's part of an access.
    #[inline]
    pub fn expose(&self) -> Result<()> {
        match self.epochs {
            Epochs::Flush | Epochs::Lock => Ok(()),
            Epochs::Fence => self.fence(),
            Epochs::Pscw => self.post(self.other).and_then(|()| self.wait()),
        }
    }

    /// Ends the epoch and frees the window; all ranks must call it.
    pub fn free(mut self) -> Result<()> {
        let table = self.world.table();
        match self.epochs {
            Epochs::Flush => self.unlock_all()?,
            // SAFETY: a window; all ranks call it.
            Epochs::Fence => unsafe { call!(table, win_fence(MODE_NOSUCCEED, self.handle)) }?,
            Epochs::Pscw => self.world.free_group(self.other)?,
            Epochs::Lock => {}
        }
        // SAFETY: the window is in no epoch, and `self` is used up.
        unsafe { call!(table, win_free(&mut self.handle)) }
    }

    /// Runs `f` on this rank's memory. Other ranks must not access it meanwhile; barriers around
    /// see to that.
    pub fn with_memory<T>(&mut self, f: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        // The other kinds of synchronization include it.
        let sync = self.epochs == Epochs::Flush;
        if sync {
            self.sync()?;
        }
        // SAFETY: MPI allocated `length` bytes here, zeroed or not: written to before use by
        // `allocate`'s callers or by other ranks; u8 has no invalid values.
        let result = f(unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.length) });
        if sync {
            self.sync()?;
        }
        Ok(result)
    }

    /// `MPI_Put` to the target's memory from `place` on.
    ///
    /// # Safety
    /// `data` stays unchanged until the next flush.
    #[inline]
    pub unsafe fn put(&self, data: &[u8], target: usize, place: usize) -> Result<()> {
        self.fitting(place.saturating_add(data.len()))?;
        let (n, target, place) = (count(data.len())?, target as c_int, place as isize);
        let (from, window) = (data.as_ptr().cast(), self.handle);
        // SAFETY: n bytes are read here, which the caller keeps until the flush, and fit the
        // window.
        unsafe {
            call!(
                self.world.table(),
                put(from, n, BYTE, target, place, n, BYTE, window)
            )
        }
    }

    /// `MPIX_Win_create_notify`: gives the window a counter at each rank.
    pub fn create_notify(&self) -> Result<()> {
        // SAFETY: a window; all ranks call it.
        unsafe { call!(self.world.table(), win_create_notify(self.handle, 1)) }
    }

    /// `MPIX_Put_notify` to the start of the target's memory, and its counter.
    ///
    /// # Safety
    /// `data` stays unchanged until the next flush.
    #[inline]
    pub unsafe fn put_notify(&self, data: &[u8], target: usize) -> Result<()> {
        self.fitting(data.len())?;
        let (n, to, from) = (count(data.len())?, target as c_int, data.as_ptr().cast());
        let (table, window) = (self.world.table(), self.handle);
        // SAFETY: n bytes are read here, which the caller keeps until the flush, and fit the window.
        unsafe { call!(table, put_notify(from, n, BYTE, to, 0, n, BYTE, 0, window)) }
    }

    /// `MPIX_Win_get_notify` until this rank's counter has a value.
    #[inline]
    pub fn await_notify(&self, value: i64) -> Result<()> {
        let (mut now, table) = (0_i64, self.world.table());
        while now < value {
            // SAFETY: MPI writes the value to an integer.
            unsafe { call!(table, win_get_notify(self.handle, 0, &mut now)) }?;
        }
        Ok(())
    }

    /// `MPI_Get` from the target's memory from `place` on.
    ///
    /// # Safety
    /// `data` stays untouched until the next flush.
    #[inline]
    pub unsafe fn get(&self, data: &mut [u8], target: usize, place: usize) -> Result<()> {
        self.fitting(place.saturating_add(data.len()))?;
        let (n, target, place) = (count(data.len())?, target as c_int, place as isize);
        let (to, window) = (data.as_mut_ptr().cast(), self.handle);
        // SAFETY: n bytes are written here, which the caller keeps until the flush, and fit the
        // window.
        unsafe {
            call!(
                self.world.table(),
                get(to, n, BYTE, target, place, n, BYTE, window)
            )
        }
    }

    /// `MPI_Accumulate` of 64-bit integers to the target's memory from `place` on; `op` is a constant.
    ///
    /// # Safety
    /// `data` stays unchanged until the next flush.
    #[inline]
    pub unsafe fn accumulate(
        &self,
        data: &[i64],
        target: usize,
        place: usize,
        op: c_int,
    ) -> Result<()> {
        self.fitting(place.saturating_add(size_of_val(data)))?;
        let (n, target, place) = (count(data.len())?, target as c_int, place as isize);
        let (from, window) = (data.as_ptr().cast(), self.handle);
        // SAFETY: n integers are read here, which the caller keeps until the flush, and fit the
        // window.
        unsafe {
            call!(
                self.world.table(),
                accumulate(from, n, INT64, target, place, n, INT64, op, window)
            )
        }
    }

    /// `MPI_Get_accumulate` of 64-bit integers with `MPI_SUM` at the start of the target's memory.
    ///
    /// # Safety
    /// `data` stays unchanged and `found` untouched until the next flush.
    #[inline]
    pub unsafe fn get_accumulate(
        &self,
        data: &[i64],
        found: &mut [i64],
        target: usize,
    ) -> Result<()> {
        self.fitting(size_of_val(data).max(size_of_val(found)))?;
        let (n, to) = (count(data.len().min(found.len()))?, target as c_int);
        let (from, into) = (data.as_ptr().cast(), found.as_mut_ptr().cast());
        let (t, window) = (INT64, self.handle);
        // SAFETY: n integers are read and written here, which the caller keeps until the flush, and
        // fit the window.
        unsafe {
            call!(
                self.world.table(),
                get_accumulate(from, n, t, into, n, t, to, 0, n, t, SUM, window)
            )
        }
    }

    /// `MPI_Fetch_and_op` with `MPI_SUM` at `place` in the target's memory, and its end.
    #[inline]
    pub fn fetch_and_add(&self, value: i64, target: usize, place: usize) -> Result<i64> {
        self.fetch_and_op(value, target, place, SUM)
    }

    /// `MPI_Fetch_and_op` at `place` in the target's memory, and its end; `op` is a constant.
    #[inline]
    pub fn fetch_and_op(&self, value: i64, target: usize, place: usize, op: c_int) -> Result<i64> {
        self.fitting(place.saturating_add(size_of::<i64>()))?;
        let mut old = 0_i64;
        self.begin(target)?;
        let (from, to) = ((&raw const value).cast(), (&raw mut old).cast());
        let (table, rank, window) = (self.world.table(), target as c_int, self.handle);
        let place = place as isize;
        // SAFETY: both places are an integer and live until the flush below.
        unsafe {
            call!(
                table,
                fetch_and_op(from, to, INT64, rank, place, op, window)
            )
        }?;
        self.end(target)?;
        Ok(old)
    }

    /// `MPI_Compare_and_swap` at `place` in the target's memory, and its end.
    #[inline]
    pub fn compare_and_swap(
        &self,
        expected: i64,
        value: i64,
        target: usize,
        place: usize,
    ) -> Result<i64> {
        self.fitting(place.saturating_add(size_of::<i64>()))?;
        let mut old = 0_i64;
        self.begin(target)?;
        let (new, compare) = ((&raw const value).cast(), (&raw const expected).cast());
        let (to, table) = ((&raw mut old).cast(), self.world.table());
        let (rank, place, window) = (target as c_int, place as isize, self.handle);
        // SAFETY: all three places are an integer and live until the flush below.
        unsafe {
            call!(
                table,
                compare_and_swap(new, compare, to, INT64, rank, place, window)
            )
        }?;
        self.end(target)?;
        Ok(old)
    }

    /// Checks that an access that ends at `bytes` is within the window.
    #[inline]
    fn fitting(&self, bytes: usize) -> Result<()> {
        match bytes <= self.length {
            true => Ok(()),
            false => Err(Error::new("an access goes beyond the window")),
        }
    }
}
