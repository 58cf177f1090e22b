//! Tests jobs on networks of their own: beside a program that captures all packets (`capture.c`), and
//! with IPv6 alone.
//!
//! Each job has a network namespace. Its hosts are names for this machine (`-bootstrap fork`), whose
//! agents and ranks talk over the network of the namespace.

use libtest_mimic::Trial;
use weft_needs::NAMESPACES;

use crate::company::Company;
use crate::job::clear;
use crate::launchers::tool;
use crate::outcome::Outcome;
use crate::program::Case;
use crate::room::Room;
use crate::{Result, lacks, patience, prefix, timed};

/// Switches of two hosts.
const TWO: &str = "-timeout 60 -bootstrap fork -iface lo -hosts far1,far2 -n 2";
/// The name of an interface other than the loopback one, with IPv6 alone.
const SIX: &str = "ip link add outside type veth peer name other && ip link set other up && \
                   ip link set outside up && ip -6 addr add fd98::1/64 dev outside nodad && \
                   ip addr del 127.0.0.1/8 dev lo";

/// The exit code of a job that ends by `MPIX_ERR_PROC_FAILED`, its error class.
const LOST: i32 = 101;

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let name = format!("networks/{name}");
        let left_out = lacks::any(&name, &[&NAMESPACES]);
        timed(name, Company::Any, test).with_ignored_flag(left_out)
    };
    vec![
        trial("captured/2", captured),
        trial("encrypted-in-part/2", in_part),
        trial("unread/2", unread),
        trial("ipv6/4", six),
        trial("ipv6-names/2", names),
    ]
}

/// Runs a shell's commands in a network namespace. `$MPIEXEC` is the launcher, the program of each tool
/// is in the variable of its name.
fn within(network: &str, script: &str, tools: &[&str], expected: &Case) -> Result {
    let room = Room::new()?;
    let mut command = room.command("unshare".as_ref());
    clear(&mut command);
    command.env("MPIEXEC", prefix::get()?.join("bin/mpiexec"));
    for name in tools {
        command.env(name.to_uppercase(), tool(name)?);
    }
    let script = format!("ip link set lo up && {network} || exit 9\n{script}");
    command.args(["--net", "sh", "-c", &script]);
    let outcome = Outcome::of(&mut command, patience(90.0))?;
    outcome.judge(expected, &room.leftovers())
}

fn output(lines: &[&str]) -> Case {
    Case {
        stdout: lines.iter().map(|line| (*line).to_owned()).collect(),
        ..Case::default()
    }
}

/// A word that the program sends is in the packets of ranks, spawned processes and ports without
/// encryption, and in none with it. (Words on command lines and in environments go through agents, whose
/// connections are always encrypted.)
fn captured() -> Result {
    for (options, variable, is_read) in [
        ("", "WEFT_NETMOD=tcp", "read"),
        ("-encrypt", "WEFT_NETMOD=tcp", "not read"),
        ("", "WEFT_TCP_ENCRYPT=1", "not read"),
    ] {
        let script = format!(
            "$CAPTURE sign 'a marker of this test' > seen &\n\
             while [ ! -e sign ]; do sleep 0.05; done\n\
             {variable} $MPIEXEC {options} {TWO} $MARKED 'a marker of this test'\ncode=$?\n\
             sleep 0.3; rm sign; wait; cat seen; rm seen; exit $code"
        );
        let lines = output(&["passed", &format!("many packets, {is_read}")]);
        within("true", &script, &["capture", "marked"], &lines)?;
    }
    Ok(())
}

/// Another user of the host finds no secret on a command line of ranks, agents, spawned processes and
/// their launchers, and opens no environment, memory or descriptor of theirs.
fn unread() -> Result {
    let script = format!(
        "LD_LIBRARY_PATH= $SNOOP 5 > seen &\n\
         WEFT_NETMOD=tcp $MPIEXEC {TWO} $MARKED x || exit 1\n\
         $MPIEXEC -timeout 60 -n 2 $MARKED x || exit 2\nwait; cat seen; rm seen"
    );
    let lines = output(&["passed", "passed", "nothing else was found"]);
    within("true", &script, &["snoop", "marked"], &lines)
}

/// A rank that encrypts and one that does not cannot talk, and both say why.
fn in_part() -> Result {
    let script = format!(
        "WEFT_NETMOD=tcp $MPIEXEC {TWO_SECTIONS}",
        TWO_SECTIONS = "-timeout 60 -bootstrap fork -iface lo -hosts far1,far2 -n 1 $MARKED x : \
                        -n 1 -env WEFT_TCP_ENCRYPT 1 $MARKED x"
    );
    let expected = Case {
        exit: LOST,
        stderr: vec!["start all jobs that communicate with or without mpiexec -encrypt".to_owned()],
        ..Case::default()
    };
    within("true", &script, &["marked"], &expected)
}

/// Agents, ranks over TCP, and spawned processes without IPv4.
fn six() -> Result {
    let script = "WEFT_SHM=0 WEFT_NETMOD=tcp $MPIEXEC -timeout 60 -n 4 $BESIEGED 0 || exit 1\n\
                  for interface in '' '-iface outside'; do\n\
                  $MPIEXEC -timeout 60 -bootstrap fork $interface -hosts far1:2,far2:2 -n 4 \
                  env WEFT_NETMOD=tcp $BESIEGED 0 || exit 2\n\
                  WEFT_NETMOD=tcp $MPIEXEC -timeout 60 -bootstrap fork $interface -hosts far1,far2 -n 2 \
                  $MARKED x || exit 3\ndone\n\
                  WEFT_SHM=0 WEFT_NETMOD=tcp $MPIEXEC -encrypt -timeout 60 -n 2 $MARKED x || exit 4";
    let ranks = "4 ranks: 6";
    let lines = output(&[ranks, ranks, "passed", ranks, "passed", "passed"]);
    within(SIX, script, &["besieged", "marked"], &lines)
}

/// A name server, published names and ports without IPv4.
fn names() -> Result {
    let script = "export WEFT_SHM=0\n$MPIEXEC -name-server > place &\nserver=$!\ntrap 'kill $server; rm place' EXIT\n\
                  while [ ! -s place ]; do sleep 0.05; done\n\
                  for host in ::1 '[fd98::1]:6493'; do\n\
                  $MPIEXEC -timeout 60 -nameserver $host -n 1 $SPAWNER accept a_service &\naccept=$!\n\
                  $MPIEXEC -timeout 60 -nameserver $host -n 2 $SPAWNER connect a_service || exit 1\n\
                  wait $accept || exit 2\ndone";
    let one = ["connect done", "accept done"];
    within(SIX, script, &["spawner"], &output(&[one, one].concat()))
}
