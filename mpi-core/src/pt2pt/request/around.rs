//! Looking at many requests, which mostly lie together.

use super::{Request, RequestId, RequestTable};

impl RequestTable {
    /// The requests that lie together with `id`, and the number of the first of them, if that number has ever been in use:
    /// for looking at many.
    pub fn around(&self, id: RequestId) -> Option<(u32, &[Request])> {
        let (segment, offset) = Self::locate(id.0);
        let requests = self.segments.get(segment)?.get()?;
        Some((id.0 - offset as u32, requests))
    }
}
