//! Accumulates (section 11.3.4): reductions into a target's memory, and compare-and-swap.

use crate::copied::deferred::Deferred;
use crate::copied::request_slot::SmallAccess;
use crate::locks::control::CHUNK;
use crate::messages::message::{self, Kind, Layout};
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};
use crate::window::buffers::{Completion, Origin, Target, same_length};
use crate::window::members::{Copied, Mapped, Messages, Route};
use crate::window::runs::{self, Run};
use crate::window::{AccessMode, Window};
use mpi_core::process::Process;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::{Op, PredefinedOp};

impl Window {
    /// Reduces data into a target's memory, and reads its old content if there is a `result`.
    ///
    /// Serves `MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op`, and those with requests.
    /// Without an `origin`, for `MPI_NO_OP`, only reads.
    ///
    /// # Errors
    /// The errors of [`Window::put`]; `MPI_ERR_OP` for an operation that accumulates don't have on
    /// this datatype, `MPI_ERR_TYPE` if the two sides' elements differ.
    ///
    /// # Safety
    /// The origin's buffer is readable, and not written to before the data has left it; the
    /// result's is writable, and not used before the call is complete.
    #[inline]
    pub unsafe fn accumulate(
        &self,
        process: &Process,
        origin: Option<Origin<'_>>,
        result: Option<Origin<'_>>,
        target: Target<'_>,
        op: &Op,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let reduction = Reduction::new(op, target.datatype)?;
        let origin = origin.filter(|_| reduction.op != PredefinedOp::NoOp);
        let begun = self.begin(process, &target, completion)?;
        if let Some(origin) = &origin {
            same_length(origin, &target)?;
        } else if reduction.op != PredefinedOp::NoOp {
            return Err(Error::new(
                Class::Op,
                "without data from the origin the operation must be MPI_NO_OP",
            ));
        }
        if let Some(result) = &result {
            same_length(result, &target)?;
        }
        // No elements: their types need not match.
        let Some(at) = begun else {
            return Ok(None);
        };
        for buffer in origin.iter().chain(&result) {
            same_elements(buffer, &reduction)?;
        }
        // SAFETY: the buffers stay valid by this function's contract; `begin` has checked that the
        // target's data is within its memory.
        unsafe {
            if let (Some(start), Some((skip, len))) =
                (self.here(target.rank), target.datatype.as_run(target.count))
                && self.mode == AccessMode::Mapped
            {
                // Fast path: one block of elements, and contiguous buffers.
                let place = start.wrapping_offset(at as isize + skip);
                let input = origin.map_or(Some(std::ptr::null_mut()), |origin| origin.contiguous());
                let output =
                    result.map_or(Some(std::ptr::null_mut()), |result| result.contiguous());
                if let (Some(input), Some(output)) = (input, output)
                    && reduction.is_native(place)
                {
                    let count = len / reduction.packed();
                    self.reduce_run(&reduction, target.rank, place, count, input, output)?;
                    return Ok(None);
                }
            }
            if let Some(domain) = self.domain() {
                let place = (&target, at);
                return self.accumulate_by_network(
                    process, domain, origin, result, place, &reduction, completion,
                );
            }
            if self.passive().is_some() {
                let place = (&target, at);
                self.accumulate_in_turn(process, origin, result, place, &reduction)?;
                return Ok(None);
            }
            if self.mode == AccessMode::Messages
                && let Some(request) = self.accumulate_word(
                    process,
                    &origin,
                    &result,
                    (&target, at),
                    &reduction,
                    completion,
                )?
            {
                return Ok(request);
            }
            if let (AccessMode::Mapped, Some(start)) = (self.mode, self.here(target.rank))
                && is_scattered(&target, &reduction)
            {
                let place = start.wrapping_offset(at as isize);
                return self
                    .reduce_scattered(&reduction, &target, place, origin, result)
                    .map(|()| None);
            }
            let runs = apply::runs(target.datatype, target.count, at, &reduction);
            if self.mode == AccessMode::Messages {
                let numbers = [reduction.op as u64, reduction.element as u64];
                let len = origin.map_or(0, |origin| origin.len());
                let service = self.service()?;
                let mut groups = Vec::new();
                let layout = match &*runs {
                    runs @ ([] | [_]) => Layout::Runs(runs),
                    runs => {
                        runs.iter().for_each(|run| runs::push(&mut groups, *run));
                        Layout::Groups(&groups)
                    }
                };
                let encode = |tag| {
                    let room = service.memory_for(layout.message_len(len));
                    message::encode(room, Kind::Accumulate, tag, numbers, layout, len, |out| {
                        if let Some(origin) = &origin {
                            origin.pack(out);
                        }
                    })
                };
                let to = (target.rank, service.lanes.accumulate());
                return match &result {
                    Some(result) => self.ask_for(process, to, result, completion, encode),
                    None => self.ask(process, to, encode(0), false).map(|()| None),
                };
            }
            let input = origin.as_ref().map(|origin| origin.packed());
            if self.mode == AccessMode::Copied
                && target.datatype.as_predefined().is_some()
                && reduction.packed() == reduction.extent()
                && !matches!(self.members.get(target.rank).route, Route::Mapped(_))
            {
                // Try to leave it to the target: deferred, or by its request slot.
                let what = SmallAccess::Accumulate(reduction.op, reduction.element as u8);
                let data = input.as_deref().unwrap_or(&[]);
                if let Some(output) = result.map_or(Some((std::ptr::null_mut(), 0)), |result| {
                    Some((result.contiguous()?, result.len()))
                }) {
                    let access = Deferred {
                        what,
                        at,
                        input: data,
                        output,
                    };
                    if self.offer(process, &target, access, completion)? {
                        return Ok(None);
                    }
                }
            }
            self.settle_before(process, target.rank)?;
            let input = input
                .as_ref()
                .map_or(std::ptr::null(), |data| data.as_ptr());
            match result.map(|result| (result, result.contiguous())) {
                None => self.reduce(
                    process,
                    &reduction,
                    target.rank,
                    &runs,
                    input,
                    std::ptr::null_mut(),
                )?,
                Some((_, Some(output))) => {
                    self.reduce(process, &reduction, target.rank, &runs, input, output)?;
                }
                Some((result, None)) => {
                    let mut data = vec![0; result.len()];
                    let output = data.as_mut_ptr();
                    self.reduce(process, &reduction, target.rank, &runs, input, output)?;
                    result.datatype.unpack(result.base, result.count, 0, &data);
                }
            }
        }
        Ok(None)
    }

