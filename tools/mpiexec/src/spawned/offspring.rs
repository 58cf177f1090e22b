//! The spawned jobs of a job's ranks, and the published names of all of them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::os::fd::RawFd;

use pmi::Spawn;
use pmi::names::Rights;
use pmi::server::{Action, Server};
use pmi::wire::Line;

use super::END;
use super::arguments;
use super::pool::Pool;
use super::started::SpawnedJob;
use crate::names::{self, Asked, Asker, Upstream};
use crate::options::{Options, Section};
use crate::program::Unfit;
use crate::system::{self, Ending, Pid, Signals};

/// Spawned jobs.
pub struct Offspring {
    jobs: BTreeMap<usize, SpawnedJob>,
    /// The number of the next job.
    next: usize,
    /// The connection to the keeper of published names; `None` if this launcher keeps them.
    names: Option<Upstream>,
    /// The sections of this job, whose settings spawned jobs inherit.
    sections: Vec<Section>,
    launcher: Vec<OsString>,
    pool: Pool,
    ends: VecDeque<End>,
}

/// The reason for the end of a spawned job that could not reach the spawning rank. Most have
/// connected before.
struct End {
    asker: usize,
    /// The job's number among those that `asker` has spawned.
    number: String,
    why: String,
}

/// Most ends that are kept. A rank that waits for a job asks every second, so only the newest
/// matter.
const ENDS: usize = 256;

/// The owner of a descriptor in the poll list.
#[derive(Debug, Clone, Copy)]
pub enum Whose {
    /// The connection to the keeper of published names.
    Names,
    /// The status socket of a starting job.
    Status(usize),
    /// The socket for published names of a job.
    Questions(usize),
}

impl Offspring {
    /// Creates the list without jobs. `ranks` are this job's ranks on each host.
    pub fn new(
        options: &Options,
        ranks: impl IntoIterator<Item = (String, usize)>,
    ) -> Result<Offspring, Unfit> {
        let many = &options.many;
        let apart = many.bootstrap.as_deref() == Some("fork");
        let mut pool = Pool::new(&many.pool, apart, many.oversubscribe);
        for (host, count) in many.used.iter().cloned().chain(ranks) {
            pool.take(&host, count);
        }
        Ok(Offspring {
            jobs: BTreeMap::new(),
            next: 0,
            names: Upstream::of(options)?,
            sections: options.sections.clone(),
            launcher: arguments::of_launcher(many),
            pool,
            ends: VecDeque::new(),
        })
    }

    /// Returns why a job has ended that a rank has spawned, if the job has ended and could not tell
    /// the rank.
    pub fn end_of(&self, asker: usize, number: &str) -> Option<&str> {
        let is_it = |end: &&End| end.asker == asker && end.number == number;
        self.ends.iter().rfind(is_it).map(|end| &*end.why)
    }

    fn note_end(&mut self, asker: usize, number: &str, why: String) {
        if self.ends.len() == ENDS {
            self.ends.pop_front();
        }
        let number = number.to_owned();
        self.ends.push_back(End { asker, number, why });
    }

    /// Returns whether another process keeps the published names.
    pub fn asks_for_names(&self) -> bool {
        self.names.is_some()
    }

    /// Starts the job that a rank spawns.
    pub fn spawn(
        &mut self,
        rank: usize,
        spawn: &Spawn,
        signals: &Signals,
        server: &mut Server,
        actions: &mut Vec<Action>,
    ) {
        let like = &self.sections[server.appnum(rank) as usize];
        let words = arguments::of_job(spawn, like, &mut self.pool);
        let started = words.and_then(|words| {
            let words = [self.launcher.clone(), words].concat();
            SpawnedJob::start(rank, spawn, &words, signals)
        });
        match started {
            Ok(job) => {
                self.jobs.insert(self.next, job);
                self.next += 1;
            }
            Err(why) => server.spawned(rank, Err(&why), actions),
        }
    }

