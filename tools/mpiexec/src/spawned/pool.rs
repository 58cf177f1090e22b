//! The hosts of a job with their free slots, on which spawned processes are placed.

use std::ffi::OsStr;

use crate::hosts::{self, Host};
use crate::root::here::canonical;

/// The hosts of a job and the jobs that it spawns.
pub struct Pool {
    hosts: Vec<PoolHost>,
    /// Whether different names are different hosts, even if both are this machine (`-bootstrap
    /// fork`).
    apart: bool,
    /// Whether a host may get more processes than it has slots.
    oversubscribe: bool,
}

struct PoolHost {
    /// The name that identifies the host.
    key: String,
    host: Host,
    used: usize,
}

impl PoolHost {
    fn slots(&self) -> usize {
        self.host.slots.unwrap_or(1)
    }

    fn free(&self) -> usize {
        self.slots().saturating_sub(self.used)
    }
}

/// Returns the slots of all hosts.
pub fn slots(hosts: &[Host]) -> usize {
    hosts.iter().map(|host| host.slots.unwrap_or(1)).sum()
}

/// Formats hosts as a host file.
pub fn show(hosts: &[Host]) -> String {
    let mut text = String::new();
    for host in hosts {
        match host.name.contains(':') {
            true => text.push_str(&format!("[{}]", host.name)),
            false => text.push_str(&host.name),
        }
        if let Some(slots) = host.slots {
            text.push_str(&format!(" slots={slots}"));
        }
        if let Some(most) = host.most {
            text.push_str(&format!(" max_slots={most}"));
        }
        if let Some(user) = &host.user {
            text.push_str(&format!(" user={user}"));
        }
        if let Some(port) = host.port {
            text.push_str(&format!(" port={port}"));
        }
        text.push('\n');
    }
    text
}

