//! The name server: the rights of its clients, and the resources that strangers can use.

mod support;

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netmod_kit::admission::handshake::initiate;
use netmod_kit::admission::{Protocol, Role, Sealed, Secret};
use support::{Outcome, mpiexec, start};

/// The user of strangers.
const NOBODY: &str = "65534";
const PORT: &str = "a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5";

/// A server, ended when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server that may open `descriptors` files.
    fn start(descriptors: u32, args: &[&str]) -> Server {
        let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
        let own = mpiexec();
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(own.get_program());
        command.args(["-name-server", "0"]).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let port = line.trim_end().rsplit(' ').next().unwrap();
        let port = port.parse().unwrap_or_else(|_| panic!("it says '{line}'"));
        Server { child, port }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// A job of one rank that says lines of PMI-1 and prints the answers; of another user if that is wanted.
    fn job(&self, binary: &Path, is_stranger: bool, args: &[&str], lines: &[&str]) -> Outcome {
        Server::job_at(self.port, binary, is_stranger, args, lines)
    }

    /// The same, with a server at this port.
    fn job_at(
        port: u16,
        binary: &Path,
        is_stranger: bool,
        args: &[&str],
        lines: &[&str],
    ) -> Outcome {
        let mut script = String::new();
        for line in lines {
            script.push_str(&format!(
                "printf '%s\\n' '{line}' >&$PMI_FD; read -r answer <&$PMI_FD; printf '%s\\n' \"$answer\"\n"
            ));
        }
        let place = format!("127.0.0.1:{port}");
        let mut command = match is_stranger {
            false => Command::new(binary),
            true => {
                let mut command = Command::new("setpriv");
                let user = format!("--reuid={NOBODY}");
                command.args([&user, "--clear-groups", "--"]).arg(binary);
                command
            }
        };
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.args(["-nameserver", &place]).args(args);
        command.args(["-n", "1", "bash", "-c", &script]);
        start(command.stdin(Stdio::null()).current_dir("/")).finish()
    }

    /// KiB.
    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = fs::read_to_string(path).unwrap();
        4 * text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    }

    /// Clock ticks, of which there are 100 in a second.
    fn ticks(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split(' ').collect();
        fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap()
    }
}

/// The launcher where other users can run it.
fn for_all(dir: &Path) -> PathBuf {
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    let to = dir.join("mpiexec");
    fs::copy(mpiexec().get_program(), &to).unwrap();
    to
}

fn write_secret(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    let mut file = File::create(&path).unwrap();
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn publish(service: &str) -> String {
    format!("cmd=publish_name service={service} port=weft2/{PORT}/7/4711/10.0.0.1")
}

const LOOK_UP: &str = "cmd=lookup_name service=a";
const UNPUBLISH: &str = "cmd=unpublish_name service=a";

/// Jobs of one user on one host need no options. Another user gets addresses only, and errors that name the option.
#[test]
fn strangers_get_addresses_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let binary = for_all(dir.path());
    let server = Server::start(256, &[]);
    let is_root = rustix::process::geteuid().is_root();
    let said = server.job(&binary, false, &[], &[&publish("a"), LOOK_UP]);
    let whole = format!("port=weft2/{PORT}/7/4711/10.0.0.1");
    assert!(
        said.out.contains("rc=0") && said.out.contains(&whole),
        "{}",
        said.out
    );
    if !is_root {
        return;
    }
    let lines = [LOOK_UP, UNPUBLISH, &publish("a"), &publish("b")];
    let said = server.job(&binary, true, &[], &lines);
    let answers: Vec<&str> = said.out.lines().collect();
    assert_eq!(answers.len(), 4, "{}{}", said.out, said.err);
    assert!(
        answers[0].contains("port=weft2/-/7/4711/10.0.0.1"),
        "{}",
        answers[0]
    );
    for answer in &answers[1..] {
        assert!(
            answer.contains("rc=1") && answer.contains("-name-server-secret"),
            "{answer}"
        );
    }
    let said = server.job(&binary, false, &[], &[LOOK_UP]);
    assert!(said.out.contains(&whole), "{}", said.out);
    // The guest's questions could be asked by another program.
    let mut guest = server.connect();
    let zero = Secret::from_bytes([0; 32]);
    let keys = initiate(&mut guest, &PROTOCOL, b"g", &zero).unwrap();
    let mut sealed = Sealed::new(&keys, Role::Initiator, 8192);
    let mut frames = Vec::new();
    for line in [UNPUBLISH, &publish("c"), LOOK_UP] {
        sealed.seal(line.as_bytes(), &mut frames).unwrap();
    }
    guest.write_all(&frames).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let mut buffer = [0; 4096];
        let bytes = guest.read(&mut buffer).unwrap();
        assert!(bytes > 0, "{answers:?}");
        sealed.push(&buffer[..bytes]);
        while let Some(frame) = sealed.next_frame().unwrap() {
            answers.push(String::from_utf8(frame).unwrap());
        }
    }
    assert!(
        answers[0].contains("rc=1") && answers[1].contains("rc=1"),
        "{answers:?}"
    );
    assert!(
        answers[2].contains("weft2/-/") && !answers[2].contains(PORT),
        "{answers:?}"
    );
    // Nobody proves a secret that the server does not have.
    assert!(initiate(&mut server.connect(), &PROTOCOL, b"s", &zero).is_err());
}

const PROTOCOL: Protocol = Protocol::new(*b"WeftNam\x01", 1);

