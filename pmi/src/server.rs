//! The launcher's side, without I/O: received bytes in, actions out.

use std::collections::HashMap;

mod above;

use crate::limits::Limits;
use crate::names::{Names, Rights};
use crate::spawn::{Blocks, Spawn};
use crate::wire::{Line, Lines, escape};
use above::Above;
pub use above::{LONGEST_BLOCK, Pair};

/// An action for the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `line` must be sent to `rank`.
    Send {
        /// The receiver.
        rank: usize,
        /// The line, with its newline.
        line: Vec<u8>,
    },
    /// `rank` requests the end of the job.
    Abort {
        /// The requesting rank.
        rank: usize,
        /// The requested exit code.
        code: i32,
        /// The ranks to end, as a list of [`crate::ranks`]; empty: all.
        ranks: String,
        /// Its reason, possibly empty.
        message: String,
    },
    /// `rank` requests a spawn; [`Server::spawned`] takes the answer.
    Spawn {
        /// The requesting rank.
        rank: usize,
        /// The requested spawn.
        spawn: Spawn,
    },
    /// Another server must be asked; its answer is to be sent to `rank` unchanged.
    Ask {
        /// The requesting rank.
        rank: usize,
        /// The question, with its newline.
        line: Vec<u8>,
    },
    /// `rank` waits without progress; [`Server::report_wanted`] takes the answer.
    Still {
        /// The waiting rank.
        rank: usize,
        /// Seconds without progress.
        seconds: u64,
    },
    /// `rank` asks whether a job that it spawned has ended; [`Server::spawn_end`] takes the answer.
    SpawnEnd {
        /// The rank that asks.
        rank: usize,
        /// The value of [`SPAWN_NUMBER`] in the job's request.
        number: String,
    },
    /// `rank` violated the protocol and gets no answer.
    Violation {
        /// The sender.
        rank: usize,
        /// The problem.
        detail: String,
    },
    /// For the server above (see [`Server::below`]): all local ranks are in a fence and have put
    /// these values.
    Fence {
        /// Values put since the last fence.
        pairs: Vec<Pair>,
    },
    /// For the server above: `rank` requests something that is unknown here.
    Up {
        /// The requesting rank.
        rank: usize,
        /// The request, newlines included.
        line: Vec<u8>,
    },
}

/// The key in [`Spawn::preput`] by which a rank distinguishes its spawned jobs.
pub const SPAWN_NUMBER: &str = "weft-spawn-number";

/// Returns the key under which the server of Weft's launcher records that a rank was ended by
/// `MPI_Abort`.
pub fn aborted_key(rank: u32) -> String {
    format!("weft-aborted-{rank}")
}

/// Progress of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has sent nothing yet; it may not be an MPI program at all.
    Silent,
    /// It has initialised and not finalized.
    Active,
    /// It has finalized.
    Finalized,
}

/// The state of one job.
#[derive(Debug)]
pub struct Server {
    kvs_name: String,
    universe_size: Option<usize>,
    keys: HashMap<Vec<u8>, Vec<u8>>,
    /// Published names; `None` if another server keeps them.
    names: Option<Names>,
    ranks: Vec<Rank>,
    in_barrier: usize,
    lost: usize,
    /// Set if this is the server of a part of the job.
    above: Option<Above>,
}

#[derive(Debug)]
struct Rank {
    appnum: u32,
    lines: Lines,
    stage: Stage,
    in_barrier: bool,
    /// Whether it is lost; the others do not wait for it.
    lost: bool,
    /// Within a block of `mcmd=` lines, which ends with `endcmd`.
    in_block: bool,
    blocks: Blocks,
}

