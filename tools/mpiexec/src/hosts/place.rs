//! Placement of ranks on hosts.

use std::collections::{HashMap, HashSet};

use super::{Host, MAX_RANKS};

/// The order in which ranks take slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Fill a host's slots before those of the next.
    Slots,
    /// Take this number of slots on each host in turn, while it has free ones.
    Nodes(usize),
    /// Place one rank per mention of a host, whatever its slots.
    Mentions,
}

/// The placement options of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wishes {
    /// Hosts for sections without hosts of their own.
    pub hosts: Vec<Host>,
    /// Slots of each host, instead of its own setting.
    pub per_host: Option<usize>,
    /// The order in which ranks take slots.
    pub order: Order,
    /// Whether a host may get more ranks than it has slots.
    pub oversubscribe: bool,
}

/// The placement options of a section.
pub struct Wanted<'a> {
    /// Number of ranks; all free slots if `None`.
    pub count: Option<usize>,
    /// Hosts of its own.
    pub hosts: Option<&'a [Host]>,
}

/// The hosts of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// All hosts with ranks, in the order of their first ranks.
    pub hosts: Vec<Host>,
    /// The index in `hosts` of each rank.
    pub node_of: Vec<usize>,
    /// Ranks of each section.
    pub counts: Vec<usize>,
    /// Whether all ranks are on the launcher's own host, by whatever name.
    pub is_local: bool,
}

/// Consecutive slots of a host in the order of ranks.
struct Seat {
    host: usize,
    slots: usize,
    used: usize,
}

/// Places the ranks. Names with equal `canonical` results are one host.
pub fn place(
    wishes: &Wishes,
    sections: &[Wanted],
    canonical: impl Fn(&str) -> String,
) -> Result<Placement, String> {
    let mut placer = Placer {
        wishes,
        numbers: HashMap::new(),
        known: Vec::new(),
        node_of: Vec::new(),
        used: Vec::new(),
    };
    let mut shared = placer.seats(&wishes.hosts, &canonical);
    let mut counts = Vec::new();
    for section in sections {
        let mut own = section.hosts.map(|hosts| placer.seats(hosts, &canonical));
        let seats = own.as_mut().unwrap_or(&mut shared);
        if seats.is_empty() {
            return Err("no host is left to run on; name hosts by -hosts or -hostfile".to_owned());
        }
        let all = seats.iter().map(|seat| match wishes.order {
            Order::Mentions => 1,
            _ => seat.slots - seat.used.min(seat.slots),
        });
        let all = all.fold(0, usize::saturating_add).max(1);
        let count = section.count.unwrap_or(all);
        let total = placer.node_of.len().saturating_add(count);
        if total > MAX_RANKS {
            return Err(format!(
                "{total} ranks are too many; start at most {MAX_RANKS} by -n or by the hosts' slots"
            ));
        }
        placer.take(seats, count)?;
        counts.push(count);
    }
    Ok(placer.finish(counts))
}

struct Placer<'a> {
    wishes: &'a Wishes,
    /// The numbers of hosts by their canonical names.
    numbers: HashMap<String, usize>,
    known: Vec<Host>,
    node_of: Vec<usize>,
    /// Ranks of each host.
    used: Vec<usize>,
}

