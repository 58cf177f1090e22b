//! Control variables: settings from the environment. Each transport owns its own; libmpi lists
//! them.

use std::ops::RangeInclusive;

use netmod::OpenError;

/// A control variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Name in the environment. Those of a transport between nodes begin with `WEFT_`, its name in
    /// capitals, and `_`.
    pub name: &'static str,
    /// Type of its value: "0 or 1", "count", "bytes", "name", "list", or named values as in "auto,
    /// ofi or none". The tool interface derives the MPI_T type from it.
    pub kind: &'static str,
    /// Value when it is not set, for people.
    pub default: &'static str,
    /// What it does. Contains "the same on all ranks" where that is required.
    pub help: &'static str,
}

/// Reads values of control variables. Empty values count as not set.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Reader<'a> {
    /// Makes a reader that takes the values from `get`.
    pub fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Reader { get }
    }

    /// Returns a value as text.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    /// Reads a value of type "0 or 1".
    ///
    /// # Errors
    /// It is something else. This and the other errors name the variable, its value and the allowed
    /// values.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.text(name).as_deref() {
            None => Ok(default),
            Some("1" | "yes" | "on" | "true") => Ok(true),
            Some("0" | "no" | "off" | "false") => Ok(false),
            Some(other) => Err(format!("{name} is {other:?}; it can be 0 or 1")),
        }
    }

    /// Reads a value of type "count" or "bytes".
    ///
    /// # Errors
    /// It is not a number in the range.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match parse_number(&text) {
            Some(value) if range.contains(&value) => Ok(Some(value)),
            _ => Err(format!(
                "{name} is {text:?}; it can be a number from {} to {} (k and m may follow)",
                range.start(),
                range.end()
            )),
        }
    }
}

/// Parses a number that may end in `k` (1,024) or `m` (1,048,576).
pub fn parse_number(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Checks that numbers are within their bounds: description, value, least and most.
///
/// # Errors
/// Names the first that is not.
pub fn check_bounds(numbers: &[(&str, usize, usize, usize)]) -> Result<(), OpenError> {
    for &(what, value, least, most) in numbers {
        if value < least || value > most {
            return Err(OpenError(format!(
                "{what} is {value}; it must be from {least} to {most}"
            )));
        }
    }
    Ok(())
}

/// Returns the Levenshtein distance of two words.
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_named() {
        let get = |name: &str| match name {
            "FLAG" => Some("on".to_string()),
            "NUMBER" => Some("64k".to_string()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let reader = Reader::new(&get);
        assert_eq!(reader.flag("FLAG", false), Ok(true));
        assert_eq!(reader.flag("EMPTY", true), Ok(true));
        assert_eq!(reader.number("NUMBER", 0..=1 << 20), Ok(Some(65536)));
        assert_eq!(reader.number("EMPTY", 0..=1), Ok(None));
        let error = reader.number("NUMBER", 0..=9).unwrap_err();
        assert!(error.contains("NUMBER") && error.contains("64k"), "{error}");
        let error = reader.flag("NUMBER", true).unwrap_err();
        assert!(
            error.contains("NUMBER") && error.contains("0 or 1"),
            "{error}"
        );
        assert_eq!(parse_number("99999999999999999999k"), None);
        assert_eq!(parse_number("2M"), Some(2 << 20));
    }
}
