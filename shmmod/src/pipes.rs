//! Long messages through the sender's shared memory (see [`netmod::Pipes`]).

use netmod::{LaneError, Peer, Pipe, PipeReader, Pipes, PullProgress, PushProgress, Source, VciId};
use shmring::ring::TxRing;
use shmring::{PipeWords, RING};

use crate::ends::End;
use crate::lane::{Remote, ShmLane};
use crate::open_pipe::PipeName;
use crate::policy::{LongMessage, LongProtocol};
use crate::segment::{Front, Segment, UNIT, UNITS, more_units};

/// Most chunks that are copied before the receiver's progress is published; few of those that may
/// be in flight.
const AHEAD: usize = 8;
/// Bytes. Longer messages are announced before they are written, however far the receiver lags
/// behind.
const WRITTEN_FIRST: usize = 256 << 10;
/// Polls of a receiver for the next chunk before it does other work: about the time to write a
/// chunk.
const LOOKS: u32 = 100;

/// Pipes that a receiver ends for each write of the sender's probe, after the first ones.
const PIPES_PER_PROBE: u32 = 32;
/// Pipes at the beginning that are all followed by a write of the probe.
const FIRST_PROBES: u32 = 8;

/// Returns the control words of a peer's pipe and its parsed name.
fn words_of(segment: &Segment, pipe: Pipe) -> Option<(&PipeWords, PipeName)> {
    let name = PipeName::parse(pipe)?;
    Some((segment.words(name.slot), name))
}

fn wake(tx_ring: &mut End<TxRing>) {
    let tx_ring = tx_ring.get();
    if !tx_ring.is_silent() {
        tx_ring.wake();
    }
}

impl ShmLane {
    /// Asks the policy for the protocol of a message, and whether CMA works with its receiver.
    /// Returns `None` if the peer cannot be reached.
    fn protocol(
        &mut self,
        (to, vci): (Peer, VciId),
        len: usize,
        is_contiguous: bool,
    ) -> Option<(LongProtocol, bool)> {
        let is_readable = self.single_copy(to, vci).is_ok();
        let is_far = self.remote(to, vci).ok()?.nearness.is_far();
        let protocol = self.policy().protocol(LongMessage {
            len,
            is_contiguous,
            is_readable,
            is_far,
        });
        Some((protocol, is_readable))
    }

    /// Samples how near the receiver's core is if that is due and the receiver has written the probe
    /// since the last sample.
    fn sample_nearness(&mut self, (to, vci): (Peer, VciId)) {
        if !netmod_kit::streaming_pays() {
            return;
        }
        let front = self.own.front();
        let (probe, beside) = front.probe();
        if let Some(Some(remote)) = self.remotes.peek(to, vci)
            && remote.nearness.sample_due().is_some()
        {
            let before = &mut remote.probed;
            remote.nearness.sample(probe, beside, |word| {
                let is_new = word != *before && Front::prober(word) == to;
                *before = word;
                is_new
            });
        }
    }

    /// Opens a pipe for a message that pipes carry, with space for the `whole` message or for its
    /// first chunk.
    fn open_pipe(
        &mut self,
        to: (Peer, VciId),
        len: usize,
        protocol: LongProtocol,
        whole: bool,
    ) -> Option<PipeName> {
        let count = len.div_ceil(UNIT);
        if protocol == LongProtocol::Cma || len == 0 || whole && count > RING {
            return None;
        }
        let is_streaming = protocol == LongProtocol::StreamingPipeline;
        let units = if whole { count } else { 1 };
        if !self.sending.has_space(&self.own, units) {
            return None;
        }
        self.sample_nearness(to);
        self.sending.open(&self.own, to, len, is_streaming, whole)
    }
}

impl Remote {
    /// Ends a pipe of the peer's.
    #[inline]
    fn end_pipe(&mut self, me: Peer, name: PipeName) {
        self.segment.words(name.slot).end(name.generation);
        if netmod_kit::streaming_pays() {
            self.ended = self.ended.wrapping_add(1);
            // The sender samples at the pipe after it: a line that was written just before.
            let is_due = self.ended.wrapping_add(1).is_multiple_of(PIPES_PER_PROBE);
            if self.ended < FIRST_PROBES || is_due {
                self.segment.front().write_probe(me, self.ended);
            }
        }
        wake(&mut self.tx_ring);
    }
}

/// Maps units of a peer's segment at least up to `last`, in the steps in which the sender allocates
/// them. Returns the number of mapped units.
#[cold]
fn map_more(segment: &Segment, mapped: usize, last: usize) -> usize {
    let mut units = mapped;
    while units <= last {
        units = more_units(units);
    }
    segment.map_units(mapped, units);
    units
}

fn wrong(from: Peer) -> LaneError {
    LaneError::lost(
        from,
        "internal error: it announced a message with an invalid pipe",
    )
}

impl Pipes for ShmLane {
    fn carries(&mut self, to: Peer, vci: VciId, len: usize, is_contiguous: bool) -> bool {
        let protocol = self.protocol((to, vci), len, is_contiguous);
        protocol.is_some_and(|(protocol, _)| protocol != LongProtocol::Cma)
    }

    fn open(&mut self, to: Peer, vci: VciId, len: usize, is_contiguous: bool) -> Option<Pipe> {
        let (protocol, is_readable) = self.protocol((to, vci), len, is_contiguous)?;
        // The receiver reads a message that does not fit instead of waiting for its sender. Any
        // other message proceeds with the unit that it has, whatever the receivers of others do.
        let whole = is_readable && is_contiguous;
        let name = self.open_pipe((to, vci), len, protocol, whole)?;
        Some(name.word())
    }

