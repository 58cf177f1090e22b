//! Jobs over agents that are all on this machine.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use netmod_kit::admission::{Protocol, Secret, handshake};
use support::{all_gone, mpiexec, run, start, start_with_input, words};

/// `mpiexec` with hosts whose agents it starts by itself.
fn on(hosts: &str) -> Vec<&str> {
    vec!["-bootstrap", "fork", "-hosts", hosts]
}

#[test]
fn ranks_know_where_they_are() {
    let script = "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $PWD";
    let args = [
        &on("a:2,b:1")[..],
        &["-l", "-wdir", "/tmp", "-n", "5", "sh", "-c", script],
    ]
    .concat();
    let outcome = run(&args);
    outcome.expect(0);
    let mut lines: Vec<&str> = outcome.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "[0] 0/5 0/4 /tmp",
            "[1] 1/5 1/4 /tmp",
            "[2] 2/5 0/1 /tmp",
            "[3] 3/5 2/4 /tmp",
            "[4] 4/5 3/4 /tmp",
        ]
    );
}

/// What `-verbose` counts at the root: messages and bytes sent, and the same received.
fn traffic(hosts: usize, width: &str) -> [u64; 4] {
    let list = format!("h[1-{hosts}]");
    let args = [
        &on(&list)[..],
        &["-v", "-s", "none", "-bootstrap-width", width],
    ]
    .concat();
    let ranks = (hosts * 2).to_string();
    let outcome = run(&[&args[..], &["-ppn", "2", "-n", &ranks, "true"]].concat());
    outcome.expect(0);
    let line = outcome
        .err
        .lines()
        .find(|line| line.contains("agents: sent"));
    let line = line.unwrap_or_else(|| panic!("{}", outcome.err));
    let numbers = line.split_once("sent").unwrap().1.split_whitespace();
    let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn the_root_sends_to_its_children_only() {
    let [sent, _, got, _] = traffic(16, "4");
    // A plan and the end, for each of four.
    assert_eq!(sent, 8);
    // Each host's start and its ranks' end, which may come in two parts, and each child's farewell.
    assert!((16 + 16 + 4..=16 + 32 + 4).contains(&got), "{got}");
    let [sent, ..] = traffic(16, "32");
    assert_eq!(sent, 32);
    // With twice the hosts the root sends no more messages, and gets twice as many; so with bytes, of which each
    // host's part goes down once in a plan.
    let (few, many) = (traffic(8, "4"), traffic(16, "4"));
    assert_eq!(few[0], many[0]);
    for (few, many) in few[1..].iter().zip(&many[1..]) {
        assert!(many <= &(2 * few + 64), "{few} for 8 hosts, {many} for 16");
    }
    assert!(many[1] < 16 * 2048 && many[3] < 16 * 512, "{many:?}");
}

#[test]
fn a_deep_tree_ends_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    // The one that fails waits until all have written.
    let script = "trap '' TERM; echo $$ $PPID >> $PIDS; \
                  while test $PMI_RANK != 6 || test $(wc -w < $PIDS) -lt 14; do sleep 0.2; done; exit 9";
    let mut command = mpiexec();
    command.env("PIDS", &file);
    command
        .args(on("h[0-6]"))
        .args(["-bootstrap-width", "1", "-n", "7", "sh", "-c"]);
    let began = Instant::now();
    let running = start(command.arg(script));
    let pids = words(&file, 14);
    let outcome = running.finish();
    outcome.expect(9).says("rank 6 on h6");
    all_gone(&pids, 14);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        outcome.took
    );
}

#[test]
fn input_and_its_end_reach_the_chosen_rank() {
    let mut command = mpiexec();
    command.args(on("a,b")).args([
        "-stdin",
        "1",
        "-n",
        "2",
        "sh",
        "-c",
        "echo $PMI_RANK $(cat)",
    ]);
    let outcome = start_with_input(&mut command, Some(b"one\ntwo".to_vec()));
    let outcome = outcome.finish();
    outcome.expect(0);
    let mut lines: Vec<&str> = outcome.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "1 one two"]);
}

#[test]
fn input_reaches_those_who_are_to_have_it_on_one_machine_too() {
    for (who, expected) in [
        ("all", &["0 one", "1 one"][..]),
        ("1", &["0", "1 one"]),
        ("none", &["0", "1"]),
        ("0", &["0 one", "1"]),
    ] {
        let mut command = mpiexec();
        command.args(["-s", who, "-n", "2", "sh", "-c", "echo $PMI_RANK $(cat)"]);
        let outcome = start_with_input(&mut command, Some(b"one\n".to_vec())).finish();
        outcome.expect(0);
        let mut lines: Vec<&str> = outcome.out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected, "-s {who}");
    }
}

#[test]
fn an_agent_wants_its_line() {
    let mut command = mpiexec();
    let outcome = start_with_input(command.arg("-weft-agent"), Some(b"hello\n".to_vec())).finish();
    outcome.expect(1).says("pass its standard input on");
}

