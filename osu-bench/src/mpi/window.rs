//! A window of memory that ranks read and write directly, with displacements in bytes.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use clap::ValueEnum;

use super::constants::{
    BYTE, INFO_NULL, INT64, LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOCHECK, MODE_NOSUCCEED, SUM,
};
use super::world::{Info, World, check, count};
use crate::error::{Error, Result};
use crate::pages::Pages;

/// Windows are whole pages: MPICH 4.0.2 over UCX accesses the wrong place in windows that
/// `MPI_Win_allocate` made with a size that is not a multiple of 64.
const PAGE: usize = 4096;

/// Whose memory a window is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Memory {
    /// The library's (`MPI_Win_allocate`).
    #[default]
    Allocate,
    /// The program's (`MPI_Win_create`).
    Create,
}

/// How accesses are synchronised.
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

impl<'a> Window<'a> {
    /// Allocates a window and locks it at all ranks.
    pub fn allocate(world: &'a World, length: usize) -> Result<Self> {
        Self::allocate_with(world, length, &[])
    }

    /// Creates a window by [`Window::allocate`] with hints.
    pub fn allocate_with(
        world: &'a World,
        length: usize,
        hints: &[(&CStr, String)],
    ) -> Result<Self> {
        Self::make_with(world, length, Memory::Allocate, Epochs::Flush, hints)
    }

    /// Creates a window for this kind of synchronization.
    pub fn make(world: &'a World, length: usize, memory: Memory, epochs: Epochs) -> Result<Self> {
        Self::make_with(world, length, memory, epochs, &[])
    }

