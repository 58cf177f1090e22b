//! Default choice of UCX's network devices: all but bridges to containers and virtual machines of
//! this host, whose addresses exist on every host and which lead to no other.

use std::fs;

/// Returns UCX's list of devices for this host, or `None` if there is none to exclude.
pub(crate) fn without_bridges() -> Option<String> {
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    };
    let adapters = names("/sys/class/infiniband").into_iter();
    let ports = adapters.flat_map(|adapter| {
        let ports = names(&format!("/sys/class/infiniband/{adapter}/ports")).into_iter();
        ports
            .map(|port| format!("{adapter}:{port}"))
            .collect::<Vec<_>>()
    });
    list(names("/sys/class/net"), ports.collect())
}

fn list(interfaces: Vec<String>, ports: Vec<String>) -> Option<String> {
    let all = interfaces.len();
    let kept: Vec<String> = interfaces
        .into_iter()
        .filter(|name| !is_local_bridge(name))
        .collect();
    (kept.len() < all).then(|| [ports, kept].concat().join(","))
}

/// Returns whether an interface's name is that of a bridge to containers or virtual machines.
fn is_local_bridge(name: &str) -> bool {
    [
        "docker", "br-", "virbr", "lxc", "lxd", "cni", "flannel", "cali", "podman", "vnet", "kube",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn only_bridges_are_excluded() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        assert_eq!(list(names(&["lo", "eth0"]), names(&["mlx5_0:1"])), None);
        assert_eq!(
            list(names(&["lo", "docker0", "eth0"]), names(&["mlx5_0:1"])).as_deref(),
            Some("mlx5_0:1,lo,eth0")
        );
    }
}
