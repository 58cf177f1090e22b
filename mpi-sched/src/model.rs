//! A cost model of allreduces by remote writes up and down trees, and the best degree.
//!
//! The model is figure 6.16 of chapter 6 of Gupta's thesis ("Efficient Collective Communication
//! using Remote Memory Operations on VIA-Based Clusters", 2003), in its best case, with the senders
//! of a step where the figure has all nodes. Copies are counted once, since they do not depend on
//! the degree. A step down a tree costs one write, plus the time that the sender's adapter and
//! processor take for the step's other writes.

use super::rdma::{DEGREES, RdmaAllreduce, steps};

/// Costs of a network and its processors, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameters {
    /// Wire time of a byte.
    pub transmit: f64,
    /// Time to start a DMA.
    pub startup: f64,
    /// Time to copy a byte.
    pub copy: f64,
    /// Adapter's processing time per message.
    pub nic: f64,
    /// Time to post a descriptor.
    pub descriptor: f64,
    /// Library's processing time per message.
    pub library: f64,
    /// Time of a reduction: fixed, and per byte.
    pub operation: [f64; 2],
}

/// A current network. Guessed, not measured; `WEFT_COLL_COSTS` sets measured costs.
pub const GUESSED: Parameters = Parameters {
    transmit: 0.001,
    startup: 0.5,
    copy: 0.0002,
    nic: 0.3,
    descriptor: 0.1,
    library: 0.1,
    operation: [0.02, 0.0003],
};

impl std::fmt::Display for Parameters {
    /// Writes the form that `from_str` reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, number) in self.to_numbers().into_iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{number}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Parameters {
    type Err = String;

    /// Parses eight times in microseconds, in the order of the fields, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |word: &str| {
            let number: Option<f64> = word.trim().parse().ok();
            let good = number.filter(|number| number.is_finite() && *number >= 0.0);
            good.ok_or_else(|| format!("{word:?} is no time in microseconds"))
        };
        let numbers: Vec<f64> = text.split(',').map(number).collect::<Result<_, _>>()?;
        let numbers: [f64; NUMBERS] = numbers.try_into().map_err(|numbers: Vec<f64>| {
            format!(
                "{} numbers; there are 8: wire time of a byte, start of a transfer, copy of a byte, the \
                 adapter's and the processor's part of a write, the library's, and a reduction: once, and \
                 per byte",
                numbers.len()
            )
        })?;
        Ok(Parameters::from_numbers(numbers))
    }
}

/// Number of fields of [`Parameters`], where `operation` counts twice.
pub const NUMBERS: usize = 8;

impl Parameters {
    /// Creates parameters from numbers in the order of the fields.
    pub fn from_numbers(numbers: [f64; NUMBERS]) -> Parameters {
        let [
            transmit,
            startup,
            copy,
            nic,
            descriptor,
            library,
            once,
            each,
        ] = numbers;
        Parameters {
            transmit,
            startup,
            copy,
            nic,
            descriptor,
            library,
            operation: [once, each],
        }
    }

    /// Returns the numbers in the order of the fields.
    pub fn to_numbers(self) -> [f64; NUMBERS] {
        let [once, each] = self.operation;
        [
            self.transmit,
            self.startup,
            self.copy,
            self.nic,
            self.descriptor,
            self.library,
            once,
            each,
        ]
    }

    /// Returns the time of an allreduce between pairs of ranks 1, 2, 4, … apart.
    pub fn pairs(&self, ranks: u32, bytes: usize) -> f64 {
        let rounds = ranks.max(1).ilog2();
        // Ranks beyond a power of two send their operands away and receive the result.
        let extra = if ranks.is_power_of_two() {
            0.0
        } else {
            self.step(1, bytes) + self.hop(bytes)
        };
        f64::from(rounds) * self.step(1, bytes) + extra + 2.0 * self.copy * bytes as f64
    }

    /// Returns the time of a write from one rank to another, without reduction.
    pub(super) fn hop(&self, bytes: usize) -> f64 {
        let operation = self.operation[0] + self.operation[1] * bytes as f64;
        self.step(1, bytes) - operation
    }

