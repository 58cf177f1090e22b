//! Extensions of other libraries of this ABI that programs use.

pub mod endpoints;
#[cfg(feature = "fault-tolerance")]
pub mod failure;
pub mod grequest_poll;
pub mod notify;
pub mod progress_functions;
pub mod stream;
pub mod threadcomm;

use std::ffi::{c_int, c_void};

use mpi_core::datatype::Datatype;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::infos;
use mpi_runtime::lifecycle::runtime::running;

use super::null;
use crate::abi::{
    MPI_Aint, MPI_Count, MPI_Info, MPI_Request, MPIX_GPU_SUPPORT_CUDA, MPIX_GPU_SUPPORT_HIP,
    MPIX_GPU_SUPPORT_ZE, MPIX_Iov,
};
use crate::args::{InfoKey, Late, Out};

/// `MPIX_Query_cuda_support`, `MPIX_Query_hip_support`, `MPIX_Query_ze_support` and Open MPI's
/// `MPIX_Query_rocm_support`: no, buffers are in host memory.
pub fn no_gpu() -> c_int {
    0
}

/// `MPIX_GPU_query_support`.
pub fn gpu_query_support(gpu_type: c_int, is_supported: Out<c_int>) -> Result<()> {
    let known = [
        MPIX_GPU_SUPPORT_CUDA,
        MPIX_GPU_SUPPORT_ZE,
        MPIX_GPU_SUPPORT_HIP,
    ];
    if !known.contains(&gpu_type) {
        let why = format!("gpu_type is {gpu_type}; it can be MPIX_GPU_SUPPORT_CUDA, _ZE or _HIP");
        return Err(Error::new(Class::Arg, why));
    }
    is_supported.set(0);
    Ok(())
}

/// `MPIX_Request_is_complete`: returns whether an operation is complete, without making progress;
/// false for an invalid handle.
pub unsafe fn request_is_complete(request: MPI_Request) -> c_int {
    // SAFETY: by the chapter on safety no other thread frees the request during the call.
    let call = unsafe { InCall::begin() };
    let complete = running().is_some_and(|runtime| {
        let resolved = runtime.resolve(request, call);
        resolved.is_ok_and(|resolved| runtime.is_complete(resolved))
    });
    c_int::from(complete)
}

/// `MPIX_Info_set_hex`: sets a key to the hexadecimal digits of the bytes of a value.
pub unsafe fn info_set_hex(
    Late(info, call): Late<MPI_Info>,
    key: InfoKey,
    value: *const c_void,
    value_size: c_int,
) -> Result<()> {
    let info = infos::get_mut(info, call)?;
    let key = key.0;
    let size = usize::try_from(value_size).map_err(|_| {
        let why = format!("value_size is {value_size}; it must be 0 or more");
        Error::new(Class::Arg, why)
    })?;
    if value.is_null() && size > 0 {
        return Err(null("value"));
    }
    let bytes = match size {
        0 => &[][..],
        // SAFETY: the caller's contract; not NULL.
        _ => unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) },
    };
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    info.set(key, digits)
}

/// `MPIX_Type_iov_len`: the number of whole contiguous blocks of one element of a datatype within
/// `max_iov_bytes` bytes, and their bytes. With -1 all are counted.
pub unsafe fn type_iov_len(
    datatype: &Datatype,
    max_iov_bytes: MPI_Count,
    iov_len: Out<MPI_Count>,
    actual_iov_bytes: *mut MPI_Count,
) -> Result<()> {
    let room = usize::try_from(max_iov_bytes).unwrap_or(usize::MAX);
    if max_iov_bytes < -1 {
        let why = format!("max_iov_bytes is {max_iov_bytes}; it must be 0 or more, or -1 for all");
        return Err(Error::new(Class::Arg, why));
    }
    let (mut pieces, mut bytes) = (0, 0_usize);
    for (_, len) in datatype.blocks(std::ptr::null_mut(), 1, 0, usize::MAX) {
        if len > room - bytes {
            break;
        }
        pieces += 1;
        bytes += len;
    }
    iov_len.set(pieces);
    // NULL: the caller does not want the number of bytes.
    if !actual_iov_bytes.is_null() {
        // SAFETY: not NULL, and then valid by the caller's contract.
        unsafe { actual_iov_bytes.write(bytes as MPI_Count) };
    }
    Ok(())
}

/// `MPIX_Type_iov`: the contiguous blocks of one element of a datatype from a number on, with
/// addresses relative to the element's.
pub unsafe fn type_iov(
    datatype: &Datatype,
    iov_offset: MPI_Count,
    iov: *mut MPIX_Iov,
    max_iov_len: MPI_Count,
    actual_iov_len: Out<MPI_Count>,
) -> Result<()> {
    let count = |value: MPI_Count, name: &str| {
        usize::try_from(value).map_err(|_| {
            let why = format!("{name} is {value}; it must be 0 or more");
            Error::new(Class::Arg, why)
        })
    };
    let skip = count(iov_offset, "iov_offset")?;
    let room = count(max_iov_len, "max_iov_len")?;
    if iov.is_null() && room > 0 {
        return Err(null("iov"));
    }
    let pieces = datatype.blocks(std::ptr::null_mut(), 1, 0, usize::MAX);
    let mut written = 0;
    for (address, len) in pieces.skip(skip).take(room) {
        let piece = MPIX_Iov {
            iov_base: address.cast(),
            iov_len: len as MPI_Aint,
        };
        // SAFETY: `iov` has space for `max_iov_len` elements (the standard's contract), and `take` bounds
        // their number by it.
        unsafe { iov.add(written).write(piece) };
        written += 1;
    }
    actual_iov_len.set(written as MPI_Count);
    Ok(())
}