impl Placer<'_> {
    fn seats(&mut self, hosts: &[Host], canonical: impl Fn(&str) -> String) -> Vec<Seat> {
        let mut seats: Vec<Seat> = Vec::new();
        let mut seated = HashSet::new();
        for host in hosts {
            let next = self.known.len();
            let index = *self.numbers.entry(canonical(&host.name)).or_insert(next);
            if index == next {
                self.known.push(host.clone());
                self.used.push(0);
            }
            let known = &mut self.known[index];
            if known.most.is_none() {
                known.most = host.most;
            }
            let slots = match self.wishes.per_host {
                // Counted once per host, however often it is named.
                Some(_) if !seated.insert(index) => continue,
                Some(slots) => slots,
                None => host.slots.unwrap_or(1),
            };
            match seats.last_mut() {
                // Consecutive mentions of a host are merged.
                Some(last) if last.host == index && self.wishes.order != Order::Mentions => {
                    last.slots = last.slots.saturating_add(slots);
                }
                _ => seats.push(Seat {
                    host: index,
                    slots,
                    used: 0,
                }),
            }
        }
        seats
    }

    fn take(&mut self, seats: &mut [Seat], count: usize) -> Result<(), String> {
        let group = match self.wishes.order {
            Order::Slots => usize::MAX,
            Order::Nodes(group) => group.max(1),
            Order::Mentions => 1,
        };
        let mut left = count;
        let mut first_round = true;
        while left > 0 {
            let before = left;
            for seat in seats.iter_mut() {
                let mut room = match self.wishes.order {
                    Order::Mentions => 1,
                    _ => seat.slots.saturating_sub(seat.used),
                };
                let known = &self.known[seat.host];
                if let Some(most) = known.most {
                    room = room.min(most.saturating_sub(self.used[seat.host]));
                }
                let taken = room.min(group).min(left);
                seat.used += taken;
                self.used[seat.host] += taken;
                self.node_of.extend(std::iter::repeat_n(seat.host, taken));
                left -= taken;
            }
            if left == before {
                self.start_again(seats, count, left, first_round)?;
            }
            first_round = false;
        }
        Ok(())
    }

    /// Starts another round over the slots when all are taken, if oversubscription is allowed.
    fn start_again(
        &self,
        seats: &mut [Seat],
        count: usize,
        left: usize,
        stuck: bool,
    ) -> Result<(), String> {
        let slots: usize = seats.iter().map(|seat| seat.slots).sum();
        if !self.wishes.oversubscribe {
            return Err(format!(
                "{count} ranks are more than the {slots} slots of the hosts; start fewer, or leave out \
                 -nooversubscribe"
            ));
        }
        let is_full = |seat: &Seat| {
            let most = self.known[seat.host].most;
            most.is_some_and(|most| self.used[seat.host] >= most)
        };
        if seats.iter().all(is_full) {
            return Err(format!(
                "{count} ranks are more than the {} that max_slots allows on the hosts; start fewer",
                count - left
            ));
        }
        debug_assert!(!stuck || seats.iter().any(|seat| seat.used > 0));
        seats.iter_mut().for_each(|seat| seat.used = 0);
        Ok(())
    }

    fn finish(self, counts: Vec<usize>) -> Placement {
        let mut numbers = vec![None; self.known.len()];
        let mut hosts = Vec::new();
        let mut node_of = self.node_of;
        for node in &mut node_of {
            let number = *numbers[*node].get_or_insert_with(|| {
                hosts.push(self.known[*node].clone());
                hosts.len() - 1
            });
            *node = number;
        }
        Placement {
            hosts,
            node_of,
            counts,
            is_local: false,
        }
    }
}

impl Placement {
    /// Returns the ranks of each host.
    pub fn ranks(&self) -> Vec<Vec<usize>> {
        let mut ranks = vec![Vec::new(); self.hosts.len()];
        for (rank, &node) in self.node_of.iter().enumerate() {
            ranks[node].push(rank);
        }
        ranks
    }

