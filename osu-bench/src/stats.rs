//! Medians and quartiles.

/// The summary of measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// A quarter of the values lie below this.
    pub lower: f64,
    /// A quarter of the values lie above this.
    pub upper: f64,
    /// The number of values.
    pub count: usize,
}

impl Summary {
    /// Summarizes finite values. Returns `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            lower: quantile(&sorted, 0.25)?,
            upper: quantile(&sorted, 0.75)?,
            count: sorted.len(),
        })
    }

    /// Returns the interquartile range divided by the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.upper - self.lower) / self.median.abs()
        }
    }

    /// Returns whether the interquartile ranges are disjoint.
    pub fn apart_from(&self, other: &Self) -> bool {
        self.lower > other.upper || other.lower > self.upper
    }
}

/// Returns the median of each element of equally long lists.
pub fn medians(rounds: &[Vec<f64>]) -> Vec<f64> {
    let places = rounds.first().map_or(0, Vec::len);
    let median = |at: usize| {
        let values: Vec<f64> = rounds.iter().map(|values| values[at]).collect();
        Summary::of(&values).map_or(f64::NAN, |summary| summary.median)
    };
    (0..places).map(median).collect()
}

/// Returns the quantile `q` of sorted values, interpolated between neighbours.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q * last as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(last);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (summary.lower, summary.median, summary.upper),
            (1.75, 2.5, 3.25)
        );
        assert_eq!(summary.spread(), 0.6);
        let one = Summary::of(&[5.0]).unwrap();
        assert_eq!(
            (one.lower, one.median, one.upper, one.count),
            (5.0, 5.0, 5.0, 1)
        );
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[0.0, 0.0]).unwrap().spread(), 0.0);
    }

    #[test]
    fn one_outlier_does_not_move_the_median_far() {
        let summary = Summary::of(&[1.0, 1.1, 0.9, 1.0, 90.0]).unwrap();
        assert_eq!(summary.median, 1.0);
        assert!(summary.spread() < 0.2);
    }

    #[test]
    fn ranges_apart() {
        let low = Summary::of(&[1.0, 1.1, 1.2]).unwrap();
        let high = Summary::of(&[2.0, 2.1, 2.2]).unwrap();
        let wide = Summary::of(&[1.0, 1.5, 3.0]).unwrap();
        assert!(low.apart_from(&high) && high.apart_from(&low));
        assert!(!high.apart_from(&wide) && !low.apart_from(&low));
    }
}
