//! Tests the client against the server over socket pairs, without a launcher.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use pmi::server::{Action, Server, Stage};
use pmi::{Client, PmiError, Version};

/// Time limit of each step.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs `program` as each of `size` ranks, served by a server. Returns the server's reports.
fn job(
    size: u32,
    preset: &[(&str, &str)],
    program: impl Fn(Client) + Send + Sync + Clone + 'static,
) -> Vec<Action> {
    let mut server = Server::new("kvs_test", &vec![7; size as usize]);
    for (key, value) in preset {
        server.preset(key, value);
    }
    let (to_server, from_ranks) = channel();
    let mut sockets = Vec::new();
    let mut ranks = Vec::new();
    for rank in 0..size {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(LIMIT)).unwrap();
        let mut reader = ours.try_clone().unwrap();
        let to_server = to_server.clone();
        thread::spawn(move || {
            // One byte at a time, since lines may arrive in parts.
            let mut byte = [0];
            while let Ok(1) = reader.read(&mut byte) {
                if to_server.send((rank as usize, byte[0])).is_err() {
                    break;
                }
            }
        });
        sockets.push(ours);
        let program = program.clone();
        ranks.push(thread::spawn(move || {
            program(Client::from_socket(OwnedFd::from(theirs), rank, size, Version::One).unwrap());
        }));
    }
    drop(to_server);
    let serving = thread::spawn(move || serve(server, sockets, &from_ranks));
    for rank in ranks {
        rank.join().unwrap();
    }
    serving.join().unwrap()
}

fn serve(
    mut server: Server,
    mut sockets: Vec<UnixStream>,
    from_ranks: &Receiver<(usize, u8)>,
) -> Vec<Action> {
    let mut reported = Vec::new();
    while let Ok((rank, byte)) = from_ranks.recv_timeout(LIMIT) {
        let mut actions = Vec::new();
        server.receive(rank, &[byte], &mut actions);
        for action in actions {
            match action {
                Action::Send { rank, line } => {
                    // In two pieces, since answers may arrive in parts, too.
                    let (head, tail) = line.split_at(line.len() / 2);
                    sockets[rank].write_all(head).unwrap();
                    thread::yield_now();
                    sockets[rank].write_all(tail).unwrap();
                }
                other => {
                    // A launcher would end the ranks; here they lose their sockets.
                    for socket in &sockets {
                        socket.shutdown(Shutdown::Both).unwrap();
                    }
                    reported.push(other);
                }
            }
        }
    }
    reported
}

#[test]
fn addresses_are_exchanged() {
    let reported = job(
        4,
        &[("PMI_process_mapping", "(vector,(0,2,2))")],
        |client| {
            assert!(client.is_launched());
            assert_eq!(client.size(), 4);
            assert_eq!(client.kvs_name(), "kvs_test");
            assert_eq!(client.appnum().unwrap(), Some(7));
            assert_eq!(client.universe_size().unwrap(), Some(4));
            let value = |rank| format!("rank {rank}: a=b;c\n\t\\ é %20 \"x\"");
            let rank = client.rank();
            client.put(&format!("addr-{rank}"), &value(rank)).unwrap();
            client.fence().unwrap();
            for other in 0..4 {
                let got = client.get(other, &format!("addr-{other}")).unwrap();
                assert_eq!(got, Some(value(other)));
            }
            assert_eq!(client.get(0, "addr-4").unwrap(), None);
            assert_eq!(
                client.process_mapping().unwrap(),
                Some(vec![0, 0, 1, 1]),
                "a preset value"
            );
            client.fence().unwrap();
            client.finalize().unwrap();
            client.finalize().unwrap();
            let late = client.get(3, "addr-3").unwrap();
            assert_eq!(late, Some(value(3)), "for sessions after MPI_Finalize");
            assert!(matches!(client.fence(), Err(PmiError::Over(_))));
            assert!(matches!(client.put("x", "y"), Err(PmiError::Over(_))));
        },
    );
    assert_eq!(reported, []);
}

#[test]
fn names_are_published_looked_up_and_withdrawn() {
    job(2, &[], |client| {
        let service = "my service = odd\nname";
        if client.rank() == 0 {
            client.publish(service, "port with blanks").unwrap();
            let again = client.publish(service, "other").unwrap_err();
            assert!(matches!(again, PmiError::Refused { .. }), "{again}");
        }
        client.fence().unwrap();
        let port = client.lookup(service).unwrap();
        assert_eq!(port.as_deref(), Some("port with blanks"));
        assert_eq!(client.lookup("unknown").unwrap(), None);
        client.fence().unwrap();
        if client.rank() == 1 {
            client.unpublish(service).unwrap();
            assert!(client.unpublish(service).is_err());
            assert_eq!(client.lookup(service).unwrap(), None);
        }
    });
}

