//! Rankfiles in Open MPI's format, with the host and binding of each rank: `rank 0=node1
//! slot=1:0-2`, or `rank 1=+n0 slot=0` for the first of the job's hosts.

use super::{Host, word};
use crate::binding::Slots;
use crate::options::Section;

/// The line of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    host: HostRef,
    /// The binding.
    pub slots: Slots,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRef {
    Host(Host),
    /// An index into the job's hosts.
    Relative(usize),
}

/// Parses a rankfile into entries by rank. `name` is its name in errors.
pub fn read(name: &str, text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Option<Entry>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let said = |why: String| format!("'{name}', line {}: {why}", index + 1);
        let (rank, entry) = self::line(line).map_err(said)?;
        if entries.len() <= rank {
            entries.resize(rank + 1, None);
        }
        if entries[rank].replace(entry).is_some() {
            return Err(said(format!(
                "rank {rank} has a line already; leave one of them out"
            )));
        }
    }
    if entries.is_empty() {
        return Err(format!("'{name}' has no line 'rank N=HOST slot=CORES'"));
    }
    if let Some(rank) = entries.iter().position(Option::is_none) {
        return Err(format!("'{name}' has no line for rank {rank}"));
    }
    Ok(entries.into_iter().flatten().collect())
}

fn line(line: &str) -> Result<(usize, Entry), String> {
    let form = || format!("'{line}' should be 'rank N=HOST slot=CORES'");
    let rest = line.strip_prefix("rank").ok_or_else(form)?;
    let (rank, rest) = rest.split_once('=').ok_or_else(form)?;
    let rank = rank
        .trim()
        .parse::<usize>()
        .ok()
        .filter(|&rank| rank < 65_536);
    let rank = rank.ok_or_else(form)?;
    let (host, slots) = rest.split_once("slot").ok_or_else(form)?;
    let slots = slots.trim_start_matches('s').trim_start();
    let slots = Slots::read(slots.strip_prefix('=').ok_or_else(form)?)?;
    let host = host.trim();
    let host = match host.strip_prefix(['+']) {
        Some(number) => {
            let number = number.trim_start_matches(['n', 'N']).parse();
            HostRef::Relative(number.map_err(|_| form())?)
        }
        None => match <[Host; 1]>::try_from(word(host)?) {
            Ok([host]) => HostRef::Host(host),
            Err(_) => return Err(format!("'{host}' is not one host; name exactly one")),
        },
    };
    Ok((rank, Entry { host, slots }))
}

/// Sets the hosts of each section to those of its ranks, one entry per rank.
pub fn spread(sections: &mut [Section], entries: &[Entry], known: &[Host]) -> Result<(), String> {
    let mut rest = entries;
    let last = sections.len() - 1;
    for (index, section) in sections.iter_mut().enumerate() {
        let count = match section.asked {
            Some(count) => count,
            None if index == last => rest.len().max(1),
            None => 1,
        };
        let Some((mine, others)) = rest.split_at_checked(count) else {
            return Err(format!(
                "the rankfile has lines for {} ranks, fewer than the job has; add lines or start fewer",
                entries.len()
            ));
        };
        rest = others;
        let host = |entry: &Entry| match &entry.host {
            HostRef::Host(host) => Ok(host.clone()),
            HostRef::Relative(number) => known.get(*number).cloned().ok_or(format!(
                "the rankfile names host +n{number}, but {} hosts are given; name more by -hosts",
                known.len()
            )),
        };
        let hosts: Vec<Host> = mine.iter().map(host).collect::<Result<_, _>>()?;
        section.asked = Some(count);
        section.hosts = Some(hosts);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "# a job\nrank 1=b.example slot=0:0,1\n\nrank 0 = +n1  slot = 1:0-2 # first\nrank 2=me@c slots=p2-3\n";
        let entries = read("f", text).unwrap();
        let show = |entry: &Entry| match &entry.host {
            HostRef::Host(host) => format!(
                "{}{} {}",
                host.user.clone().unwrap_or_default(),
                host.name,
                entry.slots.text()
            ),
            HostRef::Relative(number) => format!("+{number} {}", entry.slots.text()),
        };
        let shown: Vec<String> = entries.iter().map(show).collect();
        assert_eq!(shown, ["+1 1:0-2", "b.example 0:0,1", "mec p2-3"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "has no line 'rank"),
            ("rank 0=a slot=0\nrank 2=a slot=0", "no line for rank 1"),
            ("rank 0=a slot=0\nrank 0=b slot=0", "line 2: rank 0 has"),
            ("rank 0=a slot=x", "line 1: 'x' in 'slot=x'"),
            ("rank 0=a", "should be"),
            ("rank x=a slot=0", "should be"),
            ("0=a slot=0", "should be"),
            ("rank 0=n[1-2] slot=0", "is not one host"),
            ("rank 99999999=a slot=0", "should be"),
        ] {
            let error = read("f", text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
