//! The VCIs that the messages of a communicator use.
//!
//! Without hints all messages use VCI 0. With hints the members agree on VCIs, the same numbers on
//! all members, open them and exchange their addresses. Each message then selects its two VCIs by
//! what sender and receiver both know of it: nothing, its tag, or the ranks. Anything that a
//! receive may replace by a wildcard is excluded, so that a receive is always posted at the one VCI
//! where its messages arrive.
//!
//! Invariant (non-overtaking): all messages that one receive can match go from one VCI of the
//! sender to one VCI of the receiver. Where the program allows overtaking, this holds for each
//! sending thread.

use std::sync::Arc;

use netmod::VciId;

use crate::process::threads;
use crate::vci::pool::Users;

/// A bit field of the tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagBits {
    /// Lowest bit.
    pub shift: u8,
    /// Number of bits.
    pub count: u8,
}

impl TagBits {
    /// Parses "SHIFT:COUNT"; tags have 31 bits.
    pub fn parse(text: &str) -> Option<TagBits> {
        let (shift, count) = text.split_once(':')?;
        let (shift, count) = (shift.parse::<u8>().ok()?, count.parse::<u8>().ok()?);
        let fits = count >= 1 && shift.checked_add(count)? <= 31;
        fits.then_some(TagBits { shift, count })
    }

    #[inline(always)]
    fn of(self, tag: i32) -> u32 {
        (tag as u32 >> self.shift) & ((1 << self.count) - 1)
    }
}

/// The hints of a program about a communicator's VCIs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VciHints {
    /// Number of VCIs.
    pub count: Option<u32>,
    /// One VCI for all messages.
    pub vci: Option<VciId>,
    /// The VCI that messages leave from.
    pub sender_vci: Option<VciId>,
    /// The VCI that messages arrive at.
    pub receiver_vci: Option<VciId>,
    /// Tag bits that hold the sending thread's number.
    pub sender_bits: Option<TagBits>,
    /// Tag bits that hold the receiving thread's number.
    pub receiver_bits: Option<TagBits>,
    /// No receive or probe has `MPI_ANY_TAG`.
    pub no_any_tag: bool,
    /// No receive or probe has `MPI_ANY_SOURCE`.
    pub no_any_source: bool,
    /// Messages need not be matched in the order in which they were sent.
    pub overtaking: bool,
    /// Calls that use the same VCI never overlap, so that it needs no lock.
    pub lockless: bool,
    /// The hints belong to a window, whose operations use the VCI of the calling thread.
    pub window: bool,
    /// Accumulates of a window need not be ordered, so that they too may use the thread's VCI.
    pub unordered: bool,
}

impl VciHints {
    /// Returns the hints that apply to a window; those about receives do not.
    pub fn for_window(&self) -> VciHints {
        VciHints {
            count: self.count,
            vci: self.vci,
            window: true,
            unordered: self.unordered,
            ..VciHints::default()
        }
    }

    /// Whether VCIs are requested.
    pub fn any(&self) -> bool {
        let explicit = self.vci.or(self.sender_vci).or(self.receiver_vci);
        let bits = self.sender_bits.or(self.receiver_bits);
        self.count.is_some() || explicit.is_some() || bits.is_some()
    }

    /// Returns a hash of the hints, by which members detect that theirs differ; 0 without hints.
    pub fn digest(&self) -> u64 {
        if !self.any() {
            return 0;
        }
        let bits = |bits: Option<TagBits>| {
            bits.map_or(0, |bits| {
                1 << 16 | u64::from(bits.shift) << 8 | u64::from(bits.count)
            })
        };
        let number = |number: Option<u32>| number.map_or(0, |number| 1 << 32 | u64::from(number));
        let words = [
            number(self.count),
            number(self.vci.map(u32::from)),
            number(self.sender_vci.map(u32::from)),
            number(self.receiver_vci.map(u32::from)),
            bits(self.sender_bits),
            bits(self.receiver_bits),
            u64::from(self.overtaking) << 4
                | u64::from(self.window) << 3
                | u64::from(self.lockless) << 2
                | u64::from(self.no_any_tag) << 1
                | u64::from(self.no_any_source),
        ];
        let mix =
            |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        words.into_iter().fold(0xcbf2_9ce4_8422_2325, mix) | 1
    }

