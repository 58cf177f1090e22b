//! Two processes: over loopback, and over a cable between two network namespaces.
//!
//! A test starts two children of its own executable, a driver and a server, and passes their
//! addresses between them. The driver does the checks.

mod common;

use common::*;
use netmod::{AtomicOp, Header, Issued, Lane, LaneError, RemoteAddr, RemoteKey, Token, Transport};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const LANES: u16 = 5;
const MEMORY: usize = (8 << 20) + 64;
const DRIVER: u32 = 0;
const SERVER: u32 = 1;

// What the driver asks for, in the first word of a header.
const NUMBERED: u64 = 1;
const SLEEP: u64 = 2;
const REPORT: u64 = 3;
const LEAVE: u64 = 4;
/// The server's answer to REPORT: numbered messages taken and a checksum of them.
const REPORTED: u64 = 5;

// ---- the tests' side

/// A child that is killed when the test ends, however it ends.
struct Kid {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Kid {
    fn start(prefix: &[&str], role: &str, scenario: &str, provider: &str) -> Kid {
        let exe = std::env::current_exe().unwrap();
        let mut words: Vec<&str> = prefix.to_vec();
        words.push(exe.to_str().unwrap());
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["--exact", "child", "--nocapture", "--ignored"])
            .env("WEFT_TEST_ROLE", role)
            .env("WEFT_TEST_SCENARIO", scenario)
            .env("WEFT_OFI_PROVIDER", provider)
            .envs(
                scenario
                    .ends_with("emulated")
                    .then_some(("WEFT_OFI_RMA", "emulated")),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if !prefix.is_empty() {
            command.env("WEFT_TEST_NAMESPACE", "1");
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The harness may have written the name of the test on the same line.
                if let Some((_, text)) = line.split_once("WEFT ") {
                    let _ = send.send(text.to_string());
                }
            }
        });
        Kid {
            child,
            input,
            lines,
        }
    }
    fn line(&self, what: &str) -> String {
        self.lines
            .recv_timeout(LIMIT)
            .unwrap_or_else(|_| panic!("no {what} from the child"))
    }
    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }
}

