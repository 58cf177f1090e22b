//! The life of a job: its start and the loop that serves the ranks. How it ends is in [`ending`].

mod ending;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use pmi::server::{Action, Server};

use ending::{Bereaved, Cause, Deserters, Ended, PROC_FAILED, Phase, abort_code};

use crate::affinity::{self, Affinity};
use crate::debugger;
use crate::guardian::Guardian;
use crate::hang::{Inquiry, LOOK_FOR_WORDS};
use crate::hang_detector::HangDetector;
use crate::label;
use crate::names::Asker;
use crate::options::Options;
use crate::orphans;
use crate::output::{self, Sink};
use crate::program::{NOT_FOUND, NOT_RUNNABLE, Program, Unfit};
use crate::rank::{Rank, RankSpec};
use crate::report::host;
use crate::spawned::{Offspring, Whose};
use crate::stdin::{Typing, for_rank_0};
use crate::system::{self, Pid, Signals};

/// Signals that this program handles itself.
const HANDLED: &[i32] = &[
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTSTP,
];

/// How often to look whether the terminal has become ours.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Runs a job; the result is our exit code.
pub fn run(options: &Options) -> ExitCode {
    for note in &options.notes {
        eprintln!("mpiexec: {note}");
    }
    let code = match Job::start(options) {
        Ok(mut job) => {
            if let Some(spawned) = &options.spawned {
                match job.cause_text() {
                    None => spawned.started(None),
                    Some(why) => spawned.failed(why),
                }
            }
            job.serve();
            job.finish(options)
        }
        Err(unfit) => {
            match &options.spawned {
                Some(spawned) => spawned.failed(&unfit.message),
                None => eprintln!("mpiexec: {}", unfit.message),
            }
            unfit.code
        }
    };
    ExitCode::from(code)
}

struct Job {
    ranks: Vec<Rank>,
    running: usize,
    server: Server,
    signals: Signals,
    guardian: Guardian,
    typing: Option<Typing>,
    sinks: [Sink; 2],
    /// Of which of them it was said that they can't be written to.
    told: [bool; 2],
    /// When the job's time is up, and how much it had.
    limit: Option<(Instant, Duration)>,
    phase: Phase,
    /// Whether ranks were asked where they are, and the answer is still to be told.
    inquiry: Option<Inquiry>,
    standstill: HangDetector,
    /// Why the job ends early.
    cause: Option<Cause>,
    /// Core files that were not told of.
    cores: Vec<PathBuf>,
    /// Of the ranks that had to be ended: how many went how.
    ended: Ended,
    /// The exit code as the ranks that ended by themselves have it.
    code: u8,
    /// Whether the loss of a rank ends the others.
    cleanup: bool,
    /// Ranks that others have ended by MPI_Abort.
    aborted: Vec<usize>,
    /// Whether to print how each rank has ended.
    print_codes: bool,
    /// Ranks that ended with 0 but without MPI_Finalize.
    deserters: Option<Deserters>,
    /// The first rank that ended because it has found another lost.
    bereaved: Option<Bereaved>,
    /// Children that we had before there was a job.
    not_ours: Vec<Pid>,
    /// Jobs that ranks have spawned.
    offspring: Offspring,
    /// Whether this is a spawned job, which ends as quickly as a rank does.
    is_spawned: bool,
}

/// Whose descriptor an entry of the poll list is.
#[derive(Clone, Copy)]
enum Who {
    Signals,
    Typing,
    Sink(usize),
    Pmi(usize),
    Offspring(Whose),
    Source(usize, usize),
}

fn unfit(what: &str, error: std::io::Error) -> Unfit {
    Unfit {
        code: NOT_RUNNABLE,
        message: format!("{what}: {error}"),
    }
}

