//! The state of the machine during a comparison.

use std::fs;

use crate::library::cores;

/// A snapshot of the machine's state.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Load average over one minute.
    pub load: f64,
    /// Ticks of all processors: whole, and those that the hypervisor took.
    ticks: Option<(u64, u64)>,
}

impl Moment {
    /// Takes a snapshot.
    pub fn now() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            load: load
                .split_whitespace()
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(f64::NAN),
            ticks: ticks(&stat),
        }
    }

    /// Returns the share of stolen processor time since `earlier`.
    pub fn stolen_since(&self, earlier: &Self) -> Option<f64> {
        let ((all, stolen), (all_then, stolen_then)) = (self.ticks?, earlier.ticks?);
        let all = all.checked_sub(all_then).filter(|&all| all > 0)?;
        Some(stolen.checked_sub(stolen_then)? as f64 / all as f64)
    }
}

/// All ticks and stolen ticks in `/proc/stat`: user, nice, system, idle, iowait, irq, softirq,
/// steal.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    Some((fields.iter().take(8).sum(), *fields.get(7)?))
}

/// Returns the processor's model and the number of cores.
pub fn description() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model(&info).unwrap_or("unknown processor");
    format!("{model}, {} cores", cores())
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_parse() {
        assert_eq!(ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n"), Some((36, 8)));
        assert_eq!(ticks("cpu 1 2\n"), None);
        assert_eq!(
            model("processor\t: 0\nmodel name\t: Some CPU\n"),
            Some("Some CPU")
        );
    }

    #[test]
    fn stolen_time_is_a_share() {
        let then = Moment {
            load: 0.0,
            ticks: Some((100, 10)),
        };
        let now = Moment {
            load: 0.0,
            ticks: Some((200, 35)),
        };
        assert_eq!(now.stolen_since(&then), Some(0.25));
        assert_eq!(then.stolen_since(&then), None);
    }
}
