//! Which VCIs the messages of a communicator use.
//!
//! Without hints all use VCI 0. With them the members agree on numbers of VCIs, the same in all of
//! them, open those that are not open yet, and tell each other their addresses. From then on each
//! message finds its two VCIs by what sender and receiver both know of it: nothing, its tag, or the
//! ranks. What a wildcard could stand for is never part of that, so that a receive is always posted
//! at the one VCI that its messages come to.
//!
//! Invariant (non-overtaking): messages that the same receive can match take the same way, from one
//! VCI of the sender to one of the receiver.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use netmod::{Transport, VciId};
use parking_lot::Mutex;

use crate::collective::{Buffers, Call};
use crate::comm::Comm;
use crate::datatype::{Datatype, Predefined};
use crate::error::{Class, Error, Result};
use crate::process::{CriticalSections, Process, Slots};
use crate::rma::Promise;
use mpi_coll::Layout;

/// The most VCIs that a process can have.
pub const MAX_VCIS: usize = 64 * MASK_WORDS;
const MASK_WORDS: usize = 8;

/// Addresses longer than this, all together, don't come from a member that keeps to the protocol.
const MAX_BLOB: u64 = 1 << 24;

/// A field of the tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagBits {
    /// Number of its lowest bit.
    pub shift: u8,
    /// Number of its bits.
    pub count: u8,
}

impl TagBits {
    /// From "SHIFT:COUNT"; tags have 31 bits.
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

/// What a program's hints say about a communicator's VCIs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wishes {
    /// So many VCIs.
    pub count: Option<u32>,
    /// This VCI for everything.
    pub vci: Option<VciId>,
    /// Messages leave from this VCI.
    pub sender_vci: Option<VciId>,
    /// Messages arrive at this VCI.
    pub receiver_vci: Option<VciId>,
    /// The sending thread's number in the tag.
    pub sender_bits: Option<TagBits>,
    /// The receiving thread's number in the tag.
    pub receiver_bits: Option<TagBits>,
    /// No receive or probe has `MPI_ANY_TAG`.
    pub no_any_tag: bool,
    /// No receive or probe has `MPI_ANY_SOURCE`.
    pub no_any_source: bool,
    /// Calls that use the same VCI never overlap, so that it needs no lock.
    pub lockless: bool,
    /// They are those of a window, whose threads share its VCIs out among themselves.
    pub window: bool,
    /// The memory that is allocated for a window is to be taken at once, and not when it is touched.
    pub at_once: bool,
    /// Accumulates of a window need not be in order, so that they too may take the thread's VCI.
    pub unordered: bool,
    /// What the accumulates on a window are, so that the network may carry them out.
    pub accumulates: Option<Promise>,
}

impl Wishes {
    /// The same for a window: what is about messages that programs receive has no meaning there.
    pub fn for_window(&self) -> Wishes {
        Wishes {
            count: self.count,
            vci: self.vci,
            window: true,
            at_once: self.at_once,
            unordered: self.unordered,
            accumulates: self.accumulates,
            ..Wishes::default()
        }
    }

    /// Whether anything is wished.
    pub fn any(&self) -> bool {
        let explicit = self.vci.or(self.sender_vci).or(self.receiver_vci);
        let bits = self.sender_bits.or(self.receiver_bits);
        self.count.is_some() || explicit.is_some() || bits.is_some()
    }

