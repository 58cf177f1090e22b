//! Communication calls (section 11.3): what moves between an origin's buffers and a target's memory.

use std::borrow::Cow;

use super::apply::{self, Reduction};
use super::control::CHUNK;
use super::mail::{self, What};
use super::members::{Member, Reach};
use super::message::{self, Kind};
use super::{Flavor, Way, Window};
use mpi_core::comm::single_copy;
use mpi_core::process::Process;
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::datatype::Datatype;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::{Op, PredefinedOp};

/// A buffer of the origin's.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    /// Its address.
    pub base: *mut u8,
    /// How many elements.
    pub count: usize,
    /// Of what.
    pub datatype: &'a Datatype,
}

impl Origin<'_> {
    pub(super) fn len(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// # Safety
    /// As for [`Buffer::typed`].
    pub(super) unsafe fn buffer(&self) -> Buffer {
        // SAFETY: the caller's promise.
        unsafe { Buffer::typed(self.base, self.count, self.datatype) }
    }

    /// The data if it is gapless.
    #[inline(always)]
    pub(super) fn plain(&self) -> Option<*mut u8> {
        let gapless = self.datatype.is_contiguous();
        gapless.then(|| self.base.wrapping_offset(self.datatype.true_lb()))
    }

    /// # Safety
    /// The buffer is readable, and `out` as long as its data.
    pub(super) unsafe fn pack(&self, out: &mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.datatype.pack(self.base, self.count, 0, out) }
    }

    /// The data in one piece.
    ///
    /// # Safety
    /// The buffer is readable.
    unsafe fn packed(&self) -> Cow<'_, [u8]> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.plain() {
                _ if self.len() == 0 => Cow::Borrowed(&[]),
                Some(data) => Cow::Borrowed(std::slice::from_raw_parts(data, self.len())),
                None => {
                    let mut data = vec![0; self.len()];
                    self.pack(&mut data);
                    Cow::Owned(data)
                }
            }
        }
    }
}

/// A place in a target's memory.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The target.
    pub rank: u32,
    /// In its units.
    pub displacement: isize,
    /// How many elements.
    pub count: usize,
    /// Of what.
    pub datatype: &'a Datatype,
}

impl Target<'_> {
    pub(super) fn len(&self) -> usize {
        self.count * self.datatype.size()
    }
}

/// Whether a call gives a request. Without one, and where it is complete when it returns, it is
/// `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// It doesn't.
    Plain,
    /// It does (`MPI_Rput` and its like), in passive target epochs only.
    Request,
}

impl Window {
    /// Checks a call and finds the place that it is about, in bytes from the beginning of the
    /// target's memory. `None`: nothing is to be moved.
    #[inline]
    fn begin(&self, process: &Process, target: &Target<'_>, form: Form) -> Result<Option<i64>> {
        if form == Form::Request {
            self.epochs.check_passive(target.rank as usize)?;
            // What is done at once ends without a wait, and without a flush.
            self.let_others(process)?;
        }
        self.enter(process, target.rank)?;
        if target.len() == 0 {
            return Ok(None);
        }
        let member = self.members.get(target.rank);
        let datatype = target.datatype;
        let at = (target.displacement as i64).checked_mul(member.unit);
        let at = at.ok_or_else(|| self.beyond(target))?;
        let more = (target.count as i64 - 1).saturating_mul(datatype.extent() as i64);
        let low = at.saturating_add(datatype.true_lb() as i64);
        let high = low.saturating_add(datatype.true_extent() as i64);
        let (low, high) = (
            low.saturating_add(more.min(0)),
            high.saturating_add(more.max(0)),
        );
        let within = match self.flavor {
            // Others' memory is checked by those who reach it: the target, or the kernel.
            Flavor::Dynamic => self.here(target.rank).is_none() || self.has_attached(low, high),
            _ => low >= 0 && high as u64 <= member.size,
        };
        if within {
            Ok(Some(at))
        } else {
            Err(self.beyond(target))
        }
    }

