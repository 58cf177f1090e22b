//! Where VCIs are found.

use std::mem::offset_of;

use crossbeam_utils::CachePadded;

use super::{Vci, VciSlot, VciState};
use crate::layout::Layout;
use crate::pt2pt::engine;

/// Tells it.
pub(crate) fn add(layout: &mut Layout) {
    layout.add("vcis.step", size_of::<VciSlot>());
    // Padding lies behind what it pads.
    const { assert!(size_of::<CachePadded<u64>>() == align_of::<CachePadded<u64>>()) };
    layout.add("vci.engine", Vci::STATE + offset_of!(VciState, engine));
    engine::debugger::add(layout);
}
