//! Addresses and offsets of a process that a debugger reads.

#![deny(unsafe_code)]

use super::Process;
use crate::places::Places;
use crate::vci;

impl Process {
    /// Adds the addresses of VCIs and requests, and the offsets of their fields.
    pub fn places(&self, places: &mut Places) {
        places.add("vcis", self.vcis.as_ptr() as usize);
        places.add("vcis.count", self.vcis.len());
        self.requests.places(places);
        vci::debugger::add(places);
    }
}
