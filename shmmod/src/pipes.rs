//! Long messages through the sender's shared memory (see [`netmod::Pipes`]).

use netmod::ring::Mailbox;
use netmod::{
    Ending, LaneError, Peer, Pipe, Pipes, Pulled, Pushed, RING, Reading, Source, VciId, Wish, Words,
};

use crate::choice::Way;
use crate::config::SingleCopy;
use crate::ends::End;
use crate::lane::ShmLane;
use crate::lent::{Kept, MOST};
use crate::segment::{STEP, Segment, UNIT, UNITS};
use crate::sending::{Hands, Shape, THEIRS};
use crate::turns::Came;

/// So long, and 1 ns per 32 bytes of the message, its sender may do something else before the receiver reads it
/// from his memory: about half as long again as reading takes, and longer than another message to somebody else.
const PATIENCE: u64 = 20_000;
/// About what the kernel copies in a nanosecond.
const READ: u64 = 10;
/// The most chunks that are copied without a word to the sender between them: few of those that it may have on their way.
const AHEAD: usize = 8;
/// So often a receiver looks for the next chunk before it does something else: about as long as one is written.
const LOOKS: u32 = 100;

/// The time in nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Of the pipes that peers have opened.
#[derive(Default)]
pub(crate) struct Receiving {
    /// When something came out of one.
    heard: u64,
}

/// The words of a peer's pipe, and what its name says.
fn words_of(segment: &Segment, pipe: Pipe) -> Option<(&Words, Shape)> {
    let shape = Shape::parse(pipe)?;
    Some((segment.words(shape.slot), shape))
}

fn wake(mailbox: &mut End<Mailbox>) {
    let mailbox = mailbox.get();
    if !mailbox.is_silent() {
        mailbox.wake();
    }
}

impl ShmLane {
    /// Whether a process can be read; it is taken to be so both ways.
    fn is_readable(&mut self, peer: Peer, vci: VciId) -> bool {
        self.mode != SingleCopy::Never && self.single_copy(peer, vci).is_ok()
    }

    /// The way for a message to there, and whether its time says something of it.
    fn way(
        &mut self,
        to: Peer,
        vci: VciId,
        len: usize,
        wish: Wish,
        whole: bool,
        by_hand: bool,
    ) -> Option<(Way, bool)> {
        let mode = self.mode;
        let readable = self.is_readable(to, vci);
        let remote = self.remote(to, vci).ok()?;
        match (wish, mode) {
            (Wish::Needed, SingleCopy::Always) => return None,
            (Wish::Needed, _) => return Some((remote.choice(readable).next_by_pipe(len), false)),
            (_, SingleCopy::Always) if readable => return None,
            // What goes from hand to hand is in the cache of who writes it.
            _ if by_hand => return Some((Way::Cached, true)),
            _ => {}
        }
        let chosen = remote.chosen.take().filter(|chosen| chosen.0 == len);
        let in_kind = remote.turns.answers_read();
        let choice = || remote.choice(readable).next(len, in_kind);
        let way = chosen.map_or_else(choice, |chosen| chosen.1);
        match way {
            Way::Single => {
                // Who has asked for all of the room will ask for some.
                remote.chosen = whole.then_some((len, way));
                None
            }
            way => Some((way, true)),
        }
    }
}

