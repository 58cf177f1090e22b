//! Jobs that ranks of another have asked for (`MPI_Comm_spawn`): each has a launcher of its own, this program
//! with options that are for it alone.

mod arguments;
mod offspring;
mod pool;
mod started;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::RawFd;
use std::time::Duration;

use pmi::words;

use crate::hosts::place::Placement;
use crate::system;

pub use offspring::{Offspring, Whose};
pub use pool::{read_used, show, slots};

/// The option that says so, always the first and the only one on the command line, which every user can read. Two
/// descriptors follow: a socket from which all other options come and on which this program answers whether the job has
/// been started, and where names are published; -1 for none.
pub const SPAWNED: &str = "spawned-by";
/// A key and a value that the job's key-value space has from the beginning.
pub const PREPUT: &str = "preput";
/// Hosts as a file has them: for sections that name none.
pub const OFFER: &str = "spawn-offer";
/// For one section.
pub const OWN: &str = "spawn-hosts";
/// All that the job knows, with their slots.
pub const POOL: &str = "spawn-pool";
/// How many of these are taken by others: a host and a number in each line.
pub const USED: &str = "spawn-used";
/// The key of the port that the processes of a job spawned by Weft connect to.
const PARENT: &str = "weft-parent";
/// How long an address may take to answer.
const ANSWER: Duration = Duration::from_millis(200);

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

    /// Says that the job has been started, and where; `None` for this machine.
    pub fn started(&self, placement: Option<&Placement>) {
        let mut text = String::from("ok");
        if let Some(placement) = placement {
            for (host, ranks) in placement.hosts.iter().zip(placement.ranks()) {
                text.push_str(&format!("\n{} {}", host.name, ranks.len()));
            }
        }
        answer(self.status, &text);
    }

    /// Says why the job can't be started.
    pub fn failed(&self, why: &str) {
        answer(self.status, &format!("no {why}"));
    }

    /// Tells whoever waits for the job's processes to connect that there are none any more.
    pub fn tell_end(&self, why: &str) {
        tell_end(&self.preput, why);
    }
}

/// Tells whoever waits for the processes of a job with these keys to connect that there are none any more. If they
/// have connected, nobody listens.
fn tell_end(preput: &[(String, String)], why: &str) {
    let Some((_, port)) = preput.iter().find(|one| one.0 == PARENT) else {
        return;
    };
    let parts: Vec<&str> = port.split('/').collect();
    let [_, secret, _, number, addresses] = parts[..] else {
        return;
    };
    let byte = |at: usize| u8::from_str_radix(secret.get(at..at + 2)?, 16).ok();
    let secret: Option<Vec<u8>> = (0..16).map(|at| byte(2 * at)).collect();
    let (Some(secret), Ok(number)) = (secret, number.parse()) else {
        return;
    };
    let text = format!("the spawned job has ended before it called MPI_Init: {why}");
    let cut = (0..=text.len().min(900)).rfind(|at| text.is_char_boundary(*at));
    let text = &text.as_bytes()[..cut.unwrap_or(0)];
    // Who waits may be on another host.
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let others = addresses
        .split(',')
        .filter_map(|one| one.parse::<IpAddr>().ok());
    let others = others.filter(|address| !address.is_loopback());
    for address in std::iter::once(here).chain(others) {
        let at = SocketAddr::new(address, number);
        if let Ok(mut stream) = TcpStream::connect_timeout(&at, ANSWER) {
            // Nobody else is to be told.
            let _ = stream.write_all(&[b"weftend1", &secret[..], text].concat());
        }
    }
}

fn answer(status: RawFd, text: &str) {
    // Who asked may be gone.
    let _ = system::write(status, text.as_bytes());
    system::hang_up(status);
}

/// The descriptor on which a launcher with this command line answers, if its job was spawned.
fn status(args: &[OsString]) -> Option<RawFd> {
    let [first, status, ..] = args else {
        return None;
    };
    let is_spawned = first.to_str().and_then(|text| text.strip_prefix('-')) == Some(SPAWNED);
    number(status).filter(|_| is_spawned)
}

/// Says why a spawned job can't be started, if this is one; returns whether it is.
pub fn refuse(args: &[OsString], why: &str) -> bool {
    let status = status(args);
    if let Some(status) = status {
        answer(status, &format!("no {why}"));
    }
    status.is_some()
}

/// The command line with the options that a spawned job's launcher reads from its socket.
///
/// # Errors
/// The spawning process ended before it had written them all.
pub fn whole_line(args: &[OsString]) -> Result<Cow<'_, [OsString]>, String> {
    let Some(status) = status(args) else {
        return Ok(args.into());
    };
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        match system::read(status, &mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the spawned job's options can't be read: {error}")),
        }
    }
    let words = words::decode(&bytes);
    let words =
        words.ok_or("the spawned job's options are incomplete; who spawned it has ended")?;
    Ok([args, &words].concat().into())
}
