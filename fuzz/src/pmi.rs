//! Targets: both ends of PMI-1 and PMI-2, and the texts that launchers pass to ranks.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pmi::server::{Action, Server};
use pmi::{Client, Command, Spawn, Version, mapping, text, wire, wire2, words};

use crate::Input;

/// Ranks of the fuzzed job.
const RANKS: usize = 3;

/// Runs a launcher's server on the bytes of several ranks.
pub fn server(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    let mut server = Server::new("kvs", &[0, 0, 1]);
    server.preset("PMI_process_mapping", "(vector,(0,1,3))");
    server.set_universe((flags & 1 != 0).then_some(7));
    if flags & 2 != 0 {
        server.ask_for_names();
    }
    if flags & 4 != 0 {
        server = server.below();
    }
    let mut actions = Vec::new();
    while !input.is_empty() {
        let rank = usize::from(input.byte()) % (RANKS + 1);
        let piece = input.piece();
        match rank {
            RANKS => server.lose(piece.len() % RANKS, &mut actions),
            rank => server.receive(rank, piece, &mut actions),
        }
        for action in std::mem::take(&mut actions) {
            answer(&mut server, action, &mut actions);
        }
        actions.clear();
    }
    assert!(server.waiting() <= RANKS);
}

/// Performs an action of the server as a launcher does.
fn answer(server: &mut Server, action: Action, actions: &mut Vec<Action>) {
    match action {
        Action::Send { rank, line } => {
            assert!(rank < RANKS);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
        Action::Spawn { rank, spawn } => {
            lines_of(&spawn);
            server.spawned(rank, Err("no\nslots"), actions);
        }
        Action::Fence { pairs } => server.release(pairs, actions),
        Action::Still { rank, seconds } => server.report_wanted(rank, seconds > 3, actions),
        Action::SpawnEnd { rank, number } => {
            let why = (!number.is_empty()).then_some(&*number);
            server.spawn_end(rank, why, actions);
        }
        Action::Abort { .. } | Action::Ask { .. } | Action::Up { .. } => {}
        Action::Violation { detail, .. } => assert!(!detail.is_empty()),
    }
}

/// Writes a job in both protocols and checks that the launcher reads the same job.
fn lines_of(spawn: &Spawn) {
    let _ = spawn.to_fields();
    let _ = spawn.to_lines(false);
    let Ok(lines) = spawn.to_lines(true) else {
        return;
    };
    let mut server = Server::new("again", &[0]);
    let mut actions = Vec::new();
    server.receive(0, &lines, &mut actions);
    let again = actions.into_iter().find_map(|action| match action {
        Action::Spawn { spawn, .. } => Some(spawn),
        _ => None,
    });
    let again = again.expect("a job that was read can be written and read again");
    let counts =
        |spawn: &Spawn| -> Vec<usize> { spawn.commands.iter().map(|it| it.count).collect() };
    assert_eq!(counts(&again), counts(spawn));
}

/// Runs a rank's calls against a launcher whose answers are the input.
pub fn client(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    let (own, mut launcher) = UnixStream::pair().expect("a pair of sockets");
    // The answers must fit into the socket's buffer, since the client reads later.
    let answers = input.rest();
    let answers = &answers[..answers.len().min(64 << 10)];
    launcher
        .write_all(answers)
        .expect("space in the socket's buffer");
    launcher.shutdown(Shutdown::Write).expect("an open socket");
    let version = match flags & 1 {
        0 => Version::One,
        _ => Version::Two,
    };
    if let Ok(client) = Client::from_socket(own.into(), 1, 3, version) {
        calls(&client, flags);
    }
    launcher
        .set_read_timeout(Some(Duration::from_millis(1)))
        .expect("a time");
    let mut requests = Vec::new();
    let _ = launcher.read_to_end(&mut requests);
}

fn calls(client: &Client, flags: u8) {
    assert!(client.rank() < client.size());
    let _ = (client.describe(), client.kvs_name(), client.spawned());
    let _ = client.put("key", "value with blanks; and semicolons");
    let _ = client.fence();
    let _ = client.get(0, "key");
    if let Ok(Some(nodes)) = client.process_mapping() {
        assert_eq!(nodes.len(), client.size() as usize);
    }
    let _ = client.appnum();
    let _ = client.universe_size();
    if flags & 2 != 0 {
        let _ = client.publish("service", "port with blanks");
        let _ = client.lookup("service");
        let _ = client.unpublish("service");
    }
    if flags & 4 != 0 {
        let spawn = Spawn {
            commands: vec![Command {
                program: "a b".into(),
                args: vec!["x=1".into()],
                count: 2,
                info: vec![("wdir".into(), "/".into())],
            }],
            preput: vec![("port".into(), "p".into())],
        };
        let _ = client.spawn(&spawn);
        let _ = client.preput("port");
    }
    if flags & 8 != 0 {
        let _ = client.stands_still(9);
    }
    let _ = client.psets();
    if flags & 16 != 0 {
        let _ = client.abort(3, "line\nbreak");
    }
    let _ = client.finalize();
    let _ = client.get(0, "key");
}

/// Parses lines, messages, words and mappings, and checks that encoded bytes round-trip.
pub fn parsers(bytes: &[u8]) {
    let line = wire::Line::parse(bytes);
    let _ = (line.command(), line.text("value"), line.number::<i32>("rc"));
    let message = wire2::Message::parse(bytes);
    let _ = (
        message.command(),
        message.text("value"),
        message.is_true("found"),
    );
    let mut messages = wire2::Messages::default();
    for piece in bytes.chunks(7) {
        messages.push(piece);
        while let Ok(Some(message)) = messages.next_message() {
            assert!(message.len() <= bytes.len());
        }
    }
    let written = wire2::message_of("put", [("value", bytes)]);
    let read = wire2::Message::parse(&written[6..]);
    assert_eq!(read.bytes("value").as_deref(), Some(bytes));
    let kept = !bytes.iter().any(|byte| [b'\n', b'\r', 0].contains(byte));
    let escaped = [&b"cmd=put value="[..], &wire::escape(bytes)].concat();
    let read = wire::Line::parse(&escaped).bytes("value");
    assert!(read.as_deref() == Some(bytes) || !kept, "{escaped:?}");
    assert_eq!(
        text::percent_decode(text::percent_encode(bytes).as_bytes()).as_deref(),
        Some(bytes)
    );
    assert_eq!(text::decode(&text::encode(bytes)).as_deref(), Some(bytes));
    let word = String::from_utf8_lossy(bytes);
    assert_eq!(text::unprotect(&text::protect(&word)), word);
    let _ = (text::unprotect(&word), text::decode(&word));
    let word = std::ffi::OsStr::new(&*word);
    assert_eq!(words::unprotect(&words::protect(word)), word);
    if let Some(list) = words::decode(bytes) {
        let again = words::encode(list.iter().map(|word| word.as_os_str()));
        assert_eq!(words::decode(&again), Some(list));
    }
    for size in [0, 1, 100] {
        if let Some(nodes) = mapping::parse(&String::from_utf8_lossy(bytes), size) {
            assert!(nodes.len() == size || size == 0);
        }
    }
}

/// Detects the launcher from an environment.
pub fn environment(bytes: &[u8]) {
    let variables = crate::variables(bytes);
    let look = |name: &str| {
        let found = variables.iter().find(|one| one.0 == name)?;
        Some(found.1.clone())
    };
    if let Ok(pmi::Launch::Socket { rank, size, .. }) = pmi::detect(look) {
        assert!(rank < size);
    }
}
