//! Jobs whose machines are started by something else, each with the same command (`-join`).

mod support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use support::{Running, mpiexec, run, start};

/// A folder with a secret.
struct Place {
    dir: tempfile::TempDir,
    at: String,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        write(
            &dir.path().join("secret"),
            "0123456789abcdef0123456789abcdef",
            0o600,
        );
        // Free a moment ago, and most likely still.
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = port.local_addr().unwrap().to_string();
        Place { dir, at }
    }

    fn secret(&self) -> PathBuf {
        self.dir.path().join("secret")
    }

    /// The command of every machine of `size`.
    fn command(&self, size: usize, words: &[&str]) -> Command {
        let mut command = mpiexec();
        command.args(["-join", &self.at, "-size", &size.to_string(), "-secret"]);
        command.arg(self.secret()).args(words);
        command
    }

    fn start(&self, size: usize, index: usize, words: &[&str]) -> Running {
        let mut command = self.command(size, words);
        start(command.env("JOB_COMPLETION_INDEX", index.to_string()))
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

const SHOW: &[&str] = &[
    "sh",
    "-c",
    "echo $PMI_RANK/$PMI_SIZE index $JOB_COMPLETION_INDEX of $HERE",
];

#[test]
fn machines_that_start_in_any_order_become_one_job() {
    let place = Place::new();
    let words = [&["-ppn", "2"], SHOW].concat();
    let start = |index: usize| {
        let mut command = place.command(3, &words);
        command.env("JOB_COMPLETION_INDEX", index.to_string());
        support::start(command.env("HERE", index.to_string()))
    };
    let [two, zero, one] = [2, 0, 1].map(|index| {
        let running = start(index);
        thread::sleep(Duration::from_millis(300));
        running
    });
    let outcome = zero.finish();
    let lines = outcome.expect(0).sorted();
    // Each rank has the environment of its machine.
    let expected = ["0", "0", "1", "1", "2", "2"].iter().enumerate();
    let expected: Vec<String> = expected
        .map(|(rank, here)| format!("{rank}/6 index {here} of {here}"))
        .collect();
    assert_eq!(lines, expected);
    for other in [one, two] {
        let outcome = other.finish();
        assert_eq!(outcome.expect(0).out, "");
    }
}

#[test]
fn numbers_are_given_out_to_machines_without_one() {
    let place = Place::new();
    let words = ["sh", "-c", "echo $PMI_RANK/$PMI_SIZE"];
    let all = [(); 3].map(|()| start(&mut place.command(3, &words)));
    let outcomes = all.map(Running::finish);
    let mut out: Vec<&str> = outcomes
        .iter()
        .flat_map(|one| one.expect(0).sorted())
        .collect();
    out.sort_unstable();
    assert_eq!(out, ["0/3", "1/3", "2/3"]);
}

#[test]
fn other_variables_and_the_option_name_the_index() {
    for name in ["SLURM_PROCID", "PALS_RANKID", ""] {
        let place = Place::new();
        let start = |index: &str| {
            let mut command = place.command(2, &[]);
            match name {
                "" => command.args(["-index", index]).env("SLURM_PROCID", "7"),
                name => command.env(name, index),
            };
            start(command.args(["sh", "-c", "echo $PMI_RANK"]))
        };
        let (one, zero) = (start("1"), start("0"));
        assert_eq!(zero.finish().expect(0).sorted(), ["0", "1"]);
        one.finish().expect(0);
    }
}

#[test]
fn the_file_may_be_named_by_a_variable() {
    let place = Place::new();
    let mut command = mpiexec();
    command.args(["-join", &place.at, "-size", "1", "-index", "0", "echo", "x"]);
    let outcome = start(command.env("MPIEXEC_SECRET_FILE", place.secret())).finish();
    assert_eq!(outcome.expect(0).out, "x\n");
}

#[test]
fn a_machine_that_does_not_come_ends_the_wait() {
    let place = Place::new();
    let words = ["-bootstrap-timeout", "11", "true"];
    let one = place.start(4, 1, &words);
    let outcome = place.start(4, 0, &words).finish();
    outcome
        .expect(1)
        .says("waiting for index 2 of 4")
        .says("waiting for index 3 of 4")
        .says("2 of 4 machines have not joined within 11 seconds: index 2, 3");
    one.finish().expect(1).says("the first machine (index 0)");
    let one = place.start(4, 1, &["-bootstrap-timeout", "1", "true"]);
    one.finish()
        .expect(1)
        .says("can't be joined within 1 seconds")
        .says(&place.at);
}

#[test]
fn strangers_and_doubles_are_refused() {
    let place = Place::new();
    let words = ["-bootstrap-timeout", "20", "echo", "x"];
    let zero = place.start(3, 0, &words);
    // Whoever does not know the secret does not come in.
    let other = place.dir.path().join("other");
    write(&other, "another secret of enough bytes", 0o600);
    let mut stranger = mpiexec();
    stranger.args([
        "-join",
        &place.at,
        "-size",
        "3",
        "-index",
        "1",
        "-bootstrap-timeout",
        "2",
    ]);
    let stranger = start(stranger.arg("-secret").arg(&other).arg("true"));
    stranger.finish().expect(1).says("has another secret");
    let one = place.start(3, 1, &words);
    thread::sleep(Duration::from_millis(500));
    let double = place.start(3, 1, &words).finish();
    double.expect(1).says("index 1 has joined already");
    let other = place.start(4, 2, &words).finish();
    other
        .expect(1)
        .says("-size is 3 at the first machine, and 4 here");
    let two = place.start(3, 2, &words);
    assert_eq!(zero.finish().expect(0).out, "x\nx\nx\n");
    one.finish().expect(0);
    two.finish().expect(0);
}

#[test]
fn a_machine_that_restarts_before_the_job_begins_joins_again() {
    let place = Place::new();
    let words = ["echo", "x"];
    let zero = place.start(3, 0, &words);
    let one = place.start(3, 1, &words);
    thread::sleep(Duration::from_millis(700));
    one.signal("TERM");
    one.finish().expect(143);
    thread::sleep(Duration::from_millis(300));
    let others = [1, 2].map(|index| place.start(3, index, &words));
    let outcome = zero.finish();
    assert_eq!(outcome.expect(0).out, "x\nx\nx\n");
    outcome.says("index 1 of 3 has left");
    for other in others {
        other.finish().expect(0);
    }
}

#[test]
fn an_end_reaches_all_machines() {
    let place = Place::new();
    let script = "test $PMI_RANK = 1 && exit 7; sleep 50";
    let words = ["sh", "-c", script];
    let all = [0, 1, 2].map(|index| place.start(3, index, &words));
    let [zero, one, two] = all.map(Running::finish);
    zero.expect(7).says("rank 1");
    assert!(zero.took < Duration::from_secs(20));
    one.expect(0);
    two.expect(0);
    // A machine that is lost ends the job.
    let place = Place::new();
    let words = ["sh", "-c", "echo up; sleep 50"];
    let [zero, one] = [0, 1].map(|index| place.start(2, index, &words));
    thread::sleep(Duration::from_millis(1500));
    one.signal("KILL");
    zero.finish()
        .expect(1)
        .says("the agent on host")
        .says("is lost");
    drop(one);
}

#[test]
fn wrong_uses_are_explained() {
    let place = Place::new();
    let secret = place.secret().display().to_string();
    for (words, expected) in [
        (&["-join", "h:1", "true"][..], "-join needs -size N"),
        (&["-size", "2", "true"], "-size has no use without -join"),
        (&["-index", "2", "true"], "-index has no use without -join"),
        (
            &["-secret", "f", "true"],
            "-secret has no use without -join",
        ),
        (
            &["-join", "h", "-size", "2", "true"],
            "'h' is not HOST:PORT",
        ),
        (
            &["-join", "h:0", "-size", "2", "true"],
            "'h:0' is not HOST:PORT",
        ),
        (
            &["-join", "h:1", "-size", "2", "-index", "2", "true"],
            "-index is 2; with -size 2",
        ),
        (
            &["-join", "h:1", "-size", "2", "-hosts", "a", "true"],
            "-join and hosts",
        ),
        (
            &["-join", "h:1", "-size", "2", "true"],
            "-join needs a secret",
        ),
        (
            &[
                "-join",
                "127.0.0.1:1",
                "-size",
                "3",
                "-index",
                "0",
                "-secret",
                &secret,
                "-n",
                "2",
                "true",
            ],
            "2 ranks leave 1 of 3 machines without one",
        ),
    ] {
        run(words).expect(2).says(expected);
    }
    write(&place.secret(), "0123456789abcdef", 0o644);
    let words = ["-join", "h:1", "-size", "2", "-secret", &secret, "true"];
    run(&words)
        .expect(2)
        .says("can be read or changed by others");
    // A secret of Kubernetes belongs to root and to the group of the pod.
    write(&place.secret(), "0123456789abcdef", 0o440);
    let words = [
        "-join", &place.at, "-size", "1", "-index", "0", "-secret", &secret, "true",
    ];
    run(&words).expect(0);
    let mut command = place.command(2, &["true"]);
    let outcome = start(command.env("JOB_COMPLETION_INDEX", "x")).finish();
    outcome.expect(2).says("JOB_COMPLETION_INDEX is 'x'");
}
