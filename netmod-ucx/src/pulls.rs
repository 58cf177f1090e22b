//! Long gets that are asked for by messages: what is open. (How they are carried out is in `pull`.)

use netmod::{Peer, VciId};
use std::collections::{HashMap, VecDeque};

/// Gets from this size on, in bytes, go this way.
pub(crate) const LEAST: usize = 16 << 10;

/// A wish: the key's three words, offset, length, and a number that names the operation.
pub(crate) type Wish = [u64; 6];

/// What a lane has asked for and has been asked for.
#[derive(Default)]
pub(crate) struct Pulls {
    pub(crate) next: u64,
    /// Operations whose data has not come, by the number that was given with the wish.
    pub(crate) open: HashMap<u64, u32>,
    /// What others wish.
    pub(crate) wishes: VecDeque<(Peer, VciId, Wish)>,
}

impl Pulls {
    /// Somebody asks. What is garbled is dropped.
    pub(crate) fn asked(&mut self, peer: Peer, vci: VciId, data: &[u8]) {
        let mut wish = Wish::default();
        if data.len() == size_of::<Wish>() {
            for (word, bytes) in wish.iter_mut().zip(data.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
            self.wishes.push_back((peer, vci, wish));
        }
    }

    /// Whether somebody waits for an answer.
    pub(crate) fn are_asked(&self) -> bool {
        !self.wishes.is_empty()
    }
}
