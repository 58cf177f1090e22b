//! Simulation of the protocol over many agents without processes: messages, bytes and steps.

use crate::wire::frames::{Bytes, Field, Frames, frame};
use crate::wire::messages::{Common, Down, Member, Pair, Plan, Up};
use crate::wire::tree::{Fence, OWN, Routes, branches};

/// Most agents that one agent starts.
const WIDTH: usize = 32;
/// Bytes of the value that a rank puts.
const CARD: usize = 160;

/// An agent, or the root, which has no host.
struct Node {
    own: Option<Member>,
    parent: usize,
    children: Vec<usize>,
    depth: usize,
    routes: Routes,
    fence: Fence,
}

/// Messages and bytes over the root's connections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Traffic {
    messages: usize,
    bytes: usize,
}

impl Traffic {
    /// Encodes and decodes a message, and counts it at the root.
    fn carry<T: Field>(&mut self, message: &T, at_root: bool) -> T {
        let mut bytes = Vec::new();
        frame(message, &mut bytes);
        if at_root {
            self.messages += 1;
            self.bytes += bytes.len();
        }
        let mut frames = Frames::default();
        frames.push(&bytes);
        frames.next().unwrap().unwrap()
    }
}

struct World {
    nodes: Vec<Node>,
    down: Traffic,
    up: Traffic,
    /// Depth of the tree: the steps of a plan to the last agent.
    steps: usize,
}

impl World {
    /// Distributes the plans.
    fn start(hosts: u32, ranks: u32) -> World {
        let member = |number| Member {
            number,
            name: format!("node{number:05}"),
            ranks: (number * ranks..(number + 1) * ranks).collect(),
            ..Member::default()
        };
        let members: Vec<Member> = (0..hosts).map(member).collect();
        let mut world = World {
            nodes: Vec::new(),
            down: Traffic::default(),
            up: Traffic::default(),
            steps: 0,
        };
        world.add(None, 0, 0, &members);
        world
    }

    fn add(&mut self, own: Option<Member>, parent: usize, depth: usize, others: &[Member]) {
        let me = self.nodes.len();
        let branches = branches(others, WIDTH);
        self.steps = self.steps.max(depth);
        self.nodes.push(Node {
            parent,
            depth,
            children: Vec::new(),
            routes: Routes::new(branches.iter().map(Vec::as_slice)),
            fence: Fence::new(own.is_some(), branches.len()),
            own,
        });
        for branch in branches {
            let plan = Box::new(Plan {
                common: Common::default(),
                hosts: branch,
            });
            let Down::Plan { plan } = self.down.carry(&Down::Plan { plan }, me == 0) else {
                panic!("no plan");
            };
            let child = self.nodes.len();
            self.nodes[me].children.push(child);
            let (first, rest) = plan.hosts.split_first().unwrap();
            self.add(Some(first.clone()), me, depth + 1, rest);
        }
    }

    /// Passes a message of an agent on to the root.
    fn say(&mut self, mut node: usize, mut message: Up) {
        while node != 0 {
            let parent = self.nodes[node].parent;
            message = self.up.carry(&message, parent == 0);
            node = parent;
        }
    }

    /// Runs a fence to which each rank brings a value. Returns all values.
    fn fence(&mut self) -> Vec<Pair> {
        let mut complete = None;
        // From the leaves, which were added last.
        for node in (1..self.nodes.len()).rev() {
            let own = self.nodes[node].own.as_ref().unwrap();
            let card = |rank: &u32| {
                let key = Bytes(format!("card-{rank}").into_bytes());
                (key, Bytes(vec![b'x'; CARD]))
            };
            let pairs = own.ranks.iter().map(card).collect();
            let mut at = node;
            let mut pairs = self.nodes[at].fence.come(OWN, pairs);
            while let Some(all) = pairs.take() {
                if at == 0 {
                    complete = Some(all);
                    break;
                }
                let parent = self.nodes[at].parent;
                let message = self.up.carry(&Up::Fence { pairs: all }, parent == 0);
                let Up::Fence { pairs: all } = message else {
                    panic!("no fence");
                };
                let child = self.nodes[parent].children.iter().position(|c| *c == at);
                pairs = self.nodes[parent].fence.come(child.unwrap() + 1, all);
                at = parent;
            }
        }
        let all = complete.expect("the fence opens");
        let children = self.nodes[0].children.len();
        // One as good as all, which are alike.
        let pairs = all.clone();
        let mut one = Traffic::default();
        one.carry(&Down::Release { pairs }, true);
        self.down.messages += children;
        self.down.bytes += children * one.bytes;
        all
    }
}

/// Runs a job with one fence over `hosts` hosts. Returns its state and the number of values.
fn job(hosts: u32, each: u32) -> (World, usize) {
    let mut world = World::start(hosts, each);
    let agents: Vec<(usize, Member)> = world
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(node, state)| Some((node, state.own.clone()?)))
        .collect();
    assert_eq!(agents.len(), hosts as usize);
    for (node, member) in &agents {
        let (host, pids, notes) = (member.number, vec![1; each as usize], Vec::new());
        world.say(*node, Up::Started { host, pids, notes });
        // An answer finds its host.
        let mut at = 0;
        while at != *node {
            let child = world.nodes[at].routes.to(host).expect("there is a way");
            at = world.nodes[at].children[child];
        }
    }
    let pairs = world.fence().len();
    for (node, member) in &agents {
        let ranks = member.ranks.iter().map(|rank| (*rank, (0, 2))).collect();
        world.say(*node, Up::Ended { ranks });
    }
    for child in world.nodes[0].children.clone() {
        world.down.carry(&Down::Quit {}, true);
        world.say(child, Up::Gone { notes: Vec::new() });
    }
    (world, pairs)
}

fn check(hosts: u32, each: u32, steps: usize) {
    let (world, pairs) = job(hosts, each);
    let children = WIDTH.min(hosts as usize);
    let ranks = (hosts * each) as usize;
    assert_eq!(pairs, ranks);
    assert_eq!(world.steps, steps);
    assert!(world.nodes.iter().all(|node| node.depth <= steps));
    // A plan, the fence's end and the end to each child; from each host its start and end, from each
    // child the fence and a farewell.
    assert_eq!(world.down.messages, 3 * children);
    assert_eq!(world.up.messages, 2 * hosts as usize + 2 * children);
    // What comes up is each rank's card, and few bytes more; what goes down is that for each child.
    let card = CARD + 30;
    assert!(world.up.bytes < ranks * (card + 20) + 200 * hosts as usize);
    assert!(world.down.bytes < children * ranks * card + 100 * ranks);
    // Memory that the root needs for each host: routes and the fence.
    let memory = hosts as usize * size_of::<(u32, usize)>() + 2 * (children + 1);
    println!(
        "{hosts} hosts, {ranks} ranks: {steps} steps; root sends {:?}, gets {:?}; {memory} bytes of \
         routes and fence, {} of cards",
        world.down,
        world.up,
        pairs * card
    );
}

#[test]
fn a_thousand_hosts_take_two_steps() {
    check(16, 8, 1);
    check(1024, 8, 2);
}

#[test]
fn sixteen_thousand_hosts_take_three() {
    check(16_384, 1, 3);
}
