//! What is measured, in which order: the plan that the two ranks and their parent share.

use clap::ValueEnum;

/// Which side of the message is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The sender, rank 0.
    Send,
    /// The receiver, rank 1.
    Receive,
    /// Rank 1 of blocking calls.
    Blocking,
    /// The sender of windows of messages.
    SendWindow,
    /// The receiver of windows of messages.
    ReceiveWindow,
}

/// Which calls of an iteration are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The start and the wait.
    Both,
    /// Isend or Irecv alone.
    Start,
    /// Wait alone.
    Wait,
}

/// A run of iterations between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What is counted.
    pub part: Part,
    /// Whether MPI is called, or empty functions.
    pub real: bool,
    /// The number of iterations.
    pub iterations: u64,
}

/// The parts, in the order in which they are reported.
pub const PARTS: [Part; 3] = [Part::Both, Part::Start, Part::Wait];

/// Iterations that only warm caches and connections up.
pub const WARM_UP: u64 = 256;

/// The sender waits for an acknowledgement after so many messages, so that the receiver always
/// has room; all iteration counts are multiples of it.
pub const BATCH: u64 = 16;

/// All phases for these two iteration counts. The first one is warm-up; then each part has four:
/// empty and real, few and many iterations.
pub fn phases(few: u64, many: u64) -> Vec<Phase> {
    let mut phases = vec![Phase {
        part: Part::Both,
        real: true,
        iterations: WARM_UP,
    }];
    for part in PARTS {
        for real in [false, true] {
            phases.extend([few, many].map(|iterations| Phase {
                part,
                real,
                iterations,
            }));
        }
    }
    phases
}

/// Messages that travel in all phases.
pub fn messages(phases: &[Phase]) -> u64 {
    phases
        .iter()
        .filter(|phase| phase.real)
        .map(|phase| phase.iterations)
        .sum()
}

/// Instructions per iteration of each part, from the collected counts of all phases: the
/// difference between many and few iterations, less the same of empty functions.
pub fn per_iteration(counts: &[u64], few: u64, many: u64) -> Option<[f64; 3]> {
    let parts = counts.get(1..)?;
    let slope = |low: u64, high: u64| (high as f64 - low as f64) / (many - few) as f64;
    let part = |c: &[u64]| slope(c[2], c[3]) - slope(c[0], c[1]);
    let result: Vec<f64> = parts.chunks_exact(4).map(part).collect();
    result.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_pair_few_with_many() {
        let phases = phases(16, 32);
        assert_eq!(phases.len(), 1 + 4 * PARTS.len());
        assert_eq!(
            phases[3],
            Phase {
                part: Part::Both,
                real: true,
                iterations: 16
            }
        );
        assert_eq!(
            phases[4],
            Phase {
                part: Part::Both,
                real: true,
                iterations: 32
            }
        );
        assert_eq!(messages(&phases), WARM_UP + 3 * 48);
    }

    #[test]
    fn constants_and_calls_cancel() {
        // 7 instructions per call around an empty function, 100 once, 570 in the real one.
        let one = |per: u64, n: u64| 100 + per * n;
        let mut counts = vec![12345];
        for real in [570, 250, 320] {
            counts.extend([one(7, 16), one(7, 32), one(7 + real, 16), one(7 + real, 32)]);
        }
        assert_eq!(per_iteration(&counts, 16, 32), Some([570.0, 250.0, 320.0]));
        assert_eq!(per_iteration(&counts[..9], 16, 32), None);
        assert_eq!(per_iteration(&[], 16, 32), None);
    }
}
