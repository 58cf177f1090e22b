//! Tests Weft's mpiexec on several hosts with a real sshd each.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use weft_needs::{HYDRA, MOUNTS, NAMESPACES, Need, SSHD};

use crate::company::Company;
use crate::hosts::Hosts;
use crate::launchers::{program, tool};
use crate::outcome::Outcome;
use crate::program::{Case, compile};
use crate::sshd::Cluster;
use crate::{Result, lacks, operator, patience, timed};

const NEEDS: &[&Need] = &[&MOUNTS, &NAMESPACES, &SSHD];

/// Time limit of each command.
const SOON: f64 = 3.0;

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result| {
        let name = format!("agents/{name}");
        let left_out = lacks::any(&name, NEEDS);
        timed(name, Company::Any, test).with_ignored_flag(left_out)
    };
    vec![
        trial("two/4", two),
        trial("four/8", four_hosts),
        trial("sixteen/16", sixteen),
        trial("options/4", options),
        trial("failures/2", failures),
        trial("ends/4", ends),
        trial("silence/2", silence),
        trial("streams/8", streams),
        trial("wrapper/2", operator::wrapper),
    ]
}

fn case(exit: i32, out: &[&str], err: &[&str]) -> Case {
    Case {
        exit,
        stdout: out.iter().map(|line| (*line).to_owned()).collect(),
        stderr: err.iter().map(|line| (*line).to_owned()).collect(),
        ..Case::default()
    }
}

/// Runs mpiexec with these arguments and compares its output.
fn run(cluster: &Cluster, words: &[&str], expected: &Case) -> Result {
    let mut command = cluster.mpiexec()?;
    command.args(["-timeout", "60"]).args(words);
    judge(cluster, &mut command, expected).map_err(|error| format!("{words:?}: {error}"))
}

/// Runs a command on a cluster, compares its output, and checks that no process is left.
pub fn judge(cluster: &Cluster, command: &mut Command, expected: &Case) -> Result {
    let outcome = Outcome::of(command, patience(70.0))?;
    outcome.judge(expected, &[])?;
    cluster.gone(SOON).map(drop)
}

/// Returns the expected output of `size` ranks, `here` of them per host.
pub fn ranks(size: usize, here: usize) -> Case {
    Case {
        stdout: (0..size)
            .map(|rank| format!("rank {rank} of {size}, {here} here"))
            .collect(),
        ..Case::default()
    }
}

fn two() -> Result {
    let cluster = Cluster::start(2)?;
    let program = program()?.display().to_string();
    let names = cluster.names();
    let words = ["-hosts", &names, "-ppn", "2", "-n", "4", &program];
    run(&cluster, &words, &ranks(4, 2))?;
    let mut informed = ranks(4, 2);
    let pairs = "pairs of ranks: 2 by shm (within 0-1; 2-3), 4 by tcp";
    informed.stderr = vec![pairs.to_owned()];
    run(
        &cluster,
        &[&["-genv", "WEFT_INFO", "1"], &words[..]].concat(),
        &informed,
    )?;
    listeners(&cluster)?;
    // Hosts by address; the first one is also reached by ssh, since its name differs.
    let addresses = format!("{},{}", Hosts::address(1), Hosts::address(0));
    run(
        &cluster,
        &["-hosts", &addresses, "-n", "2", &program],
        &ranks(2, 1),
    )?;
    // One of the hosts aborts.
    let aborted = case(7, &[], &["aborted with code 7", cluster.name(1)]);
    let words = ["-hosts", &names, "-n", "2", &program, "abort"];
    run(&cluster, &words, &aborted)
}

