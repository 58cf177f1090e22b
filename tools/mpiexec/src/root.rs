//! The root of a job: it has agents that look after the ranks of each host, forwards the ranks'
//! output and input, and decides when the job is over ([`ending`]).

mod ending;
pub mod fuzzing;
pub mod here;
mod input;
mod other_mpi;
mod output;
mod own_ranks;
pub mod plan;
mod setup;
pub mod variables;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pmi::server::{Action, Server, Stage};

use self::ending::{Cause, Ended, PeerLoss, Phase, UnfinalizedExits};
use self::input::Input;
use self::other_mpi::OtherMpi;
use self::output::Output;
use self::own_ranks::OwnRanks;
use crate::affinity;
use crate::agent::{self, Forked};
use crate::children::{Children, Event, Key, OwnAgent, Running};
use crate::debugger;
use crate::hang::Inquiry;
use crate::hang_detector::HangDetector;
use crate::hosts::place::Placement;
use crate::names::Asker;
use crate::options::Options;
use crate::output::message;
use crate::profile;
use crate::program::{Program, USAGE, Unfit, unfit};
use crate::report::exit_codes;
use crate::spawned::{Offspring, Whose};
use crate::system::{self, Ending, HANDLED, Pid, Signals};
use crate::wire::frames::Bytes;
use crate::wire::link::Link;
use crate::wire::messages::{Common, Down, Pair, Up, to_ending, to_stage};
use crate::wire::tree::{Fence, OWN};

/// How often to look whether the terminal has become ours.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Time for the agent of this host to get its plan.
const PLAN: Duration = Duration::from_secs(30);
/// Time for agents to say farewell.
const FAREWELL: Duration = Duration::from_millis(2000);
/// Time for the commands that started them to end after that.
const COMMANDS: Duration = Duration::from_millis(300);

/// Ranks per core from which on a job is announced to take long.
const CROWD: usize = 1000;

/// Agents that have joined a job before its start.
#[derive(Default)]
pub struct Joined {
    /// The agent of this host.
    pub own: Option<Forked>,
    /// The connections to those of the other hosts, in order.
    pub links: Vec<Link>,
}

/// Places the ranks of a job and runs it. `join` gets the agents that nobody has to start, and the names
/// of their hosts. Returns the exit code.
pub fn run(
    mut options: Options,
    join: impl FnOnce(&mut Placement) -> Result<Joined, Unfit>,
) -> ExitCode {
    let mut placement = match plan::plan(&mut options, &plan::Here) {
        Ok(placement) => placement,
        Err(message) => {
            match &options.spawned {
                Some(spawned) => spawned.failed(&message),
                None => eprintln!("mpiexec: {message}"),
            }
            return ExitCode::from(USAGE);
        }
    };
    if options.many.print_map {
        print!("{}", plan::map(&placement));
    }
    if options.many.dry_run {
        return plan::dry_run(&options, &placement);
    }
    // On another host the file may be writable although it isn't here.
    let trace = options.trace.as_deref().filter(|_| placement.is_local);
    if let Some(Err(message)) = trace.map(profile::create_trace) {
        eprintln!("mpiexec: {message}");
        return ExitCode::from(USAGE);
    }
    for note in &options.notes {
        eprintln!("mpiexec: {note}");
    }
    if trace.is_none() {
        options.trace = None;
    }
    let (ranks, cores) = (placement.node_of.len(), affinity::slots());
    if placement.is_local && ranks / cores >= CROWD {
        eprintln!("mpiexec: {ranks} ranks share {cores} cores; they take long to start and to end");
    }
    let joined = join(&mut placement);
    ExitCode::from(run_placed(&options, &placement, joined))
}

/// Runs a job whose ranks are placed. Returns the exit code.
fn run_placed(options: &Options, placement: &Placement, joined: Result<Joined, Unfit>) -> u8 {
    match joined.and_then(|joined| Root::start(options, placement, joined)) {
        Ok(mut root) => {
            root.serve(|root| root.tell_spawner(options, placement));
            root.finish(options)
        }
        Err(unfit) => {
            match &options.spawned {
                Some(spawned) => spawned.failed(&unfit.message),
                None => eprintln!("mpiexec: {}", unfit.message),
            }
            unfit.code
        }
    }
}

