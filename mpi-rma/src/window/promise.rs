//! A program's promise about a window's accumulates, by hints: if it is narrow enough, the
//! network's atomics carry out all of them.

use mpi_types::datatype::Representation;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::PredefinedOp;

/// Bytes of a word that the network's atomics change.
pub(crate) const WORD: usize = 8;

/// Bytes. The highest bound on an accumulate's length that is accepted: each word is an operation.
const MAX_BYTES: u32 = 64;

/// Operations that the network's atomics cover, by their names in the hint.
const OPS: [(&str, AccumulateKind); 7] = [
    ("sum", AccumulateKind::Reduce(PredefinedOp::Sum)),
    ("band", AccumulateKind::Reduce(PredefinedOp::Band)),
    ("bor", AccumulateKind::Reduce(PredefinedOp::Bor)),
    ("bxor", AccumulateKind::Reduce(PredefinedOp::Bxor)),
    ("replace", AccumulateKind::Reduce(PredefinedOp::Replace)),
    ("no_op", AccumulateKind::Reduce(PredefinedOp::NoOp)),
    ("cswap", AccumulateKind::CompareAndSwap),
];

/// The operation of an accumulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccumulateKind {
    Reduce(PredefinedOp),
    CompareAndSwap,
}

/// A promise that all accumulates of a window are `ops` on aligned 8-byte integers, `bytes` at
/// most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promise {
    /// A bit for each of `OPS`.
    ops: u8,
    bytes: u32,
}

impl Promise {
    /// Parses hints: operations as a list ("sum,no_op,cswap"), and the bound in bytes (8 by
    /// default).
    ///
    /// Returns `None` for an operation or length that the network's atomics don't cover, or for no
    /// list.
    pub fn parse(ops: &str, bytes: Option<u32>) -> Option<Promise> {
        let bit = |name: &str| {
            let place = OPS.iter().position(|(known, _)| *known == name.trim())?;
            Some(1u8 << place)
        };
        let bits: Option<Vec<u8>> = ops.split(',').map(bit).collect();
        let bytes = bytes.unwrap_or(WORD as u32);
        let promise = Promise {
            ops: bits?.into_iter().fold(0, |all, bit| all | bit),
            bytes,
        };
        (WORD as u32..=MAX_BYTES)
            .contains(&bytes)
            .then_some(promise)
    }

    /// Returns whether a hint names accumulate operations only, covered or not.
    pub fn is_list(ops: &str) -> bool {
        let others = [
            "max", "min", "prod", "land", "lor", "lxor", "maxloc", "minloc",
        ];
        let known = |name: &str| {
            let name = name.trim();
            others.contains(&name) || OPS.iter().any(|(known, _)| *known == name)
        };
        ops.split(',').all(known)
    }

    /// The operations, in the hint's form.
    pub fn ops(&self) -> String {
        let named = (0..).zip(OPS);
        let promised = named.filter(|(place, _)| self.ops >> place & 1 == 1);
        let names: Vec<&str> = promised.map(|(_, (name, _))| name).collect();
        names.join(",")
    }

    /// The most bytes of an accumulate.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Encodes the promise as a word other than 0, which differs from any other promise's.
    pub(crate) fn word(&self) -> u64 {
        1 << 63 | u64::from(self.bytes) << 8 | u64::from(self.ops)
    }

    /// Checks that an accumulate keeps the promise.
    ///
    /// # Errors
    /// `MPI_ERR_OP`, `MPI_ERR_RMA_CONFLICT` for other elements, `MPI_ERR_ARG` for too many bytes.
    #[inline]
    pub(crate) fn check(
        &self,
        operation: AccumulateKind,
        kind: Option<Representation>,
        bytes: usize,
    ) -> Result<()> {
        let place = OPS.iter().position(|(_, known)| *known == operation);
        if place.is_some_and(|place| self.ops >> place & 1 == 1)
            && matches!(kind, Some(Representation::I64 | Representation::U64))
            && bytes <= self.bytes as usize
        {
            return Ok(());
        }
        Err(self.broken(operation, kind, bytes))
    }

