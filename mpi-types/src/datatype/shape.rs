//! Bounds of types (MPI-3.1 section 4.1.6 to 4.1.8).

/// Lower and upper bounds of an element, and of its data alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Lower and upper bound. `None` if the type map is empty and no bounds are set.
    pub bounds: Option<(i64, i64)>,
    /// First byte of data and the byte after the last. `None` without data.
    pub data: Option<(i64, i64)>,
}

impl Shape {
    /// An empty type map.
    pub const EMPTY: Shape = Shape {
        bounds: None,
        data: None,
    };

    pub fn lb(self) -> i64 {
        self.bounds.map_or(0, |b| b.0)
    }

    pub fn ub(self) -> i64 {
        self.bounds.map_or(0, |b| b.1)
    }

    /// Returns `ub - lb`; does not overflow for [`checked`](Self::checked) shapes.
    pub fn extent(self) -> i64 {
        self.ub().wrapping_sub(self.lb())
    }

    /// Returns the shape moved by `by` bytes; `None` on overflow.
    pub fn shifted(self, by: i64) -> Option<Shape> {
        let shift = |range: Option<(i64, i64)>| match range {
            Some((low, high)) => Some(Some((low.checked_add(by)?, high.checked_add(by)?))),
            None => Some(None),
        };
        Some(Shape {
            bounds: shift(self.bounds)?,
            data: shift(self.data)?,
        })
    }

    /// Returns the shape of both together.
    pub fn union(self, other: Shape) -> Shape {
        let join = |a: Option<(i64, i64)>, b: Option<(i64, i64)>| match (a, b) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        Shape {
            bounds: join(self.bounds, other.bounds),
            data: join(self.data, other.data),
        }
    }

    /// Returns the shape of `count` repetitions, `stride` bytes apart; `None` on overflow.
    pub fn repeated(self, count: i64, stride: i64) -> Option<Shape> {
        if count <= 0 || self == Shape::EMPTY {
            return Some(Shape::EMPTY);
        }
        let last = stride.checked_mul(count - 1)?;
        Some(self.union(self.shifted(last)?))
    }

    /// Returns the shape unless its extents overflow.
    pub fn checked(self) -> Option<Shape> {
        for (low, high) in [self.bounds, self.data].into_iter().flatten() {
            high.checked_sub(low)?;
        }
        Some(self)
    }
}
