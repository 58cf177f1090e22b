//! Messages of agents to the root, for the fuzz targets alone.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;

use super::{Fence, Root, setup};
use crate::many::messages::{Down, Up};
use crate::many::plan;
use crate::many::wire::{Field, Frames, frame};
use crate::options::{Request, parse};
use crate::output::Sink;

/// The job: two agents, three hosts, five ranks.
const LINE: &[&str] = &["-bootstrap", "fork", "-hosts", "a:2,b:2,c:1", "-n", "5"];
const CHILDREN: usize = 2;

/// Options of the job, of which the input's first byte chooses.
const CHOICES: &[&[&str]] = &[
    &["-l"],
    &["-disable-auto-cleanup"],
    &["-print-all-exitcodes"],
    &["-s", "all"],
];

/// Has the root of a job handle the messages of two agents, in turn. The agents have proved the job's secret, but the
/// root must survive a host that is out of order.
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
    let placement = placement.expect("hosts").expect("agents");
    let mut setup = setup::setup(&options, &placement).expect("a setup");
    setup.branches.clear();
    let mut root = Root::of(&options, &placement, setup).expect("a root");
    // No agent is started, so messages to agents are dropped.
    root.fence = Fence::new(false, CHILDREN);
    let nowhere = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    root.output.sinks = [0, 1].map(|_| Sink::new(nowhere.as_raw_fd()));
    let mut frames = Frames::default();
    frames.push(bytes);
    let mut child = usize::from(choice >> 6) % CHILDREN;
    while let Ok(Some(message)) = frames.next::<Up>() {
        // A spawned job would be started.
        let spawns = matches!(&message, Up::Line { line, .. } if line.0.windows(4).any(|word| word == b"mcmd"));
        if spawns {
            continue;
        }
        root.hear(child, message);
        root.look_for_deadlock();
        root.look_at_clock();
        let _ = root.is_over();
        child = (child + 1) % CHILDREN;
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
