//! Execution of requests on the window's memory.
//!
//! Invariant: all fields of a request are checked. Every run lies in the window, sums do not
//! overflow, and a request whose answer cannot be allocated fails. Failures are counted, and the
//! answer to the origin's next flush reports them. A failed request for data gets an empty answer.

use crate::messages::message::Request;
use crate::messages::service::{Service, State};
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};
use mpi_core::process::Process;
use mpi_core::pt2pt::Address;
use mpi_types::error::Result;
use mpi_types::op::PredefinedOp;

impl Service {
    /// Whether a message that names this rank as its sender came from that rank's process.
    pub(super) fn is_member(&self, rank: i32, from: Address) -> bool {
        let rank = u32::try_from(rank).ok();
        let known = rank.filter(|rank| *rank < self.comm.size());
        known.is_some_and(|rank| self.comm.rma_address(rank, from.vci).peer == from.peer)
    }

    /// Returns the address of `len` bytes at offset `at`, if all of them belong to the window.
    fn place(&self, state: &State, at: i64, len: usize) -> Option<*mut u8> {
        match self.memory {
            Some((base, size)) => {
                let at = usize::try_from(at).ok()?;
                (at.checked_add(len)? <= size).then(|| base.wrapping_add(at))
            }
            None => {
                let at = at as usize;
                let known = state.attached.covers(at, len);
                known.then(|| std::ptr::with_exposed_provenance_mut(at))
            }
        }
    }

    /// Returns the bytes of all elements in an answer. `None` if not all of them lie in the window.
    /// An element has `packed` bytes in an answer and `extent` bytes in the window.
    fn total(
        &self,
        state: &State,
        request: &Request<'_>,
        packed: usize,
        extent: usize,
    ) -> Option<usize> {
        let total = request.length()?.checked_mul(packed)?;
        if total > request.data.len() {
            // Iterating over runs longer than all memory could take forever.
            Vec::<u8>::new().try_reserve_exact(total).ok()?;
        }
        let there = |(at, count): (i64, usize)| {
            let len = count.checked_mul(extent)?;
            self.place(state, at, len).map(drop)
        };
        request.runs().try_for_each(there).map(|()| total)
    }

    /// Carries out [`crate::messages::message::Kind::Put`].
    ///
    /// Not inlined, since `tests/races.supp` names it.
    #[inline(never)]
    pub(super) fn write(&self, state: &mut State, from: u32, request: &Request<'_>) {
        let mut data = request.data;
        for (at, len) in request.runs() {
            let Some((now, rest)) = data.split_at_checked(len) else {
                return state.fail(from);
            };
            data = rest;
            match self.place(state, at, len) {
                // SAFETY: `place` has checked that the bytes lie in the window's memory; `now` has
                // `len` bytes of the received message, which does not overlap it.
                Some(place) => unsafe { netmod_kit::copy(now.as_ptr(), place, len) },
                None => return state.fail(from),
            }
        }
        state.notify(from, request.a);
    }

    /// Carries out [`crate::messages::message::Kind::Get`].
    pub(super) fn read(
        &self,
        process: &Process,
        state: &mut State,
        by: (u32, usize),
        request: &Request<'_>,
    ) -> Result<()> {
        let total = self.total(state, request, 1, 1);
        let mut out = self.memory_for(0);
        if total.is_none_or(|total| out.try_reserve_exact(total).is_err()) {
            state.fail(by.0);
            return self.answer(process, state, by, request.tag, Vec::new());
        }
        for (at, len) in request.runs() {
            if let Some(place) = self.place(state, at, len) {
                // SAFETY: `place` has checked that the bytes lie in the window's memory.
                out.extend_from_slice(unsafe { std::slice::from_raw_parts(place, len) });
            }
        }
        state.notify(by.0, request.a);
        self.answer(process, state, by, request.tag, out)
    }

