//! Bindings, compared with what hwloc's own tools say of the same machines.

mod support;

use std::process::Command;

use support::{Outcome, mpiexec, run, start};
use weft_needs::HWLOC;

/// Machines as hwloc makes them up: the second threads numbered behind all first ones, as Linux does;
/// caches that cores share; and one socket of a few cores.
const MACHINES: [&str; 3] = [
    "pack:2 numa:4 core:8 pu:2(indexes=2*64:64*1)",
    "pack:2 numa:2 l3:2 l2:2 core:2 pu:2",
    "numa:1 core:3 pu:1",
];

/// What a tool of hwloc's prints for a machine.
fn hwloc(machine: &str, words: &[&str]) -> String {
    let output = Command::new(words[0])
        .args(&words[1..])
        .env("HWLOC_SYNTHETIC", machine)
        .output()
        .unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The CPUs at a place, sorted.
fn cpus(machine: &str, place: &str) -> Vec<usize> {
    let places: Vec<&str> = place.split(' ').collect();
    let words = [&["hwloc-calc", "--po", "-I", "pu"], &places[..]].concat();
    let text = hwloc(machine, &words);
    let mut cpus: Vec<usize> = text.split(',').map(|cpu| cpu.parse().unwrap()).collect();
    cpus.sort_unstable();
    cpus
}

/// How many objects of a kind there are.
fn count(machine: &str, kind: &str) -> usize {
    let text = hwloc(machine, &["hwloc-calc", "-N", kind, "all"]);
    // It says nothing of kinds that the machine has none of.
    text.parse().unwrap_or(0)
}

fn dry_run(machine: &str, words: &[&str]) -> Outcome {
    let mut command = mpiexec();
    command.env("HWLOC_SYNTHETIC", machine).arg("-dry-run");
    start(command.args(words).arg("true")).finish()
}

/// Reads `0-2,8`.
fn list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().unwrap()..=last.parse().unwrap());
    }
    cpus
}

/// The CPUs of each rank by our launcher; none for those that are not bound.
fn ours(machine: &str, words: &[&str]) -> Vec<Vec<usize>> {
    let outcome = dry_run(machine, words);
    let lines = outcome.expect(0).out.lines();
    let sets = lines.enumerate().map(|(rank, line)| {
        assert!(line.starts_with(&format!("rank {rank} on ")), "{line}");
        match line.split_once("bound to CPUs ") {
            Some((_, rest)) => list(rest.split([':', ' ']).next().unwrap().trim_end_matches(',')),
            None => {
                assert!(line.ends_with("is not bound"), "{line}");
                Vec::new()
            }
        }
    });
    sets.collect()
}

const KINDS: [(&str, &str); 6] = [
    ("hwthread", "pu"),
    ("core", "core"),
    ("l2cache", "l2"),
    ("l3cache", "l3"),
    ("numa", "numa"),
    ("socket", "package"),
];

#[test]
fn each_kind_is_hwlocs() {
    if !HWLOC.met() {
        return;
    }
    for machine in MACHINES {
        for (name, kind) in KINDS {
            let there = count(machine, kind);
            if there == 0 {
                continue;
            }
            // One more than there are: the first has its turn again.
            let ranks = (there + 1).to_string();
            let expected: Vec<_> = (0..=there)
                .map(|rank| cpus(machine, &format!("{kind}:{}", rank % there)))
                .collect();
            let got = ours(machine, &["-bind-to", name, "-n", &ranks]);
            assert_eq!(got, expected, "{name} of {machine}");
        }
        let whole = cpus(machine, "all");
        let got = ours(machine, &["-bind-to", "board", "-n", "2"]);
        assert_eq!(got, [whole.clone(), whole], "{machine}");
        let got = ours(machine, &["-bind-to", "none", "-n", "2"]);
        assert_eq!(got, [vec![], vec![]], "{machine}");
    }
    assert_eq!(count(MACHINES[0], "core"), 64);
    assert_eq!(count(MACHINES[1], "l2"), 16);
    // Several in a row.
    let machine = MACHINES[0];
    for (width, rank, place) in [
        (4, 3, "core:12-15"),
        (3, 1, "core:3-5"),
        (16, 7, "core:48-63"),
    ] {
        let to = format!("core:{width}");
        let got = ours(machine, &["-bind-to", &to, "-n", &(rank + 1).to_string()]);
        assert_eq!(got[rank], cpus(machine, place), "{to}");
    }
}

