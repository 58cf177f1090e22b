//! The predefined operations and the datatypes they are defined on (MPI-3.1 section 5.9.2).

use crate::datatype::Group;

/// A predefined reduction operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the standard's, see `name`")]
pub enum PredefinedOp {
    Max,
    Min,
    Sum,
    Prod,
    Land,
    Band,
    Lor,
    Bor,
    Lxor,
    Bxor,
    Minloc,
    Maxloc,
    /// `inout = in`, for accumulates only (section 11.3.4).
    Replace,
    /// Leaves `inout` alone, for fetching accumulates only (section 11.3.4).
    NoOp,
}

use Group::*;

const ORDERED: &[Group] = &[CInteger, FInteger, Floating, MultiLanguage];
const ARITHMETIC: &[Group] = &[CInteger, FInteger, Floating, Complex, MultiLanguage];
// Beyond the standard, as in other libraries of this ABI: any nonzero value is true.
const LOGICAL: &[Group] = &[CInteger, FInteger, Floating, Logical, MultiLanguage];
const BITWISE: &[Group] = &[CInteger, FInteger, Byte, MultiLanguage];
const LOCATED: &[Group] = &[Pair];
const ANY: &[Group] = &[
    Text,
    CInteger,
    FInteger,
    Floating,
    Logical,
    Complex,
    Byte,
    MultiLanguage,
    Pair,
    Packed,
];

impl PredefinedOp {
    /// All predefined operations, each with its name in MPI and the groups of datatypes that it is
    /// defined on, in the order of the variants.
    pub const TABLE: &'static [(PredefinedOp, &'static str, &'static [Group])] = &[
        (PredefinedOp::Max, "MPI_MAX", ORDERED),
        (PredefinedOp::Min, "MPI_MIN", ORDERED),
        (PredefinedOp::Sum, "MPI_SUM", ARITHMETIC),
        (PredefinedOp::Prod, "MPI_PROD", ARITHMETIC),
        (PredefinedOp::Land, "MPI_LAND", LOGICAL),
        (PredefinedOp::Band, "MPI_BAND", BITWISE),
        (PredefinedOp::Lor, "MPI_LOR", LOGICAL),
        (PredefinedOp::Bor, "MPI_BOR", BITWISE),
        (PredefinedOp::Lxor, "MPI_LXOR", LOGICAL),
        (PredefinedOp::Bxor, "MPI_BXOR", BITWISE),
        (PredefinedOp::Minloc, "MPI_MINLOC", LOCATED),
        (PredefinedOp::Maxloc, "MPI_MAXLOC", LOCATED),
        (PredefinedOp::Replace, "MPI_REPLACE", ANY),
        (PredefinedOp::NoOp, "MPI_NO_OP", ANY),
    ];

    /// The name in MPI.
    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// The groups of datatypes that the operation is defined on.
    pub fn groups(self) -> &'static [Group] {
        Self::TABLE[self as usize].2
    }

    /// Returns whether accumulates take the operation on a datatype of this group. Beyond the
    /// standard, as in other libraries of this ABI, they take `MPI_BYTE` wherever they take C's
    /// `char`.
    pub fn accumulates(self, group: Group) -> bool {
        let byte = group == Byte && !matches!(self, PredefinedOp::Minloc | PredefinedOp::Maxloc);
        byte || self.groups().contains(&group)
    }

    /// Whether only accumulates may use the operation: `MPI_REPLACE` and `MPI_NO_OP`.
    pub fn accumulate_only(self) -> bool {
        matches!(self, PredefinedOp::Replace | PredefinedOp::NoOp)
    }
}

/// Returns the standard's name of a group of datatypes.
pub(super) fn group_name(group: Group) -> &'static str {
    match group {
        Text => "characters",
        CInteger => "C integer",
        FInteger => "Fortran integer",
        Floating => "floating point",
        Logical => "logical",
        Complex => "complex",
        Byte => "byte",
        MultiLanguage => "multi-language",
        Pair => "value and index",
        Packed => "packed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_variants() {
        for (index, row) in PredefinedOp::TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
        }
    }
}
