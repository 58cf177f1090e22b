//! Addresses and offsets of a process that a debugger reads.

#![deny(unsafe_code)]

use super::Process;
use crate::layout::Layout;
use crate::vci;

impl Process {
    /// Adds the addresses of VCIs and requests, and the offsets of their fields.
    pub fn layout(&self, layout: &mut Layout) {
        layout.add("vcis", self.vcis.as_ptr() as usize);
        layout.add("vcis.count", self.vcis.len());
        self.requests.layout(layout);
        vci::debugger::add(layout);
    }
}