    /// Returns the fastest algorithm for an allreduce of a vector that fits a slot.
    pub fn best_way(&self, ranks: u32, bytes: usize) -> RdmaAllreduce {
        self.best_short(ranks, bytes).0
    }

    /// Returns the fastest algorithm for an allreduce of a vector that fits a slot, and its time.
    pub(super) fn best_short(&self, ranks: u32, bytes: usize) -> (RdmaAllreduce, f64) {
        let ([up, down], time) = self.best_tree(ranks, bytes);
        let pairs = self.pairs(ranks, bytes);
        match time < pairs {
            true => (RdmaAllreduce::Tree { up, down }, time),
            false => (RdmaAllreduce::Pairs, pairs),
        }
    }

    /// Returns the degrees of the fastest trees up and down, and their time.
    fn best_tree(&self, ranks: u32, bytes: usize) -> ([u32; 2], f64) {
        let least = |time: &dyn Fn(u32) -> f64| {
            let times = DEGREES.map(|k| (k, time(k))).into_iter();
            let best = times.min_by(|one, other| one.1.total_cmp(&other.1));
            best.unwrap_or((1, f64::INFINITY))
        };
        let (up, rising) = least(&|k| self.up(ranks, k, bytes));
        let (down, falling) = least(&|k| self.down(ranks, k, bytes));
        ([up, down], rising + falling)
    }

    /// Returns the time of a reduction up a tree, with one more step for ranks beyond a power of
    /// `k` + 1, which the thesis's figure omits.
    pub fn up(&self, ranks: u32, k: u32, bytes: usize) -> f64 {
        let mut time = 2.0 * self.copy * bytes as f64;
        let mut left = ranks;
        while left > 1 {
            time += self.step(k.min(left - 1), bytes);
            left = left.div_ceil(k + 1);
        }
        time
    }

    /// Returns the time of `bytes` from one of `ranks` down a tree of degree `k`.
    pub fn down(&self, ranks: u32, k: u32, bytes: usize) -> f64 {
        let others = k.min(ranks.saturating_sub(1)).saturating_sub(1);
        let hop = self.hop(bytes) + f64::from(others) * self.gap(bytes);
        f64::from(steps(ranks, k + 1)) * hop
    }

    /// Returns the time between two writes of a rank.
    pub fn gap(&self, bytes: usize) -> f64 {
        let wire = self.transmit * bytes as f64;
        (self.library + self.descriptor).max(self.startup).max(wire)
    }

    /// Returns the time of a step in which `senders` write to one rank.
    pub(super) fn step(&self, senders: u32, bytes: usize) -> f64 {
        let n = f64::from(senders);
        let wire = self.transmit * bytes as f64;
        let operation = self.operation[0] + self.operation[1] * bytes as f64;
        let sending = self.library + self.descriptor + self.startup + self.nic;
        let receiving = if wire > self.startup + self.nic {
            // Limited by the wire; adapter and reductions keep up.
            n * wire + self.startup
        } else {
            // Limited by the adapter.
            wire + n * self.startup + (n - 1.0) * (wire - self.startup).max(0.0)
        };
        sending + receiving + self.nic + operation
    }
}

/// Costs of the tests.
#[cfg(test)]
pub(crate) mod examples {
    use super::Parameters;

    /// Returns the costs of the thesis's cluster, as `osu-bench degrees --costs thesis`.
    pub fn thesis() -> Parameters {
        Parameters::from_numbers([0.010, 2.0, 0.027, 1.52, 0.6, 1.3, 0.1, 0.004])
    }

    /// Returns the costs of a network with flat trees, as `osu-bench degrees --costs fast`.
    pub fn fast() -> Parameters {
        Parameters::from_numbers([0.00004, 0.02, 0.0001, 0.42, 0.01, 0.01, 0.005, 0.0001])
    }
}

#[cfg(test)]
mod tests {
    use super::examples::{fast, thesis};
    use super::*;

