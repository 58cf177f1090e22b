//! The end of a job: the rank that is to blame, the ranks that are asked to end and killed, and the
//! report of it.

use std::time::{Duration, Instant};

use pmi::server::Stage;

use super::Root;
use crate::core_files;
use crate::debugger;
use crate::hang::{self, Inquiry, LAST_WORDS, LAST_WORDS_OF_ALL, LOOK_FOR_WORDS};
use crate::hosts::place::Placement;
use crate::options::Options;
use crate::output::message;
use crate::report::{early_exit_hint, signal_hint, signal_name};
use crate::system::{self, Ending};
use crate::wire::messages::Down;

/// Time between asking ranks to end and killing them.
const GRACE: Duration = Duration::from_millis(300);
/// The same after a signal from outside, whose sender may want a program to save its work.
const GRACE_FOR_SIGNALS: Duration = Duration::from_secs(5);
/// Time within which two signals of a kind count as one: timeout(1) sends its signal to its child, and
/// then to the process group, in which the child is.
const TWICE: Duration = Duration::from_millis(100);
/// Time that others may run on after a rank that ended with 0 but without MPI_Finalize: programs that
/// leave like this do so at about the same time. Longer than a process takes to report a lost peer (a
/// second over UCX), also on a busy machine.
const GRACE_FOR_OTHERS: Duration = Duration::from_secs(3);
/// Time for wait reports of a job that an interrupt ends.
const INTERRUPTED_WORDS: Duration = Duration::from_secs(1);
/// Most time from the closing of a killed process's connections to the report of its end.
const DYING: Duration = Duration::from_millis(500);
/// Time for agents to report the ends of killed ranks.
const REPORTS: Duration = Duration::from_millis(1000);
/// Age at which the ranks' stages are asked for again.
const STAGES_AGE: Duration = Duration::from_secs(1);
/// The exit code after a time-out, as timeout(1) has it.
const TIMED_OUT: u8 = 124;
/// The exit code of a rank that has found another lost: the class MPIX_ERR_PROC_FAILED.
const PROC_FAILED: i32 = 101;

/// Progress of the job's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not begun.
    Running,
    /// Ranks were asked for wait reports: they have time until `least`, and until `most` if one of
    /// them has not printed it. Then they get `signal`, and have `grace` to end.
    LastWords {
        least: Instant,
        most: Instant,
        signal: i32,
        grace: Duration,
    },
    /// Ranks were asked to end, and are killed at this time.
    Asked(Instant),
    /// Ranks were killed, and agents have reported it by this time.
    Killed(Instant),
}

/// Why the job ends early.
pub(super) struct Cause {
    code: u8,
    text: String,
    /// The ranks that still ran when it came, without the one to blame, in order.
    others: Vec<usize>,
}

/// Ranks that ended with 0 but without MPI_Finalize.
pub(super) struct UnfinalizedExits {
    first: usize,
    count: usize,
    /// When ranks that still run are taken to wait for them.
    grace: Option<Instant>,
}

/// A rank that ended because it has found another lost.
pub(super) struct PeerLoss {
    rank: usize,
    text: String,
    /// When it is taken for the cause itself.
    until: Instant,
}

/// Numbers of ranks that were not the cause, by their ends.
#[derive(Default)]
pub(super) struct Ended {
    asked: usize,
    killed: usize,
    themselves: usize,
}

impl Cause {
    /// Counts a rank among those that run.
    pub(super) fn add(&mut self, rank: usize) {
        if let Err(place) = self.others.binary_search(&rank) {
            self.others.insert(place, rank);
        }
    }
}

