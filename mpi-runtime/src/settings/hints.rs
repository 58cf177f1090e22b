//! The hints on communicators and windows that Weft understands (section 6.4.4).
//!
//! Other hints are dropped, so that a program sees by `MPI_Comm_get_info` which ones are in use.

use mpi_core::comm::Comm;
use mpi_core::comm::vci_map::{TagBits, VciHints};
use mpi_core::info::{Entry, Info};
use mpi_core::{Process, Result};
use mpi_rma::{Promise, Window};
use mpi_sched::Choices;

/// Tests whether a value is valid for a hint.
type Check = fn(&[u8]) -> bool;

/// Hints on communicators, with the test of their values.
const COMM: &[(&str, Check)] = &[
    ("mpi_assert_no_any_tag", is_bool),
    ("mpi_assert_no_any_source", is_bool),
    ("mpi_assert_exact_length", is_bool),
    ("mpi_assert_allow_overtaking", is_bool),
    ("mpi_assert_strict_persistent_collective_ordering", is_bool),
    ("mpi_assert_memory_alloc_kinds", are_kinds),
    ("weft_coll", is_choices),
    ("weft_num_vcis", is_count),
    ("weft_lockless", is_bool),
    ("vci", is_number),
    ("sender_vci", is_number),
    ("receiver_vci", is_number),
    ("weft_tag_sender_bits", is_bits),
    ("weft_tag_receiver_bits", is_bits),
];

/// Hints in force only if all members gave them and the VCIs were available.
const VCIS: &[&str] = &[
    "weft_num_vcis",
    "weft_lockless",
    "vci",
    "sender_vci",
    "receiver_vci",
    "weft_tag_sender_bits",
    "weft_tag_receiver_bits",
];

/// Hints in force only if the network's atomics carry out the window's accumulates.
const ATOMICS: [&str; 3] = [
    "which_accumulate_ops",
    "accumulate_max_bytes",
    "weft_accumulate_type",
];

fn parse<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Parses algorithms in `WEFT_COLL`'s format on top of `base`.
fn choices(base: Choices, value: &[u8]) -> Option<Choices> {
    let text = std::str::from_utf8(value).ok()?;
    crate::settings::add_choices(base, Some(text)).ok()
}

fn is_choices(value: &[u8]) -> bool {
    choices(Choices::default(), value).is_some()
}

/// The memory kinds that buffers may be in (MPI-4.1 section 11.4.3).
pub const MEMORY_KINDS: &str = "system,mpi,mpi:alloc_mem,mpi:win_allocate,mpi:win_allocate_shared";

/// Returns whether a value lists supported memory kinds only, each with any number of restrictors.
fn are_kinds(value: &[u8]) -> bool {
    let known = |kind: &str| MEMORY_KINDS.split(',').any(|known| known == kind);
    let is_kind = |kind: &str| match kind.split_once(':') {
        None => known(kind),
        Some((kind, words)) => words
            .split(':')
            .all(|word| known(&format!("{kind}:{word}"))),
    };
    std::str::from_utf8(value).is_ok_and(|value| value.split(',').all(is_kind))
}

fn is_number(value: &[u8]) -> bool {
    parse::<u16>(value).is_some()
}

fn is_count(value: &[u8]) -> bool {
    parse::<u32>(value).is_some_and(|count| count > 0)
}

fn bits(value: &[u8]) -> Option<TagBits> {
    TagBits::parse(std::str::from_utf8(value).ok()?)
}

fn is_bits(value: &[u8]) -> bool {
    bits(value).is_some()
}

/// Hints on windows (section 11.2.1, 11.2.3).
const WIN: &[(&str, Check)] = &[
    ("no_locks", is_bool),
    ("accumulate_ordering", is_ordering),
    ("accumulate_ops", is_ops),
    ("which_accumulate_ops", is_op_list),
    // Invalid values ("-1") are kept: dropping the hint would mean that no limit was given.
    ("accumulate_max_bytes", |_| true),
    ("weft_accumulate_type", is_word),
    ("mpi_assert_memory_alloc_kinds", are_kinds),
    ("same_size", is_bool),
    ("same_disp_unit", is_bool),
    ("alloc_shared_noncontig", is_bool),
    ("weft_memory_at_once", is_bool),
    ("weft_num_vcis", is_count),
    ("vci", is_number),
];

/// The hints in force on a communicator by default (MPI-4.1 section 7.4.4).
const COMM_DEFAULTS: &[(&str, &str)] = &[
    ("mpi_memory_alloc_kinds", MEMORY_KINDS),
    ("mpi_assert_no_any_tag", "false"),
    ("mpi_assert_no_any_source", "false"),
    ("mpi_assert_exact_length", "false"),
    ("mpi_assert_allow_overtaking", "false"),
    ("mpi_assert_strict_persistent_collective_ordering", "false"),
];

