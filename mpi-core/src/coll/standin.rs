//! Reduction operations until the real ones are here.

use std::sync::Arc;

use crate::datatype::Datatype;

type Function = dyn Fn(*const u8, *mut u8, usize, &Datatype) + Send + Sync;

/// A reduction operation.
#[derive(Clone)]
pub struct Op(Arc<(Box<Function>, bool)>);

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Op")
    }
}

impl Op {
    /// From a function.
    pub fn user(
        f: impl Fn(*const u8, *mut u8, usize, &Datatype) + Send + Sync + 'static,
        commute: bool,
    ) -> Op {
        Op(Arc::new((Box::new(f), commute)))
    }
    /// Whether it commutes.
    pub fn is_commutative(&self) -> bool {
        self.0.1
    }
    /// inout = input op inout.
    ///
    /// # Safety
    /// Both hold `count` elements.
    pub unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: usize, dt: &Datatype) {
        (self.0.0)(input, inout, count, dt);
    }
}
