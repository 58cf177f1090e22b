//! Two network namespaces, joined by a cable, with host names of their own: two hosts for a job.

use std::path::Path;
use std::process::{self, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Two hosts; gone when dropped.
pub struct Hosts {
    names: [String; 2],
}

fn ip(arguments: &str) -> Result {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("ip can't be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {arguments}: {}", text.trim()))
}

fn is_up(name: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["-n", name, "-o", "link", "show", "dev", "weft0", "up"]);
    command
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("state UP"))
}

impl Hosts {
    /// Whether this machine lets us make them.
    pub fn possible() -> bool {
        static POSSIBLE: OnceLock<bool> = OnceLock::new();
        *POSSIBLE.get_or_init(|| Path::new("/proc/self/ns/net").exists() && Hosts::new().is_ok())
    }

    pub fn new() -> Result<Hosts> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |letter| format!("weft{}-{count}{letter}", process::id());
        let hosts = Hosts {
            names: [name('a'), name('b')],
        };
        let [a, b] = &hosts.names;
        // Interfaces that are named within a namespace disturb nobody outside.
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!(
            "-n {a} link add weft0 type veth peer name weft0 netns {b}"
        ))?;
        for (number, name) in [(1, a), (2, b)] {
            ip(&format!("-n {name} addr add 10.99.0.{number}/24 dev weft0"))?;
            ip(&format!("-n {name} link set weft0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        // An interface is up when its cable is, which the kernel tells a little later.
        let until = Instant::now() + Duration::from_secs(10);
        while !hosts.names.iter().all(|name| is_up(name)) {
            if Instant::now() >= until {
                return Err("the interfaces do not come up".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(hosts)
    }

    /// Adds the arguments that start `ranks` ranks, by turns on the one and the other host.
    pub fn arguments(&self, command: &mut Command, ranks: usize, program: impl Fn(&mut Command)) {
        for rank in 0..ranks {
            let name = &self.names[rank % 2];
            if rank > 0 {
                command.arg(":");
            }
            command.args([
                "-n", "1", "ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c",
            ]);
            command.args(["hostname \"$1\" && shift && exec \"$@\"", "sh", name]);
            program(command);
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // The cable goes with them.
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
