//! An agent: `mpiexec` in the role of looking after the ranks of one host, for a parent that is the
//! root or another agent.
//!
//! The agent of the root's own host is a fork of the root with a socket pair. All others are started
//! by a command and call their parent over TCP ([`calling`]). Both kinds speak the same protocol.

mod calling;
pub mod fuzzing;
mod output;
mod ranks;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pmi::server::Server;

use self::output::Feed;
use self::ranks::Rank;
use crate::children::{Children, Event, Key, Running};
use crate::guardian::Guardian;
use crate::orphans;
use crate::report::host;
use crate::system::{self, HANDLED, Pid, Signals};
use crate::wire::check::check_plan;
use crate::wire::frames::Bytes;
use crate::wire::link::Link;
use crate::wire::messages::{Down, Member, Pair, Plan, Up, from_stage};
use crate::wire::tree::{self, Fence, OWN, Receivers, receivers};

/// Time for the farewells of the agents below.
const FAREWELL: Duration = Duration::from_millis(1500);
/// Time to send the last messages to the parent.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Ranks for which an agent whose job ends waits a millisecond before it looks at all of them again: many
/// die one after the other, and each look costs as much as there are ranks.
const PER_MILLISECOND: usize = 250;

/// The signals that end a job.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The reason of an agent that a signal ends.
const ASKED_TO_END: &str = "it was asked to end by a signal";
/// The exit code of an agent that has failed; its parent knows the reason or is gone.
const FAILED: u8 = 1;

/// Runs the agent that a command has started.
pub fn run() -> ExitCode {
    ExitCode::from(run_with(calling::parent(), None))
}

/// Runs the agent of a machine that has joined a job, whose plan comes within `time`. Until then a
/// signal of `signals` ends this process.
pub fn run_joined(link: Link, signals: Signals, time: Duration) -> ExitCode {
    let plan = calling::plan(link, Instant::now() + time, Some(&signals));
    signals.give_back();
    let plan = plan.and_then(|plan| plan.ok_or_else(|| calling::HUNG_UP.to_owned()));
    let plan = plan.map_err(|text| format!("the first machine (index 0) says why: {text}"));
    ExitCode::from(run_with(plan, None))
}

/// The agent of the root's own host.
pub struct Forked {
    /// The connection to it.
    pub link: Link,
    /// Its process.
    pub pid: Pid,
    /// The guardian of its ranks, which leads their process group.
    pub group: Pid,
}

/// Starts the agent of this host, and before it the guardian of its ranks, in forks of this process, which
/// must have one thread and no open descriptors that they should not have, but for `own`, which they drop
/// and this process gets back. The agent waits for its plan for `time`. This process reaps both.
pub fn fork<T>(time: Duration, own: T) -> io::Result<(Forked, T)> {
    let (guardian, own) = Guardian::start(own)?;
    let (near, far) = UnixStream::pair()?;
    let group = guardian.group();
    if let Some(pid) = system::fork(c"mpiexec-agent")? {
        let link = Link::local(near)?;
        return Ok((Forked { link, pid, group }, own));
    }
    drop((near, own));
    let until = Instant::now() + time;
    let run = || {
        let plan = Link::local(far).map_err(|error| error.to_string());
        let plan = plan.and_then(|link| calling::plan(link, until, None));
        let plan = plan.and_then(|plan| plan.ok_or_else(|| calling::HUNG_UP.to_owned()));
        run_with(plan, Some(guardian))
    };
    // Unwinding must not reach the caller's copy of the root.
    system::exit(panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(FAILED))
}

/// Runs an agent from its plan to its end. That of the root's own host has its guardian already.
/// Returns the agent's exit code.
fn run_with(plan: Result<(Link, Plan), String>, guardian: Option<Guardian>) -> u8 {
    let is_own = guardian.is_some();
    let text = match plan.map(|(link, plan)| Agent::start(link, plan, guardian)) {
        Ok(Ok(mut agent)) => return agent.serve(),
        // The root of this host has said why it sends no plan.
        Err(_) if is_own => return FAILED,
        Ok(Err(text)) | Err(text) => text,
    };
    eprintln!("mpiexec on {}: {text}", host());
    FAILED
}

