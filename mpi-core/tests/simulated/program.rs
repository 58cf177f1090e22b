//! Random programs: the messages and receives of each rank.

use mpi_core::process::Mode;
use mpi_core::{ANY_SOURCE, ANY_TAG};
use netmod_sim::Rng;

use crate::job::Setup;

/// The first tag of those that are used only once.
pub const UNIQUE: i32 = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Waits for it.
    Wait,
    /// Cancels it at some time.
    Cancel,
    /// Frees the request immediately.
    Detach,
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Message {
    pub source: u32,
    pub to: u32,
    pub context: usize,
    pub tag: i32,
    pub len: usize,
    pub mode: Mode,
    pub end: End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Receive,
    /// Matched probe, then a receive of the message.
    Matched,
    /// Probe, then a receive of that source and tag.
    Probe,
}

/// A receive to post.
#[derive(Clone, Debug)]
pub struct Receive {
    pub rank: u32,
    pub context: usize,
    pub source: i32,
    pub tag: i32,
    pub room: usize,
    pub how: How,
    pub end: End,
}

impl Receive {
    pub fn accepts(&self, message: &Message) -> bool {
        self.rank == message.to
            && self.context == message.context
            && (self.source == ANY_SOURCE || self.source == message.source as i32)
            && (self.tag == ANY_TAG || self.tag == message.tag)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Send(usize),
    Receive(usize),
}

#[derive(Clone, Debug)]
pub struct Program {
    pub messages: Vec<Message>,
    pub receives: Vec<Receive>,
    /// The operations of each rank, in order.
    pub ranks: Vec<Vec<Op>>,
    pub contexts: Vec<Context>,
}

/// The wildcards of a context's receives. With each style the program ends for any order of
/// matching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    /// Receives name tags; some have any source.
    Tags,
    /// Receives name sources; some have any tag.
    Sources,
    /// Receives have any source and any tag.
    Wild,
    /// A receive without wildcards for each message, and more with wildcards, so that some receives
    /// are left over.
    Mixed,
}

/// A communicator: its context, and the VCIs of each rank.
#[derive(Clone, Debug)]
pub struct Context {
    pub number: u64,
    pub send_vci: Vec<u16>,
    pub receive_vci: Vec<u16>,
}

/// Makes a random program for `setup` with about `size` messages of at most `longest` bytes.
pub fn random(rng: &mut Rng, setup: &Setup, size: usize, longest: usize, cancel: bool) -> Program {
    let ranks = setup.ranks;
    let contexts: Vec<_> = (0..1 + rng.index(3))
        .map(|i| context(rng, setup, i))
        .collect();
    let styles: Vec<_> = contexts
        .iter()
        .map(|_| rng.pick(&[Style::Tags, Style::Sources, Style::Wild, Style::Mixed]))
        .collect();
    let salt = rng.number();
    let mut messages = Vec::new();
    let mut receives = Vec::new();
    for id in 0..size {
        let context = rng.index(contexts.len());
        let style = styles[context];
        let len = length(rng, setup, longest);
        let unique = len == 0 || rng.chance(10);
        let mut message = Message {
            source: rng.below(u64::from(ranks)) as u32,
            to: rng.below(u64::from(ranks)) as u32,
            context,
            tag: if unique {
                UNIQUE + id as i32
            } else {
                rng.index(3) as i32
            },
            len,
            mode: rng.pick(&[Mode::Standard, Mode::Standard, Mode::Synchronous]),
            end: End::Wait,
        };
        if cancel && rng.chance(30) {
            message.end = End::Cancel;
        } else if rng.chance(10) {
            message.end = End::Detach;
        }
        // The same choice for all messages of a class.
        let class = |what: u32| {
            let class = salt ^ (context as u64) << 40 ^ u64::from(message.to) << 32;
            Rng::new(class ^ u64::from(what)).chance(50)
        };
        let (source, tag) = match style {
            Style::Tags if class(message.tag as u32) => (ANY_SOURCE, message.tag),
            Style::Sources if class(message.source) => (message.source as i32, ANY_TAG),
            Style::Wild => (ANY_SOURCE, ANY_TAG),
            _ => (message.source as i32, message.tag),
        };
        let mut receive = Receive {
            rank: message.to,
            context,
            source,
            tag,
            room: room(rng, longest),
            how: how(rng),
            end: End::Wait,
        };
        let exact = source != ANY_SOURCE && tag != ANY_TAG && style != Style::Mixed;
        if exact && unique && message.end != End::Cancel && rng.chance(50) {
            // Identified by its tag, since its completion is not visible.
            receive.end = End::Detach;
            receive.how = How::Receive;
        } else if cancel && receive.how == How::Receive && rng.chance(20) {
            receive.end = End::Cancel;
        }
        messages.push(message);
        receives.push(receive);
        if style == Style::Mixed && rng.chance(30) {
            receives.push(Receive {
                rank: rng.below(u64::from(ranks)) as u32,
                context,
                source: rng.pick(&[ANY_SOURCE, rng_rank(salt, id, ranks)]),
                tag: rng.pick(&[ANY_TAG, 0, 1, 2]),
                room: room(rng, longest),
                how: how(rng),
                end: End::Wait,
            });
        }
    }
    let mut lists: Vec<Vec<Op>> = vec![Vec::new(); ranks as usize];
    for (i, message) in messages.iter().enumerate() {
        lists[message.source as usize].push(Op::Send(i));
    }
    for (i, receive) in receives.iter().enumerate() {
        lists[receive.rank as usize].push(Op::Receive(i));
    }
    for list in &mut lists {
        rng.shuffle(list);
    }
    Program {
        messages,
        receives,
        ranks: lists,
        contexts,
    }
}

fn rng_rank(salt: u64, id: usize, ranks: u32) -> i32 {
    Rng::new(salt ^ id as u64).below(u64::from(ranks)) as i32
}

fn context(rng: &mut Rng, setup: &Setup, index: usize) -> Context {
    let vcis = |rng: &mut Rng| {
        (0..setup.ranks)
            .map(|_| rng.below(u64::from(setup.vcis)) as u16)
            .collect::<Vec<_>>()
    };
    Context {
        number: (index as u64 + 1) << 2,
        send_vci: vcis(rng),
        receive_vci: vcis(rng),
    }
}

/// Returns a length of 0 or at least 4, so that a message can carry its number.
fn length(rng: &mut Rng, setup: &Setup, longest: usize) -> usize {
    let len = match rng.index(6) {
        0 => 0,
        1 | 2 => 4 + rng.index(60),
        3 => (setup.eager_limit + rng.index(9)).saturating_sub(4).max(4),
        4 => 4 + rng.index(2 * setup.eager_limit.max(1)),
        _ => 4 + rng.index(longest - 4),
    };
    len.min(longest)
}

fn room(rng: &mut Rng, longest: usize) -> usize {
    if rng.chance(15) {
        4 + rng.index(longest - 4)
    } else {
        longest
    }
}

fn how(rng: &mut Rng) -> How {
    rng.pick(&[
        How::Receive,
        How::Receive,
        How::Receive,
        How::Matched,
        How::Probe,
    ])
}
