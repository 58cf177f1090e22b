//! The rank's side of PMI: put, get, fence and the rest, independent of the protocol.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::alone::Alone;
use crate::channel::Channel;
use crate::connection::Connection;
use crate::environment::{self, Launch, Version, detect};
use crate::limits::Limits;
use crate::link::Link;
use crate::pmi1::{self, Pmi1};
use crate::pmi2::Pmi2;
use crate::pmix::Pmix;
use crate::process_set::ProcessSet;
use crate::wire::Lines;
use crate::{PmiError, Spawn, text};

/// A rank's connection to its launcher. All methods may be called from any thread; over PMI-1 and
/// PMI-2 they take turns, so a thread that looks something up waits while another is in
/// [`Client::fence`].
#[derive(Debug)]
pub struct Client {
    rank: u32,
    size: u32,
    spawned: bool,
    launched: bool,
    limits: Limits,
    link: Box<dyn Link>,
    left: AtomicBool,
    appnum: OnceLock<Option<i32>>,
    universe_size: OnceLock<Option<u32>>,
    psets: OnceLock<Vec<ProcessSet>>,
}

impl Client {
    /// Connects to the launcher that the environment names: PMI-1 or PMI-2 by `PMI_FD`, or
    /// `PMI_PORT` with `PMI_ID`; PMIx by `PMIX_*`; without any launcher the process is rank 0 of 1.
    ///
    /// If the environment shows an unsupported launcher (see [`detect`]), or if the exchange with
    /// the launcher fails.
    pub fn from_env() -> Result<Client, PmiError> {
        Client::connect(|name| std::env::var_os(name))
    }

    /// Connects like [`Client::from_env`], with another lookup of variables.
    pub fn connect(variable: impl Fn(&str) -> Option<OsString>) -> Result<Client, PmiError> {
        let spawned = variable("PMI_SPAWNED").is_some_and(|v| !v.is_empty() && v != "0");
        match detect(&variable)? {
            Launch::Alone => Ok(Client::singleton()),
            Launch::Socket {
                fd,
                rank,
                size,
                version,
                job,
                or_pmix,
            } => match Connection::inherited(fd) {
                Ok(connection) => {
                    let how = format!("over the inherited socket {fd}");
                    let who = (rank, size, spawned);
                    Client::start(connection, Lines::default(), who, version, job, how)
                }
                // The socket belongs to an outer launcher, which started the PMIx server.
                Err(_) if or_pmix => Client::pmix(variable),
                Err(error) => Err(error),
            },
            Launch::Port { address, id } => {
                let connection = Connection::connect(&address)?;
                let mut lines = Lines::default();
                let (rank, size) = pmi1::introduce(&connection, &mut lines, id)?;
                let how = format!("at {address}");
                let who = (rank, size, spawned);
                Client::start(connection, lines, who, Version::One, None, how)
            }
            Launch::Pmix => Client::pmix(variable),
        }
    }

    /// Makes the client of a process without a launcher: rank 0 of 1, its keys in memory.
    pub fn singleton() -> Client {
        let mut client = Client::over(Box::new(Alone::default()), 0, 1, false);
        client.launched = false;
        client
    }

    /// Makes a client over a connected stream socket, as `rank` of `size`, with protocol `version`.
    pub fn from_socket(
        socket: OwnedFd,
        rank: u32,
        size: u32,
        version: Version,
    ) -> Result<Client, PmiError> {
        let connection = Connection::new(socket);
        let how = "over a socket".to_owned();
        let who = (rank, size, false);
        Client::start(connection, Lines::default(), who, version, None, how)
    }

    fn start(
        connection: Connection,
        lines: Lines,
        (rank, size, spawned): (u32, u32, bool),
        version: Version,
        job: Option<String>,
        how: String,
    ) -> Result<Client, PmiError> {
        let channel = Channel::new(connection, lines);
        let proposed = match version {
            Version::One => 1,
            Version::Two => 2,
        };
        let hello = pmi1::init(&channel, proposed)?;
        match hello.version {
            2 => {
                let (connection, _) = channel.into_parts();
                let (link, place) = Pmi2::begin(connection, rank, job.as_deref(), how)?;
                let spawned = spawned || place.spawned;
                Ok(Client::over(
                    Box::new(link),
                    place.rank,
                    place.size,
                    spawned,
                ))
            }
            1 if proposed == 2 => {
                let hello = pmi1::init(&channel, 1)?;
                let link = Pmi1::begin(channel, hello, how)?;
                Ok(Client::over(Box::new(link), rank, size, spawned))
            }
            1 => {
                let link = Pmi1::begin(channel, hello, how)?;
                Ok(Client::over(Box::new(link), rank, size, spawned))
            }
            other => Err(PmiError::Refused {
                command: "init",
                reason: format!("it speaks PMI version {other}; Weft supports 1 and 2"),
            }),
        }
    }

