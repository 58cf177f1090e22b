//! What `MPI_Comm_spawn` asks of a launcher, as PMI-1 writes it: a block of lines per command.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::PmiError;

/// A program to be started, and how often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Processes to start.
    pub count: usize,
    /// Keys of Info and their values: `wdir`, `host`, `path` ….
    pub info: Vec<(String, String)>,
}

impl Command {
    /// The value of a key of Info, if it is there and not empty.
    pub fn info(&self, key: &str) -> Option<&str> {
        let found = self.info.iter().find(|one| one.0 == key);
        found
            .map(|one| one.1.as_str())
            .filter(|one| !one.is_empty())
    }

    /// The program as the keys `path` and `wdir` say, on a machine of the kind that `arch` asks for.
    ///
    /// # Errors
    /// It is not there, or this machine is of another kind.
    pub fn locate(&self) -> Result<String, String> {
        let arch = std::env::consts::ARCH;
        if let Some(other) = self.info("arch").filter(|wanted| *wanted != arch) {
            return Err(format!(
                "the Info key arch asks for {other}; this machine is {arch}"
            ));
        }
        let Some(path) = self.info("path") else {
            return Ok(self.program.clone());
        };
        let runnable = |path: &PathBuf| {
            let found = std::fs::metadata(path);
            found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let base = Path::new(self.info("wdir").unwrap_or(""));
        let mut places = path
            .split(':')
            .map(|dir| base.join(dir).join(&self.program));
        let found = places.find(runnable);
        let found = found.and_then(|path| std::fs::canonicalize(path).ok());
        found
            .and_then(|path| path.into_os_string().into_string().ok())
            .ok_or_else(|| {
                format!(
                    "the program '{}' was not found in the directories of the Info key path, '{path}'",
                    self.program
                )
            })
    }
}

/// A job to be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spawn {
    /// At least one.
    pub commands: Vec<Command>,
    /// What its key-value space has from the beginning.
    pub preput: Vec<(String, String)>,
}

impl Spawn {
    /// Processes of the job.
    pub fn size(&self) -> usize {
        self.commands.iter().map(|command| command.count).sum()
    }

    /// The blocks of PMI-1.
    ///
    /// # Errors
    /// A text has a line break, which no line can carry.
    pub fn to_lines(&self) -> Result<String, PmiError> {
        let mut lines = String::new();
        let mut add = |key: &str, value: &str| {
            if value.contains(['\n', '\0']) {
                return Err(PmiError::Unfit(format!(
                    "'{}' has a line break, which the launcher can't be told",
                    value.escape_debug()
                )));
            }
            lines.push_str(key);
            lines.push('=');
            lines.push_str(value);
            lines.push('\n');
            Ok(())
        };
        for (number, command) in (1..).zip(&self.commands) {
            add("mcmd", "spawn")?;
            add("nprocs", &command.count.to_string())?;
            add("execname", &command.program)?;
            add("totspawns", &self.commands.len().to_string())?;
            add("spawnssofar", &number.to_string())?;
            for (place, arg) in (1..).zip(&command.args) {
                add(&format!("arg{place}"), arg)?;
            }
            add("argcnt", &command.args.len().to_string())?;
            add("preput_num", &self.preput.len().to_string())?;
            for (place, (key, value)) in self.preput.iter().enumerate() {
                add(&format!("preput_key_{place}"), key)?;
                add(&format!("preput_val_{place}"), value)?;
            }
            add("info_num", &command.info.len().to_string())?;
            for (place, (key, value)) in command.info.iter().enumerate() {
                add(&format!("info_key_{place}"), key)?;
                add(&format!("info_val_{place}"), value)?;
            }
            add("endcmd", "")?;
        }
        // The one line without a value.
        Ok(lines.replace("\nendcmd=\n", "\nendcmd\n"))
    }
}

impl Spawn {
    /// The fields of PMI-2's message, in its order.
    pub fn to_fields(&self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let mut add = |key: &str, value: &str| fields.push((key.to_owned(), value.to_owned()));
        add("ncmds", &self.commands.len().to_string());
        add("preputcount", &self.preput.len().to_string());
        for (place, (key, value)) in self.preput.iter().enumerate() {
            add(&format!("ppkey{place}"), key);
            add(&format!("ppval{place}"), value);
        }
        for command in &self.commands {
            add("subcmd", &command.program);
            add("maxprocs", &command.count.to_string());
            add("argc", &command.args.len().to_string());
            for (place, arg) in command.args.iter().enumerate() {
                add(&format!("argv{place}"), arg);
            }
            add("infokeycount", &command.info.len().to_string());
            for (place, (key, value)) in command.info.iter().enumerate() {
                add(&format!("infokey{place}"), key);
                add(&format!("infoval{place}"), value);
            }
        }
        fields
    }
}

/// The lines of a block as they arrive, and the commands of earlier blocks.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    lines: Vec<(String, String)>,
    spawn: Spawn,
}

impl Blocks {
    /// A line within a block.
    pub fn line(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if let Some((key, value)) = text.split_once('=') {
            self.lines
                .push((key.trim_start().to_owned(), value.to_owned()));
        }
    }

    /// The end of a block: the job, if it was the last one.
    pub fn end(&mut self) -> Option<Result<Spawn, String>> {
        let lines = std::mem::take(&mut self.lines);
        let text = |key: &str| {
            let found = lines.iter().find(|line| line.0 == key);
            found.map(|line| line.1.clone())
        };
        let number = |key: &str| text(key).and_then(|text| text.trim().parse::<usize>().ok());
        let pairs = |keys: &str, values: &str, count: usize| {
            let pair = |place| {
                Some((
                    text(&format!("{keys}{place}"))?,
                    text(&format!("{values}{place}"))?,
                ))
            };
            (0..count).map_while(pair).collect::<Vec<_>>()
        };
        let args = number("argcnt").unwrap_or(0);
        let args = (1..=args).map_while(|place| text(&format!("arg{place}")));
        let command = Command {
            program: text("execname").unwrap_or_default(),
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
            self.spawn.preput = preput;
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

    #[test]
    fn a_job_comes_back_from_its_lines() {
        let spawn = Spawn {
            commands: vec![
                Command {
                    program: "./a b".into(),
                    args: vec!["-x=1".into(), String::new(), "two words".into()],
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
        let lines = spawn.to_lines().unwrap();
        let mut blocks = Blocks::default();
        let mut found = Vec::new();
        for line in lines.lines() {
            match line {
                "endcmd" => found.extend(blocks.end()),
                line => blocks.line(line.as_bytes()),
            }
        }
        assert_eq!(found, [Ok(spawn.clone())]);
        assert_eq!(spawn.size(), 4);
        let bad = Spawn {
            preput: vec![("key".into(), "two\nlines".into())],
            ..spawn
        };
        assert!(bad.to_lines().is_err());
    }

    #[test]
    fn fields_are_in_the_order_of_commands() {
        let spawn = Spawn {
            commands: vec![
                Command {
                    program: "a".into(),
                    args: vec!["x".into()],
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
        let text: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            text.join(";"),
            "ncmds=2;preputcount=1;ppkey0=key;ppval0=value;subcmd=a;maxprocs=2;argc=1;argv0=x;infokeycount=1;\
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
