//! `mpiexec` itself in a job on several hosts: it has agents to look after the ranks, passes on what
//! they print and read, and decides when the job is over. How it ends is in [`ending`].

mod ending;
pub mod fuzzing;
mod input;
mod output;
mod setup;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pmi::server::{Action, Server};

use self::ending::{Bereaved, Cause, Deserters, Ended, Phase};
use self::input::Input;
use self::output::Output;
use super::children::{Children, Event, Key};
use super::messages::{Down, Pair, Up, to_ending};
use super::tree::{Fence, OWN};
use super::wire::Bytes;
use crate::debugger;
use crate::hang::Inquiry;
use crate::hang_detector::HangDetector;
use crate::hosts::place::Placement;
use crate::names::Asker;
use crate::options::Options;
use crate::output::message;
use crate::report::exit_codes;
use crate::spawned::{Offspring, Whose};
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
    libc::SIGALRM,
    libc::SIGTSTP,
];

/// How often to look whether the terminal has become ours.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Time for agents to say farewell.
const FAREWELL: Duration = Duration::from_millis(2000);
/// Time for the commands that started them to end after that.
const COMMANDS: Duration = Duration::from_millis(300);

/// Runs a job; the result is our exit code.
pub fn run(options: &Options, placement: &Placement) -> ExitCode {
    match Root::start(options, placement) {
        Ok(mut root) => {
            root.serve(|root| root.tell_spawner(options, placement));
            ExitCode::from(root.finish(options))
        }
        Err(text) => {
            match &options.spawned {
                Some(spawned) => spawned.failed(&text),
                None => eprintln!("mpiexec: {text}"),
            }
            ExitCode::FAILURE
        }
    }
}

/// What is known of a rank.
#[derive(Debug, Clone)]
struct Rank {
    host: usize,
    pid: Option<u32>,
    ending: Option<Ending>,
    stage: Stage,
    lost: bool,
    /// Whether another rank has ended it by MPI_Abort.
    aborted: bool,
    /// Its core file on its host, if it has left one that was found.
    core: Option<PathBuf>,
}

/// How far a rank had come in MPI when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Silent,
    Active,
    Finalized,
}

struct Host {
    name: String,
    ranks: Vec<usize>,
    /// Its ranks run, or it is known that they will not.
    settled: bool,
    spoken: bool,
}

struct Root {
    ranks: Vec<Rank>,
    /// For each rank the name of its program.
    programs: Vec<String>,
    hosts: Vec<Host>,
    running: usize,
    children: Children,
    fence: Fence,
    /// Answers what concerns ranks of several hosts.
    server: Server,
    /// Jobs that ranks have spawned.
    offspring: Offspring,
    /// Whether this is a spawned job, which ends as quickly as a rank does.
    is_spawned: bool,
    /// Whether who has spawned it knows what came of that, and whether nothing did.
    told: bool,
    refused: bool,
    signals: Signals,
    output: Output,
    input: Option<Input>,
    limit: Option<(Instant, Duration)>,
    phase: Phase,
    /// Whether ranks were asked where they are, and the answer is still to be told.
    inquiry: Option<Inquiry>,
    standstill: HangDetector,
    cause: Option<Cause>,
    /// Core files that were not told of.
    cores: Vec<PathBuf>,
    ended: Ended,
    code: u8,
    cleanup: bool,
    deserters: Option<Deserters>,
    bereaved: Option<Bereaved>,
    /// Ranks that wait in a fence for others of their host that are gone.
    stuck: usize,
    /// Whether to say at the end how much went over the connections.
    verbose: bool,
    print_codes: bool,
    events: Vec<Event>,
    /// How many hosts had started when agents were last told that a stream is not read.
    deaf: [usize; 2],
}

#[derive(Clone, Copy)]
enum Who {
    Signals,
    Input,
    Sink,
    Child(Key),
    Offspring(Whose),
}

impl Root {
    fn start(options: &Options, placement: &Placement) -> Result<Root, String> {
        Root::of(options, placement, setup::setup(options, placement)?)
    }