    fn pmix(variable: impl Fn(&str) -> Option<OsString>) -> Result<Client, PmiError> {
        let text = |name: &str| {
            let value = variable(name)?.to_string_lossy().into_owned();
            (!value.is_empty()).then_some(value)
        };
        let libraries = match text("WEFT_PMIX_LIBRARY") {
            Some(path) => vec![path],
            None => {
                let prefix = text("PMIX_INSTALL_PREFIX");
                let beside = prefix.map(|prefix| format!("{prefix}/lib/libpmix.so.2"));
                let system = Some("libpmix.so.2".to_owned());
                let own = environment::launchers_library("libpmix.so.2");
                [own, beside, system].into_iter().flatten().collect()
            }
        };
        let (link, place) = Pmix::start(&libraries)?;
        Ok(Client::over(
            Box::new(link),
            place.rank,
            place.size,
            place.spawned,
        ))
    }

    fn over(link: Box<dyn Link>, rank: u32, size: u32, spawned: bool) -> Client {
        Client {
            rank,
            size,
            spawned,
            launched: true,
            limits: link.limits(),
            link,
            left: AtomicBool::new(false),
            appnum: OnceLock::new(),
            universe_size: OnceLock::new(),
            psets: OnceLock::new(),
        }
    }

    /// Returns this process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of processes in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns whether there is a launcher; `false` means rank 0 of 1, started by hand.
    pub fn is_launched(&self) -> bool {
        self.launched
    }

    /// Describes the protocol and how the launcher was found.
    pub fn describe(&self) -> String {
        self.link.describe()
    }

    /// Returns whether this job was started by `MPI_Comm_spawn`.
    pub fn spawned(&self) -> bool {
        self.spawned
    }

    /// Returns the name of the job's key-value space, unique among the launcher's jobs.
    pub fn kvs_name(&self) -> &str {
        self.link.space()
    }

    /// Returns the longest names, keys and values.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the number of this process's command among those launched together (`MPI_APPNUM`),
    /// or `None` if the launcher does not say.
    pub fn appnum(&self) -> Result<Option<i32>, PmiError> {
        if let Some(&known) = self.appnum.get() {
            return Ok(known);
        }
        let appnum = self.link.appnum()?;
        Ok(*self.appnum.get_or_init(|| appnum))
    }

    /// Returns the number of processes that the launcher could run at a time (`MPI_UNIVERSE_SIZE`),
    /// or `None` if it does not say. A singleton asks no launcher.
    pub fn universe_size(&self) -> Result<Option<u32>, PmiError> {
        if let Some(&known) = self.universe_size.get() {
            return Ok(known);
        }
        let size = self.link.universe_size()?;
        Ok(*self.universe_size.get_or_init(|| size))
    }

    /// Returns the process sets of this job that the launcher names; only PMIx has any.
    ///
    /// # Errors
    /// After [`Client::finalize`], unless they were requested before.
    pub fn psets(&self) -> Result<&[ProcessSet], PmiError> {
        if let Some(known) = self.psets.get() {
            return Ok(known);
        }
        let found = self.link.psets()?;
        Ok(self.psets.get_or_init(|| found))
    }

