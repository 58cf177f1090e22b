//! Formats of numbers.

/// Formats a time span.
pub fn span(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000 => format!("{} us", nanoseconds / 1000),
        1_000_000..1_000_000_000 => format!("{} ms", nanoseconds / 1_000_000),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}

/// Formats an amount of data.
pub fn amount(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// Formats numbers as ranges: `0-2, 5`.
pub fn runs(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |(first, last)| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(span(999), "0 us");
        assert_eq!(span(2_500_000), "2 ms");
        assert_eq!(span(3_200_000_000), "3.2 s");
        assert_eq!(amount(1000), "1000 B");
        assert_eq!(amount(1536), "1.5 KiB");
        assert_eq!(amount(5 << 30), "5.0 GiB");
        assert_eq!(runs(vec![5, 1, 0, 2, 2]), "0-2, 5");
    }
}
