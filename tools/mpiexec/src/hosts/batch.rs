//! The hosts that a batch system has allocated to a job.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use super::{Host, MOST_HOSTS, MOST_SLOTS, list, ranks};

/// A batch system's allocation.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The name of the system in `-rmk`.
    pub system: &'static str,
    /// The hosts, each with its slots.
    pub hosts: Vec<Host>,
}

/// The systems of `-rmk`.
pub const SYSTEMS: &[&str] = &["slurm", "pbs", "lsf", "sge", "cobalt", "flux"];

/// The environment of the launcher, replaced in tests.
pub trait Surroundings {
    /// Returns an environment variable.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// Returns an environment variable as text.
    fn text(&self, name: &str) -> Option<String> {
        Some(self.variable(name)?.to_string_lossy().into_owned())
    }
    /// Reads a file.
    fn file(&self, path: &OsStr) -> Result<String, String>;
    /// Returns the list of hosts that Flux's command prints.
    fn flux(&self) -> Result<String, String>;
}

/// Returns the allocation of the surrounding batch job, if there is one; with `only`, of this
/// system.
pub fn find(around: &impl Surroundings, only: Option<&str>) -> Result<Option<Allocation>, String> {
    for &system in SYSTEMS {
        if only.is_some_and(|only| only != system) {
            continue;
        }
        let hosts = match system {
            "slurm" => slurm(around)?,
            "pbs" => node_file(around, "PBS_NODEFILE")?,
            "lsf" => lsf(around)?,
            "sge" => sge(around)?,
            "cobalt" => node_file(around, "COBALT_NODEFILE")?,
            _ => flux(around)?,
        };
        if let Some(hosts) = hosts {
            return Ok(Some(Allocation { system, hosts }));
        }
    }
    match only {
        Some(only) => Err(format!(
            "option -rmk is '{only}', but none of that system's variables is set; run mpiexec within a job of it"
        )),
        None => Ok(None),
    }
}

fn host(name: &str, slots: usize) -> Host {
    Host {
        slots: Some(slots),
        ..Host::named(name)
    }
}

fn slurm(around: &impl Surroundings) -> Result<Option<Vec<Host>>, String> {
    let Some(nodes) = around
        .text("SLURM_JOB_NODELIST")
        .or_else(|| around.text("SLURM_NODELIST"))
    else {
        return Ok(None);
    };
    let names = list::names(&nodes).map_err(|why| format!("SLURM_JOB_NODELIST: {why}"))?;
    let counts = ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"];
    let found = counts
        .iter()
        .find_map(|name| Some((name, around.text(name)?)));
    let slots = match &found {
        Some((name, text)) => repeated(text).map_err(|why| format!("{name}: {why}"))?,
        None => vec![1; names.len()],
    };
    if slots.len() != names.len() {
        return Err(format!(
            "SLURM_JOB_NODELIST names {} hosts, but the tasks per node ({}) are for {}; name the hosts \
             by -hosts",
            names.len(),
            found.map_or_else(String::new, |found| found.1),
            slots.len()
        ));
    }
    let hosts = names.iter().zip(slots).map(|(name, n)| host(name, n));
    Ok(Some(hosts.collect()))
}

/// Parses Slurm's counts, `2(x3),1`.
fn repeated(text: &str) -> Result<Vec<usize>, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let wrong = || format!("'{part}' in '{text}' is not a number of tasks");
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => {
                let times = times.strip_suffix(')').ok_or_else(wrong)?;
                (number, times.parse().map_err(|_| wrong())?)
            }
            None => (part, 1usize),
        };
        let number: usize = number.trim().parse().map_err(|_| wrong())?;
        if times > MOST_HOSTS {
            return Err(wrong());
        }
        all.extend(std::iter::repeat_n(number.clamp(1, MOST_SLOTS), times));
        list::check_count(all.len())?;
    }
    Ok(all)
}

/// Reads a file with a host per line, repeated once per slot.
fn node_file(around: &impl Surroundings, name: &str) -> Result<Option<Vec<Host>>, String> {
    let Some(path) = around.variable(name) else {
        return Ok(None);
    };
    let text = around.file(&path).map_err(|why| format!("{name}: {why}"))?;
    let mut hosts: Vec<Host> = Vec::new();
    let mut numbers = HashMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let next = hosts.len();
        match *numbers.entry(line).or_insert(next) {
            number if number == next => hosts.push(host(line, 1)),
            number => hosts[number].slots = hosts[number].slots.map(|n| n + 1),
        }
    }
    Ok(Some(hosts).filter(|hosts| !hosts.is_empty()))
}

