//! The messages between a parent and the agents below it.

use crate::system::Ending;
use crate::wire::frames::{Bytes, LONGEST, fields};

/// A key of the key-value store and its value, as they travelled.
pub type Pair = (Bytes, Bytes);

/// Towards the agents. `host` is the number of the one that it is for; the others pass it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Down {
    /// What to do; the first message, to the agent at the other end of the connection.
    Plan { plan: Box<Plan> },
    /// All hosts' ranks have come to the fence, and this is what they have put.
    Release { pairs: Vec<Pair> },
    /// An answer to a rank's PMI line.
    Answer { host: u32, rank: u32, line: Bytes },
    /// Standard input for a rank; nothing at its end.
    Input { host: u32, rank: u32, bytes: Bytes },
    /// A signal for the ranks, or for all of their process groups.
    Signal { number: i32, group: bool },
    /// Report when all ranks in MPI have printed a wait report from now on. With `by_signal`, the
    /// agent asks them for it; otherwise the root asks each in an answer.
    Where { by_signal: bool },
    /// Kill all ranks.
    Kill {},
    /// Credit for more output of a stream: the bytes of earlier output that were written.
    Credit { host: u32, stream: u8, bytes: u32 },
    /// Fences are to do without this rank.
    Lose { host: u32, rank: u32 },
    /// All is over.
    Quit {},
    /// Nobody reads this stream any more, and ranks are to learn of it.
    Deaf { stream: u8 },
    /// These ranks were aborted by one of them, the caller, which ends by itself.
    Abort { caller: u32, ranks: Vec<u32> },
    /// Report how far each rank has come in MPI.
    Stages {},
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

/// Towards `mpiexec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Up {
    /// A host's ranks run; their process numbers, in order of their ranks.
    Started {
        host: u32,
        pids: Vec<u32>,
        notes: Vec<String>,
    },
    /// What a rank has printed: to standard output (0) or standard error (1).
    Output { rank: u32, stream: u8, bytes: Bytes },
    /// Ranks have ended; for each how (the code, or the signal with 256 added, and with 512 if there is
    /// a core dump) and how far it had come in MPI.
    Ended { ranks: Vec<(u32, (u32, u8))> },
    /// A rank that will be among those that have ended has left a core file.
    Core { rank: u32, place: Bytes },
    /// A rank called MPI_Abort.
    Abort {
        rank: u32,
        code: i32,
        ranks: String,
        message: String,
    },
    /// A rank sent something that is no PMI.
    Violation { rank: u32, detail: String },
    /// A PMI line that is not for the host's agent to answer.
    Line { rank: u32, line: Bytes },
    /// All ranks of the agent and of those below it have come to the fence.
    Fence { pairs: Vec<Pair> },
    /// Neither the agent's ranks nor those below it will come to a fence again.
    Left {},
    /// The number of ranks that wait in a fence for a rank of this host that is gone; 0 if they do
    /// not any more.
    Stuck { host: u32, waiting: u32 },
    /// A rank has taken the input that it was sent.
    Taken { rank: u32 },
    /// All ranks of the host that are in MPI have said where they are.
    Spoken { host: u32 },
    /// Something is wrong with a host, and the job can't be.
    Trouble { host: u32, code: u8, text: String },
    /// A host's agent is gone.
    Lost { hosts: Vec<u32>, text: String },
    /// The agent, and those below it, have nothing left.
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

/// How a process ended, as a number.
pub fn from_ending(ending: Ending) -> u32 {
    match ending {
        Ending::Code(code) => (code & 0xff) as u32,
        Ending::Signal { number, core } => 256 + u32::from(core) * 256 + (number & 0xff) as u32,
    }
}

/// The reverse of [`from_ending`].
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

/// What an agent is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What is the same for all.
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
    /// What it is called by who started the job.
    pub name: String,
    /// Whom to log in as.
    pub user: Option<String>,
    /// Where ssh listens.
    pub port: Option<u16>,
    /// Its ranks.
    pub ranks: Vec<u32>,
}

fields! { struct Member { number, name, user, port, ranks } }

/// What all agents are told alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Common {
    /// The job's name.
    pub kvs: String,
    /// Ranks in the job.
    pub size: u32,
    /// The placement, for ranks.
    pub mapping: String,
    /// The sections.
    pub sections: Vec<Part>,
    /// Ranks that are bound how.
    pub bind: String,
    /// Whether agents are to say what that comes to.
    pub report: bool,
    /// Whether fences and the like are to go on without ranks that are gone.
    pub cleanup: bool,
    /// Ranks that get standard input from the root.
    pub input: Vec<u32>,
    /// The rank of the root's own host that inherits standard input instead.
    pub inherits_input: Option<u32>,
    /// Whether standard input is a terminal.
    pub terminal: bool,
    /// How agents are started.
    pub boot: Boot,
    /// Bytes of output that a host may have under way.
    pub window: u32,
    /// The universe's size, if it is known.
    pub universe: Option<u32>,
    /// Whether the job was spawned by another.
    pub spawned: bool,
    /// What the key-value space has from the beginning.
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
    /// Ranks in it, which follow those of the section before.
    pub count: u32,
    /// Working folder; empty for the agent's own.
    pub wdir: Bytes,
    /// Program and arguments.
    pub command: Vec<Bytes>,
    /// The whole environment.
    pub environment: Vec<Pair>,
}

fields! { struct Part { count, wdir, command, environment } }

/// How agents are started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    /// The kind, as `-bootstrap` names it.
    pub kind: String,
    /// The command, if it is not the kind's own.
    pub exec: Option<Bytes>,
    /// Words to put before the host's name.
    pub words: Vec<Bytes>,
    /// The program to run there.
    pub agent: Bytes,
    /// Agents that one starts at most.
    pub width: u32,
    /// Seconds for a host to answer.
    pub patience: u32,
    /// The network that agents use among each other.
    pub interface: Option<String>,
}

fields! { struct Boot { kind, exec, words, agent, width, patience, interface } }

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
