//! Comparison of the first library with the best of the others.

use super::report::{Cell, Report};
use crate::stats::Summary;

/// Smallest ratio at which a library counts as faster.
pub const MARGIN: f64 = 1.05;

/// Largest ratio at which a slower library still counts as equal, however much runs differ.
pub const MOST: f64 = 1.1;

/// The class of a ratio to the best of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Better by the margin or more, and by more than runs differ.
    Ahead,
    /// Equal.
    Equal,
    /// Worse by the margin or more, and by more than runs differ; or worse by more than [`MOST`].
    Behind,
}

impl Standing {
    /// Classifies a ratio. `is_apart` says that the quartiles of both libraries do not overlap.
    fn of(ratio: f64, is_apart: bool) -> Self {
        match is_apart {
            true if ratio >= MARGIN => Self::Ahead,
            true if ratio <= 1.0 / MARGIN => Self::Behind,
            false if ratio < 1.0 / MOST => Self::Behind,
            _ => Self::Equal,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Standing::Ahead => "ahead",
            Standing::Equal => "equal",
            Standing::Behind => "behind",
        }
    }
}

/// The first library's result at a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Against {
    /// The index of the best of the others.
    pub peer: usize,
    /// The speed of the first library divided by that of the best other.
    pub ratio: f64,
    /// The same ratio with the quartiles of the first library.
    pub range: [f64; 2],
    pub standing: Standing,
}

/// Compares the first library with the best of the others. Returns `None` if there are no values of
/// either, or if the distance of the cores differed.
pub fn against(report: &Report, cell: &Cell) -> Option<Against> {
    if cell.is_mixed {
        return None;
    }
    let more = cell.bench.unit()?.more_is_better();
    let own = Summary::of(cell.values.first()?)?;
    let dir = &report.sides.first()?.1.dir;
    // A second column of the first library only shows the noise.
    let others = report.sides.iter().zip(&cell.values).enumerate();
    let others = others.filter(|(_, ((_, library), _))| library.dir != *dir);
    let others = others.filter_map(|(place, (_, values))| Some((place, Summary::of(values)?)));
    let times = |own: f64, other: f64| if more { own / other } else { other / own };
    let (peer, best) = others.min_by(|(_, one), (_, other)| {
        let (one, other) = (
            times(own.median, one.median),
            times(own.median, other.median),
        );
        one.total_cmp(&other)
    })?;
    let ratio = times(own.median, best.median);
    let mut range = [own.lower, own.upper].map(|value| times(value, best.median));
    range.sort_by(f64::total_cmp);
    Some(Against {
        peer,
        ratio,
        range,
        standing: Standing::of(ratio, own.apart_from(&best)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_behind_is_never_equal() {
        use Standing::{Ahead, Behind, Equal};
        for (ratio, is_apart, expected) in [
            (1.06, true, Ahead),
            (1.5, false, Equal),
            (1.04, true, Equal),
            (0.96, true, Equal),
            (0.94, true, Behind),
            (0.92, false, Equal),
            (0.90, false, Behind),
            (0.84, false, Behind),
        ] {
            assert_eq!(
                Standing::of(ratio, is_apart),
                expected,
                "{ratio}, {is_apart}"
            );
        }
    }
}