/// The options of output, on this machine and over agents.
#[test]
fn output_has_labels_times_and_files() {
    for hosts in [vec![], on("a,b")] {
        let with = |args: &[&str]| run(&[&hosts[..], args].concat());
        let outcome = with(&["-n", "2", "-prepend-pattern", "<%r/%p> ", "echo", "x"]);
        let nodes = if hosts.is_empty() { [0, 0] } else { [0, 1] };
        let mut lines: Vec<&str> = outcome.expect(0).out.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [format!("<0/{}> x", nodes[0]), format!("<1/{}> x", nodes[1])]
        );

        let outcome = with(&["-l", "-timestamp-output", "-n", "1", "echo", "x"]);
        let line = outcome.expect(0).out.trim();
        assert!(
            line.starts_with("20") && line.ends_with("Z [0] x"),
            "{line}"
        );

        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("out").display().to_string();
        let script = "echo $PMI_RANK; echo e >&2";
        with(&["-output-filename", &folder, "-n", "2", "sh", "-c", script]).expect(0);
        for rank in [0, 1] {
            let read = |name: &str| {
                std::fs::read_to_string(dir.path().join(format!("out/rank.{rank}/{name}"))).unwrap()
            };
            assert_eq!(
                (read("stdout"), read("stderr")),
                (format!("{rank}\n"), "e\n".into())
            );
        }

        let outcome = with(&["-print-all-exitcodes", "-n", "2", "sh", "-c", "exit 0"]);
        outcome.expect(0).says("ranks 0-1: exit code 0");

        let program = dir.path().join("only-here");
        std::fs::write(&program, "#!/bin/sh\necho found\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let path = dir.path().display().to_string();
        let outcome = with(&["-path", &path, "-n", "1", "only-here"]);
        assert_eq!(outcome.expect(0).out, "found\n");
    }
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let script = format!(
        "{} -bootstrap fork -hosts a,b -n 2 yes | head -n 1",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let outcome = start(std::process::Command::new("sh").args(["-c", &script])).finish();
    assert_eq!(outcome.out, "y\n");
    outcome.says("SIGPIPE");
}

#[test]
fn bindings_are_reported() {
    for hosts in [vec![], on("a")] {
        let words = ["-report-bindings", "-bind-to", "board", "-n", "1", "true"];
        let outcome = run(&[&hosts[..], &words[..]].concat());
        outcome
            .expect(0)
            .says("rank 0 on ")
            .says(" is bound to CPUs 0")
            .says(": [B");
        let words = ["-report-bindings", "-bind-to", "none", "-n", "1", "true"];
        run(&[&hosts[..], &words[..]].concat())
            .expect(0)
            .says("is not bound");
    }
}

/// Nobody listens where it is to call, and nobody reads what it says: whoever started it is gone.
#[test]
fn a_deserted_agent_leaves() {
    let line = format!(
        "weft-agent {} 0 {} 60 127.0.0.1:1\n",
        env!("CARGO_PKG_VERSION"),
        "00".repeat(32)
    );
    let mut command = mpiexec();
    command
        .arg("-weft-agent")
        .stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::piped());
    let mut agent = command.spawn().unwrap();
    std::io::Write::write_all(&mut agent.stdin.take().unwrap(), line.as_bytes()).unwrap();
    // It tries again as long as somebody is there.
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(agent.try_wait().unwrap(), None);
    drop(agent.stderr.take());
    let until = Instant::now() + Duration::from_secs(10);
    while agent.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it still tries");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A parent that has not read an agent's proof in time drops the connection like a stranger's.
#[test]
fn an_agent_whose_connection_is_dropped_calls_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let secret = Secret::from_bytes([7; 32]);
    let (version, place) = (env!("CARGO_PKG_VERSION"), listener.local_addr().unwrap());
    let mut command = mpiexec();
    command.arg("-weft-agent").stdin(Stdio::piped());
    let mut agent = command.stderr(Stdio::piped()).spawn().unwrap();
    let line = format!("weft-agent {version} 0 {} 30 {place}\n", secret.to_hex());
    let mut input = agent.stdin.take().unwrap();
    input.write_all(line.as_bytes()).unwrap();
    let protocol = Protocol::new(*b"WeftAgt\x02", 4);
    for turn in 0..3 {
        let mut stream = listener.accept().unwrap().0;
        let mut hello = vec![0; protocol.hello_len()];
        stream.read_exact(&mut hello).unwrap();
        let (mut responder, challenge) =
            handshake::Responder::new(&protocol, &hello, &secret).unwrap();
        stream.write_all(&challenge).unwrap();
        let mut proof = [0; handshake::PROOF];
        stream.read_exact(&mut proof).unwrap();
        assert!(responder.check(&proof).is_ok());
        if turn == 2 {
            stream.write_all(&[0; 64]).unwrap();
        }
    }
    let outcome = agent.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&outcome.stderr);
    assert!(text.contains("something that is no plan"), "{text}");
}
