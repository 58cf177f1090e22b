//! Tests jobs beside another user's program that connects to all listening sockets, and lists these
//! sockets.
//!
//! Each job has a network namespace with only the loopback interface, so the program (`flood.c`) finds
//! only the job. The hard limit of descriptors is 1,024, which such a program can exhaust.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use libtest_mimic::Trial;
use weft_needs::NAMESPACES;

use crate::company::Company;
use crate::job::clear;
use crate::launchers::tool;
use crate::outcome::Outcome;
use crate::program::Case;
use crate::room::Room;
use crate::{Result, lacks, patience, prefix, timed};

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let name = format!("strangers/{name}");
        let left_out = lacks::any(&name, &[&NAMESPACES]);
        timed(name, Company::None, test).with_ignored_flag(left_out)
    };
    vec![
        trial("tcp-idle/4", || over_tcp("idle")),
        trial("tcp-hello/4", || over_tcp("hello")),
        trial("tcp-churn/4", || over_tcp("churn")),
        trial("agents/4", agents),
        trial("names/4", names),
        trial("ports/1", ports),
        trial("server/3", server),
        trial("joining/4", joining),
        trial("listeners/4", listeners),
    ]
}

/// Runs `job`, words of a shell in which `$MPIEXEC`, `$JOB` and `$FLOOD` are programs, beside `floods` for `seconds`.
fn beside(floods: &[&str], seconds: u32, job: &str, expected: &Case) -> Result {
    let prefix = prefix::get()?;
    let room = Room::new()?;
    let mut command = room.command("unshare".as_ref());
    clear(&mut command);
    command.env("MPIEXEC", prefix.join("bin/mpiexec"));
    for (name, program) in [
        ("JOB", "besieged"),
        ("FLOOD", "flood"),
        ("VISITED", "visited"),
        ("SPAWNER", "spawner"),
    ] {
        command.env(name, tool(program)?);
    }
    let start = |mode: &&str| format!("LD_LIBRARY_PATH= $FLOOD {mode} {seconds} >> flooded &\n");
    let floods: String = floods.iter().map(start).collect();
    // The flood's program is of this user's and must be readable for the other one by then: it changes users itself.
    let script = format!(
        "ip link set lo up || exit 9\n{floods}ulimit -n 1024\n{job}\ncode=$?\nwait\n\
         grep -q 'too few' flooded && exit 8\nrm -f flooded\nexit $code"
    );
    command.args(["--net", "sh", "-c", &script]);
    let outcome = Outcome::of(&mut command, patience(90.0))?;
    outcome.judge(expected, &room.leftovers())
}

fn output(text: &str) -> Case {
    Case {
        stdout: vec![text.to_owned()],
        ..Case::default()
    }
}

fn over_tcp(mode: &str) -> Result {
    let job = "WEFT_SHM=0 WEFT_NETMOD=tcp $MPIEXEC -timeout 60 -n 4 $JOB 6";
    beside(&[mode, mode], 10, job, &output("4 ranks: 6"))
}

/// Slow agents must get through while strangers fill the listener's queue.
fn agents() -> Result {
    let job = "printf 'shift\\nsleep 2\\neval \"exec $*\"\\n' > slow\n\
               $MPIEXEC -timeout 60 -bootstrap rsh -bootstrap-exec sh -bootstrap-exec-args ./slow \
               -hosts far1:2,far2:2 -n 4 env WEFT_NETMOD=tcp $JOB 2\ncode=$?; rm -f slow; (exit $code)";
    beside(&["idle", "hello"], 8, job, &output("4 ranks: 6"))
}

/// Ranks of a node must find their table while strangers connect to its socket. Only ranks that have inherited
/// no memory, as under other launchers, have one.
fn names() -> Result {
    prefix::get()?; // It may have to be built first.
    let began = Instant::now();
    let job = "for i in 1 2 3 4 5; do $MPIEXEC -timeout 20 -n 4 env -u WEFT_NODE_MEMORY $JOB 0 || exit 7; done";
    let expected = Case {
        stdout: vec!["4 ranks: 6".to_owned(); 5],
        ..Case::default()
    };
    beside(&["names", "names"], 8, job, &expected)?;
    within(began, 30.0)
}