impl Root {
    pub(super) fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            match number {
                libc::SIGCHLD => {}
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => self.end_by_signal(number),
                libc::SIGTSTP => {
                    self.signal(number);
                    system::stop_self();
                    // Here we have been continued.
                    self.signal(libc::SIGCONT);
                }
                // The terminal's key sends it as well; it then reaches programs behind shell scripts.
                libc::SIGQUIT => {
                    self.ask_for_reports(true);
                    self.inquiry = Some(Inquiry::new());
                }
                // These kill a process that does not handle them, so only the ranks get them.
                _ => self.children.send(&Down::Signal {
                    number,
                    group: false,
                }),
            }
        }
        while let Some((pid, ending)) = system::reap() {
            if self.guardian.take_if(|guardian| *guardian == pid).is_some() {
                // Another group may get the number.
                self.own = None;
                continue;
            }
            let mut actions = Vec::new();
            let server = &mut self.server;
            match self.offspring.reap(pid, ending, server, &mut actions) {
                Some(code) => self.keep(code),
                None => {
                    self.children.reaped(pid, ending, &mut self.events);
                }
            }
            actions.into_iter().for_each(|action| self.act(action));
        }
    }

    /// Sends a signal to all process groups of the job.
    fn signal(&mut self, number: i32) {
        self.children.send(&Down::Signal {
            number,
            group: true,
        });
        if let Some(own) = &mut self.own {
            own.signal(number);
        }
    }

    fn end_by_signal(&mut self, number: i32) {
        if self.phase != Phase::Running {
            let is_twice = |(first, at)| first == number && Instant::now() < at + TWICE;
            if !self.ended_by.is_some_and(is_twice) {
                self.kill();
            }
            return;
        }
        self.ask_because_of(number);
        // Thousands of ranks that end may have kept this process from its core until now.
        self.ended_by = Some((number, Instant::now()));
    }

    /// Asks all ranks to end because of a signal from outside.
    fn ask_because_of(&mut self, number: i32) {
        let text = format!("received {}", signal_name(number));
        self.blame(None, 128 + number as u8, text);
        let grace = if self.is_spawned {
            GRACE
        } else {
            GRACE_FOR_SIGNALS
        };
        // Whoever interrupts a job may want to know why it has not ended.
        if number == libc::SIGINT && self.hosts.iter().all(|host| host.settled) {
            let now = Instant::now();
            self.listen(true);
            self.children.send(&Down::LastWords {});
            self.signal(libc::SIGCONT);
            self.inquiry = None;
            self.phase = Phase::LastWords {
                least: now,
                most: now + INTERRUPTED_WORDS,
                signal: number,
                grace,
            };
            return;
        }
        self.ask(number, grace);
    }

    pub(super) fn has_ended(&mut self, rank: usize, ending: Ending, stage: Stage) {
        let state = &mut self.ranks[rank];
        if state.ending.is_some() || state.pid.is_none() {
            return;
        }
        state.ending = Some(ending);
        state.stage = stage;
        self.running -= 1;
        self.judge(rank, ending, stage);
    }

    /// Records the loss of hosts and of their ranks.
    pub(super) fn lose_hosts(&mut self, hosts: &[u32], text: String) {
        let mut lost = Vec::new();
        for &host in hosts {
            let host = &mut self.hosts[host as usize];
            host.settled = true;
            host.spoken = true;
            host.stuck = 0;
            if host.is_own {
                self.own = None;
            }
            lost.extend(host.ranks.iter().copied());
        }
        lost.retain(|&rank| self.ranks[rank].ending.is_none());
        for &rank in &lost {
            let state = &mut self.ranks[rank];
            state.ending = Some(Ending::Signal {
                number: libc::SIGKILL,
                core: false,
            });
            state.lost = true;
            if state.pid.is_some() {
                self.running -= 1;
            }
        }
        if self.cause.is_some() {
            let others = self.cause.as_ref().map(|cause| &cause.others);
            let counted = |rank: &&usize| others.is_some_and(|all| all.binary_search(rank).is_ok());
            self.ended.killed += lost.iter().filter(counted).count();
            return;
        }
        let what = match (lost.len(), lost.first()) {
            (0, _) => String::new(),
            (1, Some(rank)) => format!(", and with it rank {rank}"),
            (n, Some(rank)) => format!(", and with it {n} ranks, from rank {rank} on"),
            _ => String::new(),
        };
        let text = format!("{text}{what}");
        match self.cleanup {
            true => self.fail(None, 1, text),
            false => {
                message(
                    &mut self.output.sinks[1],
                    &format!("{text}\nthe others go on"),
                );
                self.keep(1);
            }
        }
    }

    pub(super) fn abort(&mut self, rank: usize, code: i32, ranks: &str, why: &str) {
        let who = self.name(rank);
        let code_of_job = abort_code(code);
        let result = match code_of_job {
            given if i32::from(given) == code => String::new(),
            given => format!(" (so this job's is {given})"),
        };
        let why = match why.trim() {
            "" => String::new(),
            why => format!(": {why}"),
        };
        let text = format!("{who} aborted with code {code}{result}{why}");
        let some = pmi::ranks::parse(ranks, self.ranks.len());
        match (code, some) {
            (_, Some(some)) if !self.cleanup => self.end_some(rank, &some, code_of_job, &text),
            (PROC_FAILED, _) => {
                self.peer_loss.get_or_insert(PeerLoss {
                    rank,
                    text,
                    until: Instant::now() + DYING,
                });
            }
            _ => self.fail(Some(rank), code_of_job, text),
        }
    }

    /// Ends the ranks of a communicator on which `caller` has called MPI_Abort; the others go on.
    fn end_some(&mut self, caller: usize, ranks: &[usize], code: u8, text: &str) {
        let what = format!(
            "{text}, and with it {}",
            crate::report::ended_with(ranks.len())
        );
        let sink = &mut self.output.sinks[1];
        message(sink, &format!("{what}\nthe others go on"));
        self.keep(code.into());
        for rank in ranks {
            self.ranks[*rank].aborted = true;
            self.server.note_aborted(*rank as u32);
        }
        self.children.send(&Down::Abort {
            caller: caller as u32,
            ranks: ranks.iter().map(|rank| *rank as u32).collect(),
        });
    }

    /// Blames the rank that has found another lost, if all ranks have ended and none was it.
    pub(super) fn end_without_the_dead(&mut self) {
        if let Some(peer_loss) = &self.peer_loss {
            self.look_at_loss(peer_loss.until);
        }
    }

    fn look_at_loss(&mut self, now: Instant) {
        if self.cause.is_none()
            && let Some(PeerLoss { rank, text, .. }) =
                self.peer_loss.take_if(|one| now >= one.until)
        {
            let text = match &self.unfinalized {
                Some(one) => {
                    crate::report::after_exit_without_finalize(&self.name(one.first), &text)
                }
                None => text,
            };
            self.fail(Some(rank), abort_code(PROC_FAILED), text);
        }
    }

    /// Decides what the end of a rank means for the job.
    fn judge(&mut self, rank: usize, ending: Ending, stage: Stage) {
        if let Some(cause) = &self.cause {
            self.cores.extend(self.ranks[rank].core.clone());
            match ending {
                _ if cause.others.binary_search(&rank).is_err() => {}
                Ending::Signal {
                    number: libc::SIGKILL,
                    ..
                } => self.ended.killed += 1,
                Ending::Signal { .. } => self.ended.asked += 1,
                Ending::Code(_) => self.ended.themselves += 1,
            }
            return;
        }
        if self.ranks[rank].aborted {
            return self.lose(rank);
        }
        // The exit code of a rank that has found another lost says nothing of the cause.
        if self.peer_loss.is_some() && matches!(ending, Ending::Code(PROC_FAILED)) {
            return;
        }
        let who = self.name(rank);
        match (ending, stage) {
            (Ending::Signal { number, core }, _) => {
                let core = core_files::describe(core, self.ranks[rank].core.as_deref());
                let text = format!(
                    "{who} was killed by signal {number}, {}{core}{}",
                    signal_name(number),
                    signal_hint(number)
                );
                self.fail(Some(rank), 128u8.saturating_add(number as u8), text);
            }
            // Having finalized, it owes nothing to the others; its code is the program's result.
            (Ending::Code(code), Stage::Finalized) => self.keep(code),
            (Ending::Code(0), Stage::Silent) => {}
            (Ending::Code(code), Stage::Silent) => {
                let text = format!("{who} exited with code {code}{}", early_exit_hint(code));
                self.fail(Some(rank), exit_code(code), text);
            }
            (Ending::Code(0), Stage::Active) => {
                self.lose(rank);
                let grace = self.cleanup.then(|| Instant::now() + GRACE_FOR_OTHERS);
                let first = UnfinalizedExits {
                    first: rank,
                    count: 0,
                    grace,
                };
                self.unfinalized.get_or_insert(first).count += 1;
            }
            (Ending::Code(code), Stage::Active) => {
                let text = format!("{who} exited with code {code} without calling MPI_Finalize");
                self.fail(Some(rank), exit_code(code), text);
            }
        }
    }

    /// Keeps an exit code; the first that is not 0 counts.
    pub(super) fn keep(&mut self, code: i32) {
        if self.code == 0 {
            self.code = exit_code(code);
        }
    }

    /// Ends the job if ranks wait in a fence for one that is gone.
    pub(super) fn look_for_deadlock(&mut self) {
        if self.cause.is_some() {
            return;
        }
        let is_gone = |rank: &super::Rank| rank.ending.is_some() && !rank.lost;
        let Some(gone) = self.ranks.iter().position(is_gone) else {
            return;
        };
        let waiting = self.waiting();
        if waiting == 0 {
            return;
        }
        let how = match self.ranks[gone].stage {
            Stage::Silent => "ended without calling MPI_Init",
            Stage::Active => "exited with code 0 without calling MPI_Finalize",
            Stage::Finalized => "has ended",
        };
        let text = format!(
            "{} {how}, but others wait for it (in MPI_Init, most likely): {waiting} of {} ranks",
            self.name(gone),
            self.ranks.len()
        );
        self.fail(Some(gone), self.code.max(1), text);
    }

    /// Returns the number of ranks that are known to wait in a fence: those of children that wait for
    /// other children, and those that wait for a rank of their own host that is gone.
    fn waiting(&self) -> usize {
        let come = (0..self.children.len()).filter(|child| self.fence.has_come(child + 1));
        let come: usize = come.map(|child| self.children.ranks(child)).sum();
        come + self.hosts.iter().map(|host| host.stuck).sum::<usize>()
    }

    /// Returns when to call [`Self::look_at_clock`].
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => {
                let limit = self.limit.map(|limit| limit.0);
                let grace = self.unfinalized.as_ref().and_then(|some| some.grace);
                let patience = self.peer_loss.as_ref().map(|one| one.until);
                let inquiry = self.inquiry.map(|inquiry| inquiry.due());
                let other_mpi = self.other_mpi.due().filter(|_| self.running > 0);
                [limit, grace, patience, inquiry, other_mpi]
                    .into_iter()
                    .flatten()
                    .min()
            }
            Phase::LastWords { least, most, .. } => {
                let now = Instant::now();
                Some(if now < least {
                    least
                } else {
                    most.min(now + LOOK_FOR_WORDS)
                })
            }
            Phase::Asked(at) | Phase::Killed(at) => Some(at),
        }
    }

    /// Collects the ranks' wait reports from now on; with `quiet` they are not printed.
    fn listen(&mut self, quiet: bool) {
        for host in &mut self.hosts {
            host.spoken = host
                .ranks
                .iter()
                .all(|&rank| self.ranks[rank].ending.is_some());
        }
        self.output.listen(quiet);
    }

    /// Collects the ranks' wait reports from now on. With `by_signal`, all ranks are asked for one.
    fn ask_for_reports(&mut self, by_signal: bool) {
        self.listen(false);
        self.children.send(&Down::Where { by_signal });
    }

    /// Handles the notice that a rank waits without progress: when all ranks in MPI do, each is asked
    /// for a wait report.
    pub(super) fn hear_of_standstill(&mut self, rank: usize, seconds: u64) {
        let now = Instant::now();
        let free = self.phase == Phase::Running && self.inquiry.is_none();
        let heard = self.standstill.hear(rank, now, self.ranks_in_mpi());
        if heard.hang && free {
            self.ask_for_reports(false);
            self.inquiry = Some(Inquiry::of_standstill(seconds));
        }
        let mut actions = Vec::new();
        self.server.report_wanted(rank, heard.asked, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
        // An old stage only hides a hang: a rank calls MPI_Init and MPI_Finalize once.
        if self.stages_asked.is_none_or(|at| now >= at + STAGES_AGE) {
            self.stages_asked = Some(now);
            self.children.send(&Down::Stages {});
        }
    }

    /// Returns the running ranks that are in MPI; `None` if there may be others that make progress:
    /// a running rank has not called MPI_Init, or processes of other jobs, which the launcher of
    /// neither job sees together.
    fn ranks_in_mpi(&self) -> Option<Vec<usize>> {
        if self.is_spawned || self.offspring.any() {
            return None;
        }
        let running = self.ranks.iter().enumerate();
        let running = running.filter(|(_, rank)| rank.ending.is_none());
        let mut in_mpi = Vec::new();
        for (number, rank) in running {
            match rank.stage {
                Stage::Silent => return None,
                Stage::Active => in_mpi.push(number),
                Stage::Finalized => {}
            }
        }
        Some(in_mpi)
    }

    pub(super) fn look_at_clock(&mut self) {
        let now = Instant::now();
        if let Some(inquiry) = self.inquiry
            && inquiry.is_over(|| self.hosts.iter().all(|host| host.spoken))
        {
            self.inquiry = None;
            let text = inquiry.answer(self.output.heard());
            message(&mut self.output.sinks[1], &text);
        }
        self.look_at_loss(now);
        let mut of_own_host = self.hosts.iter().filter(|host| host.is_own);
        let first = of_own_host.next().and_then(|host| host.ranks.first());
        let pid = first.and_then(|&rank| self.ranks[rank].pid);
        self.other_mpi.look(pid, now);
        if let (Phase::Running, Some(unfinalized)) = (self.phase, &self.unfinalized)
            && unfinalized.grace.is_some_and(|at| now >= at)
            && self.running > 0
        {
            let text = format!(
                "{} exited with code 0 without calling MPI_Finalize, and others have not ended",
                self.name(unfinalized.first)
            );
            self.fail(Some(unfinalized.first), self.code.max(1), text);
        }
        match (self.phase, self.limit) {
            (Phase::Running, Some((at, limit))) if now >= at => {
                let seconds = limit.as_secs_f64();
                let text = format!("the job ran into its time limit of {seconds} seconds");
                self.blame(None, TIMED_OUT, text);
                self.ask_for_reports(true);
                // A process that is stopped gets the request when it goes on.
                self.signal(libc::SIGCONT);
                self.inquiry = None;
                self.phase = Phase::LastWords {
                    least: now + LAST_WORDS,
                    most: now + LAST_WORDS_OF_ALL,
                    signal: libc::SIGTERM,
                    grace: GRACE,
                };
            }
            (
                Phase::LastWords {
                    least,
                    most,
                    signal,
                    grace,
                },
                _,
            ) if now >= most || (now >= least && self.hosts.iter().all(|host| host.spoken)) => {
                self.ask(signal, grace);
            }
            (Phase::Asked(at), _) if now >= at => self.kill(),
            _ => {}
        }
    }

    /// Returns whether ranks were killed and agents had their time to report it.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.phase, Phase::Killed(until) if Instant::now() >= until)
    }

    /// Removes a rank from the fences of the others, which go on.
    fn lose(&mut self, rank: usize) {
        if !self.cleanup {
            self.ranks[rank].lost = true;
            let host = self.ranks[rank].host as u32;
            let rank = rank as u32;
            self.children.send(&Down::Lose { host, rank });
        }
    }

    /// Ends the job for the reason `text`, unless it ends already or the others survive the loss of
    /// the rank `culprit`.
    pub(super) fn fail(&mut self, culprit: Option<usize>, code: u8, text: String) {
        let gone = culprit.filter(|&rank| self.ranks[rank].ending.is_some());
        if let (Some(rank), false, None) = (gone, self.cleanup, &self.cause) {
            message(
                &mut self.output.sinks[1],
                &format!("{text}\nthe others go on"),
            );
            self.keep(code.into());
            self.lose(rank);
            return;
        }
        if self.cause.is_none() {
            self.blame(culprit, code, text);
            self.ask(libc::SIGTERM, GRACE);
        }
    }

    fn blame(&mut self, culprit: Option<usize>, code: u8, text: String) {
        let runs = |rank: &usize| {
            let state = &self.ranks[*rank];
            state.pid.is_some() && state.ending.is_none() && culprit != Some(*rank)
        };
        let others = (0..self.ranks.len()).filter(runs).collect();
        debugger::aborting(&text);
        self.cause = Some(Cause { code, text, others });
    }

    /// Asks all ranks by a signal to end within `grace`.
    fn ask(&mut self, signal: i32, grace: Duration) {
        if let (Phase::LastWords { .. }, Some(cause)) = (self.phase, &mut self.cause)
            && let Some(text) = hang::summary(self.output.heard())
        {
            cause.text = format!("{}\n{text}", cause.text);
        }
        self.children.give_up_the_unborn();
        self.signal(signal);
        self.offspring.signal(signal);
        // A process that is stopped gets to see the above when it goes on.
        self.signal(libc::SIGCONT);
        self.phase = Phase::Asked(Instant::now() + grace);
    }

    fn kill(&mut self) {
        if !matches!(self.phase, Phase::Killed(_)) {
            self.children.send(&Down::Kill {});
            if let Some(own) = &mut self.own {
                own.signal(libc::SIGKILL);
            }
            // Its agents end the ranks of a spawned job.
            self.offspring.signal(libc::SIGKILL);
            self.phase = Phase::Killed(Instant::now() + REPORTS);
        }
    }

    /// Reports to the spawner of this job, if it is a spawned one, that it runs, or why not.
    pub(super) fn tell_spawner(&mut self, options: &Options, placement: &Placement) {
        let Some(spawned) = options.spawned.as_ref().filter(|_| !self.is_spawn_answered) else {
            return;
        };
        // One that ends as soon as it has been started is no refusal.
        let runs = self.ranks.iter().all(|rank| rank.pid.is_some());
        match &self.cause {
            Some(cause) if !runs => {
                spawned.failed(&cause.text);
                self.refused = true;
            }
            None if self.hosts.iter().any(|host| !host.settled) => return,
            _ => spawned.started(placement),
        }
        self.is_spawn_answered = true;
    }

    /// Reports what happened. Returns the job's exit code, or 0 if the ranks' own counts.
    pub(super) fn tell_end(&mut self, options: &Options) -> u8 {
        let mut code = 0;
        if let Some(spawned) = &options.spawned {
            let cause = self.cause.as_ref().map(|cause| cause.text.as_str());
            spawned.tell_end(cause.unwrap_or("all its processes have ended"));
        }
        if let Some(cause) = self.cause.as_ref().filter(|_| !self.refused) {
            let all = self.ranks.iter().filter(|rank| rank.pid.is_some()).count();
            let text = match all {
                0 => cause.text.clone(),
                _ => format!(
                    "{}\n{}{}",
                    cause.text,
                    self.ended.tell(cause.others.len(), all),
                    core_files::describe_others(&self.cores)
                ),
            };
            self.output.sinks[0].write_ready();
            message(&mut self.output.sinks[1], &text);
            code = cause.code;
        }
        let said = |cause: &Cause| cause.text.contains("without calling MPI_Finalize");
        if let (false, Some(unfinalized)) =
            (self.cause.as_ref().is_some_and(said), &self.unfinalized)
        {
            let others = match unfinalized.count {
                1 => String::new(),
                n => format!(", and so did {} more", n - 1),
            };
            let text = format!(
                "warning: {} exited with code 0 without calling MPI_Finalize{others}",
                self.name(unfinalized.first)
            );
            message(&mut self.output.sinks[1], &text);
        }
        let is_silent = |rank: &super::Rank| rank.stage == Stage::Silent;
        if let Some(path) = self
            .other_mpi
            .found()
            .filter(|_| self.ranks.iter().all(is_silent))
        {
            let text = format!(
                "warning: no rank has spoken to mpiexec: the program has loaded another MPI, {}, under \
                 which each rank is a job of its own; see Existing binaries in docs/run.md",
                path.display()
            );
            message(&mut self.output.sinks[1], &text);
        }
        code
    }

    pub(super) fn name(&self, rank: usize) -> String {
        let state = &self.ranks[rank];
        let pid = state.pid.unwrap_or(0);
        format!("rank {rank} on {} (pid {pid})", self.hosts[state.host].name)
    }
}

impl Ended {
    /// What became of the `others`; they may be `all`, if no rank was the cause.
    fn tell(&self, others: usize, all: usize) -> String {
        let head = match others {
            0 => return "no other rank was running".to_owned(),
            1 if all == 1 => "the rank was ended".to_owned(),
            n if n == all => format!("all {n} ranks were ended"),
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
        add(
            others.saturating_sub(self.asked + self.killed + self.themselves),
            "with their agents",
        );
        format!("{head}: {}", parts.join(", "))
    }
}

/// Returns the exit code for a rank's, which the kernel has cut to 8 bits already.
fn exit_code(code: i32) -> u8 {
    (code & 0xff) as u8
}

/// Returns the exit code for one given to MPI_Abort (section 8.7 leaves it to the launcher). A job
/// that was aborted has failed, which 0, given or left by the cut to 8 bits, would hide.
fn abort_code(code: i32) -> u8 {
    exit_code(code).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_says_how_long_others_may_run_on() {
        let seconds = GRACE_FOR_OTHERS.as_secs();
        let text = format!("for more than {seconds} seconds");
        let help = crate::help::text(Some("ending")).unwrap();
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(&text), "{text}");
    }
}
