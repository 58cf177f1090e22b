//! Finding or building the schedule of a call, and running it.

use super::Buffers;
use super::call::{Call, Place};
use super::registration::Collectives;
use super::run::run;
use super::state::CommState;
use super::terms::Terms;
use crate::comm::{Comm, Purpose};
use crate::error::Result;
use crate::process::Process;

/// Carries out a collective call, with slots or without.
///
/// # Safety
/// As for [`call`](super::call).
#[inline]
pub(super) unsafe fn call_with(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    buffers: Buffers,
    call: &Call<'_>,
    by_slots: bool,
) -> Result<()> {
    let (slots, reach) = match by_slots {
        true => (
            state.board().map(|board| board.slots),
            state.remote_board().map(|board| (board.reach, board.quick)),
        ),
        false => (None, None),
    };
    // With and without differ; those that are kept are what calls of programs come to.
    let shape = call
        .shape()
        .filter(|_| by_slots || (state.board().is_none() && state.remote_board().is_none()));
    let mut kept = state.take_run(shape.as_ref());
    if !shape.as_ref().is_some_and(|shape| kept.fits(shape)) {
        kept.remember(shape.as_ref());
        let own = state.choices();
        let place = process.source::<Collectives>().place(
            process,
            comm,
            state,
            slots,
            reach,
            own.as_deref(),
        );
        call.build(&place, kept.run.rebuild());
        kept.terms = match by_slots {
            true => state.terms(call, kept.run.schedule().phases()),
            false => Terms::default(),
        };
        if process.source::<Collectives>().tells && comm.rank() == 0 {
            tell(call, &place, kept.run.schedule().phases());
        }
    }
    let tag = comm.next_collective();
    // SAFETY: as for this function.
    unsafe {
        run(
            process,
            comm,
            state,
            Purpose::Collective,
            tag,
            buffers,
            kept,
        )
    }
}

#[cold]
fn tell(call: &Call<'_>, place: &Place<'_>, phases: u32) {
    if let Some(text) = call.describe(place, phases) {
        eprintln!("Weft: {text}");
    }
}
