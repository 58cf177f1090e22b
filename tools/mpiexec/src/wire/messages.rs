//! The messages between a parent and the agents below it.

use pmi::server::Stage;

use crate::system::Ending;
use crate::wire::frames::{Bytes, LONGEST, fields};

/// A key of the key-value store and its value, escaped as ranks put them.
pub type Pair = (Bytes, Bytes);

/// A message to agents. `host` is the number of the receiver's host; other agents pass it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Down {
    /// The plan: the first message, for the agent at the other end of the connection.
    Plan { plan: Box<Plan> },
    /// The fence is complete; `pairs` are the values that ranks have put.
    Release { pairs: Vec<Pair> },
    /// An answer to a rank's PMI line.
    Answer { host: u32, rank: u32, line: Bytes },
    /// Standard input for a rank; empty at its end.
    Input { host: u32, rank: u32, bytes: Bytes },
    /// A signal for the ranks, or for their whole process groups.
    Signal { number: i32, group: bool },
    /// Report when all ranks in MPI have printed a wait report from now on. With `by_signal`, the
    /// agent asks them for it; otherwise the root asks each in an answer.
    Where { by_signal: bool },
    /// Kill all ranks.
    Kill {},
    /// Credit for more output of a stream: the bytes of earlier output that were written.
    Credit { host: u32, stream: u8, bytes: u32 },
    /// Remove this rank from the fences.
    Lose { host: u32, rank: u32 },
    /// End in order: the job is over.
    Quit {},
    /// Close this stream of the ranks, since its reader has left.
    Deaf { stream: u8 },
    /// Kill these ranks, which one of them has aborted; that one, `caller`, ends by itself.
    Abort { caller: u32, ranks: Vec<u32> },
    /// Report how far each rank has come in MPI.
    Stages {},
    /// Ask ranks in MPI for wait reports before the job ends, and report as after `Where`.
    LastWords {},
}

fields! {
    enum Down {
        1 Plan { plan },
        2 Release { pairs },
        3 Answer { host, rank, line },
        4 Input { host, rank, bytes },
        5 Signal { number, group },
        6 Where { by_signal },
        7 Kill {},
        8 Credit { host, stream, bytes },
        9 Lose { host, rank },
        10 Quit {},
        11 Deaf { stream },
        12 Abort { caller, ranks },
        13 Stages {},
        14 LastWords {},
    }
}

/// Longest text: the last output of a command, or the reason of an abort, which came in a PMI line of at most 1 MiB.
const TEXT: usize = 4 << 20;
/// Bytes that a rank puts into the key-value store between two fences, at most.
const PUT: usize = 1 << 20;
/// Most bytes of a frame with a few numbers.
const SHORT: usize = 64;

impl Down {
    /// Longest frame of a kind, in a job of `ranks` ranks.
    pub(super) fn longest_frame(kind: u8, ranks: usize) -> usize {
        match kind {
            1 => LONGEST,
            2 => PUT.saturating_mul(ranks.saturating_add(1)),
            3 => pmi::server::LONGEST_BLOCK,
            4 => 1 << 20,
            12 => SHORT.saturating_add(ranks.saturating_mul(size_of::<u32>())),
            _ => SHORT,
        }
    }
}

/// A message to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Up {
    /// A host's ranks run: their process numbers, and descriptions of their bindings if requested,
    /// both in the order of their ranks.
    Started {
        host: u32,
        pids: Vec<u32>,
        notes: Vec<String>,
    },
    /// Output of a rank to standard output (0) or standard error (1).
    Output { rank: u32, stream: u8, bytes: Bytes },
    /// Ranks have ended: for each the end (the code, or the signal plus 256, plus 512 with a core
    /// dump) and the stage, as in `Stages`.
    Ended { ranks: Vec<(u32, (u32, u8))> },
    /// A rank has left a core file; its end follows.
    Core { rank: u32, place: Bytes },
    /// A rank called MPI_Abort.
    Abort {
        rank: u32,
        code: i32,
        ranks: String,
        message: String,
    },
    /// A rank has violated the PMI protocol.
    Violation { rank: u32, detail: String },
    /// A PMI line that the root answers.
    Line { rank: u32, line: Bytes },
    /// All ranks of the agent and of those below it have come to the fence.
    Fence { pairs: Vec<Pair> },
    /// No rank of the agent or below it comes to a fence again.
    Left {},
    /// The number of ranks that wait in a fence for a rank of this host that is gone; 0 if they do
    /// not any more.
    Stuck { host: u32, waiting: u32 },
    /// A rank has taken a message of input.
    Taken { rank: u32 },
    /// All ranks of the host that are in MPI have printed their wait reports.
    Spoken { host: u32 },
    /// Ranks of a host can't be started, for the reason `text`; `code` is the exit code.
    Trouble { host: u32, code: u8, text: String },
    /// The agents of these hosts are lost.
    Lost { hosts: Vec<u32>, text: String },
    /// Farewell of the agent and those below it, after `Quit` or the ends of all their ranks.
    Gone { notes: Vec<String> },
    /// How far each rank of a host has come in MPI, in order of their ranks: silent (0), active (1)
    /// or finalized (2).
    Stages { host: u32, stages: Bytes },
}

