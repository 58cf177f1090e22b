//! Datatypes for Fortran's parameterised intrinsic types, and by size (MPI-3.1 section 17.1.9).

use super::contents::Constructor;
use super::{Datatype, Draft, Predefined};
use crate::{Class, Error, Result};

/// The class argument of `MPI_Type_match_size`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TypeClass {
    /// `MPI_TYPECLASS_REAL`.
    Real,
    /// `MPI_TYPECLASS_INTEGER`.
    Integer,
    /// `MPI_TYPECLASS_COMPLEX`.
    Complex,
}

/// A real type: decimal precision and exponent range, as Fortran's inquiry functions give
/// them, the datatype and its complex twin.
struct Real {
    precision: i64,
    range: i64,
    real: Predefined,
    complex: Predefined,
}

/// Whether C's `long double` and `REAL*16` are pairs of doubles.
const TWO_DOUBLES: bool = cfg!(target_arch = "powerpc64");

const REALS: [Real; 4] = [
    Real {
        precision: 6,
        range: 37,
        real: Predefined::Real4,
        complex: Predefined::Complex8,
    },
    Real {
        precision: 15,
        range: 307,
        real: Predefined::Real8,
        complex: Predefined::Complex16,
    },
    // Fortran's list has no name for the x87 format; C's long double is that format on x86-64.
    Real {
        precision: if TWO_DOUBLES { 31 } else { 18 },
        range: if TWO_DOUBLES { 291 } else { 4931 },
        real: Predefined::LongDouble,
        complex: Predefined::CLongDoubleComplex,
    },
    Real {
        precision: if TWO_DOUBLES { 31 } else { 33 },
        range: if TWO_DOUBLES { 291 } else { 4931 },
        real: Predefined::Real16,
        complex: Predefined::Complex32,
    },
];

/// Integers by decimal range.
const INTEGERS: [(i64, Predefined); 5] = [
    (2, Predefined::Integer1),
    (4, Predefined::Integer2),
    (9, Predefined::Integer4),
    (18, Predefined::Integer8),
    (38, Predefined::Integer16),
];

/// Returns the smallest real with at least this precision and range; `None` is `MPI_UNDEFINED`.
fn select(precision: Option<i64>, range: Option<i64>) -> Result<&'static Real> {
    if precision.is_none() && range.is_none() {
        return Err(Error::new(
            Class::Arg,
            "precision and range are both MPI_UNDEFINED; give at least one",
        ));
    }
    let (p, r) = (precision.unwrap_or(0), range.unwrap_or(0));
    let found = REALS
        .iter()
        .find(|real| real.precision >= p && real.range >= r);
    found.ok_or_else(|| {
        Error::new(
            Class::Arg,
            format!(
                "no real type has a precision of {p} digits and an exponent range of {r}; the \
                 largest has 33 and 4931"
            ),
        )
    })
}

impl Datatype {
    /// Returns the real type of Fortran's `selected_real_kind(precision, range)`
    /// (`MPI_Type_create_f90_real`). `None` is `MPI_UNDEFINED`.
    pub fn f90_real(precision: Option<i64>, range: Option<i64>) -> Result<Datatype> {
        let stands_for = select(precision, range)?.real;
        Ok(Draft::alias(stands_for, Constructor::F90Real { precision, range }).build())
    }

    /// Returns the complex type of Fortran's `selected_real_kind(precision, range)`
    /// (`MPI_Type_create_f90_complex`). `None` is `MPI_UNDEFINED`.
    pub fn f90_complex(precision: Option<i64>, range: Option<i64>) -> Result<Datatype> {
        let stands_for = select(precision, range)?.complex;
        Ok(Draft::alias(stands_for, Constructor::F90Complex { precision, range }).build())
    }

    /// Returns the integer type of Fortran's `selected_int_kind(range)`
    /// (`MPI_Type_create_f90_integer`).
    pub fn f90_integer(range: i64) -> Result<Datatype> {
        let found = INTEGERS.iter().find(|integer| integer.0 >= range);
        let (_, stands_for) = found.ok_or_else(|| {
            let detail =
                format!("no integer type has a range of {range} digits; the largest has 38");
            Error::new(Class::Arg, detail)
        })?;
        Ok(Draft::alias(*stands_for, Constructor::F90Integer { range }).build())
    }

    /// Returns the predefined datatype of a class with a size in bytes (`MPI_Type_match_size`).
    pub fn match_size(class: TypeClass, size: i64) -> Result<Datatype> {
        let found = match (class, size) {
            (TypeClass::Real, 2) => Predefined::Real2,
            (TypeClass::Real, 4) => Predefined::Real4,
            (TypeClass::Real, 8) => Predefined::Real8,
            (TypeClass::Real, 16) => Predefined::Real16,
            (TypeClass::Integer, 1) => Predefined::Integer1,
            (TypeClass::Integer, 2) => Predefined::Integer2,
            (TypeClass::Integer, 4) => Predefined::Integer4,
            (TypeClass::Integer, 8) => Predefined::Integer8,
            (TypeClass::Integer, 16) => Predefined::Integer16,
            (TypeClass::Complex, 4) => Predefined::Complex4,
            (TypeClass::Complex, 8) => Predefined::Complex8,
            (TypeClass::Complex, 16) => Predefined::Complex16,
            (TypeClass::Complex, 32) => Predefined::Complex32,
            _ => {
                let (name, sizes) = match class {
                    TypeClass::Real => ("real", "2, 4, 8 and 16"),
                    TypeClass::Integer => ("integer", "1, 2, 4, 8 and 16"),
                    TypeClass::Complex => ("complex", "4, 8, 16 and 32"),
                };
                return Err(Error::new(
                    Class::Arg,
                    format!("there is no {name} datatype of {size} bytes; there are {sizes}"),
                ));
            }
        };
        Ok(Datatype::predefined(found))
    }
}
