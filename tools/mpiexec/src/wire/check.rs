//! Checks of the hosts and ranks in an agent's messages, and of the plan that an agent gets. They run where messages
//! arrive, so that all later code can use the numbers as indices.
//!
//! An agent has proved a secret, but its host may be broken or in other hands. It must not end `mpiexec`, or speak for
//! ranks of other hosts.

use std::collections::BTreeSet;

use crate::wire::messages::{Plan, Up};

/// The hosts and ranks of a child and of the agents below it: its messages may name no others.
#[derive(Debug, Default)]
pub struct Claims {
    /// Hosts in order of their numbers.
    hosts: Vec<Host>,
    /// Ranks in order.
    ranks: Vec<u32>,
    /// Those that have ended.
    ended: BTreeSet<u32>,
}

#[derive(Debug)]
struct Host {
    number: u32,
    ranks: usize,
    has_started: bool,
}

/// Process numbers that the kernel gives.
const PIDS: std::ops::RangeInclusive<u32> = 1..=i32::MAX as u32;
/// Ranks of a job, at most.
const RANKS: u32 = 1 << 24;

impl Claims {
    /// Returns the claims of the first member's agent, with the other members below it.
    pub fn new(branch: &[crate::wire::messages::Member]) -> Claims {
        let mut hosts: Vec<Host> = branch
            .iter()
            .map(|member| Host {
                number: member.number,
                ranks: member.ranks.len(),
                has_started: false,
            })
            .collect();
        hosts.sort_unstable_by_key(|host| host.number);
        let all = branch.iter().flat_map(|member| &member.ranks);
        let mut ranks: Vec<u32> = all.copied().collect();
        ranks.sort_unstable();
        let ended = BTreeSet::new();
        Claims {
            hosts,
            ranks,
            ended,
        }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Returns whether the end of each rank was reported.
    pub fn have_ended(&self) -> bool {
        self.ended.len() == self.ranks.len()
    }

    fn host(&mut self, number: u32) -> Result<&mut Host, String> {
        let at = self.hosts.binary_search_by_key(&number, |host| host.number);
        match at {
            Ok(at) => Ok(&mut self.hosts[at]),
            Err(_) => Err(format!(
                "speaks of host number {number}, which is not below it"
            )),
        }
    }

    fn rank(&self, rank: u32) -> Result<(), String> {
        match self.ranks.binary_search(&rank) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("speaks of rank {rank}, which does not run there")),
        }
    }

    /// Checks every number of a message.
    ///
    /// # Errors
    /// The violation, as a predicate whose subject is the agent.
    pub fn check(&mut self, message: &Up) -> Result<(), String> {
        match message {
            Up::Started { host, pids, notes } => {
                let known = self.host(*host)?;
                if std::mem::replace(&mut known.has_started, true) {
                    return Err(format!(
                        "says a second time that host number {host} has started"
                    ));
                }
                let (ranks, count) = (known.ranks, pids.len().max(notes.len()));
                if count > ranks {
                    return Err(format!(
                        "has started {count} ranks on a host that has {ranks}"
                    ));
                }
                match pids.iter().find(|pid| !PIDS.contains(pid)) {
                    Some(pid) => Err(format!("has started a rank as process {pid}")),
                    None => Ok(()),
                }
            }
            Up::Output { rank, stream, .. } => match stream {
                0 | 1 => self.rank(*rank),
                other => Err(format!("sends output of stream {other}, which no rank has")),
            },
            Up::Ended { ranks } => ranks.iter().try_for_each(|&(rank, (how, stage))| {
                self.rank(rank)?;
                let is_known = match how {
                    0..256 => true,
                    256..768 => (1..=64).contains(&(how & 0xff)),
                    _ => false,
                };
                match is_known && stage <= 2 {
                    true => {
                        self.ended.insert(rank);
                        Ok(())
                    }
                    false => Err(format!(
                        "says that rank {rank} has ended with an impossible status ({how}, {stage})"
                    )),
                }
            }),
            Up::Abort { rank, .. }
            | Up::Violation { rank, .. }
            | Up::Line { rank, .. }
            | Up::Core { rank, .. }
            | Up::Taken { rank } => self.rank(*rank),
            Up::Stuck { host, waiting } => {
                self.host(*host)?;
                match *waiting as usize <= self.ranks() {
                    true => Ok(()),
                    false => Err(format!(
                        "says that {waiting} ranks wait, but has {}",
                        self.ranks()
                    )),
                }
            }
            Up::Stages { host, stages } => {
                let ranks = self.host(*host)?.ranks;
                match stages.0.len() == ranks && stages.0.iter().all(|stage| *stage <= 2) {
                    true => Ok(()),
                    false => Err(format!(
                        "reports impossible stages {:?} of {ranks} ranks",
                        stages.0
                    )),
                }
            }
            Up::Spoken { host } | Up::Trouble { host, .. } => self.host(*host).map(drop),
            Up::Lost { hosts, .. } => hosts.iter().try_for_each(|&host| self.host(host).map(drop)),
            Up::Fence { .. } | Up::Left {} | Up::Gone { .. } => Ok(()),
        }
    }
}

