//! The tree of agents: its branches, its routes, and its fences.

use crate::wire::messages::{Down, Member, Pair};

/// Cuts hosts into at most `width` branches. The first host of a branch gets an agent that starts
/// those of the rest.
pub fn branches(hosts: &[Member], width: usize) -> Vec<Vec<Member>> {
    let count = width.max(1).min(hosts.len());
    let share = |n: usize| n * hosts.len() / count.max(1);
    (0..count)
        .map(|n| hosts[share(n)..share(n + 1)].to_vec())
        .collect()
}

/// The receivers of a message.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Receivers {
    /// All agents.
    All,
    /// The agent of this host.
    Host(u32),
}

/// Returns the receivers of a message.
pub fn receivers(message: &Down) -> Receivers {
    match message {
        Down::Answer { host, .. }
        | Down::Input { host, .. }
        | Down::Credit { host, .. }
        | Down::Lose { host, .. } => Receivers::Host(*host),
        Down::Plan { .. }
        | Down::Release { .. }
        | Down::Signal { .. }
        | Down::Where { .. }
        | Down::Stages {}
        | Down::LastWords {}
        | Down::Kill {}
        | Down::Deaf { .. }
        | Down::Abort { .. }
        | Down::Quit {} => Receivers::All,
    }
}

/// The child below which each host is.
#[derive(Debug, Default)]
pub struct Routes {
    /// Pairs of a host and a child, in order of hosts.
    children: Vec<(u32, usize)>,
}

impl Routes {
    /// Creates the routes to the hosts of `branches`, one for each child.
    pub fn new<'a>(branches: impl IntoIterator<Item = &'a [Member]>) -> Routes {
        let mut children: Vec<(u32, usize)> = Vec::new();
        for (child, branch) in branches.into_iter().enumerate() {
            children.extend(branch.iter().map(|member| (member.number, child)));
        }
        children.sort_unstable();
        Routes { children }
    }

    /// Returns the child below which a host is.
    pub fn to(&self, host: u32) -> Option<usize> {
        let at = self
            .children
            .binary_search_by_key(&host, |route| route.0)
            .ok()?;
        Some(self.children[at].1)
    }

    /// Returns the hosts below a child.
    pub fn below(&self, child: usize) -> Vec<u32> {
        let mine = self.children.iter().filter(|route| route.1 == child);
        mine.map(|route| route.0).collect()
    }
}

/// A fence in an agent or the root: it is complete when the own ranks and all children have come.
#[derive(Debug)]
pub struct Fence {
    /// Whether each has come, the own ranks first.
    come: Vec<bool>,
    /// Whether each has left: the fence does not wait for it.
    gone: Vec<bool>,
    missing: usize,
    pairs: Vec<Pair>,
}

/// The index of the own ranks in a [`Fence`]; the children follow.
pub const OWN: usize = 0;

impl Fence {
    /// Creates a fence over the own ranks, if there are any, and `children`.
    pub fn new(own: bool, children: usize) -> Fence {
        let mut fence = Fence {
            come: vec![false; children + 1],
            gone: vec![false; children + 1],
            missing: children + 1,
            pairs: Vec::new(),
        };
        if !own {
            fence.leave(OWN);
        }
        fence
    }

    /// Records that the member `who` has come with `pairs`. Returns the pairs of all when the fence is
    /// complete.
    pub fn come(&mut self, who: usize, pairs: Vec<Pair>) -> Option<Vec<Pair>> {
        if self.pairs.is_empty() {
            self.pairs = pairs;
        } else {
            self.pairs.extend(pairs);
        }
        if !std::mem::replace(&mut self.come[who], true) && !self.gone[who] {
            self.missing -= 1;
        }
        self.complete()
    }

    /// Removes the member `who`. Returns the pairs of all if the fence is complete without it.
    pub fn leave(&mut self, who: usize) -> Option<Vec<Pair>> {
        if !std::mem::replace(&mut self.gone[who], true) && !self.come[who] {
            self.missing -= 1;
        }
        self.complete()
    }

    fn complete(&mut self) -> Option<Vec<Pair>> {
        if self.missing > 0 || !self.come.contains(&true) {
            return None;
        }
        for (come, gone) in self.come.iter_mut().zip(&self.gone) {
            *come = false;
            self.missing += usize::from(!gone);
        }
        Some(std::mem::take(&mut self.pairs))
    }

    /// Returns whether all members have left.
    pub fn is_over(&self) -> bool {
        !self.gone.contains(&false)
    }

    /// Returns whether the member `who` has come and waits.
    pub fn has_come(&self, who: usize) -> bool {
        self.come[who]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frames::Bytes;

    fn members(count: u32) -> Vec<Member> {
        let member = |number| Member {
            number,
            ..Member::default()
        };
        (0..count).map(member).collect()
    }

    fn depth(hosts: &[Member], width: usize) -> usize {
        let below = |branch: &Vec<Member>| 1 + depth(&branch[1..], width);
        branches(hosts, width).iter().map(below).max().unwrap_or(0)
    }

    #[test]
    fn trees_are_flat_and_hold_everybody() {
        for (count, width, expected) in [
            (0, 4, 0),
            (1, 4, 1),
            (4, 4, 1),
            (5, 4, 2),
            (20, 4, 2),
            (21, 4, 3),
            (1024, 32, 2),
            (16384, 32, 3),
            (9, 1, 9),
        ] {
            assert_eq!(depth(&members(count), width), expected, "{count}/{width}");
        }
        let all: Vec<Member> = branches(&members(11), 3).concat();
        assert_eq!(all, members(11));
    }

    #[test]
    fn routes_lead_to_the_branch() {
        let branches = branches(&members(7), 3);
        let routes = Routes::new(branches.iter().map(Vec::as_slice));
        for (child, branch) in branches.iter().enumerate() {
            let numbers: Vec<u32> = branch.iter().map(|member| member.number).collect();
            assert!(numbers.iter().all(|n| routes.to(*n) == Some(child)));
            assert_eq!(routes.below(child), numbers);
        }
        assert_eq!(routes.to(7), None);
    }

    fn pair(text: &str) -> Pair {
        (Bytes(text.into()), Bytes(Vec::new()))
    }

    #[test]
    fn fences_open_when_all_have_come() {
        let mut fence = Fence::new(true, 2);
        assert_eq!(fence.come(1, vec![pair("a")]), None);
        assert_eq!(fence.come(OWN, vec![pair("b")]), None);
        assert_eq!(
            [0, 1, 2].map(|who| fence.has_come(who)),
            [true, true, false]
        );
        let all = fence.come(2, vec![]).unwrap();
        assert_eq!(all, [pair("a"), pair("b")]);
        // The next one.
        assert!(![0, 1, 2].iter().any(|who| fence.has_come(*who)));
        assert_eq!(fence.come(2, vec![]), None);
        assert_eq!(fence.leave(1), None);
        assert_eq!(fence.come(OWN, vec![]), Some(vec![]));
    }

    #[test]
    fn who_has_nothing_of_its_own_waits_for_children() {
        let mut fence = Fence::new(false, 1);
        assert_eq!(fence.come(1, vec![]), Some(vec![]));
        assert_eq!(fence.come(1, vec![]), Some(vec![]));
        // Nobody waits where all have left.
        assert_eq!(fence.leave(1), None);
    }
}