/// mpiexec listens for agents only at the address by which it reaches their host.
fn listeners(cluster: &Cluster) -> Result {
    let seen = cluster.dir().join("listeners");
    let script = format!(
        "#!/bin/sh\nss -lntH | awk '{{print $4}}' | grep -v ':2222$' > {}\nexec ssh -F {} \"$@\"\n",
        seen.display(),
        cluster.dir().join("ssh_config").display()
    );
    let exec = write_script(cluster, "looking.sh", &script)?;
    let mut command = cluster.within(0);
    command.arg(crate::prefix::get()?.join("bin/mpiexec"));
    crate::job::clear(&mut command);
    command.current_dir(cluster.dir());
    command.args([
        "-bootstrap-exec",
        &exec,
        "-hosts",
        &cluster.names(),
        "-n",
        "2",
        "true",
    ]);
    judge(cluster, &mut command, &case(0, &[], &[]))?;
    let text = fs::read_to_string(&seen).map_err(|error| format!("{seen:?}: {error}"))?;
    let places: Vec<&str> = text.lines().collect();
    let expected = format!("{}:", Hosts::address(0));
    match places[..] {
        [one] if one.starts_with(&expected) => Ok(()),
        _ => Err(format!(
            "mpiexec listens at {places:?}, expected was {expected}PORT"
        )),
    }
}

fn four_hosts() -> Result {
    let cluster = Cluster::start(4)?;
    let program = program()?.display().to_string();
    let file = cluster.dir().join("hosts");
    let lines = (0..4).map(|n| format!("{} slots=2 # {n}\n", cluster.name(n)));
    fs::write(&file, lines.collect::<String>()).map_err(|error| error.to_string())?;
    let file = file.display().to_string();
    // A tree of two levels: the second host starts the fourth.
    let words = ["-f", &file, "-bootstrap-width", "2", "-n", "8", &program];
    run(&cluster, &words, &ranks(8, 2))?;
    let words = ["-f", &file, "-map-by", "node", "-n", "4", &program];
    run(&cluster, &words, &ranks(4, 1))?;
    // Sections with different hosts.
    let (b, c) = (cluster.name(1), cluster.name(2));
    let words = [
        "-l", "-n", "2", "-host", b, "hostname", ":", "-n", "1", "-host", c, "hostname",
    ];
    let lines = [format!("[0] {b}"), format!("[1] {b}"), format!("[2] {c}")];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    run(&cluster, &words, &case(0, &lines, &[]))
}

/// Measures the start of jobs on sixteen hosts, flat, as a tree, and by Hydra, alternately, and prints
/// medians. `WEFT_TEST_PER_HOST` is the number of ranks per host, `WEFT_TEST_ROUNDS` that of starts.
fn sixteen() -> Result {
    const HOSTS: usize = 16;
    let number = |name: &str, usual: usize| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let (per_host, rounds) = (
        number("WEFT_TEST_PER_HOST", 1),
        number("WEFT_TEST_ROUNDS", 1),
    );
    let cluster = Cluster::start(HOSTS)?;
    let program = tool("start")?.display().to_string();
    let (names, ppn) = (cluster.names(), per_host.to_string());
    let size = (HOSTS * per_host).to_string();
    let expected = case(0, &[&format!("{size} ranks")], &[]);
    let what = ["-hosts", &names, "-ppn", &ppn, "-n", &size];
    let ours = |width: &str| {
        let mut command = cluster.mpiexec()?;
        command.args(["-timeout", "60", "-bootstrap-width", width]);
        command.args(what).arg(&program);
        Ok(command)
    };
    let ssh = format!(
        "#!/bin/sh\nexec ssh -F {} -oLogLevel=ERROR \"$@\"\n",
        cluster.dir().join("ssh_config").display()
    );
    let exec = write_script(&cluster, "ssh", &ssh)?;
    let hydra = || {
        let mut command = cluster.within(0);
        crate::job::clear(&mut command);
        command.current_dir(cluster.dir());
        command.args(["/usr/bin/mpiexec.hydra", "-launcher", "ssh"]);
        command.args(["-launcher-exec", &exec]);
        command.args(what).arg(&program);
        Ok(command)
    };
    let (flat, tree) = (|| ours("32"), || ours("4"));
    type Start<'a> = (&'a str, &'a dyn Fn() -> Result<Command>, Vec<f64>);
    let mut ways: Vec<Start> = vec![
        ("width 32", &flat, Vec::new()),
        ("width 4", &tree, Vec::new()),
    ];
    if HYDRA.lacking().is_none() {
        ways.push(("Hydra", &hydra, Vec::new()));
    }
    for _ in 0..rounds.max(1) {
        for (name, command, times) in &mut ways {
            let mut command = command()?;
            let began = Instant::now();
            let outcome = Outcome::of(&mut command, patience(70.0))?;
            times.push(began.elapsed().as_secs_f64());
            let judged = outcome.judge(&expected, &[]);
            judged.map_err(|error| format!("{name}: {error}"))?;
            cluster.gone(SOON)?;
        }
    }
    for (name, _, times) in &mut ways {
        times.sort_by(f64::total_cmp);
        let (middle, least) = (times[times.len() / 2], times[0]);
        println!("{size} ranks on {HOSTS} hosts, {name}: {middle:.2} s (least {least:.2} s)");
    }
    Ok(())
}