/// Checks every number of a plan, before an agent follows it.
///
/// # Errors
/// The plan is wrong; the text says how.
pub fn check_plan(plan: &Plan) -> Result<(), String> {
    let common = &plan.common;
    let size = common.size;
    let wrong = |what: String| Err(format!("the parent sent a plan {what}"));
    if plan.hosts.is_empty() {
        return wrong("that names no host".to_owned());
    }
    if size == 0 || size > RANKS {
        return wrong(format!("for {size} ranks"));
    }
    let counted: u64 = common
        .sections
        .iter()
        .map(|part| u64::from(part.count))
        .sum();
    if counted != size.into() {
        return wrong(format!("of {size} ranks with commands for {counted}"));
    }
    if common.sections.iter().any(|part| part.command.is_empty()) {
        return wrong("with an empty command".to_owned());
    }
    let mut ranks: Vec<u32> = plan
        .hosts
        .iter()
        .flat_map(|host| host.ranks.clone())
        .collect();
    ranks.extend(&common.input);
    if let Some(rank) = ranks.iter().find(|rank| **rank >= size) {
        return wrong(format!("with rank {rank} in a job of {size}"));
    }
    ranks.truncate(ranks.len() - common.input.len());
    let mut hosts: Vec<u32> = plan.hosts.iter().map(|host| host.number).collect();
    let (all, several) = (ranks.len(), hosts.len());
    for list in [&mut ranks, &mut hosts] {
        list.sort_unstable();
        list.dedup();
    }
    if (ranks.len(), hosts.len()) != (all, several) {
        return wrong("that has a rank or a host twice".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::frames::{Bytes, Field};
    use crate::wire::messages::{Common, Member, Part};

    fn members() -> Vec<Member> {
        [(4, vec![6, 2]), (3, vec![9])]
            .map(|(number, ranks)| Member {
                number,
                ranks,
                ..Member::default()
            })
            .into()
    }

    #[test]
    fn the_end_of_each_rank_counts_once() {
        let mut claims = Claims::new(&members());
        for (rank, all) in [(2, false), (9, false), (9, false), (1, false), (6, true)] {
            let ranks = vec![(rank, (0, 2))];
            assert_eq!(claims.check(&Up::Ended { ranks }).is_ok(), rank != 1);
            assert_eq!(claims.have_ended(), all, "after rank {rank}");
        }
    }

    #[test]
    fn an_agent_speaks_of_its_own_hosts_and_ranks_only() {
        let started = |host, pids: &[u32]| Up::Started {
            host,
            pids: pids.to_vec(),
            notes: Vec::new(),
        };
        let ended = |rank, how, stage| Up::Ended {
            ranks: vec![(2, (0, 0)), (rank, (how, stage))],
        };
        let output = |rank, stream| Up::Output {
            rank,
            stream,
            bytes: Bytes::default(),
        };
        let stuck = |host, waiting| Up::Stuck { host, waiting };
        let stages = |host, stages: &[u8]| Up::Stages {
            host,
            stages: Bytes(stages.to_vec()),
        };
        let lost = |host| Up::Lost {
            hosts: vec![3, host],
            text: String::new(),
        };
        for (message, expected) in [
            (started(4, &[1, 2]), None),
            (started(4, &[1]), Some("a second time")),
            (started(3, &[1, 2]), Some("a host that has 1")),
            (started(5, &[]), Some("host number 5")),
            (output(9, 1), None),
            (output(9, 2), Some("stream 2")),
            (output(0, 0), Some("rank 0")),
            (ended(6, 255, 2), None),
            (ended(6, 256 + 9, 1), None),
            (ended(6, 512 + 11, 0), None),
            (ended(6, 256, 0), Some("(256, 0)")),
            (ended(6, 768 + 9, 0), Some("(777, 0)")),
            (ended(6, 0, 3), Some("(0, 3)")),
            (ended(7, 0, 0), Some("rank 7")),
            (Up::Taken { rank: u32::MAX }, Some("rank 4294967295")),
            (stuck(3, 3), None),
            (stuck(4, 4), Some("4 ranks wait")),
            (stuck(1, 0), Some("host number 1")),
            (stages(4, &[2, 0]), None),
            (stages(4, &[2]), Some("of 2 ranks")),
            (stages(3, &[3]), Some("impossible stages [3]")),
            (stages(5, &[]), Some("host number 5")),
            (Up::Spoken { host: 3 }, None),
            (Up::Spoken { host: 0 }, Some("host number 0")),
            (lost(4), None),
            (lost(1), Some("host number 1")),
        ] {
            let mut claims = Claims::new(&members());
            if let Up::Started { host: 4, pids, .. } = &message
                && pids.len() == 1
            {
                claims.check(&started(4, &[])).unwrap();
            }
            let found = claims.check(&message).err();
            match expected {
                None => assert_eq!(found, None),
                Some(part) => assert!(
                    found.as_ref().is_some_and(|it| it.contains(part)),
                    "{found:?}"
                ),
            }
        }
        assert!(Claims::new(&members()).check(&started(3, &[0])).is_err());
    }

    fn plan() -> Plan {
        Plan {
            common: Common {
                size: 10,
                sections: vec![Part {
                    count: 10,
                    command: vec![Bytes(b"a".to_vec())],
                    ..Part::default()
                }],
                input: vec![0],
                ..Common::default()
            },
            hosts: members(),
        }
    }

    #[test]
    fn a_plan_that_does_not_add_up_is_refused() {
        check_plan(&plan()).unwrap();
        let changes: [fn(&mut Plan); 9] = [
            |plan| plan.hosts.clear(),
            |plan| plan.common.size = 0,
            |plan| plan.common.size = 9,
            |plan| plan.common.sections.clear(),
            |plan| plan.common.sections[0].command.clear(),
            |plan| plan.common.input = vec![10],
            |plan| plan.hosts[1].ranks = vec![10],
            |plan| plan.hosts[1].ranks = vec![6],
            |plan| plan.hosts[1].number = 4,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut wrong = plan();
            change(&mut wrong);
            assert!(check_plan(&wrong).is_err(), "change {number}");
        }
        let mut huge = plan();
        huge.common.sections = vec![huge.common.sections[0].clone(); 2];
        huge.common.sections[0].count = u32::MAX;
        huge.common.sections[1].count = 11;
        assert!(check_plan(&huge).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_can_be_read_ends_the_check(bytes: Vec<u8>, kind in 1u8..17) {
            let bytes = [&[kind][..], &bytes].concat();
            if let Some(message) = Up::read(&mut &bytes[..]) {
                let _ = Claims::new(&members()).check(&message);
            }
        }
    }
}
