//! The rank's side.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::connection::Connection;
use crate::environment::{Launch, detect};
use crate::wire::{Line, Lines};
use crate::{PmiError, mapping, text, wire};

/// How long names, keys and values may be, in bytes, the terminator of a C string included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The name of the key-value space.
    pub kvs_name: usize,
    /// A key.
    pub key: usize,
    /// A value, after [`text::protect`] where that is needed.
    pub value: usize,
}

impl Default for Limits {
    /// The customary limits of PMI-1.
    fn default() -> Self {
        Limits {
            kvs_name: 256,
            key: 64,
            value: 1024,
        }
    }
}

/// A rank's connection to its launcher. All methods may be called from any thread; they take
/// turns, so a thread that looks something up waits while another is in [`Client::fence`].
#[derive(Debug)]
pub struct Client {
    rank: u32,
    size: u32,
    spawned: bool,
    kvs_name: String,
    limits: Limits,
    link: Link,
    appnum: OnceLock<Option<i32>>,
    universe_size: OnceLock<Option<u32>>,
}

#[derive(Debug)]
enum Link {
    Launcher {
        connection: Connection,
        /// Held by whoever waits for an answer.
        talk: Mutex<Talk>,
        /// Held while a line is being sent, so that abort can pass a thread that waits.
        sending: Mutex<()>,
    },
    Alone(Mutex<Memory>),
}

#[derive(Debug)]
struct Talk {
    lines: Lines,
    /// Why the exchange is over, if it is.
    over: Option<String>,
}

#[derive(Debug, Default)]
struct Memory {
    keys: HashMap<String, String>,
    names: HashMap<String, String>,
    finalized: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever a panicking thread left half done shows up as an error of the exchange.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Connects to the launcher that the environment names: `PMI_FD`, or `PMI_PORT` with `PMI_ID`;
    /// without any launcher the process is rank 0 of 1.
    ///
    /// # Errors
    /// If the environment shows a launcher that can't be talked to (see [`detect`]), or if
    /// the exchange with the launcher fails.
    pub fn from_env() -> Result<Client, PmiError> {
        let spawned = std::env::var_os("PMI_SPAWNED").is_some_and(|v| !v.is_empty() && v != "0");
        match detect(|name| std::env::var_os(name))? {
            Launch::Alone => Ok(Client::singleton()),
            Launch::Socket { fd, rank, size } => {
                Client::start(Connection::inherited(fd)?, rank, size, spawned)
            }
            Launch::Port { address, id } => {
                Client::introduce(Connection::connect(&address)?, id, spawned)
            }
        }
    }

    /// A process that nobody launched: rank 0 of 1, its keys in memory.
    pub fn singleton() -> Client {
        Client {
            rank: 0,
            size: 1,
            spawned: false,
            kvs_name: "singleton".to_owned(),
            limits: Limits::default(),
            link: Link::Alone(Mutex::default()),
            appnum: OnceLock::from(None),
            universe_size: OnceLock::from(None),
        }
    }

    /// A client over a connected stream socket, as `rank` of `size`.
    pub fn from_socket(socket: OwnedFd, rank: u32, size: u32) -> Result<Client, PmiError> {
        Client::start(Connection::new(socket), rank, size, false)
    }

    fn start(
        connection: Connection,
        rank: u32,
        size: u32,
        spawned: bool,
    ) -> Result<Client, PmiError> {
        Client::begin(connection, Lines::default(), rank, size, spawned)
    }

    /// The exchange at a port starts with our number, to which rank and size are the answer.
    fn introduce(connection: Connection, id: u32, spawned: bool) -> Result<Client, PmiError> {
        let command = "initack";
        connection.send(
            format!("cmd=initack pmiid={id}\n").as_bytes(),
            "introducing itself",
        )?;
        let mut lines = Lines::default();
        let (mut rank, mut size) = (None, None);
        let mut expected: &[u8] = b"initack";
        for _ in 0..4 {
            let bytes = next_line(&connection, &mut lines, "introducing itself")?;
            let line = Line::parse(&bytes);
            if line.command() != expected {
                return Err(nonsense(command, "an unexpected command", &bytes));
            }
            expected = b"set";
            rank = rank.or_else(|| line.number("rank"));
            size = size.or_else(|| line.number("size"));
            if line.raw("debug").is_some() {
                break;
            }
        }
        match (rank, size) {
            (Some(rank), Some(size)) if rank < size => {
                Client::begin(connection, lines, rank, size, spawned)
            }
            _ => Err(PmiError::Refused {
                command,
                reason: format!("it told rank {rank:?} and size {size:?}"),
            }),
        }
    }