#[test]
fn many_threads_share_one_client() {
    job(2, &[], |client| {
        let rank = client.rank();
        thread::scope(|scope| {
            for thread in 0..8 {
                let client = &client;
                scope.spawn(move || {
                    for i in 0..20 {
                        let key = format!("{rank}-{thread}-{i}");
                        client.put(&key, &key).unwrap();
                        assert_eq!(client.get(0, &key).unwrap(), Some(key));
                    }
                });
            }
        });
    });
}

#[test]
fn abort_passes_a_thread_that_waits() {
    let reported = job(2, &[], |client| {
        if client.rank() == 1 {
            // Rank 0 waits for this rank in a fence, and never gets an answer.
            return;
        }
        thread::scope(|scope| {
            scope.spawn(|| assert!(client.fence().is_err()));
            thread::sleep(Duration::from_millis(50));
            client.abort(3, "out of\nluck \\o/").unwrap();
        });
    });
    assert_eq!(
        reported,
        [Action::Abort {
            rank: 0,
            code: 3,
            ranks: String::new(),
            message: "out of luck \\o/".to_owned()
        }]
    );
}

#[test]
fn keys_and_values_that_do_not_fit_are_refused() {
    job(1, &[], |client| {
        let limits = client.limits();
        client.put("k", &"v".repeat(limits.value - 1)).unwrap();
        client.put(&"k".repeat(limits.key - 1), "v").unwrap();
        for (key, value) in [
            ("k", "v".repeat(limits.value)),
            // Each blank takes three characters.
            ("k", " ".repeat(limits.value / 2)),
            (&"k".repeat(limits.key), String::new()),
            ("", String::new()),
            ("a b", String::new()),
            ("a=b", String::new()),
            ("a\nb", String::new()),
        ] {
            let error = client.put(key, &value).unwrap_err();
            assert!(matches!(error, PmiError::Unfit(_)), "{error}");
        }
        assert!(client.publish("", "x").is_err());
        client.put("empty", "").unwrap();
        assert_eq!(client.get(0, "empty").unwrap().as_deref(), Some(""));
    });
}

#[test]
fn a_singleton_needs_no_launcher() {
    let client = Client::singleton();
    assert!(!client.is_launched() && !client.spawned());
    assert_eq!((client.rank(), client.size()), (0, 1));
    assert_eq!(client.appnum().unwrap(), None);
    assert_eq!(client.universe_size().unwrap(), None);
    assert_eq!(client.process_mapping().unwrap(), Some(vec![0]));
    client.put("k", "v w").unwrap();
    client.fence().unwrap();
    assert_eq!(client.get(0, "k").unwrap().as_deref(), Some("v w"));
    assert_eq!(client.get(0, "l").unwrap(), None);
    client.publish("s", "p").unwrap();
    assert!(client.publish("s", "p").is_err());
    assert_eq!(client.lookup("s").unwrap().as_deref(), Some("p"));
    client.unpublish("s").unwrap();
    assert!(client.unpublish("s").is_err());
    client.abort(1, "").unwrap();
    client.finalize().unwrap();
    client.finalize().unwrap();
    assert!(client.put("k", "v").is_err());
    assert!(client.fence().is_err());
}

/// Runs a launcher that answers each line with the next of `answers`, then hangs up.
fn scripted(answers: &'static [&'static str]) -> Result<Client, PmiError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    let serving = thread::spawn(move || answer_each(ours, answers));
    let client = Client::from_socket(OwnedFd::from(theirs), 0, 1, Version::One);
    serving.join().unwrap();
    client
}

fn answer_each(mut socket: UnixStream, answers: &[&str]) {
    let mut byte = [0];
    for answer in answers {
        while socket.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {}
        socket.write_all(answer.as_bytes()).unwrap();
    }
}

const START: [&str; 3] = [
    "rc=0 extra=x  cmd=response_to_init\n",
    "cmd=maxes vallen_max=32 keylen_max=8 rc=0\n",
    "kvsname=a\\ b cmd=my_kvsname\n",
];

#[test]
fn odd_but_correct_answers_are_understood() {
    let client = scripted(&START).unwrap();
    assert_eq!(client.kvs_name(), "a b");
    assert_eq!((client.limits().value, client.limits().key), (32, 8));
    assert_eq!(client.limits().kvs_name, 256, "absent: the usual");
    // The launcher has now hung up.
    let error = client.get(0, "k").unwrap_err();
    assert!(matches!(error, PmiError::Closed { .. }), "{error}");
    assert!(matches!(client.fence(), Err(PmiError::Over(_))));
}