/// Fails if a test began longer ago than this number of seconds.
fn within(began: Instant, seconds: f64) -> Result {
    let took = began.elapsed();
    match took < patience(seconds) {
        true => Ok(()),
        false => Err(format!("it took {took:?}")),
    }
}

/// Clients of a port and spawned processes must be accepted while strangers hold more connections to their
/// ports than the process may have descriptors.
fn ports() -> Result {
    let job = "$MPIEXEC -timeout 60 -n 1 $VISITED 5";
    beside(
        &["idle", "port"],
        8,
        job,
        &output("only those who were meant came"),
    )
}

/// Jobs must find each other's names while strangers hold the name server's connections, and send it lines without an end.
fn server() -> Result {
    prefix::get()?; // It may have to be built first.
    let began = Instant::now();
    let job = "(export WEFT_SHM=0\n$MPIEXEC -name-server > place &\nserver=$!\ntrap 'kill $server; rm place' EXIT\n\
               while [ ! -s place ]; do sleep 0.05; done; sleep 2\n\
               for turn in 1 2 3; do\n\
               $MPIEXEC -timeout 60 -nameserver 127.0.0.1 -n 1 $SPAWNER accept a_service &\naccept=$!\n\
               $MPIEXEC -timeout 60 -nameserver 127.0.0.1 -n 2 $SPAWNER connect a_service || exit 1\n\
               wait $accept || exit 2\ndone)";
    let expected = Case {
        stdout: vec!["connect done".to_owned(), "accept done".to_owned()],
        ..Case::default()
    };
    beside(&["idle", "server", "endless"], 8, job, &expected)?;
    within(began, 30.0)
}

/// A machine that comes late must join while strangers hold the first one's connections.
fn joining() -> Result {
    let job = "(umask 77; echo a secret of the joining > key)\n\
               all='-timeout 60 -join 127.0.0.1:4711 -size 2 -secret key -n 4'\n\
               $MPIEXEC -index 0 $all $JOB 0 &\nfirst=$!; sleep 3\n\
               $MPIEXEC -index 1 $all $JOB 0 || exit 1\nwait $first; code=$?; rm key; (exit $code)";
    beside(&["idle", "hello"], 6, job, &output("4 ranks: 6"))
}

/// Rows of a table: job, process, socket, address.
type Rows = BTreeSet<[String; 4]>;

/// Returns the rows of the table "What a running job shows" in docs/security.md.
fn documented() -> Result<Rows> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let (_, table) = text
        .split_once("| job | process |")
        .ok_or("docs/security.md has no table of a running job")?;
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let row = |line: &str| -> Option<[String; 4]> {
        let cells = line.trim_matches('|').split('|');
        let cells: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
        cells.try_into().ok()
    };
    let rows: Rows = rows.filter_map(row).collect();
    match rows.is_empty() {
        true => Err("the table of docs/security.md has no rows".to_owned()),
        false => Ok(rows),
    }
}

/// Converts a line of `ss -lntuxpH` to a row.
fn row(job: &str, line: &str) -> Option<[String; 4]> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let socket = *words.first()?;
    let local = words.get(4)?;
    // Nobody can connect to a Unix socket without a name, such as that of a rank that starts.
    if socket.starts_with("u_") && local.starts_with('*') {
        return None;
    }
    let address = local
        .rsplit_once(':')
        .map_or(*local, |(address, _)| address);
    let place = match address.split('%').next()? {
        "0.0.0.0" | "*" | "[::]" => "all interfaces",
        "10.98.0.1" => "the job's interface",
        name if name.starts_with("@weft-names-") => "an abstract name",
        other => other,
    };
    let (_, users) = line.split_once("users:((\"")?;
    let process = match users.split('"').next()? {
        "besieged" => "rank",
        other => other,
    };
    let socket = if socket == "u_str" { "unix" } else { socket };
    Some([job, process, socket, place].map(str::to_owned))
}

