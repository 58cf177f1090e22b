//! Jobs that ranks of another have asked for (`MPI_Comm_spawn`): each has a launcher of its own, this program
//! with options that are for it alone.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use pmi::wire::Lines;

use crate::options::{Inherit, Section};
use crate::system::{self, Pid, Setup, Signals};

/// The option that says so, always the first. Two descriptors follow: where to answer whether the job has been
/// started, and where names are published; -1 for none.
pub const SPAWNED: &str = "spawned-by";
/// A key and a value that the job's key-value space has from the beginning.
pub const PREPUT: &str = "preput";
/// The key of the port that the processes of a job spawned by Weft connect to.
const PARENT: &str = "weft-parent";

/// What a spawned job has been told.
#[derive(Debug)]
pub struct Spawned {
    status: RawFd,
    /// Where names are published.
    pub names: Option<RawFd>,
    /// Keys and values.
    pub preput: Vec<(String, String)>,
}

fn number(text: &OsStr) -> Option<RawFd> {
    text.to_str()?.parse().ok()
}

impl Spawned {
    /// Reads the two descriptors.
    pub fn read(
        value: &mut impl FnMut(&str) -> Result<OsString, String>,
    ) -> Result<Spawned, String> {
        let mut one = || number(&value("a descriptor")?).ok_or_else(|| "no descriptor".to_string());
        let status = one()?;
        let names = Some(one()?).filter(|fd| *fd >= 0);
        names.into_iter().chain([status]).for_each(system::keep);
        Ok(Spawned {
            status,
            names,
            preput: Vec::new(),
        })
    }

    /// Says whether the job has been started, or why not.
    pub fn answer(&self, failure: Option<&str>) {
        answer(self.status, failure);
    }

    /// Tells whoever waits for the job's processes to connect that there are none any more. If they have
    /// connected, nobody listens.
    pub fn tell_end(&self, why: &str) {
        let Some((_, port)) = self.preput.iter().find(|one| one.0 == PARENT) else {
            return;
        };
        let mut parts = port.split('/');
        let (Some(_), Some(secret), Some(_), Some(number)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        let byte = |at: usize| u8::from_str_radix(secret.get(at..at + 2)?, 16).ok();
        let secret: Option<Vec<u8>> = (0..16).map(|at| byte(2 * at)).collect();
        let (Some(secret), Ok(number)) = (secret, number.parse()) else {
            return;
        };
        let at = SocketAddr::from(([127, 0, 0, 1], number));
        if let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_millis(200)) {
            let text = format!("the spawned job has ended before it called MPI_Init: {why}");
            let cut = (0..=text.len().min(900)).rfind(|at| text.is_char_boundary(*at));
            let text = &text.as_bytes()[..cut.unwrap_or(0)];
            // Nobody else is to be told.
            let _ = stream.write_all(&[b"weftend1", &secret[..], text].concat());
        }
    }
}

fn answer(status: RawFd, failure: Option<&str>) {
    let text = failure.map_or("ok".to_owned(), |why| format!("no {why}"));
    // Who asked may be gone.
    let _ = system::write(status, text.as_bytes());
    system::hang_up(status);
}

/// Says why a spawned job can't be started, if this is one; returns whether it is.
pub fn refuse(args: &[OsString], why: &str) -> bool {
    let [first, status, ..] = args else {
        return false;
    };
    let is_spawned = first.to_str().and_then(|text| text.strip_prefix('-')) == Some(SPAWNED);
    match number(status) {
        Some(status) if is_spawned => answer(status, Some(why)),
        _ => return false,
    }
    true
}

/// A spawned job as its spawner's launcher sees it.
pub struct SpawnedJob {
    /// Its launcher, until that has ended.
    pub pid: Option<Pid>,
    names: Option<UnixStream>,
    lines: Lines,
}