#[test]
fn ranks_dealt_out_are_where_hwloc_has_these_parts() {
    if !HWLOC.met() {
        return;
    }
    let machine = MACHINES[0];
    let numas = count(machine, "numa");
    let expected: Vec<_> = (0..20)
        .map(|rank| {
            cpus(
                machine,
                &format!("numa:{}.core:{}", rank % numas, rank / numas),
            )
        })
        .collect();
    let words = ["-bind-to", "core", "-map-by", "numa", "-n", "20"];
    assert_eq!(ours(machine, &words), expected);
    assert_eq!(ours(machine, &["-map-by", "numa", "-n", "20"]), expected);
    // Two by two.
    let expected: Vec<_> = (0..6)
        .map(|rank| {
            let core = rank / 4 * 2 + rank % 2;
            cpus(machine, &format!("package:{}.core:{core}", rank / 2 % 2))
        })
        .collect();
    let words = ["-bind-to", "core", "-map-by", "ppr:2:socket", "-n", "6"];
    assert_eq!(ours(machine, &words), expected);
    // Open MPI's way to ask for several cores, or threads, for each.
    let expected: Vec<_> = (0..4)
        .map(|rank| {
            let first = rank / 2 * 4;
            cpus(
                machine,
                &format!("package:{}.core:{first}-{}", rank % 2, first + 3),
            )
        })
        .collect();
    assert_eq!(
        ours(machine, &["-map-by", "socket:pe=4", "-n", "4"]),
        expected
    );
    let got = ours(machine, &["-map-by", "ppr:1:numa:pe=2,hwtcpus", "-n", "2"]);
    assert_eq!(
        got,
        [
            cpus(machine, "numa:0.core:0"),
            cpus(machine, "numa:1.core:0")
        ]
    );
}

#[test]
fn equal_shares_are_those_of_hwloc_distrib() {
    if !HWLOC.met() {
        return;
    }
    let machine = MACHINES[0];
    for ranks in ["1", "2", "4", "8", "16", "32", "64"] {
        let text = hwloc(machine, &["hwloc-distrib", "--to", "core", ranks]);
        let expected: Vec<_> = text.lines().map(|mask| cpus(machine, mask)).collect();
        assert_eq!(ours(machine, &["-n", ranks]), expected, "{ranks}");
    }
    let got = ours(machine, &["-n", "65"]);
    assert!(got.iter().all(Vec::is_empty), "{got:?}");
}

#[test]
fn pictures_and_memory_go_with_them() {
    if !HWLOC.met() {
        return;
    }
    let line = |machine: &str, words: &[&str]| {
        let outcome = dry_run(machine, words);
        let line = outcome
            .expect(0)
            .out
            .lines()
            .next_back()
            .unwrap_or_default();
        line.split_once(" is ").unwrap_or_default().1.to_owned()
    };
    let machine = MACHINES[1];
    assert_eq!(
        line(machine, &["-bind-to", "l2cache", "-n", "2"]),
        "bound to CPUs 4-7, memory of node 0 first: \
         [../../BB/BB/../../../..|../../../../../../../..] [../../../../../../../..|../../../../../../../..]"
    );
    for (words, expected) in [
        (
            &["-bind-to", "socket", "-n", "2"][..],
            "memory of nodes 2-3 first",
        ),
        (
            &["-membind", "bind", "-bind-to", "core", "-n", "9"],
            "memory of node 1 only",
        ),
        (
            &["-membind", "bind:3", "-bind-to", "core"],
            "memory of node 3 only",
        ),
        (
            &["-membind", "interleave", "-bind-to", "none"],
            "memory of nodes 0-3 in turn",
        ),
    ] {
        let got = line(machine, words);
        assert!(got.contains(expected), "{words:?}: {got}");
    }
    for words in [
        &["-membind", "none", "-bind-to", "core"][..],
        &["-bind-to", "board"],
    ] {
        let got = line(machine, words);
        assert!(!got.contains("memory"), "{words:?}: {got}");
    }
}