    /// Reduces a block of elements in mapped memory that the processor can change atomically.
    ///
    /// Changes few elements one by one, and many by a kernel with the other members kept out (see
    /// [`crate::locks::control`]).
    ///
    /// # Safety
    /// That of [`Reduction::apply_atomic`]; others may change the elements in the same way.
    #[inline]
    unsafe fn reduce_run(
        &self,
        reduction: &Reduction,
        target: u32,
        place: *mut u8,
        count: usize,
        input: *const u8,
        output: *mut u8,
    ) -> Result<()> {
        let control = self.control()?;
        let (member, me) = (target as usize, self.rank() as usize);
        // Exclusive access costs a look at a word of each member.
        if count <= 8 + self.size() as usize / 2 {
            // SAFETY: the elements are native and buffers hold `count`, by this function's
            // contract; exclusive holders wait for `with_atomics` to end.
            control.with_atomics(member, me, || unsafe {
                reduction.apply_atomic(place, count, input, output);
            });
            return Ok(());
        }
        let piece = (CHUNK / reduction.packed()).max(1);
        let mut done = 0;
        while done < count {
            let now = piece.min(count - done);
            let skip = done * reduction.packed();
            let place = place.wrapping_add(skip);
            let (input, output) = (skipped(input, skip), skipped(output, skip).cast_mut());
            // SAFETY: the buffers hold `count` elements by this function's contract;
            // `with_exclusive` keeps every other member out.
            control.with_exclusive(member, || unsafe {
                reduction.apply_exclusive(place, now, input, output);
            });
            done += now;
            if done < count {
                control.give_way(member);
            }
        }
        Ok(())
    }