    /// Selects VCIs from a pool of `pool` VCIs. Returns `None` if the hints have no effect.
    pub fn plan(&self, pool: usize) -> Option<Plan> {
        let known = |vci: Option<VciId>| vci.filter(|vci| usize::from(*vci) < pool);
        if let Some(vci) = known(self.vci) {
            return Some(Plan::These(VciSelection::One, vec![vci]));
        }
        let (sender, receiver) = (known(self.sender_vci), known(self.receiver_vci));
        if sender.or(receiver).is_some() {
            let both = vec![receiver.unwrap_or(0), sender.unwrap_or(0)];
            return Some(Plan::These(VciSelection::Pair, both));
        }
        let bits = match (self.sender_bits, self.receiver_bits) {
            _ if !self.no_any_tag => None,
            (sender, receiver) => sender.or(receiver).map(|one| VciSelection::TagBits {
                sender: sender.unwrap_or(one),
                receiver: receiver.unwrap_or(one),
            }),
        };
        let threads = match bits {
            Some(VciSelection::TagBits { sender, receiver }) => {
                Some(1u32 << sender.count.max(receiver.count).min(16))
            }
            _ => None,
        };
        let count = (self.count.or(threads)? as usize).min(pool - 1);
        match count {
            0 => None,
            1 => Some(Plan::Some(VciSelection::One, 1)),
            _ => Some(match bits {
                _ if self.window => Plan::Some(VciSelection::Thread, count),
                Some(bits) => Plan::Some(bits, count),
                None if self.no_any_tag => Plan::Some(VciSelection::Tag, count),
                None if self.no_any_source => Plan::Some(VciSelection::Ranks, count),
                None if self.overtaking => Plan::Some(VciSelection::Senders, count),
                None => Plan::Some(VciSelection::One, 1),
            }),
        }
    }
}

/// The property of a message that selects its VCIs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VciSelection {
    /// None: there is one VCI.
    One,
    /// None: messages go from the second VCI to the first.
    Pair,
    /// The tag.
    Tag,
    /// The sum of both ranks.
    Ranks,
    /// The thread that starts an operation on a window.
    Thread,
    /// The sending thread selects the sender's VCI; messages arrive at the first VCI.
    Senders,
    /// A bit field of the tag for either side.
    TagBits {
        /// Selects the sender's VCI.
        sender: TagBits,
        /// Selects the receiver's VCI.
        receiver: TagBits,
    },
}

/// The VCIs to use according to the hints.
#[derive(PartialEq, Eq, Debug)]
pub enum Plan {
    /// These VCIs.
    These(VciSelection, Vec<VciId>),
    /// A number of VCIs, which the members have to agree on.
    Some(VciSelection, usize),
}

/// The VCIs of a communicator.
pub struct VciMap {
    selection: VciSelection,
    vcis: Box<[VciId]>,
    lockless: bool,
    users: Arc<Users>,
}

impl VciMap {
    /// Takes open VCIs for the lifetime of the map. Returns `None` if [`Users::take`] refuses one.
    pub fn new(
        selection: VciSelection,
        vcis: Vec<VciId>,
        users: &Arc<Users>,
        lockless: bool,
    ) -> Option<VciMap> {
        users.take(&vcis, lockless)?;
        Some(VciMap {
            selection,
            vcis: vcis.into(),
            lockless,
            users: users.clone(),
        })
    }

    /// Returns all VCIs.
    pub fn vcis(&self) -> &[VciId] {
        &self.vcis
    }

    /// Returns the VCI for traffic that any thread may progress: collectives and internal messages.
    pub fn common(&self) -> VciId {
        if self.lockless { 0 } else { self.first() }
    }

