//! Nodes of their own for the ranks of a comparison: network namespaces on a switch, with a delay
//! of each packet if one is wanted.

use std::process::{self, Command};

use super::switch::{self, Switch};
use crate::error::{Error, Result};

/// The network interface of every node.
const INTERFACE: &str = "weft0";

/// The network namespaces, which are deleted on drop.
#[derive(Debug)]
pub struct Hosts {
    names: Vec<String>,
    switch: String,
    /// The switch that replaces the kernel's bridge if netem is missing.
    own: Option<Switch>,
}

/// Returns whether the kernel has netem, by trying it in a namespace.
fn has_netem(namespace: &str) -> bool {
    run(
        "tc",
        &format!("-n {namespace} qdisc add dev lo root netem delay 1us"),
    )
    .is_ok()
}

fn run(program: &str, arguments: &str) -> Result<()> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| Error::new(format!("{program} can't be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!(
        "{program} {arguments}: {}",
        text.trim()
    )))
}

impl Hosts {
    /// Makes `count` nodes; a packet takes `delay` microseconds from one to another, besides what
    /// the kernel takes.
    pub fn new(count: usize, delay: u32) -> Result<Hosts> {
        let base = format!("osu{}", process::id());
        let mut hosts = Hosts {
            names: (0..count).map(|index| format!("{base}-{index}")).collect(),
            switch: format!("{base}-switch"),
            own: None,
        };
        let ip = |arguments: String| run("ip", &arguments);
        ip(format!("netns add {}", hosts.switch)).map_err(|error| {
            Error::new(format!(
                "cannot make network namespaces ({error}); run as root, with iproute2 installed"
            ))
        })?;
        for name in &hosts.names {
            ip(format!("netns add {name}"))?;
        }
        if delay > 0 && !has_netem(&hosts.switch) {
            hosts.own = Some(Switch::new(&hosts.names, INTERFACE, delay)?);
        }
        let (switch, is_kernels) = (&hosts.switch, hosts.own.is_none());
        ip(format!("-n {switch} link add switch type bridge"))?;
        ip(format!("-n {switch} link set switch up"))?;
        for (index, name) in hosts.names.iter().enumerate() {
            if is_kernels {
                ip(format!(
                    "-n {switch} link add port{index} type veth peer name {INTERFACE} netns {name}"
                ))?;
                ip(format!("-n {switch} link set port{index} master switch up"))?;
            } else {
                let (address, mtu) = (switch::address(index), switch::MTU);
                ip(format!(
                    "-n {name} link set {INTERFACE} address {address} mtu {mtu}"
                ))?;
            }
            let (high, low) = (index / 250, index % 250 + 1);
            ip(format!(
                "-n {name} addr add 10.98.{high}.{low}/16 dev {INTERFACE}"
            ))?;
            ip(format!("-n {name} link set {INTERFACE} up"))?;
            ip(format!("-n {name} link set lo up"))?;
            if delay > 0 && is_kernels {
                // A queue for all delayed packets, so that none is dropped.
                run(
                    "tc",
                    &format!(
                        "-n {name} qdisc add dev {INTERFACE} root netem delay {delay}us limit 100000"
                    ),
                )?;
            }
        }
        Ok(hosts)
    }

    /// Returns the variables that name the interface to the libraries.
    pub fn env() -> impl Iterator<Item = (&'static str, &'static str)> {
        let names = ["WEFT_TCP_INTERFACE", "UCX_NET_DEVICES", "FI_TCP_IFACE"];
        names.into_iter().map(|name| (name, INTERFACE))
    }

    /// Adds the arguments that start `ranks` ranks in each node to a launcher's command.
    pub fn add(
        &self,
        command: &mut Command,
        ranks: usize,
        program: impl Fn(&mut Command) -> Result<()>,
    ) -> Result<()> {
        for (rank, name) in self.names.iter().enumerate() {
            if rank > 0 {
                command.arg(":");
            }
            command.args(["-n", &ranks.to_string(), "ip", "netns", "exec", name]);
            // Weft's launcher gives ranks of all namespaces memory that they share.
            command.args(["env", "-u", "WEFT_NODE_MEMORY"]);
            program(command)?;
        }
        Ok(())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.own = None;
        // The cables go with them.
        for name in self.names.iter().chain([&self.switch]) {
            let _ = run("ip", &format!("netns del {name}"));
        }
    }
}