impl Pipes for ShmLane {
    fn open(&mut self, to: Peer, vci: VciId, len: usize, wish: Wish, whole: bool) -> Option<Pipe> {
        let count = len.div_ceil(UNIT);
        if len == 0 || (whole && count > RING) {
            return None;
        }
        // One whose message can be read need not begin: its receiver won't wait for it for long. Any other goes on by
        // the unit that it has, whatever the receivers of others do.
        let (mode, readable) = (self.mode, self.is_readable(to, vci));
        let at_once = match wish {
            _ if whole => count,
            Wish::Better if readable => 0,
            Wish::Better | Wish::Needed => 1,
        };
        // Who has asked for all of the room, and didn't get it, has been counted.
        let remote = self.remote(to, vci).ok()?;
        // Who asks again, for some of the room, has asked for all of it, if that could be.
        let turn = match whole || count > RING {
            true => remote.turns.send().filter(|_| count <= MOST),
            false => None,
        };
        if whole {
            remote.reads_by_turns = turn.is_some();
        }
        let mut kept = remote.kept.take();
        let fits = kept.is_some_and(|kept| kept.count() == count);
        let by_hand = turn.is_some_and(|turn| match mode {
            // Of two copies it is the quickest way wherever both run.
            SingleCopy::Never => true,
            _ => remote.goes_by_hand(len, turn, readable),
        });
        if !(by_hand && fits)
            && let Some(kept) = kept.take()
        {
            kept.give_back(&remote.segment);
        }
        let hands = match kept {
            Some(kept) => Hands::Kept(kept),
            None if by_hand => Hands::MayKeep,
            None => Hands::Own,
        };
        let units = if let Hands::Kept(_) = hands {
            0
        } else {
            at_once
        };
        let way = match self.sending.has_room(&self.own, units) {
            true => {
                self.hear();
                self.way(to, vci, len, wish, whole, by_hand)
            }
            false => None,
        };
        let way = match (way, self.remote(to, vci)) {
            (Some((way, true)), Ok(remote)) => Some((
                way,
                remote.is_timed(len, (turn.is_some(), by_hand), readable),
            )),
            (way, _) => way,
        };
        let open = |way| {
            self.sending.open(
                &self.own,
                (to, vci),
                len,
                way,
                whole,
                (hands, turn.is_some()),
            )
        };
        let pipe = way.and_then(open);
        if let (None, Hands::Kept(kept)) = (pipe, hands)
            && let Ok(remote) = self.remote(to, vci)
        {
            kept.give_back(&remote.segment);
        }
        pipe
    }

    fn are_full(&mut self, len: usize) -> bool {
        let count = len.div_ceil(UNIT);
        count <= RING && !self.sending.has_room(&self.own, count)
    }

    fn push(
        &mut self,
        pipe: Pipe,
        moved: &mut usize,
        source: Source<'_>,
    ) -> Result<Pushed, LaneError> {
        let Some((to, vci)) = self.sending.receiver(pipe) else {
            return Ok(Pushed::Revoked);
        };
        let before = *moved;
        let theirs = self.remote(to, vci)?.segment.room();
        let pushed = self.sending.push((&self.own, theirs), pipe, moved, source);
        if *moved > before {
            wake(&mut self.remote(to, vci)?.mailbox);
        }
        self.hear();
        Ok(pushed)
    }

    fn write(&mut self, pipe: Pipe, source: Source<'_>) -> Result<Pipe, LaneError> {
        let Some((to, vci)) = self.sending.receiver(pipe) else {
            return Ok(pipe);
        };
        let theirs = self.remote(to, vci)?.segment.room();
        let pipe = self.sending.write((&self.own, theirs), pipe, source);
        self.hear();
        Ok(pipe)
    }

    fn abandon(&mut self, pipe: Pipe) {
        self.sending.abandon(pipe);
        self.hear();
    }

    fn are_taken(&mut self) -> bool {
        let are_taken = self.sending.is_empty(&self.own);
        self.hear();
        are_taken
    }