    fn begin(
        &mut self,
        to: Peer,
        vci: VciId,
        len: usize,
        source: Source<'_>,
        is_behind: bool,
    ) -> Option<(Pipe, bool)> {
        let (protocol, _) = self.protocol((to, vci), len, source.is_contiguous())?;
        let name = self.open_pipe((to, vci), len, protocol, true)?;
        if !is_behind || len > WRITTEN_FIRST {
            return Some((name.word(), false));
        }
        Some((self.sending.write(&self.own, name, source), true))
    }

    fn is_full(&mut self, len: usize) -> bool {
        let count = len.div_ceil(UNIT);
        count <= RING && !self.sending.has_space(&self.own, count)
    }

    fn push(
        &mut self,
        pipe: Pipe,
        moved: &mut usize,
        source: Source<'_>,
    ) -> Result<PushProgress, LaneError> {
        let Some((to, vci)) = self.sending.receiver(pipe) else {
            return Ok(PushProgress::Released);
        };
        let before = *moved;
        let pushed = self.sending.push(&self.own, pipe, moved, source);
        if *moved > before {
            wake(&mut self.remote(to, vci)?.tx_ring);
        }
        Ok(pushed)
    }

    fn abandon(&mut self, pipe: Pipe) {
        self.sending.abandon(pipe);
    }

    fn is_drained(&mut self) -> bool {
        self.sending.is_empty(&self.own)
    }

    fn take_written(
        &mut self,
        from: Peer,
        vci: VciId,
        pipe: Pipe,
        (len, total): (usize, usize),
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool, LaneError> {
        let me = self.me;
        let remote = self.remote(from, vci)?;
        let wrong = || wrong(from);
        let (words, name) = words_of(&remote.segment, pipe).ok_or_else(wrong)?;
        let Some(first) = name.row else {
            return Ok(false);
        };
        let (first, count) = (usize::from(first), len.div_ceil(UNIT));
        if len == 0 || len > total || first + count > UNITS {
            return Err(wrong());
        }
        // Prefetch the line in which the end will be reported.
        netmod_kit::prefetch_for_write(words.end_word(), 1);
        if first + count > remote.units_mapped {
            let last = first + count - 1;
            remote.units_mapped = map_more(&remote.segment, remote.units_mapped, last);
        }
        // SAFETY: the units are within the segment, as checked above; the sender has written them,
        // and does not touch them until the pipe is ended.
        take(0, unsafe {
            let start = remote.segment.room().add(first * UNIT);
            std::slice::from_raw_parts(start, len)
        });
        remote.end_pipe(me, name);
        Ok(true)
    }

    fn pull(
        &mut self,
        reading: &mut PipeReader,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<PullProgress, LaneError> {
        let (me, from, len) = (self.me, reading.from, reading.len);
        let remote = self.remote(from, reading.vci)?;
        let wrong = || wrong(from);
        let (words, name) = words_of(&remote.segment, reading.pipe).ok_or_else(wrong)?;
        if name.row.is_some() {
            return Err(wrong());
        }
        let generation = name.generation;
        let before = reading.taken;
        let wanted = u32::try_from(len.div_ceil(UNIT)).map_err(|_| wrong())?;
        let mut looks = 0;
        while reading.taken < wanted && looks <= LOOKS {
            // Collect all written chunks before copying the first: the sender's next writes take
            // the line of the control words away again, and each access to it costs as much as 4
            // KiB of data.
            let mut places = [0; AHEAD];
            let most = AHEAD.min((wanted - reading.taken) as usize);
            let mut ready = 0;
            while ready < most
                && let Some(place) = words.place(generation, reading.taken + ready as u32)
            {
                if usize::from(place) >= UNITS {
                    return Err(wrong());
                }
                if usize::from(place) >= remote.units_mapped {
                    remote.units_mapped =
                        map_more(&remote.segment, remote.units_mapped, place.into());
                }
                places[ready] = place;
                ready += 1;
            }
            if ready == 0 {
                looks += 1;
                std::hint::spin_loop();
                continue;
            }
            // Prefetch the line in which the progress will be reported.
            netmod_kit::prefetch_for_write(words.end_word(), 1);
            // Adjacent units are copied in one call.
            let rows =
                places[..ready].chunk_by(|before, after| before.checked_add(1) == Some(*after));
            for row in rows {
                let at = reading.taken as usize * UNIT;
                let count = (len - at).min(row.len() * UNIT);
                // SAFETY: the unit numbers were checked above, so the units are within the segment;
                // the sender has written them, and does not touch them until they are released.
                let chunks = unsafe {
                    let start = remote.segment.room().add(usize::from(row[0]) * UNIT);
                    std::slice::from_raw_parts(start, count)
                };
                take(at, chunks);
                reading.taken += row.len() as u32;
            }
            looks = 0;
            if reading.taken < wanted {
                words.take(generation, reading.taken);
                wake(&mut remote.tx_ring);
            }
        }
        if reading.taken == wanted {
            remote.end_pipe(me, name);
            return Ok(PullProgress::Whole);
        }
        Ok(PullProgress::Part(reading.taken > before))
    }

    fn release(&mut self, from: Peer, vci: VciId, pipe: Pipe) {
        let me = self.me;
        if let Some(name) = PipeName::parse(pipe)
            && let Ok(remote) = self.remote(from, vci)
        {
            remote.end_pipe(me, name);
        }
    }
}