    /// Returns whether a spawned job still runs.
    pub fn any(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Adds all descriptors to the poll list.
    pub fn list(&self, mut add: impl FnMut(RawFd, Whose)) {
        if let Some(fd) = self.names.as_ref().and_then(Upstream::descriptor) {
            add(fd, Whose::Names);
        }
        for (&number, job) in &self.jobs {
            if let Some(fd) = job.status() {
                add(fd, Whose::Status(number));
            }
            if let Some(fd) = job.descriptor() {
                add(fd, Whose::Questions(number));
            }
        }
    }

    /// Reads from a descriptor that is ready.
    pub fn handle(&mut self, whose: Whose, server: &mut Server, actions: &mut Vec<Action>) {
        match whose {
            Whose::Names => self.take_names(actions),
            Whose::Status(number) => self.take_news(number, server, actions),
            Whose::Questions(number) => self.hear(number, server, actions),
        }
    }

    fn take_news(&mut self, number: usize, server: &mut Server, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        let Some(result) = job.news() else {
            return;
        };
        for (host, count) in &job.places {
            self.pool.take(host, *count);
        }
        let result = result.as_ref().map(|size| *size).map_err(String::as_str);
        server.spawned(job.asker, result, actions);
    }

    /// Handles the end of a process. Returns the job's exit code if it was the launcher of a
    /// spawned job, which has printed the reason itself.
    pub fn reap(
        &mut self,
        pid: Pid,
        ending: Ending,
        server: &mut Server,
        actions: &mut Vec<Action>,
    ) -> Option<i32> {
        let (&number, _) = self.jobs.iter().find(|(_, job)| job.pid == pid)?;
        // Data that it sent before its end.
        self.take_news(number, server, actions);
        self.hear(number, server, actions);
        let job = self.jobs.remove(&number)?;
        if let Some(why) = job.killed(ending) {
            self.note_end(job.asker, job.number(), why);
        }
        for (host, count) in &job.places {
            self.pool.give_back(host, *count);
        }
        Some(job.ended(ending))
    }

    /// Sends a signal to the launchers of all spawned jobs.
    pub fn signal(&self, signal: i32) {
        self.jobs
            .values()
            .for_each(|job| system::kill(job.pid, signal));
    }

    /// Handles a spawned job's requests for names and reports of its end.
    fn hear(&mut self, number: usize, server: &mut Server, actions: &mut Vec<Action>) {
        let questions = match self.jobs.get_mut(&number) {
            Some(job) => job.questions(),
            None => return,
        };
        for line in questions {
            let parsed = Line::parse(&line);
            if parsed.command() == END {
                let why = parsed.text("msg").unwrap_or_default();
                if let Some(job) = self.jobs.get(&number) {
                    let (asker, number) = (job.asker, job.number().to_owned());
                    self.note_end(asker, &number, why);
                }
                continue;
            }
            match server.names() {
                Some(names) => {
                    let answer = names.answer(&Line::parse(&line), Rights::All);
                    if let (Some(answer), Some(job)) = (answer, self.jobs.get_mut(&number)) {
                        job.answer(&answer);
                    }
                }
                None => self.ask(
                    Asker::Spawned(number),
                    &[&line, &b"\n"[..]].concat(),
                    actions,
                ),
            }
        }
    }

    /// Forwards a request to the keeper of published names.
    pub fn ask(&mut self, asker: Asker, line: &[u8], actions: &mut Vec<Action>) {
        let asked = match &mut self.names {
            Some(names) => names.ask(asker, line),
            None => Asked::Answered(names::lost(Some(line))),
        };
        if let Asked::Answered(answer) = asked {
            self.answer(asker, answer, actions);
        }
    }

    /// Forwards the answers of the keeper of published names.
    fn take_names(&mut self, actions: &mut Vec<Action>) {
        let Some(names) = &mut self.names else { return };
        let (mut answers, open) = names.answers();
        if !open {
            answers.extend(names.unanswered().map(|asker| (asker, names::lost(None))));
            self.names = None;
        }
        for (asker, line) in answers {
            self.answer(asker, line, actions);
        }
    }

    fn answer(&mut self, asker: Asker, line: Vec<u8>, actions: &mut Vec<Action>) {
        match asker {
            Asker::Rank(rank) => actions.push(Action::Send { rank, line }),
            Asker::Spawned(number) => {
                if let Some(job) = self.jobs.get_mut(&number) {
                    job.answer(&line);
                }
            }
        }
    }
}