/// Users with the same secret can connect. Without it, or with another one, an error says what is missing.
#[test]
fn a_secret_joins_users() {
    let dir = tempfile::tempdir().unwrap();
    let binary = for_all(dir.path());
    let secret = write_secret(dir.path(), "own", "a secret of ours\n");
    let other = write_secret(dir.path(), "other", "another secret..\n");
    let server = Server::start(256, &["-name-server-secret", &secret]);
    let option = "-name-server-secret";
    let said = server.job(
        &binary,
        false,
        &[option, &secret],
        &[&publish("a"), LOOK_UP],
    );
    assert!(said.out.contains(PORT), "{}{}", said.out, said.err);
    let said = server.job(&binary, false, &[option, &other], &[LOOK_UP]);
    assert!(
        !said.status.success() && said.err.contains("another secret than"),
        "{}",
        said.err
    );
    let open = write_secret(dir.path(), "open", "a secret of ours\n");
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let said = server.job(&binary, false, &[option, &open], &[LOOK_UP]);
    assert!(
        !said.status.success() && said.err.contains("chmod 600"),
        "{}",
        said.err
    );
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let said = server.job(&binary, true, &[], &[LOOK_UP, UNPUBLISH]);
    assert!(
        said.out.contains("weft2/-/") && said.out.contains("does\\ not\\ know"),
        "{}",
        said.out
    );
    let copy = write_secret(dir.path(), "copy", "a secret of ours");
    let said = server.job(&binary, true, &[option, &copy], &[LOOK_UP]);
    assert!(
        said.err.contains("denied") || said.err.contains("another user"),
        "{}",
        said.err
    );
    std::os::unix::fs::chown(&copy, Some(65534), None).unwrap();
    let said = server.job(&binary, true, &[option, &copy], &[LOOK_UP, UNPUBLISH]);
    assert!(
        said.out.contains(PORT) && !said.out.contains("rc=1"),
        "{}{}",
        said.out,
        said.err
    );
    let plain = Server::start(256, &[]);
    let said = plain.job(&binary, false, &[option, &secret], &[LOOK_UP]);
    assert!(
        !said.status.success() && said.err.contains("has no secret"),
        "{}",
        said.err
    );
}

/// Idle connections, garbage, an endless line and guests that read nothing cost little and delay no other client.
#[test]
fn strangers_hold_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let binary = for_all(dir.path());
    let server = Server::start(48, &[]);
    let mut strangers: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    for (number, stranger) in strangers.iter_mut().enumerate() {
        stranger.set_nonblocking(true).unwrap();
        let _ = match number % 3 {
            0 => Ok(0),
            1 => stranger.write(b"WeftNam\x01s, and this is no hello"),
            _ => stranger.write(&[b'x'; 4096]),
        };
    }
    // 9 MiB without a line's end, to a guest's place and to one that has proved nothing.
    let endless = |mut stream: TcpStream| {
        stream
            .set_write_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = stream.set_nonblocking(false);
        for _ in 0..9 * 16 {
            if stream.write_all(&[b'x'; 65536]).is_err() {
                return;
            }
        }
    };
    endless(server.connect());
    let mut guest = server.connect();
    if initiate(&mut guest, &PROTOCOL, b"g", &Secret::from_bytes([0; 32])).is_ok() {
        endless(guest);
    }
    let began = Instant::now();
    let said = server.job(&binary, false, &[], &[&publish("a"), LOOK_UP]);
    assert!(said.out.contains(PORT), "{}{}", said.out, said.err);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert!(server.resident() < 24 << 10, "{} KiB", server.resident());
    // Those who stay connected and do nothing cost no time.
    let before = server.ticks();
    std::thread::sleep(Duration::from_secs(2));
    assert!(
        server.ticks() - before < 40,
        "{} ticks",
        server.ticks() - before
    );
    drop(strangers);
}

/// A launcher whose connections the server drops, as it may for those of strangers, connects again.
#[test]
fn dropped_launchers_connect_again() {
    let dir = tempfile::tempdir().unwrap();
    let binary = for_all(dir.path());
    let server = Server::start(256, &[]);
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let through_proxy = proxy.local_addr().unwrap().port();
    let there = server.port;
    let served = std::thread::spawn(move || {
        // Before its hello is read, and after.
        drop(proxy.accept().unwrap());
        let (mut second, _) = proxy.accept().unwrap();
        second.read_exact(&mut [0; 41]).unwrap();
        drop(second);
        let (mut client, _) = proxy.accept().unwrap();
        let mut server = TcpStream::connect(("127.0.0.1", there)).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || io::copy(&mut from, &mut to));
        let _ = io::copy(&mut server, &mut client);
    });
    let lines = [&publish("a")[..], LOOK_UP];
    let said = Server::job_at(through_proxy, &binary, false, &[], &lines);
    assert!(said.out.contains(PORT), "{}{}", said.out, said.err);
    served.join().unwrap();
}

/// The server refuses too many and too long names, and stays small.
#[test]
fn names_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let binary = for_all(dir.path());
    let server = Server::start(256, &[]);
    let script = "for i in $(seq 1 4100); do printf 'cmd=publish_name service=%s%01500d port=p%01500d\\n' $i 1 1 \
                  >&$PMI_FD; read -r answer <&$PMI_FD; done; printf '%s\\n' \"$answer\"";
    let place = format!("127.0.0.1:{}", server.port);
    let mut command = Command::new(&binary);
    command.args(["-nameserver", &place, "-n", "1", "bash", "-c", script]);
    let said = start(command.stdin(Stdio::null())).finish();
    assert!(
        said.out.contains("4096\\ names"),
        "{}{}",
        said.out,
        said.err
    );
    assert!(server.resident() < 32 << 10, "{} KiB", server.resident());
}
