//! Puts and gets in memory that is mapped in this process.

use crate::window::members::Mapped;
use crate::window::transfer::{TargetMemory, Transfer};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::Result;

impl TargetMemory for Mapped {
    unsafe fn put(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        let Transfer { origin, target, .. } = transfer;
        let place = self.0.wrapping_offset(transfer.at as isize);
        match (origin.contiguous(), target.datatype.as_block(target.count)) {
            // SAFETY: both hold `len` bytes by this function's contract; they may overlap.
            (Some(data), Some((skip, len))) => unsafe {
                netmod_kit::copy_overlapping(data, place.wrapping_offset(skip), len);
            },
            // SAFETY: the origin's buffer is readable by this function's contract. Another member's
            // memory does not contain it.
            (Some(data), None) if target.rank != transfer.window.rank() => unsafe {
                let data = std::slice::from_raw_parts(data, origin.len());
                target.datatype.unpack(place, target.count, 0, data);
            },
            _ => {
                let mut data = vec![0; origin.len()];
                // SAFETY: both buffers are valid by this function's contract, and `data` is as long
                // as either's data (`Window::check`).
                unsafe {
                    origin.pack(&mut data);
                    target.datatype.unpack(place, target.count, 0, &data);
                }
            }
        }
        Ok(None)
    }

    unsafe fn get(self, transfer: &Transfer<'_>) -> Result<Option<RequestId>> {
        let Transfer { origin, target, .. } = transfer;
        let place = self.0.wrapping_offset(transfer.at as isize);
        match (origin.contiguous(), target.datatype.as_block(target.count)) {
            // SAFETY: both hold `len` bytes by this function's contract; they may overlap.
            (Some(data), Some((skip, len))) => unsafe {
                netmod_kit::copy_overlapping(place.wrapping_offset(skip), data, len);
            },
            // SAFETY: the origin's buffer is writable by this function's contract. Another member's
            // memory does not contain it.
            (Some(data), None) if target.rank != transfer.window.rank() => unsafe {
                let data = std::slice::from_raw_parts_mut(data, origin.len());
                target.datatype.pack(place, target.count, 0, data);
            },
            _ => {
                let mut data = vec![0; origin.len()];
                // SAFETY: both buffers are valid by this function's contract, and `data` is as long
                // as either's data (`Window::check`).
                unsafe {
                    target.datatype.pack(place, target.count, 0, &mut data);
                    origin.unpack(&data);
                }
            }
        }
        Ok(None)
    }
}