impl Job {
    fn start(options: &Options) -> Result<Job, Unfit> {
        let began = Instant::now();
        // Everything that can be wrong with the programs shows before any process exists.
        let programs: Vec<Program> = options
            .sections
            .iter()
            .map(Program::find)
            .collect::<Result<_, _>>()?;
        let size: usize = options.sections.iter().map(|section| section.count).sum();
        let limit = system::allow_files(size as u64 * 3 + 64)
            .map_err(|e| unfit("can't raise the limit of open files", e))?;
        let affinity = Affinity::find(&options.bind, size).map_err(|message| Unfit {
            code: NOT_RUNNABLE,
            message,
        })?;
        if options.many.report_bindings {
            for (rank, picture) in affinity.pictures().iter().enumerate() {
                eprintln!("mpiexec: rank {rank} on {} is {picture}", host());
            }
        }
        let not_ours = orphans::children();
        system::become_subreaper();
        let guardian =
            Guardian::start().map_err(|e| unfit("can't start a process to watch over", e))?;
        let signals = Signals::take(HANDLED).map_err(|e| unfit("can't take over signals", e))?;

        let appnums: Vec<u32> = (0..)
            .zip(&options.sections)
            .flat_map(|(appnum, section)| std::iter::repeat_n(appnum, section.count))
            .collect();
        let mut server = Server::new(&kvs_name(), &appnums);
        let ranks = u32::try_from(size).unwrap_or(u32::MAX);
        server.preset("PMI_process_mapping", &pmi::mapping::one_node(ranks));
        server.set_universe(options.many.universe(size, affinity::slots()));
        let offspring = Offspring::new(options, [("localhost".to_owned(), size)])?;
        if offspring.asks_for_names() {
            server.ask_for_names();
        }
        if let (true, Some(network)) = (options.many.pool.is_empty(), pmi::names::network()) {
            server.preset(pmi::names::NETWORK, &network);
        }
        for (key, value) in options.spawned.iter().flat_map(|one| &one.preput) {
            server.preset(key, value);
        }

        let mut job = Job {
            ranks: Vec::with_capacity(size),
            running: 0,
            server,
            signals,
            guardian,
            typing: None,
            sinks: [Sink::new(1), Sink::new(2)],
            told: [false; 2],
            limit: options
                .timeout
                .and_then(|limit| Some((began.checked_add(limit)?, limit))),
            phase: Phase::Running,
            inquiry: None,
            standstill: HangDetector::default(),
            cause: None,
            cores: Vec::new(),
            ended: Ended::default(),
            code: 0,
            cleanup: options.cleanup,
            aborted: Vec::new(),
            print_codes: options.print_codes,
            deserters: None,
            bereaved: None,
            not_ours,
            offspring,
            is_spawned: options.spawned.is_some(),
        };
        let mut files = Files(HashMap::new(), options.folders);
        for ((rank, &appnum), share) in appnums.iter().enumerate().zip(affinity.shares()) {
            let spec = RankSpec {
                rank,
                spawned: options.spawned.is_some(),
                size,
                local: (rank, size),
                group: job.guardian.group(),
                share,
                label: (options.label.as_ref()).map(|pattern| label::of(pattern, rank, &host(), 0)),
                stdin: if rank == 0 && options.spawned.is_none() {
                    for_rank_0()
                } else {
                    Stdio::null()
                },
                files: files.of(&options.files, rank)?,
                signals: &job.signals,
                limit,
            };
            let section = &options.sections[appnum as usize];
            match Rank::start(section, &programs[appnum as usize], spec) {
                Ok((mut started, stdin)) => {
                    let asks = rank == 0 && io::stdin().is_terminal();
                    for source in started.sources.iter_mut().flatten() {
                        source.set_asks(asks);
                    }
                    job.ranks.push(started);
                    job.running += 1;
                    // With many ranks this takes long; who ends the job meanwhile is not to wait for the rest.
                    job.handle_signals();
                    job.typing = job
                        .typing
                        .or_else(|| stdin.and_then(|stdin| Typing::new(stdin).ok()));
                }
                Err(e) => {
                    let name = section.command[0].to_string_lossy();
                    let text = format!("can't start rank {rank}, '{name}': {e}");
                    let code = match e.kind() {
                        ErrorKind::NotFound => NOT_FOUND,
                        _ => NOT_RUNNABLE,
                    };
                    job.fail(None, code, text);
                    break;
                }
            }
            if job.phase != Phase::Running {
                break;
            }
        }
        if job.ranks.len() == size {
            let program = |rank: usize| {
                let path = &programs[appnums[rank] as usize].path;
                path.display().to_string()
            };
            let ranks = job.ranks.iter().enumerate();
            debugger::started(ranks.map(|(rank, state)| (host(), program(rank), state.pid)));
        }
        Ok(job)
    }

