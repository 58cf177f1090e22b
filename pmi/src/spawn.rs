//! Requests of `MPI_Comm_spawn` to a launcher, in PMI-1's format: a block of lines per command.
//!
//! Program names, arguments and values of Info keys are bytes, as for the system.

use std::env::split_paths;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{PmiError, text};

/// A program to be started, and the number of its processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Processes to start.
    pub count: usize,
    /// Info keys and their values: `wdir`, `host`, `path` ….
    pub info: Vec<(String, OsString)>,
}

impl Command {
    /// Returns the value of an Info key, if it is set and not empty.
    pub fn info(&self, key: &str) -> Option<&OsStr> {
        let found = self.info.iter().find(|one| one.0 == key);
        found
            .map(|one| one.1.as_os_str())
            .filter(|one| !one.is_empty())
    }

    /// Returns the value of an Info key whose value is text: names of hosts, or words for the
    /// launcher.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn info_text(&self, key: &str) -> Result<Option<&str>, String> {
        let text = |value: &'_ OsStr| {
            format!(
                "the value of the Info key {key}, '{}', is not UTF-8; names of hosts and words for the launcher are",
                value.display()
            )
        };
        let value = self.info(key);
        let value = value.map(|value| value.to_str().ok_or_else(|| text(value)));
        value.transpose()
    }

    /// Returns the program's path by the keys `path` and `wdir`, if the machine has the
    /// architecture of the key `arch`.
    ///
    /// # Errors
    /// The program does not exist, or this machine has another architecture.
    pub fn locate(&self) -> Result<OsString, String> {
        let arch = std::env::consts::ARCH;
        if let Some(other) = self.info("arch").filter(|wanted| *wanted != arch) {
            return Err(format!(
                "the Info key arch asks for {}; this machine is {arch}",
                other.display()
            ));
        }
        let Some(path) = self.info("path") else {
            return Ok(self.program.clone());
        };
        let runnable = |path: &PathBuf| {
            let found = std::fs::metadata(path);
            found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let base = Path::new(self.info("wdir").unwrap_or_default());
        let mut places = split_paths(path).map(|dir| base.join(dir).join(&self.program));
        let found = places.find(runnable);
        let found = found.and_then(|path| std::fs::canonicalize(path).ok());
        found.map(PathBuf::into_os_string).ok_or_else(|| {
            format!(
                "the program '{}' was not found in the directories of the Info key path, '{}'",
                self.program.display(),
                path.display()
            )
        })
    }
}

/// Keys of a command's Info that Weft's launcher passes on to its processes for `MPI_INFO_ENV`, and the variables that have
/// their values.
pub const SPAWN_KEYS: [(&str, &str); 2] = [("soft", "WEFT_APP_SOFT"), ("file", "WEFT_APP_FILE")];

/// A job to be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spawn {
    /// At least one.
    pub commands: Vec<Command>,
    /// Initial content of its key-value space.
    pub preput: Vec<(String, String)>,
}

/// Info keys with a meaning for launchers. Others are omitted if they cannot be sent.
const MEANT: [&str; 9] = [
    "arch",
    "host",
    "hosts",
    "hostfile",
    "add-host",
    "add-hostfile",
    "path",
    "wdir",
    "wd",
];

/// Suffix of a key whose value is percent-encoded.
const ENCODED: char = '%';

/// Lines for a launcher.
struct Writer {
    lines: Vec<u8>,
    /// Whether it is Weft's, which accepts encoded values.
    ours: bool,
}

impl Writer {
    /// Adds a key and a value without line breaks.
    fn add(&mut self, key: &str, value: impl AsRef<[u8]>) {
        self.lines.extend_from_slice(key.as_bytes());
        self.lines.push(b'=');
        self.lines.extend_from_slice(value.as_ref());
        self.lines.push(b'\n');
    }

