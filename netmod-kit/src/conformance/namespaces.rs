//! Two network namespaces, joined by a cable.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Two namespaces joined by a cable; removed on drop.
pub(super) struct Namespaces(pub(super) [String; 2]);

impl Namespaces {
    pub(super) fn new() -> Result<Namespaces, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{count}", std::process::id());
        let names = Namespaces(["a", "b"].map(|side| format!("weft-kit-{id}{side}")));
        let [a, b] = &names.0;
        let cable = ["a", "b"].map(|side| format!("wk{}{count}{side}", std::process::id()));
        let [cable_a, cable_b] = &cable;
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&[
            "link", "add", cable_a, "netns", a, "type", "veth", "peer", "name", cable_b, "netns", b,
        ])?;
        for (name, cable, address) in [(a, cable_a, "10.9.0.1/24"), (b, cable_b, "10.9.0.2/24")] {
            let ip = |args: &[&str]| ip(&[&["-n", name], args].concat());
            ip(&["address", "add", address, "dev", cable])?;
            ip(&["link", "set", cable, "up"])?;
            ip(&["link", "set", "lo", "up"])?;
            // An interface as container engines create on every host; it does not lead to other
            // hosts.
            ip(&[
                "link", "add", "docker0", "type", "veth", "peer", "name", "inside",
            ])?;
            ip(&["address", "add", "10.8.0.1/24", "dev", "docker0"])?;
            ip(&["link", "set", "docker0", "up"])?;
            ip(&["link", "set", "inside", "up"])?;
        }
        // The kernel takes a moment to see that both ends are up.
        let start = Instant::now();
        let bridge = "docker0".to_string();
        for (name, cable) in [(a, cable_a), (b, cable_b), (a, &bridge), (b, &bridge)] {
            while !ip(&["-n", name, "link", "show", cable])?.contains("state UP") {
                if start.elapsed() > Duration::from_secs(5) {
                    return Err(
                        "the link between the namespaces is not up after 5 seconds".to_string()
                    );
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(names)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip")
        .args(args)
        .output()
        .map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!(
        "ip {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