impl SpawnedJob {
    /// Starts the launcher of a job, and waits for its word. `like` is the section of who asked.
    pub fn start(
        spawn: &pmi::Spawn,
        like: &Section,
        signals: &Signals,
    ) -> Result<SpawnedJob, String> {
        let failed =
            |error: std::io::Error| format!("the job's launcher can't be started: {error}");
        let (mut status, their_status) = UnixStream::pair().map_err(failed)?;
        let (names, their_names) = UnixStream::pair().map_err(failed)?;
        names.set_nonblocking(true).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .arg(format!("-{SPAWNED}"))
            .arg(their_status.as_raw_fd().to_string())
            .arg(their_names.as_raw_fd().to_string());
        for (key, value) in &spawn.preput {
            command.args(["-preput", key, value]);
        }
        for (number, one) in spawn.commands.iter().enumerate() {
            if number > 0 {
                command.arg(":");
            }
            command.args(arguments(one, like)?);
        }
        let inherited = [OwnedFd::from(their_status), OwnedFd::from(their_names)];
        let setup = Setup {
            inherit: inherited.iter().map(AsRawFd::as_raw_fd).collect(),
            cpus: Vec::new(),
            memory: None,
            files: None,
        };
        system::prepare(&mut command, signals, setup);
        let child = command.stdin(Stdio::null()).spawn().map_err(failed)?;
        drop(inherited);
        // It says one or the other, or ends.
        let mut word = String::new();
        let _ = status.read_to_string(&mut word);
        match word.strip_prefix("no ") {
            _ if word == "ok" => Ok(SpawnedJob {
                pid: Pid::try_from(child.id()).ok(),
                names: Some(names),
                lines: Lines::default(),
            }),
            Some(why) => Err(why.to_owned()),
            None => Err("the job's launcher has ended before it started anything".to_owned()),
        }
    }

    /// Where it asks for names.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.names.as_ref().map(UnixStream::as_raw_fd)
    }

    /// What it asks for.
    pub fn questions(&mut self) -> Vec<Vec<u8>> {
        let Some(names) = &mut self.names else {
            return Vec::new();
        };
        let mut buffer = [0; 4096];
        match names.read(&mut buffer) {
            Ok(0) => self.names = None,
            Ok(bytes) => self.lines.push(&buffer[..bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => self.names = None,
        }
        std::iter::from_fn(|| self.lines.next_line().map(<[u8]>::to_vec)).collect()
    }

    /// Answers it.
    pub fn answer(&mut self, line: &[u8]) {
        // Answers are short: there is room for all that are awaited.
        if let Some(names) = &mut self.names
            && names.write_all(line).is_err()
        {
            self.names = None;
        }
    }
}

/// The options for a section of a spawned job.
fn arguments(command: &pmi::Command, like: &Section) -> Result<Vec<OsString>, String> {
    let mut args: Vec<OsString> = vec!["-n".into(), command.count.to_string().into()];
    match &like.inherit {
        Inherit::All => {}
        Inherit::None => args.push("-envnone".into()),
        Inherit::List(names) => {
            let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
            args.extend(["-envlist".into(), names.join(",").into()]);
        }
    }
    for (name, value) in &like.set {
        args.extend(["-env".into(), name.clone(), value.clone()]);
    }
    let info = |key: &str| command.info(key);
    if let Some(host) = info("host").or_else(|| info("hosts")) {
        args.extend(["-host".into(), host.into()]);
    }
    if let Some(file) = info("hostfile") {
        args.extend(["-hostfile".into(), file.into()]);
    }
    let wdir = info("wdir").or_else(|| info("wd"));
    match (wdir, &like.wdir) {
        (Some(dir), _) => args.extend(["-wdir".into(), dir.into()]),
        (None, Some(dir)) => args.extend(["-wdir".into(), dir.into()]),
        (None, None) => {}
    }
    let program = command.locate()?;
    args.push("--".into());
    args.push(program.into());
    args.extend(command.args.iter().map(OsString::from));
    if args.iter().any(|arg| arg == ":") {
        return Err("an argument ':' can't be passed on".to_owned());
    }
    Ok(args)
}
