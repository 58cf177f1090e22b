//! The agents that this process starts and is connected to.

mod boot;
mod keys;
mod listen;
mod system;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use netmod_kit::admission::{
    Admitted, Keys as SessionKeys, Pending, Role, Secret, Served, descriptors,
};

pub use self::boot::{JOIN, KINDS, usual};
use self::keys::Keys;
use self::listen::Listeners;
pub use self::listen::interface_addresses;
use self::system as calls;
use crate::agent::Forked;
use crate::system::{Ending, Pid, kill, set_nonblocking};
use crate::wire::check::Claims;
use crate::wire::greeting::Greeting;
use crate::wire::link::{Link, PROTOCOL, host_of};
use crate::wire::messages::{Boot, Common, Down, Member, Plan, Up};
use crate::wire::tree::{Receivers, Routes, receivers};

/// A message or the loss of a child.
pub enum Event {
    /// A message of the child with this index.
    Message(usize, Box<Up>),
    /// The child could not be started, or has not called.
    Failed {
        /// Which.
        child: usize,
        /// The job's exit code.
        code: u8,
        /// For people.
        text: String,
    },
    /// The connection of the child has ended without a farewell.
    Lost {
        /// Which.
        child: usize,
        /// For people.
        text: String,
    },
}

/// Whose descriptor an entry of a poll list is.
#[derive(Debug, Clone, Copy)]
pub enum Key {
    /// A listening socket.
    Listener(usize),
    /// A connection that has not proved a child's secret yet.
    Pending(usize),
    /// The standard error of the command that starts a child.
    Errors(usize),
    /// The connection to a child.
    Link(usize),
}

enum State {
    Starting(Instant),
    Up,
    /// It has said farewell, failed or was lost.
    Over,
}

struct Child {
    /// Its own host, then those that it is to start.
    branch: Vec<Member>,
    /// The kind and command of its start.
    boot: Boot,
    secret: Secret,
    pid: Option<Pid>,
    errors: Option<File>,
    /// The end of the command's standard error.
    tail: Vec<u8>,
    link: Option<Link>,
    state: State,
    claims: Claims,
}

/// The agent of the root's own host, which runs already.
pub struct OwnAgent {
    /// Its host.
    pub member: Member,
    /// The agent.
    pub forked: Forked,
}

/// The agents that run already.
#[derive(Default)]
pub struct Running {
    /// That of the root's own host.
    pub own: Option<OwnAgent>,
    /// The connections to those of the first branches.
    pub links: Vec<Link>,
}

/// Time for a connection to prove the secret of a child.
const PROVING: Duration = Duration::from_secs(10);
/// Most unproved connections at the same time.
const UNPROVED: usize = 256;
/// Bytes of a command's standard error that are kept.
const TAIL: usize = 2048;

/// All children.
pub struct Children {
    common: Common,
    listeners: Listeners,
    pending: Pending<TcpStream>,
    /// Whether the children were asked to end, after which they may leave.
    has_quit: bool,
    children: Vec<Child>,
    routes: Routes,
    /// Messages and bytes to and from children whose connections have ended.
    past: [(u64, u64); 2],
}

impl Children {
    /// Starts an agent for each branch that has none in `running`, and adds the agent of this host, if
    /// there is one, behind them. What fails at once is among the events.
    pub fn start(
        common: Common,
        branches: Vec<(Vec<Member>, Boot)>,
        running: Running,
        events: &mut Vec<Event>,
    ) -> io::Result<Children> {
        let Running { own, links } = running;
        let hosts = branches.iter().map(|branch| branch.0.as_slice());
        let own_host = own.iter().map(|own| std::slice::from_ref(&own.member));
        let routes = Routes::new(hosts.chain(own_host));
        let mut all = Children {
            common,
            listeners: Listeners::default(),
            pending: Pending::new(PROTOCOL, descriptors::spare_slots().min(UNPROVED), PROVING),
            has_quit: false,
            children: Vec::new(),
            routes,
            past: [(0, 0); 2],
        };
        if !branches.is_empty() {
            all.launch(branches, links, events)?;
        }
        if let Some(OwnAgent { member, forked }) = own {
            let boot = Boot {
                kind: boot::OWN.to_owned(),
                ..Boot::default()
            };
            let mut child = Child::new(vec![member], boot)?;
            child.pid = Some(forked.pid);
            child.begin(forked.link, &all.common);
            all.children.push(child);
        }
        Ok(all)
    }