#[test]
fn a_rankfile_says_where_each_rank_is() {
    if !HWLOC.met() {
        return;
    }
    let machine = MACHINES[0];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ranks");
    let text =
        "rank 0=x slot=1:0-2\nrank 1=y slot=0:0,1\nrank 2=x slot=p3,p64\nrank 3=+n1 slot=10-11\n";
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let words = ["-rmk", "user", "-hosts", "x,y", "-rankfile", &file];
    let places = ["package:1.core:0-2", "package:0.core:0-1", "", "core:10-11"];
    let mut expected: Vec<_> = places
        .map(|place| {
            if place.is_empty() {
                vec![3, 64]
            } else {
                cpus(machine, place)
            }
        })
        .into();
    assert_eq!(ours(machine, &words), expected);
    expected.truncate(2);
    assert_eq!(
        ours(machine, &[&words[..], &["-n", "2"]].concat()),
        expected
    );
    let hosts: Vec<String> = dry_run(machine, &words)
        .out
        .lines()
        .map(|line| line.split(' ').nth(3).unwrap().to_owned())
        .collect();
    assert_eq!(hosts, ["x", "y", "x", "y"]);
    std::fs::write(dir.path().join("ranks"), "rank 0=localhost slot=2:0\n").unwrap();
    dry_run(machine, &["-rf", &file])
        .expect(2)
        .says("names socket 2");
    run(&["-rf", "/nowhere/at/all", "true"])
        .expect(2)
        .says("'/nowhere/at/all'");
}

#[test]
fn a_machine_of_hwlocs_making_binds_nobody() {
    if !HWLOC.met() {
        return;
    }
    let script = "grep Cpus_allowed_list /proc/self/status";
    let plain = start(mpiexec().args(["-bind-to", "none", "sh", "-c", script])).finish();
    let mut command = mpiexec();
    command.env("HWLOC_SYNTHETIC", MACHINES[0]);
    let outcome =
        start(command.args(["-bind-to", "core", "-report-bindings", "sh", "-c", script])).finish();
    assert_eq!(outcome.expect(0).out, plain.expect(0).out);
    outcome.says("rank 0 on ").says("bound to CPUs 0,64");
}

#[test]
fn ranks_are_bound_for_the_kernel() {
    // One core for each, as hwloc and /sys have it.
    let script = "grep Cpus_allowed_list /proc/self/status | cut -f 2";
    let both: Vec<String> = ["sys", "auto"]
        .map(|who| {
            let words = [
                "-topolib", who, "-bind-to", "core", "-n", "1", "sh", "-c", script,
            ];
            run(&words).expect(0).out.clone()
        })
        .into();
    assert_eq!(both[0], both[1]);
    let words = ["-report-bindings", "-bind-to", "core", "-n", "1", "true"];
    let text = format!("bound to CPUs {}", both[0].trim());
    run(&words).expect(0).says(&text);
    // And as hwloc's own tool finds the ranks bound.
    if HWLOC.met() {
        let words = ["-bind-to", "core", "-n", "2"];
        let planned = run(&[&words[..], &["-dry-run", "true"]].concat());
        let found = run(&[&words[..], &["-l", "hwloc-bind", "--get"]].concat());
        for (rank, line) in planned.expect(0).out.lines().enumerate() {
            let set = line.split_once("bound to CPUs ").expect("bound").1;
            let set = set.split([':', ' ']).next().unwrap();
            let places: Vec<String> = list(set).iter().map(|cpu| format!("pu:{cpu}")).collect();
            let calc = [
                vec!["hwloc-calc", "--pi"],
                places.iter().map(|it| &**it).collect(),
            ]
            .concat();
            let output = Command::new(calc[0]).args(&calc[1..]).output().unwrap();
            let mask = String::from_utf8(output.stdout).unwrap();
            let line = format!("[{rank}] {}", mask.trim());
            assert!(
                found.expect(0).out.lines().any(|other| other == line),
                "{line}: {}",
                found.out
            );
        }
    }
    // Memory: the kernel says so of each mapping.
    for (how, expected) in [
        ("bind", "bind:0"),
        ("interleave:0", "interleave:0"),
        ("none", "default"),
    ] {
        let script = "head -1 /proc/self/numa_maps | cut -d ' ' -f 2";
        let outcome = run(&[
            "-membind", how, "-bind-to", "core", "-n", "1", "sh", "-c", script,
        ]);
        assert_eq!(outcome.expect(0).out.trim(), expected, "{how}");
    }
    run(&["-bind-to", "user:60000", "-n", "1", "true"])
        .expect(126)
        .says("names CPU 60000");
    run(&["-topolib", "/nowhere/libhwloc.so.15", "-n", "1", "true"])
        .expect(0)
        .says("libhwloc15");
    for (words, part) in [
        (["-topolib", "moon"], "-topolib"),
        (["-membind", "moon"], "-membind"),
        (["-map-by", "core:pe=0"], "'pe=0'"),
    ] {
        run(&[&words[..], &["true"]].concat()).expect(2).says(part);
    }
}
