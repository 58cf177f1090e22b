//! Scans over many requests, which mostly lie in one segment.

use super::{Request, RequestId, RequestTable};

impl RequestTable {
    /// Returns the segment that contains `id`, and the number of its first request. `None` if that
    /// number was never in use.
    pub fn around(&self, id: RequestId) -> Option<(u32, &[Request])> {
        let (segment, offset) = Self::locate(id.0);
        let requests = self.segments.get(segment)?.get()?;
        Some((id.0 - offset as u32, requests))
    }
}
