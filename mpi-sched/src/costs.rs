//! Measured costs of remote writes on a host: text that `osu-bench tune --costs` writes.
//!
//! A line describes one netmod: its name; the eight times of [`Parameters`] in microseconds,
//! separated by commas; and the bytes up to which writes are faster than messages, or `never`.
//! Collectives with another limit follow, as in `reduce=1024` or `alltoall=never`. `#` begins a
//! comment.

use std::ffi::OsString;
use std::path::PathBuf;

use super::collective::{Collective, WRITTEN};
use super::model::{NUMBERS, Parameters};

/// The costs of a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Network {
    /// The costs of a write.
    pub costs: Parameters,
    /// The bytes up to which writes are faster than messages.
    pub quick: Quick,
}

/// Words of a [`Network`] in messages.
const WORDS: usize = COLLECTIVES.len() + NUMBERS;

impl Network {
    /// Returns the words from which [`Network::from_words`] reads it.
    pub fn to_words(self) -> [u64; WORDS] {
        let (limits, times) = (self.quick.to_words(), self.costs.to_numbers());
        std::array::from_fn(|i| match i.checked_sub(limits.len()) {
            None => limits[i],
            Some(i) => times[i].to_bits(),
        })
    }

    /// Reads what [`Network::to_words`] has returned.
    pub fn from_words(words: [u64; WORDS]) -> Network {
        let (limits, times) = words.split_at(COLLECTIVES.len());
        Network {
            costs: Parameters::from_numbers(std::array::from_fn(|i| f64::from_bits(times[i]))),
            quick: Quick::from_words(std::array::from_fn(|i| limits[i])),
        }
    }
}

/// The collectives that can use remote writes.
pub const COLLECTIVES: [Collective; WRITTEN.len()] = WRITTEN;

/// The bytes, as [`Situation`] counts them, up to which each of [`COLLECTIVES`] is faster by writes
/// than by messages; `None` for never.
///
/// [`Situation`]: super::Situation
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quick([Option<usize>; COLLECTIVES.len()]);

impl Quick {
    /// Creates the same limit for all collectives.
    pub fn all(bytes: Option<usize>) -> Quick {
        Quick([bytes; COLLECTIVES.len()])
    }

    /// Returns the limits to assume without a measurement on this host, from the netmod's limit
    /// `bytes` and measurements between two ranks (docs/performance.md). Collectives that were not
    /// measured get `None`.
    pub fn guess(netmod: &str, bytes: Option<usize>) -> Quick {
        let mut quick = Quick::all(bytes);
        let over_libfabric = netmod == "ofi";
        let at_most = |most: usize| bytes.map(|bytes| bytes.min(most));
        if over_libfabric {
            quick.set(Collective::Bcast, at_most(1024));
            quick.set(Collective::Reduce, at_most(64));
        } else {
            for collective in [
                Collective::Reduce,
                Collective::Allgather,
                Collective::Alltoall,
            ] {
                quick.set(collective, None);
            }
        }
        quick
    }

    /// Returns whether any collective is faster by writes.
    pub fn is_any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    fn index(collective: Collective) -> Option<usize> {
        COLLECTIVES.iter().position(|known| *known == collective)
    }

    /// Returns the limit of a collective.
    pub fn of(&self, collective: Collective) -> Option<usize> {
        self.0[Quick::index(collective)?]
    }

    /// Sets the limit of a collective, which must be one of [`COLLECTIVES`].
    pub fn set(&mut self, collective: Collective, bytes: Option<usize>) {
        if let Some(index) = Quick::index(collective) {
            self.0[index] = bytes;
        }
    }

    /// Encodes the limits for another rank.
    pub fn to_words(self) -> [u64; COLLECTIVES.len()] {
        self.0
            .map(|bytes| bytes.map_or(u64::MAX, |bytes| bytes as u64))
    }

    /// Decodes limits of another rank.
    pub fn from_words(words: [u64; COLLECTIVES.len()]) -> Quick {
        Quick(words.map(|word| (word != u64::MAX).then_some(word as usize)))
    }
}

/// The measured costs of a host's networks, by netmod.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Measured(Vec<(Box<str>, Network)>);

impl Measured {
    /// Returns the costs of a netmod's network.
    pub fn of(&self, netmod: &str) -> Option<&Network> {
        let found = self.0.iter().find(|(name, _)| **name == *netmod);
        found.map(|(_, network)| network)
    }

    /// Sets the costs of a netmod's network.
    pub fn set(&mut self, netmod: &str, network: Network) {
        self.0.retain(|(name, _)| **name != *netmod);
        self.0.push((netmod.into(), network));
    }
}