fn options() -> Result {
    let cluster = Cluster::start(2)?;
    let names = cluster.names();
    let (a, b) = (cluster.name(0), cluster.name(1));
    let map = [format!("({a}:0,1)"), format!("({b}:2,3)")];
    let words = [
        "-hosts",
        &names,
        "-ppn",
        "2",
        "-print-rank-map",
        "-n",
        "4",
        "true",
    ];
    run(&cluster, &words, &case(0, &[&map[0], &map[1]], &[]))?;
    // Variables: set, listed, none.
    let both = |words: &[&str], line: &str| {
        let mut command = cluster.mpiexec()?;
        command.env("WEFT_TEST_A", "1").env("WEFT_TEST_B", "2");
        command.args(["-timeout", "60", "-hosts", &names, "-n", "2"]);
        command.args(words);
        command.args([
            "/bin/sh",
            "-c",
            "echo $WEFT_TEST_A-$WEFT_TEST_B-$WEFT_TEST_C",
        ]);
        judge(&cluster, &mut command, &case(0, &[line, line], &[]))
            .map_err(|error| format!("{words:?}: {error}"))
    };
    both(&[], "1-2-")?;
    both(&["-genv", "WEFT_TEST_C", "3"], "1-2-3")?;
    both(&["-x", "WEFT_TEST_C=a b"], "1-2-a b")?;
    both(&["-genvlist", "WEFT_TEST_B"], "-2-")?;
    both(&["-genvnone", "-env", "WEFT_TEST_C", "'"], "--'")?;
    // A working folder, and output files on mpiexec's machine.
    let pattern = cluster.dir().join("out.%r.%h").display().to_string();
    let words = [
        "-hosts",
        &names,
        "-wdir",
        "/usr/lib",
        "-outfile-pattern",
        &pattern,
        "-n",
        "2",
        "pwd",
    ];
    run(&cluster, &words, &case(0, &[], &[]))?;
    for (rank, name) in [(0, a), (1, b)] {
        let file = cluster.dir().join(format!("out.{rank}.{name}"));
        let text = fs::read_to_string(&file).map_err(|error| format!("{file:?}: {error}"))?;
        if text != "/usr/lib\n" {
            return Err(format!("{file:?} has '{text}'"));
        }
    }
    Ok(())
}