/// Parses the output of [`Pool::used`].
pub fn read_used(text: &str) -> Vec<(String, usize)> {
    let one = |line: &str| {
        let (name, count) = line.rsplit_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

impl Pool {
    /// Creates a pool of hosts without processes.
    pub fn new(hosts: &[Host], apart: bool, oversubscribe: bool) -> Pool {
        let mut pool = Pool {
            hosts: Vec::new(),
            apart,
            oversubscribe,
        };
        pool.add(hosts);
        pool
    }

    fn find(&self, name: &str) -> Option<usize> {
        let key = self.key(name);
        self.hosts.iter().position(|known| known.key == key)
    }

    fn key(&self, name: &str) -> String {
        match self.apart {
            true => name.to_owned(),
            false => canonical(name),
        }
    }

    /// Adds hosts. Hosts that are in the pool keep their settings.
    pub fn add(&mut self, hosts: &[Host]) {
        for host in hosts {
            if self.find(&host.name).is_none() {
                self.hosts.push(PoolHost {
                    key: self.key(&host.name),
                    host: host.clone(),
                    used: 0,
                });
            }
        }
    }

    /// Returns all hosts.
    pub fn all(&self) -> Vec<Host> {
        self.hosts.iter().map(|known| known.host.clone()).collect()
    }

    /// Formats the used slots, a host and a number per line.
    pub fn used(&self) -> String {
        let one = |known: &PoolHost| format!("{} {}\n", known.host.name, known.used);
        self.hosts.iter().map(one).collect()
    }

    /// Takes slots of a host for started processes.
    pub fn take(&mut self, name: &str, count: usize) {
        if let Some(at) = self.find(name) {
            self.hosts[at].used += count;
        }
    }

    /// Frees slots of ended processes.
    pub fn give_back(&mut self, name: &str, count: usize) {
        if let Some(at) = self.find(name) {
            self.hosts[at].used = self.hosts[at].used.saturating_sub(count);
        }
    }

    /// Returns hosts for `wanted` processes without hosts of their own.
    ///
    /// These are the free slots, if they suffice, otherwise all hosts, the least loaded first. The
    /// list is empty if the pool is.
    ///
    /// # Errors
    /// `-nooversubscribe` or max_slots forbid that many processes.
    pub fn offer(&self, wanted: usize) -> Result<Vec<Host>, String> {
        let free: usize = self.hosts.iter().map(PoolHost::free).sum();
        let has_room = |known: &&PoolHost| known.host.most.is_none_or(|most| most > known.used);
        let mut open: Vec<&PoolHost> = self.hosts.iter().filter(has_room).collect();
        if free >= wanted || !self.oversubscribe {
            if free < wanted && !self.hosts.is_empty() {
                return Err(format!(
                    "{wanted} processes are more than the {free} free slots of the job's hosts; spawn fewer, or \
                     leave out mpiexec's -nooversubscribe"
                ));
            }
            open.retain(|known| known.free() > 0);
            let host = |known: &PoolHost| Host {
                slots: Some(known.free()),
                most: known.host.most.map(|most| most - known.used),
                ..known.host.clone()
            };
            return Ok(open.into_iter().map(host).collect());
        }
        open.sort_by(|a, b| (a.used * b.slots()).cmp(&(b.used * a.slots())));
        let host = |known: &PoolHost| Host {
            most: known.host.most.map(|most| most - known.used),
            ..known.host.clone()
        };
        let hosts: Vec<Host> = open.into_iter().map(host).collect();
        match hosts.is_empty() && !self.hosts.is_empty() {
            true => Err("the job's hosts run as many processes as max_slots allows; add hosts by the Info key add-host".into()),
            false => Ok(hosts),
        }
    }

    /// Completes hosts that an Info key names with the pool's settings.
    pub fn named(&self, what: &str, hosts: Result<Vec<Host>, String>) -> Result<Vec<Host>, String> {
        let hosts = hosts.map_err(|why| format!("the Info key {what}: {why}"))?;
        let complete = |mut host: Host| {
            if let Some(at) = self.find(&host.name) {
                let known = &self.hosts[at].host;
                host.slots = host.slots.or(known.slots);
                host.user = host.user.or_else(|| known.user.clone());
                host.port = host.port.or(known.port);
            }
            host
        };
        Ok(hosts.into_iter().map(complete).collect())
    }

    /// Reads the host file that an Info key names.
    pub fn of_file(&self, what: &str, file: &OsStr) -> Result<Vec<Host>, String> {
        let name = file.to_string_lossy();
        let text = std::fs::read(file);
        let text = text.map_err(|error| format!("the file '{name}' can't be read: {error}"));
        let hosts = |text: Vec<u8>| hosts::file::read(&name, &String::from_utf8_lossy(&text));
        self.named(what, text.and_then(hosts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(pool: &Pool, wanted: usize) -> String {
        let hosts = pool.offer(wanted).unwrap();
        let one = |host: &Host| format!("{}:{}", host.name, host.slots.unwrap_or(1));
        hosts.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn free_slots_come_first_then_the_idlest_hosts() {
        let hosts = hosts::list("x:2,y:2,z").unwrap();
        let mut pool = Pool::new(&hosts, false, true);
        assert_eq!(slots(&pool.all()), 5);
        pool.take("x", 2);
        pool.take("y", 1);
        assert_eq!(offer(&pool, 2), "y:1 z:1");
        let used = [("x", 2), ("y", 1), ("z", 0)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(read_used(&pool.used()), used);
        assert_eq!(offer(&pool, 3), "z:1 y:2 x:2");
        pool.give_back("x", 1);
        assert_eq!(offer(&pool, 3), "x:1 y:1 z:1");
        let strict = Pool::new(&hosts, false, false);
        assert!(strict.offer(6).unwrap_err().contains("5 free slots"));
        assert_eq!(offer(&Pool::new(&[], false, true), 9), "");
        assert_eq!(offer(&Pool::new(&[], false, false), 9), "");
    }

    #[test]
    fn hosts_survive_the_way_to_the_launcher() {
        let text = "a slots=2 max_slots=3 user=me port=7\n[::1] slots=1\n";
        let hosts = hosts::file::read("f", text).unwrap();
        assert_eq!(show(&hosts), text);
        let pool = Pool::new(&hosts, false, true);
        let named = pool.named("host", hosts::list("a,b:4")).unwrap();
        assert_eq!(show(&named), "a slots=2 user=me port=7\nb slots=4\n");
    }
}
