//! How a job ends: who is to blame, who is asked and who is made to go, and what is said about it.

use std::time::{Duration, Instant};

use pmi::server::Stage;

use super::Job;
use crate::core_files;
use crate::debugger;
use crate::hang::{self, Inquiry, LAST_WORDS, LAST_WORDS_OF_ALL};
use crate::label;
use crate::options::Options;
use crate::orphans;
use crate::output::{Source, message};
use crate::rank::Rank;
use crate::report::{early_exit_hint, exit_codes, host, signal_hint, signal_name};
use crate::system::{self, Ending};

/// Between asking a rank to end and making it.
const GRACE: Duration = Duration::from_millis(300);
/// The same after a signal from outside, whose sender may want a program to save its work.
const GRACE_FOR_SIGNALS: Duration = Duration::from_secs(5);
/// Lines of a rank that has said it: that it was asked, and for what it waits.
const WORDS: usize = 2;
/// How long others may run on after one that ended with 0 but without MPI_Finalize: programs that
/// leave like this all do so at about the same time. Longer than a process holds back the news that it
/// has lost a peer (a second over UCX), also on a machine that is busy otherwise.
const GRACE_FOR_OTHERS: Duration = Duration::from_secs(3);
/// The exit code after a time-out, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not begun.
    Running,
    /// Ranks were asked to say where they are: they get time until `least`, and until `most` if one
    /// of them has not.
    LastWords { least: Instant, most: Instant },
    /// Ranks were asked to end, and will be made to at this time.
    Asked(Instant),
    /// Ranks were killed.
    Killed,
}

pub(super) struct Cause {
    code: u8,
    text: String,
    /// The ranks that still ran when it came, less the one to blame, in order.
    others: Vec<usize>,
}

/// Ranks that ended with 0 but without MPI_Finalize.
pub(super) struct Deserters {
    first: usize,
    count: usize,
    /// From when on others that still run are taken to wait for them.
    pub(super) grace: Option<Instant>,
}

/// A rank that ended because it has found another lost.
pub(super) struct Bereaved {
    rank: usize,
    text: String,
    /// When it is taken for the cause itself.
    pub until: Instant,
}

/// How the ranks ended that were not the cause.
#[derive(Default)]
pub(super) struct Ended {
    asked: usize,
    killed: usize,
    themselves: usize,
}

impl Job {
    pub(super) fn handle_signals(&mut self) {
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
                libc::SIGQUIT => {
                    self.guardian.signal(signal);
                    self.listen();
                    self.inquiry = Some(Inquiry::new());
                }
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
        self.offspring.signal(signal);
        let grace = if self.is_spawned {
            GRACE
        } else {
            GRACE_FOR_SIGNALS
        };
        self.phase = Phase::Asked(Instant::now() + grace);
    }

    /// Takes note of the ranks that have ended.
    fn reap(&mut self) {
        let mut gone: Vec<(usize, Ending)> = Vec::new();
        while let Some((pid, ending)) = system::reap() {
            let mut actions = Vec::new();
            let server = &mut self.server;
            if let Some(code) = self.offspring.reap(pid, ending, server, &mut actions) {
                self.keep(code);
            }
            actions.into_iter().for_each(|action| self.act(action));
            let rank = self.ranks.iter().position(|rank| rank.pid == pid);
            if let Some(rank) = rank.filter(|&rank| self.ranks[rank].ending.is_none()) {
                gone.push((rank, ending));
            }
        }
        // Of several that ended at once, a signal is likelier to be the cause than a code is.
        gone.sort_by_key(|(_, ending)| matches!(ending, Ending::Code(_)));
        for &(rank, ending) in &gone {
            // Its last words may say that it finalized or aborted, and nobody reads answers.
            self.ranks[rank].answers.clear();
            self.hear(rank);
            self.ranks[rank].note_core(rank, ending);
            self.ranks[rank].ending = Some(ending);
            self.running -= 1;
        }
        for (rank, ending) in gone {
            self.judge(rank, ending);
        }
    }

    /// A rank ends because it has found another lost: that one is the cause, if it has died. Its connections
    /// close before it can be seen to have ended.
    pub(super) fn suspect_loss(&mut self, rank: usize, text: String) {
        self.bereaved.get_or_insert(Bereaved {
            rank,
            text,
            until: Instant::now() + DYING,
        });
    }

    /// All ranks have ended, and none of them is the one that was lost.
    pub(super) fn end_without_the_dead(&mut self) {
        if let Some(bereaved) = &self.bereaved {
            self.look_at_loss(bereaved.until);
        }
    }

