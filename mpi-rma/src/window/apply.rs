//! Reductions in a window's memory: the blocks of elements, and how each element changes.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::window::runs::RunList;
use mpi_types::datatype::{Datatype, Predefined, Representation};
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
    kind: Representation,
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

    /// Returns whether the reduction needs nothing of the target's old content.
    pub fn overwrites(&self, output: *const u8) -> bool {
        self.op == PredefinedOp::Replace && output.is_null() && !self.has_gap()
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
        let apply = match self.packed() {
            8 => Reduction::apply_words::<u64>,
            4 => Reduction::apply_words::<u32>,
            2 => Reduction::apply_words::<u16>,
            _ => Reduction::apply_words::<u8>,
        };
        // SAFETY: this function has the same contract; elements are as long as the words.
        unsafe { apply(self, at, count, input, result) }
    }

    /// # Safety
    /// That of [`Reduction::apply_atomic`], for elements as long as `W`.
    unsafe fn apply_words<W: Word>(
        &self,
        at: *mut u8,
        count: usize,
        input: *const u8,
        result: *mut u8,
    ) {
        let (at, input) = (at.cast::<W::Atomic>(), input.cast::<W>());
        let result = result.cast::<W>();
        for i in 0..count {
            let input = match self.op {
                PredefinedOp::NoOp => input,
                _ => input.wrapping_add(i),
            };
            // SAFETY: element `i` is aligned and only changed atomically, and `input` and `result`
            // hold it, by this function's contract.
            unsafe {
                let old = self.change::<W>(&*at.add(i), input);
                if !result.is_null() {
                    result.wrapping_add(i).write_unaligned(old);
                }
            }
        }
    }

    /// Reduces the element in a word by an atomic operation of the processor. Returns the old
    /// value.
    ///
    /// # Safety
    /// The element is as long as the word, and `input` holds one, unless the operation is
    /// `MPI_NO_OP`.
    #[inline(always)]
    pub unsafe fn change<W: Word>(&self, word: &W::Atomic, input: *const W) -> W {
        if self.op == PredefinedOp::NoOp {
            return W::load(word);
        }
        // SAFETY: `input` holds a word, by this function's contract.
        let operand = unsafe { input.read_unaligned() };
        let integer = matches!(
            self.kind,
            Representation::I8
                | Representation::U8
                | Representation::I16
                | Representation::U16
                | Representation::I32
                | Representation::U32
                | Representation::I64
                | Representation::U64
                | Representation::Byte
        );
        match self.op {
            PredefinedOp::Replace => return W::swap(word, operand),
            PredefinedOp::Sum if integer => return W::add(word, operand),
            PredefinedOp::Band if integer => return W::and(word, operand),
            PredefinedOp::Bor if integer => return W::or(word, operand),
            PredefinedOp::Bxor if integer => return W::xor(word, operand),
            _ => {}
        }
        let mut old = W::load(word);
        loop {
            let mut new = operand;
            let (input, at) = (&raw const operand, &raw const old);
            // SAFETY: three separate words, and the element is no longer than each.
            unsafe { (self.kernel)(input.cast(), at.cast(), (&raw mut new).cast(), 1) };
            if new == old {
                // For instance a maximum with an operand that is not greater.
                return old;
            }
            match W::compare_swap(word, old, new) {
                now if now == old => return old,
                now => old = now,
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
        if self.has_gap() {
            // SAFETY: all three hold `count` elements, and nothing else changes those at `at`
            // (# Safety).
            return unsafe { self.apply_with_gaps(at, count, input, result) };
        }
        // SAFETY: all three hold `count` elements without gaps, by this function's contract.
        unsafe {
            if !result.is_null() {
                result.copy_from_nonoverlapping(at, count * self.packed());
            }
            if self.op != PredefinedOp::NoOp {
                (self.kernel)(input, at, at, count);
            }
        }
    }

    /// Reduces elements that are longer in memory than in packed form, one by one.
    ///
    /// # Safety
    /// That of [`Reduction::apply_exclusive`].
    unsafe fn apply_with_gaps(&self, at: *mut u8, count: usize, input: *const u8, result: *mut u8) {
        let datatype = Datatype::predefined(self.element);
        for i in 0..count {
            let skip = i * self.packed();
            // SAFETY: all three hold element `i`, by this function's contract.
            unsafe {
                let place = at.add(i * self.extent());
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
    if let (Some((skip, len)), false) = (datatype.as_block(count), reduction.has_gap()) {
        return RunList::from_buf([(base.wrapping_add(skip as i64), len / reduction.packed())]);
    }
    let pieces = datatype.blocks(std::ptr::null_mut(), count, 0, usize::MAX);
    let pieces = pieces.map(|(at, len)| (base.wrapping_add(at.addr() as i64), len));
    let size = reduction.packed();
    let mut runs = RunList::new();
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
    runs
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
    if native {
        let swap = match size {
            8 => swap_word::<u64>,
            4 => swap_word::<u32>,
            2 => swap_word::<u16>,
            _ => swap_word::<u8>,
        };
        // SAFETY: `place` is an aligned word of `size` bytes that others change atomically only, by
        // this function's contract.
        return unsafe { swap(place, compare as u64, new as u64) }.into();
    }
    let mut found = [0; LONGEST_COMPARED];
    // SAFETY: `place` holds `size` bytes that nothing else changes, by this function's contract.
    unsafe {
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
unsafe fn swap_word<W: Word>(place: *mut u8, compare: u64, new: u64) -> u64 {
    // SAFETY: aligned, and changed atomically only, by this function's contract.
    let word = unsafe { &*place.cast::<W::Atomic>() };
    W::compare_swap(word, W::of(compare), W::of(new)).into()
}

/// An integer that the processor changes atomically. All operations return the old value.
pub trait Word: Copy + Eq + Into<u64> {
    /// The integer as an atomic.
    type Atomic;
    /// Returns the low bytes of a longer integer.
    fn of(bits: u64) -> Self;
    /// Reads the word.
    fn load(word: &Self::Atomic) -> Self;
    /// Replaces the word.
    fn swap(word: &Self::Atomic, by: Self) -> Self;
    /// Adds to the word.
    fn add(word: &Self::Atomic, by: Self) -> Self;
    /// Bitwise and.
    fn and(word: &Self::Atomic, by: Self) -> Self;
    /// Bitwise or.
    fn or(word: &Self::Atomic, by: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(word: &Self::Atomic, by: Self) -> Self;
    /// Replaces the word by `new` if it equals `compare`.
    fn compare_swap(word: &Self::Atomic, compare: Self, new: Self) -> Self;
}

macro_rules! words {
    ($($value:ty: $atomic:ty;)*) => {$(
        impl Word for $value {
            type Atomic = $atomic;
            #[inline(always)]
            fn of(bits: u64) -> $value {
                bits as $value
            }
            #[inline(always)]
            fn load(word: &$atomic) -> $value {
                word.load(Ordering::SeqCst)
            }
            #[inline(always)]
            fn swap(word: &$atomic, by: $value) -> $value {
                word.swap(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn add(word: &$atomic, by: $value) -> $value {
                word.fetch_add(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn and(word: &$atomic, by: $value) -> $value {
                word.fetch_and(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn or(word: &$atomic, by: $value) -> $value {
                word.fetch_or(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn xor(word: &$atomic, by: $value) -> $value {
                word.fetch_xor(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn compare_swap(word: &$atomic, compare: $value, new: $value) -> $value {
                word.compare_exchange(compare, new, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|found| found)
            }
        }
    )*};
}

words! {
    u64: AtomicU64;
    u32: AtomicU32;
    u16: AtomicU16;
    u8: AtomicU8;
}