    /// Formats the placement as the value of PMI_process_mapping.
    pub fn mapping(&self) -> String {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &node in &self.node_of {
            match runs.last_mut() {
                Some((last, ranks)) if *last == node => *ranks += 1,
                _ => runs.push((node, 1)),
            }
        }
        // Blocks of (first node, number of nodes, ranks on each).
        let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
        for (node, ranks) in runs {
            match blocks.last_mut() {
                Some((start, nodes, each)) if *start + *nodes == node && *each == ranks => {
                    *nodes += 1;
                }
                _ => blocks.push((node, 1, ranks)),
            }
        }
        // Readers repeat the blocks cyclically, so a periodic pattern is written once.
        let period = (1..=blocks.len() / 2).find(|&period| {
            blocks.len().is_multiple_of(period)
                && blocks
                    .chunks(period)
                    .all(|chunk| chunk == &blocks[..period])
        });
        blocks.truncate(period.unwrap_or(blocks.len()));
        let blocks: Vec<String> = blocks
            .iter()
            .map(|(start, nodes, ranks)| format!("({start},{nodes},{ranks})"))
            .collect();
        format!("(vector,{})", blocks.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::list;

    fn wishes(hosts: &str) -> Wishes {
        Wishes {
            hosts: if hosts.is_empty() {
                Vec::new()
            } else {
                list(hosts).unwrap()
            },
            per_host: None,
            order: Order::Slots,
            oversubscribe: true,
        }
    }

    fn run(wishes: &Wishes, counts: &[Option<usize>]) -> Result<String, String> {
        let sections: Vec<Wanted> = counts
            .iter()
            .map(|&count| Wanted { count, hosts: None })
            .collect();
        let placement = place(wishes, &sections, str::to_ascii_lowercase)?;
        let names = placement
            .node_of
            .iter()
            .map(|&node| placement.hosts[node].name.as_str());
        Ok(names.collect::<Vec<_>>().join(""))
    }

    #[test]
    fn more_ranks_than_there_can_be_are_refused_before_they_are_placed() {
        for hosts in [
            "a:99999999999",
            "a:18446744073709551615,a:2",
            "a:60000,b:6000",
        ] {
            let wanted = [Wanted {
                count: None,
                hosts: None,
            }];
            let error = place(&wishes(hosts), &wanted, str::to_owned).unwrap_err();
            assert!(
                error.contains("too many; start at most 65536"),
                "{hosts}: {error}"
            );
        }
    }

    #[test]
    fn slots_are_filled_in_order_and_again() {
        let all = |hosts: &str, n| run(&wishes(hosts), &[Some(n)]).unwrap();
        assert_eq!(all("a:2,b:1", 3), "aab");
        assert_eq!(all("a:2,b:1", 7), "aabaaba");
        assert_eq!(all("a,b", 4), "abab");
        assert_eq!(all("a:4,b:4", 2), "aa");
        // As in Intel's files: the order of mentions, hosts being the same by name.
        assert_eq!(all("a,b,A,b", 4), "abab");
        assert_eq!(all("a,a,b", 3), "aab");
        assert_eq!(run(&wishes("a:3,b:2"), &[None]).unwrap(), "aaabb");
        assert_eq!(
            run(&wishes("a:2,b:2"), &[Some(1), Some(2), None]).unwrap(),
            "aabb"
        );
    }

    #[test]
    fn slots_without_measure_are_no_ranks() {
        for slots in ["99999999999", "18446744073709551615"] {
            let wishes = wishes(&format!("a:{slots},b:{slots},a:{slots}"));
            let error = run(&wishes, &[None]).unwrap_err();
            assert!(error.contains("at most 65536"), "{error}");
            assert_eq!(run(&wishes, &[Some(2)]).as_deref(), Ok("aa"));
        }
    }

    #[test]
    fn ranks_per_host_and_by_turns() {
        let mut some = wishes("a:9,b,b,c");
        some.per_host = Some(2);
        assert_eq!(run(&some, &[Some(5)]).unwrap(), "aabbc");
        some.order = Order::Nodes(1);
        assert_eq!(run(&some, &[Some(5)]).unwrap(), "abcab");
        let mut some = wishes("a:3,b:1");
        some.order = Order::Nodes(1);
        assert_eq!(run(&some, &[Some(5)]).unwrap(), "abaaa");
        let mut some = wishes("a:4,b:4");
        some.order = Order::Nodes(2);
        assert_eq!(run(&some, &[Some(6)]).unwrap(), "aabbaa");
        let mut some = wishes("a:4,b,a");
        some.order = Order::Mentions;
        assert_eq!(run(&some, &[None]).unwrap(), "aba");
    }

    #[test]
    fn bounds_are_kept() {
        let mut some = wishes("a:1,b:2");
        some.hosts[0].most = Some(2);
        some.hosts[1].most = Some(2);
        assert_eq!(run(&some, &[Some(4)]).unwrap(), "abba");
        let error = run(&some, &[Some(5)]).unwrap_err();
        assert!(error.contains("the 4 that max_slots"), "{error}");
        let mut some = wishes("a:1,b:2");
        some.oversubscribe = false;
        assert_eq!(run(&some, &[Some(3)]).unwrap(), "abb");
        let error = run(&some, &[Some(4)]).unwrap_err();
        assert!(error.contains("the 3 slots"), "{error}");
        assert!(run(&wishes(""), &[Some(1)]).is_err());
    }

    #[test]
    fn sections_may_have_hosts_of_their_own() {
        let (mine, theirs) = (list("c").unwrap(), list("a:2").unwrap());
        let section = |count, hosts| Wanted { count, hosts };
        let sections = [
            section(Some(1), None),
            section(Some(2), Some(&mine[..])),
            section(Some(1), Some(&theirs[..])),
            section(Some(1), None),
        ];
        let placement = place(&wishes("a:1,b:1"), &sections, str::to_owned).unwrap();
        let names: Vec<_> = placement.hosts.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "b"]);
        assert_eq!(placement.node_of, [0, 1, 1, 0, 2]);
        assert_eq!(placement.ranks(), [vec![0, 3], vec![1, 2], vec![4]]);
    }

    proptest::proptest! {
        #[test]
        fn every_rank_has_a_place_that_the_mapping_tells(
            slots in proptest::collection::vec(1usize..5, 1..9),
            count in 1usize..60,
            order in 0usize..4,
        ) {
            let hosts: Vec<String> = slots.iter().enumerate().map(|(i, n)| format!("h{i}:{n}")).collect();
            let mut some = wishes(&hosts.join(","));
            some.order = [Order::Slots, Order::Nodes(1), Order::Nodes(2), Order::Mentions][order];
            let wanted = [Wanted { count: Some(count), hosts: None }];
            let placement = place(&some, &wanted, str::to_owned).unwrap();
            proptest::prop_assert_eq!(placement.node_of.len(), count);
            let nodes = pmi::mapping::parse(&placement.mapping(), count).unwrap();
            let expected: Vec<u32> = placement.node_of.iter().map(|&n| n as u32).collect();
            proptest::prop_assert_eq!(nodes, expected);
            // Nobody has more than a round above the others, relative to the slots.
            let total: usize = slots.iter().sum();
            if count <= total && order < 3 {
                for (host, ranks) in placement.hosts.iter().zip(placement.ranks()) {
                    proptest::prop_assert!(ranks.len() <= host.slots.unwrap());
                }
            }
        }
    }
}