impl Server {
    /// Makes the server of a job whose rank `i` runs the command number `appnums[i]`. `kvs_name` is
    /// the job's name and should be a unique plain word.
    pub fn new(kvs_name: &str, appnums: &[u32]) -> Server {
        let ranks = appnums.iter().map(|&appnum| Rank {
            appnum,
            lines: Lines::default(),
            stage: Stage::Silent,
            in_barrier: false,
            lost: false,
            in_block: false,
            blocks: Blocks::default(),
        });
        Server {
            kvs_name: kvs_name.to_owned(),
            universe_size: Some(appnums.len()),
            keys: HashMap::new(),
            names: Some(Names::default()),
            ranks: ranks.collect(),
            in_barrier: 0,
            lost: 0,
            above: None,
        }
    }

    /// Sets the number of processes that the job's hosts can run; by default the job's own. `None`:
    /// unknown.
    pub fn set_universe(&mut self, size: Option<usize>) {
        self.universe_size = size;
    }

    /// Puts an initial value.
    pub fn preset(&mut self, key: &str, value: &str) {
        let key = key.as_bytes().to_vec();
        self.keys.insert(key, escape(value.as_bytes()));
    }

    /// Delegates published names to another server, by [`Action::Ask`].
    pub fn ask_for_names(&mut self) {
        self.names = None;
    }

    /// Returns the names that are kept here.
    pub fn names(&mut self) -> Option<&mut Names> {
        self.names.as_mut()
    }

    /// Answers an [`Action::Spawn`]: the number of started processes, or the reason of the failure.
    pub fn spawned(&mut self, rank: usize, result: Result<usize, &str>, actions: &mut Vec<Action>) {
        match result {
            Ok(count) => {
                let codes = vec!["0"; count].join(",");
                reply(
                    actions,
                    rank,
                    &format!("cmd=spawn_result rc=0 errcodes={codes}"),
                );
            }
            Err(why) => {
                let why = escape(why.as_bytes());
                reply_with(actions, rank, "cmd=spawn_result rc=1 errcodes=1 msg=", &why);
            }
        }
    }

    /// Answers an [`Action::Still`]: whether the rank should report what it waits for.
    pub fn report_wanted(&self, rank: usize, wanted: bool, actions: &mut Vec<Action>) {
        let text = format!("cmd=weft_still_result rc=0 report={}", u8::from(wanted));
        reply(actions, rank, &text);
    }

    /// Answers [`Action::SpawnEnd`] with the reason why the job has ended, or `None` while it is not
    /// known to have ended.
    pub fn spawn_end(&self, rank: usize, why: Option<&str>, actions: &mut Vec<Action>) {
        match why {
            Some(why) => {
                let why = escape(why.as_bytes());
                reply_with(actions, rank, "cmd=weft_spawn_end_result rc=0 msg=", &why);
            }
            None => reply(actions, rank, "cmd=weft_spawn_end_result rc=0"),
        }
    }

    /// Returns the number of a rank's command.
    pub fn appnum(&self, rank: usize) -> u32 {
        self.ranks[rank].appnum
    }

    /// Returns the progress of `rank`.
    pub fn stage(&self, rank: usize) -> Stage {
        self.ranks[rank].stage
    }

    /// Returns the number of ranks that wait in a fence.
    pub fn waiting(&self) -> usize {
        self.in_barrier
    }

    /// Returns whether `rank` waits in a fence.
    pub fn is_waiting(&self, rank: usize) -> bool {
        self.ranks[rank].in_barrier
    }

    /// Processes bytes from `rank` and appends the resulting `actions`.
    pub fn receive(&mut self, rank: usize, bytes: &[u8], actions: &mut Vec<Action>) {
        // The lines are moved out so that handling one may use the rest of the server.
        let mut lines = std::mem::take(&mut self.ranks[rank].lines);
        lines.push(bytes);
        while let Some(line) = lines.next_line() {
            self.line(rank, line, actions);
        }
        if lines.overlong() {
            lines = Lines::default();
            actions.push(Action::Violation {
                rank,
                detail: format!("a line of more than {} bytes", Lines::MAX),
            });
        }
        self.ranks[rank].lines = lines;
    }

