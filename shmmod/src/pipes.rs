//! Long messages through the receiver's shared memory (see [`netmod::Pipes`]).

use std::collections::VecDeque;

use netmod::{LaneError, Opened, Peer, Pipe, Pipes, Pulled, Pushed, VciId, Wish, Words};

use crate::choice::Way;
use crate::config::SingleCopy;
use crate::lane::ShmLane;
use crate::segment::{PIPES, ROOM, Segment};

const PAGE: usize = 4096;
/// What the longest message takes of the room at most if another is to have some, too. Longer ones take all of it.
const HALF: usize = ROOM / 2;
/// So long, and 1 ns per 32 bytes of the message, its sender may do something else before the receiver reads it
/// from his memory: about half as long again as reading takes, and longer than another message to somebody else.
const PATIENCE: u64 = 20_000;
/// About what the kernel copies in a nanosecond.
const READ: u64 = 10;

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

/// What a pipe's name says: which use of which words, and where in the room its chunks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    generation: u32,
    /// The first byte; the beginning of a page.
    start: usize,
    /// Chunks that the pipe has room for.
    chunks: u32,
    /// Bytes of a chunk; a power of two.
    chunk: usize,
}

impl Shape {
    /// Chunks: short enough that the receiver has early what to do, long enough that the words
    /// between the two are not what takes the time.
    fn chunk(len: usize) -> usize {
        match len {
            ..=0x8000 => 0x2000,
            0x8001..=0x4_0000 => 0x4000,
            _ => 0x8000,
        }
    }

    fn name(self) -> Pipe {
        Pipe(
            u64::from(self.generation) << 32
                | ((self.start / PAGE) as u64) << 16
                | u64::from(self.chunks - 1) << 8
                | u64::from(self.chunk.trailing_zeros()),
        )
    }

    /// `None`: it is no pipe's name.
    fn parse(Pipe(name): Pipe) -> Option<Shape> {
        let log = name as u8;
        (12..=20).contains(&log).then(|| Shape {
            generation: (name >> 32) as u32,
            start: usize::from((name >> 16) as u16) * PAGE,
            chunks: u32::from((name >> 8) as u8) + 1,
            chunk: 1 << log,
        })
    }

    /// Where chunk `number` of `len` bytes is in the room, if it is there.
    fn place(&self, number: u32, len: usize) -> Option<usize> {
        let at = self.start + (number % self.chunks) as usize * self.chunk;
        (len <= self.chunk && at + len <= ROOM).then_some(at)
    }

    fn words<'a>(&self, segment: &'a Segment) -> &'a Words {
        segment.words(self.generation as usize % PIPES)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// Closed, but its sender may still be writing what it has claimed.
    Draining(u32),
    Free,
}

/// A pipe of this receiver.
struct Live {
    from: Peer,
    vci: VciId,
    shape: Shape,
    /// Bytes of room, from the shape's start on.
    room: usize,
    len: usize,
    /// Chunks taken.
    taken: u32,
    /// The sender's memory can be read, so it need not be waited for.
    replaceable: bool,
    begun: u64,
    /// How many chunks the sender has claimed, if it can't claim any more.
    claimed: Option<u32>,
    /// The sender is lost: what it has claimed it won't write.
    is_lost: bool,
    state: State,
}

impl Live {
    fn done(&self) -> usize {
        (self.taken as usize * self.shape.chunk).min(self.len)
    }

    fn is_free(&mut self, own: &Segment) -> bool {
        if let State::Draining(claimed) = self.state
            && (self.is_lost || self.shape.words(own).written() == claimed)
        {
            self.state = State::Free;
        }
        self.state == State::Free
    }

    /// Nobody is to write to it any more.
    fn close(&mut self, own: &Segment) {
        self.state = State::Draining(self.revoke(own));
        self.is_free(own);
    }

    /// Takes back what has not been claimed; how many chunks have been.
    fn revoke(&mut self, own: &Segment) -> u32 {
        let words = self.shape.words(own);
        *self.claimed.get_or_insert_with(|| words.revoke())
    }
}

/// The pipes that peers write to, and the room for them, which is given out in a circle.
#[derive(Default)]
pub(crate) struct Receiving {
    /// Whether there is room at all; `None` until the first long message.
    reserved: Option<bool>,
    /// In the order in which they were opened. Room comes back in this order.
    live: VecDeque<Live>,
    generation: u32,
    /// Where the next begins.
    next: usize,
    /// When something came out of a pipe.
    heard: u64,
    /// Of the last that was received as a whole.
    ended: u64,
}

impl Receiving {
    fn find(&mut self, pipe: Pipe) -> Option<&mut Live> {
        let open = |live: &&mut Live| live.state == State::Open && live.shape.name() == pipe;
        self.live.iter_mut().find(open)
    }

