//! Which transport each pair of ranks uses, in a line for `WEFT_INFO`.

use std::collections::BTreeMap;

/// Most ranks whose pairs are looked at one by one.
pub const MOST: usize = 64;

/// Describes the pairs of `size` ranks. `of` returns the transport of a pair, the lower rank first;
/// `None` if there is none.
pub fn describe(size: usize, of: impl Fn(usize, usize) -> Option<String>) -> String {
    let mut pairs: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    for low in 0..size {
        for high in low + 1..size {
            let name = of(low, high).unwrap_or_else(|| "no transport".to_owned());
            pairs.entry(name).or_default().push((low, high));
        }
    }
    if let ([name], true) = (&pairs.keys().collect::<Vec<_>>()[..], size > 1) {
        return format!("pairs of ranks: all by {name}");
    }
    let parts = pairs.iter().map(|(name, pairs)| {
        let within = match groups(size, pairs) {
            Some(groups) => format!(" (within {})", groups.join("; ")),
            None => String::new(),
        };
        format!("{} by {name}{within}", pairs.len())
    });
    format!("pairs of ranks: {}", parts.collect::<Vec<_>>().join(", "))
}

/// Returns the groups whose members are all paired with each other, if the pairs are such groups.
fn groups(size: usize, pairs: &[(usize, usize)]) -> Option<Vec<String>> {
    // The lowest rank that each is paired with, or itself.
    let mut lowest: Vec<usize> = (0..size).collect();
    for &(low, high) in pairs {
        lowest[high] = lowest[high].min(low);
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (rank, &first) in lowest.iter().enumerate() {
        members.entry(first).or_default().push(rank);
    }
    members.retain(|_, group| group.len() > 1);
    let expected: usize = members
        .values()
        .map(|group| group.len() * (group.len() - 1) / 2)
        .sum();
    let is_within = |&(low, high): &(usize, usize)| lowest[low] == lowest[high];
    let are_groups = expected == pairs.len() && pairs.iter().all(is_within);
    are_groups.then(|| members.values().map(|group| runs(group)).collect())
}

/// Formats ascending numbers as `0-2, 5`.
fn runs(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let one = |(first, last)| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_summarized_by_transport() {
        let by_node = |nodes: &'static [usize]| {
            move |low: usize, high: usize| {
                let name = if nodes[low] == nodes[high] {
                    "shm"
                } else {
                    "tcp"
                };
                Some(name.to_owned())
            }
        };
        assert_eq!(
            describe(3, by_node(&[0, 0, 0])),
            "pairs of ranks: all by shm"
        );
        assert_eq!(
            describe(4, by_node(&[0, 0, 1, 1])),
            "pairs of ranks: 2 by shm (within 0-1; 2-3), 4 by tcp"
        );
        assert_eq!(
            describe(5, by_node(&[0, 1, 0, 1, 0])),
            "pairs of ranks: 4 by shm (within 0, 2, 4; 1, 3), 6 by tcp"
        );
        // Rank 0 shares memory with both others, which do not with each other.
        let star = |low: usize, _| Some(if low == 0 { "shm" } else { "tcp" }.to_owned());
        let text = describe(3, star);
        assert_eq!(text, "pairs of ranks: 2 by shm, 1 by tcp (within 1-2)");
        assert_eq!(
            describe(2, |_, _| None),
            "pairs of ranks: all by no transport"
        );
    }
}
