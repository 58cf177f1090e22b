//! The ranks of an agent's host: their start, their PMI sockets, their output and their ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use pmi::server::{Action, Stage};
use rustix::process::Rlimit;

use super::Agent;
use super::output::{Feed, Output};
use crate::affinity::{Affinity, CpuShare};
use crate::binding::Bind;
use crate::children::Event;
use crate::core_files::{self, Dumped};
use crate::options::{Inherit, Section};
use crate::output::Outbox;
use crate::processes;
use crate::program::{NOT_FOUND, NOT_RUNNABLE, Program, Unfit};
use crate::system::{self, Ending, Pid, Start};
use crate::wire::frames::Bytes;
use crate::wire::messages::{Common, Part, Up, from_ending, from_stage};
use crate::wire::tree::OWN;

/// Time for which the report of ranks that ended in order waits for more of them.
const TOGETHER: Duration = Duration::from_millis(50);
/// Most files whose memory the ranks of a host share. More ranks share them in groups.
const MAX_NODE_FILES: usize = 16;
/// Lines of a wait report: the request, and the operation that the rank waits for.
const REPORT_LINES: usize = 2;

/// A rank of this host.
pub struct Rank {
    /// Its process.
    pub pid: Pid,
    /// How it ended, if it did.
    pub ending: Option<Ending>,
    /// The launcher's end of its PMI socket, until the rank closes the other.
    pub pmi: Option<UnixStream>,
    /// Answers that did not fit into its socket's buffer.
    pub answers: Outbox,
    /// Its standard output and standard error.
    pub output: [Output; 2],
    /// Its standard input, if that comes from the root.
    pub feed: Option<Feed>,
    /// Its working directory at its start.
    folder: PathBuf,
    /// The time of its start.
    since: SystemTime,
}

/// The properties of a rank to start, besides its program.
struct RankSpec<'a> {
    /// Its rank in the job.
    rank: u32,
    /// Its index among the ranks of this host, and their number.
    local: (usize, usize),
    /// Its CPUs and memory policy.
    share: CpuShare,
    /// The limit of open files to restore, if the agent has raised its own.
    limit: Option<Rlimit>,
    memory: Option<&'a NodeMemory>,
}

impl Agent {
    /// Starts the ranks, and reports to the parent that they run or what is wrong.
    pub(super) fn start_ranks(&mut self, common: &Common) {
        let host = self.me.number;
        let notes = self.try_start_ranks(common).unwrap_or_else(|unfit| {
            let text = match self.is_alone() {
                true => unfit.message,
                false => format!("on host '{}': {}", self.me.name, unfit.message),
            };
            let code = unfit.code;
            self.parent.send(&Up::Trouble { host, code, text });
            Vec::new()
        });
        let pids = self.ranks.iter().map(|rank| rank.pid as u32).collect();
        self.parent.send(&Up::Started { host, pids, notes });
    }

    /// Starts the ranks, unless the job is to end. Returns the pictures of their bindings, if the
    /// user wants these.
    fn try_start_ranks(&mut self, common: &Common) -> Result<Vec<String>, Unfit> {
        let count = self.me.ranks.len();
        let appnums: Vec<usize> = (0..count)
            .map(|index| self.server.appnum(index) as usize)
            .collect();
        // Everything that can be wrong with the programs shows before any process exists.
        let mut programs: Vec<Option<(Section, Program)>> =
            common.sections.iter().map(|_| None).collect();
        for &appnum in &appnums {
            if programs[appnum].is_none() {
                let section = section(&common.sections[appnum]);
                let program = Program::find(&section)?;
                programs[appnum] = Some((section, program));
            }
        }
        let files = count as u64 * 4 + self.children.len() as u64 * 3 + 64;
        let limit = system::allow_files(files + MAX_NODE_FILES as u64);
        let bind = Bind::read(&common.bind).unwrap_or(Bind::AUTO);
        let affinity = Affinity::find(&bind.of(&self.me.ranks), count).map_err(|message| {
            let code = NOT_RUNNABLE;
            Unfit { code, message }
        })?;
        let memory = match system::allows_files(files + MAX_NODE_FILES as u64) {
            true => NodeMemory::create(&common.kvs, count),
            false => None,
        };
        for (index, share) in affinity.shares().into_iter().enumerate() {
            let Some((section, program)) = &programs[appnums[index]] else {
                continue;
            };
            let rank = self.me.ranks[index];
            let spec = RankSpec {
                rank,
                local: (index, count),
                share,
                limit: limit.as_ref().ok().copied().flatten(),
                memory: memory.as_ref(),
            };
            let started = self.start_rank(common, section, program, spec);
            let started = started.map_err(|error| {
                let name = section.command[0].to_string_lossy();
                Unfit {
                    code: match error.kind() {
                        ErrorKind::NotFound => NOT_FOUND,
                        _ => NOT_RUNNABLE,
                    },
                    message: format!("can't start rank {rank}, '{name}': {error}"),
                }
            })?;
            self.ranks.push(started);
            // Many ranks take long; a job that is ended meanwhile does not wait for the rest.
            if self.is_to_end() {
                break;
            }
        }
        Ok(match common.report {
            true => affinity.pictures(),
            false => Vec::new(),
        })
    }

