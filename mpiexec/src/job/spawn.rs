//! What a job has to do with those that its ranks spawn, and with published names.

use pmi::wire::Line;

use super::Job;
use super::ending::exit_code;
use crate::names::{self, Asker};
use crate::options::Options;
use crate::spawned::SpawnedJob;
use crate::system::{self, Ending, Pid};

impl Job {
    /// Says to who has spawned this job whether it runs.
    pub(super) fn tell_spawner(&self, options: &Options) {
        if let Some(spawned) = &options.spawned {
            spawned.answer(self.cause_text());
        }
    }

    /// Starts what a rank asks for.
    pub(super) fn spawn(&mut self, rank: usize, spawn: &pmi::Spawn) {
        let like = &self.sections[self.server.appnum(rank) as usize];
        let started = SpawnedJob::start(spawn, like, &self.signals);
        let mut actions = Vec::new();
        match started {
            Ok(job) => {
                self.spawned.push(job);
                self.server.spawned(rank, Ok(spawn.size()), &mut actions);
            }
            Err(why) => self.server.spawned(rank, Err(&why), &mut actions),
        }
        actions.into_iter().for_each(|action| self.act(action));
    }

    /// Whether one of the jobs that ranks have spawned still runs.
    pub(super) fn has_spawned(&self) -> bool {
        self.spawned.iter().any(|job| job.pid.is_some())
    }

    /// Takes note of the end of a spawned job. It has said itself what was wrong; the exit code is that of the
    /// first job that failed.
    pub(super) fn reap_spawned(&mut self, pid: Pid, ending: Ending) {
        let Some(job) = self.spawned.iter_mut().find(|job| job.pid == Some(pid)) else {
            return;
        };
        job.pid = None;
        match ending {
            Ending::Code(code) => self.keep(exit_code(code).into()),
            Ending::Signal { number, .. } => self.keep(128 + number),
        }
        // Their numbers are those of the poll list: those at the end may go.
        while self.spawned.last().is_some_and(|job| job.pid.is_none()) {
            self.spawned.pop();
        }
    }

    /// Passes a signal on to spawned jobs.
    pub(super) fn signal_spawned(&self, signal: i32) {
        for pid in self.spawned.iter().filter_map(|job| job.pid) {
            system::kill(pid, signal);
        }
    }

    /// A spawned job asks for names.
    pub(super) fn hear_spawned(&mut self, job: usize) {
        let questions = match self.spawned.get_mut(job) {
            Some(job) => job.questions(),
            None => return,
        };
        for line in questions {
            match self.server.names() {
                Some(names) => {
                    if let Some(answer) = names.answer(&Line::parse(&line)) {
                        self.spawned[job].answer(&answer);
                    }
                }
                None => self.ask_for_names(Asker::Spawned(job), &[&line, &b"\n"[..]].concat()),
            }
        }
    }

    /// Asks whoever keeps the names.
    pub(super) fn ask_for_names(&mut self, asker: Asker, line: &[u8]) {
        let asked = self.names.as_mut().is_some_and(|one| one.ask(asker, line));
        if !asked {
            self.answer(asker, &names::lost(Some(line)));
        }
    }

    /// Takes what whoever keeps the names has answered.
    pub(super) fn take_names(&mut self) {
        let Some(names) = &mut self.names else { return };
        let (mut answers, open) = names.answers();
        if !open {
            answers.extend(names.disappointed().map(|asker| (asker, names::lost(None))));
            self.names = None;
        }
        for (asker, line) in answers {
            self.answer(asker, &line);
        }
    }

    fn answer(&mut self, asker: Asker, line: &[u8]) {
        match asker {
            Asker::Rank(rank) => self.act(pmi::server::Action::Send {
                rank,
                line: line.to_vec(),
            }),
            Asker::Spawned(job) => {
                if let Some(job) = self.spawned.get_mut(job) {
                    job.answer(line);
                }
            }
        }
    }
}