    #[cold]
    fn broken(
        &self,
        operation: AccumulateKind,
        kind: Option<Representation>,
        bytes: usize,
    ) -> Error {
        let place = OPS.iter().position(|(_, known)| *known == operation);
        let or_nothing = "leave the hint which_accumulate_ops out to have every accumulate allowed";
        if place.is_none_or(|place| self.ops >> place & 1 == 0) {
            let (what, to_do) = match (place, operation) {
                (Some(place), _) => (OPS[place].0.to_string(), "declare it there, or "),
                (None, AccumulateKind::Reduce(op)) => (format!("{op:?}").to_lowercase(), ""),
                (None, AccumulateKind::CompareAndSwap) => ("cswap".to_string(), ""),
            };
            return Error::new(
                Class::Op,
                format!(
                    "the operation {what} is not among those that the window's hint \
                     which_accumulate_ops={} promises, and the network carries out; {to_do}{or_nothing}",
                    self.ops()
                ),
            );
        }
        if !matches!(kind, Some(Representation::I64 | Representation::U64)) {
            return Error::new(
                Class::RmaConflict,
                format!(
                    "the elements are not 8-byte integers, which the window's hint \
                     weft_accumulate_type=int64 promises; {or_nothing}"
                ),
            );
        }
        Error::new(
            Class::Arg,
            format!(
                "{bytes} bytes are more than the window's hint accumulate_max_bytes={} promises (without \
                 it, it is {WORD}: one element); set it to as many, up to {MAX_BYTES}, or {or_nothing}",
                self.bytes
            ),
        )
    }

    /// Checks that an offset keeps the promise.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if it is not aligned to 8 bytes.
    #[inline]
    pub(crate) fn check_place(&self, at: i64) -> Result<()> {
        match at as usize % WORD {
            0 => Ok(()),
            _ => Err(Error::new(
                Class::Arg,
                format!(
                    "the element at {at} bytes from the beginning of the target's memory is not aligned \
                     to {WORD} bytes, which the window's hint weft_accumulate_type=int64 promises; choose \
                     other displacements, or leave the hint out"
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_parsed_and_printed_and_uncovered_ones_are_none() {
        let promise = Promise::parse("no_op, sum,cswap", Some(16)).unwrap();
        assert_eq!(
            (promise.ops().as_str(), promise.bytes()),
            ("sum,no_op,cswap", 16)
        );
        assert_eq!(Promise::parse(&promise.ops(), Some(16)), Some(promise));
        assert_eq!(Promise::parse("sum", None).map(|one| one.bytes()), Some(8));
        for (ops, bytes) in [
            ("sum,max", 8),
            ("", 8),
            ("sum,", 8),
            ("sum", 7),
            ("sum", 65),
        ] {
            assert_eq!(Promise::parse(ops, Some(bytes)), None, "{ops} {bytes}");
        }
        assert!(Promise::is_list("sum,max") && !Promise::is_list("sum,what"));
        let words = [("sum", 8), ("sum", 16), ("sum,no_op", 8)];
        let words = words.map(|(ops, bytes)| Promise::parse(ops, Some(bytes)).unwrap().word());
        assert!(words[0] != words[1] && words[0] != words[2] && words[1] != words[2]);
    }

    #[test]
    fn a_broken_promise_has_an_error_of_its_class() {
        let promise = Promise::parse("sum,no_op", None).unwrap();
        let check = |op, kind, bytes| {
            let checked = promise.check(AccumulateKind::Reduce(op), Some(kind), bytes);
            checked.map_err(|error| error.class())
        };
        assert_eq!(check(PredefinedOp::Sum, Representation::I64, 8), Ok(()));
        assert_eq!(check(PredefinedOp::NoOp, Representation::U64, 8), Ok(()));
        assert_eq!(
            check(PredefinedOp::Band, Representation::I64, 8),
            Err(Class::Op)
        );
        assert_eq!(
            check(PredefinedOp::Max, Representation::I64, 8),
            Err(Class::Op)
        );
        assert_eq!(
            check(PredefinedOp::Sum, Representation::I32, 4),
            Err(Class::RmaConflict)
        );
        assert_eq!(
            check(PredefinedOp::Sum, Representation::I64, 16),
            Err(Class::Arg)
        );
        let swap = promise.check(AccumulateKind::CompareAndSwap, Some(Representation::I64), 8);
        assert_eq!(swap.unwrap_err().class(), Class::Op);
        assert!(promise.check_place(8).is_ok() && promise.check_place(12).is_err());
    }
}
