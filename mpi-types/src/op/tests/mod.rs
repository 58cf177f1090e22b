//! The checks of operations against datatypes, and user-defined operations.

#![allow(unsafe_code, reason = "vectors of the tests")]

// The references for long double and REAL*16 are for x86-64.
#[cfg(target_arch = "x86_64")]
mod against_reference;
#[cfg(target_arch = "x86_64")]
mod reference;

use std::sync::Arc;

use super::{Op, PredefinedOp};
use crate::Class;
use crate::datatype::{Datatype, Predefined};

#[test]
fn refusals_name_the_operation_the_type_and_the_groups() {
    let sum = Op::predefined(PredefinedOp::Sum);
    let error = sum
        .check(&Datatype::predefined(Predefined::Byte))
        .unwrap_err();
    assert_eq!(error.class(), Class::Op);
    for part in ["MPI_SUM", "MPI_BYTE", "\"byte\"", "complex"] {
        assert!(error.detail().contains(part), "{error}");
    }
    let replace = Op::predefined(PredefinedOp::Replace);
    let int = Datatype::predefined(Predefined::Int);
    assert_eq!(replace.check(&int).unwrap_err().class(), Class::Op);
    replace.check_accumulate(&int).unwrap();
    let derived = int.contiguous(3).unwrap();
    assert_eq!(sum.check(&derived).unwrap_err().class(), Class::Op);
    sum.check_accumulate(&derived).unwrap();
}

#[test]
fn user_function_gets_the_datatype_and_both_buffers() {
    let op = Op::user(
        Arc::new(|input, inout: *mut u8, len, datatype| {
            for i in 0..len * datatype.size() {
                // SAFETY: the test below passes buffers of `len` elements.
                unsafe { *inout.add(i) = 2 * *input.add(i) + *inout.add(i) };
            }
        }),
        false,
    );
    let three = Datatype::predefined(Predefined::Byte)
        .contiguous(3)
        .unwrap();
    op.check(&three).unwrap();
    assert!(!op.is_commutative());
    assert_eq!(op.check_accumulate(&three).unwrap_err().class(), Class::Op);
    let (input, mut inout) = ([1u8, 2, 3, 4, 5, 6], [10u8, 20, 30, 40, 50, 60]);
    // SAFETY: two elements of 3 bytes in each.
    unsafe { op.apply(input.as_ptr(), inout.as_mut_ptr(), 2, &three) };
    assert_eq!(inout, [12, 24, 36, 48, 60, 72]);
}
