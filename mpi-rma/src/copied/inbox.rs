//! What others have left to a member in rings ([`deferred`](crate::copied::deferred)), as it carries that out.

use std::mem::MaybeUninit;

use crate::copied::rings::{PIECE, Wish, kind};
use crate::locks::control::Control;
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};

/// The memory that a member serves by rings.
pub(crate) struct Inbox {
    /// The line at which the next entry of each origin's is.
    pub next: Box<[u32]>,
}

impl Inbox {
    pub fn new(members: usize) -> Inbox {
        Inbox {
            next: vec![0; members].into(),
        }
    }

    /// Carries out what others have left to this member, whose memory of `size` bytes begins at `base`; in memory that
    /// `has` it all. Returns whether there was something.
    pub fn serve(
        &mut self,
        control: &Control,
        base: *mut u8,
        has: &dyn Fn(u64, usize) -> bool,
    ) -> bool {
        let (me, mut any) = (control.me(), false);
        for (origin, next) in self.next.iter_mut().enumerate() {
            let Some(ring) = control.ring(origin, me) else {
                continue;
            };
            let served = ring.serve(next, |number| {
                let wish = ring.wish(number);
                // Origins have checked this where they can; an entry that is overwritten by a stray pointer does no more harm.
                let most = ring.most().min(PIECE);
                let fits = usize::from(wish.len) <= most;
                wish.kind == kind::FILLER
                    || fits && carry_out(control, (base, has), wish, ring.data(number), most)
            });
            if served {
                any = true;
            }
        }
        any
    }
}

/// Carries out an entry whose data has room for `most` bytes, not more than [`PIECE`]. Returns whether it could.
// Not inlined: who looks into rings mostly finds nothing, and would save registers for it each time.
#[inline(never)]
fn carry_out(
    control: &Control,
    (base, has): (*mut u8, &dyn Fn(u64, usize) -> bool),
    wish: Wish,
    data: *mut u8,
    most: usize,
) -> bool {
    let count = wish.count as usize;
    let reduction = match wish.kind {
        kind::ACCUMULATE | kind::GET_ACCUMULATE => {
            Reduction::from_numbers(wish.op.into(), wish.element.into())
        }
        _ => None,
    };
    let len = match &reduction {
        Some(reduction) => count.saturating_mul(reduction.extent()),
        None => count,
    };
    if !has(wish.at, len) || len > most {
        return false;
    }
    let place = match base.is_null() {
        true => std::ptr::with_exposed_provenance_mut(wish.at as usize),
        false => base.wrapping_add(wish.at as usize),
    };
    let me = control.me();
    // What was found, meanwhile.
    let mut held = MaybeUninit::<[u8; PIECE]>::uninit();
    let held = held.as_mut_ptr().cast::<u8>();
    match (wish.kind, reduction) {
        // SAFETY: `count` bytes are within this process's memory (`has`) and the entry (`most`), which the
        // origin has handed over.
        (kind::PUT, _) => unsafe { netmod_kit::copy(data, place, count) },
        // SAFETY: as for a put.
        (kind::GET, _) => unsafe { netmod_kit::copy(place, data, count) },
        // SAFETY: `count` elements are within this process's memory (`has`) and the entry (`most`); all
        // members accumulate under this member's lock.
        (kind::ACCUMULATE, Some(reduction)) => control.with_busy(me, || unsafe {
            reduction.apply_exclusive(place, count, data, std::ptr::null_mut());
        }),
        // SAFETY: as for an accumulate; `held` is as long as the longest entry.
        (kind::GET_ACCUMULATE, Some(reduction)) => unsafe {
            control.with_busy(me, || reduction.apply_exclusive(place, count, data, held));
            netmod_kit::copy(held, data, len);
        },
        (kind::COMPARE_AND_SWAP, _) if count <= LONGEST_COMPARED => {
            let mut both = [[0u8; LONGEST_COMPARED]; 2];
            let bytes = both.as_flattened_mut();
            // SAFETY: such an entry holds two elements of the longest kind.
            unsafe { netmod_kit::copy(data, bytes.as_mut_ptr(), bytes.len()) };
            let [compare, new] = both.map(u128::from_le_bytes);
            // SAFETY: `count` bytes are within this process's memory (`has`); all members accumulate
            // under this member's lock.
            let found = control.with_busy(me, || unsafe {
                apply::compare_and_swap(place, compare, new, count, false)
            });
            let found = found.to_le_bytes();
            // SAFETY: the entry has space for two elements of the longest kind.
            unsafe { netmod_kit::copy(found.as_ptr(), data, found.len()) };
        }
        _ => return false,
    }
    true
}