/// A rank of the job, as far as its agent has reported it.
#[derive(Debug, Clone)]
struct Rank {
    host: usize,
    pid: Option<u32>,
    ending: Option<Ending>,
    /// Its last reported stage.
    stage: Stage,
    /// Whether the others go on without it.
    lost: bool,
    /// Whether another rank has ended it by MPI_Abort.
    aborted: bool,
    /// Its core file on its host, if it has left one that was found.
    core: Option<PathBuf>,
}

struct Host {
    name: String,
    ranks: Vec<usize>,
    /// Whether its agent is a fork of this process.
    is_own: bool,
    /// Whether its ranks run, or are known not to be started.
    settled: bool,
    /// Whether all its ranks in MPI have printed the requested wait report.
    spoken: bool,
    /// Number of ranks that wait in a fence for a rank of this host that is gone.
    stuck: usize,
}

struct Root {
    ranks: Vec<Rank>,
    /// For each rank the name of its program.
    programs: Vec<String>,
    hosts: Vec<Host>,
    running: usize,
    /// The ranks of this host, if their agent is a fork of this process and not lost.
    own: Option<OwnRanks>,
    /// The guardian of these ranks, until it is reaped.
    guardian: Option<Pid>,
    children: Children,
    fence: Fence,
    /// Answers what concerns ranks of several hosts.
    server: Server,
    /// Jobs that ranks have spawned.
    offspring: Offspring,
    /// Whether this is a spawned job, which ends as quickly as a rank does.
    is_spawned: bool,
    /// Whether the spawner knows whether the job runs.
    is_spawn_answered: bool,
    /// Whether the spawner has got the reason why the job does not run.
    refused: bool,
    signals: Signals,
    output: Output,
    input: Option<Input>,
    limit: Option<(Instant, Duration)>,
    phase: Phase,
    /// The signal that ends this job, and when it came.
    ended_by: Option<(i32, Instant)>,
    /// A request for wait reports that is not answered yet.
    inquiry: Option<Inquiry>,
    standstill: HangDetector,
    /// When the agents were last asked for their ranks' stages.
    stages_asked: Option<Instant>,
    /// Why the job ends early.
    cause: Option<Cause>,
    /// Core files of ranks that are not the cause.
    cores: Vec<PathBuf>,
    ended: Ended,
    /// The exit code of the ranks that ended by themselves.
    code: u8,
    /// Whether the loss of a rank ends the others.
    cleanup: bool,
    unfinalized: Option<UnfinalizedExits>,
    peer_loss: Option<PeerLoss>,
    other_mpi: OtherMpi,
    /// Whether to print the traffic of the connections at the end.
    verbose: bool,
    /// Whether to print how each rank has ended.
    print_codes: bool,
    events: Vec<Event>,
    /// The number of started hosts when agents last heard that a stream is closed.
    deaf: [usize; 2],
}

#[derive(Clone, Copy)]
enum Owner {
    Signals,
    Input,
    Sink,
    Child(Key),
    Offspring(Whose),
}

impl Root {
    fn start(options: &Options, placement: &Placement, joined: Joined) -> Result<Root, Unfit> {
        let mut setup = setup::setup(options, placement)?;
        let programs = programs(options, setup.is_alone())?;
        // A fork has all that this process has, so it comes before anything else.
        let own = match setup.own.take() {
            None => None,
            Some(member) => {
                let forked = match joined.own {
                    Some(own) => own,
                    None => {
                        let forked = agent::fork(PLAN, ()).map_err(|e| {
                            unfit("can't start a process that looks after the ranks", e)
                        });
                        forked?.0
                    }
                };
                Some(OwnAgent { member, forked })
            }
        };
        let links = joined.links;
        Root::of(options, placement, setup, Running { own, links }, programs)
    }

