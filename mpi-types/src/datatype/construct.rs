//! The constructors (MPI-3.1 sections 4.1.2, 4.1.7 and 4.1.10) except those of arrays.

use super::contents::{Constructor, Marker};
use super::shape::Shape;
use super::{Datatype, Draft, Predefined};
use crate::{Class, Error, Result};

/// Returns the error for a datatype that exceeds the address space.
#[cold]
pub(super) fn too_large() -> Error {
    Error::new(
        Class::Arg,
        "the datatype's size or bounds would exceed the address space (2^63 bytes); \
         check counts, strides and displacements",
    )
}

/// Checks a count or a block length; `name` is the argument's.
pub(super) fn count(name: &str, value: i64) -> Result<i64> {
    if value < 0 {
        let detail = format!("{name} is {value}; it must be 0 or more");
        return Err(Error::new(Class::Count, detail));
    }
    Ok(value)
}

/// Checks that two lists have the same length.
pub(super) fn same_length(name: &str, length: usize, expected: usize) -> Result<()> {
    if length != expected {
        let detail = format!("{name} has {length} entries; it must have {expected}");
        return Err(Error::new(Class::Arg, detail));
    }
    Ok(())
}

/// Numbers below this limit can be multiplied, and their products summed, without overflow.
const SMALL: u64 = 1 << 30;

/// Returns whether all numbers are small and none is negative.
fn are_small(numbers: &[i64]) -> bool {
    let all = numbers.iter().fold(0, |bits, &number| bits | number);
    (all as u64) < SMALL
}

/// Checks block lengths and adds them up.
fn total(blocks: &[i64]) -> Result<i64> {
    if are_small(blocks) {
        return Ok(blocks.iter().sum());
    }
    let mut sum = 0i64;
    for (index, &block) in blocks.iter().enumerate() {
        if block < 0 {
            let detail = format!("block length {index} is {block}; it must be 0 or more");
            return Err(Error::new(Class::Arg, detail));
        }
        sum = sum.checked_add(block).ok_or_else(too_large)?;
    }
    Ok(sum)
}

/// Returns the lowest and highest offset of an element from the buffer's address, if plain
/// arithmetic suffices: all blocks are nonempty and all numbers small. Displacements are in units
/// of `unit` bytes.
fn span(blocks: &[i64], displacements: &[i64], extent: i64, unit: i64) -> Option<(i64, i64)> {
    let is_small = |number: i64| number.unsigned_abs() < SMALL;
    // With these checks no product exceeds 2^60.
    if !is_small(extent) || !is_small(unit) || !are_small(blocks) || blocks.is_empty() {
        return None;
    }
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    let (mut least, mut far) = (i64::MAX, 0);
    for (&number, &at) in blocks.iter().zip(displacements) {
        least = least.min(number);
        // The bits of a nonnegative number, or the inverted bits of a negative one.
        far |= at ^ (at >> 63);
        let first = at.wrapping_mul(unit);
        let rest = (number - 1).wrapping_mul(extent);
        low = low.min(first.wrapping_add(rest.min(0)));
        high = high.max(first.wrapping_add(rest.max(0)));
    }
    (least > 0 && is_small(far)).then_some((low, high))
}

impl Datatype {
    /// Starts a type whose map is `count` times that of `self`, at some displacements.
    pub(super) fn draft(
        &self,
        count: i64,
        shape: Option<Shape>,
        made: Constructor,
    ) -> Result<Draft> {
        let inner = self.inner();
        let size = (inner.size as i64)
            .checked_mul(count)
            .ok_or_else(too_large)?;
        let shape = shape.and_then(Shape::checked).ok_or_else(too_large)?;
        Ok(Draft {
            size: size as usize,
            shape,
            alignment: inner.alignment,
            element: inner.element,
            signature: None,
            depth: inner.depth.saturating_add(1),
            constructor: made,
            committed: false,
        })
    }