struct Agent {
    parent: Link,
    /// Whether this is the agent of the root's own host.
    is_own: bool,
    me: Member,
    /// Ranks in the job.
    size: usize,
    cleanup: bool,
    children: Children,
    signals: Signals,
    guardian: Guardian,
    not_ours: Vec<Pid>,
    /// The started ranks, in the order of `me.ranks`.
    ranks: Vec<Rank>,
    server: Server,
    fence: Fence,
    /// Bytes of standard output and standard error that may be sent.
    credit: [i64; 2],
    /// Ranks that have ended and are not reported yet.
    ended: Vec<(u32, (u32, u8))>,
    /// When to report them.
    report: Option<Instant>,
    /// Whether a rank has asked the root for something, perhaps to spawn a job, which may last longer.
    has_asked: bool,
    /// Whether the root waits for wait reports of all ranks.
    is_asked: bool,
    /// The number of stuck ranks that the root knows.
    stuck: u32,
    /// Whether the parent knows that no rank comes to a fence again.
    has_left: bool,
    /// Whether the ranks were asked to end, or killed.
    is_ending: bool,
    /// Whether the ranks were killed.
    is_killed: bool,
    /// When to end, once that was requested.
    quit: Option<Instant>,
    /// Messages that came while ranks were started.
    early: Vec<Down>,
    /// Whether a signal came that ends this process while ranks were started.
    is_asked_to_end: bool,
    /// Notes of the children's traffic.
    notes: Vec<String>,
}

#[derive(Clone, Copy)]
enum Owner {
    Signals,
    Parent,
    Child(Key),
    Pmi(usize),
    Output(usize, usize),
    Feed(usize),
}

impl Agent {
    fn start(parent: Link, plan: Plan, guardian: Option<Guardian>) -> Result<Agent, String> {
        let common = plan.common.clone();
        let is_own = guardian.is_some();
        let guardian = || guardian.map_or_else(Guardian::alone, Ok);
        let (mut agent, mut events) = Agent::of(parent, plan, is_own, guardian)?;
        agent.start_ranks(&common);
        agent.take(&mut events);
        Ok(agent)
    }

    /// Creates an agent without ranks, starts the agents below it, and returns the events of that.
    fn of(
        parent: Link,
        plan: Plan,
        is_own: bool,
        guardian: impl FnOnce() -> io::Result<Guardian>,
    ) -> Result<(Agent, Vec<Event>), String> {
        check_plan(&plan)?;
        let mut parent = parent;
        parent.set_ranks(plan.common.size as usize);
        // Without it the loss of the parent is noticed after the usual time.
        let _ = parent.set_silence(plan.common.boot.silence);
        let Plan { common, hosts } = plan;
        let mut hosts = hosts.into_iter();
        let me = hosts.next().ok_or("the plan names no host")?;
        let others: Vec<Member> = hosts.collect();
        let signals =
            Signals::take(HANDLED).map_err(|e| format!("can't take signals over: {e}"))?;
        let not_ours = orphans::children();
        system::become_subreaper();
        let guardian =
            guardian().map_err(|e| format!("can't start a process to watch over: {e}"))?;
        // Other hosts take longest, so they come first.
        let branches: Vec<_> = tree::branches(&others, common.boot.width as usize)
            .into_iter()
            .map(|branch| (branch, common.boot.clone()))
            .collect();
        let mut events = Vec::new();
        let children = Children::start(common.clone(), branches, Running::default(), &mut events)
            .map_err(|e| format!("can't wait for calls of other agents: {e}"))?;
        let appnums = me.ranks.iter().map(|&rank| common.appnum(rank));
        let appnums = appnums.collect::<Option<Vec<u32>>>();
        let appnums = appnums.ok_or("the plan has no program for one of the ranks")?;
        let mut server = Server::new(&common.kvs, &appnums).below();
        server.set_universe(common.universe.map(|number| number as usize));
        if !common.mapping.is_empty() {
            server.preset("PMI_process_mapping", &common.mapping);
        }
        for (key, value) in &common.preput {
            server.preset(key, value);
        }
        let fence = Fence::new(!me.ranks.is_empty(), children.len());
        let agent = Agent {
            parent,
            is_own,
            size: common.size as usize,
            cleanup: common.cleanup,
            children,
            signals,
            guardian,
            not_ours,
            ranks: Vec::new(),
            server,
            fence,
            credit: [common.window.into(); 2],
            ended: Vec::new(),
            report: None,
            has_asked: false,
            is_asked: false,
            stuck: 0,
            has_left: false,
            is_ending: false,
            is_killed: false,
            quit: None,
            early: Vec::new(),
            is_asked_to_end: false,
            notes: Vec::new(),
            me,
        };
        Ok((agent, events))
    }

