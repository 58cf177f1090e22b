//! Puts by messages of data that lies in many runs: in pieces of bounded size, of which few are under way.

use crate::messages::message::{self, Kind, Layout};
use crate::window::Window;
use crate::window::buffers::{Origin, Target};
use crate::window::runs;
use mpi_core::process::Process;
use mpi_types::error::Result;

/// Bytes of data in a piece.
const PIECE: usize = 1 << 20;
/// Groups of runs in a piece.
const GROUPS: usize = 4096;
/// So many pieces may be under way.
const UNDER_WAY: usize = 4;

impl Window {
    /// Writes the origin's data to the target's at `at` by messages.
    ///
    /// # Safety
    /// The origin's buffer is readable.
    pub(crate) unsafe fn put_in_pieces(
        &self,
        process: &Process,
        origin: &Origin<'_>,
        target: &Target<'_>,
        at: i64,
    ) -> Result<()> {
        let service = self.service()?;
        let number = service.lanes.any();
        let lane = service.lanes.get(number);
        let null = std::ptr::null_mut();
        let mut all = target.datatype.pieces(null, target.count, 0, usize::MAX);
        let mut next = || {
            let (piece, len) = all.next()?;
            Some((at.wrapping_add(piece.addr() as i64), len))
        };
        let (mut groups, mut done) = (Vec::new(), 0);
        let mut rest = next();
        while rest.is_some() {
            groups.clear();
            let mut len = 0;
            while let Some((place, run)) = rest {
                let now = run.min(PIECE - len);
                if now == 0 || groups.len() == GROUPS {
                    break;
                }
                runs::push(&mut groups, (place, now));
                len += now;
                rest = match run - now {
                    0 => next(),
                    more => Some((place.wrapping_add(now as i64), more)),
                };
            }
            let layout = Layout::Groups(&groups);
            let room = service.memory_for(layout.message_len(len));
            let message = message::encode(room, Kind::Put, 0, [0; 2], layout, len, |out| {
                // SAFETY: the caller's promise: so much data follows.
                unsafe { origin.pack_from(done, out) }
            });
            self.ask(process, (target.rank, number), message, false)?;
            done += len;
            if rest.is_some() {
                // Messages to lost processes end.
                process.wait_ignoring_loss(lane.vci, || {
                    Ok((lane.origin.lock().sends() < UNDER_WAY).then_some(()))
                })?;
            }
        }
        Ok(())
    }
}