    /// Creates a window by [`Window::make`] with hints.
    pub fn make_with(
        world: &'a World,
        length: usize,
        memory: Memory,
        epochs: Epochs,
        hints: &[(&CStr, String)],
    ) -> Result<Self> {
        let info = match hints {
            [] => None,
            hints => Some(Info::new(world.table(), hints)?),
        };
        let info = info.as_ref().map_or(INFO_NULL, |info| info.handle);
        let bytes = length.max(1).next_multiple_of(PAGE);
        let size = count(bytes)? as isize;
        let (mut base, mut handle) = (std::ptr::null_mut::<c_void>(), 0);
        let mut own = Pages::of(0, 0);
        match memory {
            Memory::Allocate => {
                let allocate = world.table().win_allocate.get()?;
                // SAFETY: MPI writes the address of the memory to `base`, declared void* in C for
                // being a pointer to any pointer, and the window to `handle`.
                let code = unsafe {
                    allocate(
                        size,
                        1,
                        info,
                        world.handle(),
                        (&raw mut base).cast(),
                        &mut handle,
                    )
                };
                check("MPI_Win_allocate", code)?;
            }
            Memory::Create => {
                let create = world.table().win_create.get()?;
                own = Pages::of(0, bytes / size_of::<u64>());
                base = own.as_mut_ptr().cast();
                // SAFETY: the memory is kept as long as the window.
                let code = unsafe { create(base, size, 1, info, world.handle(), &mut handle) };
                check("MPI_Win_create", code)?;
            }
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| Error::new("MPI_Win_allocate gave no memory"))?;
        let mut other = 0;
        match epochs {
            Epochs::Flush => {
                let lock_all = world.table().win_lock_all.get()?;
                // SAFETY: a window just made, in no epoch.
                check("MPI_Win_lock_all", unsafe {
                    lock_all(MODE_NOCHECK, handle)
                })?;
            }
            Epochs::Fence => {
                let fence = world.table().win_fence.get()?;
                // SAFETY: as above; all ranks call it.
                check("MPI_Win_fence", unsafe { fence(0, handle) })?;
            }
            Epochs::Pscw => other = world.group(&[1 - world.rank.min(1)])?,
            Epochs::Lock => {}
        }
        Ok(Self {
            world,
            handle,
            base,
            length,
            epochs,
            other,
            _own: own,
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

    /// What the target does for an access.
    #[inline]
    pub fn expose(&self) -> Result<()> {
        match self.epochs {
            Epochs::Flush | Epochs::Lock => Ok(()),
            Epochs::Fence => self.fence(),
            Epochs::Pscw => self.post(self.other).and_then(|()| self.wait()),
        }
    }

    /// `MPI_Win_fence`.
    pub fn fence(&self) -> Result<()> {
        let fence = self.world.table().win_fence.get()?;
        // SAFETY: a window; all ranks call it.
        check("MPI_Win_fence", unsafe { fence(0, self.handle) })
    }

    /// `MPI_Win_lock`.
    pub fn lock(&self, target: usize, exclusive: bool) -> Result<()> {
        let lock = self.world.table().win_lock.get()?;
        let kind = if exclusive {
            LOCK_EXCLUSIVE
        } else {
            LOCK_SHARED
        };
        // SAFETY: a window.
        check("MPI_Win_lock", unsafe {
            lock(kind, target as c_int, 0, self.handle)
        })
    }

    /// `MPI_Win_unlock`.
    pub fn unlock(&self, target: usize) -> Result<()> {
        let unlock = self.world.table().win_unlock.get()?;
        // SAFETY: a window.
        check("MPI_Win_unlock", unsafe {
            unlock(target as c_int, self.handle)
        })
    }

    /// `MPI_Win_lock_all`, with a lock taken.
    pub fn lock_all(&self) -> Result<()> {
        let lock_all = self.world.table().win_lock_all.get()?;
        // SAFETY: a window.
        check("MPI_Win_lock_all", unsafe { lock_all(0, self.handle) })
    }

    /// `MPI_Win_unlock_all`.
    pub fn unlock_all(&self) -> Result<()> {
        let unlock_all = self.world.table().win_unlock_all.get()?;
        // SAFETY: a window.
        check("MPI_Win_unlock_all", unsafe { unlock_all(self.handle) })
    }

    /// `MPI_Win_post`.
    pub fn post(&self, group: c_int) -> Result<()> {
        let post = self.world.table().win_post.get()?;
        // SAFETY: a window and a group of its ranks.
        check("MPI_Win_post", unsafe { post(group, 0, self.handle) })
    }

    /// `MPI_Win_start`.
    pub fn start(&self, group: c_int) -> Result<()> {
        let start = self.world.table().win_start.get()?;
        // SAFETY: a window and a group of its ranks.
        check("MPI_Win_start", unsafe { start(group, 0, self.handle) })
    }

    /// `MPI_Win_complete`.
    pub fn complete(&self) -> Result<()> {
        let complete = self.world.table().win_complete.get()?;
        // SAFETY: a window.
        check("MPI_Win_complete", unsafe { complete(self.handle) })
    }

    /// `MPI_Win_wait`.
    pub fn wait(&self) -> Result<()> {
        let wait = self.world.table().win_wait.get()?;
        // SAFETY: a window.
        check("MPI_Win_wait", unsafe { wait(self.handle) })
    }

    /// `MPI_Win_sync`.
    pub fn sync(&self) -> Result<()> {
        let sync = self.world.table().win_sync.get()?;
        // SAFETY: a window.
        check("MPI_Win_sync", unsafe { sync(self.handle) })
    }

    /// The library's handle.
    pub fn handle(&self) -> c_int {
        self.handle
    }

    /// Ends the epoch and frees the window; all ranks must call it.
    pub fn free(mut self) -> Result<()> {
        let free = self.world.table().win_free.get()?;
        match self.epochs {
            Epochs::Flush => self.unlock_all()?,
            Epochs::Fence => {
                let fence = self.world.table().win_fence.get()?;
                // SAFETY: a window; all ranks call it.
                check("MPI_Win_fence", unsafe {
                    fence(MODE_NOSUCCEED, self.handle)
                })?;
            }
            Epochs::Pscw => self.world.free_group(self.other)?,
            Epochs::Lock => {}
        }
        // SAFETY: the window is in no epoch, and `self` is used up.
        check("MPI_Win_free", unsafe { free(&mut self.handle) })
    }

    /// Runs `f` on this rank's memory. Other ranks must not access it meanwhile; barriers around
    /// see to that.
    pub fn with_memory<T>(&mut self, f: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        // Only in an epoch; the other ways of synchronisation see to it themselves.
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
        let accumulate = self.world.table().get_accumulate.get()?;
        self.fitting(size_of_val(data).max(size_of_val(found)))?;
        let n = count(data.len().min(found.len()))?;
        let (from, into, to) = (
            data.as_ptr().cast(),
            found.as_mut_ptr().cast(),
            target as c_int,
        );
        // SAFETY: n integers are read and written here, by the caller until the flush, and fit the
        // window.
        let code = unsafe {
            accumulate(
                from,
                n,
                INT64,
                into,
                n,
                INT64,
                to,
                0,
                n,
                INT64,
                SUM,
                self.handle,
            )
        };
        check("MPI_Get_accumulate", code)
    }

    /// `MPI_Fetch_and_op` with `MPI_SUM` at the start of the target's memory, and its end.
    #[inline]
    pub fn fetch_and_add(&self, value: i64, target: usize) -> Result<i64> {
        let fetch_and_op = self.world.table().fetch_and_op.get()?;
        self.fitting(size_of::<i64>())?;
        let mut old = 0_i64;
        self.begin(target)?;
        let (from, to) = ((&raw const value).cast(), (&raw mut old).cast());
        // SAFETY: both places are an integer and live until the flush below.
        let code = unsafe { fetch_and_op(from, to, INT64, target as c_int, 0, SUM, self.handle) };
        check("MPI_Fetch_and_op", code)?;
        self.end(target)?;
        Ok(old)
    }

    /// `MPI_Compare_and_swap` at the start of the target's memory, and its end.
    #[inline]
    pub fn compare_and_swap(&self, expected: i64, value: i64, target: usize) -> Result<i64> {
        let compare_and_swap = self.world.table().compare_and_swap.get()?;
        self.fitting(size_of::<i64>())?;
        let mut old = 0_i64;
        self.begin(target)?;
        let (new, compare) = ((&raw const value).cast(), (&raw const expected).cast());
        let to = (&raw mut old).cast();
        // SAFETY: all three places are an integer and live until the flush below.
        let code =
            unsafe { compare_and_swap(new, compare, to, INT64, target as c_int, 0, self.handle) };
        check("MPI_Compare_and_swap", code)?;
        self.end(target)?;
        Ok(old)
    }

    /// Converts `bytes` to a count, if the window is large enough.
    #[inline]
    fn fitting(&self, bytes: usize) -> Result<c_int> {
        if bytes > self.length {
            return Err(Error::new("an access goes beyond the window"));
        }
        count(bytes)
    }
}
