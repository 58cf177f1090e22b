//! Where VCIs are found.

use std::mem::offset_of;

use crossbeam_utils::CachePadded;

use super::{Vci, VciSlot, VciState};
use crate::places::Places;
use crate::pt2pt::engine;

/// Tells it.
pub(crate) fn add(places: &mut Places) {
    places.add("vcis.step", size_of::<VciSlot>());
    // Padding lies behind what it pads.
    const { assert!(size_of::<CachePadded<u64>>() == align_of::<CachePadded<u64>>()) };
    places.add("vci.engine", Vci::STATE + offset_of!(VciState, engine));
    engine::debugger::add(places);
}