    /// Makes a type of `count` consecutive elements (`MPI_Type_contiguous`).
    pub fn contiguous(&self, count: i64) -> Result<Datatype> {
        let count = self::count("count", count)?;
        let shape = self.inner().shape;
        let shape = shape.repeated(count, shape.extent());
        let old = self.clone();
        Ok(self
            .draft(count, shape, Constructor::Contiguous { count, old })?
            .build())
    }

    /// Makes a type of `count` blocks of `block` elements, `stride` elements apart
    /// (`MPI_Type_vector`).
    pub fn vector(&self, count: i64, block: i64, stride: i64) -> Result<Datatype> {
        let bytes = stride.checked_mul(self.inner().shape.extent());
        let old = self.clone();
        let made = Constructor::Vector {
            count,
            block,
            stride,
            old,
        };
        self.strided(count, block, bytes, made)
    }

    /// Makes a type of `count` blocks of `block` elements, `stride` bytes apart
    /// (`MPI_Type_create_hvector`).
    pub fn hvector(&self, count: i64, block: i64, stride: i64) -> Result<Datatype> {
        let old = self.clone();
        let made = Constructor::Hvector {
            count,
            block,
            stride,
            old,
        };
        self.strided(count, block, Some(stride), made)
    }

    fn strided(
        &self,
        count: i64,
        block: i64,
        stride: Option<i64>,
        made: Constructor,
    ) -> Result<Datatype> {
        let count = self::count("count", count)?;
        if self::count("blocklength", block).is_err() {
            let detail = format!("blocklength is {block}; it must be 0 or more");
            return Err(Error::new(Class::Arg, detail));
        }
        let shape = self.inner().shape;
        let shape = match shape.repeated(block, shape.extent()) {
            // A single block does not use the stride.
            Some(row) if count <= 1 => row.repeated(count, 0),
            Some(row) => stride.and_then(|stride| row.repeated(count, stride)),
            None => None,
        };
        let elements = count.checked_mul(block).ok_or_else(too_large)?;
        Ok(self.draft(elements, shape, made)?.build())
    }

    /// Makes a type of blocks with displacements in elements (`MPI_Type_indexed`).
    pub fn indexed(&self, blocks: &[i64], displacements: &[i64]) -> Result<Datatype> {
        let made = Constructor::Indexed {
            blocks: blocks.into(),
            displacements: displacements.into(),
            old: self.clone(),
        };
        let unit = self.inner().shape.extent();
        self.placed(blocks, displacements, unit, made)
    }

    /// Makes a type of blocks with displacements in bytes (`MPI_Type_create_hindexed`).
    pub fn hindexed(&self, blocks: &[i64], displacements: &[i64]) -> Result<Datatype> {
        let made = Constructor::Hindexed {
            blocks: blocks.into(),
            displacements: displacements.into(),
            old: self.clone(),
        };
        self.placed(blocks, displacements, 1, made)
    }

    fn placed(
        &self,
        blocks: &[i64],
        displacements: &[i64],
        unit: i64,
        made: Constructor,
    ) -> Result<Datatype> {
        same_length(
            "the list of displacements",
            displacements.len(),
            blocks.len(),
        )?;
        let elements = total(blocks)?;
        let shape = self.inner().shape;
        let extent = shape.extent();
        if let Some((low, high)) = span(blocks, displacements, extent, unit) {
            let first = shape.shifted(low);
            let union = first.and_then(|first| Some(first.union(shape.shifted(high)?)));
            return Ok(self.draft(elements, union, made)?.build());
        }
        let union = (blocks.iter().zip(displacements)).try_fold(Shape::EMPTY, |all, (&n, &at)| {
            if n == 0 {
                return Some(all);
            }
            let block = shape.repeated(n, extent)?;
            Some(all.union(block.shifted(at.checked_mul(unit)?)?))
        });
        Ok(self.draft(elements, union, made)?.build())
    }

