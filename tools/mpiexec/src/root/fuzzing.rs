//! The fuzz targets for messages of agents to the root, and for frames.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;

use super::{Fence, Root, setup};
use crate::children::Running;
use crate::options::{Request, parse};
use crate::output::Sink;
use crate::root::plan;
use crate::wire::check::Claims;
use crate::wire::frames::{Field, Frames, frame};
use crate::wire::messages::{Boot, Down, Member, Up};

/// The job: three agents with a host each, five ranks.
const LINE: &[&str] = &["-bootstrap", "fork", "-hosts", "a:2,b:2,c:1", "-n", "5"];

/// Options of the job, of which the input's first byte chooses.
const CHOICES: &[&[&str]] = &[
    &["-l"],
    &["-disable-auto-cleanup"],
    &["-print-all-exitcodes"],
    &["-s", "all"],
];

/// An agent as seen by the root's connection to it.
struct Agent {
    hosts: Vec<u32>,
    claims: Claims,
    is_lost: bool,
}

impl Agent {
    fn of((branch, _): (Vec<Member>, Boot)) -> Agent {
        Agent {
            hosts: branch.iter().map(|member| member.number).collect(),
            claims: Claims::new(&branch),
            is_lost: false,
        }
    }
}

/// Gives the root of a job the messages of its agents in turn. The agents have proved the job's secret,
/// but the root must survive a host that is out of order.
pub fn agents(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else {
        return;
    };
    let chosen = CHOICES.iter().enumerate();
    let chosen = chosen.filter(|(place, _)| choice & (1 << place) != 0);
    let words = LINE.iter().chain(chosen.flat_map(|(_, words)| *words));
    let words: Vec<OsString> = words.chain(&["./program"]).map(OsString::from).collect();
    let Ok(Request::Run(mut options)) = parse(&words, |_| None) else {
        panic!("{words:?}");
    };
    let placement = plan::plan(&mut options, &crate::fuzzing::Around::default());
    let placement = placement.expect("hosts");
    let setup = setup::setup(&options, &placement);
    let mut setup = setup.unwrap_or_else(|unfit| panic!("{}", unfit.message));
    let mut agents: Vec<Agent> = setup.branches.drain(..).map(Agent::of).collect();
    let programs = vec!["program".to_owned(); options.sections.len()];
    let root = Root::of(&options, &placement, setup, Running::default(), programs);
    let mut root = root.unwrap_or_else(|unfit| panic!("{}", unfit.message));
    // No agent is started, so messages to agents are dropped.
    root.fence = Fence::new(false, agents.len());
    let nowhere = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    root.output.sinks = [0, 1].map(|_| Sink::new(nowhere.as_raw_fd()));
    let mut frames = Frames::default();
    frames.push(bytes);
    let mut turn = usize::from(choice >> 6) % agents.len();
    while let Ok(Some(message)) = frames.next::<Up>() {
        // A spawned job would be started.
        let spawns = matches!(&message, Up::Line { line, .. } if line.0.windows(4).any(|word| word == b"mcmd"));
        if spawns {
            continue;
        }
        // The next agent that may send the message sends it; without one, the next agent lies and is lost.
        let all = (turn..agents.len()).chain(0..turn);
        let all: Vec<usize> = all.filter(|child| !agents[*child].is_lost).collect();
        let mut speakers = all.iter().copied();
        match speakers.find(|child| agents[*child].claims.check(&message).is_ok()) {
            Some(child) => root.hear(child, message),
            None => {
                let Some(&child) = all.first() else { break };
                agents[child].is_lost = true;
                root.lose_hosts(&agents[child].hosts, "it lies".to_owned());
                root.leave_fence(child);
            }
        }
        root.look_for_deadlock();
        root.look_at_clock();
        let _ = root.is_over();
        turn = (turn + 1) % agents.len();
    }
    let _ = root.tell_end(&options);
    root.signals.give_back();
    let ranks = root
        .ranks
        .iter()
        .filter(|rank| rank.pid.is_some() && rank.ending.is_none());
    assert_eq!(ranks.count(), root.running);
}

/// Parses frames of both directions, and checks that written messages come back.
pub fn frames(bytes: &[u8]) {
    fn read<T: Field>(bytes: &[u8]) {
        let mut frames = Frames::default();
        let mut again = Vec::new();
        for piece in bytes.chunks(11) {
            frames.push(piece);
            while let Ok(Some(message)) = frames.next::<T>() {
                frame(&message, &mut again);
            }
        }
        let mut frames = Frames::default();
        frames.push(&again);
        let mut twice = Vec::new();
        while let Some(message) = frames.next::<T>().expect("what was written is read") {
            frame(&message, &mut twice);
        }
        assert_eq!(twice, again);
    }
    read::<Up>(bytes);
    read::<Down>(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_were_given_up_start_no_ranks() {
        let mut bytes = vec![0];
        let (hosts, text) = (vec![0], "gone".to_owned());
        frame(&Up::Lost { hosts, text }, &mut bytes);
        let (host, pids, notes) = (0, vec![11, 12], Vec::new());
        frame(&Up::Started { host, pids, notes }, &mut bytes);
        agents(&bytes);
    }
}