fn failures() -> Result {
    let cluster = Cluster::start(2)?;
    let names = cluster.names();
    let (a, b) = (cluster.name(0), cluster.name(1));
    // No host has this address.
    let nobody = format!("{a},10.99.0.200");
    // Installing is not part of the measured time.
    crate::prefix::get()?;
    let began = Instant::now();
    let words = [
        "-bootstrap-timeout",
        "2",
        "-hosts",
        &nobody,
        "-n",
        "2",
        "sleep",
        "50",
    ];
    run(
        &cluster,
        &words,
        &case(1, &[], &["host '10.99.0.200'", "BatchMode=yes"]),
    )?;
    if began.elapsed() > patience(10.0) {
        return Err(format!("it took {:?}", began.elapsed()));
    }
    let nobody = format!("{a},no-such-host");
    let words = ["-hosts", &nobody, "-n", "2", "sleep", "50"];
    run(
        &cluster,
        &words,
        &case(1, &[], &["host 'no-such-host'", "ended with code 255"]),
    )?;
    // A host that asks for a password must not prompt the user.
    let words = [
        "-bootstrap-exec-args",
        "-oPubkeyAuthentication=no",
        "-hosts",
        &names,
        "-n",
        "2",
        "true",
    ];
    run(
        &cluster,
        &words,
        &case(1, &[], &[&format!("host '{b}'"), "Permission denied"]),
    )?;
    // A program that exists on one host only.
    let there = format!("on host '{b}'");
    let words = ["-hosts", &names, "-n", "2", "-wdir", "/run/mine", "true"];
    let mut command = cluster.within(0);
    let script = "mkdir /run/mine && cp /bin/sleep /run/mine/nap && exec \"$@\"";
    command.args(["sh", "-c", script, "sh"]);
    let args: Vec<_> = cluster
        .mpiexec()?
        .get_args()
        .map(ToOwned::to_owned)
        .collect();
    // The words of `within`, which were said already.
    let own = cluster.within(0).get_args().count();
    command.args(&args[own..]);
    command.current_dir(cluster.dir());
    let mut other = Command::new(command.get_program());
    other.args(command.get_args()).current_dir(cluster.dir());
    command.args(words);
    judge(
        &cluster,
        &mut command,
        &case(127, &[], &[&there, "'/run/mine'"]),
    )?;
    other.args(["-hosts", &names, "-n", "2", "/run/mine/nap", "50"]);
    judge(
        &cluster,
        &mut other,
        &case(127, &[], &[&there, "'/run/mine/nap' was not found"]),
    )?;
    // A library that only one host has.
    let library = cluster.dir().join("libnap.so");
    let user = cluster.dir().join("nap");
    let cc = |source: &str, args: &[&str], to: &Path| {
        let file = cluster.dir().join("nap.c");
        fs::write(&file, source).map_err(|error| error.to_string())?;
        compile(Command::new("cc").args(args).arg("-o").arg(to).arg(&file))
    };
    cc(
        "int nap(void) { return 0; }",
        &["-shared", "-fPIC", "-Wl,-soname,libnap.so"],
        &library,
    )?;
    let found = library.display().to_string();
    cc(
        "int nap(void); int main(void) { return nap(); }",
        &["-Wl,--no-as-needed", &found],
        &user,
    )?;
    let mut command = cluster.within(0);
    let script = "mkdir /run/mine && mv libnap.so /run/mine && exec \"$@\"";
    command.args(["sh", "-c", script, "sh"]);
    command.args(&args[own..]).current_dir(cluster.dir());
    let user = user.display().to_string();
    command.args(["-genv", "LD_LIBRARY_PATH", "/run/mine", "-hosts", &names]);
    command.args(["-n", "2", &user]);
    let text = format!("on {b}");
    let shown = [
        "libnap.so",
        &text,
        "code 127 before it called MPI_Init",
        "ldd",
    ];
    judge(&cluster, &mut command, &case(127, &[], &shown))?;
    // Weft is not installed at the same path.
    let words = ["-prefix", "/nowhere", "-hosts", &names, "-n", "2", "true"];
    run(
        &cluster,
        &words,
        &case(1, &[], &["'/nowhere/bin/mpiexec' must be there", "-prefix"]),
    )?;
    // Another version.
    let script = "#!/bin/sh\nsed -u 's/^weft-agent [^ ]* /weft-agent 77.1 /' | exec ssh \"$@\"\n";
    let exec = write_script(&cluster, "other-version", script)?;
    let words = [
        "-bootstrap-exec",
        &exec,
        "-hosts",
        &names,
        "-n",
        "2",
        "true",
    ];
    let version = format!("version {}", env!("CARGO_PKG_VERSION"));
    run(&cluster, &words, &case(1, &[], &["version 77.1", &version]))?;
    // A wrapper that consumes standard input.
    let script = "#!/bin/sh\nexec ssh \"$@\" < /dev/null\n";
    let exec = write_script(&cluster, "no-input", script)?;
    let words = [
        "-bootstrap-exec",
        &exec,
        "-hosts",
        &names,
        "-n",
        "2",
        "true",
    ];
    run(
        &cluster,
        &words,
        &case(1, &[], &["pass its standard input on"]),
    )
}

/// Writes a script into the folder of a cluster.
pub fn write_script(cluster: &Cluster, name: &str, text: &str) -> Result<String> {
    let path: PathBuf = cluster.dir().join(name);
    fs::write(&path, text)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.display().to_string())
}