    /// Carries out [`crate::messages::message::Kind::Accumulate`].
    ///
    /// Invariant (accumulate atomicity): accumulates of all origins are carried out here one at a
    /// time, or on words by a transport during a poll ([`crate::network::word`]). The two run
    /// concurrently only in processes with several threads, where both use the processor's atomics.
    pub(super) fn accumulate(
        &self,
        process: &Process,
        state: &mut State,
        by: (u32, usize),
        request: &Request<'_>,
    ) -> Result<()> {
        let fetching = request.tag != crate::messages::service::REQUEST;
        let Some((reduction, mut found)) = self.accumulation(state, request, fetching) else {
            state.fail(by.0);
            return match fetching {
                true => self.answer(process, state, by, request.tag, Vec::new()),
                false => Ok(()),
            };
        };
        let mut done = 0;
        for (at, count) in request.runs() {
            // `accumulation` has checked all runs, so that neither product overflows.
            let Some(place) = self.place(state, at, count * reduction.extent()) else {
                continue;
            };
            let result = match fetching {
                true => found[done..].as_mut_ptr(),
                false => std::ptr::null_mut(),
            };
            let input = match reduction.op {
                PredefinedOp::NoOp => std::ptr::null(),
                _ => request.data[done..].as_ptr(),
            };
            // SAFETY: `place` has checked that the elements lie in the window's memory. Other threads
            // change it under this lock or, in threaded processes, by the processor's atomics.
            // `accumulation` has checked that input and result hold all elements.
            unsafe {
                match process.is_threaded() && reduction.is_native(place) {
                    true => reduction.apply_atomic(place, count, input, result),
                    false => reduction.apply_exclusive(place, count, input, result),
                }
            }
            done += count * reduction.packed();
        }
        match fetching {
            true => self.answer(process, state, by, request.tag, found),
            false => Ok(()),
        }
    }

    /// Returns the operation of an accumulate, and memory for the previous values. `None` if the
    /// request is invalid.
    fn accumulation(
        &self,
        state: &State,
        request: &Request<'_>,
        fetching: bool,
    ) -> Option<(Reduction, Vec<u8>)> {
        let reduction = Reduction::from_numbers(request.a, request.b)?;
        let total = self.total(state, request, reduction.packed(), reduction.extent())?;
        if reduction.op != PredefinedOp::NoOp && request.data.len() < total {
            return None;
        }
        let found = self.zeroed(if fetching { total as u64 } else { 0 })?;
        Some((reduction, found))
    }

    /// Carries out [`crate::messages::message::Kind::CompareAndSwap`].
    pub(super) fn compare_and_swap(
        &self,
        process: &Process,
        state: &mut State,
        by: (u32, usize),
        request: &Request<'_>,
    ) -> Result<()> {
        let run = request.runs().next();
        let found = run.and_then(|(at, size)| {
            let place = self.place(state, at, size)?;
            let upper = match size {
                0..=8 => [0; 2],
                LONGEST_COMPARED => {
                    let (halves, _) = request.data.as_chunks::<8>();
                    [*halves.first()?, *halves.get(1)?].map(u64::from_ne_bytes)
                }
                _ => return None,
            };
            let whole = |lower: u64, upper: u64| u128::from(lower) | u128::from(upper) << 64;
            let (compare, new) = (whole(request.a, upper[0]), whole(request.b, upper[1]));
            let aligned = size <= 8 && place.addr().is_multiple_of(size.max(1));
            let native = process.is_threaded() && aligned;
            // SAFETY: `place` has checked that the element lies in the window's memory. Other threads
            // change it under this lock or, in threaded processes, by the processor's atomics. `size`
            // was matched above.
            let old = unsafe { apply::compare_and_swap(place, compare, new, size, native) };
            let mut answer = self.memory_for(size);
            answer.extend_from_slice(&old.to_le_bytes()[..size]);
            Some(answer)
        });
        if found.is_none() {
            state.fail(by.0);
        }
        self.answer(process, state, by, request.tag, found.unwrap_or_default())
    }
}
