//! Reductions in a window's memory: the blocks of elements, and how each element changes.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::window::runs::{Run, RunList};
use mpi_types::datatype::{Datatype, Kind, Predefined};
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::{Kernel, Level, Op, PredefinedOp, select};

/// Bytes of the longest element in memory.
const LONGEST: usize = 32;

/// An operation on elements of one predefined datatype.
#[derive(Clone, Copy)]
pub(crate) struct Reduction {
    pub op: PredefinedOp,
    pub element: Predefined,
    kernel: Kernel,
    kind: Kind,
}

impl Reduction {
    /// Returns the reduction; `None` if the operation is not for this datatype, or the datatype is
    /// empty.
    #[inline]
    pub fn of(op: &Op, datatype: &Datatype) -> Option<Reduction> {
        let (predefined, element) = (op.as_predefined()?, datatype.element()?);
        Some(Reduction {
            op: predefined,
            element,
            kernel: op.kernel(element)?,
            kind: element.kind(),
        })
    }

    /// Returns the reduction, which does nothing for an empty datatype.
    ///
    /// # Errors
    /// `MPI_ERR_OP` if the operation is not for this datatype ([`Op::check_accumulate`]).
    #[inline]
    pub fn new(op: &Op, datatype: &Datatype) -> Result<Reduction> {
        if let Some(reduction) = Reduction::of(op, datatype) {
            return Ok(reduction);
        }
        op.check_accumulate(datatype)?;
        // An empty datatype has no elements to change, so any operation will do.
        let nothing = match op.as_predefined() {
            Some(PredefinedOp::NoOp) => PredefinedOp::NoOp,
            _ => PredefinedOp::Replace,
        };
        Reduction::from_numbers(nothing as u64, Predefined::Byte as u64)
            .filter(|_| datatype.size() == 0)
            .ok_or_else(|| {
                Error::new(
                    Class::Op,
                    "op is not defined for the elements of this datatype; use a predefined datatype that it takes",
                )
            })
    }

    /// Decodes the numbers of a message; `None` if there is no such operation.
    pub fn from_numbers(op: u64, element: u64) -> Option<Reduction> {
        static LEVEL: LazyLock<Level> = LazyLock::new(Level::best);
        let op = PredefinedOp::TABLE.get(usize::try_from(op).ok()?)?.0;
        let (element, _, kind, _) = *Predefined::TABLE.get(usize::try_from(element).ok()?)?;
        Some(Reduction {
            op,
            element,
            kernel: select(op, element, *LEVEL)?,
            kind,
        })
    }

    /// Bytes of an element in packed data.
    #[inline(always)]
    pub fn packed(&self) -> usize {
        self.kind.size()
    }

    /// Bytes of an element in memory.
    #[inline(always)]
    pub fn extent(&self) -> usize {
        self.kind.extent()
    }

    #[inline(always)]
    fn has_gap(&self) -> bool {
        self.packed() != self.extent()
    }

    /// Returns whether the processor can change each element at this address atomically.
    ///
    /// Invariant: all accumulates of a window to one address decide this alike, since they use the
    /// same datatype there (section 11.7.1) and pages begin at the same addresses for all members.
    #[inline(always)]
    pub fn is_native(&self, at: *const u8) -> bool {
        let size = self.packed();
        matches!(size, 1 | 2 | 4 | 8) && !self.has_gap() && at.addr() & (size - 1) == 0
    }

    /// Reduces `count` elements at `at`, each by an atomic operation of the processor.
    ///
    /// # Safety
    /// [`Reduction::is_native`] holds at `at`, and others change the `count` elements there in the
    /// same way only; `input` (unless for `MPI_NO_OP`) and `result` (unless NULL) hold as many.
    #[inline]
    pub unsafe fn apply_atomic(
        &self,
        at: *mut u8,
        count: usize,
        input: *const u8,
        result: *mut u8,
    ) {
        let size = self.packed();
        for i in 0..count {
            let place = at.wrapping_add(i * size);
            let input = match self.op {
                PredefinedOp::NoOp => input,
                _ => input.wrapping_add(i * size),
            };
            // SAFETY: element `i` is aligned and only changed atomically, and `input` and `result`
            // hold it, by this function's contract.
            unsafe {
                let old = match size {
                    8 => self.change(&*place.cast::<AtomicU64>(), input),
                    4 => self.change(&*place.cast::<AtomicU32>(), input),
                    2 => self.change(&*place.cast::<AtomicU16>(), input),
                    _ => self.change(&*place.cast::<AtomicU8>(), input),
                };
                if !result.is_null() {
                    let bytes = old.to_le_bytes();
                    result
                        .wrapping_add(i * size)
                        .copy_from_nonoverlapping(bytes.as_ptr(), size);
                }
            }
        }
    }

