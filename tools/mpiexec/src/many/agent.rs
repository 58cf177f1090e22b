//! An agent: `mpiexec` in the role of looking after the ranks of one host, for a parent that is
//! `mpiexec` itself or another agent.

mod calling;
pub mod fuzzing;
mod ranks;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pmi::server::Server;

use self::ranks::{Feed, Output};
use super::check::check_plan;
use super::children::{Children, Event, Key};
use super::link::Link;
use super::messages::{Down, Member, Plan, Up};
use super::tree::{self, Fence, OWN, Way, way};
use super::wire::Bytes;
use crate::guardian::Guardian;
use crate::orphans;
use crate::rank::Rank;
use crate::report::host;
use crate::system::{self, Pid, Signals};

/// Signals that an agent handles itself.
const HANDLED: &[i32] = &[libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Time for the agents below to say farewell.
const FAREWELL: Duration = Duration::from_millis(1500);
/// Time for the last words to the parent to leave.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Why an agent ends that has got a signal.
const ASKED_TO_END: &str = "it was asked to end by a signal";
/// The exit code of an agent that has failed; its parent knows why or is gone.
const FAILED: u8 = 1;

/// Is an agent, from the line on standard input to the end.
pub fn run() -> ExitCode {
    let (link, plan) = match calling::parent() {
        Ok(both) => both,
        Err(text) => {
            eprintln!("mpiexec on {}: {text}", host());
            return ExitCode::from(FAILED);
        }
    };
    match Agent::start(link, plan) {
        Ok(mut agent) => agent.serve(),
        Err(text) => {
            eprintln!("mpiexec on {}: {text}", host());
            ExitCode::from(FAILED)
        }
    }
}

struct Agent {
    parent: Link,
    me: Member,
    size: usize,
    cleanup: bool,
    children: Children,
    signals: Signals,
    guardian: Guardian,
    not_ours: Vec<Pid>,
    /// The ranks here, by their place in `me.ranks`.
    ranks: Vec<Rank>,
    server: Server,
    fence: Fence,
    /// What ranks print, by rank and stream.
    output: Vec<[Output; 2]>,
    /// Bytes of output that may be sent.
    credit: i64,
    feeds: Vec<Feed>,
    /// Ranks that have ended, which the parent doesn't know yet, and when to tell.
    ended: Vec<(u32, (u32, u8))>,
    report: Option<Instant>,
    /// Whether the parent waits for all ranks to have said where they are.
    asked: bool,
    stuck: bool,
    left: bool,
    /// When to be gone, once that was asked for.
    quit: Option<Instant>,
    /// What the parent has said while ranks were started.
    early: Vec<Down>,
    /// Whether a signal has asked this process to end while ranks were started.
    is_asked_to_end: bool,
    /// What is known of the children's traffic, for those who count.
    notes: Vec<String>,
}

#[derive(Clone, Copy)]
enum Who {
    Signals,
    Parent,
    Child(Key),
    Pmi(usize),
    Output(usize, usize),
    Feed(usize),
}

impl Agent {
    fn start(parent: Link, plan: Plan) -> Result<Agent, String> {
        let common = plan.common.clone();
        let (mut agent, mut events) = Agent::of(parent, plan, Guardian::start)?;
        agent.start_ranks(&common);
        agent.take(&mut events);
        Ok(agent)
    }

    /// An agent before its ranks are started, and the events of starting the agents below it.
    fn of(
        parent: Link,
        plan: Plan,
        guardian: impl FnOnce() -> io::Result<Guardian>,
    ) -> Result<(Agent, Vec<Event>), String> {
        check_plan(&plan)?;
        let mut parent = parent;
        parent.set_ranks(plan.common.size as usize);
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
        let children = Children::start(common.clone(), branches, &mut events)
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
            size: common.size as usize,
            cleanup: common.cleanup,
            children,
            signals,
            guardian,
            not_ours,
            ranks: Vec::new(),
            server,
            fence,
            output: me.ranks.iter().map(|_| Default::default()).collect(),
            credit: common.window.into(),
            feeds: Vec::new(),
            ended: Vec::new(),
            report: None,
            asked: false,
            stuck: false,
            left: false,
            quit: None,
            early: Vec::new(),
            is_asked_to_end: false,
            notes: Vec::new(),
            me,
        };
        Ok((agent, events))
    }

    fn serve(&mut self) -> ExitCode {
        let mut entries: Vec<libc::pollfd> = Vec::new();
        let mut owners: Vec<Who> = Vec::new();
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
                    Who::Signals => {
                        if !self.handle_signals(&mut events) {
                            return self.break_off(ASKED_TO_END);
                        }
                    }
                    Who::Parent => self.parent.read(),
                    Who::Child(key) => self.children.handle(key, &mut events),
                    Who::Pmi(rank) => self.hear(rank),
                    Who::Output(rank, stream) => self.read_output(rank, stream),
                    Who::Feed(feed) => self.feed(feed),
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
            self.look_for_words();
            self.report_ended(now);
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

    fn list(&self, mut add: impl FnMut(RawFd, i16, Who)) {
        add(self.signals.descriptor(), libc::POLLIN, Who::Signals);
        add(self.parent.descriptor(), self.parent.events(), Who::Parent);
        self.children
            .list(|fd, events, key| add(fd, events, Who::Child(key)));
        for (index, rank) in self.ranks.iter().enumerate() {
            if let Some(pmi) = &rank.pmi {
                let events = match rank.answers.waits() {
                    true => libc::POLLOUT,
                    false => libc::POLLIN,
                };
                add(pmi.as_raw_fd(), events, Who::Pmi(index));
            }
            if self.credit > 0 {
                for (stream, output) in self.output[index].iter().enumerate() {
                    if let Some(fd) = output.descriptor() {
                        add(fd, libc::POLLIN, Who::Output(index, stream));
                    }
                }
            }
        }
        for (index, feed) in self.feeds.iter().enumerate() {
            if let Some(fd) = feed.wanted() {
                add(fd, libc::POLLOUT, Who::Feed(index));
            }
        }
    }

    fn wait_time(&self) -> i32 {
        let now = Instant::now();
        let pieces = self.output.iter().flatten().filter_map(Output::due);
        let pieces = pieces.filter(|_| self.credit > 0).min();
        let due = [pieces, self.children.due(), self.quit, self.report];
        match due.into_iter().flatten().min() {
            Some(at) => {
                let wait = at.saturating_duration_since(now).as_millis() + 1;
                i32::try_from(wait).unwrap_or(i32::MAX)
            }
            None => -1,
        }
    }

    /// Looks, while ranks are started, whether the job is to end: then the others need not be started.
    fn is_to_end(&mut self) -> bool {
        while let Some(signal) = self.signals.next() {
            // Those who have ended are looked for later.
            self.is_asked_to_end |= signal != libc::SIGCHLD;
        }
        self.parent.read();
        let mut is_over = self.is_asked_to_end || !self.parent.is_open();
        while let Ok(Some(message)) = self.parent.next::<Down>() {
            is_over |= match &message {
                Down::Signal { number, group } => {
                    *group && [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].contains(number)
                }
                Down::Kill {} | Down::Quit {} => true,
                _ => false,
            };
            self.early.push(message);
        }
        is_over
    }

    /// Handles signals; `false` if this process is to end.
    fn handle_signals(&mut self, events: &mut Vec<Event>) -> bool {
        let mut go_on = true;
        while let Some(signal) = self.signals.next() {
            go_on &= signal == libc::SIGCHLD;
        }
        self.reap(events);
        go_on
    }

    /// Does what the parent says, and passes it on.
    fn obey(&mut self, message: Down) {
        match way(&message) {
            Way::Host(host) if host != self.me.number => {
                self.children.send(&message);
                return;
            }
            Way::Host(_) => {}
            Way::All => self.children.send(&message),
        }
        match message {
            Down::Plan { .. } => {}
            Down::Release { pairs } => {
                let mut actions = Vec::new();
                let pairs = pairs.into_iter().map(|(key, value)| (key.0, value.0));
                self.server.release(pairs, &mut actions);
                actions.into_iter().for_each(|action| self.act(action));
            }
            Down::Answer { rank, line, .. } => {
                if let Some(index) = self.index(rank) {
                    self.answer(index, &line.0);
                }
            }
            Down::Input { rank, bytes, .. } => self.input(rank, bytes),
            Down::Signal { number, .. } if !(1..=64).contains(&number) => {}
            Down::Signal { number, group } => match group {
                true => self.guardian.signal(number),
                false => {
                    let running = self.ranks.iter().filter(|rank| rank.ending.is_none());
                    running.for_each(|rank| system::kill(rank.pid, number));
                }
            },
            Down::Where {} => {
                self.guardian.signal(libc::SIGQUIT);
                self.guardian.signal(libc::SIGCONT);
                for output in &mut self.output {
                    output[1].mark();
                }
                self.asked = true;
            }
            Down::Kill {} => {
                self.children.give_up_the_unborn();
                self.kill();
            }
            Down::Credit { bytes, .. } => self.credit = self.credit.saturating_add(bytes.into()),
            Down::Lose { rank, .. } => self.lose(rank),
            Down::Abort { caller, ranks } => {
                for rank in ranks {
                    self.server.note_aborted(rank);
                    let here = self.index(rank).filter(|_| rank != caller);
                    let running = here.filter(|index| self.ranks[*index].ending.is_none());
                    if let Some(index) = running {
                        system::kill(self.ranks[index].pid, libc::SIGKILL);
                    }
                }
            }
            Down::Deaf { stream } => {
                for output in &mut self.output {
                    output[usize::from(stream.min(1))].close();
                }
            }
            Down::Quit {} => {
                self.children.give_up_the_unborn();
                self.quit.get_or_insert(Instant::now() + FAREWELL);
            }
        }
    }

    /// Takes in what children have to say.
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

    fn tell_fence(&mut self, complete: Option<Vec<super::messages::Pair>>) {
        if let Some(pairs) = complete {
            self.parent.send(&Up::Fence { pairs });
        }
        self.look_whether_stuck();
    }

    /// Fences go on without whoever has this number in them.
    fn leave_fence(&mut self, who: usize) {
        if self.cleanup {
            return;
        }
        let complete = self.fence.leave(who);
        self.tell_fence(complete);
        if self.fence.is_over() && !std::mem::replace(&mut self.left, true) {
            self.parent.send(&Up::Left {});
        }
    }

    fn index(&self, rank: u32) -> Option<usize> {
        self.me.ranks.iter().position(|mine| *mine == rank)
    }

    fn kill(&self) {
        self.guardian.signal(libc::SIGKILL);
        let running = self.ranks.iter().filter(|rank| rank.ending.is_none());
        running.for_each(|rank| system::kill(rank.pid, libc::SIGKILL));
    }

    /// Ends everything here; agents below notice that their parent is gone.
    fn break_off(&mut self, why: &str) -> ExitCode {
        self.kill();
        self.children.end();
        orphans::end(&self.guardian, &self.not_ours, true);
        eprintln!("mpiexec on {}: {why}", host());
        ExitCode::from(FAILED)
    }

    /// The end as it should be: the last output, and a farewell.
    fn leave(&mut self) -> ExitCode {
        self.children.end();
        orphans::end(&self.guardian, &self.not_ours, false);
        for index in 0..self.ranks.len() {
            for stream in [0, 1] {
                let rank = self.me.ranks[index];
                let rest = self.output[index][stream].drain();
                for bytes in rest.chunks(1 << 20) {
                    let bytes = Bytes(bytes.to_vec());
                    let stream = stream as u8;
                    self.parent.send(&Up::Output {
                        rank,
                        stream,
                        bytes,
                    });
                }
            }
        }
        let notes = std::mem::take(&mut self.notes);
        self.parent.send(&Up::Gone { notes });
        self.parent.flush_within(LAST_WORDS);
        ExitCode::SUCCESS
    }

    /// A fence is stuck here if ranks or agents wait for a rank of this host that is gone.
    fn look_whether_stuck(&mut self) {
        let gone = |index: usize| self.ranks[index].ending.is_some() && !self.server.is_lost(index);
        let waiting = self.server.waiting();
        let waits = waiting > 0 || self.fence.children_wait();
        if self.stuck || !waits || !(0..self.ranks.len()).any(gone) || self.fence.has_come(OWN) {
            return;
        }
        self.stuck = true;
        let waiting = waiting.max(1) as u32;
        self.parent.send(&Up::Stuck { waiting });
    }
}