    /// Makes a type of equal blocks with displacements in elements
    /// (`MPI_Type_create_indexed_block`).
    pub fn indexed_block(&self, block: i64, displacements: &[i64]) -> Result<Datatype> {
        let made = Constructor::IndexedBlock {
            block,
            displacements: displacements.into(),
            old: self.clone(),
        };
        let unit = self.inner().shape.extent();
        self.placed_equal(block, displacements, unit, made)
    }

    /// Makes a type of equal blocks with displacements in bytes (`MPI_Type_create_hindexed_block`).
    pub fn hindexed_block(&self, block: i64, displacements: &[i64]) -> Result<Datatype> {
        let made = Constructor::HindexedBlock {
            block,
            displacements: displacements.into(),
            old: self.clone(),
        };
        self.placed_equal(block, displacements, 1, made)
    }

    fn placed_equal(
        &self,
        block: i64,
        displacements: &[i64],
        unit: i64,
        made: Constructor,
    ) -> Result<Datatype> {
        total(&[block])?;
        let shape = self.inner().shape;
        let row = shape.repeated(block, shape.extent());
        let (low, high) = (displacements.iter().min(), displacements.iter().max());
        let union = row.and_then(|row| match (low, high) {
            (Some(low), Some(high)) if row != Shape::EMPTY => {
                let first = row.shifted(low.checked_mul(unit)?)?;
                Some(first.union(row.shifted(high.checked_mul(unit)?)?))
            }
            _ => Some(Shape::EMPTY),
        });
        let elements = block.checked_mul(displacements.len() as i64);
        Ok(self
            .draft(elements.ok_or_else(too_large)?, union, made)?
            .build())
    }

    /// Makes a type of blocks of different types, with displacements in bytes
    /// (`MPI_Type_create_struct`).
    ///
    /// The extent is padded to the strictest alignment of the members, as C does. Not so if
    /// [`upper_bound`](Self::upper_bound) is a member or all members have the same type: the
    /// members' own extent then counts, as for the other constructors and in other libraries of
    /// this ABI. [`lower_bound`](Self::lower_bound) and `upper_bound` set bounds as in MPI-1.
    pub fn structure(
        blocks: &[i64],
        displacements: &[i64],
        types: &[Datatype],
    ) -> Result<Datatype> {
        same_length(
            "the list of displacements",
            displacements.len(),
            blocks.len(),
        )?;
        same_length("the list of types", types.len(), blocks.len())?;
        total(blocks)?;
        let members = || {
            let all = blocks.iter().zip(displacements).zip(types);
            all.map(|((&n, &at), t)| (n, at, t)).filter(|m| m.0 > 0)
        };
        let (mut lower, mut upper): (Option<i64>, Option<i64>) = (None, None);
        let (mut shape, mut size, mut alignment) = (Shape::EMPTY, 0i64, 1);
        let (mut element, mut mixed, mut depth) = (None, false, 0);
        for (n, at, member) in members() {
            let inner = member.inner();
            depth = depth.max(inner.depth);
            match &inner.constructor {
                Constructor::Marker(Marker::LowerBound) => {
                    lower = Some(lower.map_or(at, |low| low.min(at)));
                    continue;
                }
                Constructor::Marker(Marker::UpperBound) => {
                    upper = Some(upper.map_or(at, |high| high.max(at)));
                    continue;
                }
                _ => {}
            }
            let block = inner.shape.repeated(n, inner.shape.extent());
            let placed = block.and_then(|block| block.shifted(at));
            shape = shape.union(placed.ok_or_else(too_large)?);
            let bytes = (inner.size as i64).checked_mul(n);
            let bytes = bytes.and_then(|bytes| size.checked_add(bytes));
            size = bytes.ok_or_else(too_large)?;
            // Members without data have bounds but no alignment.
            if inner.size > 0 {
                alignment = alignment.max(inner.alignment);
                mixed |= element.is_some_and(|e| e != inner.element);
                element = Some(inner.element);
            }
        }
        let alike = types.windows(2).all(|pair| pair[0].is_same(&pair[1]));
        let padding = if alike { 1 } else { alignment };
        let shape = bounded(shape, lower, upper, padding).ok_or_else(too_large)?;
        Ok(Draft {
            size: size as usize,
            shape,
            alignment,
            element: element.flatten().filter(|_| !mixed),
            signature: None,
            depth: depth.saturating_add(1),
            constructor: Constructor::Struct {
                blocks: blocks.into(),
                displacements: displacements.into(),
                types: types.into(),
            },
            committed: false,
        }
        .build())
    }