    fn launch(
        &mut self,
        branches: Vec<(Vec<Member>, Boot)>,
        links: Vec<Link>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let mut branches = branches.into_iter();
        for (link, (branch, boot)) in links.into_iter().zip(&mut branches) {
            let mut child = Child::new(branch, boot)?;
            child.begin(link, &self.common);
            self.children.push(child);
        }
        let branches: Vec<(Vec<Member>, Boot)> = branches.collect();
        if branches.is_empty() {
            return Ok(());
        }
        let is_here = |boot: &Boot| boot.kind == "fork";
        let forks = branches.iter().filter(|(_, boot)| is_here(boot)).count();
        let others = branches.iter().filter(|(_, boot)| !is_here(boot));
        let others: Vec<Option<&str>> = others
            .map(|(branch, boot)| boot::has_host_name(boot).then_some(&*branch[0].name))
            .collect();
        let interface = self.common.boot.interface.as_deref();
        self.listeners = Listeners::open(interface, forks, &others)?;
        let several = branches.iter().filter(|(_, boot)| boot.kind == "ssh");
        let keys = match several.clone().count() {
            0 | 1 => Keys::Unknown,
            _ => several
                .map(|(branch, boot)| keys::ask(boot, &branch[0].name))
                .next()
                .unwrap_or_default(),
        };
        let joined = self.children.len();
        for (index, (branch, boot)) in (joined..).zip(branches) {
            let mut child = Child::new(branch, boot)?;
            let addresses = match child.boot.kind.as_str() {
                "fork" => self.listeners.for_this_host(),
                _ => self.listeners.for_others(),
            };
            let greeting = Greeting {
                host: child.branch[0].number,
                secret: child.secret,
                patience: child.boot.patience,
                addresses,
            };
            if let Err(error) = child.launch(&keys, &greeting.line()) {
                child.state = State::Over;
                let text = format!("host '{}' can't be reached: {error}", child.branch[0].name);
                let failed = Event::Failed {
                    child: index,
                    code: 126,
                    text,
                };
                events.push(failed);
            }
            self.children.push(child);
        }
        Ok(())
    }

    /// Returns the number of children.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Returns the numbers of the hosts below a child, its own among them.
    pub fn below(&self, child: usize) -> Vec<u32> {
        self.routes.below(child)
    }

    /// Returns the number of ranks below a child, its own among them.
    pub fn ranks(&self, child: usize) -> usize {
        self.children[child].claims.ranks()
    }

    /// Lists what to wait for.
    pub fn list(&self, mut add: impl FnMut(RawFd, i16, Key)) {
        if self.pending.has_room() {
            for (index, descriptor) in self.listeners.descriptors().enumerate() {
                add(descriptor, libc::POLLIN, Key::Listener(index));
            }
        }
        for (descriptor, slot) in self.pending.descriptors() {
            add(descriptor, libc::POLLIN, Key::Pending(slot));
        }
        for (index, child) in self.children.iter().enumerate() {
            if let Some(errors) = &child.errors {
                add(errors.as_raw_fd(), libc::POLLIN, Key::Errors(index));
            }
            if let Some(link) = child.link.as_ref().filter(|link| link.is_open()) {
                add(link.descriptor(), link.events(), Key::Link(index));
            }
        }
    }

    /// Handles a descriptor that is ready.
    pub fn handle(&mut self, key: Key, events: &mut Vec<Event>) {
        match key {
            Key::Listener(index) => self.accept(index),
            Key::Pending(slot) => self.go_on_with_pending(slot, events),
            Key::Errors(index) => self.children[index].read_errors(),
            Key::Link(index) => self.receive(index, events),
        }
    }

    fn accept(&mut self, index: usize) {
        let listeners = &self.listeners;
        let pending = &mut self.pending;
        // The next poll shows the remaining ones: a flood must not delay the agents that are there.
        let _ = pending.accept(|| listeners.accept(index), |_, _| Ok(()));
    }

    fn go_on_with_pending(&mut self, slot: usize, events: &mut Vec<Event>) {
        let children = &self.children;
        let of = |context: &[u8]| {
            let host = host_of(context)?;
            children.iter().position(|child| {
                child.branch[0].number == host && matches!(child.state, State::Starting(_))
            })
        };
        let served = self.pending.serve(slot, |context| {
            let child = of(context)?;
            Some(children[child].secret)
        });
        if let Served::Admitted(Admitted {
            connection,
            context,
            keys,
        }) = served
            && let Some(child) = of(&context)
        {
            self.welcome(child, connection, &keys, events);
        }
    }