/// Starts a job of four ranks that sleep on two hosts.
fn sleeping(cluster: &Cluster, words: &[&str]) -> Result<Child> {
    let mut command = cluster.mpiexec()?;
    command.args(["-hosts", &cluster.names(), "-ppn", "2", "-n", "4"]);
    command.args(words);
    // Ranks that ignore SIGTERM.
    command.args([
        "sh",
        "-c",
        "trap '' TERM INT; sleep 101 & while :; do sleep 1; done",
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| error.to_string())?;
    let until = Instant::now() + patience(30.0);
    loop {
        let sleeps = |host| {
            cluster
                .processes(host)
                .iter()
                .filter(|one| one.1 == "sleep 101 ")
                .count()
        };
        if sleeps(0) + sleeps(1) == 4 {
            return Ok(child);
        }
        if Instant::now() > until {
            return Err(format!("the ranks do not start: {}", last_words(child)));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a launcher's messages after its end.
fn last_words(mut child: Child) -> String {
    let mut text = String::new();
    let _ = child.kill();
    if let Some(mut errors) = child.stderr.take() {
        let _ = errors.read_to_string(&mut text);
    }
    let status = child.wait();
    format!("{text} ({status:?})")
}

/// Kills the first process on a host whose command line has `part`.
fn kill(cluster: &Cluster, host: usize, part: &str) -> Result {
    let all = cluster.processes(host);
    let found = all.iter().find(|one| one.1.contains(part));
    let (pid, _) = found.ok_or(format!("no process has '{part}': {all:?}"))?;
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
    status.map(drop).map_err(|error| error.to_string())
}

fn ended(
    cluster: &Cluster,
    mut child: Child,
    what: &str,
    code: Option<i32>,
    parts: &[&str],
) -> Result {
    let took = cluster
        .gone(SOON)
        .map_err(|error| format!("{what}: {error}"))?;
    let mut text = String::new();
    if let Some(mut errors) = child.stderr.take() {
        let _ = errors.read_to_string(&mut text);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if code.is_some() && status.code() != code {
        return Err(format!("{what}: {status}, {text}"));
    }
    match parts.iter().find(|part| !text.contains(**part)) {
        Some(part) => Err(format!("{what}: '{part}' is not in '{text}'")),
        None => {
            println!("{what}: all gone after {:.2} s", took.as_secs_f64());
            Ok(())
        }
    }
}

fn ends() -> Result {
    let cluster = Cluster::start(2)?;
    let b = cluster.name(1).to_owned();
    let child = sleeping(&cluster, &[])?;
    kill(&cluster, 1, "-weft-agent")?;
    let text = format!("the agent on host '{b}' is lost");
    ended(
        &cluster,
        child,
        "a killed agent",
        Some(1),
        &[&text, "2 ranks"],
    )?;
    let child = sleeping(&cluster, &[])?;
    kill(&cluster, 1, "trap")?;
    let text = format!(" on {b} (pid ");
    ended(
        &cluster,
        child,
        "a killed rank",
        Some(137),
        &[&text, "by signal 9"],
    )?;
    let child = sleeping(&cluster, &[])?;
    kill(&cluster, 0, "-ppn")?;
    ended(&cluster, child, "a killed mpiexec", None, &[])?;
    // The first signal asks ranks to end, the second kills them.
    let child = sleeping(&cluster, &[])?;
    for _ in 0..2 {
        let pid = cluster
            .processes(0)
            .iter()
            .find(|one| one.1.contains("-ppn"))
            .map(|one| one.0);
        let pid = pid.ok_or("there is no mpiexec")?.to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        // Two that come before mpiexec runs are one.
        thread::sleep(patience(0.2));
    }
    ended(
        &cluster,
        child,
        "interrupts",
        Some(130),
        &["received SIGINT", "4 by SIGKILL"],
    )?;
    // The program goes on without one.
    let child = sleeping(&cluster, &["-disable-auto-cleanup", "-timeout", "4"])?;
    kill(&cluster, 1, "trap")?;
    thread::sleep(Duration::from_millis(500));
    let alive = cluster
        .processes(0)
        .iter()
        .filter(|one| one.1.contains("trap"))
        .count();
    if alive < 2 {
        return Err("-disable-auto-cleanup: ranks of the other host are gone".to_owned());
    }
    thread::sleep(Duration::from_secs(3));
    ended(
        &cluster,
        child,
        "no clean-up",
        Some(124),
        &["the others go on", "time limit"],
    )
}

/// A host whose network is cut.
fn silence() -> Result {
    silence_of(&["-agent-timeout", "7"], 7.0)?;
    silence_of(&[], 3.0)
}

/// A host whose network is cut is lost after `seconds`.
fn silence_of(words: &[&str], seconds: f64) -> Result {
    let cluster = Cluster::start(3)?;
    let mut command = cluster.mpiexec()?;
    let hosts = format!("{},{}", cluster.name(0), cluster.name(1));
    command.args(words);
    command.args(["-hosts", &hosts, "-n", "2", "sleep", "102"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| error.to_string())?;
    let until = Instant::now() + patience(20.0);
    while !cluster.processes(1).iter().any(|one| one.1 == "sleep 102 ") {
        if Instant::now() > until {
            return Err("the rank does not start".to_owned());
        }
        thread::sleep(Duration::from_millis(20));
    }
    // The connection is idle, so only TCP keepalives detect the loss.
    thread::sleep(Duration::from_millis(1500));
    cluster.hosts.unplug_from_switch(1)?;
    let began = Instant::now();
    let text = format!("the agent on host '{}' is lost", cluster.name(1));
    // The end takes at most three seconds more.
    while !cluster.processes(0).is_empty() || !cluster.processes(1).is_empty() {
        if began.elapsed() > patience(seconds + 3.0) {
            return Err(format!(
                "{:?} {:?}",
                cluster.processes(0),
                cluster.processes(1)
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
    if began.elapsed().as_secs_f64() < seconds - 2.0 {
        return Err(format!("lost after {:?} already", began.elapsed()));
    }
    println!(
        "silence: all gone after {:.2} s",
        began.elapsed().as_secs_f64()
    );
    ended(&cluster, child, "silence", Some(1), &[&text])
}

fn streams() -> Result {
    let cluster = Cluster::start(2)?;
    let names = cluster.names();
    const LINES: usize = 20_000;
    let script = format!(
        "exec awk -v r=$PMI_RANK 'BEGIN {{ for (i = 0; i < {LINES}; i++) \
         printf \"%d:%06d:%0200d\\n\", r, i, r }}'"
    );
    let mut command = cluster.mpiexec()?;
    command.args([
        "-hosts", &names, "-ppn", "4", "-n", "8", "sh", "-c", &script,
    ]);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut next = [0usize; 8];
    for line in text.lines() {
        let mut parts = line.split(':');
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        let (rank, count, last) = (number(), number(), number());
        let fits = match (rank, count) {
            (Some(rank), Some(count)) if rank < 8 => {
                next[rank] += 1;
                count + 1 == next[rank] && last == Some(rank) && line.len() == 209
            }
            _ => false,
        };
        if !fits {
            return Err(format!("a line was torn: '{line}'"));
        }
    }
    if next != [LINES; 8] {
        return Err(format!("lines of ranks: {next:?}, {output:?}"));
    }
    // Standard input that exceeds pipes and TCP windows, to a rank of the other host and to all.
    let input = cluster.dir().join("input");
    let text: String = (0..60_000).map(|n| format!("{n} and more\n")).collect();
    fs::write(&input, &text).map_err(|error| error.to_string())?;
    for (who, expected) in [
        ("1", ["0", "60000"]),
        ("all", ["60000", "60000"]),
        ("none", ["0", "0"]),
    ] {
        let mut command = cluster.mpiexec()?;
        command.args(["-l", "-hosts", &names, "-s", who, "-n", "2", "wc", "-l"]);
        command.stdin(fs::File::open(&input).map_err(|error| error.to_string())?);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        for (rank, lines) in expected.iter().enumerate() {
            if !text.lines().any(|line| line == format!("[{rank}] {lines}")) {
                return Err(format!("-s {who}: {text} {output:?}"));
            }
        }
    }
    cluster.gone(SOON).map(drop)
}
