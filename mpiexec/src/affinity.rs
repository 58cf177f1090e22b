//! Which cores each rank may use.

use std::collections::HashSet;

use crate::options::Bind;
use crate::system;

/// A set of CPUs as the kernel takes it, one bit each.
pub type Mask = Vec<u64>;

/// The cores that this process may use: for each the allowed CPUs (hardware threads) of it.
pub fn cores() -> Vec<Vec<usize>> {
    let allowed = cpus(&system::allowed_cpus());
    group(&allowed, |cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let text = std::fs::read_to_string(path).ok()?;
        siblings(text.trim())
    })
}

/// The masks of `ranks` ranks, empty for those that stay unbound.
pub fn masks(bind: Bind, ranks: usize) -> Vec<Mask> {
    match bind {
        Bind::None => vec![Mask::new(); ranks],
        _ => share(bind, ranks, &cores()),
    }
}

fn share(bind: Bind, ranks: usize, cores: &[Vec<usize>]) -> Vec<Mask> {
    let rank = |rank: usize| {
        let mine = match bind {
            Bind::None => vec![],
            _ if cores.is_empty() => vec![],
            // Round the machine as often as needed.
            Bind::Core(width) => {
                let first = rank.wrapping_mul(width) % cores.len();
                cores
                    .iter()
                    .cycle()
                    .skip(first)
                    .take(width.min(cores.len()))
                    .collect()
            }
            // Sharing some cores but not others would be worse than sharing all.
            Bind::Auto if ranks > cores.len() => vec![],
            // All cores are given out; shares differ by one at most.
            Bind::Auto => {
                let share = rank * cores.len() / ranks..(rank + 1) * cores.len() / ranks;
                cores[share].iter().collect()
            }
        };
        mask(mine.into_iter().flatten().copied())
    };
    (0..ranks).map(rank).collect()
}

fn mask(cpus: impl Iterator<Item = usize>) -> Mask {
    let mut mask = Mask::new();
    for cpu in cpus {
        let word = cpu / 64;
        if word >= mask.len() {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1 << (cpu % 64);
    }
    mask
}

fn cpus(mask: &[u64]) -> Vec<usize> {
    let is_set = |&cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    (0..mask.len() * 64).filter(is_set).collect()
}

/// Groups CPUs by core; one whose siblings are unknown is a core of its own.
fn group(allowed: &[usize], siblings: impl Fn(usize) -> Option<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    let mut done: HashSet<usize> = HashSet::new();
    for &cpu in allowed {
        if done.contains(&cpu) {
            continue;
        }
        let mut core = siblings(cpu).unwrap_or_default();
        core.retain(|cpu| allowed.binary_search(cpu).is_ok() && !done.contains(cpu));
        if !core.contains(&cpu) {
            core = vec![cpu];
        }
        done.extend(&core);
        cores.push(core);
    }
    cores
}

/// Reads a list like `0,4-6`.
fn siblings(text: &str) -> Option<Vec<usize>> {
    let mut list: Vec<usize> = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No core has more threads than this; a longer list is not to be believed.
        if first > last || last - first > 64 {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(masks: &[Mask]) -> Vec<Vec<usize>> {
        masks.iter().map(|mask| cpus(mask)).collect()
    }

    #[test]
    fn shares_are_distinct_and_use_all_cores() {
        let cores = [vec![0, 4], vec![1, 5], vec![2, 6], vec![70]];
        assert_eq!(
            bits(&share(Bind::Auto, 2, &cores)),
            [vec![0, 1, 4, 5], vec![2, 6, 70]]
        );
        assert_eq!(
            bits(&share(Bind::Auto, 4, &cores)),
            [vec![0, 4], vec![1, 5], vec![2, 6], vec![70]]
        );
        assert_eq!(bits(&share(Bind::Auto, 5, &cores)), vec![vec![]; 5]);
        assert_eq!(
            bits(&share(Bind::Core(1), 5, &cores))[3..],
            [vec![70], vec![0, 4]]
        );
        assert_eq!(
            bits(&share(Bind::Core(3), 2, &cores)),
            [vec![0, 1, 2, 4, 5, 6], vec![0, 1, 4, 5, 70]]
        );
        assert_eq!(
            bits(&share(Bind::Core(usize::MAX), 1, &cores)),
            [vec![0, 1, 2, 4, 5, 6, 70]]
        );
        assert_eq!(bits(&share(Bind::Core(1), 1, &[])), [vec![]]);
    }

    #[test]
    fn cores_hold_allowed_threads_only() {
        let pairs = |cpu: usize| siblings(&format!("{},{}", cpu % 4, cpu % 4 + 4));
        assert_eq!(group(&[0, 1, 4, 6], pairs), [vec![0, 4], vec![1], vec![6]]);
        assert_eq!(group(&[3, 9], |_| None), [vec![3], vec![9]]);
        assert_eq!(siblings("0-1,8"), Some(vec![0, 1, 8]));
        assert_eq!(siblings("x"), None);
        assert_eq!(siblings("0-99999999999"), None);
    }
}
