//! The data of a window's members that the fast path of accesses reads.

use crate::locks::control::Control;
use crate::primitives::AtomicU32;
use crate::window::members::{Mapped, Members, Route};

/// A member's memory, for the fast path.
pub(crate) struct FastTarget {
    pub(crate) here: *mut u8,
    pub(crate) size: u64,
    pub(crate) unit: i64,
    /// See [`AtomicAccess`](crate::locks::access_guard::AtomicAccess). Points to the window's control
    /// block.
    pub(crate) busy: *const AtomicU32,
}

/// The members of a window, for the fast path. Empty for windows without one.
pub(crate) struct FastTargets {
    pub(crate) targets: Box<[FastTarget]>,
    pub(crate) acting: *const AtomicU32,
}

impl Default for FastTargets {
    fn default() -> FastTargets {
        FastTargets {
            targets: Box::default(),
            acting: std::ptr::null(),
        }
    }
}

impl FastTargets {
    /// Makes the table of a window. Empty unless all members are mapped.
    pub fn new(members: &Members, control: Option<&Control>, me: u32, count: u32) -> FastTargets {
        let Some(control) = control else {
            return FastTargets::default();
        };
        let place = |rank: u32| {
            let member = members.get(rank);
            let Route::Mapped(Mapped(here)) = member.route else {
                return None;
            };
            Some(FastTarget {
                here,
                size: member.size,
                unit: member.unit,
                busy: control.atomic_access(rank as usize, me as usize).busy,
            })
        };
        let targets: Option<Box<[FastTarget]>> = (0..count).map(place).collect();
        FastTargets {
            targets: targets.unwrap_or_default(),
            acting: control.atomic_access(me as usize, me as usize).mine,
        }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.targets)
    }
}