fn lsf(around: &impl Surroundings) -> Result<Option<Vec<Host>>, String> {
    let Some(text) = around.text("LSB_MCPU_HOSTS") else {
        return Ok(None);
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let pair = |pair: &[&str]| match *pair {
        [name, count] => Ok(host(name, ranks(count)?)),
        _ => Err("the last host has no number of slots".to_owned()),
    };
    let hosts: Result<Vec<Host>, String> = words.chunks(2).map(pair).collect();
    let hosts = hosts.map_err(|why| format!("LSB_MCPU_HOSTS is '{text}': {why}"))?;
    Ok(Some(hosts).filter(|hosts| !hosts.is_empty()))
}

fn sge(around: &impl Surroundings) -> Result<Option<Vec<Host>>, String> {
    let Some(path) = around.variable("PE_HOSTFILE") else {
        return Ok(None);
    };
    let text = around
        .file(&path)
        .map_err(|why| format!("PE_HOSTFILE: {why}"))?;
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else {
            continue;
        };
        let count = ranks(words.next().unwrap_or_default()).map_err(|why| {
            format!(
                "PE_HOSTFILE, '{}', line {}: {why}",
                path.display(),
                index + 1
            )
        })?;
        hosts.push(host(name, count));
    }
    Ok(Some(hosts).filter(|hosts| !hosts.is_empty()))
}

fn flux(around: &impl Surroundings) -> Result<Option<Vec<Host>>, String> {
    if around.variable("FLUX_URI").is_none() {
        return Ok(None);
    }
    let text = around.flux().map_err(|why| format!("Flux: {why}"))?;
    let mut hosts = list::names(text.trim()).map_err(|why| format!("Flux: {why}"))?;
    hosts.retain(|name| !name.is_empty());
    let hosts: Vec<Host> = hosts.iter().map(|name| Host::named(name)).collect();
    Ok(Some(hosts).filter(|hosts| !hosts.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Around(HashMap<&'static str, &'static str>);

    impl Surroundings for Around {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.0.get(name).map(OsString::from)
        }
        fn file(&self, path: &OsStr) -> Result<String, String> {
            let name = path.to_str().unwrap();
            self.text(name).ok_or(format!("'{name}': not there"))
        }
        fn flux(&self) -> Result<String, String> {
            self.text("flux").ok_or("flux: not found".to_owned())
        }
    }

    fn found(settings: &[(&'static str, &'static str)]) -> Result<String, String> {
        let around = Around(settings.iter().copied().collect());
        let Some(allocation) = find(&around, None)? else {
            return Ok(String::new());
        };
        let mut text = allocation.system.to_owned();
        for host in allocation.hosts {
            text += &format!(" {}:{}", host.name, host.slots.unwrap_or(0));
        }
        Ok(text)
    }

    #[test]
    fn each_system_says_its_hosts() {
        for (settings, expected) in [
            (&[][..], ""),
            (
                &[
                    ("SLURM_JOB_NODELIST", "n[1-3],x"),
                    ("SLURM_TASKS_PER_NODE", "2(x3),1"),
                ][..],
                "slurm n1:2 n2:2 n3:2 x:1",
            ),
            (&[("SLURM_NODELIST", "n[09-10]")], "slurm n09:1 n10:1"),
            (
                &[
                    ("SLURM_JOB_NODELIST", "a,b"),
                    ("SLURM_JOB_CPUS_PER_NODE", "8(x2)"),
                ],
                "slurm a:8 b:8",
            ),
            (
                &[("PBS_NODEFILE", "f"), ("f", "a\na\nb\na\n")],
                "pbs a:3 b:1",
            ),
            (&[("LSB_MCPU_HOSTS", "a 2 b 4 ")], "lsf a:2 b:4"),
            (
                &[
                    ("PE_HOSTFILE", "f"),
                    ("f", "a 4 all.q@a <NULL>\n\nb 2 all.q@b UNDEFINED\n"),
                ],
                "sge a:4 b:2",
            ),
            (
                &[("COBALT_NODEFILE", "f"), ("f", "a\nb\n")],
                "cobalt a:1 b:1",
            ),
            (&[("FLUX_URI", "x"), ("flux", "n[0-1]\n")], "flux n0:0 n1:0"),
        ] {
            assert_eq!(found(settings).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn contradictions_are_named() {
        for (settings, part) in [
            (
                &[
                    ("SLURM_JOB_NODELIST", "n[1-3]"),
                    ("SLURM_TASKS_PER_NODE", "2(x2)"),
                ][..],
                "names 3 hosts",
            ),
            (
                &[
                    ("SLURM_JOB_NODELIST", "n1"),
                    ("SLURM_TASKS_PER_NODE", "2(x"),
                ],
                "not a number of tasks",
            ),
            (
                &[
                    ("SLURM_JOB_NODELIST", "n1"),
                    ("SLURM_TASKS_PER_NODE", "1(x60000),1(x60000)"),
                ],
                "more than 65536 hosts",
            ),
            (&[("SLURM_JOB_NODELIST", "n[1")], "SLURM_JOB_NODELIST"),
            (&[("PBS_NODEFILE", "g")], "PBS_NODEFILE: 'g'"),
            (&[("LSB_MCPU_HOSTS", "a 2 b")], "has no number"),
            (&[("PE_HOSTFILE", "f"), ("f", "a x\n")], "line 1"),
            (&[("FLUX_URI", "x")], "Flux: flux"),
        ] {
            let error = found(settings).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        let error = find(&Around::default(), Some("pbs")).unwrap_err();
        assert!(error.contains("-rmk is 'pbs'"), "{error}");
    }
}