    fn line(&mut self, rank: usize, bytes: &[u8], actions: &mut Vec<Action>) {
        if self.ranks[rank].in_block {
            let ends = bytes.trim_ascii() == b"endcmd";
            self.ranks[rank].in_block = !ends;
            if self.pass_block_on(rank, bytes, ends, actions) {
                return;
            }
            let blocks = &mut self.ranks[rank].blocks;
            match ends.then(|| blocks.end()) {
                None => blocks.line(bytes),
                Some(Some(Ok(spawn))) => actions.push(Action::Spawn { rank, spawn }),
                Some(Some(Err(why))) => self.spawned(rank, Err(&why), actions),
                Some(None) => {}
            }
            return;
        }
        if bytes.trim_ascii().is_empty() {
            return;
        }
        let line = Line::parse(bytes);
        if line.raw("mcmd").is_some() {
            self.ranks[rank].in_block = true;
            self.pass_block_on(rank, bytes, false, actions);
            return;
        }
        if self.pass_on(rank, line.command(), bytes, actions) {
            return;
        }
        match line.command() {
            b"init" => self.init(rank, &line, actions),
            b"get_maxes" => {
                let limits = Limits::default();
                let text = format!(
                    "cmd=maxes rc=0 kvsname_max={} keylen_max={} vallen_max={}",
                    limits.kvs_name, limits.key, limits.value
                );
                reply(actions, rank, &text);
            }
            b"get_my_kvsname" => {
                let text = format!("cmd=my_kvsname rc=0 kvsname={}", self.kvs_name);
                reply(actions, rank, &text);
            }
            b"get_appnum" => {
                let text = format!("cmd=appnum rc=0 appnum={}", self.ranks[rank].appnum);
                reply(actions, rank, &text);
            }
            b"get_universe_size" => {
                // Clients treat a negative size as unknown.
                let size = self.universe_size.map_or(-1, |size| size as i64);
                reply(
                    actions,
                    rank,
                    &format!("cmd=universe_size rc=0 size={size}"),
                );
            }
            b"put" => self.put(rank, &line, actions),
            b"get" => self.get(rank, &line, actions),
            b"barrier_in" => self.barrier(rank, actions),
            b"publish_name" | b"unpublish_name" | b"lookup_name" => match self.names.as_mut() {
                Some(names) => {
                    let line = names.answer(&line, Rights::All).unwrap_or_default();
                    actions.push(Action::Send { rank, line });
                }
                None => actions.push(Action::Ask {
                    rank,
                    line: [bytes, b"\n"].concat(),
                }),
            },
            b"abort" => actions.push(Action::Abort {
                rank,
                code: line.number("exitcode").unwrap_or(1),
                ranks: line.text("ranks").unwrap_or_default(),
                message: line
                    .text("message")
                    .or_else(|| line.text("error_msg"))
                    .unwrap_or_default(),
            }),
            b"weft_still" => actions.push(Action::Still {
                rank,
                seconds: line.number("seconds").unwrap_or(0),
            }),
            b"weft_spawn_end" => actions.push(Action::SpawnEnd {
                rank,
                number: line.text("number").unwrap_or_default(),
            }),
            b"finalize" => {
                self.ranks[rank].stage = Stage::Finalized;
                reply(actions, rank, "cmd=finalize_ack rc=0");
            }
            _ => {
                let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
                actions.push(Action::Violation {
                    rank,
                    detail: format!("'{}' is not a PMI-1 command", shown.escape_debug()),
                });
            }
        }
    }

    fn init(&mut self, rank: usize, line: &Line, actions: &mut Vec<Action>) {
        if line.number("pmi_version") != Some(1) {
            let answer = "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1 \
                          msg=this_launcher_speaks_PMI_1.1";
            reply(actions, rank, answer);
            return;
        }
        self.ranks[rank].stage = Stage::Active;
        // Includes the answers to the usual next questions, which saves two exchanges.
        let limits = Limits::default();
        let text = format!(
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1 keylen_max={} vallen_max={} \
             kvsname={}",
            limits.key, limits.value, self.kvs_name
        );
        reply(actions, rank, &text);
    }

