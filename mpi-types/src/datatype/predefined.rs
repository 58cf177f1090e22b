//! The predefined datatypes (MPI-3.1 sections 3.2.2, 4.1, 5.9.4 and annex A.1.1).

/// The representation of a predefined datatype's elements in this machine's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Representation {
    /// 8 uninterpreted bits.
    Byte,
    /// A character of the Fortran execution character set, 1 byte.
    Char,
    /// C `wchar_t`, 4 bytes.
    Wchar,
    /// Signed integer of 8 bits.
    I8,
    /// Signed integer of 16 bits.
    I16,
    /// Signed integer of 32 bits.
    I32,
    /// Signed integer of 64 bits.
    I64,
    /// Unsigned integer of 8 bits.
    U8,
    /// Unsigned integer of 16 bits.
    U16,
    /// Unsigned integer of 32 bits.
    U32,
    /// Unsigned integer of 64 bits.
    U64,
    /// Signed integer of 128 bits.
    I128,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of an IEEE binary32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// x87 extended, C `long double` on x86-64: 10 bytes of value in 16. On PowerPC a pair of
    /// doubles, which no reduction and no conversion supports.
    F80,
    /// IEEE binary128, Fortran `REAL*16`; C `long double` on other processors.
    F128,
    /// Two [`Representation::F16`].
    C16,
    /// Two [`Representation::F32`].
    C32,
    /// Two [`Representation::F64`].
    C64,
    /// Two [`Representation::F80`].
    C80,
    /// Two [`Representation::F128`].
    C128,
    /// C `_Bool`, 1 byte.
    Bool,
    /// Fortran default `LOGICAL`, 4 bytes: false is 0.
    Logical4,
    /// C `struct { float; int; }`: 8 bytes.
    FloatInt,
    /// C `struct { double; int; }`: 12 bytes of data in an extent of 16.
    DoubleInt,
    /// C `struct { long; int; }`: 12 bytes of data in an extent of 16.
    LongInt,
    /// C `struct { int; int; }`, or two Fortran `INTEGER`: 8 bytes.
    IntInt,
    /// C `struct { short; int; }`: 6 bytes of data in an extent of 8 (the int at byte 4).
    ShortInt,
    /// C `struct { long double; int; }` of [`Representation::F80`]: 20 bytes of data in an extent of 32 (the
    /// int at byte 16).
    F80Int,
    /// C `struct { long double; int; }` of [`Representation::F128`].
    F128Int,
    /// Two Fortran `REAL`: 8 bytes.
    FloatFloat,
    /// Two Fortran `DOUBLE PRECISION`: 16 bytes.
    DoubleDouble,
}

impl Representation {
    /// Returns the bytes of data in one element (`MPI_Type_size`), without gaps.
    pub const fn size(self) -> usize {
        match self {
            Representation::Byte
            | Representation::Char
            | Representation::I8
            | Representation::U8
            | Representation::Bool => 1,
            Representation::I16
            | Representation::U16
            | Representation::F16
            | Representation::Bf16 => 2,
            Representation::Wchar
            | Representation::I32
            | Representation::U32
            | Representation::F32
            | Representation::Logical4
            | Representation::C16 => 4,
            Representation::ShortInt => 6,
            Representation::I64
            | Representation::U64
            | Representation::F64
            | Representation::C32 => 8,
            Representation::FloatInt | Representation::IntInt | Representation::FloatFloat => 8,
            Representation::DoubleInt | Representation::LongInt => 12,
            Representation::I128
            | Representation::F80
            | Representation::F128
            | Representation::C64
            | Representation::DoubleDouble => 16,
            Representation::F80Int | Representation::F128Int => 20,
            Representation::C80 | Representation::C128 => 32,
        }
    }

    /// Returns the bytes from one element to the next (`MPI_Type_get_extent`); the lower bound is
    /// 0.
    pub const fn extent(self) -> usize {
        match self {
            Representation::ShortInt => 8,
            Representation::DoubleInt | Representation::LongInt => 16,
            Representation::F80Int | Representation::F128Int => 32,
            other => other.size(),
        }
    }
}

/// The kinds of a floating-point format of 16 bytes.
pub(crate) struct Wide {
    pub real: Representation,
    pub complex: Representation,
    /// A number and an int, for `MPI_MINLOC`.
    pub with_int: Representation,
}

pub(crate) const BINARY128: Wide = Wide {
    real: Representation::F128,
    complex: Representation::C128,
    with_int: Representation::F128Int,
};

const EXTENDED: Wide = Wide {
    real: Representation::F80,
    complex: Representation::C80,
    with_int: Representation::F80Int,
};