    fn of(options: &Options, placement: &Placement, setup: setup::Setup) -> Result<Root, String> {
        let began = Instant::now();
        let count = placement.hosts.len() as u64;
        system::allow_files(count * 3 + 64)
            .map_err(|e| format!("can't raise the limit of open files: {e}"))?;
        let signals =
            Signals::take(HANDLED).map_err(|e| format!("can't take signals over: {e}"))?;
        let ranks = placement.hosts.iter().zip(placement.ranks());
        let ranks = ranks.map(|(host, ranks)| (host.name.clone(), ranks.len()));
        let offspring = Offspring::new(options, ranks).map_err(|unfit| unfit.message)?;
        let mut server = Server::new(&setup.common.kvs, &setup.appnums);
        if offspring.asks_for_names() {
            server.ask_for_names();
        }
        let mut events = Vec::new();
        let children = Children::start(setup.common.clone(), setup.branches, &mut events)
            .map_err(|e| format!("can't wait for calls of agents: {e}"))?;
        let rank = |&host: &usize| Rank {
            host,
            pid: None,
            ending: None,
            stage: Stage::Silent,
            lost: false,
            aborted: false,
            core: None,
        };
        let host = |(host, ranks): (&crate::hosts::Host, Vec<usize>)| Host {
            name: host.name.clone(),
            ranks,
            settled: false,
            spoken: false,
        };
        let hosts: Vec<Host> = placement
            .hosts
            .iter()
            .zip(placement.ranks())
            .map(host)
            .collect();
        let names = placement
            .node_of
            .iter()
            .map(|&node| hosts[node].name.clone());
        Ok(Root {
            ranks: placement.node_of.iter().map(rank).collect(),
            programs: options
                .sections
                .iter()
                .flat_map(|section| {
                    let name = section.command[0].to_string_lossy().into_owned();
                    std::iter::repeat_n(name, section.count)
                })
                .collect(),
            running: 0,
            fence: Fence::new(false, children.len()),
            children,
            server,
            offspring,
            is_spawned: options.spawned.is_some(),
            told: false,
            refused: false,
            signals,
            output: Output::new(options, names.collect(), &placement.node_of),
            input: Input::new(&setup.common.input),
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
            deserters: None,
            bereaved: None,
            stuck: 0,
            verbose: options.many.verbose,
            print_codes: options.print_codes,
            hosts,
            events,
            deaf: [0; 2],
        })
    }

    /// Serves the agents until no rank is left; `look` is called each time that something has happened.
    fn serve(&mut self, mut look: impl FnMut(&mut Root)) {
        self.take_events();
        while !self.is_over() {
            look(self);
            self.step(None);
            self.look_for_deadlock();
            self.look_at_clock();
        }
        self.end_without_the_dead();
        look(self);
    }

    /// Waits for something to happen, and takes it in.
    fn step(&mut self, until: Option<Instant>) {
        let mut entries: Vec<libc::pollfd> = Vec::new();
        let mut owners: Vec<Who> = Vec::new();
        self.list(|fd, events, who| {
            entries.push(libc::pollfd {
                fd,
                events,
                revents: 0,
            });
            owners.push(who);
        });
        system::poll(&mut entries, self.wait_time(until));
        for (entry, &who) in entries.iter().zip(&owners) {
            if entry.revents == 0 {
                continue;
            }
            match who {
                Who::Signals => self.handle_signals(),
                Who::Input => self.read_input(),
                Who::Sink => {}
                Who::Child(key) => self.children.handle(key, &mut self.events),
                Who::Offspring(whose) => {
                    let mut actions = Vec::new();
                    self.offspring.handle(whose, &mut self.server, &mut actions);
                    actions.into_iter().for_each(|action| self.act(action));
                }
            }
        }
        self.children
            .look_at_clock(Instant::now(), &mut self.events);
        self.take_events();
        for (host, bytes) in self.output.write() {
            self.children.send(&Down::Credit { host, bytes });
        }
        if self.output.tell_failures() {
            self.keep(1);
        }
        self.tell_deaf();
    }

    /// Tells agents, once they have started, which of our streams nobody reads any more.
    fn tell_deaf(&mut self) {
        let settled = self.hosts.iter().filter(|host| host.settled).count();
        for (stream, sink) in [0, 1].into_iter().zip(&self.output.sinks) {
            if sink.is_broken() && self.deaf[usize::from(stream)] != settled {
                self.deaf[usize::from(stream)] = settled;
                self.children.send(&Down::Deaf { stream });
            }
        }
    }