impl Drop for Kid {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a scenario to its end; `prefix` goes in front of each command line.
fn run(prefix: [&[&str]; 2], scenario: &str, provider: &str) {
    eprintln!("{scenario} with {provider}");
    let mut driver = Kid::start(prefix[0], "driver", scenario, provider);
    let mut server = Kid::start(prefix[1], "server", scenario, provider);
    let hello = driver.line("address");
    server.tell(&hello);
    let hello = server.line("address");
    driver.tell(&hello);
    let is_death = scenario.starts_with("death");
    if is_death {
        assert_eq!(driver.line("start"), "connected");
        // The child alone: what it was started under passes the signal on, or is replaced by it.
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
    assert_eq!(
        driver.line("result"),
        "passed",
        "{scenario} with {provider}"
    );
    let status = driver.child.wait().unwrap();
    assert!(status.success(), "driver: {status}");
    if !is_death {
        let status = server.child.wait().unwrap();
        assert!(status.success(), "server: {status}");
    }
}

#[test]
fn everything_works_between_two_processes() {
    for provider in providers() {
        run([&[], &[]], "everything", &provider);
        run([&[], &[]], "everything emulated", &provider);
    }
}

/// Providers without connections have nobody who would tell.
fn notices_death(provider: &str) -> bool {
    let connected = !provider.starts_with("udp") && provider != "shm";
    if !connected {
        eprintln!("skipped: {provider} does not notice a peer's death");
    }
    connected
}

#[test]
fn a_killed_peer_is_noticed() {
    for provider in providers() {
        if !notices_death(&provider) {
            continue;
        }
        run([&[], &[]], "death", &provider);
        run([&[], &[]], "death during access", &provider);
        // With nothing of the provider's under way, a peer must be asked, which needs a TCP socket.
        if !provider.starts_with("verbs") {
            run([&[], &[]], "death of a sleeper", &provider);
            run([&[], &[]], "death during access emulated", &provider);
        }
    }
}

/// Two namespaces joined by a cable, removed at the end.
struct Namespaces([String; 2]);

impl Namespaces {
    fn new() -> Result<Namespaces, String> {
        let id = std::process::id();
        let names = Namespaces(["a", "b"].map(|side| format!("weft-ofi-{id}{side}")));
        let [a, b] = &names.0;
        let cable = [format!("wo{id}a"), format!("wo{id}b")];
        let [cable_a, cable_b] = &cable;
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&[
            "link", "add", cable_a, "netns", a, "type", "veth", "peer", "name", cable_b, "netns", b,
        ])?;
        for (name, cable, address) in [(a, cable_a, "10.9.0.1/24"), (b, cable_b, "10.9.0.2/24")] {
            ip(&["-n", name, "address", "add", address, "dev", cable])?;
            ip(&["-n", name, "link", "set", cable, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            // What a container engine leaves behind on every host: not the way to other hosts.
            ip(&[
                "-n", name, "link", "add", "docker0", "type", "veth", "peer", "name", "inside",
            ])?;
            ip(&[
                "-n",
                name,
                "address",
                "add",
                "10.8.0.1/24",
                "dev",
                "docker0",
            ])?;
            ip(&["-n", name, "link", "set", "docker0", "up"])?;
            ip(&["-n", name, "link", "set", "inside", "up"])?;
        }
        // The kernel takes a moment to see that both ends are up.
        let start = Instant::now();
        let bridge = "docker0".to_string();
        for (name, cable) in [(a, cable_a), (b, cable_b), (a, &bridge), (b, &bridge)] {
            while !ip(&["-n", name, "link", "show", cable])?.contains("state UP") {
                if start.elapsed() > Duration::from_secs(5) {
                    return Err("the cable does not come up".to_string());
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

#[test]
fn everything_works_between_two_namespaces() {
    if !weft_needs::NAMESPACES.met() {
        return;
    }
    let namespaces = Namespaces::new().unwrap();
    let [a, b] = &namespaces.0;
    let prefix: [&[&str]; 2] = [
        &["ip", "netns", "exec", a.as_str()],
        &["ip", "netns", "exec", b.as_str()],
    ];
    for provider in providers() {
        if provider == "shm" {
            eprintln!("skipped: shm stays on one host");
            continue;
        }
        run(prefix, "everything", &provider);
        if notices_death(&provider) {
            run(prefix, "death", &provider);
        }
    }
}

// ---- the children's side

/// Not a test: what the children run.
#[test]
#[ignore = "run by the other tests in processes of their own"]
fn child() {
    let Ok(role) = std::env::var("WEFT_TEST_ROLE") else {
        return;
    };
    let scenario = std::env::var("WEFT_TEST_SCENARIO").unwrap();
    let provider = std::env::var("WEFT_OFI_PROVIDER").unwrap();
    let (me, other) = if role == "driver" {
        (DRIVER, SERVER)
    } else {
        (SERVER, DRIVER)
    };
    let mut config = config(me, &provider);
    if std::env::var("WEFT_TEST_NAMESPACE").is_ok() {
        // The cable is to be found without help.
        config.interface = None;
    }
    let mut memory = vec![0_u8; MEMORY];
    let mut node = Node::open(config, Arc::default(), LANES).unwrap();
    let line = node.transport.describe();
    eprintln!("{role}: {line}");
    if std::env::var("WEFT_TEST_NAMESPACE").is_ok() {
        assert!(line.contains("10.9.0."), "not the cable: {line}");
    }
    // SAFETY: `memory` is alive until the node is gone.
    let key = unsafe {
        node.transport
            .expose(memory.as_mut_ptr(), memory.len())
            .unwrap()
    };
    let mut hello = format!("{:x} {:x} {:x}", key.address, key.words[0], key.words[1]);
    for vci in 0..LANES {
        let address = node.transport.address(vci);
        hello += " ";
        hello.extend(address.iter().map(|byte| format!("{byte:02x}")));
    }
    say(&hello);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |i: usize| u64::from_str_radix(words[i], 16).unwrap();
    let theirs = RemoteKey {
        address: number(0),
        words: [number(1), number(2)],
    };
    for vci in 0..LANES {
        let text = words[3 + usize::from(vci)];
        let address = (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        node.directory
            .0
            .lock()
            .unwrap()
            .insert((other, vci), address);
    }
    match (role.as_str(), scenario.as_str()) {
        ("driver", "death") => await_death(&mut node),
        ("driver", "death of a sleeper") => await_answer(&mut node, theirs),
        ("driver", death) if death.starts_with("death") => access_until_death(&mut node, theirs),
        ("driver", _) => drive(&mut node, theirs),
        _ => serve(&mut node),
    }
    drop(node);
    drop(memory);
}

fn say(line: &str) {
    println!("WEFT {line}");
    std::io::stdout().flush().unwrap();
}

fn send(node: &mut Node, lane: usize, to: u32, header: [u64; 3], payload: &[u8]) {
    let start = Instant::now();
    loop {
        match node.lanes[lane].send(to, lane as u16, &Header(header), payload) {
            Ok(()) => return,
            Err(LaneError::Again) => {
                node.poll();
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < LIMIT, "sending took too long");
    }
}

fn checksum(sum: u64, seq: u64, payload: &[u8]) -> u64 {
    payload.iter().fold(sum ^ seq, |sum, &byte| {
        (sum.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Answers until it is told to leave.
fn serve(node: &mut Node) {
    let start = Instant::now();
    let mut counts = [0_u64; LANES as usize];
    let mut sums = [0_u64; LANES as usize];
    loop {
        let any = node.poll();
        for lane in 0..LANES as usize {
            let messages = std::mem::take(&mut node.sinks[lane].messages);
            for (from, header, payload) in messages {
                assert_eq!(from, DRIVER);
                match header.0 {
                    [NUMBERED, seq, _] => {
                        assert_eq!(seq, counts[lane], "lane {lane} is out of order");
                        counts[lane] += 1;
                        sums[lane] = checksum(sums[lane], seq, &payload);
                    }
                    [SLEEP, ms, _] => std::thread::sleep(Duration::from_millis(ms)),
                    [REPORT, ..] => {
                        let header = [REPORTED, counts[lane], sums[lane]];
                        send(node, lane, DRIVER, header, &[]);
                    }
                    [LEAVE, ..] => {
                        let start = Instant::now();
                        while !node.lanes.iter_mut().all(|lane| lane.drained()) {
                            node.poll();
                            assert!(start.elapsed() < LIMIT, "not drained");
                        }
                        return;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(
            start.elapsed() < 2 * LIMIT,
            "nobody told the server to leave"
        );
        if !any {
            std::thread::yield_now();
        }
    }
}

fn report(node: &mut Node, lane: usize) -> (u64, u64) {
    send(node, lane, SERVER, [REPORT, 0, 0], &[]);
    let start = Instant::now();
    loop {
        node.poll();
        if let Some((_, header, _)) = node.sinks[lane].messages.pop() {
            assert_eq!(header.0[0], REPORTED);
            return (header.0[1], header.0[2]);
        }
        assert!(start.elapsed() < LIMIT, "no report");
        std::thread::yield_now();
    }
}

fn finish(
    node: &mut Node,
    mut issue: impl FnMut(&mut dyn Lane, Token) -> Result<Issued, LaneError>,
) {
    let token = node.token();
    let start = Instant::now();
    loop {
        match issue(&mut *node.lanes[0], token) {
            Ok(Issued::Done) => return,
            Ok(Issued::Pending) => break,
            Err(LaneError::Again) => {
                node.poll();
            }
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < LIMIT, "issuing took too long");
    }
    loop {
        node.poll();
        if let Some(result) = node.sinks[0].completed.remove(&token.0) {
            return result.unwrap();
        }
        assert!(start.elapsed() < LIMIT, "completing took too long");
        std::thread::yield_now();
    }
}

fn drive(node: &mut Node, key: RemoteKey) {
    let mut random = Random::new();
    let most = node.transport.limits().max_payload;
    let mut counts = [0_u64; LANES as usize];
    let mut sums = [0_u64; LANES as usize];

    // Order and content of 10,000 messages over all lanes.
    for _ in 0..10_000 {
        let lane = random.below(LANES.into());
        let len = random.length(most);
        let payload = random.bytes(len);
        sums[lane] = checksum(sums[lane], counts[lane], &payload);
        send(node, lane, SERVER, [NUMBERED, counts[lane], 0], &payload);
        counts[lane] += 1;
    }
    for lane in 0..LANES as usize {
        assert_eq!(report(node, lane), (counts[lane], sums[lane]));
    }

    // The server sleeps: what is accepted is bounded, and nothing is lost.
    send(node, 0, SERVER, [SLEEP, 700, 0], &[]);
    let payload = random.bytes(most);
    let start = Instant::now();
    let (mut again, mut accepted) = (0_u64, 0);
    while start.elapsed() < Duration::from_millis(600) {
        let header = Header([NUMBERED, counts[0], 0]);
        match node.lanes[0].send(SERVER, 0, &header, &payload) {
            Ok(()) => {
                sums[0] = checksum(sums[0], counts[0], &payload);
                counts[0] += 1;
                accepted += 1;
            }
            Err(LaneError::Again) => {
                again += 1;
                node.poll();
            }
            Err(error) => panic!("{error}"),
        }
    }
    eprintln!("back-pressure: {accepted} messages accepted, {again} refusals");
    assert!(again > 0 && accepted < 5000);
    assert_eq!(report(node, 0), (counts[0], sums[0]));

    // Remote memory.
    for len in [0, 1, 13, 4095, 5000, 300_001, 8 << 20] {
        let offset = random.below(63);
        let remote = RemoteAddr {
            key,
            offset: offset as u64,
        };
        let data = random.bytes(len + 8);
        let shift = random.below(7);
        // SAFETY: `data` lives until completion.
        finish(node, |lane, token| unsafe {
            lane.put(SERVER, 0, data.as_ptr().add(shift), len, remote, token)
        });
        finish(node, |lane, token| lane.flush(SERVER, token));
        let mut back = vec![0_u8; len + 8];
        let place = back.as_mut_ptr();
        // SAFETY: `back` lives until completion.
        finish(node, |lane, token| unsafe {
            lane.get(SERVER, 0, place.add(3), len, remote, token)
        });
        assert!(
            back[3..3 + len] == data[shift..shift + len],
            "{len} bytes at {offset}"
        );
    }

    // Atomics.
    let remote = RemoteAddr { key, offset: 64 };
    let mut atomic = |op, operand, compare| {
        let mut found = 0_u64;
        let place = &raw mut found;
        // SAFETY: `found` lives until completion.
        finish(node, |lane, token| unsafe {
            lane.atomic(SERVER, 0, op, operand, compare, place, remote, token)
        });
        found
    };
    atomic(AtomicOp::Swap, 100, 0);
    for i in 0..200 {
        assert_eq!(atomic(AtomicOp::Add, 2, 0), 100 + 2 * i);
    }
    assert_eq!(atomic(AtomicOp::CompareSwap, 1, 500), 500);
    assert_eq!(atomic(AtomicOp::Load, 0, 0), 1);

    send(node, 0, SERVER, [LEAVE, 0, 0], &[]);
    let start = Instant::now();
    while !node.lanes.iter_mut().all(|lane| lane.drained()) {
        node.poll();
        assert!(start.elapsed() < LIMIT, "not drained");
    }
    say("passed");
}

/// Sends until the peer is lost.
fn await_death(node: &mut Node) {
    report(node, 0);
    report(node, 1);
    say("connected");
    let start = Instant::now();
    let limit = Duration::from_secs(15);
    let payload = [1; 900];
    let mut seq = 0_u64;
    let why = loop {
        assert!(
            start.elapsed() < limit,
            "the death was not noticed in {limit:?}"
        );
        match node.lanes[0].send(SERVER, 0, &Header([NUMBERED, seq, 0]), &payload) {
            Ok(()) => seq += 1,
            Err(LaneError::Again) => {}
            Err(LaneError::PeerLost(lost)) => {
                let netmod::Lost { peer, why } = *lost;
                assert_eq!(peer, SERVER);
                break why;
            }
            Err(error) => panic!("{error}"),
        }
        node.poll();
        if let Some((peer, why)) = node.sinks[0].lost.pop() {
            assert_eq!(peer, SERVER);
            break why;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    eprintln!("noticed after {:?}: {why}", start.elapsed());
    assert!(why.contains("process 1"), "{why}");
    // A lane that only now turns to the dead process learns it too.
    let start = Instant::now();
    loop {
        match node.lanes[2].send(SERVER, 2, &Header([NUMBERED, 0, 0]), &payload) {
            Err(LaneError::PeerLost(lost)) if lost.peer == SERVER => break,
            Ok(()) | Err(LaneError::Again) => {}
            Err(error) => panic!("{error}"),
        }
        node.poll();
        if node.sinks[2].lost.pop().is_some() {
            break;
        }
        assert!(
            start.elapsed() < limit,
            "lane 2 did not notice in {limit:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    eprintln!("lane 2 noticed after {:?}", start.elapsed());
    say("passed");
}

/// Gets and puts until the peer is lost; everything that was issued must complete.
fn access_until_death(node: &mut Node, key: RemoteKey) {
    report(node, 0);
    say("connected");
    let start = Instant::now();
    let limit = Duration::from_secs(15);
    let len = 1 << 20;
    let mut local = vec![0_u8; 8 * len];
    let base = local.as_mut_ptr();
    let mut pending = Vec::new();
    let mut lost = false;
    let mut done = 0;
    while !lost || !pending.is_empty() {
        assert!(
            start.elapsed() < limit,
            "lost: {lost}, {} of {} operations are still pending after {limit:?}",
            pending.len(),
            pending.len() + done
        );
        if !lost && pending.len() < 8 {
            let token = node.token();
            let place = 2 * (token.0 as usize % 4);
            let lane = &mut node.lanes[0];
            // SAFETY: `local` is alive until all has completed; what overlaps is not looked at.
            let issued = unsafe {
                let place = base.add(place * len);
                let remote = RemoteAddr { key, offset: 0 };
                match token.0 % 3 {
                    0 => lane.get(SERVER, 0, place, len, remote, token),
                    1 => lane.put(SERVER, 0, place, len, remote, token),
                    _ => lane.flush(SERVER, token),
                }
            };
            match issued {
                Ok(Issued::Pending) => pending.push(token.0),
                Ok(Issued::Done) | Err(LaneError::Again) => {}
                Err(LaneError::PeerLost(gone)) if gone.peer == SERVER => lost = true,
                Err(error) => panic!("{error}"),
            }
        }
        node.poll();
        lost |= node.sinks[0].lost.pop().is_some();
        let completed = &mut node.sinks[0].completed;
        pending.retain(|token| match completed.remove(token) {
            Some(Ok(())) => {
                done += 1;
                false
            }
            Some(Err(LaneError::PeerLost(gone))) if gone.peer == SERVER => {
                done += 1;
                lost = true;
                false
            }
            Some(Err(error)) => panic!("{error}"),
            None => true,
        });
    }
    eprintln!(
        "all {done} operations are complete after {:?}",
        start.elapsed()
    );
    say("passed");
}

/// Waits for the answer of a process that has stopped polling and is killed.
fn await_answer(node: &mut Node, key: RemoteKey) {
    report(node, 0);
    send(node, 0, SERVER, [SLEEP, 60_000, 0], &[]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        node.poll();
    }
    let mut found = 0;
    let place = &raw mut found;
    let token = node.token();
    let remote = RemoteAddr { key, offset: 0 };
    // SAFETY: `found` is alive until the completion, which is awaited.
    let issued = unsafe {
        node.lanes[0]
            .atomic(SERVER, 0, AtomicOp::Add, 1, 0, place, remote, token)
            .unwrap()
    };
    assert_eq!(issued, Issued::Pending);
    let poll_for = |node: &mut Node, limit: Duration| {
        let start = Instant::now();
        while start.elapsed() < limit {
            node.poll();
            if let Some(result) = node.sinks[0].completed.remove(&token.0) {
                return Some((result, start.elapsed()));
            }
            std::thread::yield_now();
        }
        None
    };
    // While it sleeps it is asked, and it is there.
    assert_eq!(poll_for(node, Duration::from_secs(1)), None);
    say("connected");
    let (result, after) = poll_for(node, Duration::from_secs(15)).expect("no completion");
    eprintln!("noticed after {after:?}: {result:?}");
    assert!(matches!(result, Err(LaneError::PeerLost(lost)) if lost.peer == SERVER));
    assert!(!node.sinks[0].lost.is_empty());
    say("passed");
}
