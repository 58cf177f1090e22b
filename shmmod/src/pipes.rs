//! Long messages through the sender's shared memory (see [`netmod::Pipes`]).

use netmod::ring::TxRing;
use netmod::{
    LaneError, NoPipe, Peer, Pipe, PipeEnd, PipeReader, PipeRequest, PipeWords, Pipes,
    PullProgress, PushProgress, RING, Source, VciId,
};

use crate::choice::Way;
use crate::config::SingleCopy;
use crate::ends::End;
use crate::lane::{Remote, ShmLane};
use crate::lent::{Kept, MOST};
use crate::live::Hands;
use crate::segment::{Segment, UNIT, UNITS, more_units};
use crate::shape::{Shape, THEIRS, row};
use crate::turns::Came;

/// Nanoseconds, plus 1 per 32 bytes of the message, for which a receiver waits for a busy sender
/// before it reads the message by CMA: about 1.5 times the time of that read, and longer than the
/// sender needs for another message.
const PATIENCE: u64 = 20_000;
/// Bytes that the kernel copies in a nanosecond, about.
const READ: u64 = 10;
/// Most chunks that are copied before the receiver's progress is published; few of those that may
/// be in flight.
const AHEAD: usize = 8;
/// Bytes. Longer messages are announced before they are written, however far the receiver lags
/// behind.
const WRITTEN_FIRST: usize = 256 << 10;
/// Polls of a receiver for the next chunk before it does other work: about the time to write a
/// chunk.
const LOOKS: u32 = 100;

/// Returns the monotonic time in nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes `time` only.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// State of the pipes that peers have opened.
#[derive(Default)]
pub(crate) struct Receiving {
    /// Time at which data was last read from one.
    heard: u64,
}

/// Returns the control words of a peer's pipe and its parsed name.
fn words_of(segment: &Segment, pipe: Pipe) -> Option<(&PipeWords, Shape)> {
    let shape = Shape::parse(pipe)?;
    Some((segment.words(shape.slot), shape))
}

fn wake(tx_ring: &mut End<TxRing>) {
    let tx_ring = tx_ring.get();
    if !tx_ring.is_silent() {
        tx_ring.wake();
    }
}

impl ShmLane {
    /// Returns whether CMA with a peer works; assumed to be symmetric.
    fn is_readable(&mut self, peer: Peer, vci: VciId) -> bool {
        self.mode != SingleCopy::Never && self.single_copy(peer, vci).is_ok()
    }

    /// Chooses the protocol for a message outside of the hand-over protocol. The second value:
    /// whether its time should be measured.
    fn way(
        &mut self,
        to: Peer,
        vci: VciId,
        len: usize,
        request: PipeRequest,
        readable: bool,
    ) -> Option<(Way, bool)> {
        let mode = self.mode;
        let remote = self.remote(to, vci).ok()?;
        match (request, mode) {
            (PipeRequest::Required, SingleCopy::Always) => None,
            (PipeRequest::Required, _) => Some((remote.choice(readable).next_by_pipe(len), false)),
            (_, SingleCopy::Always) if readable => Some((Way::Single, false)),
            _ => {
                let in_kind = remote.turns.answers_read();
                Some((remote.choice(readable).next(len, in_kind), true))
            }
        }
    }

