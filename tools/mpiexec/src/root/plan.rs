//! Placement of the ranks, from the command line, the environment and the batch system.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode};

use super::here::canonical;
use super::variables;
use crate::affinity::{self, Affinity};
use crate::children;
use crate::hosts::batch::{self, Surroundings};
use crate::hosts::place::{Order, Placement, Wanted, Wishes, place};
use crate::hosts::{Host, file, rankfile};

use crate::options::{Many, Options, Section};
use crate::program::USAGE;

/// The machine and the environment that this program runs in.
pub struct Here;

impl Surroundings for Here {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    fn file(&self, path: &OsStr) -> Result<String, String> {
        let failed = |error| format!("'{}' can't be read: {error}", path.display());
        std::fs::read_to_string(path).map_err(failed)
    }

    fn flux(&self) -> Result<String, String> {
        let words = ["getattr", "hostlist"];
        let output = Command::new("flux").args(words).output();
        let output = output.map_err(|error| format!("'flux' can't be run: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err("'flux getattr hostlist' failed".to_owned()),
        }
    }
}

/// Places the job's ranks, and fills in the sections' counts.
///
/// # Errors
/// The hosts are contradictory or too few.
pub fn plan(options: &mut Options, around: &impl Surroundings) -> Result<Placement, String> {
    let own = options
        .sections
        .iter()
        .any(|section| section.hosts.is_some());
    let mut hosts = options.many.hosts.clone();
    // Spawned ranks are on the spawning rank's host, unless other hosts are named.
    if options.spawned.is_some() && hosts.is_empty() && !own {
        return Ok(here(options));
    }
    variables::take(&mut options.many, around)?;
    let rmk = options.many.rmk.as_deref();
    let mut known = !hosts.is_empty();
    if !known && !own && rmk.is_none() {
        for name in variables::FILES {
            if let Some(path) = around.variable(name) {
                let text = around.file(&path).map_err(|why| format!("{name}: {why}"))?;
                hosts = file::read(&path.to_string_lossy(), &text)
                    .map_err(|why| format!("{name}: {why}"))?;
                known = true;
                break;
            }
        }
    }
    if !known
        && !own
        && rmk != Some("user")
        && let Some(allocation) = batch::find(around, rmk)?
    {
        hosts = allocation.hosts;
        known = true;
    }
    let mut own = own;
    if let Some(entries) = &options.many.rankfile {
        rankfile::spread(&mut options.sections, entries, &hosts)?;
        options.many.order = Order::Mentions;
        own = true;
    }
    let many = &options.many;
    if !known && !own && many.bootstrap.is_none() {
        count_by_slots(options);
        let many = &options.many;
        if !many.oversubscribe {
            let ranks: usize = options.sections.iter().map(|section| section.count).sum();
            let slots = affinity::slots();
            if ranks > slots {
                return Err(format!(
                    "{ranks} ranks were asked for, and this machine has {slots} CPUs that may be used; \
                     -nooversubscribe forbids more"
                ));
            }
        }
        return Ok(here(options));
    }
    if !known {
        hosts = vec![Host::named("localhost")];
    }
    if many.skip_this && hosts.len() > 1 {
        hosts.retain(|host| canonical(&host.name) != "localhost");
    }
    let wishes = Wishes {
        hosts,
        per_host: many.per_host,
        order: many.order,
        oversubscribe: many.oversubscribe,
    };
    let wanted: Vec<Wanted> = options
        .sections
        .iter()
        .map(|section| Wanted {
            count: section.asked,
            hosts: section.hosts.as_deref(),
        })
        .collect();
    let all = pool(&wishes, &options.sections);
    // With `-bootstrap fork`, hosts of all names are on this machine; those that join have one each.
    let apart = matches!(many.bootstrap.as_deref(), Some("fork" | children::JOIN));
    let placement = place(&wishes, &wanted, |name| match apart {
        true => name.to_owned(),
        false => canonical(name),
    })?;
    // No agents can be started where machines have joined.
    let joins = many.bootstrap.as_deref() == Some(children::JOIN);
    if options.spawned.is_none() && !joins {
        options.many.pool = all;
    }
    for (section, &count) in options.sections.iter_mut().zip(&placement.counts) {
        section.count = count;
    }
    let is_here = |host: &Host| canonical(&host.name) == "localhost";
    if placement.hosts.iter().all(is_here) && !apart {
        return Ok(here(options));
    }
    if options.many.bootstrap.is_none() {
        let is_set = |name: &str| around.variable(name).is_some();
        options.many.bootstrap = Some(children::usual(is_set).to_owned());
    }
    Ok(placement)
}

/// Counts the ranks of sections without `-n` on this machine by `-ppn N` or `-map-by ppr:N:socket`.
fn count_by_slots(options: &mut Options) {
    let Many { per_host, ppr, .. } = options.many;
    let map = options.bind.map.filter(|_| ppr);
    let of_objects = map.map(|(kind, each)| each * affinity::objects(kind, &options.bind));
    let Some(mut left) = per_host.or(of_objects) else {
        return;
    };
    for section in &mut options.sections {
        section.count = section.asked.unwrap_or(left).max(1);
        left = left.saturating_sub(section.count);
    }
}

/// Places all ranks on this host.
fn here(options: &Options) -> Placement {
    let counts: Vec<usize> = options
        .sections
        .iter()
        .map(|section| section.count)
        .collect();
    Placement {
        hosts: vec![Host::named(&crate::report::host())],
        node_of: vec![0; counts.iter().sum()],
        counts,
        is_local: true,
    }
}

/// Returns all hosts that were named, with their slots.
fn pool(wishes: &Wishes, sections: &[Section]) -> Vec<Host> {
    let own = sections
        .iter()
        .filter_map(|section| section.hosts.as_deref());
    let mut pool: Vec<Host> = Vec::new();
    let mut numbers = HashMap::new();
    for hosts in std::iter::once(&wishes.hosts[..]).chain(own) {
        let before = pool.len();
        for host in hosts {
            // Mentions in one list add up; another list has the same hosts.
            let next = pool.len();
            match *numbers.entry(&host.name).or_insert(next) {
                at if at == next => pool.push(Host {
                    slots: wishes.per_host.or(host.slots),
                    ..host.clone()
                }),
                at if at >= before && wishes.per_host.is_none() => {
                    let slots = pool[at].slots.unwrap_or(1) + host.slots.unwrap_or(1);
                    pool[at].slots = Some(slots);
                }
                _ => {}
            }
        }
    }
    pool
}

/// Formats the placement as Intel MPI prints it, a host in each line.
pub fn map(placement: &Placement) -> String {
    let line = |name: &str, ranks: &[usize]| {
        let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
        format!("({name}:{})\n", ranks.join(","))
    };
    let hosts = placement.hosts.iter().zip(placement.ranks());
    hosts
        .map(|(host, ranks)| line(&host.name, &ranks))
        .collect()
}

/// Prints the host and the binding of each rank, as if all hosts were like this one.
pub fn dry_run(options: &Options, placement: &Placement) -> ExitCode {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (host, ranks) in placement.hosts.iter().zip(placement.ranks()) {
        let name = &host.name;
        let numbers: Vec<u32> = ranks.iter().map(|&rank| rank as u32).collect();
        match Affinity::find(&options.bind.clone().of(&numbers), ranks.len()) {
            Ok(affinity) => {
                let pictures = affinity.pictures().into_iter();
                let line =
                    |(rank, picture)| (rank, format!("rank {rank} on {name} is {picture}\n"));
                lines.extend(ranks.into_iter().zip(pictures).map(line));
            }
            Err(why) => {
                eprintln!("mpiexec: on host '{name}': {why}");
                return ExitCode::from(USAGE);
            }
        }
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    crate::output::print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, parse};

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
            Err(String::new())
        }
    }

    fn read(line: &str, around: &[(&'static str, &'static str)]) -> Result<String, String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let Request::Run(mut options) = parse(&args, |_| None)? else {
            panic!("{line}")
        };
        let around = Around(around.iter().copied().collect());
        let placement = plan(&mut options, &around)?;
        let counts: Vec<String> = options
            .sections
            .iter()
            .map(|s| s.count.to_string())
            .collect();
        let counts = counts.join("+");
        let names = placement
            .node_of
            .iter()
            .map(|&n| placement.hosts[n].name.as_str());
        let names: Vec<&str> = names.collect();
        if placement.is_local {
            return Ok(format!("{counts} here"));
        }
        let kind = options.many.bootstrap.unwrap_or_default();
        Ok(format!("{counts} by {kind}: {}", names.join(" ")))
    }

    #[test]
    fn hosts_come_from_options_variables_and_batch_systems() {
        let slurm = [("SLURM_JOB_ID", "1"), ("SLURM_JOB_NODELIST", "n[1-2]")];
        for (line, around, expected) in [
            ("-n 2 a", &[][..], "2 here"),
            ("a", &[], "1 here"),
            ("-ppn 2 a", &[], "2 here"),
            ("-N 2 a", &[], "2 here"),
            ("--npernode 2 a", &[], "2 here"),
            ("--map-by ppr:2:node a", &[], "2 here"),
            ("--map-by node a", &[], "1 here"),
            ("-ppn 2 -n 3 a", &[], "3 here"),
            ("-ppn 3 -n 1 a : b : c", &[], "1+2+1 here"),
            ("--map-by ppr:2:node -hosts x,y a", &[], "4 by ssh: x x y y"),
            ("-hosts localhost:3,127.0.0.1 -n 5 a", &[], "5 here"),
            ("-hosts localhost:3 a", &[], "3 here"),
            ("-hosts x,y -n 3 a", &[], "3 by ssh: x y x"),
            ("-hosts x,y -ppn 2 -n 3 a", &[], "3 by ssh: x x y"),
            ("-host x:2 a : -n 1 -host y b", &[], "2+1 by ssh: x x y"),
            ("-hosts x,y -rr -ppn 2 -n 4 a", &[], "4 by ssh: x y x y"),
            (
                "-hosts x:2,y:2 -map-by node -n 4 a",
                &[],
                "4 by ssh: x y x y",
            ),
            ("-hosts x:2,y:2 -map-by slot -n 3 a", &[], "3 by ssh: x x y"),
            (
                "-hosts x,y -map-by ppr:2:node -n 4 a",
                &[],
                "4 by ssh: x x y y",
            ),
            ("-hosts x,x,y -map-by seq a", &[], "3 by ssh: x x y"),
            ("-bootstrap rsh -hosts x a", &[], "1 by rsh: x"),
            ("-bootstrap fork -hosts x,y a", &[], "2 by fork: x y"),
            ("-s all -n 2 a", &[], "2 here"),
            ("-hosts localhost:3 -s 2 a", &[], "3 here"),
            ("-s 0 -n 2 a", &[], "2 here"),
            ("-n 3 a", &slurm, "3 by slurm: n1 n2 n1"),
            ("a", &slurm, "2 by slurm: n1 n2"),
            ("-rmk user -n 3 a", &slurm, "3 here"),
            ("-hosts z a", &slurm, "1 by slurm: z"),
            (
                "-n 2 a",
                &[("HYDRA_HOST_FILE", "f"), ("f", "p:1\nq:1\n")],
                "2 by ssh: p q",
            ),
        ] {
            assert_eq!(read(line, around).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn variables_of_other_launchers_count() {
        let file = [(
            "hosts",
            "pi-worker-0.pi.default.svc slots=2\npi-worker-1.pi.default.svc slots=2\n",
        )];
        let operator = "4 by ssh: pi-worker-0.pi.default.svc pi-worker-0.pi.default.svc \
                        pi-worker-1.pi.default.svc pi-worker-1.pi.default.svc";
        // What mpi-operator sets for Open MPI, Intel MPI and MPICH, in its two generations.
        for variables in [
            &[
                ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
                ("OMPI_MCA_orte_default_hostfile", "hosts"),
                ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
            ][..],
            &[
                ("I_MPI_HYDRA_HOST_FILE", "hosts"),
                (
                    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
                    "-o ConnectionAttempts=10",
                ),
            ],
            &[
                ("HYDRA_HOST_FILE", "hosts"),
                ("HYDRA_LAUNCH_EXTRA_ARGS", "-o ConnectionAttempts=10"),
            ],
            &[
                ("OMPI_MCA_orte_default_hostfile", "hosts"),
                ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"),
            ],
        ] {
            let around = [&file[..], variables].concat();
            assert_eq!(
                read("-bind-to none -map-by slot a", &around).as_deref(),
                Ok(operator)
            );
            let around = Around(around.into_iter().collect());
            let mut many = Many::default();
            variables::take(&mut many, &around).unwrap();
            match variables.len() {
                2 if many.exec.is_some() => {
                    assert_eq!(many.exec.as_deref(), Some("/etc/mpi/kubexec.sh".as_ref()))
                }
                _ => assert_eq!(many.words, ["-o", "ConnectionAttempts=10"]),
            }
        }
        // Intel MPI's lines of a machine file, and a number for each host.
        let hosts = [("I_MPI_HYDRA_HOST_FILE", "f"), ("f", "x\nx\ny:2\n")];
        assert_eq!(read("a", &hosts).as_deref(), Ok("4 by ssh: x x y y"));
        let per_host = [&hosts[..], &[("I_MPI_PERHOST", "1")]].concat();
        assert_eq!(read("a", &per_host).as_deref(), Ok("2 by ssh: x y"));
        assert_eq!(
            read("-ppn 2 -n 3 a", &per_host).as_deref(),
            Ok("3 by ssh: x x y")
        );
        let all = [&hosts[..], &[("I_MPI_PERHOST", "all")]].concat();
        assert_eq!(read("a", &all).as_deref(), Ok("4 by ssh: x x y y"));
        for (variables, expected) in [
            (
                [("HYDRA_LAUNCHER", "rsh"), ("HYDRA_RMK", "user")],
                "1 by rsh: x",
            ),
            (
                [("I_MPI_HYDRA_BOOTSTRAP", "fork"), ("HYDRA_IFACE", "lo")],
                "1 by fork: x",
            ),
            (
                [
                    ("OMPI_MCA_plm_rsh_agent", "ssh : rsh"),
                    ("HYDRA_RMK", "default"),
                ],
                "1 by ssh: x",
            ),
        ] {
            assert_eq!(read("-hosts x a", &variables).as_deref(), Ok(expected));
        }
        let odd = [("HYDRA_LAUNCH_EXTRA_ARGS", "-o 'a")];
        let error = read("-hosts x a", &odd).unwrap_err();
        assert!(error.contains("HYDRA_LAUNCH_EXTRA_ARGS"), "{error}");
        let manual = include_str!("../../../../docs/mpiexec.1").replace("\\-", "-");
        for name in variables::names() {
            assert!(manual.contains(name), "{name} is not in the manual");
        }
    }

    #[test]
    fn rankfiles_place_ranks() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ranks");
        std::fs::write(
            &file,
            "rank 0=y slot=0\nrank 1=+n0 slot=1\nrank 2=y slot=1\n",
        )
        .unwrap();
        let with = |rest: &str| read(&format!("-rf {} {rest}", file.display()), &[]);
        assert_eq!(with("-hosts x,y a").as_deref(), Ok("3 by ssh: y x y"));
        assert_eq!(with("-hosts x,y -n 2 a").as_deref(), Ok("2 by ssh: y x"));
        let sections = with("-hosts x -n 1 a : b");
        assert_eq!(sections.as_deref(), Ok("1+2 by ssh: y x y"));
        for (rest, part) in [
            ("-hosts x -n 4 a", "for 3 ranks, fewer than"),
            ("a", "host +n0, but 0 hosts"),
        ] {
            let error = with(rest).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn contradictions_are_named() {
        for (line, part) in [
            ("-nooversubscribe -n 9999 a", "CPUs that may be used"),
            ("-rmk pbs a", "-rmk is 'pbs'"),
            ("-nooversubscribe -hosts x:2 -n 3 a", "2 slots"),
            ("-rmk nobody a", "'nobody'"),
            ("-bootstrap nobody -hosts x a", "'nobody'"),
        ] {
            let error = read(line, &[]).expect_err(line);
            assert!(error.contains(part), "{error}");
        }
        let error = read("a", &[("HYDRA_HOST_FILE", "g")]).unwrap_err();
        assert!(error.contains("HYDRA_HOST_FILE: 'g'"), "{error}");
    }
}
