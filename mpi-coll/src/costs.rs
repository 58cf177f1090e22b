//! What writes over networks cost on a host: text that `osu-bench tune --costs` writes.
//!
//! A line is about one netmod: its name, the eight times of [`Parameters`] in microseconds with commas between, and
//! up to how many bytes writes are quicker than messages, or `never`. What follows `#` is a comment.

use std::ffi::OsString;
use std::path::PathBuf;

use super::model::Parameters;

/// What is known of a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Network {
    /// What a write costs.
    pub costs: Parameters,
    /// Up to how many bytes writes are quicker than messages, if ever.
    pub quick: Option<usize>,
}

/// What was measured on a host, by netmods.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Measured(Vec<(Box<str>, Network)>);

impl Measured {
    /// What is known of a netmod's network.
    pub fn of(&self, netmod: &str) -> Option<&Network> {
        let found = self.0.iter().find(|(name, _)| **name == *netmod);
        found.map(|(_, network)| network)
    }

    /// Puts a network in, in place of what was known of it.
    pub fn set(&mut self, netmod: &str, network: Network) {
        self.0.retain(|(name, _)| **name != *netmod);
        self.0.push((netmod.into(), network));
    }
}

/// Where the file of a host is, if nobody says; `get` looks into the environment.
pub fn usual_file(host: &str, get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let is_good = |path: &PathBuf| path.is_absolute();
    let own = get("XDG_CONFIG_HOME").map(PathBuf::from).filter(is_good);
    let home = || Some(PathBuf::from(get("HOME")?).join(".config"));
    let folder = own.or_else(home).filter(is_good)?;
    Some(folder.join("weft").join(format!("costs.{host}")))
}

/// The most bytes of a vector: more never goes by writes.
const MOST: usize = 1 << 30;

impl std::str::FromStr for Measured {
    type Err = String;

    /// Says of which line it can't be understood, and why.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut measured = Measured::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let (netmod, network) =
                network(&words).map_err(|why| format!("line {number}: {why}"))?;
            if measured.of(netmod).is_some() {
                return Err(format!("line {number}: {netmod} has had a line before"));
            }
            measured.set(netmod, network);
        }
        Ok(measured)
    }
}

fn network<'a>(words: &[&'a str]) -> Result<(&'a str, Network), String> {
    let &[netmod, costs, quick] = words else {
        return Err(format!(
            "{} words; there must be a netmod, eight times with commas between, and bytes or \"never\"",
            words.len()
        ));
    };
    let costs = costs.parse()?;
    let quick =
        match quick {
            "never" => None,
            bytes => {
                let bytes: Option<usize> = bytes.parse().ok().filter(|bytes| *bytes <= MOST);
                Some(bytes.ok_or_else(|| {
                    format!("{quick:?} is neither a number of bytes nor \"never\"")
                })?)
            }
        };
    Ok((netmod, Network { costs, quick }))
}

impl std::fmt::Display for Measured {
    /// As it is read, but for comments.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (netmod, Network { costs, quick }) in &self.0 {
            match quick {
                Some(bytes) => writeln!(f, "{netmod} {costs} {bytes}")?,
                None => writeln!(f, "{netmod} {costs} never")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choices;
    use crate::model::{FAST, GUESSED};

    #[test]
    fn what_is_written_is_read() {
        let mut measured = Measured::default();
        let fast = Network {
            costs: FAST,
            quick: Some(4096),
        };
        let slow = Network {
            costs: GUESSED,
            quick: None,
        };
        measured.set("tcp", fast);
        measured.set("verbs", fast);
        measured.set("tcp", slow);
        let text = format!("# head\n\n{measured} # tail\n");
        let read: Measured = text.parse().unwrap();
        assert_eq!(read.of("tcp"), Some(&slow));
        assert_eq!(read.of("verbs"), Some(&fast));
        assert_eq!(read.of("ofi"), None);
        let mut choices = Choices::default();
        choices.set_measured(read);
        assert_eq!(choices.network("tcp", Some(9)), slow);
        let other = choices.network("ofi", Some(9));
        assert_eq!((other.costs, other.quick), (GUESSED, Some(9)));
        choices.set_costs(FAST);
        assert_eq!(choices.network("tcp", Some(9)).costs, FAST);
    }

    #[test]
    fn the_usual_place_is_that_of_the_host() {
        let with = |name: &'static str, value: &'static str| {
            usual_file("n7", move |asked| (asked == name).then(|| value.into()))
        };
        assert_eq!(
            with("XDG_CONFIG_HOME", "/c"),
            Some("/c/weft/costs.n7".into())
        );
        assert_eq!(with("HOME", "/h"), Some("/h/.config/weft/costs.n7".into()));
        assert_eq!(with("XDG_CONFIG_HOME", "c"), None);
        assert_eq!(with("PATH", "/c"), None);
    }

    #[test]
    fn wrong_lines_are_named() {
        let good = format!("tcp {FAST} 8192\n");
        for (line, why) in [
            ("tcp 1,2 8192", "2 numbers"),
            ("tcp 1,2,3,4,5,6,7,8", "2 words"),
            ("ofi 1,2,3,4,5,6,7,8 -1", "neither"),
            ("ofi 1,2,3,4,5,6,7,8 99999999999", "neither"),
            ("ofi 1,2,3,4,5,6,7,nan never", "nan"),
            ("tcp 1,2,3,4,5,6,7,8 never", "before"),
        ] {
            let error = format!("{good}{line}").parse::<Measured>().unwrap_err();
            assert!(
                error.starts_with("line 2: ") && error.contains(why),
                "{error}"
            );
        }
    }
}
