//! `MPI_Pack` and `MPI_Unpack` (MPI-3.1 section 4.2), in native form and in external32.

#![allow(
    unsafe_code,
    reason = "elements are packed from memory of callers and unpacked to it"
)]

use super::Datatype;
use super::external32;
use super::signature::Signature;
use crate::{Class, Error, Result};

/// Bytes converted at a time.
const CHUNK: usize = 4096;

/// Checks that `bytes` fit into a pack buffer of `size` bytes from `position` on.
fn room(size: usize, position: i64, bytes: Option<usize>) -> Result<std::ops::Range<usize>> {
    let start = usize::try_from(position)
        .ok()
        .filter(|&start| start <= size);
    let start = start.ok_or_else(|| {
        let detail = format!("position is {position}; it must be 0 to {size}, the buffer's size");
        Error::new(Class::Arg, detail)
    })?;
    match bytes.and_then(|bytes| start.checked_add(bytes)) {
        Some(end) if end <= size => Ok(start..end),
        _ => {
            let needed = bytes.map_or("more than 2^64".into(), |bytes| bytes.to_string());
            let detail = format!(
                "{needed} bytes of packed data at position {start} do not fit into a buffer of \
                 {size}; make it larger (MPI_Pack_size tells how large)"
            );
            Err(Error::new(Class::Truncate, detail))
        }
    }
}

impl Datatype {
    /// Bytes that `count` elements take when packed (`MPI_Pack_size`).
    pub fn pack_size(&self, count: usize) -> Result<usize> {
        let bytes = self.size().checked_mul(count);
        bytes.ok_or_else(super::construct::too_large)
    }

    /// Packs `count` elements at `base` into `out` from `position` on and returns the position
    /// after them (`MPI_Pack`).
    ///
    /// Errors: `MPI_ERR_ARG` for a position outside of `out`, `MPI_ERR_TRUNCATE` if `out` is too
    /// small.
    ///
    /// # Safety
    /// As for [`pack`](Self::pack).
    pub unsafe fn pack_at(
        &self,
        base: *const u8,
        count: usize,
        out: &mut [u8],
        position: i64,
    ) -> Result<i64> {
        let range = room(out.len(), position, self.size().checked_mul(count))?;
        let end = range.end as i64;
        let out = &mut out[range];
        match self.as_run(count) {
            Some((_, 0)) => {}
            // SAFETY: the caller's promise; there the data lies, in order, and the range is as long.
            Some((at, len)) => unsafe {
                std::ptr::copy_nonoverlapping(base.wrapping_offset(at), out.as_mut_ptr(), len);
            },
            // SAFETY: the caller's promise; the range is as long as the packed data.
            None => unsafe { self.pack(base, count, 0, out) },
        }
        Ok(end)
    }

    /// Unpacks `count` elements from `position` of `data` on to `base` and returns the position
    /// after them (`MPI_Unpack`). Errors as for [`pack_at`](Self::pack_at).
    ///
    /// # Safety
    /// As for [`unpack`](Self::unpack).
    pub unsafe fn unpack_at(
        &self,
        base: *mut u8,
        count: usize,
        data: &[u8],
        position: i64,
    ) -> Result<i64> {
        let range = room(data.len(), position, self.size().checked_mul(count))?;
        let end = range.end as i64;
        // SAFETY: the caller's promise; the range is as long as the packed data.
        unsafe { self.unpack(base, count, 0, &data[range]) };
        Ok(end)
    }

    /// Bytes that `count` elements take in external32 (`MPI_Pack_external_size`).
    pub fn pack_external_size(&self, count: usize) -> Result<usize> {
        let bytes = self.inner().signature().external.checked_mul(count);
        bytes.ok_or_else(super::construct::too_large)
    }

    /// Bytes that the first `packed` bytes of packed data, which are whole values, take in external32.
    pub fn external_bytes(&self, packed: usize) -> usize {
        let signature = self.inner().signature();
        let Some(whole) = packed.checked_div(signature.bytes) else {
            return 0;
        };
        let (mut left, mut bytes) = (packed % signature.bytes, whole * signature.external);
        if left > 0 {
            let _ = signature.runs(&mut |kind, external, number| {
                let some = number.min(left / kind.size());
                // Behind a part of a value there is nothing more.
                left = if some < number {
                    0
                } else {
                    left - some * kind.size()
                };
                bytes += some * external;
                Ok(())
            });
        }
        bytes
    }