    #[cold]
    fn beyond(&self, target: &Target<'_>) -> Error {
        if self.flavor == Flavor::Dynamic {
            return Error::new(
                Class::RmaRange,
                format!(
                    "{} elements of {} bytes at address {:#x} of rank {} are not all attached \
                     there; call MPI_Win_attach, and get addresses by MPI_Get_address",
                    target.count,
                    target.datatype.size(),
                    target.displacement,
                    target.rank
                ),
            );
        }
        let member: Member = self.members.get(target.rank);
        Error::new(
            Class::RmaRange,
            format!(
                "{} elements of {} bytes at displacement {} (in units of {} bytes) are not all \
                 within the window of rank {}, which has {} bytes",
                target.count,
                target.datatype.size(),
                target.displacement,
                member.unit,
                target.rank,
                member.size
            ),
        )
    }

    /// Where a target's memory is, if this process reaches it by plain stores and loads: its
    /// beginning, or the address 0 of a dynamic window's.
    #[inline(always)]
    pub(super) fn here(&self, rank: u32) -> Option<*mut u8> {
        match self.members.get(rank).reach {
            Reach::Here(here) => Some(here),
            _ => None,
        }
    }

    /// Runs of bytes of the target's data.
    fn runs(&self, target: &Target<'_>, at: i64) -> Vec<(i64, usize)> {
        let pieces = target
            .datatype
            .pieces(std::ptr::null_mut(), target.count, 0, usize::MAX);
        pieces
            .map(|(piece, len)| (at.wrapping_add(piece.addr() as i64), len))
            .collect()
    }

    /// Moves packed data between `data` and the target's memory by the kernel.
    ///
    /// # Safety
    /// `data` is as long as the target's data.
    unsafe fn copy_runs(
        &self,
        process: &Process,
        target: &Target<'_>,
        (start, at): (u64, i64),
        write: bool,
        data: *mut u8,
    ) -> Result<()> {
        let mut done = 0;
        for (at, len) in self.runs(target, at) {
            let address = start.wrapping_add(at as u64);
            // SAFETY: the caller's promise; the member's memory is the window's.
            unsafe {
                let local = data.wrapping_add(done);
                single_copy::copy(process, &self.comm, target.rank, write, local, len, address)?;
            }
            done += len;
        }
        Ok(())
    }

    /// Asks an attentive target of this node for a small access to one run of its memory.
    fn mail(
        &self,
        target: &Target<'_>,
        what: What,
        at: i64,
        input: &[u8],
        output: &mut [u8],
    ) -> bool {
        let (Way::Copied, Flavor::Created(_), Some(control)) =
            (self.way, self.flavor, &self.control)
        else {
            return false;
        };
        let Some((skip, len)) = target.datatype.as_run(target.count) else {
            return false;
        };
        if len > mail::ROOM {
            return false;
        }
        let count = match what {
            What::Accumulate(..) => target.count,
            _ => len,
        };
        let place = ((at + skip as i64) as u64, count);
        mail::ask(
            control,
            &self.luck,
            target.rank as usize,
            what,
            place,
            input,
            output,
        )
    }

    /// Asks a target for something by a lane. Unless that is `answered`, the target must be flushed.
    fn ask(
        &self,
        process: &Process,
        (target, number): (u32, usize),
        message: Vec<u8>,
        answered: bool,
    ) -> Result<()> {
        /// So many messages may wait for room before their origin waits too.
        const MANY: usize = 256;
        let service = self.service()?;
        let lane = service.lanes.get(number);
        if lane.origin.lock().sends() > MANY {
            // Messages to lost processes end.
            process.wait_despite_loss(lane.vci, || {
                Ok((lane.origin.lock().sends() <= MANY / 2).then_some(()))
            })?;
        }
        service.ask(process, (target, number), message)?;
        // Noted when it has been sent: a flush by another thread that took the note before would not
        // be behind it. An answer tells that all before is done too. Only failures on dynamic
        // windows, whose memory the origin doesn't know, are told of by a flush.
        if !answered || self.flavor == Flavor::Dynamic {
            match number {
                0 => self.epochs.soil(target),
                _ => lane.soil(target),
            }
        }
        Ok(())
    }