    /// Serves the ranks, the parent and the children. Returns the exit code.
    fn serve(&mut self) -> u8 {
        let mut entries: Vec<libc::pollfd> = Vec::new();
        let mut owners: Vec<Owner> = Vec::new();
        let mut events = Vec::new();
        for message in std::mem::take(&mut self.early) {
            self.obey(message);
        }
        if self.is_asked_to_end {
            return self.break_off(ASKED_TO_END);
        }
        self.reap(&mut events);
        self.take(&mut events);
        loop {
            if self.is_ending {
                let pause = (self.ranks.len() / PER_MILLISECOND) as u64;
                std::thread::sleep(Duration::from_millis(pause));
            }
            entries.clear();
            owners.clear();
            self.list(|fd, events, who| {
                entries.push(libc::pollfd {
                    fd,
                    events,
                    revents: 0,
                });
                owners.push(who);
            });
            system::poll(&mut entries, self.wait_time());
            for (entry, &who) in entries.iter().zip(&owners) {
                if entry.revents == 0 {
                    continue;
                }
                match who {
                    Owner::Signals => {
                        if !self.handle_signals(&mut events) {
                            return self.break_off(ASKED_TO_END);
                        }
                    }
                    Owner::Parent => self.parent.read(),
                    Owner::Child(key) => self.children.handle(key, &mut events),
                    Owner::Pmi(rank) => self.hear(rank),
                    Owner::Output(rank, stream) => self.read_output(rank, stream),
                    Owner::Feed(feed) => self.feed(feed),
                }
            }
            loop {
                match self.parent.next::<Down>() {
                    Ok(Some(message)) => self.obey(message),
                    Ok(None) => break,
                    Err(_) => {
                        return self.break_off("the parent sent something that makes no sense");
                    }
                }
            }
            let now = Instant::now();
            self.children.look_at_clock(now, &mut events);
            self.take(&mut events);
            self.send_pieces(now);
            self.look_for_reports();
            self.look_whether_stuck();
            self.report_ended(now);
            if self.is_done() {
                self.quit.get_or_insert(now);
            }
            self.parent.flush();
            if !self.parent.is_open() {
                return self.break_off("the connection to the parent has ended");
            }
            if let Some(until) = self.quit
                && (now >= until || !self.children.any_up())
            {
                return self.leave();
            }
        }
    }

    fn list(&self, mut add: impl FnMut(RawFd, i16, Owner)) {
        add(self.signals.descriptor(), libc::POLLIN, Owner::Signals);
        add(
            self.parent.descriptor(),
            self.parent.events(),
            Owner::Parent,
        );
        self.children
            .list(|fd, events, key| add(fd, events, Owner::Child(key)));
        for (index, rank) in self.ranks.iter().enumerate() {
            if let Some(pmi) = &rank.pmi {
                let events = match rank.answers.waits() {
                    true => libc::POLLOUT,
                    false => libc::POLLIN,
                };
                add(pmi.as_raw_fd(), events, Owner::Pmi(index));
            }
            for (stream, output) in rank.output.iter().enumerate() {
                if let Some(fd) = output.descriptor().filter(|_| self.credit[stream] > 0) {
                    add(fd, libc::POLLIN, Owner::Output(index, stream));
                }
            }
            if let Some(fd) = rank.feed.as_ref().and_then(Feed::wanted) {
                add(fd, libc::POLLOUT, Owner::Feed(index));
            }
        }
    }

    fn wait_time(&self) -> i32 {
        if self.quit.is_some() && !self.children.any_up() {
            return 0;
        }
        let now = Instant::now();
        let outputs = self
            .ranks
            .iter()
            .flat_map(|rank| rank.output.iter().zip(self.credit));
        let outputs = outputs.filter(|(_, credit)| *credit > 0);
        let pieces = outputs.filter_map(|(output, _)| output.due()).min();
        let due = [pieces, self.children.due(), self.quit, self.report];
        match due.into_iter().flatten().min() {
            Some(at) => {
                let wait = at.saturating_duration_since(now).as_millis() + 1;
                i32::try_from(wait).unwrap_or(i32::MAX)
            }
            None => -1,
        }
    }