    /// Room for `room` bytes one after the other: where it begins.
    fn place(&mut self, own: &Segment, room: usize) -> Option<usize> {
        while self.live.front_mut().is_some_and(|live| live.is_free(own)) {
            self.live.pop_front();
        }
        if self.live.len() == PIPES {
            return None;
        }
        let start = if self.next + room > ROOM {
            0
        } else {
            self.next
        };
        let meets =
            |live: &Live| live.shape.start < start + room && start < live.shape.start + live.room;
        (!self.live.iter().any(meets)).then_some(start)
    }

    /// A peer is lost, and writes nothing any more.
    pub fn forget(&mut self, peer: Peer) {
        for live in self.live.iter_mut().filter(|live| live.from == peer) {
            live.is_lost = true;
        }
    }
}

impl ShmLane {
    /// Whether a pipe is the way for a message whose sender's memory can be read.
    fn prefers_pipe(&mut self, from: Peer, vci: VciId, len: usize) -> bool {
        self.mode == SingleCopy::Measured
            && self
                .remote(from, vci)
                .is_ok_and(|remote| remote.choice.next(len) == Way::Pipe)
    }

    fn note(&mut self, from: Peer, vci: VciId, len: usize, time: u64) {
        if let Ok(remote) = self.remote(from, vci) {
            remote.choice.note(len, Way::Pipe, time);
        }
    }
}

impl Pipes for ShmLane {
    fn open(&mut self, from: Peer, vci: VciId, len: usize, wish: Wish) -> Opened {
        let replaceable = self.single_copy(from, vci).is_ok();
        let wanted = match wish {
            _ if len == 0 => false,
            Wish::Promised => true,
            _ if !replaceable => true,
            Wish::Needed => false,
            Wish::Better => self.prefers_pipe(from, vci, len),
        };
        let Self { own, receiving, .. } = self;
        if !wanted
            || !*receiving
                .reserved
                .get_or_insert_with(|| own.reserve_pipes())
        {
            return Opened::Other;
        }
        let chunk = Shape::chunk(len);
        let room = match len {
            ..=HALF => len.next_multiple_of(PAGE),
            _ => ROOM,
        };
        let begun = now();
        let Some(start) = receiving.place(own, room) else {
            // Those before may wait for senders that don't come.
            let first = receiving.live.front().map_or(0, |live| live.begun);
            let moves = begun.saturating_sub(receiving.heard.max(first)) < PATIENCE;
            return if moves { Opened::Later } else { Opened::Other };
        };
        receiving.generation = receiving.generation.wrapping_add(1);
        let shape = Shape {
            generation: receiving.generation,
            start,
            chunks: room.div_ceil(chunk) as u32,
            chunk,
        };
        shape.words(own).open(shape.generation);
        receiving.next = start + room;
        receiving.live.push_back(Live {
            from,
            vci,
            shape,
            room,
            len,
            taken: 0,
            replaceable,
            begun,
            claimed: None,
            is_lost: false,
            state: State::Open,
        });
        Opened::Open(shape.name())
    }

    fn pull(&mut self, pipe: Pipe, take: &mut dyn FnMut(usize, &[u8])) -> Pulled {
        let Self { own, receiving, .. } = self;
        let heard = receiving.heard;
        let Some(live) = receiving.find(pipe) else {
            return Pulled::Part(false);
        };
        let (shape, len, before) = (live.shape, live.len, live.taken);
        let words = shape.words(own);
        let mut take_all = |live: &mut Live| {
            while live.done() < len && live.taken < words.written() {
                let at = live.done();
                let count = (len - at).min(shape.chunk);
                let Some(place) = shape.place(live.taken, count) else {
                    break;
                };
                // SAFETY: within the room; the sender has written the chunk, and leaves it alone until it is taken.
                let chunk = unsafe { std::slice::from_raw_parts(own.room().add(place), count) };
                take(at, chunk);
                live.taken += 1;
                words.take(shape.generation, live.taken);
            }
        };
        take_all(live);
        let any = live.taken > before;
        let time = now();
        if live.done() == len {
            live.state = State::Free;
            let (from, vci) = (live.from, live.vci);
            // Those that were opened before it came first.
            let begun = live.begun.max(receiving.ended);
            (receiving.heard, receiving.ended) = (time, time);
            self.note(from, vci, len, time.saturating_sub(begun));
            return Pulled::Whole;
        }
        if any {
            receiving.heard = time;
            return Pulled::Part(true);
        }
        let waited = time.saturating_sub(heard.max(live.begun));
        if !live.replaceable || live.claimed.is_some() || waited < PATIENCE + len as u64 / 32 {
            return Pulled::Part(false);
        }
        if live.revoke(own) as usize * shape.chunk >= len {
            // The sender has all of it in hand, and won't wait for anything after the last chunk.
            return Pulled::Part(false);
        }
        // Otherwise it finds out that it must wait to be told.
        live.close(own);
        take_all(live);
        let (done, from, vci) = (live.done(), live.from, live.vci);
        let time = time.saturating_sub(live.begun);
        self.note(from, vci, len, time + (len - done) as u64 / READ);
        Pulled::Stalled(done)
    }

