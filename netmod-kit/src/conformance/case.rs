//! The cases of the suite and the features that they need.

use std::sync::Arc;

use netmod::{Limits, WakeUp};

use super::node::Directory;
use super::variant::{End, Opening, Topic, Variant};

/// The features that a transport claims.
pub(super) struct Claims {
    pub limits: Limits,
    pub copies: bool,
    pub wakes: bool,
    pub cut: bool,
}

impl Claims {
    /// Opens a variant and reads its claims.
    pub fn of(variant: &Variant) -> Claims {
        let transport = variant.open(Opening {
            peer: 0,
            end: End::First,
            resolver: Arc::new(Directory::default()),
            cable: false,
        });
        let mut lane = transport.open_lane(0).unwrap();
        Claims {
            copies: transport.limits().get
                && lane.node().is_some_and(|node| node.direct_copy().is_some()),
            limits: transport.limits(),
            wakes: !matches!(lane.wake_up(), WakeUp::None),
            cut: variant.cut.is_some(),
        }
    }

    pub fn need(&self, has: impl FnOnce(&Limits) -> bool, what: &'static str) -> Need {
        if has(&self.limits) { Ok(()) } else { Err(what) }
    }
}

/// `Ok` if a case can be run, otherwise the feature that the transport does not claim.
pub(super) type Need = Result<(), &'static str>;

/// A case of the suite.
pub(super) struct Case {
    pub name: &'static str,
    pub topic: Topic,
    pub need: fn(&Claims) -> Need,
    pub run: fn(&Variant),
}

impl Case {
    pub const fn new(
        name: &'static str,
        topic: Topic,
        need: fn(&Claims) -> Need,
        run: fn(&Variant),
    ) -> Case {
        Case {
            name,
            topic,
            need,
            run,
        }
    }
}

/// The need of cases that every transport must pass.
pub(super) fn always(_: &Claims) -> Need {
    Ok(())
}

pub(super) fn has_get(claims: &Claims) -> Need {
    claims.need(|limits| limits.get || limits.native_rma, "no get")
}

pub(super) fn has_atomics(claims: &Claims) -> Need {
    claims.need(|limits| limits.atomics.is_some(), "no atomics")
}

pub(super) fn wakes(claims: &Claims) -> Need {
    claims.need(|_| claims.wakes, "no wake-up")
}
