//! Host names with ranges, `rack[1-2]node[01-16,20]`, as in Slurm and Flux.

use super::{LONGEST_NAME, MOST_HOSTS as MOST};

/// Most digits of a number in a range.
const DIGITS: usize = 32;

/// Checks the number of hosts in a list.
pub fn check_count(count: usize) -> Result<(), String> {
    match count > MOST {
        true => Err(format!("the list stands for more than {MOST} hosts")),
        false => Ok(()),
    }
}

/// Splits a list at commas outside brackets.
pub fn split(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return Err(format!("'{text}' has a ']' without its '['")),
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("'{text}' has a '[' without its ']'"));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// Returns whether a name is an IPv6 address, with or without brackets.
pub fn is_address(name: &str) -> bool {
    let inner = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    let inner = inner.unwrap_or(name);
    let address = inner.split('%').next().unwrap_or_default();
    address.parse::<std::net::Ipv6Addr>().is_ok()
}

/// Expands the ranges of a name. The last range varies fastest.
pub fn expand(text: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = text;
    loop {
        let Some(open) = rest.find('[') else {
            if rest.contains(']') {
                return Err(format!("'{text}' has a ']' without its '['"));
            }
            check_length(text, &names, rest, "")?;
            names.iter_mut().for_each(|name| name.push_str(rest));
            return Ok(names);
        };
        let close = rest[open..]
            .find(']')
            .ok_or_else(|| format!("'{text}' has a '[' without its ']'"))?;
        let (head, inside) = (&rest[..open], &rest[open + 1..open + close]);
        let numbers = numbers(inside).map_err(|why| format!("'{text}': {why}"))?;
        if names.len().saturating_mul(numbers.len()) > MOST {
            return Err(format!("'{text}' stands for more than {MOST} hosts"));
        }
        let longest = numbers.iter().max_by_key(|number| number.len());
        check_length(text, &names, head, longest.map_or("", String::as_str))?;
        let with = |name: &String, number: &String| format!("{name}{head}{number}");
        names = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |number| with(name, number)))
            .collect();
        rest = &rest[open + close + 1..];
    }
}

/// Checks that names stay short with `head` and `number` appended, before thousands of them are
/// built.
fn check_length(text: &str, names: &[String], head: &str, number: &str) -> Result<(), String> {
    let before = names.iter().map(String::len).max().unwrap_or(0);
    match before + head.len() + number.len() > LONGEST_NAME {
        true => Err(format!(
            "'{text}' stands for names of more than {LONGEST_NAME} characters"
        )),
        false => Ok(()),
    }
}

/// Expands a comma-separated list of names.
pub fn names(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in split(text)? {
        names.extend(expand(part)?);
        check_count(names.len())?;
    }
    Ok(names)
}

/// Expands `01-03,7`. Each number is padded to the width of the first of its range.
fn numbers(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => digits.parse::<usize>().ok(),
            false => None,
        };
        let (Some(from), Some(to)) = (number(first), number(last)) else {
            return Err(format!("'[{text}]' is not a range of numbers"));
        };
        if first.len() > DIGITS {
            return Err(format!("a number in '[...]' has more than {DIGITS} digits"));
        }
        if from > to {
            return Err(format!("the range {part} runs backwards"));
        }
        if to - from >= MOST || all.len() + (to - from) >= MOST {
            return Err(format!("the range {part} has more than {MOST} numbers"));
        }
        let width = first.len();
        all.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_their_digits() {
        let all = |text: &str| expand(text).unwrap().join(" ");
        assert_eq!(all("node[01-03]"), "node01 node02 node03");
        assert_eq!(all("n[8-11]"), "n8 n9 n10 n11");
        assert_eq!(all("n[098-101]x"), "n098x n099x n100x n101x");
        assert_eq!(all("r[1-2]n[1,3]"), "r1n1 r1n3 r2n1 r2n3");
        assert_eq!(all("plain"), "plain");
    }

    #[test]
    fn slips_are_named() {
        for (text, part) in [
            ("n[1-", "without its ']'"),
            ("n1]", "without its '['"),
            ("n[3-1]", "backwards"),
            ("n[a-b]", "not a range"),
            ("n[]", "not a range"),
            ("n[1-99999999]", "more than"),
            ("n[1-300]x[1-300]", "more than"),
            ("n[1--3]", "not a range"),
        ] {
            let error = expand(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn lists_without_measure_are_refused() {
        let digits = format!("n[{}-1]", "0".repeat(70_000));
        assert!(expand(&digits).unwrap_err().contains("more than 32 digits"));
        assert_eq!(names("a,n[1-2]").unwrap(), ["a", "n1", "n2"]);
        let long = format!("n[1-60000]{}", "x".repeat(4000));
        assert!(expand(&long).unwrap_err().contains("more than 255"));
        assert!(expand(&"x".repeat(255)).is_ok());
        let many = ["n[1-60000]"; 100].join(",");
        assert!(names(&many).unwrap_err().contains("more than 65536 hosts"));
    }

    #[test]
    fn commas_in_brackets_do_not_separate() {
        assert_eq!(split("a,b[1,2],c").unwrap(), ["a", "b[1,2]", "c"]);
        assert!(split("a[1,b").is_err());
        assert!(split("a]1,b").is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_as_a_range_comes_back(first in 0usize..2000, count in 1usize..50, width in 1usize..5) {
            let last = first + count - 1;
            let names = expand(&format!("n[{first:0width$}-{last}]")).unwrap();
            proptest::prop_assert_eq!(names.len(), count);
            for (offset, name) in names.iter().enumerate() {
                proptest::prop_assert_eq!(name, &format!("n{:0width$}", first + offset));
            }
        }

        #[test]
        fn nothing_makes_it_fail_otherwise(text in "[a-c0-9,\\[\\]-]{0,20}") {
            let _ = expand(&text);
            let _ = split(&text).map(|parts| parts.len());
        }
    }
}
