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

/// Returns the range of `bytes` bytes at `position` of a pack buffer of `size` bytes, if they fit.
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
                 {size}; make it larger (MPI_Pack_size returns the size needed)"
            );
            Err(Error::new(Class::Truncate, detail))
        }
    }
}

impl Datatype {
    /// Returns the packed size of `count` elements in bytes (`MPI_Pack_size`).
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
    /// The data of `count` elements at `base` must be readable and not overlap `out`.
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
        match self.as_block(count) {
            Some((_, 0)) => {}
            // SAFETY: the caller promises readable data (`# Safety`), which `as_block` locates; the
            // range is as long.
            Some((at, len)) => unsafe {
                std::ptr::copy_nonoverlapping(base.wrapping_offset(at), out.as_mut_ptr(), len);
            },
            // SAFETY: the caller promises readable data (`# Safety`); the range is as long as the
            // packed data.
            None => unsafe { self.pack(base, count, 0, out) },
        }
        Ok(end)
    }

    /// Unpacks `count` elements from `position` of `data` on to `base` and returns the position
    /// after them (`MPI_Unpack`). Errors as for [`pack_at`](Self::pack_at).
    ///
    /// # Safety
    /// The data of `count` elements at `base` must be writable and not overlap `data`.
    pub unsafe fn unpack_at(
        &self,
        base: *mut u8,
        count: usize,
        data: &[u8],
        position: i64,
    ) -> Result<i64> {
        let range = room(data.len(), position, self.size().checked_mul(count))?;
        let end = range.end as i64;
        // SAFETY: the caller promises writable data (`# Safety`); the range is as long as the
        // packed data.
        unsafe { self.unpack(base, count, 0, &data[range]) };
        Ok(end)
    }

    /// Returns the size of `count` elements in external32, in bytes (`MPI_Pack_external_size`).
    pub fn pack_external_size(&self, count: usize) -> Result<usize> {
        let bytes = self.inner().signature().external.checked_mul(count);
        bytes.ok_or_else(super::construct::too_large)
    }

    /// Returns the size in external32 of the first `packed` bytes of packed data, which must be
    /// whole values.
    pub fn external_bytes(&self, packed: usize) -> usize {
        let signature = self.inner().signature();
        let Some(whole) = packed.checked_div(signature.bytes) else {
            return 0;
        };
        let (mut left, mut bytes) = (packed % signature.bytes, whole * signature.external);
        if left > 0 {
            let _ = signature.runs(&mut |kind, external, number| {
                let some = number.min(left / kind.size());
                // A partial value ends the data.
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

    /// Packs `count` elements at `base` in external32 into `out` from `position` on and returns the
    /// position after them (`MPI_Pack_external`).
    ///
    /// Errors: those of [`pack_at`](Self::pack_at), and `MPI_ERR_CONVERSION` if a value does not
    /// fit into external32's type.
    ///
    /// # Safety
    /// The data of `count` elements at `base` must be readable and not overlap `out`.
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
        if let Some((at, len)) = self.as_block(count).filter(|run| run.1 > 0) {
            // SAFETY: the caller promises readable data (`# Safety`), which `as_block` locates.
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
        // Packs native bytes in chunks: `from..to` of the chunk is not converted yet, bytes of the
        // data from `skip` on are not packed yet.
        let mut native = [0; CHUNK];
        let (mut from, mut to, mut skip) = (0, 0, 0);
        Signature::repeat(count as u64, signature).runs(&mut |kind, external, number| {
            let (size, mut left) = (kind.size(), number);
            while left > 0 {
                if to - from < size {
                    native.copy_within(from..to, 0);
                    (from, to) = (0, to - from);
                    let more = (CHUNK - to).min(signature.bytes * count - skip);
                    // SAFETY: the caller promises readable data (`# Safety`); its signature has as
                    // many bytes.
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

    /// Unpacks `count` elements in external32 from `position` of `data` on to `base` and returns
    /// the position after them (`MPI_Unpack_external`). Errors as for
    /// [`pack_external`](Self::pack_external).
    ///
    /// # Safety
    /// The data of `count` elements at `base` must be writable and not overlap `data`.
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
        // SAFETY: the caller promises writable memory for `count` elements (`# Safety`), as many as
        // the range is for.
        unsafe { self.unpack_external_part(base, &data[range])? };
        Ok(end)
    }

    /// Unpacks the whole values in external32 at the beginning of `data` to elements at `base`, the
    /// last of which may be filled in part. Returns their native size in bytes; a partial value at
    /// the end of `data` is left.
    ///
    /// # Safety
    /// Memory at `base` must be writable for the elements that the data is for, and not overlap
    /// `data`.
    ///
    /// # Errors
    /// `MPI_ERR_CONVERSION` for a format that is not converted on this processor.
    pub unsafe fn unpack_external_part(&self, base: *mut u8, data: &[u8]) -> Result<usize> {
        let signature = self.inner().signature();
        let count = data.len().checked_div(signature.external).unwrap_or(0);
        let rest = data.len().checked_rem(signature.external).unwrap_or(0);
        let count = count + usize::from(rest > 0);
        let mut data = data;
        if let Some((at, _)) = self.as_block(count).filter(|run| run.1 > 0) {
            let mut filled = 0;
            Signature::repeat(count as u64, signature).runs(&mut |kind, external, number| {
                let some = number.min(data.len() / external);
                let (now, later) = data.split_at(some * external);
                // A partial value ends the data.
                data = if some < number { &[] } else { later };
                let len = some * kind.size();
                if len > 0 {
                    // SAFETY: the caller promises writable data (`# Safety`), which `as_block`
                    // locates.
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
        // Unpacks native bytes in chunks: `filled` bytes of the chunk go to `skip` of the data.
        let mut native = [0; CHUNK];
        let (mut filled, mut skip) = (0, 0);
        Signature::repeat(count as u64, signature).runs(&mut |kind, external, number| {
            let (size, mut left) = (kind.size(), number.min(data.len() / external));
            if left < number {
                // A partial value ends the data.
                data = &data[..left * external];
            }
            while left > 0 {
                if CHUNK - filled < size {
                    // SAFETY: the caller promises writable data (`# Safety`); its signature has as
                    // many bytes.
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
        // SAFETY: the caller promises writable data (`# Safety`); its signature has as many bytes.
        unsafe { self.unpack(base, count, skip, &native[..filled]) };
        Ok(skip + filled)
    }
}
