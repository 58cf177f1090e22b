//! The target's side of rings: execution of other members' deferred accesses
//! ([`deferred`](crate::copied::deferred)).

use std::mem::MaybeUninit;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::copied::rings::{EntryRequest, PIECE, kind};
use crate::locks::control::Control;
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};
use crate::window::attached::Attached;

/// The rings to a member, and the memory that it serves.
pub(crate) struct Inbox {
    pub control: Control,
    /// Address of its memory; NULL for a dynamic window, whose offsets are addresses.
    pub base: *mut u8,
    size: usize,
    /// The regions attached to a dynamic window.
    attached: Option<Arc<Mutex<Attached>>>,
    /// Line of each origin's next entry.
    next: Box<[u32]>,
}

// SAFETY: `base` is the window's memory, which is valid while the rings are served, and not bound to
// a thread.
unsafe impl Send for Inbox {}

impl Inbox {
    pub fn new(
        control: Control,
        (base, size): (*mut u8, usize),
        attached: Option<Arc<Mutex<Attached>>>,
    ) -> Inbox {
        Inbox {
            next: vec![0; control.members()].into(),
            control,
            base,
            size,
            attached,
        }
    }

    /// Carries out the requests in this member's rings. Returns whether there were any.
    pub fn serve(&mut self) -> bool {
        let size = self.size as u64;
        match &self.attached {
            None => serve(&mut self.next, &self.control, self.base, &|at, len| {
                at.checked_add(len as u64).is_some_and(|end| end <= size)
            }),
            Some(attached) => serve(&mut self.next, &self.control, self.base, &|at, len| {
                attached.lock().covers(at as usize, len)
            }),
        }
    }
}

/// Carries out the requests in a member's rings. Its memory begins at `base`; `has` checks whether a
/// range belongs to it.
fn serve(
    nexts: &mut [u32],
    control: &Control,
    base: *mut u8,
    has: &dyn Fn(u64, usize) -> bool,
) -> bool {
    let (me, mut any) = (control.me(), false);
    for (origin, next) in nexts.iter_mut().enumerate() {
        let Some(ring) = control.ring(origin, me) else {
            continue;
        };
        let served = ring.serve(next, |number| {
            let request = ring.request(number);
            // Checked again although origins do: a stray pointer may have overwritten the entry.
            let most = ring.most().min(PIECE);
            let fits = usize::from(request.len) <= most;
            request.kind == kind::FILLER
                || fits && carry_out(control, (base, has), request, ring.data(number), most)
        });
        if served {
            any = true;
        }
    }
    any
}

/// Carries out an entry with space for `most` bytes, at most [`PIECE`]. Returns whether it succeeded.
// Not inlined: most polls find empty rings, and would save registers for this function each time.
#[inline(never)]
fn carry_out(
    control: &Control,
    (base, has): (*mut u8, &dyn Fn(u64, usize) -> bool),
    request: EntryRequest,
    data: *mut u8,
    most: usize,
) -> bool {
    let count = request.count as usize;
    let reduction = match request.kind {
        kind::ACCUMULATE | kind::GET_ACCUMULATE => {
            Reduction::from_numbers(request.op.into(), request.element.into())
        }
        _ => None,
    };
    let len = match &reduction {
        Some(reduction) => count.saturating_mul(reduction.extent()),
        None => count,
    };
    if !has(request.at, len) || len > most {
        return false;
    }
    let place = match base.is_null() {
        true => std::ptr::with_exposed_provenance_mut(request.at as usize),
        false => base.wrapping_add(request.at as usize),
    };
    let me = control.me();
    // The previous values, while the data is still in use.
    let mut held = MaybeUninit::<[u8; PIECE]>::uninit();
    let held = held.as_mut_ptr().cast::<u8>();
    match (request.kind, reduction) {
        // SAFETY: `count` bytes are within this process's memory (`has`) and the entry (`most`), which
        // this process has taken.
        (kind::PUT, _) => unsafe { netmod_kit::copy(data, place, count) },
        // SAFETY: `count` bytes are within this process's memory (`has`) and the entry (`most`), which
        // this process has taken.
        (kind::GET, _) => unsafe { netmod_kit::copy(place, data, count) },
        // SAFETY: `count` elements are within this process's memory (`has`) and the entry (`most`); all
        // members accumulate under this member's lock.
        (kind::ACCUMULATE, Some(reduction)) => control.with_busy(me, || unsafe {
            reduction.apply_exclusive(place, count, data, std::ptr::null_mut());
        }),
        // SAFETY: `count` elements are within this process's memory (`has`) and the entry (`most`); all
        // members accumulate under this member's lock; `held` is as long as the longest entry.
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
