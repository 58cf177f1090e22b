//! The hints that this library understands (section 6.4.4): all others are dropped, so that a
//! program sees by `MPI_Comm_get_info` what it got.

use mpi_core::Result;
use mpi_core::info::{Entry, Info};

/// Whether a value is one that the hint can have.
type Check = fn(&[u8]) -> bool;

/// Hints on communicators and what their values may be.
const COMM: &[(&str, Check)] = &[
    ("mpi_assert_no_any_tag", is_bool),
    ("mpi_assert_no_any_source", is_bool),
    ("mpi_assert_exact_length", is_bool),
    ("mpi_assert_allow_overtaking", is_bool),
];

/// Hints on windows (section 11.2.1, 11.2.3).
const WIN: &[(&str, Check)] = &[
    ("no_locks", is_bool),
    ("accumulate_ordering", is_ordering),
    ("accumulate_ops", is_ops),
    ("same_size", is_bool),
    ("same_disp_unit", is_bool),
    ("alloc_shared_noncontig", is_bool),
];

fn is_ops(value: &[u8]) -> bool {
    value == b"same_op" || value == b"same_op_no_op"
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

/// Hints that an object has, in the order in which they were given.
#[derive(Clone, Default, Debug)]
pub struct Hints(Vec<Entry>);

impl Hints {
    /// Takes over what is understood of hints on a communicator; what is there with another value
    /// changes.
    pub fn update_comm(&mut self, info: &Info) {
        self.update(COMM, info);
    }

    /// The same for a window.
    pub fn update_win(&mut self, info: &Info) {
        self.update(WIN, info);
    }

    fn update(&mut self, understood: &[(&str, Check)], info: &Info) {
        for (key, value) in info.pairs() {
            let known = understood.iter().find(|(name, _)| name.as_bytes() == &*key);
            if known.is_none_or(|(_, is_value)| !is_value(&value)) {
                continue;
            }
            match self.0.iter_mut().find(|entry| entry.0 == key) {
                Some(entry) => entry.1 = value,
                None => self.0.push((key, value)),
            }
        }
    }

    /// As a new info object.
    pub fn to_info(&self) -> Result<Info> {
        let info = Info::new();
        for (key, value) in &self.0 {
            info.set(key, value)?;
        }
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood_is_kept_and_nothing_else() {
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
        let told = hints.to_info().unwrap();
        assert_eq!(told.nkeys(), 1);
        assert_eq!(told.hint("mpi_assert_no_any_tag").as_deref(), Some("false"));
    }
}