    /// Asks a target for data that goes to `result`.
    ///
    /// # Safety
    /// `result` is writable until the next flush or, if there is one, the end of the request.
    unsafe fn ask_for(
        &self,
        process: &Process,
        to: (u32, usize),
        result: &Origin<'_>,
        form: Form,
        message: impl FnOnce(i32) -> Vec<u8>,
    ) -> Result<Option<RequestId>> {
        let service = self.service()?;
        let lane = service.lanes.get(to.1);
        let tag = lane.tag();
        let outer = match form {
            Form::Plain => None,
            Form::Request => Some(process.start_outside(lane.vci, self.comm.owner())?),
        };
        // SAFETY: the caller's promise.
        let buffer = unsafe { result.buffer() };
        let id = service.expect(process, to, tag, buffer)?;
        service.fetch(to, id, outer);
        self.ask(process, to, message(tag), true)?;
        Ok(outer)
    }

    /// Writes to a target's memory (`MPI_Put`, `MPI_Rput`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` outside an epoch, `MPI_ERR_RMA_RANGE` beyond the target's memory,
    /// `MPI_ERR_TRUNCATE` where the two sides' data differ in length.
    ///
    /// # Safety
    /// The origin's buffer is readable, and not written to before the data has left it.
    #[inline]
    pub unsafe fn put(
        &self,
        process: &Process,
        origin: Origin<'_>,
        target: Target<'_>,
        form: Form,
    ) -> Result<Option<RequestId>> {
        let Some(at) = self.begin(process, &target, form)? else {
            return same_length(&origin, &target).map(|()| None);
        };
        same_length(&origin, &target)?;
        // SAFETY: the caller's promise for the origin; the target's data is within its memory.
        unsafe {
            if let Some(start) = self.here(target.rank) {
                let place = start.wrapping_offset(at as isize);
                match (origin.plain(), target.datatype.as_run(target.count)) {
                    // The two may be the same memory, or overlap.
                    (Some(data), Some((skip, len))) => {
                        std::ptr::copy(data, place.wrapping_offset(skip), len);
                    }
                    _ => {
                        let mut data = vec![0; origin.len()];
                        origin.pack(&mut data);
                        target.datatype.unpack(place, target.count, 0, &data);
                    }
                }
            } else if let Reach::There(start) = self.members.get(target.rank).reach {
                let data = origin.packed();
                if self.mail(&target, What::Put, at, &data, &mut []) {
                    return Ok(None);
                }
                let data = data.as_ptr().cast_mut();
                self.copy_runs(process, &target, (start, at), true, data)?;
            } else if let Some(request) =
                self.move_natively(process, &origin, &target, at, true, form)?
            {
                return Ok(request);
            } else {
                let runs = self.runs(&target, at);
                let message = message::encode(Kind::Put, 0, [0; 2], &runs, origin.len(), |out| {
                    origin.pack(out)
                });
                let to = (target.rank, self.service()?.lanes.any());
                self.ask(process, to, message, false)?;
            }
        }
        Ok(None)
    }

    /// Reads from a target's memory (`MPI_Get`, `MPI_Rget`).
    ///
    /// # Errors
    /// As for [`Window::put`].
    ///
    /// # Safety
    /// The origin's buffer is writable, and not used before the call is complete.
    #[inline]
    pub unsafe fn get(
        &self,
        process: &Process,
        origin: Origin<'_>,
        target: Target<'_>,
        form: Form,
    ) -> Result<Option<RequestId>> {
        let Some(at) = self.begin(process, &target, form)? else {
            return same_length(&origin, &target).map(|()| None);
        };
        same_length(&origin, &target)?;
        // SAFETY: the caller's promise for the origin; the target's data is within its memory.
        unsafe {
            if let Some(start) = self.here(target.rank) {
                let place = start.wrapping_offset(at as isize);
                match (origin.plain(), target.datatype.as_run(target.count)) {
                    (Some(data), Some((skip, len))) => {
                        std::ptr::copy(place.wrapping_offset(skip), data, len);
                    }
                    _ => {
                        let mut data = vec![0; origin.len()];
                        target.datatype.pack(place, target.count, 0, &mut data);
                        origin.datatype.unpack(origin.base, origin.count, 0, &data);
                    }
                }
            } else if let Reach::There(start) = self.members.get(target.rank).reach {
                match origin.plain() {
                    Some(data) => {
                        let len = origin.len();
                        if len <= mail::ROOM {
                            let data = std::slice::from_raw_parts_mut(data, len);
                            if self.mail(&target, What::Get, at, &[], data) {
                                return Ok(None);
                            }
                        }
                        self.copy_runs(process, &target, (start, at), false, data)?;
                    }
                    None => {
                        let mut data = vec![0; origin.len()];
                        self.copy_runs(process, &target, (start, at), false, data.as_mut_ptr())?;
                        origin.datatype.unpack(origin.base, origin.count, 0, &data);
                    }
                }
            } else if let Some(request) =
                self.move_natively(process, &origin, &target, at, false, form)?
            {
                return Ok(request);
            } else {
                let runs = self.runs(&target, at);
                let to = (target.rank, self.service()?.lanes.any());
                return self.ask_for(process, to, &origin, form, |tag| {
                    message::encode(Kind::Get, tag, [0; 2], &runs, 0, |_| {})
                });
            }
        }
        Ok(None)
    }