    /// Serves the ranks until none is left.
    fn serve(&mut self) {
        let mut entries: Vec<libc::pollfd> = Vec::new();
        let mut owners: Vec<Who> = Vec::new();
        while self.running > 0 || self.offspring.any() {
            self.list(&mut entries, &mut owners);
            system::poll(&mut entries, self.wait_time());
            for (entry, &who) in entries.iter().zip(&owners) {
                if entry.revents == 0 {
                    continue;
                }
                match who {
                    // First in the list, so that the death of a rank is known before what others
                    // say about it.
                    Who::Signals => self.handle_signals(),
                    Who::Typing => self.carry_typing(),
                    Who::Sink(sink) => self.sinks[sink].write_ready(),
                    Who::Pmi(rank) => self.hear(rank),
                    Who::Offspring(whose) => {
                        let mut actions = Vec::new();
                        self.offspring.handle(whose, &mut self.server, &mut actions);
                        actions.into_iter().for_each(|action| self.act(action));
                    }
                    Who::Source(rank, stream) => self.read_output(rank, stream),
                }
            }
            let now = Instant::now();
            self.pass_pieces(now);
            self.sinks.iter_mut().for_each(Sink::write_ready);
            self.tell_failures();
            self.look_for_deadlock();
            self.look_at_clock();
        }
        self.end_without_the_dead();
    }