fields! {
    enum Up {
        1 Started { host, pids, notes },
        2 Output { rank, stream, bytes },
        3 Ended { ranks },
        4 Abort { rank, code, ranks, message },
        5 Violation { rank, detail },
        6 Line { rank, line },
        7 Fence { pairs },
        8 Stuck { host, waiting },
        9 Taken { rank },
        10 Spoken { host },
        11 Trouble { host, code, text },
        12 Lost { hosts, text },
        13 Gone { notes },
        14 Left {},
        15 Core { rank, place },
        16 Stages { host, stages },
    }
}

impl Up {
    /// Longest frame of a kind from an agent that, with those below it, has `ranks` ranks.
    pub(super) fn longest_frame(kind: u8, ranks: usize) -> usize {
        let each = |bytes: usize| bytes.saturating_mul(ranks.saturating_add(1));
        match kind {
            // The picture of a binding.
            1 => each(16 << 10).saturating_add(TEXT),
            2 => TEXT,
            3 | 16 => each(SHORT),
            6 => pmi::server::LONGEST_BLOCK.saturating_add(SHORT),
            7 => each(PUT),
            4 | 5 | 11 | 12 | 13 | 15 => each(SHORT).saturating_add(TEXT),
            _ => SHORT,
        }
    }
}

/// Encodes the end of a process.
pub fn from_ending(ending: Ending) -> u32 {
    match ending {
        Ending::Code(code) => (code & 0xff) as u32,
        Ending::Signal { number, core } => 256 + u32::from(core) * 256 + (number & 0xff) as u32,
    }
}

/// Decodes the result of [`from_ending`].
pub fn to_ending(how: u32) -> Ending {
    let number = (how & 0xff) as i32;
    match how {
        0..256 => Ending::Code(number),
        _ => Ending::Signal {
            number,
            core: how >= 512,
        },
    }
}

/// Encodes a rank's progress in MPI.
pub fn from_stage(stage: Stage) -> u8 {
    match stage {
        Stage::Silent => 0,
        Stage::Active => 1,
        Stage::Finalized => 2,
    }
}

/// Decodes the result of [`from_stage`].
pub fn to_stage(code: u8) -> Stage {
    match code {
        0 => Stage::Silent,
        1 => Stage::Active,
        _ => Stage::Finalized,
    }
}

/// The plan of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The part that is the same for all agents.
    pub common: Common,
    /// The agent's own host, then those that it is to start.
    pub hosts: Vec<Member>,
}

fields! { struct Plan { common, hosts } }

/// A host of the job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// Its number.
    pub number: u32,
    /// Its name, as the user wrote it.
    pub name: String,
    /// The user to log in as.
    pub user: Option<String>,
    /// The port of its ssh.
    pub port: Option<u16>,
    /// Its ranks.
    pub ranks: Vec<u32>,
}

fields! { struct Member { number, name, user, port, ranks } }

/// The part of the plan that is the same for all agents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Common {
    /// The name of the job's key-value store.
    pub kvs: String,
    /// Ranks in the job.
    pub size: u32,
    /// The placement, as ranks read it (`PMI_process_mapping`); may be empty.
    pub mapping: String,
    /// The sections.
    pub sections: Vec<Part>,
    /// The binding, as [`crate::binding::Bind::show`] writes it.
    pub bind: String,
    /// Whether to report the CPUs of each rank.
    pub report: bool,
    /// Whether the loss of a rank ends the others; without it, fences go on without lost ranks.
    pub cleanup: bool,
    /// Ranks that get standard input from the root.
    pub input: Vec<u32>,
    /// The rank of the root's own host that inherits standard input instead.
    pub inherits_input: Option<u32>,
    /// Whether standard input is a terminal.
    pub terminal: bool,
    /// How agents are started.
    pub boot: Boot,
    /// Bytes of each stream's output that a host may send before it gets credit.
    pub window: u32,
    /// The size of the universe, if it is known.
    pub universe: Option<u32>,
    /// Whether `MPI_Comm_spawn` has started the job.
    pub spawned: bool,
    /// The initial values of the key-value store.
    pub preput: Vec<(String, String)>,
}

fields! { struct Common { kvs, size, mapping, sections, bind, report, cleanup, input, inherits_input, terminal, boot, window, universe, spawned, preput } }