    /// Opens a pipe for a message if it is to go through one. If `whole`, opens it only if the
    /// whole message fits; it cannot be revoked then.
    fn open_pipe(
        &mut self,
        (to, vci): (Peer, VciId),
        len: usize,
        request: PipeRequest,
        whole: bool,
    ) -> Result<Shape, NoPipe> {
        let count = len.div_ceil(UNIT);
        if len == 0 || (whole && count > RING) {
            return Err(NoPipe::NoRoom);
        }
        // A message that can be read by CMA needs no unit to start: its receiver does not wait for
        // it for long. Any other message proceeds with the unit that it has, whatever the receivers
        // of others do.
        let mode = self.mode;
        let readable = match self.remotes.get(to, vci) {
            Some(remote) if mode != SingleCopy::Never && remote.is_tried() => {
                remote.pid().is_some()
            }
            _ => self.is_readable(to, vci),
        };
        let at_once = match request {
            _ if whole => count,
            PipeRequest::IfFaster if readable => 0,
            PipeRequest::IfFaster | PipeRequest::Required => 1,
        };
        // A message that asks for some of the space has asked for all of it before, if that was
        // possible, and has been counted then.
        let remote = self.remote(to, vci).map_err(|_| NoPipe::NoRoom)?;
        // Count the turn at the first request only; see above.
        let turn = match whole || count > RING {
            true => remote.turns.send().filter(|_| count <= MOST),
            false => None,
        };
        if whole {
            remote.reads_by_turns = turn.is_some();
        }
        let by_hand = turn.is_some_and(|turn| match mode {
            // Of the two-copy protocols it is the fastest, wherever the processes run.
            SingleCopy::Never => true,
            _ => remote.goes_by_hand(len, turn, readable),
        });
        let hands = match remote.kept.take() {
            Some(kept) if by_hand && kept.are(count) => Hands::Kept(kept),
            kept => {
                if let Some(kept) = kept {
                    kept.give_back(&remote.segment);
                }
                if by_hand { Hands::MayKeep } else { Hands::Own }
            }
        };
        let units = match hands {
            Hands::Kept(_) => 0,
            _ => at_once,
        };
        let shape = self.open_by(
            (to, vci),
            len,
            (request, readable),
            whole,
            (hands, turn.is_some()),
            units,
        );
        if let (Err(_), Hands::Kept(kept)) = (shape, hands)
            && let Ok(remote) = self.remote(to, vci)
        {
            kept.give_back(&remote.segment);
        }
        shape
    }

