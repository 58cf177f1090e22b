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
    // SAFETY: within this process's memory of the window; the entry's data has room for as much; accumulates are under this
    // member's lock, as by all others.
    unsafe {
        match (wish.kind, reduction) {
            (kind::PUT, _) => netmod_kit::copy(data, place, count),
            (kind::GET, _) => netmod_kit::copy(place, data, count),
            (kind::ACCUMULATE, Some(reduction)) => control.with_busy(me, || {
                reduction.apply_exclusive(place, count, data, std::ptr::null_mut());
            }),
            (kind::GET_ACCUMULATE, Some(reduction)) => {
                control.with_busy(me, || {
                    reduction.apply_exclusive(place, count, data, held);
                });
                netmod_kit::copy(held, data, len);
            }
            (kind::COMPARE_AND_SWAP, _) if count <= LONGEST_COMPARED => {
                let mut both = [[0u8; LONGEST_COMPARED]; 2];
                netmod_kit::copy(
                    data,
                    both.as_flattened_mut().as_mut_ptr(),
                    2 * LONGEST_COMPARED,
                );
                let [compare, new] = both.map(u128::from_le_bytes);
                let found = control.with_busy(me, || {
                    apply::compare_and_swap(place, compare, new, count, false)
                });
                netmod_kit::copy(found.to_le_bytes().as_ptr(), data, LONGEST_COMPARED);
            }
            _ => return false,
        }
    }
    true
}