impl Common {
    /// Returns the number of a rank's section, or `None` if no section has the rank or the section has no program.
    pub fn appnum(&self, rank: u32) -> Option<u32> {
        let mut before = 0u64;
        let number = self.sections.iter().position(|part| {
            before += u64::from(part.count);
            u64::from(rank) < before
        })?;
        let has_program = !self.sections[number].command.is_empty();
        has_program.then_some(number as u32)
    }
}

/// A section of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Number of its ranks, which follow those of the section before.
    pub count: u32,
    /// Working folder; empty for the agent's own.
    pub wdir: Bytes,
    /// Program and arguments.
    pub command: Vec<Bytes>,
    /// The environment without the variables that differ between ranks.
    pub environment: Vec<Pair>,
    /// Whether `environment` is added to that of the agent.
    pub inherits: bool,
}

fields! { struct Part { count, wdir, command, environment, inherits } }

/// How agents are started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    /// The kind, as `-bootstrap` names it.
    pub kind: String,
    /// The command, if it is not that of the kind.
    pub exec: Option<Bytes>,
    /// Arguments before the host's name.
    pub words: Vec<Bytes>,
    /// The path of `mpiexec` on the hosts.
    pub agent: Bytes,
    /// Most agents that one agent starts.
    pub width: u32,
    /// Seconds that a host has to answer.
    pub patience: u32,
    /// The network interface of agents.
    pub interface: Option<String>,
    /// Seconds of silence after which a host counts as lost.
    pub silence: u32,
}

fields! { struct Boot { kind, exec, words, agent, width, patience, interface, silence } }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frames::{Frames, frame};

    #[test]
    fn messages_survive_the_way() {
        let plan = Box::new(Plan {
            common: Common {
                kvs: "k".into(),
                sections: vec![Part {
                    count: 3,
                    environment: vec![(Bytes(b"A".to_vec()), Bytes(b"\xff".to_vec()))],
                    ..Part::default()
                }],
                ..Common::default()
            },
            hosts: vec![Member {
                number: 4,
                port: Some(22),
                ranks: vec![1, 2],
                ..Member::default()
            }],
        });
        let mut bytes = Vec::new();
        frame(&Down::Plan { plan: plan.clone() }, &mut bytes);
        frame(&Down::Quit {}, &mut bytes);
        let mut frames = Frames::default();
        frames.push(&bytes);
        assert_eq!(frames.next(), Ok(Some(Down::Plan { plan })));
        assert_eq!(frames.next(), Ok(Some(Down::Quit {})));
        assert_eq!(frames.next::<Down>(), Ok(None));
    }

    #[test]
    fn ranks_belong_to_sections_that_have_programs() {
        let part = |count, command: &[&str]| Part {
            count,
            command: command
                .iter()
                .map(|it| Bytes(it.as_bytes().to_vec()))
                .collect(),
            ..Part::default()
        };
        let common = Common {
            sections: vec![
                part(2, &["a"]),
                part(1, &[]),
                part(u32::MAX, &["b"]),
                part(9, &["c"]),
            ],
            ..Common::default()
        };
        let appnums = [0, 1, 2, 3, u32::MAX].map(|rank| common.appnum(rank));
        assert_eq!(appnums, [Some(0), Some(0), None, Some(2), Some(2)]);
        assert_eq!(Common::default().appnum(0), None);
    }

    #[test]
    fn frames_are_bounded_by_their_kind_before_they_are_buffered() {
        let is_refused = |kind: u8, length: usize, ranks: usize| {
            let mut frames = Frames::default();
            frames.set_ranks(ranks);
            frames.push(&(length as u32).to_le_bytes());
            assert_eq!(frames.next::<Up>(), Ok(None));
            frames.push(&[kind]);
            frames.next::<Up>().is_err()
        };
        // A number that is longer than a number; what two ranks have put; a line of PMI.
        assert!(is_refused(9, 100, 2) && !is_refused(9, 5, 2));
        assert!(is_refused(7, 4 << 20, 2) && !is_refused(7, 3 << 20, 2));
        assert!(!is_refused(7, 4 << 20, 4));
        assert!(is_refused(6, 17 << 20, 1000) && !is_refused(6, 1 << 20, 1));
        assert!(is_refused(2, 5 << 20, 1000) && is_refused(200, 65, 1000));
        assert!(is_refused(12, 5 << 20, 2) && !is_refused(12, 4 << 20, 2));
    }

    #[test]
    fn endings_survive_the_way() {
        for ending in [
            Ending::Code(0),
            Ending::Code(255),
            Ending::Signal {
                number: 9,
                core: false,
            },
            Ending::Signal {
                number: 64,
                core: true,
            },
        ] {
            assert_eq!(to_ending(from_ending(ending)), ending);
        }
    }
}