    /// Sends the plan to a child that has proved its secret.
    fn welcome(
        &mut self,
        index: usize,
        stream: TcpStream,
        keys: &SessionKeys,
        events: &mut Vec<Event>,
    ) {
        let child = &mut self.children[index];
        if !matches!(child.state, State::Starting(_)) {
            return;
        }
        match Link::new(stream, keys, Role::Responder) {
            Ok(link) => child.begin(link, &self.common),
            Err(error) => events.push(child.lose(index, &error.to_string())),
        }
        if !self
            .children
            .iter()
            .any(|child| matches!(child.state, State::Starting(_)))
        {
            // No child is to call any more.
            self.listeners = Listeners::default();
            self.pending.clear();
        }
    }

    fn receive(&mut self, index: usize, events: &mut Vec<Event>) {
        let child = &mut self.children[index];
        let Some(link) = &mut child.link else {
            return;
        };
        link.flush();
        link.read();
        loop {
            match link.next::<Up>() {
                Ok(Some(message)) => {
                    let is_early = matches!(message, Up::Gone { .. }) && !self.has_quit;
                    let checked = match is_early && !child.claims.have_ended() {
                        true => Err("has left before the end of the job".to_owned()),
                        false => child.claims.check(&message),
                    };
                    if let Err(what) = checked {
                        events.push(child.lose(index, &format!("it {what}")));
                        child.link = None;
                        return;
                    }
                    if let Up::Gone { .. } = message {
                        child.state = State::Over;
                        if let (Some(pid), true) = (child.pid, boot::may_be_ended(&child.boot)) {
                            kill(pid, libc::SIGKILL);
                        }
                    }
                    events.push(Event::Message(index, Box::new(message)));
                }
                Ok(None) => break,
                Err(_) => {
                    events.push(child.lose(index, "it sent a malformed or too long message"));
                    child.link = None;
                    return;
                }
            }
        }
        if !link.is_open() {
            for (past, now) in self.past.iter_mut().zip([link.sent, link.got]) {
                *past = (past.0 + now.0, past.1 + now.1);
            }
            child.link = None;
            if matches!(child.state, State::Up) {
                child.read_errors();
                events.push(child.lose(index, "the connection to it has ended"));
            }
        }
    }

    /// Returns when to call [`Self::look_at_clock`].
    pub fn due(&self) -> Option<Instant> {
        let starting = self.children.iter().filter_map(|child| match child.state {
            State::Starting(until) => Some(until),
            _ => None,
        });
        starting.chain(self.pending.deadline()).min()
    }

    /// Gives up the children that have not called in time.
    pub fn look_at_clock(&mut self, now: Instant, events: &mut Vec<Event>) {
        self.pending.expire(now);
        for (index, child) in self.children.iter_mut().enumerate() {
            if let State::Starting(until) = child.state
                && now >= until
            {
                child.state = State::Over;
                child.read_errors();
                child.end();
                let boot = &child.boot;
                let text = format!(
                    "host '{}' has not answered within {} seconds{}\n{}",
                    child.branch[0].name,
                    boot.patience,
                    child.said(),
                    boot::advice(boot, &child.branch[0], None)
                );
                events.push(Event::Failed {
                    child: index,
                    code: 1,
                    text,
                });
            }
        }
    }

    /// Records the end of a process. Returns whether it was the command of a child.
    pub fn reaped(&mut self, pid: Pid, ending: Ending, events: &mut Vec<Event>) -> bool {
        let Some(index) = self
            .children
            .iter()
            .position(|child| child.pid == Some(pid))
        else {
            return false;
        };
        let child = &mut self.children[index];
        child.pid = None;
        let starting = matches!(child.state, State::Starting(_));
        // A command may leave the agent to run by itself.
        if starting && ending != Ending::Code(0) {
            child.state = State::Over;
            child.read_errors();
            let (how, code) = match ending {
                Ending::Code(code) => (format!("ended with code {code}"), Some(code)),
                Ending::Signal { number, .. } => (format!("was ended by signal {number}"), None),
            };
            let boot = &child.boot;
            let text = format!(
                "host '{}' can't be used: the command that starts an agent there {how}{}\n{}",
                child.branch[0].name,
                child.said(),
                boot::advice(boot, &child.branch[0], code)
            );
            events.push(Event::Failed {
                child: index,
                code: 1,
                text,
            });
        }
        true
    }

    /// Sends a message to its receivers.
    pub fn send(&mut self, message: &Down) {
        self.has_quit |= matches!(message, Down::Quit {});
        match receivers(message) {
            Receivers::All => {
                for child in &mut self.children {
                    child.send(message);
                }
            }
            Receivers::Host(host) => {
                if let Some(child) = self.routes.to(host) {
                    self.children[child].send(message);
                }
            }
        }
    }

