//! Emulated hosts: network namespaces with host names, joined by veth pairs.

use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Hosts, each with the interface `weft0`; removed when dropped.
pub struct Hosts {
    names: Vec<String>,
    /// The bridge that joins more than two hosts.
    switch: Option<String>,
}

pub fn ip(arguments: &str) -> Result {
    run("ip", arguments).map(|_| ())
}

/// Runs a command and returns its output.
fn run(program: &str, arguments: &str) -> Result<String> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("{program} can't be run: {error}"))?;
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{program} {arguments}: {}", text(&output.stderr))),
    }
}

fn is_up(name: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["-n", name, "-o", "link", "show", "dev", "weft0", "up"]);
    command
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("state UP"))
}

impl Hosts {
    /// Makes `count` hosts; two are joined by a cable, more by a switch.
    pub fn new(count: usize) -> Result<Hosts> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let job = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |letter| format!("weft{}-{job}{letter}", process::id());
        let hosts = Hosts {
            names: ('a'..).take(count).map(name).collect(),
            switch: (count > 2).then(|| name('z')),
        };
        for name in hosts.names.iter().chain(&hosts.switch) {
            ip(&format!("netns add {name}"))?;
        }
        // Interfaces are named inside a namespace, so names don't clash outside.
        match &hosts.switch {
            None => {
                let [a, b] = [&hosts.names[0], &hosts.names[1]];
                ip(&format!(
                    "-n {a} link add weft0 type veth peer name weft0 netns {b}"
                ))?;
            }
            Some(switch) => {
                ip(&format!("-n {switch} link add switch type bridge"))?;
                ip(&format!("-n {switch} link set switch up"))?;
                for (number, name) in hosts.names.iter().enumerate() {
                    ip(&format!(
                        "-n {switch} link add port{number} type veth peer name weft0 netns {name}"
                    ))?;
                    ip(&format!(
                        "-n {switch} link set port{number} master switch up"
                    ))?;
                }
            }
        }
        for (index, name) in hosts.names.iter().enumerate() {
            let address = Hosts::address(index);
            ip(&format!("-n {name} addr add {address}/24 dev weft0"))?;
            ip(&format!("-n {name} link set weft0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        // The kernel reports an interface up a little after its veth pair is up.
        let until = Instant::now() + Duration::from_secs(10);
        while !hosts.names.iter().all(|name| is_up(name)) {
            if Instant::now() >= until {
                return Err("the interfaces do not come up".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(hosts)
    }

    /// Joins two hosts by a second cable, `weft1`, and limits both to 400 Mbit/s.
    pub fn add_cable(&self) -> Result {
        let [a, b] = [&self.names[0], &self.names[1]];
        ip(&format!(
            "-n {a} link add weft1 type veth peer name weft1 netns {b}"
        ))?;
        for (index, name) in self.names.iter().enumerate() {
            ip(&format!(
                "-n {name} addr add 10.98.0.{}/24 dev weft1",
                index + 1
            ))?;
            ip(&format!("-n {name} link set weft1 up"))?;
            for cable in ["weft0", "weft1"] {
                let limit = format!(
                    "-n {name} qdisc add dev {cable} root tbf rate 400mbit burst 256kb latency 50ms"
                );
                run("tc", &limit)?;
            }
        }
        Ok(())
    }

    /// Returns the bytes that have left a host by an interface.
    pub fn sent(&self, index: usize, interface: &str) -> Result<u64> {
        let name = &self.names[index];
        let file = format!("/sys/class/net/{interface}/statistics/tx_bytes");
        let text = run("ip", &format!("netns exec {name} cat {file}"))?;
        text.trim()
            .parse()
            .map_err(|_| format!("{file} is '{text}'"))
    }

    /// Returns the address of a host.
    pub fn address(index: usize) -> String {
        format!("10.99.0.{}", index + 1)
    }

    /// Returns the name of a host, which is also that of its namespace.
    pub fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// Returns the number of hosts.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Returns the words before a command that run it on a host, where it has no memory of others.
    pub fn prefix(&self, index: usize) -> Vec<String> {
        let name = &self.names[index];
        let script = "hostname \"$1\" && shift && unset WEFT_NODE_MEMORY && exec \"$@\"";
        let words = ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c"];
        let words = words.into_iter().chain([script, "sh", name]);
        words.map(str::to_owned).collect()
    }

    /// Pulls the cable of a host that is connected to a switch: nothing comes through, and its
    /// interface doesn't notice.
    pub fn unplug_from_switch(&self, index: usize) -> Result {
        let switch = self.switch.as_ref().ok_or("there is no switch")?;
        ip(&format!("-n {switch} link set port{index} nomaster"))
    }

    /// Adds the arguments that start `ranks` ranks, alternating between hosts.
    pub fn arguments(&self, command: &mut Command, ranks: usize, program: impl Fn(&mut Command)) {
        for rank in 0..ranks {
            if rank > 0 {
                command.arg(":");
            }
            command.args(["-n", "1"]);
            command.args(self.prefix(rank % self.names.len()));
            program(command);
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // The veth pairs vanish with their namespaces.
        for name in self.names.iter().chain(&self.switch) {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