    fn put(&mut self, rank: usize, line: &Line, actions: &mut Vec<Action>) {
        let answer = if self.other_kvs(line) {
            "cmd=put_result rc=-1 msg=kvsname_not_found"
        } else {
            match (line.raw("key"), line.raw("value")) {
                (Some(key), Some(value)) => {
                    self.keys.insert(key.to_vec(), value.to_vec());
                    self.keep_for_above(key, value);
                    "cmd=put_result rc=0 msg=success"
                }
                _ => "cmd=put_result rc=-1 msg=key_or_value_missing",
            }
        };
        reply(actions, rank, answer);
    }

    /// Records that a rank of the job was ended by `MPI_Abort`, for the others' questions.
    pub fn note_aborted(&mut self, rank: u32) {
        self.keys
            .insert(aborted_key(rank).into_bytes(), b"1".to_vec());
    }

    fn get(&self, rank: usize, line: &Line, actions: &mut Vec<Action>) {
        let found = match line.raw("key") {
            Some(key) if !self.other_kvs(line) => self.keys.get(key),
            _ => None,
        };
        match found {
            Some(value) => {
                reply_with(
                    actions,
                    rank,
                    "cmd=get_result rc=0 msg=success value=",
                    value,
                );
            }
            None => reply(
                actions,
                rank,
                "cmd=get_result rc=-1 msg=key_not_found value=unknown",
            ),
        }
    }

    /// Returns whether the line names a key-value space other than the job's only one.
    fn other_kvs(&self, line: &Line) -> bool {
        line.raw("kvsname")
            .is_some_and(|name| name != self.kvs_name.as_bytes())
    }

    fn barrier(&mut self, rank: usize, actions: &mut Vec<Action>) {
        let state = &mut self.ranks[rank];
        if !state.in_barrier && !state.lost {
            state.in_barrier = true;
            self.in_barrier += 1;
        }
        self.open_barrier(actions);
    }

    /// Releases the barrier once all ranks have come.
    fn open_barrier(&mut self, actions: &mut Vec<Action>) {
        if self.in_barrier == 0 || self.in_barrier + self.lost < self.ranks.len() {
            return;
        }
        if !self.report_fence_above(actions) {
            self.release_barrier(actions);
        }
    }

    fn release_barrier(&mut self, actions: &mut Vec<Action>) {
        self.in_barrier = 0;
        for (rank, state) in self.ranks.iter_mut().enumerate() {
            if std::mem::take(&mut state.in_barrier) {
                reply(actions, rank, "cmd=barrier_out rc=0");
            }
        }
    }

    /// Marks `rank` as lost: fences no longer wait for it.
    pub fn lose(&mut self, rank: usize, actions: &mut Vec<Action>) {
        let state = &mut self.ranks[rank];
        self.lost += usize::from(!std::mem::replace(&mut state.lost, true));
        if std::mem::take(&mut state.in_barrier) {
            self.in_barrier -= 1;
        }
        self.open_barrier(actions);
    }

    /// Returns whether [`Server::lose`] was called for `rank`.
    pub fn is_lost(&self, rank: usize) -> bool {
        self.ranks[rank].lost
    }
}

fn reply(actions: &mut Vec<Action>, rank: usize, text: &str) {
    reply_with(actions, rank, text, b"");
}

/// `value` is passed on unchanged, so that any escapes of the sender reach the receiver.
fn reply_with(actions: &mut Vec<Action>, rank: usize, text: &str, value: &[u8]) {
    let line = [text.as_bytes(), value, b"\n"].concat();
    actions.push(Action::Send { rank, line });
}
