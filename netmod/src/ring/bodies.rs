//! Where the payload of a message lies that doesn't fit into its cell.
//!
//! Each cell has two bodies of its own: a short one, of which several are on a page, and a long one. But a page of shared
//! memory that nobody has used costs more than a message does. So messages go round in [`FEW`] bodies at first, while the
//! receiver keeps up and answers. The more of them a sender sends, the more cells have their own: what another core has
//! read lately is written more slowly than what has left its caches. Who sends several at a time needs them at once: streams
//! through few bodies are two to four times as slow.

use super::{CELLS, Ends, Ordering, SenderView};

/// The longest payload: 8 KiB, which programs like, and what goes before.
pub const LONGEST: usize = 8192 + 128;

/// Bytes of a short body. An odd number of cache lines, so that the beginnings of bodies do not compete for the same few
/// places in the caches.
pub const SHORT: usize = 17 * 64;

/// From one long body to the next, an odd number as well.
const LONG: usize = LONGEST + 64;

/// Bodies of a kind that the first messages take; a power of two.
pub const FEW: usize = 32;

/// Messages that pay for a body.
const PAYS: u32 = 64;

/// Those after which all cells have their own, and have been met in it.
pub(super) const PAID: u32 = (PAYS + 1) * CELLS as u32;

/// Bytes of all bodies: the few and those of cells, short ones before long ones.
pub const ROOM: usize = LONG_AT + (FEW + CELLS) * LONG;
const LONG_AT: usize = (FEW + CELLS) * SHORT;

/// What a sender has used of a kind.
#[derive(Default)]
pub(super) struct Used {
    /// Messages, up to [`PAID`].
    messages: u32,
    /// No cell from this one on has been met in its own body.
    met: usize,
}

/// Where a message's payload goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body {
    /// From the beginning of all bodies, in bytes.
    pub offset: usize,
    /// Whether nobody may have used it before.
    pub is_first: bool,
}

/// Where the body of this number and of the kind for `len` bytes begins, from the beginning of all.
#[inline(always)]
fn offset(number: usize, len: usize) -> usize {
    match len <= SHORT {
        true => number * SHORT,
        false => LONG_AT + number * LONG,
    }
}

impl SenderView {
    /// The number of the body for the message of a position, as far as the receiver is known to be.
    #[inline(always)]
    fn number(&self, position: u64, messages: u32, answers: bool) -> usize {
        let cell = position as usize & (CELLS - 1);
        let takes_own =
            cell < (messages / PAYS) as usize || !answers || !self.may_claim(position, FEW);
        match takes_own {
            true => FEW + cell,
            false => position as usize & (FEW - 1),
        }
    }

    /// Where the body will be for a message of a position that is not claimed yet, if nothing is heard of the receiver.
    #[inline(always)]
    pub fn foresee_body(&self, position: u64, len: usize, answers: bool) -> usize {
        let messages = self.used[usize::from(len > SHORT)].messages;
        offset(self.number(position, messages, answers), len)
    }

    /// The body for the message of a position that was claimed. `answers`: the sender has received something since the one
    /// before.
    ///
    /// Invariant: one of the few is written for position `p` only when `head > p - FEW`, that is when the receiver is done
    /// with the position that had it before.
    #[inline(always)]
    pub fn take_body(&mut self, ends: &Ends, position: u64, len: usize, answers: bool) -> Body {
        let cell = position as usize & (CELLS - 1);
        match self.used[usize::from(len > SHORT)].messages == PAID {
            true => Body {
                offset: offset(FEW + cell, len),
                is_first: false,
            },
            false => self.take_early(ends, position, len, answers),
        }
    }

    #[inline(never)]
    fn take_early(&mut self, ends: &Ends, position: u64, len: usize, answers: bool) -> Body {
        if answers && !self.may_claim(position, FEW) {
            // Acquire: the receiver's reads of the body come before our writes to it.
            self.head = ends.head.0.load(Ordering::Acquire);
        }
        let kind = usize::from(len > SHORT);
        let number = self.number(position, self.used[kind].messages, answers);
        let used = &mut self.used[kind];
        let is_first = match number < FEW {
            true => used.messages < FEW as u32,
            false => number >= used.met,
        };
        used.messages = PAID.min(used.messages + if answers { 1 } else { PAYS });
        used.met = used.met.max(number + 1);
        Body {
            offset: offset(number, len),
            is_first,
        }
    }
}

/// Whether the body there is one of the few.
#[cfg(all(test, not(loom)))]
pub(super) fn is_few(offset: usize) -> bool {
    offset < FEW * SHORT || (LONG_AT..LONG_AT + FEW * LONG).contains(&offset)
}