    /// Returns whether the job is to end, so that the remaining ranks need not be started.
    fn is_to_end(&mut self) -> bool {
        while let Some(signal) = self.signals.next() {
            // `serve` reaps the ranks that have ended.
            self.is_asked_to_end |= self.ends_by(signal);
        }
        self.parent.read();
        let mut is_over = self.is_asked_to_end || !self.parent.is_open();
        while let Ok(Some(message)) = self.parent.next::<Down>() {
            is_over |= match &message {
                Down::Signal { number, group } => *group && ENDING.contains(number),
                Down::Kill {} | Down::Quit {} => true,
                _ => false,
            };
            self.early.push(message);
        }
        is_over
    }

    /// Handles signals. Returns `false` if this process is to end.
    fn handle_signals(&mut self, events: &mut Vec<Event>) -> bool {
        let mut go_on = true;
        while let Some(signal) = self.signals.next() {
            go_on &= !self.ends_by(signal);
        }
        self.reap(events);
        go_on
    }

    /// Returns whether a signal ends this process. The root handles the signals of its own host, and
    /// a batch system may send them to all processes there.
    fn ends_by(&self, signal: i32) -> bool {
        !self.is_own && ENDING.contains(&signal)
    }

    /// Returns whether all ranks of the job are on the root's own host.
    fn is_alone(&self) -> bool {
        self.is_own && self.me.ranks.len() == self.size
    }

    /// Returns whether the root, once it hears of the last rank's end, has nothing to do but end the job.
    fn is_done(&self) -> bool {
        let all_run_here = self.is_own && self.ranks.len() == self.size;
        all_run_here && !self.has_asked && self.ranks.iter().all(|rank| rank.ending.is_some())
    }

    /// Carries out a message of the parent, and passes it on.
    fn obey(&mut self, message: Down) {
        match receivers(&message) {
            Receivers::Host(host) if host != self.me.number => {
                self.children.send(&message);
                return;
            }
            Receivers::Host(_) => {}
            Receivers::All => self.children.send(&message),
        }
        match message {
            Down::Plan { .. } => {}
            Down::Release { pairs } => self.release(pairs),
            Down::Answer { rank, line, .. } => {
                if let Some(index) = self.index(rank) {
                    self.answer(index, &line.0);
                }
            }
            Down::Input { rank, bytes, .. } => self.input(rank, &bytes.0),
            Down::Signal { number, .. } if !(1..=64).contains(&number) => {}
            Down::Signal { number, group } => match group {
                true => {
                    self.is_ending |= ENDING.contains(&number);
                    // The root signals the ranks of its own host.
                    if !self.is_own {
                        self.guardian.signal(number);
                    }
                }
                false => {
                    let running = self.ranks.iter().filter(|rank| rank.ending.is_none());
                    running.for_each(|rank| system::kill(rank.pid, number));
                }
            },
            Down::Where { by_signal } => {
                if by_signal {
                    self.guardian.signal(libc::SIGQUIT);
                }
                for rank in &mut self.ranks {
                    rank.output[1].mark();
                }
                self.is_asked = true;
            }
            Down::LastWords {} => {
                self.ask_for_last_words();
                self.is_asked = true;
            }
            Down::Stages {} => {
                let host = self.me.number;
                let stages =
                    (0..self.me.ranks.len()).map(|index| from_stage(self.server.stage(index)));
                let stages = Bytes(stages.collect());
                self.parent.send(&Up::Stages { host, stages });
            }
            Down::Kill {} => {
                self.children.give_up_the_unborn();
                // The root kills the group of its own host, and reaps its guardian.
                if self.is_own {
                    self.guardian.release();
                }
                self.kill();
            }
            Down::Credit { stream, bytes, .. } => {
                let credit = &mut self.credit[usize::from(stream.min(1))];
                *credit = credit.saturating_add(bytes.into());
            }
            Down::Lose { rank, .. } => self.lose(rank),
            Down::Abort { caller, ranks } => {
                for rank in ranks {
                    self.server.note_aborted(rank);
                    let here = self.index(rank).filter(|_| rank != caller);
                    let state = here.and_then(|index| self.ranks.get(index));
                    if let Some(running) = state.filter(|rank| rank.ending.is_none()) {
                        system::kill(running.pid, libc::SIGKILL);
                    }
                }
            }
            Down::Deaf { stream } => {
                for rank in &mut self.ranks {
                    rank.output[usize::from(stream.min(1))].close();
                }
            }
            Down::Quit {} => {
                self.children.give_up_the_unborn();
                self.quit.get_or_insert(Instant::now() + FAREWELL);
            }
        }
    }