    /// Puts a value under `key`; others see it after the next [`Client::fence`]. The value may be
    /// any text ([`text::protect`] is applied); bytes need [`text::encode`].
    ///
    /// # Errors
    /// If key or value is longer than [`Client::limits`] allows or the key is not a plain word.
    pub fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        let word = self.checked(key, value, "value")?;
        self.link.put(key, &word)
    }

    /// Returns the value that rank `from` put under `key`, or `None` if there is none. With PMI-1
    /// and PMI-2 the whole job has one space, and `from` is a hint.
    ///
    /// # Errors
    /// The launcher does not answer: after [`Client::finalize`] only Weft's own does.
    pub fn get(&self, from: u32, key: &str) -> Result<Option<String>, PmiError> {
        self.check_key(key, "key", self.limits.key)?;
        let word = self.link.get(from, key)?;
        Ok(word.map(|word| text::unprotect(&word).into_owned()))
    }

    /// Returns a value that was passed when this job was spawned ([`Spawn::preput`]).
    ///
    /// # Errors
    /// The launcher does not answer.
    pub fn preput(&self, key: &str) -> Result<Option<String>, PmiError> {
        let word = self.link.preput(key)?;
        Ok(word.map(|word| text::unprotect(&word).into_owned()))
    }

    /// Waits until all processes of the job have called this. Values put before are visible
    /// afterwards.
    pub fn fence(&self) -> Result<(), PmiError> {
        self.link.fence()
    }

    /// Publishes `port` under the name `service` (`MPI_Publish_name`).
    pub fn publish(&self, service: &str, port: &str) -> Result<(), PmiError> {
        self.check_value(port, "port")?;
        let name = self.service_name(service)?;
        self.link.publish(&name, &text::protect(port))
    }

    /// Withdraws the name `service` (`MPI_Unpublish_name`).
    pub fn unpublish(&self, service: &str) -> Result<(), PmiError> {
        self.link.unpublish(&self.service_name(service)?)
    }

    /// Returns the port published under the name `service`, or `None` if there is none
    /// (`MPI_Lookup_name`).
    pub fn lookup(&self, service: &str) -> Result<Option<String>, PmiError> {
        let port = self.link.lookup(&self.service_name(service)?)?;
        Ok(port.map(|port| text::unprotect(&port).into_owned()))
    }

    /// Makes the launcher start processes as a job of their own (`MPI_Comm_spawn`).
    ///
    /// # Errors
    /// They cannot be started, or this launcher starts none.
    pub fn spawn(&self, spawn: &Spawn) -> Result<(), PmiError> {
        self.link.spawn(spawn)
    }

    /// Asks Weft's own launcher why a job that this process spawned has ended, by the value of
    /// [`crate::server::SPAWN_NUMBER`] in its request. Returns `None` unless it ended before it
    /// connected.
    ///
    /// # Errors
    /// If the launcher does not answer.
    pub fn spawn_end(&self, number: &str) -> Result<Option<String>, PmiError> {
        self.link.spawn_end(number)
    }

    /// Reports to Weft's own launcher that this process has waited without progress for this time;
    /// other launchers get no report. Returns whether the process should report what it waits for.
    ///
    /// # Errors
    /// The launcher does not answer.
    pub fn stands_still(&self, seconds: u64) -> Result<bool, PmiError> {
        self.link.stands_still(seconds)
    }

    /// Requests the end of the whole job with exit code `code`. Does not wait for other threads'
    /// exchanges and returns when the request has been sent; the caller then exits.
    pub fn abort(&self, code: i32, message: &str) -> Result<(), PmiError> {
        let room = (self.limits.value / 2).min(512);
        let mut message = message;
        if message.len() > room {
            let end = (0..=room).rfind(|&i| message.is_char_boundary(i));
            message = &message[..end.unwrap_or(0)];
        }
        self.link.abort(code, message)
    }

    /// Requests the end of some ranks, in ascending order, with exit code `code`. A launcher that
    /// cannot end single ranks, or ends jobs that lose a rank, ends the job. The caller then exits.
    pub fn abort_some(&self, code: i32, ranks: &[u32]) -> Result<(), PmiError> {
        let text = crate::ranks::to_text(ranks);
        match text.len() > self.limits.value / 2 {
            true => self.link.abort(code, ""),
            false => self.link.abort_some(code, &text),
        }
    }

    /// Returns whether [`Client::abort_some`] ended a rank.
    pub fn is_aborted(&self, rank: u32) -> Result<bool, PmiError> {
        self.link.is_aborted(rank)
    }

    /// Takes leave of the launcher, which treats ending without it as a failure. Later calls are
    /// errors, except a second `finalize`, and [`Client::get`] with Weft's own launcher.
    pub fn finalize(&self) -> Result<(), PmiError> {
        self.link.finalize()?;
        self.left.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns whether [`Client::finalize`] has succeeded.
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Returns the node of each rank, numbered from 0 within the job, or `None` if the launcher
    /// does not say.
    pub fn process_mapping(&self) -> Result<Option<Vec<u32>>, PmiError> {
        self.link.nodes(self.size)
    }

    fn checked<'a>(&self, key: &str, value: &'a str, what: &str) -> Result<Cow<'a, str>, PmiError> {
        self.check_key(key, "key", self.limits.key)?;
        self.check_value(value, what)?;
        Ok(text::protect(value))
    }

    fn check_key(&self, key: &str, what: &str, limit: usize) -> Result<(), PmiError> {
        if key.len() >= limit {
            return Err(PmiError::Unfit(format!(
                "the {what} '{key}' has {} bytes; the launcher accepts at most {}",
                key.len(),
                limit - limit.min(1)
            )));
        }
        let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'=' | b';' | b'\\');
        if key.is_empty() || !key.bytes().all(plain) {
            return Err(PmiError::Unfit(format!(
                "'{}' is no {what}; it must be a word of ASCII characters without blanks and \
                 without '=', ';' or '\\'",
                key.escape_debug()
            )));
        }
        Ok(())
    }

    fn check_value(&self, value: &str, what: &str) -> Result<(), PmiError> {
        let length = text::protect(value).len();
        if length >= self.limits.value {
            return Err(PmiError::Unfit(format!(
                "the {what} takes {length} bytes; the launcher takes at most {}: split it over \
                 several keys",
                self.limits.value - self.limits.value.min(1)
            )));
        }
        Ok(())
    }

    /// Encodes a service name, which may be any text.
    fn service_name(&self, service: &str) -> Result<String, PmiError> {
        if service.is_empty() {
            return Err(PmiError::Unfit(
                "the service name is empty; give it at least one character".to_owned(),
            ));
        }
        self.check_value(service, "service name")?;
        Ok(text::protect(service).into_owned())
    }
}