    /// Makes a type of the same data with other bounds (`MPI_Type_create_resized`).
    pub fn resized(&self, lb: i64, extent: i64) -> Result<Datatype> {
        let shape = lb.checked_add(extent).map(|ub| Shape {
            bounds: Some((lb, ub)),
            data: self.inner().shape.data,
        });
        let old = self.clone();
        Ok(self
            .draft(1, shape, Constructor::Resized { lb, extent, old })?
            .build())
    }

    /// Makes a copy, committed if `self` is (`MPI_Type_dup`).
    pub fn dup(&self) -> Result<Datatype> {
        let old = self.clone();
        let mut draft = self.draft(1, Some(self.inner().shape), Constructor::Dup { old })?;
        draft.committed = self.is_committed();
        Ok(draft.build())
    }

    /// Returns `MPI_LB` of MPI-1: as a member of a struct it sets the lower bound.
    pub fn lower_bound() -> Datatype {
        Datatype::marker(Marker::LowerBound)
    }

    /// Returns `MPI_UB` of MPI-1: as a member of a struct it sets the upper bound.
    pub fn upper_bound() -> Datatype {
        Datatype::marker(Marker::UpperBound)
    }
}

/// Returns a struct's shape with the bounds that markers set, and an extent that is a multiple of
/// `padding`.
fn bounded(shape: Shape, lower: Option<i64>, upper: Option<i64>, padding: usize) -> Option<Shape> {
    let padded = match shape.bounds {
        Some((low, high)) => {
            let extent = high.checked_sub(low)?;
            let gap = (-i128::from(extent)).rem_euclid(padding as i128) as i64;
            Some((low, high.checked_add(gap)?))
        }
        None => None,
    };
    let bounds = match (padded, lower, upper) {
        (bounds, None, None) => bounds,
        (Some((low, high)), lower, upper) => Some((lower.unwrap_or(low), upper.unwrap_or(high))),
        // Without data, a single marker is both bounds.
        (None, Some(one), None) | (None, None, Some(one)) => Some((one, one)),
        (None, Some(low), Some(high)) => Some((low, high)),
    };
    Some(Shape { bounds, ..shape })
}

/// Returns C's alignment of a predefined type, in bytes.
pub(super) fn alignment(predefined: Predefined) -> usize {
    use super::Representation;
    match predefined.kind() {
        Representation::Byte
        | Representation::Char
        | Representation::I8
        | Representation::U8
        | Representation::Bool => 1,
        Representation::I16
        | Representation::U16
        | Representation::F16
        | Representation::Bf16
        | Representation::C16 => 2,
        Representation::Wchar
        | Representation::I32
        | Representation::U32
        | Representation::F32
        | Representation::Logical4
        | Representation::C32 => 4,
        Representation::FloatInt
        | Representation::IntInt
        | Representation::ShortInt
        | Representation::FloatFloat => 4,
        Representation::I64 | Representation::U64 | Representation::F64 | Representation::C64 => 8,
        Representation::DoubleInt | Representation::LongInt | Representation::DoubleDouble => 8,
        Representation::I128
        | Representation::F80
        | Representation::F128
        | Representation::C80
        | Representation::C128
        | Representation::F80Int
        | Representation::F128Int => 16,
    }
}