    /// Reduces elements that lie apart in mapped memory.
    ///
    /// Collects them, reduces them as one block and puts them back, with the other members kept
    /// out.
    ///
    /// # Safety
    /// That of [`Window::accumulate`]; the target's data is within its memory, and `place` is the
    /// address of its displacement.
    unsafe fn reduce_scattered(
        &self,
        reduction: &Reduction,
        target: &Target<'_>,
        place: *mut u8,
        origin: Option<Origin<'_>>,
        result: Option<Origin<'_>>,
    ) -> Result<()> {
        let (control, member) = (self.control()?, target.rank as usize);
        let size = reduction.packed();
        let (len, piece) = (target.len(), CHUNK / size * size);
        let mut elements = vec![0u8; piece.min(len)];
        // SAFETY: the origin's buffer is readable, by `accumulate`'s contract.
        let input = origin.as_ref().map(|origin| unsafe { origin.packed() });
        let input = input
            .as_ref()
            .map_or(std::ptr::null(), |data| data.as_ptr());
        let plain = result.map_or(Some(std::ptr::null_mut()), |result| result.contiguous());
        let mut before = vec![0u8; if plain.is_none() { len } else { 0 }];
        let output = plain.unwrap_or(before.as_mut_ptr());
        let mut done = 0;
        while done < len {
            let now = piece.min(len - done);
            let elements = &mut elements[..now];
            let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
            // SAFETY: buffers and target data have the same length (`accumulate` has checked it)
            // and the target's is within its memory; `with_exclusive` keeps other members out. Gaps
            // between the elements are not written to.
            control.with_exclusive(member, || unsafe {
                target.datatype.pack(place, target.count, done, elements);
                reduction.apply_exclusive(elements.as_mut_ptr(), now / size, input, output);
                if reduction.op != PredefinedOp::NoOp {
                    target.datatype.unpack(place, target.count, done, elements);
                }
            });
            done += now;
            if done < len {
                control.give_way(member);
            }
        }
        if let (Some(result), None) = (result, plain) {
            // SAFETY: the result's buffer is writable, by `accumulate`'s contract.
            unsafe {
                result
                    .datatype
                    .unpack(result.base, result.count, 0, &before)
            };
        }
        Ok(())
    }

    /// Reduces blocks of elements in memory of this node.
    ///
    /// # Safety
    /// `input` and `output` are NULL or packed data of all elements, and the blocks lie in the
    /// target's memory.
    unsafe fn reduce(
        &self,
        process: &Process,
        reduction: &Reduction,
        target: u32,
        runs: &[Run],
        input: *const u8,
        output: *mut u8,
    ) -> Result<()> {
        let member = target as usize;
        match self.members.get(target).route {
            Route::Mapped(Mapped(here)) if self.mode == AccessMode::Mapped => {
                // SAFETY: this function has the same contract; `here` is the target's memory.
                unsafe { self.reduce_mapped(reduction, target, here, runs, input, output) }
            }
            Route::Mapped(Mapped(here)) => {
                let mut done = 0;
                for &(at, count) in runs {
                    let place = here.wrapping_offset(at as isize);
                    let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
                    // SAFETY: `input` and `output` hold the elements by this function's contract;
                    // all accumulates in this mode hold the target's lock.
                    self.control()?.with_busy(member, || unsafe {
                        reduction.apply_exclusive(place, count, input, output);
                    });
                    done += count * reduction.packed();
                }
                Ok(())
            }
            Route::Copied(Copied(start)) => {
                let mut done = 0;
                for &(at, count) in runs {
                    let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
                    let address = start.wrapping_add(at as u64);
                    let len = count * reduction.extent();
                    let mut elements = vec![0u8; len];
                    let local = elements.as_mut_ptr();
                    // SAFETY: `input` and `output` hold the elements by this function's contract,
                    // `elements` has `len` bytes; all accumulates in this mode hold the target's
                    // lock.
                    self.control()?.with_busy(member, || unsafe {
                        self.copy_by_kernel(process, target, false, (local, len), address)?;
                        reduction.apply_exclusive(local, count, input, output);
                        match reduction.op {
                            PredefinedOp::NoOp => Ok(()),
                            _ => self.copy_by_kernel(process, target, true, (local, len), address),
                        }
                    })?;
                    done += count * reduction.packed();
                }
                Ok(())
            }
            Route::Network(_) | Route::Messages(_) => Err(Error::new(
                Class::Intern,
                "internal error: the target's memory is not on this node",
            )),
        }
    }

