//! Reduction operations (MPI-3.1 section 5.9).
//!
//! Choices where the standard leaves one:
//!
//! - Integers wrap on overflow.
//! - `MPI_MAX` is `a > b ? a : b` and `MPI_MIN` is `a < b ? a : b` with `a` the incoming and `b`
//!   the inout operand. So where one of them is NaN, or where they are zeros of different signs,
//!   `b` is the result, and it depends on the order of the operands: an algorithm that computes the
//!   same result on several ranks must apply the operands in the same order on each.
//! - `MPI_MINLOC` and `MPI_MAXLOC` keep the lower index where values are equal, and `b` where one
//!   value is NaN.
//! - Logical results are 0 or 1; any other value than 0 counts as true.
//! - Complex products are the schoolbook formula; infinities are not recovered as C's annex G asks.
//! - `MPI_LONG_DOUBLE` computes in the x87 format on x86-64, else in binary128, as `MPI_REAL16`
//!   does, each rounding once per operation.

mod half;
mod kernels;
mod pairs;
mod predefined;
mod quad;
mod select;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x87;

use std::fmt;
use std::sync::Arc;

use crate::datatype::{Datatype, Group, Predefined};
use crate::{Class, Error, Result};
pub use kernels::{Kernel, Level};
pub use predefined::PredefinedOp;
use predefined::group_name;
pub use select::select;

/// A user-defined operation's function, `(in, inout, len, datatype)`: `inout[i] = in[i] op
/// inout[i]` for `len` elements of the datatype.
pub type UserFunction = dyn Fn(*const u8, *mut u8, usize, &Datatype) + Send + Sync;

/// The implementation of a user-defined operation; every [`UserFunction`] is one.
pub trait Reduce: Send + Sync {
    /// `inout[i] = input[i] op inout[i]` for `len` elements of the datatype.
    fn reduce(&self, input: *const u8, inout: *mut u8, len: usize, datatype: &Datatype);
}

impl<F: Fn(*const u8, *mut u8, usize, &Datatype) + Send + Sync> Reduce for F {
    fn reduce(&self, input: *const u8, inout: *mut u8, len: usize, datatype: &Datatype) {
        self(input, inout, len, datatype);
    }
}

impl Reduce for Arc<UserFunction> {
    fn reduce(&self, input: *const u8, inout: *mut u8, len: usize, datatype: &Datatype) {
        self(input, inout, len, datatype);
    }
}

/// A reduction operation, predefined or made by the user.
#[derive(Clone)]
pub struct Op(Inner);

#[derive(Clone)]
enum Inner {
    Predefined(Arc<Kernels>),
    User {
        function: Arc<dyn Reduce>,
        commute: bool,
        /// Whether the program gets a callback when the operation is dropped (`MPIX_Op_create_x`).
        has_destructor: bool,
    },
}

struct Kernels {
    op: PredefinedOp,
    /// The kernel for each predefined datatype, in the order of its variants.
    kernels: Box<[Option<Kernel>]>,
}

impl Op {
    /// Creates a predefined operation with the best kernels that this processor can run.
    ///
    /// This fills a table: create it once and clone it.
    pub fn predefined(op: PredefinedOp) -> Op {
        let level = Level::best();
        let kernels = Predefined::TABLE
            .iter()
            .map(|row| select(op, row.0, level))
            .collect();
        Op(Inner::Predefined(Arc::new(Kernels { op, kernels })))
    }

    /// Creates a user-defined operation from a function (`MPI_Op_create`).
    pub fn user(function: Arc<UserFunction>, commute: bool) -> Op {
        Op::user_with(Arc::new(function), commute)
    }

    /// Creates a user-defined operation from any implementation.
    pub fn user_with(function: Arc<dyn Reduce>, commute: bool) -> Op {
        Op(Inner::User {
            function,
            commute,
            has_destructor: false,
        })
    }

    /// Creates a user-defined operation with a destructor: only collectives in execution may keep
    /// it alive.
    pub fn with_destructor(function: Arc<dyn Reduce>, commute: bool) -> Op {
        Op(Inner::User {
            function,
            commute,
            has_destructor: true,
        })
    }

    /// Returns whether a cached schedule may keep the operation alive after it has been freed.
    pub fn may_be_cached(&self) -> bool {
        !matches!(
            self.0,
            Inner::User {
                has_destructor: true,
                ..
            }
        )
    }

    /// Returns whether the order of the operands does not matter (`MPI_Op_commutative`). All
    /// operations are assumed to be associative.
    pub fn is_commutative(&self) -> bool {
        match &self.0 {
            Inner::Predefined(kernels) => kernels.op != PredefinedOp::Replace,
            Inner::User { commute, .. } => *commute,
        }
    }

    /// Returns the predefined operation, if it is one.
    pub fn as_predefined(&self) -> Option<PredefinedOp> {
        match &self.0 {
            Inner::Predefined(kernels) => Some(kernels.op),
            Inner::User { .. } => None,
        }
    }