    fn pull(
        &mut self,
        reading: &mut Reading,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<Pulled, LaneError> {
        let Reading {
            from, vci, pipe, ..
        } = *reading;
        let receiving = &mut self.receiving;
        let heard = receiving.heard;
        let remote = self.remotes.get(from, vci);
        let Some(remote) = remote.as_mut() else {
            // Attached, and then again.
            self.remote(from, vci)?;
            return self.pull(reading, take);
        };
        let wrong = || LaneError::lost(from, "it sent a message by a way that can't be");
        let (words, shape) = words_of(&remote.segment, pipe).ok_or_else(wrong)?;
        let generation = shape.generation;
        let start = shape.timed.then(now);
        if reading.begun == 0 {
            reading.begun = start.unwrap_or(0);
        }
        let before = reading.taken;
        let wanted = u32::try_from(reading.len.div_ceil(UNIT)).map_err(|_| wrong())?;
        let fits = |first: u8| usize::from(first) + wanted as usize <= UNITS;
        if !shape.row.is_none_or(fits) {
            return Err(wrong());
        }
        let mut looks = 0;
        while reading.taken < wanted && looks <= LOOKS {
            // All that is written, before the first of it is copied: what the sender writes meanwhile takes the line of
            // the words away again, and each look at it costs as much as 4 KiB of data.
            let mut places = [0; AHEAD];
            let most = AHEAD.min((wanted - reading.taken) as usize);
            let mut ready = 0;
            while ready < most {
                let number = reading.taken + ready as u32;
                // Where the name says it, all is written, and the line of the words need not be fetched.
                let place = match shape.row {
                    Some(first) => Some(first + number as u8),
                    None => words.place(generation, number),
                };
                let Some(place) = place else {
                    break;
                };
                // Where the memory is this process's, so is the whole message.
                let is_own = place >= THEIRS;
                if is_own != reading.is_own && reading.places != 0
                    || usize::from(place) >= 2 * UNITS
                {
                    return Err(wrong());
                }
                reading.is_own = is_own;
                reading.places |= 1 << (place % THEIRS);
                if !is_own && usize::from(place) >= remote.units_mapped {
                    // As many as the sender has had with it.
                    let units = (usize::from(place) + 1).next_multiple_of(STEP);
                    remote.segment.map_units(remote.units_mapped, units);
                    remote.units_mapped = units;
                }
                places[ready] = place;
                ready += 1;
            }
            if ready == 0 {
                looks += 1;
                std::hint::spin_loop();
                continue;
            }
            // Who reads all now tells so when it is copied: the line comes meanwhile.
            netmod_kit::ask_for_lines(words.end_word(), 1);
            // What lies together is copied at once.
            let rows =
                places[..ready].chunk_by(|before, after| before.checked_add(1) == Some(*after));
            for row in rows {
                let at = reading.taken as usize * UNIT;
                let count = (reading.len - at).min(row.len() * UNIT);
                let room = match reading.is_own {
                    true => self.own.room(),
                    false => remote.segment.room(),
                };
                // SAFETY: within the room, of which all these units are; the sender has written the chunks, and leaves them alone
                // until they are taken.
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
                wake(&mut remote.mailbox);
            }
        }
        let done = (reading.taken as usize * UNIT).min(reading.len);
        let any = reading.taken > before;
        if any && let Some(start) = start {
            // What this process does meanwhile, or its peer, is not the way's.
            self.receiving.heard = now();
            reading.spent += self.receiving.heard.saturating_sub(start);
        }
        if done == reading.len {
            let by_hand = shape.may_keep || reading.is_own;
            let came = if by_hand { Came::ByHand } else { Came::Piped };
            let is_turn = remote.turns.receive(reading.len, came);
            let before = remote.kept.take();
            let ending = match reading.len == reading.total {
                false => Ending::Forgone,
                true if shape.may_keep && is_turn => {
                    let units = reading.places;
                    remote.kept = Some(Kept { generation, units });
                    Ending::Kept
                }
                true => Ending::Read,
            };
            words.end(generation, ending, shape.timed.then_some(reading.spent));
            wake(&mut remote.mailbox);
            if let Some(kept) = before {
                kept.give_back(&remote.segment);
            }
            let is_back = reading.is_own && ending == Ending::Read;
            if is_back
                && !self
                    .sending
                    .take_back(&self.own, (from, vci), reading.places)
            {
                return Err(wrong());
            }
            return Ok(Pulled::Whole);
        }
        if any {
            // Where the clock is not read it is waited from the next look on.
            if start.is_none() {
                reading.begun = 0;
            }
            return Ok(Pulled::Part(true));
        }
        let time = now();
        if reading.begun == 0 {
            reading.begun = time;
        }
        let waited = time.saturating_sub(heard.max(reading.begun));
        let patience = PATIENCE + reading.len as u64 / 32;
        if !reading.replaceable || reading.claimed.is_some() || waited < patience {
            return Ok(Pulled::Part(false));
        }
        let claimed = words.revoke(generation).ok_or_else(wrong)?;
        reading.claimed = Some(claimed);
        if claimed as usize * UNIT >= reading.total {
            // The sender has all of it in hand, and won't wait for anything after the last chunk.
            return Ok(Pulled::Part(false));
        }
        // Otherwise it finds out that it must wait to be told. What it is writing now is read from where it is, too.
        let time_taken = time.saturating_sub(reading.begun);
        words.end(
            generation,
            Ending::Forgone,
            Some(time_taken + (reading.len - done) as u64 / READ),
        );
        wake(&mut remote.mailbox);
        Ok(Pulled::Stalled(done))
    }

    fn forgo(&mut self, from: Peer, vci: VciId, pipe: Pipe) {
        let Ok(remote) = self.remote(from, vci) else {
            return;
        };
        if let Some((words, shape)) = words_of(&remote.segment, pipe) {
            words.end(shape.generation, Ending::Forgone, None);
            wake(&mut remote.mailbox);
        }
    }

    fn was_read(&mut self, to: Peer, vci: VciId, len: usize, nanoseconds: u64) {
        if self.mode == SingleCopy::Measured
            && let Ok(remote) = self.remote(to, vci)
        {
            remote.note_read(len, nanoseconds);
        }
    }
}
