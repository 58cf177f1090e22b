//! The fast path of accesses: one block, or one element, of mapped memory, with valid arguments.
//!
//! These functions return no errors, so that they fit in a few dozen instructions
//! (`tests/instructions.txt`). Whatever they do not take is checked and carried out by the slow path
//! (`window/transfer.rs`, `window/accumulate.rs`).

use std::sync::atomic::Ordering;

use crate::epochs::{EPOCHS, EXCLUSIVE, FENCE, LOCK_ALL, SHARED};
use crate::locks::access_guard::AtomicAccess;
use crate::locks::control::full_fence;
use crate::mapped::fast_targets::FastTarget;
use crate::window::Window;
use crate::window::apply::{Reduction, Word};
use mpi_core::wait::skip_progress;
use mpi_types::datatype::Datatype;
use mpi_types::local::calls_never_overlap;
use mpi_types::op::Op;

/// An atomic operation of the processor on one element of a target.
pub trait Update {
    /// What an operation reads of the origin before it begins.
    type Operand<W: Word>;

    /// Reads the operand. `None` if the slow path is needed.
    ///
    /// # Safety
    /// The operand is valid, and as long as the word.
    unsafe fn operand<W: Word>(&self) -> Option<Self::Operand<W>>;

    /// Carries out the operation on the element in a word, and returns the old value.
    ///
    /// # Safety
    /// That of [`Update::operand`], which has returned `operand`.
    unsafe fn apply<W: Word>(&self, word: &W::Atomic, operand: Self::Operand<W>) -> W;
}