    /// Makes the root of a job. `programs` are the names of the sections' programs.
    fn of(
        options: &Options,
        placement: &Placement,
        setup: setup::Setup,
        running: Running,
        programs: Vec<String>,
    ) -> Result<Root, Unfit> {
        let began = Instant::now();
        let ranks = placement.node_of.len();
        let files = options.files.iter().flatten().count() * ranks;
        system::allow_files((placement.hosts.len() * 3 + files + 64) as u64)
            .map_err(|e| unfit("can't raise the limit of open files", e))?;
        let signals = Signals::take(HANDLED).map_err(|e| unfit("can't take over signals", e))?;
        let ranks = placement.hosts.iter().zip(placement.ranks());
        let ranks = ranks.map(|(host, ranks)| (host.name.clone(), ranks.len()));
        let offspring = Offspring::new(options, ranks)?;
        let mut server = Server::new(&setup.common.kvs, &setup.appnums);
        if offspring.asks_for_names() {
            server.ask_for_names();
        }
        let input = Input::new(&setup.common.input);
        let hosts = placement.hosts.iter().map(|host| host.name.clone());
        let output = Output::new(options, &hosts.collect::<Vec<_>>(), &placement.node_of)?;
        let own = running.own.as_ref();
        let own_number = own.map(|own| own.member.number as usize);
        let guardian = own.map(|own| own.forked.group);
        let own = guardian.map(OwnRanks::new);
        let mut events = Vec::new();
        let children = start_children(setup.common, setup.branches, running, &mut events)?;
        let rank = |&host: &usize| Rank {
            host,
            pid: None,
            ending: None,
            stage: Stage::Silent,
            lost: false,
            aborted: false,
            core: None,
        };
        let host = |(number, (host, ranks)): (usize, (&crate::hosts::Host, Vec<usize>))| Host {
            name: host.name.clone(),
            ranks,
            is_own: own_number == Some(number),
            settled: false,
            spoken: false,
            stuck: 0,
        };
        let hosts: Vec<Host> = placement
            .hosts
            .iter()
            .zip(placement.ranks())
            .enumerate()
            .map(host)
            .collect();
        Ok(Root {
            ranks: placement.node_of.iter().map(rank).collect(),
            programs: setup
                .appnums
                .iter()
                .map(|&appnum| programs[appnum as usize].clone())
                .collect(),
            running: 0,
            own,
            guardian,
            fence: Fence::new(false, children.len()),
            children,
            server,
            offspring,
            is_spawned: options.spawned.is_some(),
            is_spawn_answered: false,
            refused: false,
            signals,
            output,
            input,
            limit: options
                .timeout
                .and_then(|limit| Some((began.checked_add(limit)?, limit))),
            phase: Phase::Running,
            ended_by: None,
            inquiry: None,
            standstill: HangDetector::default(),
            stages_asked: None,
            cause: None,
            cores: Vec::new(),
            ended: Ended::default(),
            code: 0,
            cleanup: options.cleanup,
            unfinalized: None,
            peer_loss: None,
            other_mpi: OtherMpi::new(began, placement.node_of.len()),
            verbose: options.many.verbose,
            print_codes: options.print_codes,
            hosts,
            events,
            deaf: [0; 2],
        })
    }

    /// Serves the agents until no rank is left. Calls `look` after each event.
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