    /// Opens a pipe for [`ShmLane::open_pipe`] if `units` units are free.
    fn open_by(
        &mut self,
        (to, vci): (Peer, VciId),
        len: usize,
        (request, readable): (PipeRequest, bool),
        whole: bool,
        (hands, by_turns): (Hands, bool),
        units: usize,
    ) -> Result<Shape, NoPipe> {
        if !self.sending.has_room(&self.own, units) {
            return Err(NoPipe::NoRoom);
        }
        self.hear();
        let by_hand = hands != Hands::Own;
        let (way, counts) = match (by_hand, request, self.mode) {
            // Handed-over memory is in the writer's cache. (Where two copies are configured there
            // is nothing to measure.)
            (true, PipeRequest::IfFaster, SingleCopy::Never) => (Way::Cached, false),
            (true, PipeRequest::IfFaster, SingleCopy::Measured) => (Way::Cached, true),
            _ => self
                .way(to, vci, len, request, readable)
                .ok_or(NoPipe::NoRoom)?,
        };
        let remote = self.remotes.get(to, vci).as_mut();
        let remote = remote.ok_or(NoPipe::NoRoom)?;
        let measured = counts && remote.is_timed(len, (by_turns, by_hand), readable);
        if way == Way::Single {
            return Err(NoPipe::Read { timed: measured });
        }
        let shape = self.sending.open(
            &self.own,
            (to, vci),
            len,
            (way, measured),
            whole,
            (hands, by_turns),
            remote.ended,
        );
        let shape = shape.ok_or(NoPipe::NoRoom)?;
        remote.opened = shape.generation as u8;
        Ok(shape)
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

impl Remote {
    /// Ends a pipe from which the wanted `len` of `total` bytes have been read, out of these units.
    /// Returns whether they are this process's own and free again.
    fn ends(
        &mut self,
        shape: Shape,
        (len, total): (usize, usize),
        (is_own, units): (bool, u128),
        spent: u64,
    ) -> bool {
        let by_hand = shape.may_keep || is_own;
        let came = if by_hand { Came::ByHand } else { Came::Piped };
        let is_turn = self.turns.receive(len, came);
        self.crosses = shape.heard != self.opened;
        self.ended = shape.generation as u8;
        let before = self.kept.take();
        let generation = shape.generation;
        let ending = match len == total {
            false => PipeEnd::Forgone,
            true if shape.may_keep && is_turn => {
                self.kept = Some(Kept { generation, units });
                PipeEnd::Kept
            }
            true => PipeEnd::Read,
        };
        let words = self.segment.words(shape.slot);
        words.end(generation, ending, shape.timed.then_some(spent));
        wake(&mut self.tx_ring);
        if let Some(kept) = before {
            kept.give_back(&self.segment);
        }
        is_own && ending == PipeEnd::Read
    }
}

fn wrong(from: Peer) -> LaneError {
    LaneError::lost(
        from,
        "internal error: it announced a message with an invalid pipe",
    )
}

impl Pipes for ShmLane {
    fn open(&mut self, to: Peer, vci: VciId, len: usize, request: PipeRequest) -> Option<Pipe> {
        let shape = self.open_pipe((to, vci), len, request, false);
        shape.ok().map(Shape::name)
    }

    fn begin(
        &mut self,
        to: Peer,
        vci: VciId,
        len: usize,
        request: PipeRequest,
        source: Source<'_>,
        is_behind: bool,
    ) -> Result<(Pipe, bool), NoPipe> {
        let shape = self.open_pipe((to, vci), len, request, true)?;
        let remote = self.remotes.get(to, vci).as_mut();
        let remote = remote.ok_or(NoPipe::NoRoom)?;
        if !(is_behind || remote.crosses) || len > WRITTEN_FIRST {
            return Ok((shape.name(), false));
        }
        let rooms = (&*self.own, remote.segment.room());
        let pipe = self.sending.write(rooms, shape, source);
        self.hear();
        Ok((pipe, true))
    }

    fn is_full(&mut self, len: usize) -> bool {
        let count = len.div_ceil(UNIT);
        count <= RING && !self.sending.has_room(&self.own, count)
    }

    fn push(
        &mut self,
        pipe: Pipe,
        moved: &mut usize,
        source: Source<'_>,
    ) -> Result<PushProgress, LaneError> {
        let Some((to, vci)) = self.sending.receiver(pipe) else {
            return Ok(PushProgress::Revoked);
        };
        let before = *moved;
        let theirs = self.remote(to, vci)?.segment.room();
        let pushed = self.sending.push((&self.own, theirs), pipe, moved, source);
        if *moved > before {
            wake(&mut self.remote(to, vci)?.tx_ring);
        }
        self.hear();
        Ok(pushed)
    }

    fn abandon(&mut self, pipe: Pipe) {
        self.sending.abandon(pipe);
        self.hear();
    }

    fn is_drained(&mut self) -> bool {
        let is_drained = self.sending.is_empty(&self.own);
        self.hear();
        is_drained
    }

    fn take_written(
        &mut self,
        from: Peer,
        vci: VciId,
        pipe: Pipe,
        (len, total): (usize, usize),
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool, LaneError> {
        let shape = Shape::parse(pipe).ok_or_else(|| wrong(from))?;
        let Some(first) = shape.row else {
            return Ok(false);
        };
        let remote = self.remotes.get(from, vci);
        let Some(remote) = remote.as_mut() else {
            // Attach to the sender, and retry.
            self.remote(from, vci)?;
            return self.take_written(from, vci, pipe, (len, total), take);
        };
        let (is_own, at, count) = (
            first >= THEIRS,
            usize::from(first % THEIRS),
            len.div_ceil(UNIT),
        );
        if len == 0 || count > UNITS - at {
            return Err(wrong(from));
        }
        let start = shape.timed.then(now);
        // Prefetch the line in which the end will be reported.
        netmod_kit::prefetch_for_write(remote.segment.words(shape.slot).end_word(), 1);
        let room = if is_own {
            self.own.room()
        } else {
            let last = at + count - 1;
            if last >= remote.units_mapped {
                remote.units_mapped = map_more(&remote.segment, remote.units_mapped, last);
            }
            remote.segment.room()
        };
        // SAFETY: `at + count` is at most `UNITS`, so the units are within the segment; the sender
        // has written them, and does not touch them until they are released.
        take(0, unsafe {
            std::slice::from_raw_parts(room.add(at * UNIT), len)
        });
        let spent = start.map_or(0, |start| {
            self.receiving.heard = now();
            self.receiving.heard.saturating_sub(start)
        });
        let units = row(at as u32, count as u32);
        let is_back = remote.ends(shape, (len, total), (is_own, units), spent);
        if is_back && !self.sending.take_back(&self.own, (from, vci), units) {
            return Err(wrong(from));
        }
        Ok(true)
    }

    fn pull(
        &mut self,
        reading: &mut PipeReader,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<PullProgress, LaneError> {
        let PipeReader {
            from, vci, pipe, ..
        } = *reading;
        let receiving = &mut self.receiving;
        let heard = receiving.heard;
        let remote = self.remotes.get(from, vci);
        let Some(remote) = remote.as_mut() else {
            // Attach to the sender, and retry.
            self.remote(from, vci)?;
            return self.pull(reading, take);
        };
        let wrong = || wrong(from);
        let (words, shape) = words_of(&remote.segment, pipe).ok_or_else(wrong)?;
        if shape.row.is_some() {
            return Err(wrong());
        }
        let generation = shape.generation;
        let start = shape.timed.then(now);
        if reading.begun == 0 {
            reading.begun = start.unwrap_or(0);
        }
        let before = reading.taken;
        let wanted = u32::try_from(reading.len.div_ceil(UNIT)).map_err(|_| wrong())?;
        let mut looks = 0;
        while reading.taken < wanted && looks <= LOOKS {
            // Collect all written chunks before copying the first: the sender's next writes take
            // the line of the control words away again, and each access to it costs as much as 4
            // KiB of data.
            let mut places = [0; AHEAD];
            let most = AHEAD.min((wanted - reading.taken) as usize);
            let mut ready = 0;
            while ready < most {
                let number = reading.taken + ready as u32;
                let Some(place) = words.place(generation, number) else {
                    break;
                };
                // Either all units of a message are this process's own or none.
                let is_own = place >= THEIRS;
                if is_own != reading.is_own && reading.places != 0
                    || usize::from(place) >= 2 * UNITS
                {
                    return Err(wrong());
                }
                reading.is_own = is_own;
                reading.places |= 1 << (place % THEIRS);
                if !is_own && usize::from(place) >= remote.units_mapped {
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
                let count = (reading.len - at).min(row.len() * UNIT);
                let room = match reading.is_own {
                    true => self.own.room(),
                    false => remote.segment.room(),
                };
                // SAFETY: the unit numbers were checked above, so the units are within the segment;
                // the sender has written them, and does not touch them until they are released.
                let chunks = unsafe {
                    let start = room.add(usize::from(row[0] % THEIRS) * UNIT);
                    std::slice::from_raw_parts(start, count)
                };
                take(at, chunks);
                reading.taken += row.len() as u32;
            }
            looks = 0;
            if (reading.taken as usize) * UNIT < reading.total && !shape.may_keep && !reading.is_own
            {
                words.take(generation, reading.taken);
                wake(&mut remote.tx_ring);
            }
        }
        let done = (reading.taken as usize * UNIT).min(reading.len);
        let any = reading.taken > before;
        if any && let Some(start) = start {
            // Time in which this process or its peer does other work does not count.
            self.receiving.heard = now();
            reading.spent += self.receiving.heard.saturating_sub(start);
        }
        if done == reading.len {
            let units = (reading.is_own, reading.places);
            let is_back = remote.ends(shape, (reading.len, reading.total), units, reading.spent);
            let from = (from, vci);
            if is_back && !self.sending.take_back(&self.own, from, reading.places) {
                return Err(wrong());
            }
            return Ok(PullProgress::Whole);
        }
        if any {
            // Without a clock reading, the wait counts from the next poll on.
            if start.is_none() {
                reading.begun = 0;
            }
            return Ok(PullProgress::Part(true));
        }
        let time = now();
        if reading.begun == 0 {
            reading.begun = time;
        }
        let waited = time.saturating_sub(heard.max(reading.begun));
        let patience = PATIENCE + reading.len as u64 / 32;
        if !reading.replaceable || reading.claimed.is_some() || waited < patience {
            return Ok(PullProgress::Part(false));
        }
        let claimed = words.revoke(generation).ok_or_else(wrong)?;
        reading.claimed = Some(claimed);
        if claimed as usize * UNIT >= reading.total {
            // The sender has claimed the whole message, and does not wait after the last chunk.
            return Ok(PullProgress::Part(false));
        }
        // The sender finds the rest revoked and waits for the receiver's report. The chunk that it
        // is writing now is read by CMA, too.
        let time_taken = time.saturating_sub(reading.begun);
        words.end(
            generation,
            PipeEnd::Forgone,
            Some(time_taken + (reading.len - done) as u64 / READ),
        );
        wake(&mut remote.tx_ring);
        Ok(PullProgress::Stalled(done))
    }

    fn release(&mut self, from: Peer, vci: VciId, pipe: Pipe) {
        let Ok(remote) = self.remote(from, vci) else {
            return;
        };
        if let Some((words, shape)) = words_of(&remote.segment, pipe) {
            words.end(shape.generation, PipeEnd::Forgone, None);
            wake(&mut remote.tx_ring);
        }
    }

    fn record_read(&mut self, to: Peer, vci: VciId, len: usize, nanoseconds: u64) {
        if self.mode == SingleCopy::Measured
            && let Ok(remote) = self.remote(to, vci)
        {
            remote.note_read(len, nanoseconds);
        }
    }
}