/// An operation that the processor has on integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntegerOp {
    /// `MPI_SUM`.
    Add,
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_NO_OP`.
    Read,
    /// `MPI_BAND`.
    And,
    /// `MPI_BOR`.
    Or,
    /// `MPI_BXOR`.
    Xor,
}

/// A reduction of integers, or a replacement or reading of an element of any datatype.
pub struct IntegerUpdate {
    /// The operation.
    pub op: IntegerOp,
    /// The address of the origin's element. `MPI_NO_OP` ignores it.
    pub operand: *const u8,
}

impl Update for IntegerUpdate {
    type Operand<W: Word> = W;

    #[inline(always)]
    unsafe fn operand<W: Word>(&self) -> Option<W> {
        match self.op {
            IntegerOp::Read => Some(W::of(0)),
            // An address with a meaning of its own: NULL, 1, or negative.
            _ if self.operand.addr() as isize <= 1 => None,
            // SAFETY: valid and as long as the word, by this function's contract.
            _ => Some(unsafe { self.operand.cast::<W>().read_unaligned() }),
        }
    }

    #[inline(always)]
    unsafe fn apply<W: Word>(&self, word: &W::Atomic, operand: W) -> W {
        match self.op {
            IntegerOp::Add => W::add(word, operand),
            IntegerOp::Replace => W::swap(word, operand),
            IntegerOp::And => W::and(word, operand),
            IntegerOp::Or => W::or(word, operand),
            IntegerOp::Xor => W::xor(word, operand),
            IntegerOp::Read => W::load(word),
        }
    }
}

/// A reduction of one element by any predefined operation.
pub struct ElementUpdate {
    reduction: Reduction,
    operand: *const u8,
}

impl ElementUpdate {
    /// Returns the reduction of the element at `operand`, which is of a predefined datatype without
    /// gaps. `None` if the operation is not for this datatype.
    pub fn new(op: &Op, datatype: &Datatype, operand: *const u8) -> Option<ElementUpdate> {
        let reduction = Reduction::of(op, datatype)?;
        Some(ElementUpdate { reduction, operand })
    }
}

impl Update for ElementUpdate {
    type Operand<W: Word> = W;

    #[inline(always)]
    unsafe fn operand<W: Word>(&self) -> Option<W> {
        // SAFETY: valid and as long as the word, by this function's contract.
        Some(unsafe { self.operand.cast::<W>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn apply<W: Word>(&self, word: &W::Atomic, operand: W) -> W {
        // SAFETY: the operand is as long as the word, by this function's contract.
        unsafe { self.reduction.change::<W>(word, &raw const operand) }
    }
}

/// A compare-and-swap.
pub struct SwapUpdate {
    /// The address of the value to compare with.
    pub compare: *const u8,
    /// The address of the new value.
    pub new: *const u8,
}

impl Update for SwapUpdate {
    type Operand<W: Word> = ();

    #[inline(always)]
    unsafe fn operand<W: Word>(&self) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    unsafe fn apply<W: Word>(&self, word: &W::Atomic, (): ()) -> W {
        // SAFETY: both are valid and as long as the word, by this function's contract.
        let read = |from: *const u8| unsafe { from.cast::<W>().read_unaligned() };
        W::compare_swap(word, read(self.compare), read(self.new))
    }
}

impl Window {
    /// Returns the address of `len` bytes of a target's memory, if that is mapped and in an epoch.
    #[inline(always)]
    pub fn mapped_range(&self, target: i32, displacement: isize, len: usize) -> Option<*mut u8> {
        self.find(target, displacement, len).map(|found| found.1)
    }

    #[inline(always)]
    fn find(&self, target: i32, displacement: isize, len: usize) -> Option<(&FastTarget, *mut u8)> {
        let place = self.fast.targets.get(target as u32 as usize)?;
        if !self.is_open(target as u32) {
            return None;
        }
        // A negative offset is very large.
        let at = (displacement as i64).checked_mul(place.unit)? as u64;
        let end = at.checked_add(len as u64)?;
        (end <= place.size).then(|| (place, place.here.wrapping_add(at as usize)))
    }

    /// Carries out an atomic operation on an element of `size` bytes: 4 or 8, or with a `MIN` of 1
    /// also 1 or 2. Writes the old value to `result`, unless that is NULL. `None` if the element is
    /// not in mapped memory, or the slow path is needed.
    ///
    /// # Safety
    /// The operands of `update` are elements of `size` bytes; `result` has space for one, or is NULL.
    #[inline(always)]
    pub unsafe fn update<const MIN: usize>(
        &self,
        size: usize,
        update: &impl Update,
        result: *mut u8,
        (target, displacement): (i32, isize),
    ) -> Option<()> {
        // SAFETY: this function has the same contract; words are as long as the element.
        unsafe {
            match size {
                8 => self.update_word::<u64>(update, result.cast(), target, displacement),
                4 => self.update_word::<u32>(update, result.cast(), target, displacement),
                2 if MIN == 1 => {
                    self.update_word::<u16>(update, result.cast(), target, displacement)
                }
                1 if MIN == 1 => self.update_word::<u8>(update, result, target, displacement),
                _ => None,
            }
        }
    }

    /// # Safety
    /// That of [`Window::update`], for elements as long as `W`.
    #[inline(always)]
    unsafe fn update_word<W: Word>(
        &self,
        update: &impl Update,
        result: *mut W,
        target: i32,
        displacement: isize,
    ) -> Option<()> {
        // SAFETY: the operands hold an element of the size of `W` each (`Window::update`).
        let operand = unsafe { update.operand::<W>()? };
        let (place, at) = self.find(target, displacement, size_of::<W>())?;
        if at.addr() & (size_of::<W>() - 1) != 0 {
            return None;
        }
        // SAFETY: both words are in the window's control blocks, which live as long as it does.
        let acting = unsafe {
            AtomicAccess {
                mine: &*self.fast.acting,
                busy: &*place.busy,
                threaded: !calls_never_overlap(),
            }
        };
        if !acting.begin() {
            return None;
        }
        // SAFETY: an aligned word of the target's memory (`find`), changed by atomic operations
        // while this process is acting; the operands are as long, by this function's contract.
        let found = unsafe { update.apply::<W>(&*at.cast::<W::Atomic>(), operand) };
        acting.end();
        // (A comparison of addresses, which callers have compared, too.)
        if result.addr() != 0 {
            // SAFETY: `result` has space for an element, by this function's contract.
            unsafe { result.write_unaligned(found) };
        }
        Some(())
    }

    /// Returns whether `target` is in an access epoch.
    #[inline(always)]
    fn is_open(&self, target: u32) -> bool {
        let epochs = &self.epochs;
        let all = epochs.all.load(Ordering::Relaxed);
        if all & LOCK_ALL != 0 {
            return true;
        }
        if all & FENCE != 0 && !epochs.fence_used.load(Ordering::Relaxed) {
            return false;
        }
        all & FENCE != 0 || epochs.targets.get_fast(target) & EPOCHS != 0
    }

    /// Whether `target` is locked, as requests and flushes need it.
    #[inline(always)]
    pub fn is_locked(&self, target: i32) -> bool {
        let epochs = &self.epochs;
        epochs.all.load(Ordering::Relaxed) & LOCK_ALL != 0
            || epochs.targets.get_fast(target as u32) & (SHARED | EXCLUSIVE) != 0
    }

    /// Whether an access with a request, or a flush, ends at once and without progress. Counts the
    /// call if so.
    #[inline(always)]
    pub fn ends_at_once(&self, target: i32) -> bool {
        self.is_locked(target) && skip_progress()
    }

    /// [`Window::flush_local`].
    #[inline(always)]
    pub fn fast_flush_local(&self, target: i32) -> bool {
        (target as u32 as usize) < self.fast.targets.len() && self.ends_at_once(target)
    }

    /// [`Window::flush`].
    #[inline(always)]
    pub fn fast_flush(&self, target: i32) -> bool {
        let fine = self.fast_flush_local(target);
        if fine {
            full_fence();
        }
        fine
    }

    /// [`Window::sync`].
    #[inline(always)]
    pub fn fast_sync(&self) -> bool {
        let fine = !self.fast.targets.is_empty() && skip_progress();
        if fine {
            full_fence();
        }
        fine
    }
}