/// Returns the rows of `ss` for a job of this name, started by this command.
fn rows(job: &str, words: &str) -> Result<Rows> {
    let room = Room::new()?;
    let mut command = room.command("unshare".as_ref());
    clear(&mut command);
    command.env("MPIEXEC", prefix::get()?.join("bin/mpiexec"));
    command.env("JOB", tool("besieged")?);
    let script = format!(
        "ip link set lo up && ip link add outside type veth peer name other && ip link set other up && ip link set outside up && \
         ip addr add 10.98.0.1/24 dev outside || exit 9\n\
         $MPIEXEC -timeout 60 {words} > out 2> err &\n\
         sleep 2.5\nss -lntuxpH\nwait $! || cat err >&2\nrm -f out err key"
    );
    command.args(["--net", "sh", "-c", &script]);
    let outcome = Outcome::of(&mut command, patience(60.0))?;
    let expected = Case {
        stdout: vec![String::new()],
        ..Case::default()
    };
    outcome.judge(&expected, &room.leftovers())?;
    let lines = outcome.stdout().lines();
    let mut rows: Rows = lines.filter_map(|line| row(job, line)).collect();
    if rows.is_empty() {
        rows.insert([job, "none", "", ""].map(str::to_owned));
    }
    Ok(rows)
}

/// Compares the sockets of running jobs by `ss` with docs/security.md. The jobs are idle most of the
/// time and run concurrently, each in its own network namespace.
fn listeners() -> Result {
    let jobs = [
        ("one host", "-n 4 $JOB 4"),
        ("TCP", "-n 4 env WEFT_SHM=0 WEFT_NETMOD=tcp $JOB 4"),
        (
            "several hosts",
            "-bootstrap fork -iface outside -hosts far1:2,far2:2 -n 4 env WEFT_NETMOD=tcp $JOB 4",
        ),
        ("with -top", "-top -n 4 $JOB 4"),
        (
            "with -encrypt",
            "-encrypt -n 4 env WEFT_SHM=0 WEFT_NETMOD=tcp $JOB 4",
        ),
        (
            "with -join",
            "-n 1 true; umask 77; echo a secret of the joining > key; \
             all='-join 10.98.0.1:4711 -size 2 -secret key -n 2'; \
             $MPIEXEC -index 1 $all $JOB 4 & $MPIEXEC -index 0 $all $JOB 4",
        ),
        ("with a port", "-n 4 $JOB 4 port"),
        (
            "with a port and WEFT_TCP_INTERFACE",
            "-n 4 env WEFT_TCP_INTERFACE=outside $JOB 4 port",
        ),
        (
            "with a port and WEFT_TCP_INTERFACE=eth0,127.0.0.1",
            "-n 4 env WEFT_TCP_INTERFACE=outside,127.0.0.1 $JOB 4 port",
        ),
        (
            "name server",
            "-n 1 sh -c 'timeout 4 $MPIEXEC -name-server; true'",
        ),
    ];
    let found: Vec<Result<Rows>> = thread::scope(|scope| {
        let started = jobs.map(|(job, words)| scope.spawn(move || rows(job, words)));
        let ended = started.map(|job| job.join());
        let panicked = |_| Err("internal error: a thread of this test has panicked".to_owned());
        ended.map(|rows| rows.unwrap_or_else(panicked)).into()
    });
    let found: Vec<Rows> = found.into_iter().collect::<Result<_>>()?;
    let found: Rows = found.into_iter().flatten().collect();
    let documented = documented()?;
    match found == documented {
        true => Ok(()),
        false => Err(format!(
            "docs/security.md says\n{documented:#?}\nbut ss shows\n{found:#?}"
        )),
    }
}