    /// Adds a key and an arbitrary value of the program; `what` describes it for errors.
    fn add_any(
        &mut self,
        key: &str,
        value: &OsStr,
        what: impl FnOnce() -> String,
    ) -> Result<(), PmiError> {
        let bytes = value.as_bytes();
        let is_broken = bytes.contains(&b'\n');
        if bytes.contains(&0) || is_broken && !self.ours {
            let (why, advice) = match is_broken {
                true => ("a line break", "; Weft's mpiexec can: start the job by it"),
                false => ("a zero byte", ""),
            };
            return Err(PmiError::Unfit(format!(
                "{}, '{}', has {why}, which this launcher cannot receive{advice}",
                what(),
                bytes.escape_ascii()
            )));
        }
        // Readers of lines may drop a carriage return before the break.
        match self.ours && (is_broken || bytes.ends_with(b"\r")) {
            true => self.add(&format!("{key}{ENCODED}"), text::percent_encode(bytes)),
            false => self.add(key, bytes),
        }
        Ok(())
    }
}

impl Spawn {
    /// Returns the number of processes of the job.
    pub fn size(&self) -> usize {
        self.commands.iter().map(|command| command.count).sum()
    }

    /// Writes the blocks of PMI-1. `ours`: for Weft's own launcher, which accepts line breaks.
    ///
    /// # Errors
    /// A program's name, an argument or a significant Info value has a line break and the launcher
    /// is another one, or it has a zero byte.
    pub fn to_lines(&self, ours: bool) -> Result<Vec<u8>, PmiError> {
        let mut to = Writer {
            lines: Vec::new(),
            ours,
        };
        for (number, command) in (1..).zip(&self.commands) {
            let program = || format!("'{}'", command.program.display());
            to.add("mcmd", "spawn");
            to.add("nprocs", command.count.to_string());
            to.add_any("execname", &command.program, || {
                "the program's name".to_owned()
            })?;
            to.add("totspawns", self.commands.len().to_string());
            to.add("spawnssofar", number.to_string());
            for (place, arg) in (1..).zip(&command.args) {
                let what = || format!("argument {place} of {}", program());
                to.add_any(&format!("arg{place}"), arg, what)?;
            }
            to.add("argcnt", command.args.len().to_string());
            to.add("preput_num", self.preput.len().to_string());
            for (place, (key, value)) in self.preput.iter().enumerate() {
                let what = || format!("the value of '{key}' for {}", program());
                to.add(&format!("preput_key_{place}"), key);
                to.add_any(&format!("preput_val_{place}"), value.as_ref(), what)?;
            }
            let is_told = |(key, value): &&(String, OsString)| {
                let broken = |text: &[u8]| text.iter().any(|byte| [b'\n', 0].contains(byte));
                let is_line = ours || !broken(value.as_bytes());
                MEANT.contains(&key.as_str()) || !broken(key.as_bytes()) && is_line
            };
            let info: Vec<_> = command.info.iter().filter(is_told).collect();
            to.add("info_num", info.len().to_string());
            for (place, (key, value)) in info.into_iter().enumerate() {
                let what = || format!("the value of the Info key {key} for {}", program());
                to.add(&format!("info_key_{place}"), key);
                to.add_any(&format!("info_val_{place}"), value, what)?;
            }
            // The only line without a value.
            to.lines.extend_from_slice(b"endcmd\n");
        }
        Ok(to.lines)
    }

    /// Returns the fields of PMI-2's message, in its order.
    pub fn to_fields(&self) -> Vec<(String, Vec<u8>)> {
        let mut fields = Vec::new();
        let mut add = |key: String, value: &[u8]| fields.push((key, value.to_vec()));
        let number = |number: usize| number.to_string().into_bytes();
        add("ncmds".into(), &number(self.commands.len()));
        add("preputcount".into(), &number(self.preput.len()));
        for (place, (key, value)) in self.preput.iter().enumerate() {
            add(format!("ppkey{place}"), key.as_bytes());
            add(format!("ppval{place}"), value.as_bytes());
        }
        for command in &self.commands {
            add("subcmd".into(), command.program.as_bytes());
            add("maxprocs".into(), &number(command.count));
            add("argc".into(), &number(command.args.len()));
            for (place, arg) in command.args.iter().enumerate() {
                add(format!("argv{place}"), arg.as_bytes());
            }
            add("infokeycount".into(), &number(command.info.len()));
            for (place, (key, value)) in command.info.iter().enumerate() {
                add(format!("infokey{place}"), key.as_bytes());
                add(format!("infoval{place}"), value.as_bytes());
            }
        }
        fields
    }
}