    /// Reduces the element in a word by an atomic operation of the processor. Returns the old
    /// value.
    ///
    /// # Safety
    /// The element is as long as the word, and so is what `input` holds, unless the operation is
    /// `MPI_NO_OP`.
    #[inline(always)]
    pub unsafe fn change<W: Word>(&self, word: &W, input: *const u8) -> u64 {
        if self.op == PredefinedOp::NoOp {
            return word.load();
        }
        let mut bytes = [0; 8];
        // SAFETY: `input` holds a word, by this function's contract.
        unsafe { input.copy_to_nonoverlapping(bytes.as_mut_ptr(), size_of::<W>()) };
        let operand = u64::from_le_bytes(bytes);
        let integer = matches!(
            self.kind,
            Kind::I8
                | Kind::U8
                | Kind::I16
                | Kind::U16
                | Kind::I32
                | Kind::U32
                | Kind::I64
                | Kind::U64
                | Kind::Byte
        );
        match self.op {
            PredefinedOp::Replace => return word.swap(operand),
            PredefinedOp::Sum if integer => return word.add(operand),
            PredefinedOp::Band if integer => return word.and(operand),
            PredefinedOp::Bor if integer => return word.or(operand),
            PredefinedOp::Bxor if integer => return word.xor(operand),
            _ => {}
        }
        let mut old = word.load();
        loop {
            let mut new = [0; 8];
            // SAFETY: three separate arrays of 8 bytes, and elements are no longer.
            unsafe {
                (self.kernel)(
                    bytes.as_ptr(),
                    old.to_le_bytes().as_ptr(),
                    new.as_mut_ptr(),
                    1,
                )
            };
            let new = u64::from_le_bytes(new);
            if new == old {
                // For instance a maximum with an operand that is not greater.
                return old;
            }
            match word.replace(old, new) {
                Ok(()) => return old,
                Err(now) => old = now,
            }
        }
    }

    /// Reduces `count` elements at `at` with no atomicity.
    ///
    /// # Safety
    /// `at` holds `count` elements in memory's form, which nothing else changes meanwhile; `input`
    /// (unless for `MPI_NO_OP`) and `result` (unless NULL) hold as many in packed form.
    pub unsafe fn apply_exclusive(
        &self,
        at: *mut u8,
        count: usize,
        input: *const u8,
        result: *mut u8,
    ) {
        // SAFETY: all three hold `count` elements by this function's contract; elements with gaps
        // are taken one by one.
        unsafe {
            if !self.has_gap() {
                if !result.is_null() {
                    result.copy_from_nonoverlapping(at, count * self.packed());
                }
                if self.op != PredefinedOp::NoOp {
                    (self.kernel)(input, at, at, count);
                }
                return;
            }
            let datatype = Datatype::predefined(self.element);
            for i in 0..count {
                let (place, skip) = (at.add(i * self.extent()), i * self.packed());
                if !result.is_null() {
                    let out = std::slice::from_raw_parts_mut(result.add(skip), self.packed());
                    datatype.pack(place, 1, 0, out);
                }
                if self.op != PredefinedOp::NoOp {
                    let mut whole = [0u8; LONGEST];
                    let data = std::slice::from_raw_parts(input.add(skip), self.packed());
                    datatype.unpack(whole.as_mut_ptr(), 1, 0, data);
                    (self.kernel)(whole.as_ptr(), place, place, 1);
                }
            }
        }
    }
}