    fn begin(
        connection: Connection,
        lines: Lines,
        rank: u32,
        size: u32,
        spawned: bool,
    ) -> Result<Client, PmiError> {
        let mut client = Client {
            rank,
            size,
            spawned,
            kvs_name: String::new(),
            limits: Limits::default(),
            link: Link::Launcher {
                connection,
                talk: Mutex::new(Talk { lines, over: None }),
                sending: Mutex::new(()),
            },
            appnum: OnceLock::new(),
            universe_size: OnceLock::new(),
        };
        client.exchange(
            "init",
            b"cmd=init pmi_version=1 pmi_subversion=1\n",
            "response_to_init",
            |line| accepted("init", line),
        )?;
        client.limits = client.exchange("get_maxes", b"cmd=get_maxes\n", "maxes", |line| {
            accepted("get_maxes", line)?;
            let usual = Limits::default();
            Ok(Limits {
                kvs_name: line.number("kvsname_max").unwrap_or(usual.kvs_name),
                key: line.number("keylen_max").unwrap_or(usual.key),
                value: line.number("vallen_max").unwrap_or(usual.value),
            })
        })?;
        client.kvs_name = client.exchange(
            "get_my_kvsname",
            b"cmd=get_my_kvsname\n",
            "my_kvsname",
            |line| {
                accepted("get_my_kvsname", line)?;
                line.text("kvsname").ok_or_else(|| PmiError::Refused {
                    command: "get_my_kvsname",
                    reason: "the answer names no kvsname".to_owned(),
                })
            },
        )?;
        Ok(client)
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Processes in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether a launcher is there at all; `false` means rank 0 of 1, started by hand.
    pub fn is_launched(&self) -> bool {
        matches!(self.link, Link::Launcher { .. })
    }

    /// Whether this job was started by `MPI_Comm_spawn`.
    pub fn spawned(&self) -> bool {
        self.spawned
    }

    /// The name of the job's key-value space, which no other job of this launcher has.
    pub fn kvs_name(&self) -> &str {
        &self.kvs_name
    }

    /// How long names, keys and values may be.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Which of the commands that were launched together this process runs (`MPI_APPNUM`); `None`
    /// if the launcher doesn't say.
    pub fn appnum(&self) -> Result<Option<i32>, PmiError> {
        if let Some(&known) = self.appnum.get() {
            return Ok(known);
        }
        let appnum = self.exchange("get_appnum", b"cmd=get_appnum\n", "appnum", |line| {
            // A negative number is a launcher's way of saying that it doesn't know.
            Ok(line.number("appnum").filter(|&n: &i32| n >= 0))
        })?;
        Ok(*self.appnum.get_or_init(|| appnum))
    }

    /// How many processes the launcher could run at once (`MPI_UNIVERSE_SIZE`); `None` if it
    /// doesn't say. A singleton asks nobody.
    pub fn universe_size(&self) -> Result<Option<u32>, PmiError> {
        if let Some(&known) = self.universe_size.get() {
            return Ok(known);
        }
        let size = self.exchange(
            "get_universe_size",
            b"cmd=get_universe_size\n",
            "universe_size",
            |line| Ok(line.number("size").filter(|&n: &u32| n > 0)),
        )?;
        Ok(*self.universe_size.get_or_init(|| size))
    }

    /// Puts a value under `key`; others see it after the next [`Client::fence`]. Any text will do
    /// as value ([`text::protect`] is applied), bytes go through [`text::encode`].
    ///
    /// # Errors
    /// If key or value is longer than [`Client::limits`] allows or the key is not a plain word.
    pub fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        let word = self.checked(key, value, "value")?;
        if let Link::Alone(memory) = &self.link {
            let mut memory = alive(memory)?;
            memory.keys.insert(key.to_owned(), value.to_owned());
            return Ok(());
        }
        let line = format!(
            "cmd=put kvsname={} key={key} value={word}\n",
            self.escaped_kvs_name()
        );
        self.exchange("put", line.as_bytes(), "put_result", |line| {
            accepted("put", line)
        })
    }