/// C's `long double` on the target.
pub(crate) const LONG_DOUBLE: Wide = if cfg!(any(target_arch = "x86_64", target_arch = "powerpc64"))
{
    EXTENDED
} else {
    BINARY128
};

/// Fortran's `REAL*16` on the target.
const REAL16: Wide = if cfg!(target_arch = "powerpc64") {
    EXTENDED
} else {
    BINARY128
};

/// The group of a datatype, which determines its reduction operations (MPI-3.1 section 5.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Group {
    /// Characters that are not integers: no operations.
    Text,
    /// "C integer".
    CInteger,
    /// "Fortran integer".
    FInteger,
    /// "Floating point".
    Floating,
    /// "Logical".
    Logical,
    /// "Complex".
    Complex,
    /// "Byte".
    Byte,
    /// "Multi-language types": the operations of integers.
    MultiLanguage,
    /// Value and index, for `MPI_MINLOC` and `MPI_MAXLOC` (section 5.9.4).
    Pair,
    /// `MPI_PACKED`: no operations.
    Packed,
}

/// A predefined datatype. Types of the same [`Representation`] are still different datatypes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the standard's, see `name`")]
pub enum Predefined {
    Char,
    Wchar,
    Character,
    SignedChar,
    Int8T,
    Short,
    Int16T,
    Int,
    Int32T,
    Long,
    LongLong,
    Int64T,
    UnsignedChar,
    Uint8T,
    UnsignedShort,
    Uint16T,
    Unsigned,
    Uint32T,
    UnsignedLong,
    UnsignedLongLong,
    Uint64T,
    Integer,
    Integer4,
    Integer1,
    Integer2,
    Integer8,
    Aint,
    Offset,
    Count,
    Float,
    Real,
    Real4,
    Double,
    DoublePrecision,
    Real8,
    LongDouble,
    Real16,
    CBool,
    CxxBool,
    Logical,
    CFloatComplex,
    CxxFloatComplex,
    Complex,
    Complex8,
    CDoubleComplex,
    CxxDoubleComplex,
    DoubleComplex,
    Complex16,
    CLongDoubleComplex,
    CxxLongDoubleComplex,
    Complex32,
    Byte,
    Packed,
    FloatInt,
    DoubleInt,
    LongInt,
    TwoInt,
    ShortInt,
    LongDoubleInt,
    TwoReal,
    TwoDoublePrecision,
    TwoInteger,
    Integer16,
    Real2,
    Complex4,
    Logical1,
    Logical2,
    Logical4,
    Logical8,
    Logical16,
    CFloat16,
    Bfloat16,
}

/// The integer kind of C's `char` on the target.
#[allow(unused_comparisons, reason = "on some processors it is unsigned")]
pub(crate) const C_CHAR: Representation = if std::ffi::c_char::MIN < 0 {
    Representation::I8
} else {
    Representation::U8
};

