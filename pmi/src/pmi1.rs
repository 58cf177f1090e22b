//! PMI-1: lines such as `cmd=put kvsname=k key=a value=b`, over an inherited socket or a port.

use crate::channel::{self, Channel, nonsense};
use crate::connection::Connection;
use crate::link::Link;
use crate::wire::{Line, Lines};
use crate::{Limits, PmiError, Spawn, mapping, wire};

impl channel::Frames for Lines {
    fn push(&mut self, bytes: &[u8]) {
        Lines::push(self, bytes);
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        if let Some(line) = self.next_line() {
            return Ok(Some(line.to_vec()));
        }
        match self.overlong() {
            true => Err("a line without end"),
            false => Ok(None),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pmi1 {
    channel: Channel<Lines>,
    space: String,
    limits: Limits,
    how: String,
    /// Whether the launcher is Weft's.
    ours: bool,
}

/// Introduces this process at a launcher's port by its id. Returns rank and size.
pub(crate) fn introduce(
    connection: &Connection,
    lines: &mut Lines,
    id: u32,
) -> Result<(u32, u32), PmiError> {
    let command = "initack";
    let doing = "introducing itself";
    connection.send(format!("cmd=initack pmiid={id}\n").as_bytes(), doing)?;
    let (mut rank, mut size) = (None, None);
    let mut expected: &[u8] = b"initack";
    for _ in 0..4 {
        let bytes = channel::next(connection, lines, doing)?;
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
        (Some(rank), Some(size)) if rank < size => Ok((rank, size)),
        _ => Err(PmiError::Refused {
            command,
            reason: format!("it sent rank {rank:?} and size {size:?}"),
        }),
    }
}

/// The launcher's first answer.
pub(crate) struct Hello {
    pub(crate) version: u32,
    /// The key-value space and its limits, which Weft's own launcher sends unasked.
    pub(crate) space: Option<(String, Limits)>,
}

/// Makes the first exchange, the same in both versions: proposes `version`. Returns the launcher's
/// answer.
pub(crate) fn init(channel: &Channel<Lines>, version: u32) -> Result<Hello, PmiError> {
    let sub = u32::from(version == 1);
    let request = format!("cmd=init pmi_version={version} pmi_subversion={sub}\n");
    let answer = channel.exchange("init", request.as_bytes(), is("response_to_init"))?;
    let line = Line::parse(&answer);
    let offered = line.number("pmi_version");
    // A launcher without the proposed version names its own, with or without an error.
    let version = match (accepted("init", &line), offered) {
        (Ok(()), offered) => offered.unwrap_or(version),
        (Err(_), Some(offered)) if offered != version => offered,
        (Err(error), _) => return Err(error),
    };
    let space = || {
        let limits = Limits {
            key: line.number("keylen_max")?,
            value: line.number("vallen_max")?,
            ..Limits::default()
        };
        Some((line.text("kvsname")?, limits))
    };
    Ok(Hello {
        version,
        space: space(),
    })
}

/// Checks that an answer is the command `expected`.
fn is(expected: &str) -> impl Fn(&[u8]) -> Result<(), String> {
    move |bytes| match Line::parse(bytes).command() == expected.as_bytes() {
        true => Ok(()),
        false => Err(format!("expected cmd={expected}")),
    }
}

impl Pmi1 {
    /// Continues after [`init`].
    pub(crate) fn begin(
        channel: Channel<Lines>,
        hello: Hello,
        how: String,
    ) -> Result<Pmi1, PmiError> {
        let mut link = Pmi1 {
            channel,
            space: String::new(),
            limits: Limits::default(),
            how,
            // No other launcher sends it unasked.
            ours: hello.space.is_some(),
        };
        if let Some((space, limits)) = hello.space {
            (link.space, link.limits) = (space, limits);
            return Ok(link);
        }
        link.limits = link.exchange("get_maxes", b"cmd=get_maxes\n", "maxes", |line| {
            accepted("get_maxes", line)?;
            let usual = Limits::default();
            Ok(Limits {
                kvs_name: line.number("kvsname_max").unwrap_or(usual.kvs_name),
                key: line.number("keylen_max").unwrap_or(usual.key),
                value: line.number("vallen_max").unwrap_or(usual.value),
            })
        })?;
        let command = "get_my_kvsname";
        link.space = link.exchange(command, b"cmd=get_my_kvsname\n", "my_kvsname", |line| {
            accepted(command, line)?;
            line.text("kvsname").ok_or_else(|| PmiError::Refused {
                command,
                reason: "the answer names no kvsname".to_owned(),
            })
        })?;
        Ok(link)
    }

    /// Sends a line and reads the answer, which must be the command `expected`.
    fn exchange<T>(
        &self,
        command: &'static str,
        request: &[u8],
        expected: &str,
        read: impl FnOnce(&Line) -> Result<T, PmiError>,
    ) -> Result<T, PmiError> {
        let answer = self.channel.exchange(command, request, is(expected))?;
        read(&Line::parse(&answer))
    }

    fn escaped_space(&self) -> String {
        String::from_utf8_lossy(&wire::escape(self.space.as_bytes())).into_owned()
    }
}

impl Link for Pmi1 {
    fn describe(&self) -> String {
        format!("PMI-1 {}", self.how)
    }

    fn space(&self) -> &str {
        &self.space
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        let line = format!(
            "cmd=put kvsname={} key={key} value={value}\n",
            self.escaped_space()
        );
        self.exchange("put", line.as_bytes(), "put_result", |line| {
            accepted("put", line)
        })
    }

    fn get(&self, _from: u32, key: &str) -> Result<Option<String>, PmiError> {
        let line = format!("cmd=get kvsname={} key={key}\n", self.escaped_space());
        let (request, is_answer) = (line.as_bytes(), is("get_result"));
        // A session may be opened after MPI_Finalize, and need addresses that were not requested
        // before.
        let answer = match self.ours {
            true => self.channel.exchange_late("get", request, is_answer)?,
            false => self.channel.exchange("get", request, is_answer)?,
        };
        let line = Line::parse(&answer);
        let found = accepted("get", &line).is_ok() && line.raw("found") != Some(b"FALSE");
        if !found {
            return Ok(None);
        }
        let value = line.bytes("value").unwrap_or_default().into_owned();
        let word = String::from_utf8(value).map_err(|_| PmiError::Refused {
            command: "get",
            reason: format!("the value of '{key}' is not UTF-8"),
        })?;
        Ok(Some(word))
    }

    fn fence(&self) -> Result<(), PmiError> {
        self.exchange("barrier_in", b"cmd=barrier_in\n", "barrier_out", |line| {
            accepted("barrier_in", line)
        })
    }

    fn publish(&self, service: &str, port: &str) -> Result<(), PmiError> {
        let line = format!("cmd=publish_name service={service} port={port}\n");
        self.exchange("publish_name", line.as_bytes(), "publish_result", |line| {
            accepted("publish_name", line)
        })
    }

    fn unpublish(&self, service: &str) -> Result<(), PmiError> {
        let line = format!("cmd=unpublish_name service={service}\n");
        self.exchange(
            "unpublish_name",
            line.as_bytes(),
            "unpublish_result",
            |line| accepted("unpublish_name", line),
        )
    }

    fn lookup(&self, service: &str) -> Result<Option<String>, PmiError> {
        let line = format!("cmd=lookup_name service={service}\n");
        self.exchange("lookup_name", line.as_bytes(), "lookup_result", |line| {
            if accepted("lookup_name", line).is_err() {
                return Ok(None);
            }
            Ok(line.text("port").filter(|port| !port.is_empty()))
        })
    }

    fn spawn(&self, spawn: &Spawn) -> Result<(), PmiError> {
        let lines = spawn.to_lines(self.ours)?;
        self.exchange("spawn", &lines, "spawn_result", |line| {
            accepted("spawn", line)?;
            let codes = line.text("errcodes").unwrap_or_default();
            let failed = codes
                .split(',')
                .find(|code| !matches!(code.trim(), "" | "0"));
            match failed {
                None => Ok(()),
                Some(code) => Err(PmiError::Refused {
                    command: "spawn",
                    reason: format!("a process could not be started (code {code})"),
                }),
            }
        })
    }

    fn stands_still(&self, seconds: u64) -> Result<bool, PmiError> {
        // Another thread may be in a fence for long.
        if !self.ours || !self.channel.is_free() {
            return Ok(false);
        }
        let line = format!("cmd=weft_still seconds={seconds}\n");
        self.exchange("weft_still", line.as_bytes(), "weft_still_result", |line| {
            Ok(line.raw("report") == Some(b"1"))
        })
    }

    fn spawn_end(&self, number: &str) -> Result<Option<String>, PmiError> {
        // Another thread may be in a fence for long.
        if !self.ours || !self.channel.is_free() {
            return Ok(None);
        }
        let ask = format!("cmd=weft_spawn_end number={number}\n");
        let answer = "weft_spawn_end_result";
        self.exchange("weft_spawn_end", ask.as_bytes(), answer, |line| {
            Ok(line.text("msg"))
        })
    }

    fn abort(&self, code: i32, message: &str) -> Result<(), PmiError> {
        let mut line = format!("cmd=abort exitcode={code} message=").into_bytes();
        line.extend(wire::escape(message.as_bytes()));
        line.push(b'\n');
        self.channel.send(&line, "aborting")
    }

    fn abort_some(&self, code: i32, ranks: &str) -> Result<(), PmiError> {
        if !self.ours {
            return self.abort(code, "");
        }
        let line = format!("cmd=abort exitcode={code} ranks={ranks} message=\n");
        self.channel.send(line.as_bytes(), "aborting")
    }

    fn is_aborted(&self, rank: u32) -> Result<bool, PmiError> {
        match self.ours {
            true => Ok(self.get(rank, &crate::server::aborted_key(rank))?.is_some()),
            false => Ok(false),
        }
    }

    fn finalize(&self) -> Result<(), PmiError> {
        if self.channel.is_finalized() {
            return Ok(());
        }
        self.exchange("finalize", b"cmd=finalize\n", "finalize_ack", |line| {
            accepted("finalize", line)
        })?;
        self.channel.finish();
        Ok(())
    }

    fn appnum(&self) -> Result<Option<i32>, PmiError> {
        self.exchange("get_appnum", b"cmd=get_appnum\n", "appnum", |line| {
            // A negative number means that the launcher does not know.
            Ok(line.number("appnum").filter(|&n: &i32| n >= 0))
        })
    }

    fn universe_size(&self) -> Result<Option<u32>, PmiError> {
        self.exchange(
            "get_universe_size",
            b"cmd=get_universe_size\n",
            "universe_size",
            |line| Ok(line.number("size").filter(|&n: &u32| n > 0)),
        )
    }

    fn nodes(&self, size: u32) -> Result<Option<Vec<u32>>, PmiError> {
        let text = self.get(0, "PMI_process_mapping")?;
        Ok(text.and_then(|text| mapping::parse(&text, size as usize)))
    }
}

/// Checks that the launcher has accepted a command: `rc` is 0 or absent.
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