    /// Whether any thread may use any of the VCIs at any time.
    pub fn is_shared_freely(&self) -> bool {
        !self.lockless
    }

    /// Returns the first VCI, which carries all user messages if the map [is one](Self::is_one).
    pub fn first(&self) -> VciId {
        self.vcis[0]
    }

    /// Whether all messages use the first VCI.
    pub fn is_one(&self) -> bool {
        self.selection == VciSelection::One
    }

    /// Whether the calling thread selects the VCI.
    pub fn is_by_thread(&self) -> bool {
        self.selection == VciSelection::Thread
    }

    /// Whether the map relies on the promise not to use `MPI_ANY_TAG`.
    pub fn needs_tag(&self) -> bool {
        matches!(
            self.selection,
            VciSelection::Tag | VciSelection::TagBits { .. }
        )
    }

    /// Whether the map relies on the promise not to use `MPI_ANY_SOURCE`.
    pub fn needs_source(&self) -> bool {
        self.selection == VciSelection::Ranks
    }

    #[inline(always)]
    fn nth(&self, number: u32) -> VciId {
        self.vcis[number as usize % self.vcis.len()]
    }

    /// Returns the sender's VCI of a message.
    #[inline]
    pub fn sender(&self, source: u32, dest: u32, tag: i32) -> VciId {
        match self.selection {
            VciSelection::Pair => self.vcis[1],
            VciSelection::TagBits { sender, .. } => self.nth(sender.of(tag)),
            VciSelection::Senders => threads::share_out(&self.vcis),
            _ => self.receiver(source, dest, tag),
        }
    }

    /// Returns the receiver's VCI of a message.
    #[inline]
    pub fn receiver(&self, source: u32, dest: u32, tag: i32) -> VciId {
        match self.selection {
            VciSelection::One
            | VciSelection::Pair
            | VciSelection::Thread
            | VciSelection::Senders => self.first(),
            VciSelection::Tag => self.nth(tag as u32),
            VciSelection::Ranks => self.nth(source.wrapping_add(dest)),
            VciSelection::TagBits { receiver, .. } => self.nth(receiver.of(tag)),
        }
    }

    /// Returns the hints in force, as key and value.
    pub fn in_force(&self, hints: &VciHints) -> Vec<(&'static str, String)> {
        let mut in_force = Vec::new();
        let bits = |bits: TagBits| format!("{}:{}", bits.shift, bits.count);
        match self.selection {
            VciSelection::One if hints.vci == Some(self.first()) => {
                in_force.push(("vci", self.first().to_string()));
            }
            VciSelection::Pair => {
                in_force.push(("sender_vci", self.vcis[1].to_string()));
                in_force.push(("receiver_vci", self.vcis[0].to_string()));
            }
            _ => in_force.push(("weft_num_vcis", self.vcis.len().to_string())),
        }
        if let VciSelection::TagBits { sender, receiver } = self.selection {
            in_force.push(("weft_tag_sender_bits", bits(sender)));
            in_force.push(("weft_tag_receiver_bits", bits(receiver)));
        }
        if self.lockless {
            in_force.push(("weft_lockless", "true".to_string()));
        }
        in_force
    }
}