    /// Nobody has died whom that rank could have lost.
    fn look_at_loss(&mut self, now: Instant) {
        if self.cause.is_none()
            && let Some(Bereaved { rank, text, .. }) = self.bereaved.take_if(|one| now >= one.until)
        {
            let text = match &self.deserters {
                Some(one) => {
                    crate::report::after_exit_without_finalize(&self.name(one.first), &text)
                }
                None => text,
            };
            self.fail(Some(rank), abort_code(PROC_FAILED), text);
        }
    }

    /// Decides what the end of a rank means for the job.
    fn judge(&mut self, rank: usize, ending: Ending) {
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
        if self.aborted.contains(&rank) {
            return self.lose(rank);
        }
        // What others end with who have found somebody lost says nothing of the cause.
        if self.bereaved.is_some() && matches!(ending, Ending::Code(PROC_FAILED)) {
            return;
        }
        let who = self.name(rank);
        let stage = self.server.stage(rank);
        match ending {
            Ending::Signal { number, core } => {
                let core = core_files::describe(core, self.ranks[rank].core.as_deref());
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
                let text = format!("{who} exited with code {code}{}", early_exit_hint(code));
                self.fail(Some(rank), exit_code(code), text);
            }
            // The program's result is there. Whether others wait for this rank shows later.
            Ending::Code(0) => {
                self.lose(rank);
                let grace = self.cleanup.then(|| Instant::now() + GRACE_FOR_OTHERS);
                let first = Deserters {
                    first: rank,
                    count: 0,
                    grace,
                };
                self.deserters.get_or_insert(first).count += 1;
            }
            Ending::Code(code) => {
                let text = format!("{who} exited with code {code} without calling MPI_Finalize");
                self.fail(Some(rank), exit_code(code), text);
            }
        }
    }

    /// Keeps the exit code of a rank that ended in order; the first that is not 0 counts.
    pub(super) fn keep(&mut self, code: i32) {
        if self.code == 0 {
            self.code = exit_code(code);
        }
    }

    /// Ranks that wait for one that is gone wait for ever.
    pub(super) fn look_for_deadlock(&mut self) {
        if self.cause.is_some() || self.server.waiting() == 0 || self.running == self.ranks.len() {
            return;
        }
        let missed = |rank: usize| self.ranks[rank].ending.is_some() && !self.server.is_lost(rank);
        let gone = (0..self.ranks.len()).find(|&rank| missed(rank));
        let Some(gone) = gone else {
            return;
        };
        let how = match self.server.stage(gone) {
            Stage::Silent => "ended without calling MPI_Init",
            Stage::Active => "exited with code 0 without calling MPI_Finalize",
            Stage::Finalized => "has ended",
        };
        let text = format!(
            "{} {how}, but others wait for it (in MPI_Init, most likely): {} of {} ranks",
            self.name(gone),
            self.server.waiting(),
            self.ranks.len()
        );
        self.fail(Some(gone), self.code.max(1), text);
    }

    pub(super) fn look_at_clock(&mut self) {
        let now = Instant::now();
        self.look_for_answers();
        self.look_at_loss(now);
        if let (Phase::Running, Some(deserters)) = (self.phase, &self.deserters)
            && deserters.grace.is_some_and(|at| now >= at)
            && self.running > 0
        {
            let text = format!(
                "{} exited with code 0 without calling MPI_Finalize, and others have not ended",
                self.name(deserters.first)
            );
            self.fail(Some(deserters.first), self.code.max(1), text);
        }
        match (self.phase, self.limit) {
            (Phase::Running, Some((at, limit))) if now >= at => {
                let seconds = limit.as_secs_f64();
                let text = format!("the job ran into its time limit of {seconds} seconds");
                self.blame(None, TIMED_OUT, text);
                self.guardian.signal(libc::SIGQUIT);
                self.guardian.signal(libc::SIGCONT);
                self.listen();
                self.inquiry = None;
                self.phase = Phase::LastWords {
                    least: now + LAST_WORDS,
                    most: now + LAST_WORDS_OF_ALL,
                };
            }
            (Phase::LastWords { least, most }, _)
                if now >= most || (now >= least && self.all_have_spoken()) =>
            {
                self.ask();
            }
            (Phase::Asked(at), _) if now >= at => self.kill(),
            _ => {}
        }
    }

    /// Keeps what ranks say from now on.
    fn listen(&mut self) {
        for rank in &mut self.ranks {
            rank.lines_before = rank.error_lines();
            if let Some(source) = &mut rank.sources[1] {
                source.listen();
            }
        }
    }

