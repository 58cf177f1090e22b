//! A byte of notes for each target of a window, 0 for most.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

/// Members up to which each has a byte; in larger windows memory grows with the notes other than 0.
const SMALL_WINDOW: usize = 1024;

/// Notes by target.
pub(crate) enum Targets {
    Few(Box<[AtomicU8]>),
    Many(Mutex<HashMap<u32, u8>>),
}

impl Targets {
    pub fn new(members: usize) -> Targets {
        match members {
            0..=SMALL_WINDOW => Targets::Few((0..members).map(|_| AtomicU8::new(0)).collect()),
            _ => Targets::Many(Mutex::default()),
        }
    }

    /// Returns the note about a target.
    #[inline(always)]
    pub fn get(&self, target: u32) -> u8 {
        match self {
            Targets::Few(notes) => notes
                .get(target as usize)
                .map_or(0, |note| note.load(Ordering::Acquire)),
            Targets::Many(notes) => Targets::look(notes, target),
        }
    }

    /// Returns the note about a target in a small window, and 0 in a larger one.
    #[inline(always)]
    pub fn get_fast(&self, target: u32) -> u8 {
        match self {
            Targets::Few(notes) => notes
                .get(target as usize)
                .map_or(0, |note| note.load(Ordering::Acquire)),
            Targets::Many(_) => 0,
        }
    }

    /// Returns a target's byte in a small window.
    #[inline(always)]
    pub fn note(&self, target: u32) -> Option<&AtomicU8> {
        match self {
            Targets::Few(notes) => notes.get(target as usize),
            Targets::Many(_) => None,
        }
    }

    #[inline(never)]
    fn look(notes: &Mutex<HashMap<u32, u8>>, target: u32) -> u8 {
        notes.lock().get(&target).copied().unwrap_or(0)
    }

    /// Clears the bits `less` and sets `more`; returns the note before.
    pub fn change(&self, target: u32, less: u8, more: u8) -> u8 {
        match self {
            Targets::Few(notes) => {
                let Some(note) = notes.get(target as usize) else {
                    return 0;
                };
                let change = |note| Some(note & !less | more);
                note.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
                    .unwrap_or(0)
            }
            Targets::Many(notes) => {
                let mut notes = notes.lock();
                let before = notes.get(&target).copied().unwrap_or(0);
                match before & !less | more {
                    0 => notes.remove(&target),
                    after => notes.insert(target, after),
                };
                before
            }
        }
    }

    /// Targets whose notes have one of `bits`.
    pub fn with(&self, bits: u8) -> Vec<u32> {
        match self {
            Targets::Few(notes) => (0..)
                .zip(notes)
                .filter(|(_, note)| note.load(Ordering::Acquire) & bits != 0)
                .map(|(target, _)| target)
                .collect(),
            Targets::Many(notes) => notes
                .lock()
                .iter()
                .filter(|(_, note)| **note & bits != 0)
                .map(|(target, _)| *target)
                .collect(),
        }
    }

    /// Bytes of memory, with `noted` notes other than 0.
    #[cfg(test)]
    pub fn bytes(&self, noted: usize) -> usize {
        match self {
            Targets::Few(notes) => notes.len(),
            // The hash table is at most 7/8 full and doubles; it has a control byte per slot.
            Targets::Many(_) => {
                (noted * 8 / 7 + 1).next_power_of_two() * (size_of::<(u32, u8)>() + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_representations_hold_the_same_notes() {
        for members in [8, SMALL_WINDOW, SMALL_WINDOW + 1, 1 << 20] {
            let notes = Targets::new(members);
            assert_eq!(notes.change(7, 0, 5), 0);
            assert_eq!(notes.change(3, 0, 4), 0);
            assert_eq!(notes.change(7, 1, 2), 5);
            assert_eq!((notes.get(7), notes.get(3), notes.get(1)), (6, 4, 0));
            let mut with = notes.with(4);
            with.sort_unstable();
            assert_eq!(with, [3, 7]);
            assert_eq!(notes.with(2), [7]);
            notes.change(7, 6, 0);
            assert_eq!(notes.with(7), [3]);
            assert!(notes.bytes(2) <= SMALL_WINDOW.max(64));
        }
    }
}