    /// Reduces data into a target's memory, and reads what was there if there is a `result`
    /// (`MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op`, and with requests). Without an
    /// `origin`, for `MPI_NO_OP`, only reads.
    ///
    /// # Errors
    /// As for [`Window::put`]; `MPI_ERR_OP` for an operation that isn't for accumulates on this
    /// datatype, `MPI_ERR_TYPE` where the two sides' elements differ.
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
        form: Form,
    ) -> Result<Option<RequestId>> {
        let reduction = Reduction::new(op, target.datatype)?;
        let origin = origin.filter(|_| reduction.op != PredefinedOp::NoOp);
        let begun = self.begin(process, &target, form)?;
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
        // No elements are of any type.
        let Some(at) = begun else {
            return Ok(None);
        };
        for buffer in origin.iter().chain(&result) {
            same_elements(buffer, &reduction)?;
        }
        // SAFETY: the caller's promise for the buffers; the target's data is within its memory.
        unsafe {
            if let (Some(start), Some((skip, len))) =
                (self.here(target.rank), target.datatype.as_run(target.count))
                && self.way == Way::Mapped
            {
                // The short way: one run of elements, and plain buffers.
                let place = start.wrapping_offset(at as isize + skip);
                let input = origin.map_or(Some(std::ptr::null_mut()), |origin| origin.plain());
                let output = result.map_or(Some(std::ptr::null_mut()), |result| result.plain());
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
                    process, domain, origin, result, place, &reduction, form,
                );
            }
            let runs = apply::runs(target.datatype, target.count, at, &reduction);
            if self.way == Way::Messages {
                let numbers = [reduction.op as u64, reduction.element as u64];
                let len = origin.map_or(0, |origin| origin.len());
                let encode = |tag| {
                    message::encode(Kind::Accumulate, tag, numbers, &runs, len, |out| {
                        if let Some(origin) = &origin {
                            origin.pack(out);
                        }
                    })
                };
                let to = (target.rank, self.service()?.lanes.accumulate());
                return match &result {
                    Some(result) => self.ask_for(process, to, result, form, encode),
                    None => self.ask(process, to, encode(0), false).map(|()| None),
                };
            }
            let input = origin.as_ref().map(|origin| origin.packed());
            if self.way == Way::Copied
                && target.datatype.as_predefined().is_some()
                && reduction.packed() == reduction.extent()
                && !matches!(self.members.get(target.rank).reach, Reach::Here(_))
            {
                // Small enough to be asked for.
                let what = What::Accumulate(reduction.op, reduction.element as u8);
                let data = input.as_deref().unwrap_or(&[]);
                let output = match &result {
                    None => Some(&mut [][..]),
                    Some(result) if result.len() <= mail::ROOM => result
                        .plain()
                        .map(|plain| std::slice::from_raw_parts_mut(plain, result.len())),
                    Some(_) => None,
                };
                if let Some(output) = output
                    && self.mail(&target, what, at, data, output)
                {
                    return Ok(None);
                }
            }
            let input = input
                .as_ref()
                .map_or(std::ptr::null(), |data| data.as_ptr());
            match result.map(|result| (result, result.plain())) {
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

    /// Reduces a run of elements that the processor can change one by one, in mapped memory: few of
    /// them so, many by a kernel (see [`super::control`]).
    ///
    /// # Safety
    /// As for [`Reduction::atomically`] and [`Reduction::plainly`], but that others may change the
    /// elements in the same way.
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
        // Who wants the memory alone looks at a word of each member.
        if count <= 8 + self.size() as usize / 2 {
            // SAFETY: the caller's promise.
            control.acting(member, me, || unsafe {
                reduction.atomically(place, count, input, output);
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
            // SAFETY: the caller's promise; all others are kept away meanwhile.
            control.all_alone(member, || unsafe {
                reduction.plainly(place, now, input, output);
            });
            done += now;
            if done < count {
                control.give_way(member);
            }
        }
        Ok(())
    }

    /// Reduces runs of elements in memory of this node.
    ///
    /// # Safety
    /// `input` and `output` are NULL or packed data of all elements, which are the target's.
    unsafe fn reduce(
        &self,
        process: &Process,
        reduction: &Reduction,
        target: u32,
        runs: &[apply::Run],
        input: *const u8,
        output: *mut u8,
    ) -> Result<()> {
        let member = target as usize;
        match self.members.get(target).reach {
            Reach::Here(here) if self.way == Way::Mapped => {
                // SAFETY: the caller's promise.
                unsafe { self.reduce_mapped(reduction, target, here, runs, input, output) }
            }
            Reach::Here(here) => {
                let mut done = 0;
                for &(at, count) in runs {
                    let place = here.wrapping_offset(at as isize);
                    let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
                    // SAFETY: the caller's promise; under the target's lock, as by all others.
                    self.control()?.alone(member, || unsafe {
                        reduction.plainly(place, count, input, output);
                    });
                    done += count * reduction.packed();
                }
                Ok(())
            }
            Reach::There(start) => {
                let mut done = 0;
                for &(at, count) in runs {
                    let (input, output) = (skipped(input, done), skipped(output, done).cast_mut());
                    let address = start.wrapping_add(at as u64);
                    let len = count * reduction.extent();
                    let mut elements = vec![0u8; len];
                    let local = elements.as_mut_ptr();
                    let comm = &self.comm;
                    // SAFETY: the caller's promise; under the target's lock, as by all others.
                    self.control()?.alone(member, || unsafe {
                        single_copy::copy(process, comm, target, false, local, len, address)?;
                        reduction.plainly(local, count, input, output);
                        match reduction.op {
                            PredefinedOp::NoOp => Ok(()),
                            _ => {
                                single_copy::copy(process, comm, target, true, local, len, address)
                            }
                        }
                    })?;
                    done += count * reduction.packed();
                }
                Ok(())
            }
            Reach::Messages => Err(Error::new(Class::Intern, "the memory is not of this node")),
        }
    }

    /// [`Window::reduce`] in mapped memory.
    ///
    /// # Safety
    /// As for that.
    unsafe fn reduce_mapped(
        &self,
        reduction: &Reduction,
        target: u32,
        here: *mut u8,
        runs: &[apply::Run],
        input: *const u8,
        output: *mut u8,
    ) -> Result<()> {
        /// So many runs are reduced before others are let in.
        const RUNS: usize = 256;
        let control = self.control()?;
        let member = target as usize;
        let mut done = 0;
        for some in runs.chunks(RUNS) {
            let long = some.iter().any(|run| run.1 * reduction.extent() > CHUNK);
            if some.len() > 8 && !long {
                // Many short ones: all by the kernel, native or not, with everybody kept away.
                let mut skip = done;
                // SAFETY: the caller's promise.
                control.all_alone(member, || unsafe {
                    for &(at, count) in some {
                        let place = here.wrapping_offset(at as isize);
                        let (input, output) =
                            (skipped(input, skip), skipped(output, skip).cast_mut());
                        reduction.plainly(place, count, input, output);
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
                // SAFETY: the caller's promise. What the processor can't do at once is done under
                // the target's lock, by all.
                unsafe {
                    if reduction.is_native(place) {
                        self.reduce_run(reduction, target, place, count, input, output)?;
                    } else {
                        control.alone(member, || {
                            reduction.plainly(place, count, input, output);
                        });
                    }
                }
                done += count * reduction.packed();
            }
        }
        Ok(())
    }

    /// Compares the target's element with `compare`, replaces it by `new` if they are equal, and
    /// writes to `result` what was there (`MPI_Compare_and_swap`).
    ///
    /// # Errors
    /// As for [`Window::put`].
    ///
    /// # Safety
    /// The buffers hold one element of the target's datatype, which has a size of up to 8 bytes;
    /// `result` is not used before the call is complete.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        process: &Process,
        new: *const u8,
        compare: *const u8,
        result: *mut u8,
        target: Target<'_>,
    ) -> Result<()> {
        let Some(at) = self.begin(process, &target, Form::Plain)? else {
            return Ok(());
        };
        let size = target.datatype.size();
        let word = |from: *const u8| {
            let mut bytes = [0; 8];
            // SAFETY: the caller's promise.
            unsafe { netmod_kit::copy(from, bytes.as_mut_ptr(), size.min(8)) };
            u64::from_le_bytes(bytes)
        };
        let (new, compare) = (word(new), word(compare));
        let (rank, me) = (target.rank as usize, self.rank() as usize);
        let reach = match self.way {
            // One domain of atomicity, also for those of one node.
            Way::Messages => Reach::Messages,
            _ => self.members.get(target.rank).reach,
        };
        // SAFETY: the caller's promise; the element is within the target's memory, and is changed
        // by the processor's atomic operations only, or under the target's lock only.
        unsafe {
            let found = match reach {
                Reach::Here(here) => {
                    let place = here.wrapping_offset(at as isize);
                    let control = self.control()?;
                    if self.way == Way::Mapped && place.addr() & (size - 1) == 0 {
                        control.acting(rank, me, || {
                            apply::compare_and_swap(place, compare, new, size, true)
                        })
                    } else {
                        control.alone(rank, || {
                            apply::compare_and_swap(place, compare, new, size, false)
                        })
                    }
                }
                Reach::There(start) => {
                    let mut both = [0u8; 16];
                    both[..8].copy_from_slice(&compare.to_le_bytes());
                    both[8..].copy_from_slice(&new.to_le_bytes());
                    let mut found = [0u8; 8];
                    if self.mail(&target, What::CompareAndSwap, at, &both, &mut found) {
                        netmod_kit::copy(found.as_ptr(), result, size.min(8));
                        return Ok(());
                    }
                    let address = start.wrapping_add(at as u64);
                    let mut bytes = [0u8; 8];
                    let local = bytes.as_mut_ptr();
                    let (comm, rank) = (&self.comm, target.rank);
                    self.control()?.alone(rank as usize, || {
                        single_copy::copy(process, comm, rank, false, local, size, address)?;
                        let found = u64::from_le_bytes(bytes);
                        if found == compare {
                            let mut bytes = new.to_le_bytes();
                            let local = bytes.as_mut_ptr();
                            single_copy::copy(process, comm, rank, true, local, size, address)?;
                        }
                        Ok::<_, Error>(found)
                    })?
                }
                Reach::Messages => {
                    let result = Origin {
                        base: result,
                        count: 1,
                        datatype: target.datatype,
                    };
                    if let Some(domain) = self.domain() {
                        let (words, place) = ([compare, new], (&target, at));
                        return self.swap_by_network(process, domain, words, result, place);
                    }
                    let runs = [(at, size)];
                    let to = (target.rank, self.service()?.lanes.accumulate());
                    return self
                        .ask_for(process, to, &result, Form::Plain, |tag| {
                            let words = [compare, new];
                            message::encode(Kind::CompareAndSwap, tag, words, &runs, 0, |_| {})
                        })
                        .map(drop);
                }
            };
            netmod_kit::copy(found.to_le_bytes().as_ptr(), result, size.min(8));
        }
        Ok(())
    }
}

/// `done` bytes behind `start`, unless that is NULL.
fn skipped(start: *const u8, done: usize) -> *const u8 {
    match start.is_null() {
        true => start,
        false => start.wrapping_add(done),
    }
}

#[inline(always)]
fn same_length(origin: &Origin<'_>, target: &Target<'_>) -> Result<()> {
    if origin.len() == target.len() {
        return Ok(());
    }
    Err(different(origin.len(), target.len()))
}

#[cold]
fn different(origin: usize, target: usize) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "the origin's buffer has {origin} bytes of data and the target's {target}; counts and \
             datatypes must describe the same data"
        ),
    )
}

fn same_elements(origin: &Origin<'_>, reduction: &Reduction) -> Result<()> {
    match origin.datatype.element() {
        Some(element) if element.kind() == reduction.element.kind() => Ok(()),
        _ => Err(Error::new(
            Class::Type,
            format!(
                "the target's elements are {}, but the origin's are not",
                reduction.element.name()
            ),
        )),
    }
}