    /// Waits for an event, and handles it.
    fn step(&mut self, until: Option<Instant>) {
        let mut entries: Vec<libc::pollfd> = Vec::new();
        let mut owners: Vec<Owner> = Vec::new();
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
                Owner::Signals => self.handle_signals(),
                Owner::Input => self.read_input(),
                Owner::Sink => {}
                Owner::Child(key) => self.children.handle(key, &mut self.events),
                Owner::Offspring(whose) => {
                    let mut actions = Vec::new();
                    self.offspring.handle(whose, &mut self.server, &mut actions);
                    actions.into_iter().for_each(|action| self.act(action));
                }
            }
        }
        self.children
            .look_at_clock(Instant::now(), &mut self.events);
        self.take_events();
        for ((host, stream), bytes) in self.output.write() {
            self.children.send(&Down::Credit {
                host,
                stream,
                bytes,
            });
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

    fn list(&self, mut add: impl FnMut(i32, i16, Owner)) {
        add(self.signals.descriptor(), libc::POLLIN, Owner::Signals);
        if let Some(input) = &self.input
            && input.is_wanted()
            && self.targets_run(input)
        {
            add(0, libc::POLLIN, Owner::Input);
        }
        for sink in &self.output.sinks {
            if sink.waits() {
                add(sink.descriptor(), libc::POLLOUT, Owner::Sink);
            }
        }
        self.offspring
            .list(|fd, whose| add(fd, libc::POLLIN, Owner::Offspring(whose)));
        self.children
            .list(|fd, events, key| add(fd, events, Owner::Child(key)));
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

    /// Handles a child's message, whose numbers were checked ([`crate::wire::check`]).
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
                if let Some(own) = self
                    .own
                    .as_mut()
                    .filter(|_| self.hosts[host as usize].is_own)
                {
                    own.started();
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
                    self.has_ended(rank as usize, to_ending(how), to_stage(stage));
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
            Up::Stuck { host, waiting } => self.hosts[host as usize].stuck = waiting as usize,
            Up::Stages { host, stages } => {
                for (&rank, stage) in self.hosts[host as usize].ranks.iter().zip(stages.0) {
                    self.ranks[rank].stage = to_stage(stage);
                }
            }
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

    /// Returns whether no rank is left, or none can report any more.
    fn is_over(&self) -> bool {
        // The agent of this host reports soon which ranks it has started; others may take long.
        let waits = |host: &Host| !host.settled && (host.is_own || self.cause.is_none());
        let settled = !self.hosts.iter().any(waits);
        self.running == 0 && settled && !self.offspring.any() || self.is_given_up()
    }

    /// After the last rank: agents end what is left, pass on the rest of the output and leave.
    fn finish(&mut self, options: &Options) -> u8 {
        self.input = None;
        self.children.give_up_the_unborn();
        // Its agent ends what is left, and with it the process group.
        self.own = None;
        self.children.send(&Down::Quit {});
        let until = Instant::now() + FAREWELL;
        while self.children.any_up() && Instant::now() < until {
            self.step(Some(until));
        }
        let until = Instant::now() + COMMANDS;
        let runs = |root: &Root| root.children.any_command() || root.guardian.is_some();
        while runs(self) && Instant::now() < until {
            self.step(Some(until));
        }
        self.children.end();
        self.guardian
            .iter()
            .for_each(|&guardian| system::kill_group(guardian, libc::SIGKILL));
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
        let code = if code == 0 { self.code } else { code };
        let code = match &options.trace {
            Some(path) if profile::is_traced(path) => {
                let text = format!(
                    "the timeline is in {}; open it in https://ui.perfetto.dev",
                    path.display()
                );
                message(&mut self.output.sinks[1], &text);
                code
            }
            Some(path) if code == 0 => {
                let text = format!(
                    "no timeline was written to {}: rank 0 has not called MPI_Finalize with Weft's \
                     library, or could not write it",
                    path.display()
                );
                message(&mut self.output.sinks[1], &text);
                1
            }
            _ => code,
        };
        self.output.sinks[1].write_all();
        code
    }
}

/// Returns the names of the sections' programs for debuggers: their paths, if all ranks are on this
/// host.
///
/// # Errors
/// A program is missing on this host, where all ranks are to run.
fn programs(options: &Options, are_here: bool) -> Result<Vec<String>, Unfit> {
    let sections = options.sections.iter();
    let name = |section: &crate::options::Section| match are_here {
        true => Program::find(section).map(|program| program.path.display().to_string()),
        false => Ok(section.command[0].to_string_lossy().into_owned()),
    };
    sections.map(name).collect()
}

fn start_children(
    common: Common,
    branches: Vec<setup::Branch>,
    running: Running,
    events: &mut Vec<Event>,
) -> Result<Children, Unfit> {
    let started = Children::start(common, branches, running, events);
    started.map_err(|error| Unfit {
        code: 1,
        message: format!("can't wait for calls of agents: {error}"),
    })
}
