//! A check of schedules without running them: nothing is touched that a message under way still
//! uses, and no scratch memory is read that nothing was put into.

use std::fmt::Debug;

use super::GUARD;
use crate::schedule::span;
use crate::{Block, Buf, Schedule, Step};

#[derive(Clone, Copy, Default)]
struct Byte {
    reading: u16,
    writing: bool,
    filled: bool,
}

struct Shadow<'a> {
    what: &'a dyn Debug,
    rank: usize,
    schedule: &'a Schedule,
    buffers: [Vec<Byte>; 3],
    /// What the message of each step uses.
    under_way: Vec<Option<(Block, bool)>>,
}

pub fn check(what: &dyn Debug, rank: usize, schedule: &Schedule, send: usize, recv: usize) {
    let room = |len: usize| vec![Byte::default(); len + 2 * GUARD];
    let mut shadow = Shadow {
        what,
        rank,
        schedule,
        buffers: [room(send), room(recv), room(schedule.scratch_len())],
        under_way: vec![None; schedule.steps().len()],
    };
    for (i, &step) in schedule.steps().iter().enumerate() {
        match step {
            Step::Send { block, .. } => {
                shadow.read(i, block);
                shadow.each(block, |byte| byte.reading += 1);
                shadow.under_way[i] = Some((block, false));
            }
            Step::Recv { block, .. } => {
                shadow.write(i, block);
                shadow.each(block, |byte| byte.writing = true);
                shadow.under_way[i] = Some((block, true));
            }
            Step::Copy { from, to } => {
                shadow.read(i, from);
                shadow.write(i, to);
            }
            Step::Combine { left, right, to } => {
                shadow.read(i, left);
                shadow.read(i, right);
                shadow.write(i, to);
            }
            Step::Reduce { input, inout } => {
                shadow.read(i, input);
                shadow.read(i, inout);
                shadow.write(i, inout);
            }
            Step::Put { block, .. } => shadow.read(i, block),
            Step::Direct {
                block,
                write: false,
                ..
            } => shadow.write(i, block),
            Step::Direct { block, .. } => shadow.read(i, block),
            // What is lent is written by others, or only read.
            Step::Await { .. } | Step::Lend { .. } => {}
            Step::Wait { from, to } => {
                for step in from..to {
                    if let Some((block, writes)) = shadow.under_way[step as usize].take() {
                        shadow.each(block, |byte| match writes {
                            true => byte.writing = false,
                            false => byte.reading -= 1,
                        });
                    }
                }
            }
        }
    }
}

impl Shadow<'_> {
    /// Applies `f` to the bytes of a block: those that unpacking would write.
    fn each(&mut self, block: Block, f: impl FnMut(&mut Byte)) {
        let datatype = self.schedule.type_of(block.datatype);
        let len = block.count * datatype.size();
        let buffer = match block.buf {
            Buf::Send => 0,
            Buf::Recv => 1,
            Buf::Scratch => 2,
            // Messages use none of them.
            Buf::Slot(_) => return,
        };
        if len == 0 {
            return;
        }
        let (low, span) = span(block.count, datatype);
        let start = (GUARD as isize + block.offset + low) as usize;
        let bytes = &mut self.buffers[buffer][start..start + span];
        if datatype.is_contiguous() {
            bytes.iter_mut().for_each(f);
            return;
        }
        let mut marks = vec![0u8; span];
        let base = marks.as_mut_ptr().wrapping_offset(-low);
        // SAFETY: there is room from the first byte of data to the last.
        unsafe { datatype.unpack(base, block.count, 0, &vec![1; len]) };
        let marked = bytes.iter_mut().zip(marks).filter(|pair| pair.1 == 1);
        marked.map(|pair| pair.0).for_each(f);
    }

    fn read(&mut self, step: usize, block: Block) {
        let (mut racing, mut empty) = (false, false);
        self.each(block, |byte| {
            racing |= byte.writing;
            empty |= !byte.filled;
        });
        assert!(
            !racing,
            "{} reads what a message is being received to",
            self.at(step)
        );
        let empty = empty && block.buf == Buf::Scratch;
        assert!(
            !empty,
            "{} reads scratch memory that was never filled",
            self.at(step)
        );
    }

    fn write(&mut self, step: usize, block: Block) {
        let mut racing = false;
        self.each(block, |byte| {
            racing |= byte.writing || byte.reading > 0;
            byte.filled = true;
        });
        assert!(
            !racing,
            "{} writes what a message under way uses",
            self.at(step)
        );
        assert!(
            block.buf != Buf::Send,
            "{} writes the send buffer",
            self.at(step)
        );
    }

    fn at(&self, step: usize) -> String {
        let Shadow {
            what,
            rank,
            schedule,
            ..
        } = self;
        format!(
            "{what:?}, rank {rank}: step {step} of {:#?}",
            schedule.steps()
        )
    }
}
