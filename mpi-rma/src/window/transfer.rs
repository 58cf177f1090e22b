//! Put and get (sections 11.3.1 and 11.3.2), with and without requests.

use crate::copied::deferred::Deferred;
use crate::copied::request_slot::{self, SmallAccess};
use crate::messages::message::{self, Kind, Layout};
use crate::window::Window;
use crate::window::buffers::{Completion, Origin, Target, same_length};
use crate::window::members::Reach;
use mpi_core::process::Process;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

impl Window {
    /// Writes to a target's memory (`MPI_Put`, `MPI_Rput`).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` outside an epoch, `MPI_ERR_RMA_RANGE` beyond the target's memory,
    /// `MPI_ERR_TRUNCATE` if the two sides' data differ in length.
    ///
    /// # Safety
    /// The origin's buffer is readable, and not written to before the data has left it.
    #[inline]
    pub unsafe fn put(
        &self,
        process: &Process,
        origin: Origin<'_>,
        target: Target<'_>,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let Some(at) = self.begin(process, &target, completion)? else {
            return same_length(&origin, &target).map(|()| None);
        };
        same_length(&origin, &target)?;
        // SAFETY: the origin's buffer is readable by this function's contract; `begin` has checked
        // that the target's data is within its memory.
        unsafe {
            if let Some(start) = self.here(target.rank) {
                let place = start.wrapping_offset(at as isize);
                match (origin.contiguous(), target.datatype.as_run(target.count)) {
                    // The two may overlap.
                    (Some(data), Some((skip, len))) => {
                        netmod_kit::copy_overlapping(data, place.wrapping_offset(skip), len);
                    }
                    // This process's memory may contain the buffer.
                    (Some(data), None) if target.rank != self.rank() => {
                        let data = std::slice::from_raw_parts(data, origin.len());
                        target.datatype.unpack(place, target.count, 0, data);
                    }
                    _ => {
                        let mut data = vec![0; origin.len()];
                        origin.pack(&mut data);
                        target.datatype.unpack(place, target.count, 0, &data);
                    }
                }
            } else if let Reach::There(start) = self.members.get(target.rank).reach {
                let data = origin.packed();
                let access = Deferred {
                    what: SmallAccess::Put,
                    at,
                    input: &data,
                    output: (std::ptr::null_mut(), 0),
                };
                if self.defer(process, &target, access, completion)?
                    || self.ask_by_slot(process, &target, SmallAccess::Put, at, &data, &mut [])
                {
                    return Ok(None);
                }
                let data = data.as_ptr().cast_mut();
                self.copy_runs(process, &target, (start, at), true, data)?;
            } else if let Some(request) =
                self.move_natively(process, &origin, &target, at, true, completion)?
            {
                return Ok(request);
            } else {
                let Some((skip, len)) = target.datatype.as_run(target.count) else {
                    self.put_in_pieces(process, &origin, &target, at)?;
                    return Ok(None);
                };
                let service = self.service()?;
                let run = [(at.wrapping_add(skip as i64), len)];
                let layout = Layout::Runs(&run);
                let room = service.memory_for(layout.message_len(len));
                let fill = |out: &mut [u8]| origin.pack(out);
                let message = message::encode(room, Kind::Put, 0, [0; 2], layout, len, fill);
                let to = (target.rank, service.lanes.any());
                self.ask(process, to, message, false)?;
            }
        }
        Ok(None)
    }

    /// Reads from a target's memory (`MPI_Get`, `MPI_Rget`).
    ///
    /// # Errors
    /// The errors of [`Window::put`].
    ///
    /// # Safety
    /// The origin's buffer is writable, and not used before the call is complete.
    #[inline]
    pub unsafe fn get(
        &self,
        process: &Process,
        origin: Origin<'_>,
        target: Target<'_>,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let Some(at) = self.begin(process, &target, completion)? else {
            return same_length(&origin, &target).map(|()| None);
        };
        same_length(&origin, &target)?;
        // SAFETY: the origin's buffer is writable by this function's contract; `begin` has checked
        // that the target's data is within its memory.
        unsafe {
            if let Some(start) = self.here(target.rank) {
                let place = start.wrapping_offset(at as isize);
                match (origin.contiguous(), target.datatype.as_run(target.count)) {
                    (Some(data), Some((skip, len))) => {
                        netmod_kit::copy_overlapping(place.wrapping_offset(skip), data, len);
                    }
                    (Some(data), None) if target.rank != self.rank() => {
                        let data = std::slice::from_raw_parts_mut(data, origin.len());
                        target.datatype.pack(place, target.count, 0, data);
                    }
                    _ => {
                        let mut data = vec![0; origin.len()];
                        target.datatype.pack(place, target.count, 0, &mut data);
                        origin.datatype.unpack(origin.base, origin.count, 0, &data);
                    }
                }
            } else if let Reach::There(start) = self.members.get(target.rank).reach {
                match origin.contiguous() {
                    Some(data) => {
                        let len = origin.len();
                        let access = Deferred {
                            what: SmallAccess::Get,
                            at,
                            input: &[],
                            output: (data, len),
                        };
                        if self.defer(process, &target, access, completion)? {
                            return Ok(None);
                        }
                        if len <= request_slot::ROOM {
                            let data = std::slice::from_raw_parts_mut(data, len);
                            if self.ask_by_slot(process, &target, SmallAccess::Get, at, &[], data) {
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
                self.move_natively(process, &origin, &target, at, false, completion)?
            {
                return Ok(request);
            } else {
                let service = self.service()?;
                let to = (target.rank, service.lanes.any());
                let ask = |layout: Layout<'_>| {
                    self.ask_for(process, to, &origin, completion, |tag| {
                        service.message(Kind::Get, tag, [0; 2], layout)
                    })
                };
                return match target.datatype.as_run(target.count) {
                    Some((skip, len)) => ask(Layout::Runs(&[(at.wrapping_add(skip as i64), len)])),
                    None => ask(Layout::Groups(&self.groups(&target, at))),
                };
            }
        }
        Ok(None)
    }
}