    fn start_rank(
        &self,
        common: &Common,
        section: &Section,
        program: &Program,
        spec: RankSpec<'_>,
    ) -> io::Result<Rank> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let is_fed = common.input.contains(&spec.rank);
        let inherits = common.inherits_input == Some(spec.rank);
        let (stdin, feed) = match (inherits, is_fed) {
            (true, _) => (None, None),
            (false, true) => {
                let (theirs, ours) = io::pipe()?;
                (Some(theirs.into()), Some(Feed::new(ours)?))
            }
            (false, false) => (Some(File::open("/dev/null")?.into()), None),
        };
        let [(out, their_out), (err, their_err)] = [io::pipe()?, io::pipe()?];
        let own = variables(common, section.count, theirs.as_raw_fd(), &spec);
        let own = own.map(|(name, value)| (name.into(), value));
        let mut environment: BTreeMap<OsString, OsString> =
            program.environment.iter().cloned().chain(own).collect();
        if let Some(dir) = &section.wdir {
            environment.insert("PWD".into(), dir.into());
        }
        let mut inherit = vec![theirs.as_fd()];
        if let Some(memory) = spec.memory {
            environment.insert("WEFT_NODE_MEMORY".into(), memory.description.clone());
            inherit.extend(memory.files.iter().map(File::as_fd));
        }
        let start = Start {
            program: &program.path,
            arguments: &section.command,
            environment,
            folder: section.wdir.as_deref(),
            streams: [stdin, Some(their_out.into()), Some(their_err.into())],
            inherit,
            group: Some(self.guardian.group()),
            cpus: spec.share.cpus,
            memory: spec.share.memory,
            files: spec.limit,
        };
        let folder = section.wdir.as_deref().unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
        let since = SystemTime::now();
        let asks = common.terminal && (is_fed || inherits);
        Ok(Rank {
            pid: system::start(start, &self.signals)?,
            ending: None,
            pmi: Some(ours),
            answers: Outbox::default(),
            output: [
                Output::new(out.into(), asks)?,
                Output::new(err.into(), asks)?,
            ],
            feed,
            folder,
            since,
        })
    }

    /// Reaps the processes that have ended.
    pub(super) fn reap(&mut self, events: &mut Vec<Event>) {
        while let Some((pid, ending)) = system::reap() {
            if self.children.reaped(pid, ending, events) {
                continue;
            }
            let found = self.ranks.iter().position(|rank| rank.pid == pid);
            if let Some(index) = found.filter(|&index| self.ranks[index].ending.is_none()) {
                self.has_ended(index, ending);
            }
        }
    }

    fn has_ended(&mut self, index: usize, ending: Ending) {
        let rank = self.me.ranks[index];
        // Its last request may be that it finalized or aborted; it reads no answers any more.
        self.ranks[index].answers.clear();
        self.hear(index);
        let state = &mut self.ranks[index];
        state.ending = Some(ending);
        if let Ending::Signal { core: true, .. } = ending {
            let core = core_files::rename(&Dumped {
                pid: state.pid,
                rank: rank as usize,
                folder: &state.folder,
                since: state.since,
            });
            if let Some(core) = core {
                let place = Bytes(core.as_os_str().as_bytes().to_vec());
                self.parent.send(&Up::Core { rank, place });
            }
        }
        self.ended.push((
            rank,
            (from_ending(ending), from_stage(self.server.stage(index))),
        ));
        self.report.get_or_insert(Instant::now() + TOGETHER);
    }

    /// Reports the ranks that have ended: at once if one has failed, otherwise those of a while
    /// together.
    pub(super) fn report_ended(&mut self, now: Instant) {
        let failed = self.ended.iter().any(|(_, (how, _))| *how != 0);
        let all = self.ranks.iter().all(|rank| rank.ending.is_some());
        let due = self.report.is_some_and(|at| now >= at);
        if !self.ended.is_empty() && (failed || all || due) {
            let ranks = std::mem::take(&mut self.ended);
            self.parent.send(&Up::Ended { ranks });
            self.report = None;
        }
    }

    /// Removes a rank from the fences, which then do not wait for it.
    pub(super) fn lose(&mut self, rank: u32) {
        let Some(index) = self.index(rank).filter(|&index| index < self.ranks.len()) else {
            return;
        };
        let mut actions = Vec::new();
        self.server.lose(index, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
        if (0..self.ranks.len()).all(|index| self.server.is_lost(index)) {
            self.leave_fence(OWN);
        }
    }

    /// Serves a rank's PMI socket.
    pub(super) fn hear(&mut self, index: usize) {
        let mut actions = Vec::new();
        let mut buffer = [0u8; 4096];
        loop {
            let state = &mut self.ranks[index];
            let Some(pmi) = &mut state.pmi else {
                return;
            };
            let mut open = state.answers.write(pmi);
            // What waits must stay bounded, however much is asked and however little read.
            if open && state.answers.waits() {
                return;
            }
            if open {
                match pmi.read(&mut buffer) {
                    Ok(0) => open = false,
                    Ok(n) => self.server.receive(index, &buffer[..n], &mut actions),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                    Err(_) => open = false,
                }
            }
            if !open {
                state.pmi = None;
            }
            actions.drain(..).for_each(|action| self.act(action));
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Send { rank, line } => self.answer(rank, &line),
            Action::Abort {
                rank,
                code,
                ranks,
                message,
            } => {
                let rank = self.me.ranks[rank];
                self.parent.send(&Up::Abort {
                    rank,
                    code,
                    ranks,
                    message,
                });
            }
            Action::Violation { rank, detail } => {
                let rank = self.me.ranks[rank];
                self.parent.send(&Up::Violation { rank, detail });
            }
            Action::Fence { pairs } => {
                let pairs = pairs
                    .into_iter()
                    .map(|(key, value)| (Bytes(key), Bytes(value)));
                let complete = self.fence.come(OWN, pairs.collect());
                self.tell_fence(complete);
            }
            // The server above is asked for these.
            Action::Spawn { .. }
            | Action::Ask { .. }
            | Action::Still { .. }
            | Action::SpawnEnd { .. } => {}
            Action::Up { rank, line } => {
                self.has_asked = true;
                let (rank, line) = (self.me.ranks[rank], Bytes(line));
                self.parent.send(&Up::Line { rank, line });
            }
        }
    }

    pub(super) fn answer(&mut self, index: usize, line: &[u8]) {
        let Some(state) = self.ranks.get_mut(index) else {
            return;
        };
        if let Some(pmi) = &mut state.pmi {
            state.answers.push(line);
            if !state.answers.write(pmi) {
                state.pmi = None;
            }
        }
    }

    pub(super) fn read_output(&mut self, index: usize, stream: usize) {
        let bytes = self.ranks[index].output[stream].read(Instant::now());
        self.pass_on(index, stream, bytes);
    }

    /// Passes on unfinished lines that are due.
    pub(super) fn send_pieces(&mut self, now: Instant) {
        for index in 0..self.ranks.len() {
            for stream in [0, 1] {
                // Without credit the end of the line may be waiting in the pipe.
                if self.credit[stream] > 0 {
                    let bytes = self.ranks[index].output[stream].piece(now);
                    self.pass_on(index, stream, bytes);
                }
            }
        }
    }

    /// Sends a rank's output to the parent, against credit.
    pub(super) fn pass_on(&mut self, index: usize, stream: usize, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.credit[stream] -= bytes.len() as i64;
            let rank = self.me.ranks[index];
            let (stream, bytes) = (stream as u8, Bytes(bytes));
            self.parent.send(&Up::Output {
                rank,
                stream,
                bytes,
            });
        }
    }

    /// Asks the ranks in MPI for wait reports. Only processes that catch the signal get it: it would end
    /// others, such as a script that runs the program.
    pub(super) fn ask_for_last_words(&mut self) {
        let mut is_hidden = false;
        for index in 0..self.ranks.len() {
            let rank = &mut self.ranks[index];
            rank.output[1].mark();
            if rank.ending.is_none() && self.server.stage(index) == Stage::Active {
                match processes::catches(rank.pid, libc::SIGQUIT) {
                    true => system::kill(rank.pid, libc::SIGQUIT),
                    false => is_hidden = true,
                }
            }
        }
        if is_hidden {
            let own: Vec<Pid> = self.ranks.iter().map(|rank| rank.pid).collect();
            for pid in processes::of_group(self.guardian.group()) {
                if !own.contains(&pid) && processes::catches(pid, libc::SIGQUIT) {
                    system::kill(pid, libc::SIGQUIT);
                }
            }
        }
    }

    /// Reports once that all ranks in MPI have printed their wait reports.
    pub(super) fn look_for_reports(&mut self) {
        let is_silent = |index: usize| {
            self.ranks[index].ending.is_none()
                && self.server.stage(index) == Stage::Active
                && !self.ranks[index].output[1].has_answered(REPORT_LINES)
        };
        if self.is_asked && !(0..self.ranks.len()).any(is_silent) {
            self.is_asked = false;
            let host = self.me.number;
            self.parent.send(&Up::Spoken { host });
        }
    }

    /// Passes standard input on to a rank; empty at its end.
    pub(super) fn input(&mut self, rank: u32, bytes: &[u8]) {
        let index = self.index(rank);
        let state = index.and_then(|index| self.ranks.get_mut(index));
        match state.and_then(|state| state.feed.as_mut()) {
            Some(feed) => {
                feed.push(bytes);
                self.feed(index.unwrap_or_default());
            }
            None => self.parent.send(&Up::Taken { rank }),
        }
    }

    pub(super) fn feed(&mut self, index: usize) {
        let rank = self.me.ranks[index];
        let taken = self.ranks[index].feed.as_mut().map_or(0, Feed::write);
        for _ in 0..taken {
            self.parent.send(&Up::Taken { rank });
        }
    }
}

