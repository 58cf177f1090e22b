//! The life of a job: start, the loop that serves the ranks, the end.

use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use pmi::server::{Action, Server, Stage};

use crate::affinity;
use crate::guardian::Guardian;
use crate::options::Options;
use crate::output::{Sink, message};
use crate::program::{NOT_RUNNABLE, Program, Unfit};
use crate::rank::{Place, Rank};
use crate::report::{host, signal_hint, signal_name};
use crate::stdin::{Typing, for_rank_0};
use crate::system::{self, Ending, Pid, Signals};

/// Signals that this program handles itself.
const HANDLED: &[i32] = &[
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
];

/// Between asking a rank to end and making it.
const GRACE: Duration = Duration::from_millis(300);
/// The same after a signal from outside, whose sender may want a program to save its work.
const GRACE_FOR_SIGNALS: Duration = Duration::from_secs(5);
/// Time for the ranks to say where they are, after a time-out.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Time for processes that outlived their rank.
const GRACE_FOR_STRAYS: Duration = Duration::from_millis(100);
/// How often to look whether the terminal has become ours.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The exit code after a time-out, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// Runs a job; the result is our exit code.
pub fn run(options: &Options) -> ExitCode {
    let code = match Job::start(options) {
        Ok(mut job) => {
            job.serve();
            job.finish()
        }
        Err(unfit) => {
            eprintln!("mpiexec: {}", unfit.message);
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
    /// When the job's time is up, and how much it had.
    limit: Option<(Instant, Duration)>,
    phase: Phase,
    /// Why the job ends early.
    cause: Option<Cause>,
    /// Of the ranks that had to be ended: how many went how.
    ended: Ended,
    /// The exit code as the ranks that ended by themselves have it.
    code: u8,
    /// Children that we had before there was a job.
    not_ours: Vec<Pid>,
}

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not begun.
    Running,
    /// Ranks were asked to say where they are.
    LastWords(Instant),
    /// Ranks were asked to end, and will be made to at this time.
    Asked(Instant),
    /// Ranks were killed.
    Killed,
}

struct Cause {
    code: u8,
    text: String,
    /// The rank that is to blame, if one is.
    culprit: Option<usize>,
    /// Other ranks that still ran when it came.
    others: usize,
}

#[derive(Default)]
struct Ended {
    asked: usize,
    killed: usize,
    themselves: usize,
}

/// Whose descriptor an entry of the poll list is.
#[derive(Clone, Copy)]
enum Who {
    Signals,
    Typing,
    Sink(usize),
    Pmi(usize),
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
        let files = system::allow_files(size as u64 * 3 + 64)
            .map_err(|e| unfit("can't raise the limit of open files", e))?;
        let masks = affinity::masks(options.bind, size);
        let not_ours = children();
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

        let mut job = Job {
            ranks: Vec::with_capacity(size),
            running: 0,
            server,
            signals,
            guardian,
            typing: None,
            sinks: [Sink::new(1), Sink::new(2)],
            limit: options
                .timeout
                .and_then(|limit| Some((began.checked_add(limit)?, limit))),
            phase: Phase::Running,
            cause: None,
            ended: Ended::default(),
            code: 0,
            not_ours,
        };
        for ((rank, &appnum), cpus) in appnums.iter().enumerate().zip(masks) {
            let place = Place {
                rank,
                size,
                group: job.guardian.group(),
                cpus,
                label: options.label,
                stdin: if rank == 0 {
                    for_rank_0()
                } else {
                    Stdio::null()
                },
                signals: &job.signals,
                files,
            };
            let section = &options.sections[appnum as usize];
            match Rank::start(section, &programs[appnum as usize], place) {
                Ok((rank, stdin)) => {
                    job.ranks.push(rank);
                    job.running += 1;
                    job.typing = job
                        .typing
                        .or_else(|| stdin.and_then(|stdin| Typing::new(stdin).ok()));
                }
                Err(e) => {
                    let name = section.command[0].to_string_lossy();
                    let text = format!("can't start rank {rank}, '{name}': {e}");
                    job.fail(None, NOT_RUNNABLE, text);
                    break;
                }
            }
        }
        Ok(job)
    }

    /// Serves the ranks until none is left.
    fn serve(&mut self) {
        let mut entries: Vec<libc::pollfd> = Vec::new();
        let mut owners: Vec<Who> = Vec::new();
        while self.running > 0 {
            self.list(&mut entries, &mut owners);
            system::poll(&mut entries, self.wait_time());
            let mut signalled = false;
            for (entry, &who) in entries.iter().zip(&owners) {
                if entry.revents == 0 {
                    continue;
                }
                match who {
                    Who::Signals => signalled = true,
                    Who::Typing => self.carry_typing(),
                    Who::Sink(sink) => self.sinks[sink].write_ready(),
                    Who::Pmi(rank) => self.hear(rank),
                    Who::Source(rank, stream) => self.read_output(rank, stream),
                }
            }
            for sink in &mut self.sinks {
                sink.write_ready();
            }
            if signalled {
                self.handle_signals();
            }
            self.look_for_deadlock();
            self.look_at_clock();
        }
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
        for (index, rank) in self.ranks.iter().enumerate() {
            if let Some(pmi) = &rank.pmi {
                let out = if rank.answers.waits() {
                    libc::POLLOUT
                } else {
                    0
                };
                add(pmi.as_raw_fd(), libc::POLLIN | out, Who::Pmi(index));
            }
            for (stream, source) in rank.sources.iter().enumerate() {
                match source {
                    Some(source) if !self.sinks[stream].is_full() => {
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
            Phase::Running => self.limit.map(|limit| limit.0),
            Phase::LastWords(at) | Phase::Asked(at) => Some(at),
            Phase::Killed => None,
        };
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
        let rank = &mut self.ranks[rank];
        let sink = &mut self.sinks[stream];
        let Some(source) = &mut rank.sources[stream] else {
            return;
        };
        // Once our own reader has left, the ranks' reader leaves, too, and they learn of it.
        if !source.read(sink, rank.label.as_deref()) || sink.is_broken() {
            rank.sources[stream] = None;
        }
    }

    /// Serves a rank's PMI socket.
    fn hear(&mut self, rank: usize) {
        let mut actions = Vec::new();
        let mut buffer = [0u8; 4096];
        let state = &mut self.ranks[rank];
        let Some(pmi) = &mut state.pmi else {
            return;
        };
        let mut open = state.answers.write(pmi);
        while open {
            match pmi.read(&mut buffer) {
                Ok(0) => open = false,
                Ok(n) => self.server.receive(rank, &buffer[..n], &mut actions),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => open = false,
            }
        }
        if !open {
            state.pmi = None;
        }
        for action in actions {
            self.act(action);
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
                message,
            } => {
                let who = self.name(rank);
                let why = match message.trim() {
                    "" => String::new(),
                    message => format!(": {message}"),
                };
                let text = format!("{who} aborted with code {code}{why}");
                self.fail(Some(rank), abort_code(code), text);
            }
            Action::Violation { rank, detail } => {
                let who = self.name(rank);
                let text = format!(
                    "{who} sent something through its PMI socket that makes no sense: {detail}"
                );
                self.fail(Some(rank), 1, text);
            }
        }
    }

    fn handle_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                // One may stand for several; those that have ended are looked for below.
                libc::SIGCHLD => {}
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => self.end_by_signal(signal),
                libc::SIGTSTP => {
                    self.guardian.signal(libc::SIGTSTP);
                    system::stop_self();
                    // Here we have been continued.
                    self.guardian.signal(libc::SIGCONT);
                }
                // Like the terminal's key, which reaches a program behind a shell script as well.
                libc::SIGQUIT => self.guardian.signal(signal),
                // These kill whoever doesn't expect them: for the ranks only.
                _ => self
                    .running()
                    .for_each(|rank| system::kill(rank.pid, signal)),
            }
        }
        self.reap();
    }

    fn running(&self) -> impl Iterator<Item = &Rank> {
        self.ranks.iter().filter(|rank| rank.ending.is_none())
    }

    fn end_by_signal(&mut self, signal: i32) {
        if self.phase != Phase::Running {
            self.kill();
            return;
        }
        let text = format!("received {}", signal_name(signal));
        self.blame(None, 128 + signal as u8, text);
        self.guardian.signal(signal);
        self.guardian.signal(libc::SIGCONT);
        self.phase = Phase::Asked(Instant::now() + GRACE_FOR_SIGNALS);
    }

    /// Takes note of the ranks that have ended.
    fn reap(&mut self) {
        let mut gone: Vec<(usize, Ending)> = Vec::new();
        while let Some((pid, ending)) = system::reap() {
            let rank = self.ranks.iter().position(|rank| rank.pid == pid);
            if let Some(rank) = rank.filter(|&rank| self.ranks[rank].ending.is_none()) {
                gone.push((rank, ending));
            }
        }
        // Of several that ended at once, a signal is likelier to be the cause than a code is.
        gone.sort_by_key(|(_, ending)| matches!(ending, Ending::Code(_)));
        for &(rank, ending) in &gone {
            // Its last words may say that it finalized or aborted.
            self.hear(rank);
            self.ranks[rank].ending = Some(ending);
            self.running -= 1;
        }
        for (rank, ending) in gone {
            self.judge(rank, ending);
        }
    }

    /// Decides what the end of a rank means for the job.
    fn judge(&mut self, rank: usize, ending: Ending) {
        if let Some(cause) = &self.cause {
            match ending {
                _ if cause.culprit == Some(rank) => {}
                Ending::Signal {
                    number: libc::SIGKILL,
                    ..
                } => self.ended.killed += 1,
                Ending::Signal { .. } => self.ended.asked += 1,
                Ending::Code(_) => self.ended.themselves += 1,
            }
            return;
        }
        let who = self.name(rank);
        let stage = self.server.stage(rank);
        match ending {
            Ending::Signal { number, core } => {
                let core = if core { ", core dumped" } else { "" };
                let text = format!(
                    "{who} was killed by signal {number}, {}{core}{}",
                    signal_name(number),
                    signal_hint(number)
                );
                self.fail(Some(rank), 128u8.saturating_add(number as u8), text);
            }
            // Having finalized, it owes nothing to the others; its code is the program's result.
            Ending::Code(code) if stage == Stage::Finalized => self.keep(code),
            Ending::Code(0) if stage == Stage::Silent => {}
            Ending::Code(code) if stage == Stage::Silent => {
                let text = format!("{who} exited with code {code}");
                self.fail(Some(rank), exit_code(code), text);
            }
            Ending::Code(code) if self.running == 0 => self.keep(code),
            Ending::Code(code) => {
                let text = format!("{who} exited with code {code} without calling MPI_Finalize");
                self.fail(Some(rank), exit_code(code).max(1), text);
            }
        }
    }

    /// Keeps the exit code of a rank that ended in order; the first that is not 0 counts.
    fn keep(&mut self, code: i32) {
        if self.code == 0 {
            self.code = exit_code(code);
        }
    }

    /// Ranks that wait for one that is gone wait for ever.
    fn look_for_deadlock(&mut self) {
        if self.cause.is_some() || self.server.waiting() == 0 || self.running == self.ranks.len() {
            return;
        }
        let gone = self.ranks.iter().position(|rank| rank.ending.is_some());
        let Some(gone) = gone else {
            return;
        };
        let how = match self.server.stage(gone) {
            Stage::Silent => "ended without calling MPI_Init",
            _ => "has ended",
        };
        let text = format!(
            "{} {how}, but others wait for it (in MPI_Init, most likely): {} of {} ranks",
            self.name(gone),
            self.server.waiting(),
            self.ranks.len()
        );
        self.fail(Some(gone), self.code.max(1), text);
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        match (self.phase, self.limit) {
            (Phase::Running, Some((at, limit))) if now >= at => {
                let seconds = limit.as_secs_f64();
                let text = format!("the job ran into its time limit of {seconds} seconds");
                self.blame(None, TIMED_OUT, text);
                self.guardian.signal(libc::SIGQUIT);
                self.guardian.signal(libc::SIGCONT);
                self.phase = Phase::LastWords(now + LAST_WORDS);
            }
            (Phase::LastWords(at), _) if now >= at => self.ask(),
            (Phase::Asked(at), _) if now >= at => self.kill(),
            _ => {}
        }
    }

    /// Ends the job because of what `text` says, unless it ends already.
    fn fail(&mut self, culprit: Option<usize>, code: u8, text: String) {
        if self.cause.is_none() {
            self.blame(culprit, code, text);
            self.ask();
        }
    }

    fn blame(&mut self, culprit: Option<usize>, code: u8, text: String) {
        let others = self
            .ranks
            .iter()
            .enumerate()
            .filter(|(rank, state)| state.ending.is_none() && culprit != Some(*rank));
        let others = others.count();
        self.cause = Some(Cause {
            code,
            text,
            culprit,
            others,
        });
    }

    fn ask(&mut self) {
        self.guardian.signal(libc::SIGTERM);
        // A process that is stopped gets to see the above when it goes on.
        self.guardian.signal(libc::SIGCONT);
        self.phase = Phase::Asked(Instant::now() + GRACE);
    }

    fn kill(&mut self) {
        self.guardian.signal(libc::SIGKILL);
        // A rank may have left the group.
        self.running()
            .for_each(|rank| system::kill(rank.pid, libc::SIGKILL));
        self.phase = Phase::Killed;
    }

    /// After the last rank: ends what they left running, passes on the rest of their output, and
    /// says what happened.
    fn finish(&mut self) -> u8 {
        self.end_strays();
        // From here on the usual keys end us, should the reader of our output be stuck.
        self.signals.give_back();
        for rank in &mut self.ranks {
            for (source, sink) in rank.sources.iter_mut().zip(&mut self.sinks) {
                if let Some(source) = source {
                    source.drain(sink, rank.label.as_deref());
                }
            }
        }
        self.sinks[0].write_all();
        let code = match &self.cause {
            Some(cause) => {
                let text = format!("{}\n{}", cause.text, self.ended.tell(cause.others));
                message(&mut self.sinks[1], &text);
                cause.code
            }
            None => self.code,
        };
        self.sinks[1].write_all();
        code
    }

    /// Ends processes that ranks started and left behind, and last the guardian.
    fn end_strays(&mut self) {
        let strays = || {
            let mut strays = children();
            strays.retain(|pid| *pid != self.guardian.group() && !self.not_ours.contains(pid));
            strays
        };
        let until = Instant::now() + GRACE_FOR_STRAYS;
        let mut asked = Vec::new();
        loop {
            while system::reap().is_some() {}
            let left = strays();
            if left.is_empty() || self.phase == Phase::Killed || Instant::now() >= until {
                break;
            }
            // Children of those that have ended become ours, so new ones may turn up.
            for pid in left {
                if !asked.contains(&pid) {
                    system::kill(pid, libc::SIGTERM);
                    system::kill(pid, libc::SIGCONT);
                    asked.push(pid);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.guardian.end();
        let until = Instant::now() + GRACE_FOR_STRAYS;
        loop {
            while system::reap().is_some() {}
            let left = strays();
            if left.is_empty() || Instant::now() >= until {
                break;
            }
            left.iter()
                .for_each(|&pid| system::kill(pid, libc::SIGKILL));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn name(&self, rank: usize) -> String {
        let pid = self.ranks[rank].pid;
        format!("rank {rank} on {} (pid {pid})", host())
    }
}

impl Ended {
    /// What became of the `others`.
    fn tell(&self, others: usize) -> String {
        let head = match others {
            0 => return "no other rank was running".to_owned(),
            1 => "the other rank was ended".to_owned(),
            n => format!("the {n} other ranks were ended"),
        };
        let mut parts = Vec::new();
        let mut add = |count: usize, how: &str| {
            if count > 0 {
                parts.push(format!("{count} {how}"));
            }
        };
        add(self.asked, "by SIGTERM or the like");
        add(self.killed, "by SIGKILL");
        add(self.themselves, "by exiting");
        format!("{head}: {}", parts.join(", "))
    }
}

/// The exit code for a rank's, which the kernel has cut to 8 bits already.
fn exit_code(code: i32) -> u8 {
    (code & 0xff) as u8
}

/// The exit code for one given to MPI_Abort: failure must not become 0 by being cut to 8 bits.
fn abort_code(code: i32) -> u8 {
    match exit_code(code) {
        0 if code != 0 => 1,
        code => code,
    }
}

/// A name that no other job has at the same time, nor soon after.
fn kvs_name() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!("kvs_{}_{:x}", std::process::id(), now.as_nanos())
}

/// The children of this process; empty if the kernel doesn't tell.
fn children() -> Vec<Pid> {
    let list = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let numbers = list.split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}