/// The hints in force on a window by default.
const WIN_DEFAULTS: &[(&str, &str)] = &[
    ("mpi_memory_alloc_kinds", MEMORY_KINDS),
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
    ("weft_memory_at_once", "false"),
];

fn is_ops(value: &[u8]) -> bool {
    value == b"same_op" || value == b"same_op_no_op"
}

fn is_op_list(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(Promise::is_list)
}

/// Returns whether a value names the element type of the network's atomics, 8-byte integers.
fn is_word(value: &[u8]) -> bool {
    value == b"int64"
}

fn is_ordering(value: &[u8]) -> bool {
    let orders: [&[u8]; 4] = [b"rar", b"raw", b"war", b"waw"];
    value == b"none"
        || value
            .split(|byte| *byte == b',')
            .all(|order| orders.contains(&order))
}

fn is_bool(value: &[u8]) -> bool {
    value == b"true" || value == b"false"
}

/// Hints of an object, in the order in which they were given.
#[derive(Clone, Default, Debug)]
pub struct Hints(Vec<Entry>);

impl Hints {
    /// Adds the hints on a communicator that are understood and valid, replacing earlier values.
    pub fn update_comm(&mut self, info: &Info) {
        self.update(COMM, info);
    }

    /// Adds the hints on a window that are understood and valid, replacing earlier values.
    pub fn update_win(&mut self, info: &Info) {
        self.update(WIN, info);
    }

    fn update(&mut self, understood: &[(&str, Check)], info: &Info) {
        for (key, value) in info.pairs() {
            let known = understood.iter().find(|(name, _)| name.as_bytes() == &*key);
            if known.is_none_or(|(_, is_value)| !is_value(&value)) {
                continue;
            }
            self.set(key, value);
        }
    }

    fn set(&mut self, key: Box<[u8]>, value: Box<[u8]>) {
        match self.0.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key, value)),
        }
    }

    fn get<T>(&self, key: &str, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let entry = self.0.iter().find(|entry| &*entry.0 == key.as_bytes());
        entry.and_then(|(_, value)| parse(value))
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key, |value| (value == b"true").then_some(()))
            .is_some()
    }

    /// Returns the hints that a duplicate starts with: all but the assertions, which the program
    /// makes for one communicator only (MPI-4.0 section 7.4.4).
    pub fn for_copy(&self) -> Hints {
        let own = |entry: &&Entry| !entry.0.starts_with(b"mpi_assert_");
        Hints(self.0.iter().filter(own).cloned().collect())
    }

    /// Returns what the hints ask about VCIs.
    pub fn vci_hints(&self) -> VciHints {
        VciHints {
            count: self.get("weft_num_vcis", parse),
            vci: self.get("vci", parse),
            sender_vci: self.get("sender_vci", parse),
            receiver_vci: self.get("receiver_vci", parse),
            sender_bits: self.get("weft_tag_sender_bits", bits),
            receiver_bits: self.get("weft_tag_receiver_bits", bits),
            no_any_tag: self.is_true("mpi_assert_no_any_tag"),
            no_any_source: self.is_true("mpi_assert_no_any_source"),
            overtaking: self.is_true("mpi_assert_allow_overtaking"),
            lockless: self.is_true("weft_lockless"),
            ..VciHints::default()
        }
    }

    /// Returns the hints in the form that [`mpi_rma`] takes.
    pub fn of_window(&self) -> mpi_rma::Hints {
        let ordering = self.get("accumulate_ordering", |value| Some(value == b"none"));
        mpi_rma::Hints {
            vcis: VciHints {
                unordered: ordering == Some(true),
                ..self.vci_hints().for_window()
            },
            commits_memory: self.is_true("weft_memory_at_once"),
            accumulates: self.promise(),
        }
    }

    /// Returns the promise about accumulates, if the network's atomics can cover it.
    fn promise(&self) -> Option<Promise> {
        let bytes = match self.get("accumulate_max_bytes", |value| Some(parse(value))) {
            None => None,
            Some(bytes) => Some(bytes?),
        };
        self.get("weft_accumulate_type", |value| is_word(value).then_some(()))?;
        self.get("which_accumulate_ops", |value| {
            Promise::parse(std::str::from_utf8(value).ok()?, bytes)
        })
    }

    /// Replaces the hints about VCIs and network atomics by the values in force on `window`.
    pub fn settle_win(&mut self, window: &Window) {
        let in_force = window.vci_hints(&self.vci_hints());
        self.keep_in_force(in_force);
        self.0
            .retain(|(key, _)| !ATOMICS.iter().any(|name| name.as_bytes() == &**key));
        if let Some(promise) = window.promise() {
            let values = [
                promise.ops(),
                promise.bytes().to_string(),
                "int64".to_string(),
            ];
            for (key, value) in ATOMICS.iter().zip(values) {
                self.set(key.as_bytes().into(), value.into_bytes().into());
            }
        }
    }

    /// Replaces the hints about VCIs by `in_force`.
    fn keep_in_force(&mut self, in_force: Vec<(&'static str, String)>) {
        self.0
            .retain(|(key, _)| !VCIS.iter().any(|name| name.as_bytes() == &**key));
        for (key, value) in in_force {
            self.set(key.as_bytes().into(), value.into_bytes().into());
        }
    }

    /// Sets the hint that asks for `count` VCIs.
    pub fn ask_for_vcis(&mut self, count: u32) {
        let count = count.to_string().into_bytes();
        self.set(b"weft_num_vcis".as_slice().into(), count.into());
    }

    /// Replaces the hints about VCIs and wildcards by the values in force, and applies the rest to
    /// the communicator. Algorithms are chosen on top of the process's own choices.
    pub fn settle(&mut self, process: &Process, comm: &Comm) {
        let hints = self.vci_hints();
        self.keep_in_force(comm.vci_hints(&hints));
        if let Some(choices) = self.get("weft_coll", |value| {
            choices(mpi_coll::choices(process).clone(), value)
        }) {
            mpi_coll::set_comm_choices(comm, Some(choices));
        }
        comm.set_promises(hints.no_any_tag, hints.no_any_source);
        let (no_any_tag, no_any_source) = comm.promises();
        for (key, promised) in [
            ("mpi_assert_no_any_tag", no_any_tag),
            ("mpi_assert_no_any_source", no_any_source),
        ] {
            if promised {
                self.set(key.as_bytes().into(), b"true".as_slice().into());
            }
        }
    }

    /// Returns a new info object with a window's hints and defaults.
    pub fn to_win_info(&self) -> Result<Info> {
        let info = Info::new();
        for (key, value) in WIN_DEFAULTS {
            info.set(key, value)?;
        }
        for (key, value) in &self.0 {
            info.set(key, value)?;
        }
        Ok(info)
    }

    /// Returns a new info object with a communicator's hints and defaults.
    pub fn to_info(&self) -> Result<Info> {
        let info = Info::new();
        for (key, value) in COMM_DEFAULTS {
            info.set(key, value)?;
        }
        for (key, value) in &self.0 {
            info.set(key, value)?;
        }
        Ok(info)
    }
}