    fn list(&self, mut add: impl FnMut(i32, i16, Who)) {
        add(self.signals.descriptor(), libc::POLLIN, Who::Signals);
        if let Some(input) = &self.input
            && input.is_wanted()
            && self.targets_run(input)
        {
            add(0, libc::POLLIN, Who::Input);
        }
        for sink in &self.output.sinks {
            if sink.waits() {
                add(sink.descriptor(), libc::POLLOUT, Who::Sink);
            }
        }
        self.offspring
            .list(|fd, whose| add(fd, libc::POLLIN, Who::Offspring(whose)));
        self.children
            .list(|fd, events, key| add(fd, events, Who::Child(key)));
    }

    fn wait_time(&self, until: Option<Instant>) -> i32 {
        let now = Instant::now();
        let due = [until, self.due(), self.children.due()];
        let due = due.into_iter().flatten().min();
        let mut wait = due.map(|at| at.saturating_duration_since(now));
        if self.input.as_ref().is_some_and(Input::waits_for_terminal) {
            wait = Some(wait.map_or(LOOK_AGAIN, |wait| wait.min(LOOK_AGAIN)));
        }
        match wait {
            // Rounded up, so that it is over when poll returns.
            Some(wait) => i32::try_from(wait.as_millis() + 1).unwrap_or(i32::MAX),
            None => -1,
        }
    }

    fn targets_run(&self, input: &Input) -> bool {
        let runs = |rank: &u32| self.hosts[self.ranks[*rank as usize].host].settled;
        input.ranks().iter().all(runs)
    }

    fn read_input(&mut self) {
        let Some(input) = &mut self.input else {
            return;
        };
        let Some(bytes) = input.read() else {
            return;
        };
        let ends = bytes.is_empty();
        for rank in input.ranks().to_vec() {
            let host = self.ranks[rank as usize].host as u32;
            let bytes = Bytes(bytes.clone());
            self.children.send(&Down::Input { host, rank, bytes });
        }
        if ends {
            self.input = None;
        }
    }

