//! Lists of ranks as text: numbers and ranges, separated by commas.

/// Writes a sorted list of ranks, as in `0,2-5`.
pub fn to_text(ranks: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = ranks;
    while let [first, ..] = rest {
        let run = (0..)
            .zip(rest)
            .take_while(|(at, rank)| Some(**rank) == first.checked_add(*at));
        let count = run.count();
        parts.push(match count {
            1 => first.to_string(),
            _ => format!("{first}-{}", rest[count - 1]),
        });
        rest = &rest[count..];
    }
    parts.join(",")
}

/// Reads a list of ranks below `size`. Returns `None` if it is malformed or empty.
pub fn parse(text: &str, size: usize) -> Option<Vec<usize>> {
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= size || ranks.len() + (last - first) >= size {
            return None;
        }
        ranks.extend(first..=last);
    }
    Some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_and_nonsense_is_refused() {
        for ranks in [&[0][..], &[3, 4, 5, 9], &[0, 2, 4], &[1, 2]] {
            let text = to_text(ranks);
            let back: Vec<u32> = parse(&text, 10)
                .unwrap()
                .iter()
                .map(|rank| *rank as u32)
                .collect();
            assert_eq!(back, ranks, "{text}");
        }
        assert_eq!(to_text(&[0, 1, 2, 7]), "0-2,7");
        for wrong in [
            "",
            ",",
            "1,",
            "x",
            "3-1",
            "10",
            "0-99999999999",
            "-1",
            "0-9,0-9,0-9",
        ] {
            assert_eq!(parse(wrong, 10), None, "{wrong}");
        }
    }
}
