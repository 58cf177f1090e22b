//! Cases with two processes, on one host or in two network namespaces: the parent's side.
//!
//! A case starts two children of its own executable, a driver and a server
//! ([`child`](super::child)), and passes their addresses between them. The driver does the checks.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::case::{Case, Claims, Need, always, has_get, wakes};
use super::child::{self, Scenario};
use super::namespaces::Namespaces;
use super::node::LIMIT;
use super::variant::{Topic, Variant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "everything_works_between_two_processes",
        Topic::Processes,
        always,
        |variant| run(variant, Scenario::Everything),
    ),
    Case::new(
        "sleepers_in_two_processes_are_woken",
        Topic::Processes,
        wakes,
        |variant| run(variant, Scenario::Sleepers),
    ),
    Case::new("a_killed_peer_is_noticed", Topic::Loss, always, |variant| {
        run(variant, Scenario::Death)
    }),
    Case::new(
        "a_peer_that_was_killed_before_the_first_contact_is_noticed",
        Topic::Loss,
        always,
        |variant| run(variant, Scenario::DeathBeforeContact),
    ),
    Case::new(
        "pending_accesses_to_a_killed_peer_complete",
        Topic::LossDuringAccess,
        has_get,
        |variant| run(variant, Scenario::DeathDuringAccess),
    ),
    Case::new(
        "a_waiter_for_a_killed_peer_is_notified",
        Topic::LossDuringAccess,
        answers_atomics,
        |variant| run(variant, Scenario::DeathOfSleeper),
    ),
    Case::new(
        "a_waiter_at_another_lane_is_notified",
        Topic::LossDuringAccess,
        answers_all,
        |variant| run(variant, Scenario::DeathOfSleeperElsewhere),
    ),
    Case::new(
        "an_idle_receiver_is_notified",
        Topic::Loss,
        always,
        |variant| run(variant, Scenario::DeathOfTalker),
    ),
    Case::new(
        "an_idle_receiver_at_another_lane_is_notified",
        Topic::Loss,
        always,
        |variant| run(variant, Scenario::DeathOfTalkerElsewhere),
    ),
    Case::new("a_pulled_cable_is_noticed", Topic::Loss, cuts, |variant| {
        run(variant, Scenario::PulledCable)
    }),
    Case::new(
        "everything_works_between_two_namespaces",
        Topic::Namespaces,
        always,
        |variant| run_in_namespaces(variant, Scenario::Everything),
    ),
    Case::new(
        "a_killed_peer_in_another_namespace_is_noticed",
        Topic::Namespaces,
        always,
        |variant| run_in_namespaces(variant, Scenario::Death),
    ),
];

/// Needs atomics that the target's process answers, so that an atomic on a dead target stays
/// pending.
fn answers_atomics(claims: &Claims) -> Need {
    let by_messages = |atomics: netmod::Atomics| !atomics.passive_target;
    claims.need(
        |limits| limits.atomics.is_some_and(by_messages),
        "no atomics by messages",
    )
}

fn answers_all(claims: &Claims) -> Need {
    answers_atomics(claims).and_then(|()| has_get(claims))
}

fn cuts(claims: &Claims) -> Need {
    claims.need(|_| claims.cut, "no cable to pull")
}

/// A child process, killed when the test ends or panics.
struct ChildProcess {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl ChildProcess {
    fn start(prefix: &[&str], role: &str, scenario: Scenario, variant: &Variant) -> ChildProcess {
        let exe = std::env::current_exe().unwrap();
        let mut words: Vec<&str> = prefix.to_vec();
        words.push(exe.to_str().unwrap());
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env(child::ROLE, role)
            .env(child::SCENARIO, scenario.name())
            .env(child::VARIANT, &variant.name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if !prefix.is_empty() {
            command.env(child::CABLE, "1");
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(text) = line.strip_prefix("WEFT ") {
                    let _ = send.send(text.to_string());
                }
            }
        });
        ChildProcess {
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
    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }
    /// Kills the child: `ip netns exec` replaces itself by it.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(variant: &Variant, scenario: Scenario) {
    run_with([&[], &[]], variant, scenario);
}

/// Runs a scenario. `prefix` goes in front of each command line.
fn run_with(prefix: [&[&str]; 2], variant: &Variant, scenario: Scenario) {
    let mut driver = ChildProcess::start(prefix[0], child::DRIVES, scenario, variant);
    let mut server = ChildProcess::start(prefix[1], child::SERVES, scenario, variant);
    let mut dead = false;
    let hello = driver.line("address");
    let answer = server.line("address");
    if scenario == Scenario::DeathBeforeContact {
        server.kill();
        dead = true;
    } else {
        server.send(&hello);
    }
    driver.send(&answer);
    if matches!(
        scenario,
        Scenario::DeathOfSleeper | Scenario::DeathOfSleeperElsewhere
    ) {
        assert_eq!(server.line("sleep"), child::ASLEEP);
        driver.send(child::ASLEEP);
    }
    let mut cut = None;
    match scenario {
        Scenario::Everything | Scenario::Sleepers | Scenario::DeathBeforeContact => {}
        Scenario::PulledCable => {
            assert_eq!(driver.line("start"), "connected");
            cut = variant.cut.map(|cut| cut());
            dead = true;
        }
        _ => {
            assert_eq!(driver.line("start"), "connected");
            server.kill();
            dead = true;
        }
    }
    assert_eq!(driver.line("result"), "passed");
    drop(cut);
    let status = driver.child.wait().unwrap();
    assert!(status.success(), "driver: {status}");
    if !dead {
        let status = server.child.wait().unwrap();
        assert!(status.success(), "server: {status}");
    }
}

fn run_in_namespaces(variant: &Variant, scenario: Scenario) {
    if !weft_needs::NAMESPACES.met() {
        return;
    }
    let namespaces = Namespaces::new().unwrap();
    let [a, b] = &namespaces.0;
    let prefix: [&[&str]; 2] = [
        &["ip", "netns", "exec", a.as_str()],
        &["ip", "netns", "exec", b.as_str()],
    ];
    run_with(prefix, variant, scenario);
}