    fn take_events(&mut self) {
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Message(child, message) => self.hear(child, *message),
                Event::Failed { child, code, text } => {
                    let hosts = self.children.below(child);
                    hosts.iter().for_each(|&host| self.settle(host as usize));
                    self.fail(None, code, text);
                }
                Event::Lost { child, text } => {
                    let hosts = self.children.below(child);
                    self.lose_hosts(&hosts, text);
                    self.leave_fence(child);
                }
            }
        }
    }

    /// Handles a child's message, whose numbers were checked ([`super::check`]).
    fn hear(&mut self, child: usize, message: Up) {
        match message {
            Up::Started { host, pids, notes } => {
                self.settle(host as usize);
                let ranks = self.hosts[host as usize].ranks.clone();
                for (rank, note) in ranks.iter().zip(notes) {
                    let name = &self.hosts[host as usize].name;
                    let text = format!("rank {rank} on {name} is {note}");
                    crate::output::message(&mut self.output.sinks[1], &text);
                }
                for (rank, pid) in ranks.into_iter().zip(pids) {
                    let state = &mut self.ranks[rank];
                    // An agent may have given its host up before: nothing more is heard of such ranks.
                    if state.ending.is_none() {
                        state.pid = Some(pid);
                        self.running += 1;
                        // The job has been ended while its ranks were started.
                        if let Some(cause) = &mut self.cause {
                            cause.add(rank);
                        }
                    }
                }
                self.tell_debuggers();
            }
            Up::Output {
                rank,
                stream,
                bytes,
            } => {
                let host = self.ranks[rank as usize].host as u32;
                self.output
                    .push(rank as usize, stream.into(), &bytes.0, host);
            }
            Up::Ended { ranks } => {
                // Of several that ended at once, a signal is likelier to be the cause than a code is.
                let mut ranks = ranks;
                ranks.sort_by_key(|(_, (how, _))| *how < 256);
                for (rank, (how, stage)) in ranks {
                    let stage = match stage {
                        0 => Stage::Silent,
                        1 => Stage::Active,
                        _ => Stage::Finalized,
                    };
                    self.has_ended(rank as usize, to_ending(how), stage);
                }
            }
            Up::Core { rank, place } => {
                self.ranks[rank as usize].core = Some(OsString::from_vec(place.0).into());
            }
            Up::Abort {
                rank,
                code,
                ranks,
                message,
            } => self.abort(rank as usize, code, &ranks, &message),
            Up::Violation { rank, detail } => {
                let who = self.name(rank as usize);
                let text = format!(
                    "{who} sent something through its PMI socket that makes no sense: {detail}"
                );
                self.fail(Some(rank as usize), 1, text);
            }
            Up::Line { rank, line } => {
                let mut actions = Vec::new();
                self.server.receive(rank as usize, &line.0, &mut actions);
                actions.into_iter().for_each(|action| self.act(action));
            }
            Up::Fence { pairs } => {
                let complete = self.fence.come(child + 1, pairs);
                self.release(complete);
            }
            Up::Left {} => self.leave_fence(child),
            Up::Stuck { waiting } => self.stuck = self.stuck.saturating_add(waiting as usize),
            Up::Taken { .. } => {
                if let Some(input) = &mut self.input {
                    input.taken();
                }
            }
            Up::Spoken { host } => self.hosts[host as usize].spoken = true,
            Up::Trouble { host, code, text } => {
                self.settle(host as usize);
                self.fail(None, code.max(1), text);
            }
            Up::Lost { hosts, text } => self.lose_hosts(&hosts, text),
            Up::Gone { .. } => {}
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send { rank, line } => {
                let host = self.ranks[rank].host as u32;
                let (rank, line) = (rank as u32, Bytes(line));
                self.children.send(&Down::Answer { host, rank, line });
            }
            Action::Abort {
                rank,
                code,
                ranks,
                message,
            } => self.abort(rank, code, &ranks, &message),
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
            // Lines came through an agent, which passes on what it knows to be for us.
            Action::Violation { .. } | Action::Fence { .. } | Action::Up { .. } => {}
        }
    }

    /// Once all ranks run, debuggers find them.
    fn tell_debuggers(&self) {
        let known: Option<Vec<(String, String, Pid)>> = self
            .ranks
            .iter()
            .zip(&self.programs)
            .map(|(rank, program)| {
                let host = self.hosts[rank.host].name.clone();
                Some((host, program.clone(), Pid::try_from(rank.pid?).ok()?))
            })
            .collect();
        if let Some(known) = known {
            debugger::started(known.into_iter());
        }
    }

    fn settle(&mut self, host: usize) {
        self.hosts[host].settled = true;
    }

    fn leave_fence(&mut self, child: usize) {
        if !self.cleanup {
            let complete = self.fence.leave(child + 1);
            self.release(complete);
        }
    }

    fn release(&mut self, complete: Option<Vec<Pair>>) {
        debug_assert!(!self.fence.has_come(OWN));
        if let Some(pairs) = complete {
            self.children.send(&Down::Release { pairs });
        }
    }

    /// Whether no rank is left, or none can be heard of any more.
    fn is_over(&self) -> bool {
        let settled = self.cause.is_some() || self.hosts.iter().all(|host| host.settled);
        self.running == 0 && settled && !self.offspring.any() || self.is_given_up()
    }

    /// After the last rank: agents end what is left, pass on the rest of the output and leave.
    fn finish(&mut self, options: &Options) -> u8 {
        self.input = None;
        self.children.give_up_the_unborn();
        self.children.send(&Down::Quit {});
        let until = Instant::now() + FAREWELL;
        while self.children.any_up() && Instant::now() < until {
            self.step(Some(until));
        }
        let until = Instant::now() + COMMANDS;
        while self.children.any_command() && Instant::now() < until {
            self.step(Some(until));
        }
        self.children.end();
        // From here on the usual keys end us, should the reader of our output be stuck.
        self.signals.give_back();
        self.output.finish();
        if self.verbose {
            let [sent, got] = self.children.traffic();
            let text = format!(
                "{} hosts by {} agents: sent {} messages, {} bytes; received {} messages, {} bytes",
                self.hosts.len(),
                self.children.len(),
                sent.0,
                sent.1,
                got.0,
                got.1
            );
            message(&mut self.output.sinks[1], &text);
        }
        let code = self.tell_end(options);
        if self.print_codes {
            let endings = self.ranks.iter().map(|rank| rank.ending);
            message(&mut self.output.sinks[1], &exit_codes(endings));
        }
        // Standard output last: its reader may be in no hurry.
        self.output.sinks[1].write_all();
        self.output.sinks[0].write_all();
        if self.output.tell_failures() {
            self.keep(1);
        }
        self.output.sinks[1].write_all();
        match code {
            0 => self.code,
            code => code,
        }
    }
}