    /// Returns whether both are the same operation (the same handle).
    pub fn is_same(&self, other: &Op) -> bool {
        match (&self.0, &other.0) {
            (Inner::Predefined(a), Inner::Predefined(b)) => a.op == b.op,
            (Inner::User { function: a, .. }, Inner::User { function: b, .. }) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Checks that a collective reduction may use the operation on the datatype.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_OP` where the operation is for accumulates only, or where a predefined operation
    /// meets a datatype that is derived or not in one of its groups.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        let Some(op) = self.as_predefined() else {
            return Ok(());
        };
        if op.accumulate_only() {
            return Err(Error::new(
                Class::Op,
                format!(
                    "{} is for MPI_Accumulate and its kin only; a collective reduction needs \
                     another operation",
                    op.name()
                ),
            ));
        }
        let Some(predefined) = datatype.as_predefined() else {
            return Err(Error::new(
                Class::Op,
                format!(
                    "{} works on predefined datatypes and this one is derived; reduce its \
                     elements as a predefined datatype, or make an operation for it with \
                     MPI_Op_create",
                    op.name()
                ),
            ));
        };
        self.check_predefined(op, predefined)?;
        // Accumulates also take `MPI_BYTE` (`PredefinedOp::accumulates`).
        if predefined.group() == Group::Byte && !op.groups().contains(&Group::Byte) {
            return Err(refusal(op, predefined));
        }
        Ok(())
    }

    /// Checks that an accumulate (`MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op`) may
    /// use the operation on the datatype: predefined, derived from one predefined datatype, or
    /// empty.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_OP` for a user-defined operation, for a datatype that mixes several predefined
    /// ones, and for one that is not in the operation's groups.
    pub fn check_accumulate(&self, datatype: &Datatype) -> Result<()> {
        let Some(op) = self.as_predefined() else {
            return Err(Error::new(
                Class::Op,
                "the operation is user-defined; accumulates take predefined operations only",
            ));
        };
        let Some(predefined) = datatype.element() else {
            if datatype.size() == 0 {
                return Ok(());
            }
            return Err(Error::new(
                Class::Op,
                format!(
                    "{} cannot accumulate with a datatype made of several predefined ones; all \
                     its elements must be of one predefined datatype",
                    op.name()
                ),
            ));
        };
        self.check_predefined(op, predefined)
    }

    fn check_predefined(&self, op: PredefinedOp, predefined: Predefined) -> Result<()> {
        if self.kernel(predefined).is_some() {
            return Ok(());
        }
        if op.groups().contains(&predefined.group()) {
            return Err(Error::new(
                Class::Op,
                format!(
                    "{} on {} is not supported on this kind of processor",
                    op.name(),
                    predefined.name()
                ),
            ));
        }
        Err(refusal(op, predefined))
    }

    /// Returns the kernel for a predefined datatype, for callers that reduce in chunks or into a
    /// third buffer; `None` for a user-defined operation, and where [`Op::check`] or
    /// [`Op::check_accumulate`] refuses.
    pub fn kernel(&self, predefined: Predefined) -> Option<Kernel> {
        match &self.0 {
            Inner::Predefined(known) => known.kernels[predefined as usize],
            Inner::User { .. } => None,
        }
    }

    /// Computes `inout[i] = input[i] op inout[i]` for `count` elements.
    ///
    /// # Panics
    ///
    /// If [`Op::check`] (or, for a predefined datatype, [`Op::check_accumulate`]) would fail.
    ///
    /// # Safety
    ///
    /// `input` is readable and `inout` readable and writable for `count` elements of `datatype`,
    /// both as addresses that a program would pass as buffers; they are the same address or do not
    /// overlap. A user's function must be sound to call with them.
    #[allow(
        unsafe_code,
        reason = "the caller hands over vectors with a promise that they fit"
    )]
    pub unsafe fn apply(
        &self,
        input: *const u8,
        inout: *mut u8,
        count: usize,
        datatype: &Datatype,
    ) {
        match &self.0 {
            Inner::Predefined(known) => {
                let kernel = datatype
                    .as_predefined()
                    .and_then(|predefined| known.kernels[predefined as usize])
                    .expect("the operation was checked against the datatype");
                // SAFETY: the caller promises buffers for `count` elements of the kernel's datatype
                // (`# Safety`); `Op::predefined` chose a level that this processor has.
                unsafe { kernel(input, inout, inout, count) }
            }
            Inner::User { function, .. } => function.reduce(input, inout, count, datatype),
        }
    }

    /// Computes `to[i] = left[i] op right[i]` for `count` elements.
    ///
    /// # Panics
    ///
    /// If [`Op::kernel`] returns `None`: for a user-defined operation, say.
    ///
    /// # Safety
    ///
    /// `left` and `right` are readable and `to` writable for `count` elements of `datatype`, each
    /// address as a program would pass it; two of the three either are the same address or do not
    /// overlap.
    #[allow(
        unsafe_code,
        reason = "the caller hands over vectors with a promise that they fit"
    )]
    pub unsafe fn combine(
        &self,
        left: *const u8,
        right: *const u8,
        to: *mut u8,
        count: usize,
        datatype: &Datatype,
    ) {
        let kernel = datatype
            .as_predefined()
            .and_then(|predefined| self.kernel(predefined))
            .expect("the operation has a kernel for the datatype");
        // SAFETY: the caller promises buffers for `count` elements of the kernel's datatype (`#
        // Safety`); `Op::predefined` chose a level that this processor has.
        unsafe { kernel(left, right, to, count) }
    }
}

#[cold]
fn refusal(op: PredefinedOp, predefined: Predefined) -> Error {
    let groups: Vec<_> = op.groups().iter().map(|&g| group_name(g)).collect();
    Error::new(
        Class::Op,
        format!(
            "{} is not defined on {}, which is of the group \"{}\"; it takes datatypes of: {}",
            op.name(),
            predefined.name(),
            group_name(predefined.group()),
            groups.join(", ")
        ),
    )
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Predefined(known) => f.write_str(known.op.name()),
            Inner::User { commute, .. } => f
                .debug_struct("Op")
                .field("commute", commute)
                .finish_non_exhaustive(),
        }
    }
}