    /// Reduces blocks of elements in mapped memory.
    ///
    /// # Safety
    /// That of [`Window::reduce`]; `here` is the target's memory.
    unsafe fn reduce_mapped(
        &self,
        reduction: &Reduction,
        target: u32,
        here: *mut u8,
        runs: &[Run],
        input: *const u8,
        output: *mut u8,
    ) -> Result<()> {
        /// Blocks that are reduced before other members are let in.
        const BLOCKS_PER_HOLD: usize = 256;
        let control = self.control()?;
        let member = target as usize;
        let mut done = 0;
        for some in runs.chunks(BLOCKS_PER_HOLD) {
            let long = some.iter().any(|run| run.1 * reduction.extent() > CHUNK);
            if some.len() > 8 && !long {
                // Many short blocks: all by the kernel, native or not, with the other members kept
                // out.
                let mut skip = done;
                // SAFETY: `input` and `output` hold the elements by this function's contract;
                // `with_exclusive` keeps other members out.
                control.with_exclusive(member, || unsafe {
                    for &(at, count) in some {
                        let place = here.wrapping_offset(at as isize);
                        let (input, output) =
                            (skipped(input, skip), skipped(output, skip).cast_mut());
                        reduction.apply_exclusive(place, count, input, output);
                        skip += count * reduction.packed();
                    }
                });
                done = skip;
                control.give_way(member);
                continue;
            }
            for &(at, count) in some {
                let place = here.wrapping_offset(at as isize);
                let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
                // SAFETY: `input` and `output` hold the elements by this function's contract.
                // Elements that the processor can't change atomically are changed only under the
                // target's lock.
                unsafe {
                    if reduction.is_native(place) {
                        self.reduce_run(reduction, target, place, count, input, output)?;
                    } else {
                        control.with_busy(member, || {
                            reduction.apply_exclusive(place, count, input, output);
                        });
                    }
                }
                done += count * reduction.packed();
            }
        }
        Ok(())
    }