impl Drop for VciMap {
    fn drop(&mut self) {
        self.users.give_back(&self.vcis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vci::VciSlot;
    use crate::vci::pool::VciSlots;

    #[test]
    fn tag_bits_are_parsed_or_refused() {
        let bits = TagBits::parse("4:3").unwrap();
        assert_eq!((bits.shift, bits.count), (4, 3));
        assert_eq!(bits.of(0x75), 7);
        for text in ["", "4", "4:0", "30:2", "-1:2", "255:255", "4:3:2", "a:b"] {
            assert_eq!(TagBits::parse(text), None, "{text}");
        }
    }

    #[test]
    fn plans_use_only_promises() {
        let many = VciHints {
            count: Some(4),
            ..VciHints::default()
        };
        assert_eq!(many.plan(64), Some(Plan::Some(VciSelection::One, 1)));
        let by_tag = VciHints {
            no_any_tag: true,
            ..many
        };
        assert_eq!(by_tag.plan(64), Some(Plan::Some(VciSelection::Tag, 4)));
        assert_eq!(by_tag.plan(3), Some(Plan::Some(VciSelection::Tag, 2)));
        assert_eq!(by_tag.plan(1), None);
        let overtaking = VciHints {
            overtaking: true,
            ..many
        };
        assert_eq!(
            overtaking.plan(64),
            Some(Plan::Some(VciSelection::Senders, 4))
        );
        let ordered = VciHints {
            no_any_source: true,
            ..overtaking
        };
        assert_eq!(ordered.plan(64), Some(Plan::Some(VciSelection::Ranks, 4)));
        let by_rank = VciHints {
            no_any_source: true,
            ..many
        };
        assert_eq!(by_rank.plan(64), Some(Plan::Some(VciSelection::Ranks, 4)));
        let bits = VciHints {
            count: None,
            sender_bits: TagBits::parse("0:3"),
            ..by_tag
        };
        assert!(matches!(
            bits.plan(64),
            Some(Plan::Some(VciSelection::TagBits { .. }, 8))
        ));
        let unpromised = VciHints {
            no_any_tag: false,
            ..bits
        };
        assert_eq!(unpromised.plan(64), None);
        let beyond = VciHints {
            vci: Some(64),
            ..VciHints::default()
        };
        assert_eq!(beyond.plan(64), None);
        assert_ne!(many.digest(), by_tag.digest());
        assert_eq!(VciHints::default().digest(), 0);
    }

    #[test]
    fn with_overtaking_each_thread_sends_by_its_own_vci() {
        let slots: Arc<VciSlots> = (0..8).map(|_| VciSlot::default()).collect();
        let users = Arc::new(Users::new(&slots));
        let map = VciMap::new(VciSelection::Senders, vec![3, 5, 6], &users, false).unwrap();
        let sends = || (0..5).map(|tag| map.sender(0, 1, tag)).collect::<Vec<_>>();
        let mut by_threads: Vec<VciId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..30).map(|_| scope.spawn(sends)).collect();
            let all = threads.into_iter().map(|thread| thread.join().unwrap());
            // A thread's own messages stay in order.
            all.map(|vcis| {
                assert!(vcis.iter().all(|vci| *vci == vcis[0]));
                vcis[0]
            })
            .collect()
        });
        by_threads.sort_unstable();
        by_threads.dedup();
        assert_eq!(by_threads, [3, 5, 6]);
        assert_eq!(map.receiver(0, 1, 4), 3);
    }

    #[test]
    fn both_sides_find_the_same_vci() {
        let slots: Arc<VciSlots> = (0..8).map(|_| VciSlot::default()).collect();
        let users = Arc::new(Users::new(&slots));
        let bits = VciSelection::TagBits {
            sender: TagBits { shift: 0, count: 2 },
            receiver: TagBits { shift: 2, count: 2 },
        };
        for selection in [
            VciSelection::One,
            VciSelection::Pair,
            VciSelection::Tag,
            VciSelection::Ranks,
            bits,
        ] {
            let map = VciMap::new(selection, vec![3, 5, 6], &users, false).unwrap();
            for tag in 0..40 {
                for (source, dest) in [(0, 1), (1, 0), (2, 5), (4, 4)] {
                    assert!([3, 5, 6].contains(&map.sender(source, dest, tag)));
                    let at = map.receiver(source, dest, tag);
                    assert!([3, 5, 6].contains(&at));
                    if !map.needs_tag() {
                        assert_eq!(at, map.receiver(source, dest, tag + 1));
                    }
                    if !map.needs_source() {
                        assert_eq!(at, map.receiver(source + 1, dest, tag));
                    }
                }
            }
            assert_eq!(users.counts().nth(3), Some(1));
            drop(map);
            assert_eq!(users.counts().nth(3), Some(0));
        }
    }
}