#[test]
fn a_foreign_launcher_gets_no_request_after_finalize() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    // Hydra, too, hangs up at the end; this is not an error of the exchange.
    let serving = thread::spawn(move || {
        let answers = [START[0], START[1], START[2], "cmd=finalize_ack rc=0\n"];
        answer_each(ours, &answers);
    });
    let client = Client::from_socket(OwnedFd::from(theirs), 0, 1, Version::One).unwrap();
    client.finalize().unwrap();
    serving.join().unwrap();
    let error = client.get(0, "k").unwrap_err();
    assert!(matches!(error, PmiError::Over(_)), "{error}");
}

#[test]
fn refusals_and_malformed_answers_are_different_errors() {
    let error = scripted(&["cmd=response_to_init rc=-1 msg=no such version\n"]).unwrap_err();
    assert!(error.to_string().contains("no such version"), "{error}");
    let error = scripted(&["cmd=barrier_out\n"]).unwrap_err();
    assert!(error.to_string().contains("response_to_init"), "{error}");
    let error = scripted(&["cmd=response_to_init"]).unwrap_err();
    assert!(matches!(error, PmiError::Closed { .. }), "{error}");
    let error = scripted(&["\u{0}\n"]).unwrap_err();
    assert!(matches!(error, PmiError::Protocol { .. }), "{error}");
}

#[test]
fn rank_and_size_come_over_a_port() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        assert_eq!(line, b"cmd=initack pmiid=5");
        stream
            .write_all(b"cmd=initack rc=0\ncmd=set size=3\ncmd=set rank=2\ncmd=set debug=0\n")
            .unwrap();
        for answer in START {
            while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {}
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    // The environment belongs to the process, so the client runs in another process: this test's
    // executable, running the test below.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_the_environment_says", "--nocapture"])
        .env("PMI_PORT", &address)
        .env("PMI_ID", "5")
        .env("WEFT_TEST_EXPECT", "2/3")
        .output()
        .unwrap();
    serving.join().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("rank 2/3"),
        "{text}"
    );
}

#[test]
fn as_the_environment_says() {
    let Ok(expected) = std::env::var("WEFT_TEST_EXPECT") else {
        return;
    };
    let client = Client::from_env().unwrap();
    println!("rank {}/{}", client.rank(), client.size());
    assert_eq!(format!("{}/{}", client.rank(), client.size()), expected);
}

#[test]
fn the_server_refuses_unsupported_requests() {
    let mut server = Server::new("k", &[0, 0]);
    let mut actions = Vec::new();
    let lines = b"mcmd=spawn\nnprocs=1\nexecname=a\ncmd=finalize\nendcmd\n";
    server.receive(0, lines, &mut actions);
    let [Action::Spawn { rank: 0, spawn }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (spawn.commands[0].program.to_str(), spawn.size()),
        (Some("a"), 1)
    );
    actions.clear();
    server.spawned(0, Err("no such program"), &mut actions);
    server.receive(0, b"mcmd=spawn\nnprocs=1\nendcmd\n", &mut actions);
    for action in &actions {
        let Action::Send { rank: 0, line } = action else {
            panic!("{actions:?}")
        };
        assert!(line.starts_with(b"cmd=spawn_result rc=1 "));
    }
    assert_eq!(server.stage(0), Stage::Silent);

    actions.clear();
    server.receive(1, b"GET / HTTP/1.1\r\n", &mut actions);
    assert!(matches!(actions[..], [Action::Violation { rank: 1, .. }]));

    actions.clear();
    server.receive(
        1,
        b"cmd=init pmi_version=2 pmi_subversion=0\n",
        &mut actions,
    );
    let [Action::Send { line, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert!(line.starts_with(b"cmd=response_to_init rc=-1"));
    assert_eq!(server.stage(1), Stage::Silent);
}

#[test]
fn the_error_for_a_missing_launcher_names_the_cause() {
    for (variables, part) in [
        (
            &[("PMI_FD", "987"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")][..],
            "PMI_FD is 987, but that descriptor is not open",
        ),
        // Port 1 of this machine is unused.
        (
            &[("PMI_PORT", "127.0.0.1:1"), ("PMI_ID", "0")],
            "nobody answers there",
        ),
        (&[("PMIX_RANK", "1")], "PMIX_RANK=1"),
    ] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "as_the_environment_says", "--nocapture"])
            .envs(variables.iter().copied())
            .env("WEFT_TEST_EXPECT", "0/1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(part), "{text}");
        assert!(
            text.contains("WEFT_SINGLETON") || text.contains("reachable"),
            "{text}"
        );
    }
}
