//! Handles and statuses between C and Fortran (section 17.2).

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};

use super::null;
use crate::abi::{MPI_F_STATUS_SIZE, MPI_File, MPI_Fint};
use crate::data;
use crate::library::LIBRARY;

/// `MPI_Comm_c2f`, `MPI_Comm_f2c` and their like: handles that are integers in C are the same
/// integers in Fortran.
pub fn same(handle: c_int) -> c_int {
    handle
}

/// `MPI_File_c2f`. The number stays the file's, even if another file gets its address later.
pub fn file_c2f(file: MPI_File) -> MPI_Fint {
    let address = file.expose_provenance();
    if address == 0 {
        return 0;
    }
    let mut files = LIBRARY.fortran_files.lock();
    let index = files.iter().position(|known| *known == address);
    let index = index.unwrap_or_else(|| {
        files.push(address);
        files.len() - 1
    });
    MPI_Fint::try_from(index + 1).unwrap_or(0)
}

/// `MPI_File_f2c`: `MPI_FILE_NULL` for a number that no file has.
pub fn file_f2c(file: MPI_Fint) -> MPI_File {
    let index = usize::try_from(file)
        .ok()
        .and_then(|file| file.checked_sub(1));
    let address = index.and_then(|index| LIBRARY.fortran_files.lock().get(index).copied());
    std::ptr::with_exposed_provenance_mut(address.unwrap_or(0))
}

/// Copies a status: in all three languages it is the same five integers. `MPI_Status_f2c` and its
/// kin.
///
/// # Safety
/// Where not NULL or `MPI_STATUS_IGNORE` (1), `from` and `to` are valid for five integers.
pub unsafe fn copy_status(
    from: *const MPI_Fint,
    from_name: &str,
    to: *mut MPI_Fint,
    to_name: &str,
) -> Result<()> {
    check(from, from_name)?;
    check(to, to_name)?;
    // SAFETY: by the contract of this function; `copy` allows for one status in both places.
    unsafe { from.copy_to(to, MPI_F_STATUS_SIZE as usize) };
    Ok(())
}

/// Checks that there is a status, and not a constant of one of the languages that means none
/// (section 17.2.5).
fn check(status: *const MPI_Fint, name: &str) -> Result<()> {
    if status.addr() <= 1 {
        return Err(null(name));
    }
    // SAFETY: the variables of this library are always valid to read.
    let ignored = unsafe {
        [
            data::MPI_F_STATUS_IGNORE.get().read(),
            data::MPI_F_STATUSES_IGNORE.get().read(),
            data::MPI_F08_STATUS_IGNORE.get().read().cast(),
            data::MPI_F08_STATUSES_IGNORE.get().read().cast(),
        ]
    };
    if ignored.contains(&status.cast_mut()) {
        let why = format!("{name} is MPI_STATUS_IGNORE, which has no counterpart to convert to");
        return Err(Error::new(Class::Arg, why));
    }
    Ok(())
}