    /// Lists what to wait for.
    fn list(&self, entries: &mut Vec<libc::pollfd>, owners: &mut Vec<Who>) {
        entries.clear();
        owners.clear();
        let mut add = |fd, events, who| {
            entries.push(libc::pollfd {
                fd,
                events,
                revents: 0,
            });
            owners.push(who);
        };
        add(self.signals.descriptor(), libc::POLLIN, Who::Signals);
        if let Some((fd, events)) = self.typing.as_ref().and_then(Typing::wanted) {
            add(fd, events, Who::Typing);
        }
        for (index, sink) in self.sinks.iter().enumerate() {
            if sink.waits() {
                add(sink.descriptor(), libc::POLLOUT, Who::Sink(index));
            }
        }
        self.offspring
            .list(|fd, whose| add(fd, libc::POLLIN, Who::Offspring(whose)));
        for (index, rank) in self.ranks.iter().enumerate() {
            if let Some(pmi) = &rank.pmi {
                // Whoever doesn't take answers isn't asked for more questions.
                let events = match rank.answers.waits() {
                    true => libc::POLLOUT,
                    false => libc::POLLIN,
                };
                add(pmi.as_raw_fd(), events, Who::Pmi(index));
            }
            for (stream, source) in rank.sources.iter().enumerate() {
                let sink = &self.sinks[stream];
                match source {
                    Some(source) if !sink.is_full() => {
                        let who = Who::Source(index, stream);
                        add(source.descriptor(), libc::POLLIN, who);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Milliseconds until something is due by the clock, -1 if nothing is.
    fn wait_time(&self) -> i32 {
        let now = Instant::now();
        let due = match self.phase {
            Phase::Running => {
                let limit = self.limit.map(|limit| limit.0);
                let grace = self.deserters.as_ref().and_then(|some| some.grace);
                let patience = self.bereaved.as_ref().map(|one| one.until);
                let grace = [grace, patience].into_iter().flatten().min();
                limit.into_iter().chain(grace).min()
            }
            Phase::LastWords { least, most } if now >= least => {
                Some(most.min(now + LOOK_FOR_WORDS))
            }
            Phase::LastWords { least: at, .. } | Phase::Asked(at) => Some(at),
            Phase::Killed => None,
        };
        let sources = self
            .ranks
            .iter()
            .flat_map(|rank| rank.sources.iter().zip(&self.sinks));
        let pieces = sources.filter(|(_, sink)| !sink.is_full());
        let pieces = pieces.filter_map(|(source, _)| source.as_ref()?.due());
        let due = pieces
            .chain(due)
            .chain(self.inquiry.map(|inquiry| inquiry.due()))
            .min();
        let mut wait = due.map(|at| at.saturating_duration_since(now));
        if self.typing.as_ref().is_some_and(|t| t.wanted().is_none()) {
            wait = Some(wait.map_or(LOOK_AGAIN, |wait| wait.min(LOOK_AGAIN)));
        }
        match wait {
            // Rounded up, so that it is over when poll returns.
            Some(wait) => i32::try_from(wait.as_millis() + 1).unwrap_or(i32::MAX),
            None => -1,
        }
    }

    fn carry_typing(&mut self) {
        if self.typing.as_mut().is_some_and(|typing| !typing.carry()) {
            self.typing = None;
        }
    }

    fn read_output(&mut self, rank: usize, stream: usize) {
        let state = &mut self.ranks[rank];
        let sink = &mut self.sinks[stream];
        let Some(source) = &mut state.sources[stream] else {
            return;
        };
        // Once our own reader has left, the ranks' reader leaves, too, and they learn of it.
        let label = state.label.as_deref().map(label::now);
        let open = source.read(sink, label.as_deref()) && !sink.is_broken();
        if !open {
            state.sources[stream] = None;
        }
    }

    /// Passes on pieces of lines whose ends are long in coming.
    fn pass_pieces(&mut self, now: Instant) {
        for rank in &mut self.ranks {
            for (source, sink) in rank.sources.iter_mut().zip(&mut self.sinks) {
                // A full sink takes no more; what is due waits for its reader.
                if let Some(open) = source
                    && !sink.is_full()
                    && !open.pass_piece(sink, now)
                {
                    *source = None;
                }
            }
        }
    }

    /// Serves a rank's PMI socket.
    fn hear(&mut self, rank: usize) {
        let mut actions = Vec::new();
        let mut buffer = [0u8; 4096];
        loop {
            let state = &mut self.ranks[rank];
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
                    Ok(n) => self.server.receive(rank, &buffer[..n], &mut actions),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                    Err(_) => open = false,
                }
            }
            if !open {
                state.pmi = None;
            }
            for action in actions.drain(..) {
                self.act(action);
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send { rank, line } => {
                let state = &mut self.ranks[rank];
                if let Some(pmi) = &mut state.pmi {
                    state.answers.push(&line);
                    if !state.answers.write(pmi) {
                        state.pmi = None;
                    }
                }
            }
            Action::Abort {
                rank,
                code,
                ranks,
                message,
            } => {
                let who = self.name(rank);
                let code_of_job = abort_code(code);
                let result = match code_of_job {
                    given if i32::from(given) == code => String::new(),
                    given => format!(" (so this job's is {given})"),
                };
                let why = match message.trim() {
                    "" => String::new(),
                    message => format!(": {message}"),
                };
                let text = format!("{who} aborted with code {code}{result}{why}");
                let some = pmi::ranks::parse(&ranks, self.ranks.len());
                match (code, some) {
                    (_, Some(some)) if !self.cleanup => {
                        self.end_some(rank, some, code_of_job, text)
                    }
                    (PROC_FAILED, _) => self.suspect_loss(rank, text),
                    _ => self.fail(Some(rank), code_of_job, text),
                }
            }
            Action::Spawn { rank, spawn } => {
                let mut actions = Vec::new();
                let server = &mut self.server;
                self.offspring
                    .spawn(rank, &spawn, &self.signals, server, &mut actions);
                actions.into_iter().for_each(|action| self.act(action));
            }
            Action::Ask { rank, line } => {
                let mut actions = Vec::new();
                self.offspring.ask(Asker::Rank(rank), &line, &mut actions);
                actions.into_iter().for_each(|action| self.act(action));
            }
            Action::Still { rank, seconds } => self.hear_of_standstill(rank, seconds),
            Action::SpawnEnd { rank, number } => {
                let mut actions = Vec::new();
                let why = self.offspring.end_of(rank, &number);
                self.server.spawn_end(rank, why, &mut actions);
                actions.into_iter().for_each(|action| self.act(action));
            }
            Action::Violation { rank, detail } => {
                let who = self.name(rank);
                let text = format!(
                    "{who} sent something through its PMI socket that makes no sense: {detail}"
                );
                self.fail(Some(rank), 1, text);
            }
            // Nobody is above this server.
            Action::Fence { .. } | Action::Up { .. } => {}
        }
    }
}

/// The files that ranks write to, which those of the same name share, and whether to make folders for them.
struct Files(HashMap<OsString, File>, bool);

impl Files {
    fn of(
        &mut self,
        patterns: &[Option<OsString>; 2],
        rank: usize,
    ) -> Result<[Option<File>; 2], Unfit> {
        let [out, err] = patterns;
        Ok([self.one(out, rank)?, self.one(err, rank)?])
    }

    fn one(&mut self, pattern: &Option<OsString>, rank: usize) -> Result<Option<File>, Unfit> {
        let Some(pattern) = pattern else {
            return Ok(None);
        };
        let name = label::file(pattern, rank, &host(), 0);
        let failed = |e| unfit(&format!("can't write to '{}'", name.display()), e);
        let file = match self.0.entry(name.clone()) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(place) => place.insert(output::create(&name, self.1).map_err(failed)?),
        };
        file.try_clone().map(Some).map_err(failed)
    }
}

/// A name that no other job has at the same time, nor soon after.
pub fn kvs_name() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!("kvs_{}_{:x}", std::process::id(), now.as_nanos())
}