    /// A number that members with other wishes hardly have; 0 for none.
    fn digest(&self) -> u64 {
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
            u64::from(self.window) << 3
                | u64::from(self.lockless) << 2
                | u64::from(self.no_any_tag) << 1
                | u64::from(self.no_any_source),
        ];
        let mix =
            |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        words.into_iter().fold(0xcbf2_9ce4_8422_2325, mix) | 1
    }

    /// What is to be done with a pool of `pool` VCIs; none if nothing can.
    fn plan(&self, pool: usize) -> Option<Plan> {
        let known = |vci: Option<VciId>| vci.filter(|vci| usize::from(*vci) < pool);
        if let Some(vci) = known(self.vci) {
            return Some(Plan::These(Spread::One, vec![vci]));
        }
        let (sender, receiver) = (known(self.sender_vci), known(self.receiver_vci));
        if sender.or(receiver).is_some() {
            let both = vec![receiver.unwrap_or(0), sender.unwrap_or(0)];
            return Some(Plan::These(Spread::Pair, both));
        }
        let bits = match (self.sender_bits, self.receiver_bits) {
            _ if !self.no_any_tag => None,
            (sender, receiver) => sender.or(receiver).map(|one| Spread::TagBits {
                sender: sender.unwrap_or(one),
                receiver: receiver.unwrap_or(one),
            }),
        };
        let threads = match bits {
            Some(Spread::TagBits { sender, receiver }) => {
                Some(1u32 << sender.count.max(receiver.count).min(16))
            }
            _ => None,
        };
        let count = (self.count.or(threads)? as usize).min(pool - 1);
        match count {
            0 => None,
            1 => Some(Plan::Some(Spread::One, 1)),
            _ => Some(match bits {
                _ if self.window => Plan::Some(Spread::Thread, count),
                Some(bits) => Plan::Some(bits, count),
                None if self.no_any_tag => Plan::Some(Spread::Tag, count),
                None if self.no_any_source => Plan::Some(Spread::Ranks, count),
                None => Plan::Some(Spread::One, 1),
            }),
        }
    }
}

/// By what the VCIs of a message are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// There is one.
    One,
    /// From the second to the first.
    Pair,
    /// The tag.
    Tag,
    /// The sum of both ranks.
    Ranks,
    /// The thread that begins an operation on a window.
    Thread,
    /// The tag's bits for either side.
    TagBits { sender: TagBits, receiver: TagBits },
}

#[derive(PartialEq, Eq, Debug)]
enum Plan {
    These(Spread, Vec<VciId>),
    Some(Spread, usize),
}

/// Who uses which VCI of a process.
pub(crate) struct Users {
    /// How many communicators and windows use each VCI; VCI 0 always has a user.
    counts: Box<[AtomicU32]>,
    /// Held while VCIs are taken or given back.
    changing: Mutex<()>,
    slots: Weak<Slots>,
}

impl Users {
    pub fn new(slots: &Arc<Slots>) -> Users {
        let count = |vci| AtomicU32::new(u32::from(vci == 0));
        Users {
            counts: (0..slots.len()).map(count).collect(),
            changing: Mutex::new(()),
            slots: Arc::downgrade(slots),
        }
    }

    /// How many communicators and windows use each VCI.
    pub fn counts(&self) -> impl Iterator<Item = u32> {
        self.counts
            .iter()
            .map(|users| users.load(Ordering::Relaxed))
    }

    /// Takes VCIs for a communicator, for one thread each if `lockless`. `None` if others have some
    /// of them the other way.
    fn take(&self, vcis: &[VciId], lockless: bool) -> Option<()> {
        let _one_at_a_time = self.changing.lock();
        let slots = self.slots.upgrade();
        let open = |vci: &VciId| slots.as_ref()?[usize::from(*vci)].get();
        let fits = |vci: &VciId| {
            let used = self.counts[usize::from(*vci)].load(Ordering::Relaxed) > 0;
            !used || open(vci).is_some_and(|vci| vci.is_solo()) == lockless
        };
        if !vcis.iter().all(fits) {
            return None;
        }
        for vci in vcis {
            self.counts[usize::from(*vci)].fetch_add(1, Ordering::Relaxed);
            if let (true, Some(vci)) = (lockless, open(vci)) {
                vci.set_solo(true);
            }
        }
        Some(())
    }