    /// The value under `key`, `None` if there is none.
    pub fn get(&self, key: &str) -> Result<Option<String>, PmiError> {
        self.check_key(key, "key", self.limits.key)?;
        if let Link::Alone(memory) = &self.link {
            return Ok(alive(memory)?.keys.get(key).cloned());
        }
        let line = format!("cmd=get kvsname={} key={key}\n", self.escaped_kvs_name());
        self.exchange("get", line.as_bytes(), "get_result", |line| {
            let found = accepted("get", line).is_ok() && line.raw("found") != Some(b"FALSE");
            if !found {
                return Ok(None);
            }
            let value = line.bytes("value").unwrap_or_default();
            let word = std::str::from_utf8(&value).map_err(|_| PmiError::Refused {
                command: "get",
                reason: format!("the value of '{key}' is not UTF-8"),
            })?;
            Ok(Some(text::unprotect(word).into_owned()))
        })
    }

    /// Waits until all processes of the job have come here; what was put before is seen after.
    pub fn fence(&self) -> Result<(), PmiError> {
        if let Link::Alone(memory) = &self.link {
            return alive(memory).map(drop);
        }
        self.exchange("barrier_in", b"cmd=barrier_in\n", "barrier_out", |line| {
            accepted("barrier_in", line)
        })
    }

    /// Publishes `port` under the name `service` (`MPI_Publish_name`).
    pub fn publish(&self, service: &str, port: &str) -> Result<(), PmiError> {
        self.check_value(port, "port")?;
        let name = self.service_name(service)?;
        if let Link::Alone(memory) = &self.link {
            let mut memory = alive(memory)?;
            if memory.names.contains_key(service) {
                return Err(PmiError::Refused {
                    command: "publish_name",
                    reason: format!("'{service}' is published already"),
                });
            }
            memory.names.insert(service.to_owned(), port.to_owned());
            return Ok(());
        }
        let line = format!(
            "cmd=publish_name service={name} port={}\n",
            text::protect(port)
        );
        self.exchange("publish_name", line.as_bytes(), "publish_result", |line| {
            accepted("publish_name", line)
        })
    }

    /// Withdraws the name `service` (`MPI_Unpublish_name`).
    pub fn unpublish(&self, service: &str) -> Result<(), PmiError> {
        let name = self.service_name(service)?;
        if let Link::Alone(memory) = &self.link {
            return match alive(memory)?.names.remove(service) {
                Some(_) => Ok(()),
                None => Err(PmiError::Refused {
                    command: "unpublish_name",
                    reason: format!("'{service}' is not published"),
                }),
            };
        }
        let line = format!("cmd=unpublish_name service={name}\n");
        self.exchange(
            "unpublish_name",
            line.as_bytes(),
            "unpublish_result",
            |line| accepted("unpublish_name", line),
        )
    }

    /// The port published under the name `service`, `None` if there is none (`MPI_Lookup_name`).
    pub fn lookup(&self, service: &str) -> Result<Option<String>, PmiError> {
        let name = self.service_name(service)?;
        if let Link::Alone(memory) = &self.link {
            return Ok(alive(memory)?.names.get(service).cloned());
        }
        let line = format!("cmd=lookup_name service={name}\n");
        self.exchange("lookup_name", line.as_bytes(), "lookup_result", |line| {
            if accepted("lookup_name", line).is_err() {
                return Ok(None);
            }
            let port = line.text("port").filter(|port| !port.is_empty());
            Ok(port.map(|port| text::unprotect(&port).into_owned()))
        })
    }

    /// Asks the launcher to end the whole job with exit code `code`. It doesn't wait for other
    /// threads' exchanges and returns when the request is on its way; the caller then exits.
    pub fn abort(&self, code: i32, message: &str) -> Result<(), PmiError> {
        let Link::Launcher {
            connection,
            sending,
            ..
        } = &self.link
        else {
            return Ok(());
        };
        let mut line = format!("cmd=abort exitcode={code} message=").into_bytes();
        let mut message = message;
        if message.len() > self.limits.value / 2 {
            let end = (0..=self.limits.value / 2).rfind(|&i| message.is_char_boundary(i));
            message = &message[..end.unwrap_or(0)];
        }
        line.extend(wire::escape(message.as_bytes()));
        line.push(b'\n');
        let _sending = lock(sending);
        connection.send(&line, "aborting")
    }