    /// As [`pack_at`](Self::pack_at), in external32 (`MPI_Pack_external`).
    ///
    /// Also fails with `MPI_ERR_CONVERSION` if a value does not fit into external32's type.
    ///
    /// # Safety
    /// As for [`pack`](Self::pack).
    pub unsafe fn pack_external(
        &self,
        base: *const u8,
        count: usize,
        out: &mut [u8],
        position: i64,
    ) -> Result<i64> {
        let signature = self.inner().signature();
        let range = room(out.len(), position, signature.external.checked_mul(count))?;
        let end = range.end as i64;
        let mut out = &mut out[range];
        if let Some((at, len)) = self.as_run(count).filter(|run| run.1 > 0) {
            // SAFETY: the caller's promise; there the data lies, in order.
            let native = unsafe { std::slice::from_raw_parts(base.offset(at), len) };
            let mut left = native;
            Signature::repeat(count as u64, signature).runs(&mut |kind, external, number| {
                let (from, later) = left.split_at(number * kind.size());
                let (now, rest) = std::mem::take(&mut out).split_at_mut(number * external);
                (left, out) = (later, rest);
                external32::encode(kind, from, now)
            })?;
            return Ok(end);
        }
        // Native bytes of many runs are packed at once; those from `from` to `to` are not converted
        // yet, those from `skip` on not packed.
        let mut native = [0; CHUNK];
        let (mut from, mut to, mut skip) = (0, 0, 0);
        Signature::repeat(count as u64, signature).runs(&mut |kind, external, number| {
            let (size, mut left) = (kind.size(), number);
            while left > 0 {
                if to - from < size {
                    native.copy_within(from..to, 0);
                    (from, to) = (0, to - from);
                    let more = (CHUNK - to).min(signature.bytes * count - skip);
                    // SAFETY: the caller's promise; the signature has as many bytes as the data.
                    unsafe { self.pack(base, count, skip, &mut native[to..to + more]) };
                    to += more;
                    skip += more;
                }
                let some = left.min((to - from) / size);
                let (now, later) = std::mem::take(&mut out).split_at_mut(some * external);
                external32::encode(kind, &native[from..from + some * size], now)?;
                out = later;
                from += some * size;
                left -= some;
            }
            Ok(())
        })?;
        Ok(end)
    }

    /// As [`unpack_at`](Self::unpack_at), from external32 (`MPI_Unpack_external`).
    ///
    /// # Safety
    /// As for [`unpack`](Self::unpack).
    pub unsafe fn unpack_external(
        &self,
        base: *mut u8,
        count: usize,
        data: &[u8],
        position: i64,
    ) -> Result<i64> {
        let signature = self.inner().signature();
        let range = room(data.len(), position, signature.external.checked_mul(count))?;
        let end = range.end as i64;
        // SAFETY: the caller's promise.
        unsafe { self.unpack_external_part(base, &data[range])? };
        Ok(end)
    }

    /// Unpacks the whole values at the beginning of `data`, in external32, to as many elements at `base` as
    /// they are for, the last of which may be filled in part. Returns the bytes that they take there; a
    /// part of a value at the end of `data` is left.
    ///
    /// # Safety
    /// As for [`unpack`](Self::unpack), for the elements that the data is for.
    ///
    /// # Errors
    /// `MPI_ERR_CONVERSION` for a format that is not converted on this processor.
    pub unsafe fn unpack_external_part(&self, base: *mut u8, data: &[u8]) -> Result<usize> {
        let signature = self.inner().signature();
        let count = data.len().checked_div(signature.external).unwrap_or(0);
        let rest = data.len().checked_rem(signature.external).unwrap_or(0);
        let count = count + usize::from(rest > 0);
        let mut data = data;
        if let Some((at, _)) = self.as_run(count).filter(|run| run.1 > 0) {
            let mut filled = 0;
            Signature::repeat(count as u64, signature).runs(&mut |kind, external, number| {
                let some = number.min(data.len() / external);
                let (now, later) = data.split_at(some * external);
                // What is behind a part of these is no whole value, nor are there any more.
                data = if some < number { &[] } else { later };
                let len = some * kind.size();
                if len > 0 {
                    // SAFETY: the caller's promise; there the data lies, in order.
                    let native = unsafe {
                        let place = base.offset(at).add(filled);
                        std::slice::from_raw_parts_mut(place, len)
                    };
                    external32::decode(kind, now, native)?;
                }
                filled += len;
                Ok(())
            })?;
            return Ok(filled);
        }
        // Native bytes of many runs are unpacked at once: `filled` ones, to go to `skip`.
        let mut native = [0; CHUNK];
        let (mut filled, mut skip) = (0, 0);
        Signature::repeat(count as u64, signature).runs(&mut |kind, external, number| {
            let (size, mut left) = (kind.size(), number.min(data.len() / external));
            if left < number {
                // What is behind these is no whole value, nor are there any more.
                data = &data[..left * external];
            }
            while left > 0 {
                if CHUNK - filled < size {
                    // SAFETY: the caller's promise; the signature has as many bytes as the data.
                    unsafe { self.unpack(base, count, skip, &native[..filled]) };
                    (filled, skip) = (0, skip + filled);
                }
                let some = left.min((CHUNK - filled) / size);
                let (now, later) = data.split_at(some * external);
                external32::decode(kind, now, &mut native[filled..filled + some * size])?;
                data = later;
                filled += some * size;
                left -= some;
            }
            Ok(())
        })?;
        // SAFETY: as above.
        unsafe { self.unpack(base, count, skip, &native[..filled]) };
        Ok(skip + filled)
    }
}