    /// Handles the events of the children.
    fn take(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            match event {
                Event::Message(child, message) => match *message {
                    Up::Fence { pairs } => {
                        let complete = self.fence.come(child + 1, pairs);
                        self.tell_fence(complete);
                    }
                    Up::Left {} => self.leave_fence(child + 1),
                    Up::Gone { notes } => self.notes.extend(notes),
                    message => self.parent.send(&message),
                },
                Event::Failed { child, code, text } => {
                    let host = self.children.below(child).first().copied().unwrap_or(0);
                    let text = format!("from host '{}': {text}", self.me.name);
                    self.parent.send(&Up::Trouble { host, code, text });
                    self.leave_fence(child + 1);
                }
                Event::Lost { child, text } => {
                    let hosts = self.children.below(child);
                    self.parent.send(&Up::Lost { hosts, text });
                    self.leave_fence(child + 1);
                }
            }
        }
    }

    /// Ends a complete fence, if all ranks of the job are here, or reports it to the parent.
    fn tell_fence(&mut self, complete: Option<Vec<Pair>>) {
        match complete {
            Some(pairs) if self.is_alone() => self.release(pairs),
            Some(pairs) => self.parent.send(&Up::Fence { pairs }),
            None => {}
        }
    }

    fn release(&mut self, pairs: Vec<Pair>) {
        let mut actions = Vec::new();
        let pairs = pairs.into_iter().map(|(key, value)| (key.0, value.0));
        self.server.release(pairs, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
    }

    /// Removes the member `who` from the fence, if others go on without lost ranks.
    fn leave_fence(&mut self, who: usize) {
        if self.cleanup {
            return;
        }
        let complete = self.fence.leave(who);
        self.tell_fence(complete);
        if self.fence.is_over() && !std::mem::replace(&mut self.has_left, true) {
            self.parent.send(&Up::Left {});
        }
    }

    fn index(&self, rank: u32) -> Option<usize> {
        self.me.ranks.iter().position(|mine| *mine == rank)
    }

    fn kill(&mut self) {
        self.is_ending = true;
        self.is_killed = true;
        self.guardian.kill();
        let running = self.ranks.iter().filter(|rank| rank.ending.is_none());
        running.for_each(|rank| system::kill(rank.pid, libc::SIGKILL));
    }

    /// Ends everything here. Agents below notice the end of their connections. Returns the exit
    /// code.
    fn break_off(&mut self, why: &str) -> u8 {
        self.kill();
        self.children.end();
        orphans::end(&mut self.guardian, &self.not_ours, true);
        // The root of the own host has said why it ends, or was killed.
        if !self.is_own {
            eprintln!("mpiexec on {}: {why}", host());
        }
        FAILED
    }

    /// Ends in order: sends the last output and says farewell. Returns the exit code.
    fn leave(&mut self) -> u8 {
        self.children.end();
        orphans::end(&mut self.guardian, &self.not_ours, self.is_killed);
        for index in 0..self.ranks.len() {
            for stream in [0, 1] {
                let rest = self.ranks[index].output[stream].drain();
                for bytes in rest.chunks(1 << 20) {
                    self.pass_on(index, stream, bytes.to_vec());
                }
            }
        }
        let notes = std::mem::take(&mut self.notes);
        self.parent.send(&Up::Gone { notes });
        self.parent.flush_within(LAST_WORDS);
        0
    }

    /// Reports how many ranks and agents' ranks wait in a fence for a rank of this host that is gone.
    fn look_whether_stuck(&mut self) {
        let is_gone =
            |index: usize| self.ranks[index].ending.is_some() && !self.server.is_lost(index);
        let gone = (0..self.ranks.len()).any(is_gone);
        let waiting = match gone && !self.fence.has_come(OWN) {
            true => {
                let come = (0..self.children.len()).filter(|child| self.fence.has_come(child + 1));
                let below: usize = come.map(|child| self.children.ranks(child)).sum();
                (self.server.waiting() + below) as u32
            }
            false => 0,
        };
        if waiting != self.stuck {
            self.stuck = waiting;
            let host = self.me.number;
            self.parent.send(&Up::Stuck { host, waiting });
        }
    }
}
