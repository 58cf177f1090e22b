//! What a debugger that has stopped the process can find in its memory.

#![deny(unsafe_code)]

use super::Process;
use crate::places::Places;
use crate::vci;

impl Process {
    /// Tells where its VCIs and requests are, and how they are laid out.
    pub fn places(&self, places: &mut Places) {
        places.add("vcis", self.vcis.as_ptr() as usize);
        places.add("vcis.count", self.vcis.len());
        self.requests.places(places);
        vci::debugger::add(places);
    }
}
