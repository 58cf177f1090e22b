//! A table by peer and VCI for hot paths, from which lanes get a peer's state.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use netmod::{Peer, VciId};

const CHUNK: usize = 256;
const _: () = assert!(CHUNK == 1 << u8::BITS);

/// Values by `(peer, vci)`, made on first use.
///
/// Values for the table's own VCI number, by far the most, are found by index, others by hash. An
/// unused peer costs 1/256 of a pointer.
pub struct PeerTable<T> {
    own: VciId,
    straight: Vec<Option<Box<[T; CHUNK]>>>,
    cross: NumberMap<u64, T>,
}

/// A map by numbers that no attacker chooses, such as peers.
pub type NumberMap<K, T> = HashMap<K, T, BuildHasherDefault<Mix>>;

/// Hashes numbers that no attacker chooses, by one multiplication.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline(always)]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline(always)]
    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}

impl<T: Default> PeerTable<T> {
    /// Makes an empty table that is fast for VCIs of number `own`.
    pub fn new(own: VciId) -> Self {
        PeerTable {
            own,
            straight: Vec::new(),
            cross: HashMap::default(),
        }
    }

    /// Returns the value for a peer's VCI.
    #[inline(always)]
    pub fn get(&mut self, peer: Peer, vci: VciId) -> &mut T {
        if vci != self.own {
            let place = u64::from(peer) << 16 | u64::from(vci);
            return self.cross.entry(place).or_default();
        }
        let (chunk, place) = (peer as usize / CHUNK, peer as usize % CHUNK);
        if !matches!(self.straight.get(chunk), Some(Some(_))) {
            self.grow(chunk);
        }
        match &mut self.straight[chunk] {
            Some(values) => &mut values[place],
            None => unreachable!("`grow` has made the chunk"),
        }
    }

    /// Returns the value for a peer's VCI if it has the table's own number and its chunk is in use.
    /// For hot paths.
    #[inline(always)]
    pub fn peek(&mut self, peer: Peer, vci: VciId) -> Option<&mut T> {
        if vci != self.own {
            return None;
        }
        self.peek_own(peer)
    }

    /// Returns the value for a peer's VCI if it has been in use.
    pub fn find(&mut self, peer: Peer, vci: VciId) -> Option<&mut T> {
        if vci != self.own {
            let place = u64::from(peer) << 16 | u64::from(vci);
            return self.cross.get_mut(&place);
        }
        self.peek_own(peer)
    }

    /// Returns the value for a peer's VCI of the table's own number; see [`PeerTable::peek`].
    #[inline(always)]
    pub fn peek_own(&mut self, peer: Peer) -> Option<&mut T> {
        match self.straight.get_mut(peer as usize / CHUNK) {
            // A `u8` index saves an instruction over the remainder.
            Some(Some(values)) => Some(&mut values[usize::from(peer as u8)]),
            _ => None,
        }
    }

    /// Lists all values that have been in use, and unused ones of the same chunks, with peer and
    /// VCI.
    pub fn iter(&self) -> impl Iterator<Item = (Peer, VciId, &T)> {
        let chunks = self.straight.iter().enumerate();
        let own = self.own;
        let straight = chunks.flat_map(move |(chunk, values)| {
            let values = values.iter().flat_map(|values| values.iter()).enumerate();
            values.map(move |(place, value)| ((chunk * CHUNK + place) as Peer, own, value))
        });
        let place = |(place, value): (&u64, _)| ((*place >> 16) as Peer, *place as VciId, value);
        straight.chain(self.cross.iter().map(place))
    }

    /// Resets all of a peer's values to the default.
    pub fn forget(&mut self, peer: Peer) {
        if let Some(value) = self.peek(peer, self.own) {
            *value = T::default();
        }
        self.cross.retain(|place, _| place >> 16 != u64::from(peer));
    }

    #[cold]
    fn grow(&mut self, chunk: usize) {
        if self.straight.len() <= chunk {
            self.straight.resize_with(chunk + 1, || None);
        }
        self.straight[chunk] = Some(Box::new(std::array::from_fn(|_| T::default())));
    }
}

#[cfg(test)]
mod tests {
    use super::PeerTable;

    #[test]
    fn values_are_separate_by_peer_and_vci() {
        let mut table = PeerTable::<u64>::new(1);
        for peer in [0, 1, 255, 256, 100_000] {
            for vci in [0, 1, 2] {
                *table.get(peer, vci) += u64::from(peer) * 10 + u64::from(vci);
            }
        }
        for peer in [0, 1, 255, 256, 100_000] {
            for vci in [0, 1, 2] {
                assert_eq!(*table.get(peer, vci), u64::from(peer) * 10 + u64::from(vci));
            }
        }
        assert_eq!(*table.get(7, 1), 0);
        let mut used: Vec<_> = table.iter().filter(|(_, _, value)| **value != 0).collect();
        used.sort_unstable();
        let first = [(0, 1, &1), (0, 2, &2), (1, 0, &10), (1, 1, &11)];
        assert_eq!((used[..4].to_vec(), used.len()), (first.to_vec(), 14));
        table.forget(256);
        assert_eq!((*table.get(256, 0), *table.get(256, 1)), (0, 0));
        assert_eq!(*table.get(255, 1), 2551);
    }
}