    /// A rank stands still: when all do, they are asked where they are.
    pub(super) fn hear_of_standstill(&mut self, rank: usize, seconds: u64) {
        let free = self.phase == Phase::Running && self.inquiry.is_none();
        // Spawned processes and those that have spawned them wait for each other, which nobody sees together; and
        // who has not called MPI_Init does something else.
        let known = !self.is_spawned && !self.offspring.any();
        let runs = |rank: &usize| self.ranks[*rank].ending.is_none();
        let running = (0..self.ranks.len()).filter(runs);
        let stages: Vec<(usize, Stage)> =
            running.map(|one| (one, self.server.stage(one))).collect();
        let silent = stages.iter().any(|(_, stage)| *stage == Stage::Silent);
        let active = stages.iter().filter(|(_, stage)| *stage == Stage::Active);
        let in_mpi = (known && !silent).then(|| active.map(|(one, _)| *one).collect());
        let heard = self.standstill.hear(rank, Instant::now(), in_mpi);
        if heard.hang && free {
            self.listen();
            self.inquiry = Some(Inquiry::of_standstill(seconds));
        }
        let mut actions = Vec::new();
        self.server.report_wanted(rank, heard.asked, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
    }

    /// Says who waits where, once all have answered.
    fn look_for_answers(&mut self) {
        let Some(inquiry) = self.inquiry else { return };
        if inquiry.is_over(|| self.all_have_spoken()) {
            self.inquiry = None;
            let sources = self
                .ranks
                .iter()
                .filter_map(|rank| rank.sources[1].as_ref());
            let text = inquiry.answer(sources.map(Source::heard));
            message(&mut self.sinks[1], &text);
        }
    }

    /// Whether all ranks that are in MPI have said where they are.
    fn all_have_spoken(&self) -> bool {
        let in_mpi = |rank: &usize| {
            self.ranks[*rank].ending.is_none() && self.server.stage(*rank) == Stage::Active
        };
        let said = |rank: usize| {
            let rank = &self.ranks[rank];
            rank.error_lines() >= rank.lines_before + WORDS
        };
        (0..self.ranks.len()).filter(in_mpi).all(said)
    }

    /// Says once why a stream of ours can't be written to.
    pub(super) fn tell_failures(&mut self) {
        for (stream, name) in [(0, "standard output"), (1, "standard error")] {
            let Some(error) = self.sinks[stream].failure() else {
                continue;
            };
            let text = format!(
                "{name} can't be written to: {error}. What the ranks print there from now on is lost"
            );
            if !std::mem::replace(&mut self.told[stream], true) {
                self.keep(1);
                message(&mut self.sinks[1], &text);
            }
        }
    }

    /// Why the job ends, if something went wrong.
    pub(super) fn cause_text(&self) -> Option<&str> {
        self.cause.as_ref().map(|cause| cause.text.as_str())
    }

    /// Does without a rank: the others' fences don't wait for it.
    fn lose(&mut self, rank: usize) {
        if !self.cleanup {
            let mut actions = Vec::new();
            self.server.lose(rank, &mut actions);
            actions.into_iter().for_each(|action| self.act(action));
        }
    }

    /// Ends the job because of what `text` says, unless it ends already, or because of the loss of a
    /// rank that the others are to survive.
    pub(super) fn fail(&mut self, culprit: Option<usize>, code: u8, text: String) {
        let gone = culprit.filter(|&rank| self.ranks[rank].ending.is_some());
        if let (Some(rank), false, None) = (gone, self.cleanup, &self.cause) {
            message(&mut self.sinks[1], &format!("{text}\nthe others go on"));
            self.keep(code.into());
            self.lose(rank);
            return;
        }
        if self.cause.is_none() {
            self.blame(culprit, code, text);
            self.ask();
        }
    }

    /// Ends some ranks because one of them has called MPI_Abort on a communicator of theirs; the others go on.
    pub(super) fn end_some(&mut self, caller: usize, ranks: Vec<usize>, code: u8, text: String) {
        let what = format!(
            "{text}, and with it {}",
            crate::report::ended_with(ranks.len())
        );
        message(&mut self.sinks[1], &format!("{what}\nthe others go on"));
        self.keep(code.into());
        for rank in ranks {
            self.server.note_aborted(rank as u32);
            let state = &self.ranks[rank];
            // The caller ends by itself, after what it has still to print.
            if rank != caller && state.ending.is_none() {
                system::kill(state.pid, libc::SIGKILL);
            }
            self.aborted.push(rank);
        }
    }

    fn blame(&mut self, culprit: Option<usize>, code: u8, text: String) {
        let runs = |rank: &usize| self.ranks[*rank].ending.is_none();
        let others = (0..self.ranks.len()).filter(|rank| culprit != Some(*rank) && runs(rank));
        debugger::aborting(&text);
        self.cause = Some(Cause {
            code,
            text,
            others: others.collect(),
        });
    }

    fn ask(&mut self) {
        if let Phase::LastWords { .. } = self.phase {
            self.tell_waits();
        }
        self.guardian.signal(libc::SIGTERM);
        self.offspring.signal(libc::SIGTERM);
        // A process that is stopped gets to see the above when it goes on.
        self.guardian.signal(libc::SIGCONT);
        self.phase = Phase::Asked(Instant::now() + GRACE);
    }

    /// Puts together what the ranks have said of where they are.
    fn tell_waits(&mut self) {
        let sources = self
            .ranks
            .iter()
            .filter_map(|rank| rank.sources[1].as_ref());
        if let (Some(text), Some(cause)) =
            (hang::summary(sources.map(Source::heard)), &mut self.cause)
        {
            cause.text = format!("{}\n{text}", cause.text);
        }
    }

    fn kill(&mut self) {
        self.guardian.signal(libc::SIGKILL);
        // Its guardian ends the ranks of a spawned job.
        self.offspring.signal(libc::SIGKILL);
        // A rank may have left the group.
        self.running()
            .for_each(|rank| system::kill(rank.pid, libc::SIGKILL));
        self.phase = Phase::Killed;
    }

    /// After the last rank: ends what they left running, passes on the rest of their output, and
    /// says what happened.
    pub(super) fn finish(&mut self, options: &Options) -> u8 {
        let hurry = self.phase == Phase::Killed;
        orphans::end(&self.guardian, &self.not_ours, hurry);
        // From here on the usual keys end us, should the reader of our output be stuck.
        self.signals.give_back();
        for (stream, sink) in self.sinks.iter_mut().enumerate() {
            for rank in &mut self.ranks {
                if let Some(mut source) = rank.sources[stream].take() {
                    let label = rank.label.as_deref().map(label::now);
                    source.drain(sink, label.as_deref());
                }
            }
        }
        let code = match &self.cause {
            Some(cause) => {
                if let Some(spawned) = &options.spawned {
                    spawned.tell_end(&cause.text);
                }
                let text = format!(
                    "{}\n{}{}",
                    cause.text,
                    self.ended.tell(cause.others.len(), self.ranks.len()),
                    core_files::describe_others(&self.cores)
                );
                self.sinks[0].write_ready();
                message(&mut self.sinks[1], &text);
                cause.code
            }
            None => {
                if let Some(spawned) = &options.spawned {
                    spawned.tell_end("all its processes have ended");
                }
                self.code
            }
        };
        let said = |cause: &Cause| cause.text.contains("without calling MPI_Finalize");
        if let (false, Some(deserters)) = (self.cause.as_ref().is_some_and(said), &self.deserters) {
            let others = match deserters.count {
                1 => String::new(),
                n => format!(", and so did {} more", n - 1),
            };
            let text = format!(
                "warning: {} exited with code 0 without calling MPI_Finalize{others}",
                self.name(deserters.first)
            );
            message(&mut self.sinks[1], &text);
        }
        if self.print_codes {
            let endings = self.ranks.iter().map(|rank| rank.ending);
            message(&mut self.sinks[1], &exit_codes(endings));
        }
        // Standard output last: its reader may be in no hurry.
        self.sinks[1].write_all();
        self.sinks[0].write_all();
        self.tell_failures();
        self.sinks[1].write_all();
        match code {
            0 => self.code,
            code => code,
        }
    }

    pub(super) fn name(&self, rank: usize) -> String {
        let pid = self.ranks[rank].pid;
        format!("rank {rank} on {} (pid {pid})", host())
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
        format!("{head}: {}", parts.join(", "))
    }
}

/// The exit code for a rank's, which the kernel has cut to 8 bits already.
pub(super) fn exit_code(code: i32) -> u8 {
    (code & 0xff) as u8
}

/// What a rank ends with that has found another lost: the class MPIX_ERR_PROC_FAILED.
pub(super) const PROC_FAILED: i32 = 101;
/// From the closing of a killed process's connections to its end, at most.
const DYING: Duration = Duration::from_millis(200);

/// The exit code for one given to MPI_Abort. A job that was aborted has failed, which 0 would hide
/// from scripts, be it given (section 8.7 leaves to the launcher what becomes of the code) or what is
/// left after the cut to 8 bits.
pub(super) fn abort_code(code: i32) -> u8 {
    exit_code(code).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_says_how_long_others_may_run_on() {
        let seconds = GRACE_FOR_OTHERS.as_secs();
        let text = format!("for more than {seconds} seconds");
        let words: Vec<&str> = crate::options::HELP.split_whitespace().collect();
        assert!(words.join(" ").contains(&text), "{text}");
    }
}