    fn close(&mut self, pipe: Pipe) {
        let Self { own, receiving, .. } = self;
        if let Some(live) = receiving.find(pipe) {
            live.close(own);
        }
    }

    fn push(
        &mut self,
        to: Peer,
        vci: VciId,
        pipe: Pipe,
        len: usize,
        moved: &mut usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> Result<Pushed, LaneError> {
        let remote = self.remote(to, vci)?;
        let wrong = || LaneError::lost(to, "it asked for data in a place that can't be");
        let shape = Shape::parse(pipe).ok_or_else(wrong)?;
        if !remote.pipes_mapped {
            remote.segment.map_pipes();
            remote.pipes_mapped = true;
        }
        let words = shape.words(&remote.segment);
        let mut any = false;
        while *moved < len {
            let number = (*moved / shape.chunk) as u32;
            let count = (len - *moved).min(shape.chunk);
            let place = shape.place(number, count).ok_or_else(wrong)?;
            if !words.has_room(shape.generation, number, shape.chunks) {
                return Ok(Pushed::Part(any));
            }
            if !words.claim(shape.generation, number) {
                return Ok(Pushed::Revoked);
            }
            // SAFETY: within the room; the chunk is claimed and free, so nobody else touches it until it is
            // published.
            let chunk =
                unsafe { std::slice::from_raw_parts_mut(remote.segment.room().add(place), count) };
            fill(*moved, chunk);
            words.publish(shape.generation, number);
            *moved += count;
            any = true;
            let mailbox = remote.mailbox.get();
            if !mailbox.is_silent() {
                mailbox.wake();
            }
        }
        Ok(Pushed::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_pipes_are_like() {
        for (generation, start, chunks, chunk) in
            [(1, 0, 1, 0x2000), (u32::MAX, ROOM - PAGE, 256, 0x8000)]
        {
            let shape = Shape {
                generation,
                start,
                chunks,
                chunk,
            };
            assert_eq!(Shape::parse(shape.name()), Some(shape));
        }
        assert_eq!(Shape::parse(Pipe(0)), None);
        let far = Shape::parse(Pipe(u64::MAX << 8 | 13)).unwrap();
        assert_eq!(far.place(0, 1), None);
    }

    #[test]
    fn room_is_given_out_in_a_circle_and_comes_back_in_order() {
        let own = Segment::create().unwrap();
        assert!(own.reserve_pipes());
        let mut receiving = Receiving::default();
        let open = |receiving: &mut Receiving, room: usize| {
            let start = receiving.place(&own, room)?;
            receiving.generation += 1;
            let shape = Shape {
                generation: receiving.generation,
                start,
                chunks: 1,
                chunk: 0x2000,
            };
            shape.words(&own).open(shape.generation);
            receiving.next = start + room;
            receiving.live.push_back(Live {
                from: 1,
                vci: 0,
                shape,
                room,
                len: room,
                taken: 0,
                replaceable: true,
                begun: 0,
                claimed: None,
                is_lost: false,
                state: State::Open,
            });
            Some(start)
        };
        assert_eq!(open(&mut receiving, HALF), Some(0));
        assert_eq!(open(&mut receiving, HALF), Some(HALF));
        assert_eq!(open(&mut receiving, PAGE), None);
        receiving.live[1].close(&own);
        assert_eq!(open(&mut receiving, PAGE), None);
        // A chunk of the first is being written.
        assert!(own.words(1).claim(1, 0));
        receiving.live[0].close(&own);
        assert_eq!(open(&mut receiving, PAGE), None);
        own.words(1).publish(1, 0);
        assert_eq!(open(&mut receiving, PAGE), Some(0));
        assert_eq!(open(&mut receiving, ROOM), None);
        // Its sender is lost within a chunk.
        let shape = receiving.live[0].shape;
        assert!(shape.words(&own).claim(shape.generation, 0));
        receiving.live[0].close(&own);
        assert_eq!(open(&mut receiving, ROOM), None);
        receiving.forget(1);
        assert_eq!(open(&mut receiving, ROOM), Some(0));
        // Another is known to be lost before its pipe is closed.
        let shape = receiving.live[0].shape;
        assert!(shape.words(&own).claim(shape.generation, 0));
        receiving.forget(1);
        assert_eq!(open(&mut receiving, PAGE), None);
        receiving.live[0].close(&own);
        assert_eq!(open(&mut receiving, ROOM), Some(0));
    }
}