/// Lists the elements of `count` times `datatype` at `base`, in order.
///
/// Each block is a series of elements without a gap: its start in bytes, and the number of
/// elements.
pub(crate) fn runs(datatype: &Datatype, count: usize, base: i64, reduction: &Reduction) -> RunList {
    if let (Some((skip, len)), false) = (datatype.as_run(count), reduction.has_gap()) {
        return RunList::One([(base.wrapping_add(skip as i64), len / reduction.packed())]);
    }
    let pieces = datatype.pieces(std::ptr::null_mut(), count, 0, usize::MAX);
    let pieces = pieces.map(|(at, len)| (base.wrapping_add(at.addr() as i64), len));
    let size = reduction.packed();
    let mut runs: Vec<Run> = Vec::new();
    // Bytes of the current element that are still to come.
    let mut rest = 0;
    for (mut at, mut len) in pieces {
        while len > 0 {
            if rest == 0 {
                let whole = match reduction.has_gap() {
                    true => 1,
                    false => (len / size).max(1),
                };
                let follows = runs.last().is_some_and(|&(start, count)| {
                    start.wrapping_add((count * reduction.extent()) as i64) == at
                });
                match runs.last_mut() {
                    Some(last) if follows => last.1 += whole,
                    _ => runs.push((at, whole)),
                }
                rest = whole * size;
            }
            let now = rest.min(len);
            at = at.wrapping_add(now as i64);
            len -= now;
            rest -= now;
        }
    }
    RunList::Many(runs)
}

/// Bytes of the longest element that can be compared: `MPI_INTEGER16` and `MPI_LOGICAL16`.
pub(crate) const LONGEST_COMPARED: usize = 16;

/// Replaces the element at `place` by `new` if it equals `compare`. Returns the old value.
///
/// # Safety
/// All are `size` bytes long, up to [`LONGEST_COMPARED`]. If `native`, up to 8, `place` is aligned,
/// and others change it atomically only; otherwise nothing else changes it meanwhile.
pub(crate) unsafe fn compare_and_swap(
    place: *mut u8,
    compare: u128,
    new: u128,
    size: usize,
    native: bool,
) -> u128 {
    // SAFETY: `place` holds `size` bytes, aligned if `native`, by this function's contract.
    unsafe {
        if native {
            let (compare, new) = (compare as u64, new as u64);
            let found = match size {
                8 => swapped::<AtomicU64>(place, compare, new),
                4 => swapped::<AtomicU32>(place, compare, new),
                2 => swapped::<AtomicU16>(place, compare, new),
                _ => swapped::<AtomicU8>(place, compare, new),
            };
            return found.into();
        }
        let mut found = [0; LONGEST_COMPARED];
        place.copy_to_nonoverlapping(found.as_mut_ptr(), size);
        let found = u128::from_le_bytes(found);
        if found == compare {
            place.copy_from_nonoverlapping(new.to_le_bytes().as_ptr(), size);
        }
        found
    }
}

/// Compares and swaps a word. Returns the old value.
///
/// # Safety
/// `place` is an aligned word that others change atomically only.
unsafe fn swapped<W: Word>(place: *mut u8, compare: u64, new: u64) -> u64 {
    // SAFETY: aligned, and changed atomically only, by this function's contract.
    match unsafe { &*place.cast::<W>() }.replace(compare, new) {
        Ok(()) => compare,
        Err(found) => found,
    }
}

/// Atomic words of several lengths, with values in the low bytes.
pub(crate) trait Word {
    fn load(&self) -> u64;
    fn swap(&self, value: u64) -> u64;
    fn add(&self, value: u64) -> u64;
    fn and(&self, value: u64) -> u64;
    fn or(&self, value: u64) -> u64;
    fn xor(&self, value: u64) -> u64;
    fn replace(&self, old: u64, new: u64) -> std::result::Result<(), u64>;
}

macro_rules! words {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Word for $atomic {
            #[inline(always)]
            fn load(&self) -> u64 {
                self.load(Ordering::SeqCst).into()
            }
            #[inline(always)]
            fn swap(&self, value: u64) -> u64 {
                self.swap(value as $value, Ordering::SeqCst).into()
            }
            #[inline(always)]
            fn add(&self, value: u64) -> u64 {
                self.fetch_add(value as $value, Ordering::SeqCst).into()
            }
            #[inline(always)]
            fn and(&self, value: u64) -> u64 {
                self.fetch_and(value as $value, Ordering::SeqCst).into()
            }
            #[inline(always)]
            fn or(&self, value: u64) -> u64 {
                self.fetch_or(value as $value, Ordering::SeqCst).into()
            }
            #[inline(always)]
            fn xor(&self, value: u64) -> u64 {
                self.fetch_xor(value as $value, Ordering::SeqCst).into()
            }
            #[inline(always)]
            fn replace(&self, old: u64, new: u64) -> std::result::Result<(), u64> {
                self.compare_exchange(
                    old as $value,
                    new as $value,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                )
                .map(drop)
                .map_err(Into::into)
            }
        }
    )*};
}
words!(AtomicU8: u8, AtomicU16: u16, AtomicU32: u32, AtomicU64: u64);