    /// Ends the commands of children that have not called yet.
    pub fn give_up_the_unborn(&mut self) {
        for child in &mut self.children {
            if matches!(child.state, State::Starting(_)) {
                child.state = State::Over;
                child.end();
            }
        }
    }

    /// Returns whether a child has not said farewell and is not lost.
    pub fn any_up(&self) -> bool {
        let up = |child: &Child| !matches!(child.state, State::Over);
        self.children.iter().any(up)
    }

    /// Returns whether a command still runs.
    pub fn any_command(&self) -> bool {
        self.children.iter().any(|child| child.pid.is_some())
    }

    /// Ends all commands.
    pub fn end(&mut self) {
        self.children.iter().for_each(Child::end);
    }

    /// Returns the messages and bytes to and from all children.
    pub fn traffic(&self) -> [(u64, u64); 2] {
        let mut all = self.past;
        for link in self.children.iter().filter_map(|child| child.link.as_ref()) {
            for (sum, now) in all.iter_mut().zip([link.sent, link.got]) {
                *sum = (sum.0 + now.0, sum.1 + now.1);
            }
        }
        all
    }
}

impl Child {
    fn new(branch: Vec<Member>, boot: Boot) -> io::Result<Child> {
        let patience = Duration::from_secs(boot.patience.max(1).into());
        // The command itself gives up a little earlier, and knows more to say.
        let until = Instant::now() + patience + Duration::from_secs(2);
        Ok(Child {
            boot,
            secret: Secret::random()?,
            claims: Claims::new(&branch),
            branch,
            pid: None,
            errors: None,
            tail: Vec::new(),
            link: None,
            state: State::Starting(until),
        })
    }

    /// Sends the plan over a connection to the child's agent.
    fn begin(&mut self, mut link: Link, common: &Common) {
        link.set_ranks(self.claims.ranks());
        // Without it the loss of the host is noticed after the usual time.
        let _ = link.set_silence(common.boot.silence);
        let plan = Box::new(Plan {
            common: common.clone(),
            hosts: self.branch.clone(),
        });
        link.send(&Down::Plan { plan });
        self.link = Some(link);
        self.state = State::Up;
    }

    fn launch(&mut self, keys: &Keys, line: &str) -> Result<(), String> {
        let boot = &self.boot;
        let host = &self.branch[0];
        let Some(mut command) = boot::command(boot, keys, host) else {
            let agent = String::from_utf8_lossy(&boot.agent.0).into_owned();
            eprint!(
                "mpiexec: on host '{}' start '{agent} {}' and give it this line:\n{line}",
                host.name,
                crate::wire::greeting::OPTION
            );
            return Ok(());
        };
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        calls::prepare(&mut command);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .spawn()
            .map_err(|error| format!("'{program}' can't be run: {error}"))?;
        self.pid = Pid::try_from(child.id()).ok();
        if let Some(mut stdin) = child.stdin.take() {
            // A command that has ended already is found out by its end.
            let _ = stdin.write_all(line.as_bytes());
        }
        if let Some(errors) = child.stderr.take() {
            let errors = OwnedFd::from(errors);
            set_nonblocking(&errors).map_err(|error| error.to_string())?;
            self.errors = Some(File::from(errors));
        }
        Ok(())
    }

    fn read_errors(&mut self) {
        let mut buffer = [0u8; 4096];
        while let Some(errors) = &mut self.errors {
            match errors.read(&mut buffer) {
                Ok(0) => self.errors = None,
                Ok(n) => {
                    self.tail.extend_from_slice(&buffer[..n]);
                    let surplus = self.tail.len().saturating_sub(TAIL);
                    self.tail.drain(..surplus);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.errors = None,
            }
        }
    }

    /// Returns the last lines of the command's standard error, for the end of a sentence.
    fn said(&self) -> String {
        let text = String::from_utf8_lossy(&self.tail);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(3)..];
        match last.is_empty() {
            true => String::new(),
            false => format!(": {}", last.join("; ")),
        }
    }

    fn lose(&mut self, index: usize, why: &str) -> Event {
        self.state = State::Over;
        let text = format!(
            "the agent on host '{}' is lost: {why}{}",
            self.branch[0].name,
            self.said()
        );
        Event::Lost { child: index, text }
    }

    fn send(&mut self, message: &Down) {
        if let Some(link) = &mut self.link {
            link.send(message);
        }
    }

    fn end(&self) {
        if let Some(pid) = self.pid {
            kill(pid, libc::SIGKILL);
        }
    }
}