/// The lines of a block as they arrive, and the commands of earlier blocks.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    lines: Vec<(String, OsString)>,
    spawn: Spawn,
}

impl Blocks {
    /// Adds a line of a block.
    pub fn line(&mut self, bytes: &[u8]) {
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let Some(at) = bytes.iter().position(|byte| *byte == b'=') else {
            return;
        };
        let (key, value) = (&bytes[..at], &bytes[at + 1..]);
        let key = String::from_utf8_lossy(key.trim_ascii_start());
        let (key, value) = match key.strip_suffix(ENCODED) {
            Some(key) => (key, text::percent_decode(value).unwrap_or_default()),
            None => (&*key, value.to_vec()),
        };
        self.lines.push((key.to_owned(), OsString::from_vec(value)));
    }

    /// Ends a block. Returns the job if it was the last one.
    pub fn end(&mut self) -> Option<Result<Spawn, String>> {
        let lines = std::mem::take(&mut self.lines);
        let value = |key: &str| {
            let found = lines.iter().find(|line| line.0 == key);
            found.map(|line| line.1.clone())
        };
        let text = |value: OsString| value.to_string_lossy().into_owned();
        let number = |key: &str| value(key).and_then(|it| text(it).trim().parse::<usize>().ok());
        let pairs = |keys: &str, values: &str, count: usize| {
            let pair = |place| {
                Some((
                    text(value(&format!("{keys}{place}"))?),
                    value(&format!("{values}{place}"))?,
                ))
            };
            (0..count).map_while(pair).collect::<Vec<_>>()
        };
        let args = number("argcnt").unwrap_or(0);
        let args = (1..=args).map_while(|place| value(&format!("arg{place}")));
        let command = Command {
            program: value("execname").unwrap_or_default(),
            args: args.collect(),
            count: number("nprocs").unwrap_or(0),
            info: pairs("info_key_", "info_val_", number("info_num").unwrap_or(0)),
        };
        let preput = pairs(
            "preput_key_",
            "preput_val_",
            number("preput_num").unwrap_or(0),
        );
        if self.spawn.commands.is_empty() {
            let preput = preput.into_iter().map(|(key, value)| (key, text(value)));
            self.spawn.preput = preput.collect();
        }
        self.spawn.commands.push(command);
        let all = number("totspawns").unwrap_or(1);
        if self.spawn.commands.len() < all {
            return None;
        }
        let spawn = std::mem::take(&mut self.spawn);
        let sound = |one: &Command| !one.program.is_empty() && one.count > 0;
        Some(match spawn.commands.iter().all(sound) {
            true => Ok(spawn),
            false => Err("a command lacks its program or its number of processes".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(bytes: &[u8]) -> OsString {
        OsString::from_vec(bytes.to_vec())
    }

    /// Reads lines as a launcher does.
    fn read(lines: &[u8]) -> Vec<Result<Spawn, String>> {
        let mut blocks = Blocks::default();
        let mut found = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\n").unwrap() {
                b"endcmd" => found.extend(blocks.end()),
                line => blocks.line(line),
            }
        }
        found
    }

    #[test]
    fn a_job_comes_back_from_its_lines() {
        let spawn = Spawn {
            commands: vec![
                Command {
                    program: "./a b".into(),
                    args: vec!["-x=1".into(), OsString::new(), "two words".into()],
                    count: 3,
                    info: vec![("wdir".into(), "/tmp".into())],
                },
                Command {
                    program: "c".into(),
                    count: 1,
                    ..Command::default()
                },
            ],
            preput: vec![("key".into(), "a value".into())],
        };
        for ours in [false, true] {
            assert_eq!(read(&spawn.to_lines(ours).unwrap()), [Ok(spawn.clone())]);
        }
        assert_eq!(spawn.size(), 4);
        let bad = Spawn {
            preput: vec![("key".into(), "two\nlines".into())],
            ..spawn
        };
        assert!(bad.to_lines(false).is_err());
    }

    /// Makes a job whose program's name, arguments and folder have these bytes.
    fn with(bytes: &[u8]) -> Spawn {
        Spawn {
            commands: vec![Command {
                program: os(&[b"./p", bytes].concat()),
                args: vec![os(bytes), "%41".into(), os(&[bytes, b"x"].concat())],
                count: 1,
                info: vec![("wdir".into(), os(bytes)), ("unknown".into(), os(bytes))],
            }],
            preput: Vec::new(),
        }
    }

    #[test]
    fn any_bytes_come_back_from_lines() {
        let bytes: Vec<u8> = (1..=255).filter(|byte| *byte != b'\n').collect();
        for ours in [false, true] {
            let spawn = with(&bytes);
            assert_eq!(read(&spawn.to_lines(ours).unwrap()), [Ok(spawn)]);
        }
        // Weft's launcher accepts bytes that no line carries unencoded.
        for bytes in [&b"a\nb"[..], b"\n", b"\nendcmd\n", b"\xff\r", b"\r\n%"] {
            let spawn = with(bytes);
            assert_eq!(read(&spawn.to_lines(true).unwrap()), [Ok(spawn)]);
        }
    }

    #[test]
    fn values_that_a_launcher_cannot_receive_are_named() {
        let said = |spawn: &Spawn, ours| spawn.to_lines(ours).unwrap_err().to_string();
        let mut spawn = with(b"\xff");
        spawn.commands[0].args[1] = "two\nlines".into();
        let why = said(&spawn, false);
        assert!(why.starts_with("argument 2 of './p"), "{why}");
        assert!(why.contains("'two\\nlines', has a line break"), "{why}");
        assert!(why.ends_with("start the job by it"), "{why}");
        assert!(spawn.to_lines(true).is_ok());
        spawn.commands[0].args.clear();
        spawn.commands[0].info[0].1 = "a\nb".into();
        assert!(said(&spawn, false).starts_with("the value of the Info key wdir"));
        // Keys without a meaning are omitted.
        spawn.commands[0].info.remove(0);
        spawn.commands[0].info[0].1 = "a\nb".into();
        let told = read(&spawn.to_lines(false).unwrap()).remove(0).unwrap();
        assert_eq!(told.commands[0].info, []);
        spawn.commands[0].program = "a\0b".into();
        assert!(said(&spawn, true).starts_with("the program's name, 'a\\x00b', has a zero byte"));
    }

    #[test]
    fn texts_among_keys_are_utf_8() {
        let command = Command {
            info: vec![
                ("host".into(), os(b"a\xff")),
                ("map_by".into(), "node".into()),
            ],
            ..Command::default()
        };
        let why = command.info_text("host").unwrap_err();
        assert!(why.contains("key host, 'a\u{fffd}', is not UTF-8"), "{why}");
        assert_eq!(command.info_text("map_by"), Ok(Some("node")));
        assert_eq!(command.info_text("bind_to"), Ok(None));
    }

    #[test]
    fn fields_are_in_the_order_of_commands() {
        let spawn = Spawn {
            commands: vec![
                Command {
                    program: "a".into(),
                    args: vec![os(b"x\xff")],
                    count: 2,
                    info: vec![("host".into(), "h".into())],
                },
                Command {
                    program: "b".into(),
                    count: 1,
                    ..Command::default()
                },
            ],
            preput: vec![("key".into(), "value".into())],
        };
        let fields = spawn.to_fields();
        let show = |(key, value): &(String, Vec<u8>)| format!("{key}={}", value.escape_ascii());
        let text: Vec<String> = fields.iter().map(show).collect();
        assert_eq!(
            text.join(";"),
            "ncmds=2;preputcount=1;ppkey0=key;ppval0=value;subcmd=a;maxprocs=2;argc=1;argv0=x\\xff;infokeycount=1;\
             infokey0=host;infoval0=h;subcmd=b;maxprocs=1;argc=0;infokeycount=0"
        );
    }

    #[test]
    fn blocks_without_sense_are_errors() {
        let mut blocks = Blocks::default();
        for line in [
            &b"nprocs=x"[..],
            b"nothing",
            b"=",
            b"argcnt=99999999",
            b"\xff=\xff",
        ] {
            blocks.line(line);
        }
        assert!(blocks.end().unwrap().is_err());
    }
}