/// Returns the default path of a host's file; `get` reads the environment.
pub fn usual_file(host: &str, get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let is_good = |path: &PathBuf| path.is_absolute();
    let own = get("XDG_CONFIG_HOME").map(PathBuf::from).filter(is_good);
    let home = || Some(PathBuf::from(get("HOME")?).join(".config"));
    let folder = own.or_else(home).filter(is_good)?;
    Some(folder.join("weft").join(format!("costs.{host}")))
}

/// Largest vector in bytes that is sent by writes.
const MOST: usize = 1 << 30;

impl std::str::FromStr for Measured {
    type Err = String;

    /// Fails with the number of the first invalid line, and why it is invalid.
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
    let &[netmod, costs, common, ref others @ ..] = words else {
        return Err(format!(
            "{} words; there must be a netmod, eight times with commas between, and bytes or \"never\"",
            words.len()
        ));
    };
    let costs = costs.parse()?;
    let mut quick = Quick::all(limit(common)?);
    for word in others {
        let (name, bytes) = word.split_once('=').unwrap_or((word, ""));
        let Some(collective) = COLLECTIVES.into_iter().find(|one| one.name() == name) else {
            return Err(format!(
                "{word:?} is no collective with a limit, as in reduce=1024; there are {}",
                COLLECTIVES.map(Collective::name).join(", ")
            ));
        };
        quick.set(collective, limit(bytes)?);
    }
    Ok((netmod, Network { costs, quick }))
}

fn limit(word: &str) -> Result<Option<usize>, String> {
    if word == "never" {
        return Ok(None);
    }
    let bytes: Option<usize> = word.parse().ok().filter(|bytes| *bytes <= MOST);
    let wrong = || format!("{word:?} is neither a number of bytes nor \"never\"");
    bytes.map(Some).ok_or_else(wrong)
}

impl std::fmt::Display for Measured {
    /// Writes the form that `from_str` reads, without comments.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let say = |bytes: Option<usize>| bytes.map_or("never".to_string(), |it| it.to_string());
        for (netmod, Network { costs, quick }) in &self.0 {
            let common = quick.0[0];
            write!(f, "{netmod} {costs} {}", say(common))?;
            for (collective, bytes) in COLLECTIVES.iter().zip(quick.0) {
                if bytes != common {
                    write!(f, " {}={}", collective.name(), say(bytes))?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choices;
    use crate::model::{GUESSED, examples};

    #[test]
    fn what_is_written_is_read() {
        let mut measured = Measured::default();
        let fast = Network {
            costs: examples::fast(),
            quick: {
                let mut quick = Quick::all(Some(4096));
                quick.set(Collective::Reduce, None);
                quick.set(Collective::Bcast, Some(1 << 20));
                quick
            },
        };
        let slow = Network {
            costs: GUESSED,
            quick: Quick::all(None),
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
        assert_eq!(
            (other.costs, other.quick),
            (GUESSED, Quick::guess("ofi", Some(9)))
        );
        assert_eq!(fast.quick.of(Collective::Bcast), Some(1 << 20));
        assert_eq!(Quick::from_words(fast.quick.to_words()), fast.quick);
        choices.set_costs(examples::fast());
        assert_eq!(choices.network("tcp", Some(9)).costs, examples::fast());
    }

    #[test]
    fn nothing_is_thought_to_be_quick_that_was_not_measured() {
        let guess = |netmod: &str| Quick::guess(netmod, Some(8192));
        assert!(!Quick::guess("tcp", None).is_any());
        let ofi = guess("ofi");
        assert_eq!(ofi.of(Collective::Alltoall), Some(8192));
        assert_eq!(
            (ofi.of(Collective::Bcast), ofi.of(Collective::Reduce)),
            (Some(1024), Some(64))
        );
        let verbs = Quick::guess("verbs", Some(32));
        assert_eq!(
            (verbs.of(Collective::Bcast), verbs.of(Collective::Reduce)),
            (Some(32), None)
        );
        assert!(!Quick::guess("ucx", None).is_any());
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
        let good = format!("tcp {} 8192\n", examples::fast());
        for (line, why) in [
            ("tcp 1,2 8192", "2 numbers"),
            ("tcp 1,2,3,4,5,6,7,8", "2 words"),
            ("ofi 1,2,3,4,5,6,7,8 -1", "neither"),
            ("ofi 1,2,3,4,5,6,7,8 9 gather=9", "no collective"),
            ("ofi 1,2,3,4,5,6,7,8 9 reduce", "neither"),
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