    fn give_back(&self, vcis: &[VciId]) {
        let _one_at_a_time = self.changing.lock();
        let slots = self.slots.upgrade();
        for vci in vcis {
            let number = usize::from(*vci);
            let slot = slots.as_ref().and_then(|slots| slots[number].get());
            if let (1, Some(vci)) = (self.counts[number].load(Ordering::Relaxed), slot) {
                vci.set_solo(false);
            }
            self.counts[number].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The VCIs of a communicator.
pub(crate) struct VciMap {
    spread: Spread,
    vcis: Box<[VciId]>,
    lockless: bool,
    users: Arc<Users>,
}

impl VciMap {
    /// Takes the VCIs, which are open, for as long as it lives; see [`Users::take`].
    pub fn new(
        spread: Spread,
        vcis: Vec<VciId>,
        users: &Arc<Users>,
        lockless: bool,
    ) -> Option<VciMap> {
        users.take(&vcis, lockless)?;
        Some(VciMap {
            spread,
            vcis: vcis.into(),
            lockless,
            users: users.clone(),
        })
    }

    /// All of them.
    pub fn vcis(&self) -> &[VciId] {
        &self.vcis
    }

    /// The VCI for what any thread may carry on: collectives and the library's own messages.
    pub fn common(&self) -> VciId {
        if self.lockless { 0 } else { self.first() }
    }

    /// The one for everything of the program's where there is one only.
    pub fn first(&self) -> VciId {
        self.vcis[0]
    }

    /// Whether all messages take the first.
    pub fn is_one(&self) -> bool {
        self.spread == Spread::One
    }

    /// Whether threads share the VCIs out among themselves.
    pub fn is_by_thread(&self) -> bool {
        self.spread == Spread::Thread
    }

    /// Whether it counts on there being no `MPI_ANY_TAG`.
    pub fn needs_tag(&self) -> bool {
        matches!(self.spread, Spread::Tag | Spread::TagBits { .. })
    }

    /// Whether it counts on there being no `MPI_ANY_SOURCE`.
    pub fn needs_source(&self) -> bool {
        self.spread == Spread::Ranks
    }

    #[inline(always)]
    fn nth(&self, number: u32) -> VciId {
        self.vcis[number as usize % self.vcis.len()]
    }

    /// The sender's VCI.
    #[inline]
    pub fn sender(&self, source: u32, dest: u32, tag: i32) -> VciId {
        match self.spread {
            Spread::Pair => self.vcis[1],
            Spread::TagBits { sender, .. } => self.nth(sender.of(tag)),
            _ => self.receiver(source, dest, tag),
        }
    }

    /// The receiver's VCI.
    #[inline]
    pub fn receiver(&self, source: u32, dest: u32, tag: i32) -> VciId {
        match self.spread {
            Spread::One | Spread::Pair | Spread::Thread => self.first(),
            Spread::Tag => self.nth(tag as u32),
            Spread::Ranks => self.nth(source.wrapping_add(dest)),
            Spread::TagBits { receiver, .. } => self.nth(receiver.of(tag)),
        }
    }

    /// The hints that it fulfils, as they are written.
    pub fn in_force(&self, wishes: &Wishes) -> Vec<(&'static str, String)> {
        let mut hints = Vec::new();
        let bits = |bits: TagBits| format!("{}:{}", bits.shift, bits.count);
        match self.spread {
            Spread::One if wishes.vci == Some(self.first()) => {
                hints.push(("vci", self.first().to_string()));
            }
            Spread::Pair => {
                hints.push(("sender_vci", self.vcis[1].to_string()));
                hints.push(("receiver_vci", self.vcis[0].to_string()));
            }
            _ => hints.push(("weft_num_vcis", self.vcis.len().to_string())),
        }
        if let Spread::TagBits { sender, receiver } = self.spread {
            hints.push(("weft_tag_sender_bits", bits(sender)));
            hints.push(("weft_tag_receiver_bits", bits(receiver)));
        }
        if self.lockless {
            hints.push(("weft_lockless", "true".to_string()));
        }
        hints
    }
}

impl Drop for VciMap {
    fn drop(&mut self) {
        self.users.give_back(&self.vcis);
    }
}

/// VCIs that somebody uses, as bits.
#[derive(Default)]
pub(crate) struct Taken {
    used: [u64; MASK_WORDS],
    /// Those that one thread each has for itself.
    lockless: [u64; MASK_WORDS],
}

impl Taken {
    /// Takes note of a VCI.
    pub fn note(&mut self, vci: VciId, used: bool, lockless: bool) {
        let (word, bit) = (usize::from(vci) / 64, vci % 64);
        self.used[word] |= u64::from(used) << bit;
        self.lockless[word] |= u64::from(lockless) << bit;
    }
}

/// Takes `count` VCIs of those that nobody uses; what is missing, in turn, of the others that have
/// locks. If they are to have none, all must be free, or there are none.
pub(crate) fn choose(
    count: usize,
    taken: &Taken,
    pool: usize,
    turn: u64,
    lockless: bool,
) -> Vec<VciId> {
    let is_in =
        |bits: &[u64; MASK_WORDS], vci: VciId| bits[usize::from(vci) / 64] >> (vci % 64) & 1 == 1;
    let all = 1..pool as VciId;
    let free = all.clone().filter(|vci| !is_in(&taken.used, *vci));
    let mut chosen: Vec<VciId> = free.take(count).collect();
    if lockless {
        return if chosen.len() == count {
            chosen
        } else {
            Vec::new()
        };
    }
    let shared = |vci: &VciId| is_in(&taken.used, *vci) && !is_in(&taken.lockless, *vci);
    let shared: Vec<VciId> = all.filter(shared).collect();
    let missing = (count - chosen.len()).min(shared.len());
    let start = turn as usize % shared.len().max(1);
    chosen.extend(shared.iter().cycle().skip(start).take(missing));
    chosen
}

/// The addresses of some VCIs in all transports, one after the other.
pub(crate) fn addresses(transports: &[Arc<dyn Transport>], vcis: &[VciId]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for vci in vcis {
        for transport in transports {
            let (name, address) = (transport.name(), transport.address(*vci));
            bytes.extend(vci.to_le_bytes());
            bytes.push(name.len() as u8);
            bytes.extend((address.len() as u16).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(address);
        }
    }
    bytes
}

/// Takes the next address off such a list.
pub(crate) fn next_address<'a>(bytes: &mut &'a [u8]) -> Option<(VciId, &'a str, &'a [u8])> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let (name, rest) = rest.split_at_checked(head[2].into())?;
    let (address, rest) = rest.split_at_checked(u16::from_le_bytes([head[3], head[4]]).into())?;
    *bytes = rest;
    let vci = VciId::from_le_bytes([head[0], head[1]]);
    Some((vci, std::str::from_utf8(name).ok()?, address))
}

impl Process {
    /// Gives a communicator the VCIs that all its members wish for, before it is used. All members
    /// must call this. What can't be had is left: [`Comm::vci_hints`] tells what came of it.
    ///
    /// Intercommunicators stay as they are, and so do those with endpoints, which have their VCIs, and
    /// what has been used already.
    pub fn agree_on_vcis(&self, comm: &Comm, wishes: &Wishes) -> Result<()> {
        if comm.remote().is_some() || comm.points().is_some() {
            return Ok(());
        }
        let mut wishes = *wishes;
        // What windows are asked for any thread may carry out.
        let all_lockless = self.critical_sections() == CriticalSections::Lockless;
        wishes.lockless |= all_lockless && !wishes.window;
        let digest = wishes.digest();
        let own = [digest, self.pool() as u64, u64::from(comm.is_used())];
        let all = self.gather_all_u64(comm, own)?;
        let same = all.iter().all(|told| told[0] == digest && told[2] == 0);
        let pool = all.iter().map(|told| told[1]).min().unwrap_or(1);
        let pool = (pool as usize).clamp(1, MAX_VCIS);
        let Some(plan) = wishes.plan(pool).filter(|_| same && digest != 0) else {
            return Ok(());
        };
        if wishes.lockless {
            // Another thread may be taking the same; VCIs that the program names stay the same.
            let tries = if matches!(plan, Plan::These(..)) {
                1
            } else {
                4
            };
            for _ in 0..tries {
                if self.try_vcis(comm, &plan, pool, true)? {
                    return Ok(());
                }
            }
        }
        self.try_vcis(comm, &plan, pool, false).map(drop)
    }

    /// Carries out a plan. Returns whether all members could.
    fn try_vcis(&self, comm: &Comm, plan: &Plan, pool: usize, lockless: bool) -> Result<bool> {
        let (spread, vcis) = match plan {
            Plan::These(spread, vcis) => (*spread, vcis.clone()),
            Plan::Some(spread, count) => {
                let all = self.gather_all_u64(comm, self.used_vcis())?;
                let mut taken = Taken::default();
                for told in &all {
                    let (used, rest) = told.split_at(MASK_WORDS);
                    let (lockless, _) = rest.split_at(MASK_WORDS);
                    taken
                        .used
                        .iter_mut()
                        .zip(used)
                        .for_each(|(sum, one)| *sum |= one);
                    taken
                        .lockless
                        .iter_mut()
                        .zip(lockless)
                        .for_each(|(sum, one)| *sum |= one);
                }
                let turn = all.first().map_or(0, |first| first[2 * MASK_WORDS]);
                (*spread, choose(*count, &taken, pool, turn, lockless))
            }
        };
        if vcis.is_empty() {
            return Ok(false);
        }
        // A member that can't have them tells so, and nobody uses them.
        let opened = vcis.iter().try_for_each(|vci| self.open_vci(*vci)).is_ok();
        let map = opened.then(|| VciMap::new(spread, vcis, self.users(), lockless));
        let map = map.flatten();
        let own = map
            .as_ref()
            .map(|map| addresses(&self.transports()[1..], map.vcis()));
        let (Some(all), Some(map)) = (self.gather_all_bytes(comm, own.as_deref())?, map) else {
            return Ok(false);
        };
        for (rank, mut told) in all.iter().map(Vec::as_slice).enumerate() {
            let peer = comm.local().peer(rank as u32);
            while let Some((vci, transport, address)) = next_address(&mut told) {
                self.learn(peer, vci, transport, address);
            }
        }
        comm.use_vcis(Arc::new(map));
        Ok(true)
    }

    /// Which VCIs are in use, which of them without a lock, and whose turn it is when there is none
    /// left.
    fn used_vcis(&self) -> [u64; 2 * MASK_WORDS + 1] {
        let mut words = [0; 2 * MASK_WORDS + 1];
        for (vci, users) in self.users().counts().enumerate().take(MAX_VCIS) {
            if users > 0 {
                words[vci / 64] |= 1 << (vci % 64);
            }
            if self.is_lockless(vci as VciId) {
                words[MASK_WORDS + vci / 64] |= 1 << (vci % 64);
            }
        }
        words[2 * MASK_WORDS] = self.next_turn();
        words
    }

    /// Collects bytes from all members; none if one of them has none.
    pub(crate) fn gather_all_bytes(
        &self,
        comm: &Comm,
        own: Option<&[u8]>,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let len = own.map_or(u64::MAX, |own| own.len() as u64);
        let lens = self.gather_all_u64(comm, [len])?;
        let longest = lens.iter().map(|len| len[0]).max().unwrap_or(0);
        let Some(own) = own.filter(|_| longest != u64::MAX) else {
            return Ok(None);
        };
        if longest > MAX_BLOB {
            let why = format!("a member announces addresses of {longest} bytes");
            return Err(Error::new(Class::Intern, why));
        }
        let longest = longest as usize;
        let mut all = vec![0u8; longest * lens.len()];
        let start = comm.rank() as usize * longest;
        all[start..start + own.len()].copy_from_slice(own);
        if longest > 0 {
            let bytes = Datatype::predefined(Predefined::Byte);
            let recv = Layout::Uniform(mpi_coll::Part {
                count: longest,
                datatype: &bytes,
            });
            let buffers = Buffers {
                send: std::ptr::null(),
                recv: all.as_mut_ptr().cast(),
            };
            // SAFETY: the call reads and writes a block of `longest` bytes of `all` for each member.
            unsafe { self.call(comm, buffers, &Call::Allgather { send: None, recv })? };
        }
        let cut = |(rank, len): (usize, &[u64; 1])| {
            let start = rank * longest;
            all[start..start + len[0] as usize].to_vec()
        };
        Ok(Some(lens.iter().enumerate().map(cut).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vci::Slot;

    #[test]
    fn tag_bits_are_read_and_nonsense_is_refused() {
        let bits = TagBits::parse("4:3").unwrap();
        assert_eq!((bits.shift, bits.count), (4, 3));
        assert_eq!(bits.of(0x75), 7);
        for text in ["", "4", "4:0", "30:2", "-1:2", "255:255", "4:3:2", "a:b"] {
            assert_eq!(TagBits::parse(text), None, "{text}");
        }
    }

    #[test]
    fn plans_use_what_is_promised_and_nothing_else() {
        let many = Wishes {
            count: Some(4),
            ..Wishes::default()
        };
        assert_eq!(many.plan(64), Some(Plan::Some(Spread::One, 1)));
        let by_tag = Wishes {
            no_any_tag: true,
            ..many
        };
        assert_eq!(by_tag.plan(64), Some(Plan::Some(Spread::Tag, 4)));
        assert_eq!(by_tag.plan(3), Some(Plan::Some(Spread::Tag, 2)));
        assert_eq!(by_tag.plan(1), None);
        let by_rank = Wishes {
            no_any_source: true,
            ..many
        };
        assert_eq!(by_rank.plan(64), Some(Plan::Some(Spread::Ranks, 4)));
        let bits = Wishes {
            count: None,
            sender_bits: TagBits::parse("0:3"),
            ..by_tag
        };
        assert!(matches!(
            bits.plan(64),
            Some(Plan::Some(Spread::TagBits { .. }, 8))
        ));
        let unpromised = Wishes {
            no_any_tag: false,
            ..bits
        };
        assert_eq!(unpromised.plan(64), None);
        let beyond = Wishes {
            vci: Some(64),
            ..Wishes::default()
        };
        assert_eq!(beyond.plan(64), None);
        assert_ne!(many.digest(), by_tag.digest());
        assert_eq!(Wishes::default().digest(), 0);
    }

    #[test]
    fn free_vcis_come_first_and_then_the_others_in_turn() {
        let mut taken = Taken::default();
        taken.used[0] = 0b0110;
        assert_eq!(choose(2, &taken, 8, 0, false), [3, 4]);
        assert_eq!(choose(3, &taken, 5, 0, false), [3, 4, 1]);
        assert_eq!(choose(3, &taken, 5, 1, false), [3, 4, 2]);
        assert_eq!(choose(2, &taken, 8, 0, true), [3, 4]);
        assert_eq!(choose(3, &taken, 5, 0, true), [0; 0], "not all are free");
        taken.lockless[0] = 0b0010;
        assert_eq!(
            choose(3, &taken, 5, 0, false),
            [3, 4, 2],
            "1 is one thread's"
        );
        taken.used[0] = !0;
        assert_eq!(choose(1, &taken, 4, 7, false), [3]);
        assert_eq!(choose(1, &taken, 1, 7, false), [0; 0]);
    }

    #[test]
    fn both_sides_find_the_same_vci() {
        let slots: Arc<Slots> = (0..8).map(|_| Slot::default()).collect();
        let users = Arc::new(Users::new(&slots));
        let bits = Spread::TagBits {
            sender: TagBits { shift: 0, count: 2 },
            receiver: TagBits { shift: 2, count: 2 },
        };
        for spread in [Spread::One, Spread::Pair, Spread::Tag, Spread::Ranks, bits] {
            let map = VciMap::new(spread, vec![3, 5, 6], &users, false).unwrap();
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
            assert_eq!(users.counts[3].load(Ordering::Relaxed), 1);
            drop(map);
            assert_eq!(users.counts[3].load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn lists_of_addresses_end_where_they_make_no_sense() {
        let mut good = vec![3, 0, 2, 1, 0];
        good.extend(b"abX");
        for end in 0..good.len() {
            assert_eq!(next_address(&mut &good[..end]), None);
        }
        assert_eq!(next_address(&mut &good[..]), Some((3, "ab", &b"X"[..])));
    }
}