    impl Parameters {
        /// Returns the time of a reduction of `bytes` over `ranks` up a tree of degree `k`, with copies
        /// in and out, in microseconds.
        fn reduce(&self, ranks: u32, k: u32, bytes: usize) -> f64 {
            let base = k + 1;
            let mut time = 2.0 * self.copy * bytes as f64;
            let (mut quotient, mut left) = (ranks / base, ranks);
            let mut remainder = ranks;
            while quotient != 0 {
                time += self.step(k, bytes);
                left = quotient;
                quotient = left / base;
                remainder = left % base;
            }
            if left > 1 && remainder > 1 {
                time += self.step(remainder - 1, bytes);
            }
            time
        }

        /// Returns the fastest degree, the smallest of equals.
        fn best_degree(&self, ranks: u32, bytes: usize) -> u32 {
            let mut best = (f64::INFINITY, 1);
            for k in DEGREES {
                let time = self.reduce(ranks, k, bytes);
                if time < best.0 {
                    best = (time, k);
                }
            }
            best.1
        }
    }

    #[test]
    fn the_best_degrees_are_those_of_figure_6_30() {
        for (bytes, degrees) in [
            (4, [3, 7, 3]),
            (64, [3, 7, 3]),
            (128, [3, 7, 3]),
            (256, [3, 7, 3]),
            (512, [3, 3, 3]),
            (1024, [3, 3, 3]),
            (2048, [1, 1, 1]),
            (4096, [1, 1, 1]),
        ] {
            for (ranks, degree) in [4, 8, 16].into_iter().zip(degrees) {
                let best = thesis().best_degree(ranks, bytes);
                assert_eq!(best, degree, "{ranks} ranks, {bytes} bytes");
            }
        }
    }

    #[test]
    fn pairs_beat_trees_but_where_ranks_are_too_many_for_them() {
        // A power of two goes in as many steps as a tree needs downwards alone.
        for ranks in [2, 4, 8, 16, 1024] {
            assert_eq!(GUESSED.best_way(ranks, 4), RdmaAllreduce::Pairs, "{ranks}");
        }
        assert!(thesis().pairs(5, 4) > thesis().pairs(4, 4));
        // Starting a transfer costs little here, so that a flat tree saves the steps of the odd
        // ones.
        let text = "0.001,0.01,0.0002,1,1,1,0.02,0.0003";
        let costs: Parameters = text.parse().unwrap();
        assert_eq!(costs.transmit, 0.001);
        assert_eq!(costs.operation, [0.02, 0.0003]);
        assert_ne!(costs.best_way(3, 4), RdmaAllreduce::Pairs);
        // Flat trees win where a write's gap is much shorter than its latency.
        assert_eq!(
            fast().best_way(16, 4),
            RdmaAllreduce::Tree { up: 15, down: 15 }
        );
        for wrong in [
            "",
            "1,2,3",
            "1,2,3,4,5,6,7,x",
            "1,2,3,4,5,6,7,-1",
            "1,2,3,4,5,6,7,inf",
        ] {
            assert!(wrong.parse::<Parameters>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_those_of_figure_6_16() {
        // Worked out by hand from the figure, for 4 bytes: sending 5.42, operation 0.116.
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let step = |n: f64| 5.42 + 0.04 + 1.52 + 2.0 * n + 0.116;
        let copies = 2.0 * 0.027 * 4.0;
        for (ranks, k, expect) in [
            (16, 1, 4.0 * step(1.0)),
            (16, 3, 2.0 * step(3.0)),
            (16, 15, step(15.0)),
            (16, 7, step(7.0) + step(1.0)),
            (8, 3, step(3.0) + step(1.0)),
        ] {
            let time = thesis().reduce(ranks, k, 4);
            assert!(close(time, expect + copies), "{ranks} {k} {time}");
        }
        // Where the wire is what messages wait for.
        let large = thesis().reduce(4, 3, 4096);
        let expect = 5.42 + 3.0 * 40.96 + 3.52 + 0.1 + 0.004 * 4096.0 + 2.0 * 0.027 * 4096.0;
        assert!(close(large, expect), "{large}");
    }
}