    /// Takes leave of the launcher: ending without is taken for a failure. Calls after this one
    /// are errors, but a second `finalize` is not.
    pub fn finalize(&self) -> Result<(), PmiError> {
        match &self.link {
            Link::Alone(memory) => {
                lock(memory).finalized = true;
                Ok(())
            }
            Link::Launcher { talk, .. } => {
                if lock(talk).over.as_deref() == Some(FINALIZED) {
                    return Ok(());
                }
                self.exchange("finalize", b"cmd=finalize\n", "finalize_ack", |line| {
                    accepted("finalize", line)
                })?;
                lock(talk).over = Some(FINALIZED.to_owned());
                Ok(())
            }
        }
    }

    /// The node of each rank, numbered from 0 within the job; `None` if the launcher doesn't say.
    pub fn process_mapping(&self) -> Result<Option<Vec<u32>>, PmiError> {
        if let Link::Alone(_) = self.link {
            return Ok(Some(vec![0]));
        }
        let text = self.get("PMI_process_mapping")?;
        Ok(text.and_then(|text| mapping::parse(&text, self.size as usize)))
    }

    /// Sends a line and takes the answer, which must be the command `expected`.
    fn exchange<T>(
        &self,
        command: &'static str,
        request: &[u8],
        expected: &str,
        read: impl FnOnce(&Line) -> Result<T, PmiError>,
    ) -> Result<T, PmiError> {
        let Link::Launcher {
            connection,
            talk,
            sending,
        } = &self.link
        else {
            return Err(PmiError::Over(format!(
                "{command}: there is no launcher to ask"
            )));
        };
        let mut talk = lock(talk);
        if let Some(reason) = &talk.over {
            return Err(PmiError::Over(format!("{command} came after {reason}")));
        }
        let answer = {
            let _sending = lock(sending);
            connection.send(request, command)
        }
        .and_then(|()| next_line(connection, &mut talk.lines, command))
        .and_then(|bytes| {
            if Line::parse(&bytes).command() == expected.as_bytes() {
                Ok(bytes)
            } else {
                let detail = format!("expected cmd={expected}");
                Err(nonsense(command, &detail, &bytes))
            }
        })
        .inspect_err(|e| talk.over = Some(format!("an earlier error ({e})")))?;
        read(&Line::parse(&answer))
    }

    fn escaped_kvs_name(&self) -> String {
        String::from_utf8_lossy(&wire::escape(self.kvs_name.as_bytes())).into_owned()
    }

    fn checked<'a>(
        &self,
        key: &str,
        value: &'a str,
        what: &str,
    ) -> Result<std::borrow::Cow<'a, str>, PmiError> {
        self.check_key(key, "key", self.limits.key)?;
        self.check_value(value, what)?;
        Ok(text::protect(value))
    }

    fn check_key(&self, key: &str, what: &str, limit: usize) -> Result<(), PmiError> {
        if key.len() >= limit {
            return Err(PmiError::Unfit(format!(
                "the {what} '{key}' has {} bytes; the launcher takes at most {}",
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

    /// A service name as it travels: any text the user may have chosen.
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

const FINALIZED: &str = "finalize";

fn alive(memory: &Mutex<Memory>) -> Result<MutexGuard<'_, Memory>, PmiError> {
    let memory = lock(memory);
    if memory.finalized {
        return Err(PmiError::Over(format!("the call came after {FINALIZED}")));
    }
    Ok(memory)
}

fn next_line(
    connection: &Connection,
    lines: &mut Lines,
    doing: &'static str,
) -> Result<Vec<u8>, PmiError> {
    loop {
        if let Some(line) = lines.next_line() {
            return Ok(line.to_vec());
        }
        if lines.overlong() {
            return Err(nonsense(doing, "a line without end", b""));
        }
        connection.receive(lines, doing)?;
    }
}

/// Whether the launcher did what was asked: `rc` is 0 or absent.
fn accepted(command: &'static str, line: &Line) -> Result<(), PmiError> {
    let rc = line.raw("rc");
    if rc.is_none() || line.number("rc") == Some(0i64) {
        return Ok(());
    }
    let reason = line
        .text("msg")
        .unwrap_or_else(|| format!("rc={}", line.text("rc").unwrap_or_default()));
    Err(PmiError::Refused { command, reason })
}

fn nonsense(command: &'static str, detail: &str, line: &[u8]) -> PmiError {
    let shown = &line[..line.len().min(200)];
    PmiError::Protocol {
        command,
        detail: detail.to_owned(),
        line: String::from_utf8_lossy(shown).into_owned(),
    }
}