/// Entry point of a fuzz target.
pub mod fuzzing {
    /// Checks a value against every hint.
    pub fn hint(value: &[u8]) {
        for (_, check) in super::COMM.iter().chain(super::WIN) {
            check(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_understood_hints_are_kept() {
        let info = Info::new();
        for (key, value) in [
            ("mpi_assert_no_any_tag", "true"),
            ("mpi_assert_exact_length", "perhaps"),
            ("colour", "blue"),
        ] {
            info.set(key, value).unwrap();
        }
        let mut hints = Hints::default();
        hints.update_comm(&info);
        info.set("mpi_assert_no_any_tag", "false").unwrap();
        hints.update_comm(&info);
        let shown = hints.to_info().unwrap();
        assert_eq!(shown.nkeys(), COMM_DEFAULTS.len());
        assert_eq!(
            shown.hint("mpi_assert_exact_length").as_deref(),
            Some("false")
        );
        assert_eq!(shown.hint("colour"), None);
        assert_eq!(
            shown.hint("mpi_assert_no_any_tag").as_deref(),
            Some("false")
        );
    }

    #[test]
    fn kinds_of_memory() {
        for good in ["system", "mpi,system", "mpi:alloc_mem:win_allocate,system"] {
            assert!(are_kinds(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "cuda",
            "system,cuda:device",
            "mpi:malloc",
            "system:alloc_mem",
        ] {
            assert!(!are_kinds(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn accumulates_are_promised_by_operations_type_and_length() {
        let promised = |pairs: &[(&str, &str)]| {
            let info = Info::new();
            for (key, value) in pairs {
                info.set(key, value).unwrap();
            }
            let mut hints = Hints::default();
            hints.update_win(&info);
            let promise = hints.of_window().accumulates;
            promise.map(|promise| (promise.ops(), promise.bytes()))
        };
        let (ops, int64) = (
            ("which_accumulate_ops", "cswap,sum"),
            ("weft_accumulate_type", "int64"),
        );
        let promise_of = |bytes| Some(("sum,cswap".to_string(), bytes));
        assert_eq!(promised(&[ops, int64]), promise_of(8));
        let bytes = |text| ("accumulate_max_bytes", text);
        assert_eq!(promised(&[ops, int64, bytes("32")]), promise_of(32));
        for nothing in [
            &[ops][..],
            &[int64],
            &[ops, int64, bytes("-1")],
            &[ops, int64, bytes("100")],
            &[int64, ("which_accumulate_ops", "sum,max")],
            &[int64, ("which_accumulate_ops", "sum,whatever")],
            &[ops, ("weft_accumulate_type", "int32")],
        ] {
            assert_eq!(promised(nothing), None, "{nothing:?}");
        }
    }
}