/// Returns the variables of a rank. `together` is the number of ranks in its section.
fn variables(
    common: &Common,
    together: usize,
    socket: i32,
    spec: &RankSpec,
) -> [(&'static str, OsString); 10] {
    let text = |number: usize| OsString::from(number.to_string());
    [
        ("PMI_FD", OsString::from(socket.to_string())),
        ("PMI_RANK", text(spec.rank as usize)),
        ("PMI_SIZE", text(common.size as usize)),
        ("PMI_SPAWNED", text(common.spawned.into())),
        ("MPI_LOCALNRANKS", text(spec.local.1)),
        ("MPI_LOCALRANKID", text(spec.local.0)),
        ("WEFT_LOCAL_SIZE", text(spec.local.1)),
        ("WEFT_LOCAL_RANK", text(spec.local.0)),
        ("WEFT_APP_SIZE", text(together)),
        // A rank's own affinity doesn't show whether other ranks share its cores.
        ("WEFT_LOCAL_CORES", text(spec.share.cores)),
    ]
}

/// The files whose memory the ranks of a host share.
struct NodeMemory {
    files: Vec<File>,
    /// The value of the ranks' variable: the job's name, by which ranks of a job within this one know that the
    /// files are not theirs; this process's PID namespace, in which ranks see each other; and descriptor, device
    /// and inode of each file.
    description: OsString,
}

impl NodeMemory {
    /// Makes a file for each of `count` ranks, as long as they are few. Returns `None` for a rank alone, and if
    /// a limit of file sizes keeps the files from holding the memory of all ranks.
    fn create(job: &str, count: usize) -> Option<NodeMemory> {
        if count == 1 {
            return None;
        }
        let namespace = std::fs::read_link("/proc/self/ns/pid");
        let mut description = OsString::from(format!("{job} "));
        description.push(namespace.unwrap_or_else(|_| "-".into()));
        let mut memory = NodeMemory {
            files: Vec::new(),
            description,
        };
        for _ in 0..count.min(MAX_NODE_FILES) {
            let file = netmod_kit::node_file().ok()?;
            let (fd, metadata) = (file.as_raw_fd(), file.metadata().ok()?);
            if metadata.len() < netmod_kit::NODE_SPACE {
                return None;
            }
            let text = format!(" {fd} {} {}", metadata.dev(), metadata.ino());
            memory.description.push(text);
            memory.files.push(file);
        }
        Some(memory)
    }
}

fn section(part: &Part) -> Section {
    let os = |bytes: &Bytes| OsString::from_vec(bytes.0.clone());
    Section {
        count: part.count as usize,
        asked: None,
        hosts: None,
        inherit: match part.inherits {
            true => Inherit::All,
            false => Inherit::None,
        },
        set: part
            .environment
            .iter()
            .map(|(name, value)| (os(name), os(value)))
            .collect(),
        wdir: (!part.wdir.0.is_empty()).then(|| PathBuf::from(os(&part.wdir))),
        command: part.command.iter().map(os).collect(),
    }
}