impl Predefined {
    /// All predefined datatypes, each with its name in MPI, its kind and its group, in the order
    /// of the variants.
    pub const TABLE: &'static [(Predefined, &'static str, Representation, Group)] = &[
        // Beyond the standard: reductions take MPI_CHAR and MPI_CHARACTER as the integer that C's
        // char is, as in every other library of this ABI; programs rely on it.
        (Predefined::Char, "MPI_CHAR", C_CHAR, Group::CInteger),
        (
            Predefined::Wchar,
            "MPI_WCHAR",
            Representation::Wchar,
            Group::Text,
        ),
        (
            Predefined::Character,
            "MPI_CHARACTER",
            Representation::Char,
            Group::CInteger,
        ),
        (
            Predefined::SignedChar,
            "MPI_SIGNED_CHAR",
            Representation::I8,
            Group::CInteger,
        ),
        (
            Predefined::Int8T,
            "MPI_INT8_T",
            Representation::I8,
            Group::CInteger,
        ),
        (
            Predefined::Short,
            "MPI_SHORT",
            Representation::I16,
            Group::CInteger,
        ),
        (
            Predefined::Int16T,
            "MPI_INT16_T",
            Representation::I16,
            Group::CInteger,
        ),
        (
            Predefined::Int,
            "MPI_INT",
            Representation::I32,
            Group::CInteger,
        ),
        (
            Predefined::Int32T,
            "MPI_INT32_T",
            Representation::I32,
            Group::CInteger,
        ),
        (
            Predefined::Long,
            "MPI_LONG",
            Representation::I64,
            Group::CInteger,
        ),
        (
            Predefined::LongLong,
            "MPI_LONG_LONG_INT",
            Representation::I64,
            Group::CInteger,
        ),
        (
            Predefined::Int64T,
            "MPI_INT64_T",
            Representation::I64,
            Group::CInteger,
        ),
        (
            Predefined::UnsignedChar,
            "MPI_UNSIGNED_CHAR",
            Representation::U8,
            Group::CInteger,
        ),
        (
            Predefined::Uint8T,
            "MPI_UINT8_T",
            Representation::U8,
            Group::CInteger,
        ),
        (
            Predefined::UnsignedShort,
            "MPI_UNSIGNED_SHORT",
            Representation::U16,
            Group::CInteger,
        ),
        (
            Predefined::Uint16T,
            "MPI_UINT16_T",
            Representation::U16,
            Group::CInteger,
        ),
        (
            Predefined::Unsigned,
            "MPI_UNSIGNED",
            Representation::U32,
            Group::CInteger,
        ),
        (
            Predefined::Uint32T,
            "MPI_UINT32_T",
            Representation::U32,
            Group::CInteger,
        ),
        (
            Predefined::UnsignedLong,
            "MPI_UNSIGNED_LONG",
            Representation::U64,
            Group::CInteger,
        ),
        (
            Predefined::UnsignedLongLong,
            "MPI_UNSIGNED_LONG_LONG",
            Representation::U64,
            Group::CInteger,
        ),
        (
            Predefined::Uint64T,
            "MPI_UINT64_T",
            Representation::U64,
            Group::CInteger,
        ),
        (
            Predefined::Integer,
            "MPI_INTEGER",
            Representation::I32,
            Group::FInteger,
        ),
        (
            Predefined::Integer4,
            "MPI_INTEGER4",
            Representation::I32,
            Group::FInteger,
        ),
        (
            Predefined::Integer1,
            "MPI_INTEGER1",
            Representation::I8,
            Group::FInteger,
        ),
        (
            Predefined::Integer2,
            "MPI_INTEGER2",
            Representation::I16,
            Group::FInteger,
        ),
        (
            Predefined::Integer8,
            "MPI_INTEGER8",
            Representation::I64,
            Group::FInteger,
        ),
        (
            Predefined::Aint,
            "MPI_AINT",
            Representation::I64,
            Group::MultiLanguage,
        ),
        (
            Predefined::Offset,
            "MPI_OFFSET",
            Representation::I64,
            Group::MultiLanguage,
        ),
        (
            Predefined::Count,
            "MPI_COUNT",
            Representation::I64,
            Group::MultiLanguage,
        ),
        (
            Predefined::Float,
            "MPI_FLOAT",
            Representation::F32,
            Group::Floating,
        ),
        (
            Predefined::Real,
            "MPI_REAL",
            Representation::F32,
            Group::Floating,
        ),
        (
            Predefined::Real4,
            "MPI_REAL4",
            Representation::F32,
            Group::Floating,
        ),
        (
            Predefined::Double,
            "MPI_DOUBLE",
            Representation::F64,
            Group::Floating,
        ),
        (
            Predefined::DoublePrecision,
            "MPI_DOUBLE_PRECISION",
            Representation::F64,
            Group::Floating,
        ),
        (
            Predefined::Real8,
            "MPI_REAL8",
            Representation::F64,
            Group::Floating,
        ),
        (
            Predefined::LongDouble,
            "MPI_LONG_DOUBLE",
            LONG_DOUBLE.real,
            Group::Floating,
        ),
        (
            Predefined::Real16,
            "MPI_REAL16",
            REAL16.real,
            Group::Floating,
        ),
        (
            Predefined::CBool,
            "MPI_C_BOOL",
            Representation::Bool,
            Group::Logical,
        ),
        (
            Predefined::CxxBool,
            "MPI_CXX_BOOL",
            Representation::Bool,
            Group::Logical,
        ),
        (
            Predefined::Logical,
            "MPI_LOGICAL",
            Representation::Logical4,
            Group::Logical,
        ),
        (
            Predefined::CFloatComplex,
            "MPI_C_COMPLEX",
            Representation::C32,
            Group::Complex,
        ),
        (
            Predefined::CxxFloatComplex,
            "MPI_CXX_FLOAT_COMPLEX",
            Representation::C32,
            Group::Complex,
        ),
        (
            Predefined::Complex,
            "MPI_COMPLEX",
            Representation::C32,
            Group::Complex,
        ),
        (
            Predefined::Complex8,
            "MPI_COMPLEX8",
            Representation::C32,
            Group::Complex,
        ),
        (
            Predefined::CDoubleComplex,
            "MPI_C_DOUBLE_COMPLEX",
            Representation::C64,
            Group::Complex,
        ),
        (
            Predefined::CxxDoubleComplex,
            "MPI_CXX_DOUBLE_COMPLEX",
            Representation::C64,
            Group::Complex,
        ),
        (
            Predefined::DoubleComplex,
            "MPI_DOUBLE_COMPLEX",
            Representation::C64,
            Group::Complex,
        ),
        (
            Predefined::Complex16,
            "MPI_COMPLEX16",
            Representation::C64,
            Group::Complex,
        ),
        (
            Predefined::CLongDoubleComplex,
            "MPI_C_LONG_DOUBLE_COMPLEX",
            LONG_DOUBLE.complex,
            Group::Complex,
        ),
        (
            Predefined::CxxLongDoubleComplex,
            "MPI_CXX_LONG_DOUBLE_COMPLEX",
            LONG_DOUBLE.complex,
            Group::Complex,
        ),
        (
            Predefined::Complex32,
            "MPI_COMPLEX32",
            REAL16.complex,
            Group::Complex,
        ),
        (
            Predefined::Byte,
            "MPI_BYTE",
            Representation::Byte,
            Group::Byte,
        ),
        (
            Predefined::Packed,
            "MPI_PACKED",
            Representation::Byte,
            Group::Packed,
        ),
        (
            Predefined::FloatInt,
            "MPI_FLOAT_INT",
            Representation::FloatInt,
            Group::Pair,
        ),
        (
            Predefined::DoubleInt,
            "MPI_DOUBLE_INT",
            Representation::DoubleInt,
            Group::Pair,
        ),
        (
            Predefined::LongInt,
            "MPI_LONG_INT",
            Representation::LongInt,
            Group::Pair,
        ),
        (
            Predefined::TwoInt,
            "MPI_2INT",
            Representation::IntInt,
            Group::Pair,
        ),
        (
            Predefined::ShortInt,
            "MPI_SHORT_INT",
            Representation::ShortInt,
            Group::Pair,
        ),
        (
            Predefined::LongDoubleInt,
            "MPI_LONG_DOUBLE_INT",
            LONG_DOUBLE.with_int,
            Group::Pair,
        ),
        (
            Predefined::TwoReal,
            "MPI_2REAL",
            Representation::FloatFloat,
            Group::Pair,
        ),
        (
            Predefined::TwoDoublePrecision,
            "MPI_2DOUBLE_PRECISION",
            Representation::DoubleDouble,
            Group::Pair,
        ),
        (
            Predefined::TwoInteger,
            "MPI_2INTEGER",
            Representation::IntInt,
            Group::Pair,
        ),
        (
            Predefined::Integer16,
            "MPI_INTEGER16",
            Representation::I128,
            Group::FInteger,
        ),
        (
            Predefined::Real2,
            "MPI_REAL2",
            Representation::F16,
            Group::Floating,
        ),
        (
            Predefined::Complex4,
            "MPI_COMPLEX4",
            Representation::C16,
            Group::Complex,
        ),
        // MPI-5.0 section 3.2.2.
        (
            Predefined::Logical1,
            "MPI_LOGICAL1",
            Representation::U8,
            Group::Logical,
        ),
        (
            Predefined::Logical2,
            "MPI_LOGICAL2",
            Representation::U16,
            Group::Logical,
        ),
        (
            Predefined::Logical4,
            "MPI_LOGICAL4",
            Representation::Logical4,
            Group::Logical,
        ),
        (
            Predefined::Logical8,
            "MPI_LOGICAL8",
            Representation::U64,
            Group::Logical,
        ),
        (
            Predefined::Logical16,
            "MPI_LOGICAL16",
            Representation::I128,
            Group::Logical,
        ),
        // Beyond the standard, where C has the types: programs of this ABI use them.
        (
            Predefined::CFloat16,
            "MPIX_C_FLOAT16",
            Representation::F16,
            Group::Floating,
        ),
        (
            Predefined::Bfloat16,
            "MPIX_BFLOAT16",
            Representation::Bf16,
            Group::Floating,
        ),
    ];

    /// Returns the name in MPI, as `MPI_Type_get_name` does.
    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// Returns the representation of elements in memory.
    pub fn kind(self) -> Representation {
        Self::TABLE[self as usize].2
    }

    /// Returns the group, which determines the reduction operations.
    pub fn group(self) -> Group {
        Self::TABLE[self as usize].3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_variants() {
        for (index, row) in Predefined::TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
        }
    }
}