    /// Replaces the target's element by `new` if it equals `compare`, and writes its old value to
    /// `result` (`MPI_Compare_and_swap`).
    ///
    /// # Errors
    /// The errors of [`Window::put`].
    ///
    /// # Safety
    /// The buffers hold one element of the target's datatype, which is an integer, a logical or a
    /// byte; `result` is not used before the call is complete.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        process: &Process,
        new: *const u8,
        compare: *const u8,
        result: *mut u8,
        target: Target<'_>,
    ) -> Result<()> {
        let Some(at) = self.begin(process, &target, Completion::Blocking)? else {
            return Ok(());
        };
        let size = target.datatype.size();
        if size > LONGEST_COMPARED {
            return Err(Error::new(
                Class::Type,
                format!(
                    "elements of {size} bytes can't be compared and swapped; use elements of up to \
                     {LONGEST_COMPARED} bytes"
                ),
            ));
        }
        let word = |from: *const u8| {
            let mut bytes = [0; LONGEST_COMPARED];
            // SAFETY: the buffers hold an element by this function's contract, and `size` is at
            // most `LONGEST_COMPARED`.
            unsafe { netmod_kit::copy(from, bytes.as_mut_ptr(), size) };
            u128::from_le_bytes(bytes)
        };
        let (new, compare) = (word(new), word(compare));
        let (rank, me) = (target.rank as usize, self.rank() as usize);
        let route = match self.mode {
            // One domain of atomicity: by messages within a node too.
            AccessMode::Messages => Route::Messages(Messages),
            _ => self.members.get(target.rank).route,
        };
        // SAFETY: the buffers hold an element by this function's contract; the target's is within
        // its memory (`begin`), and changed either by the processor's atomic operations only, or
        // under the target's lock only.
        unsafe {
            let found = match route {
                Route::Mapped(Mapped(here)) => {
                    let place = here.wrapping_offset(at as isize);
                    let control = self.control()?;
                    if self.mode == AccessMode::Mapped
                        && size <= 8
                        && place.addr() & (size - 1) == 0
                    {
                        control.with_atomics(rank, me, || {
                            apply::compare_and_swap(place, compare, new, size, true)
                        })
                    } else {
                        control.with_busy(rank, || {
                            apply::compare_and_swap(place, compare, new, size, false)
                        })
                    }
                }
                Route::Copied(Copied(start)) => {
                    let mut both = [0u8; 2 * LONGEST_COMPARED];
                    both[..LONGEST_COMPARED].copy_from_slice(&compare.to_le_bytes());
                    both[LONGEST_COMPARED..].copy_from_slice(&new.to_le_bytes());
                    let access = Deferred {
                        what: SmallAccess::CompareAndSwap,
                        at,
                        input: &both,
                        output: (result, size),
                    };
                    if self.offer(process, &target, access, Completion::Blocking)? {
                        return Ok(());
                    }
                    let address = start.wrapping_add(at as u64);
                    let mut bytes = [0u8; LONGEST_COMPARED];
                    let local = bytes.as_mut_ptr();
                    let rank = target.rank;
                    self.control()?.with_busy(rank as usize, || {
                        self.copy_by_kernel(process, rank, false, (local, size), address)?;
                        let found = u128::from_le_bytes(bytes);
                        if found == compare {
                            let mut bytes = new.to_le_bytes();
                            let local = bytes.as_mut_ptr();
                            self.copy_by_kernel(process, rank, true, (local, size), address)?;
                        }
                        Ok::<_, Error>(found)
                    })?
                }
                Route::Network(_) | Route::Messages(_) => {
                    let result = Origin {
                        base: result,
                        count: 1,
                        datatype: target.datatype,
                    };
                    let lower = [compare as u64, new as u64];
                    if let Some(domain) = self.domain() {
                        let (words, place) = (lower, (&target, at));
                        return self.swap_by_network(process, domain, words, result, place);
                    }
                    if self.passive().is_some() {
                        let (words, place) = ([compare, new], (target.rank, at, size));
                        let found = self.compare_and_swap_in_turn(process, words, place)?;
                        let base = result.base;
                        netmod_kit::copy(found.to_le_bytes().as_ptr(), base, size);
                        return Ok(());
                    }
                    if let Some(done) = self.swap_word(process, lower, result, (&target, at))? {
                        return Ok(done);
                    }
                    let upper = [compare, new].map(|word| (word >> 64) as u64);
                    let upper: &[u64] = if size > 8 { &upper } else { &[] };
                    let runs = [(at, size)];
                    let service = self.service()?;
                    let to = (target.rank, service.lanes.accumulate());
                    return self
                        .ask_for(process, to, &result, Completion::Blocking, |tag| {
                            let layout = Layout::Runs(&runs);
                            let kind = Kind::CompareAndSwap;
                            service.message_with_words(kind, tag, lower, layout, upper)
                        })
                        .map(drop);
                }
            };
            netmod_kit::copy(found.to_le_bytes().as_ptr(), result, size);
        }
        Ok(())
    }
}

/// Whether the target has many elements in short blocks.
fn is_scattered(target: &Target<'_>, reduction: &Reduction) -> bool {
    /// Elements up to which each is changed atomically, with no member kept out.
    const MAX_ONE_BY_ONE: usize = 8;
    /// Bytes. Longer blocks are reduced in place.
    const MAX_SHORT: usize = 512;
    let size = reduction.packed();
    let null = std::ptr::null_mut();
    size == reduction.extent()
        && target.len() > MAX_ONE_BY_ONE * size
        && target.datatype.as_run(target.count).is_none()
        && target
            .datatype
            .pieces(null, target.count, 0, 1)
            .next()
            .is_some_and(|(_, len)| len <= MAX_SHORT)
}

/// Returns the address `done` bytes behind `start`, or NULL if that is NULL.
fn skipped(start: *const u8, done: usize) -> *const u8 {
    match start.is_null() {
        true => start,
        false => start.wrapping_add(done),
    }
}

fn same_elements(origin: &Origin<'_>, reduction: &Reduction) -> Result<()> {
    match origin.datatype.element() {
        Some(element) if element.kind() == reduction.element.kind() => Ok(()),
        _ => Err(Error::new(
            Class::Type,
            format!(
                "the target's elements are {}, but the origin's are not; use the same predefined \
                 datatype on both sides",
                reduction.element.name()
            ),
        )),
    }
}
