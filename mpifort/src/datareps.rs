//! `MPI_REGISTER_DATAREP`: C functions that call the program's subroutines (section 13.5.3).

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{
    MPI_Aint, MPI_Count, MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c,
    MPI_Datatype, MPI_Offset, MPI_SUCCESS,
};
use crate::convert::{Text, callback};
use crate::imports as c;
use crate::predefined::mpi_conversion_fn_null_;

/// A conversion subroutine, with the number of elements as an `N`.
type Convert<N> = unsafe extern "C" fn(
    *mut c_void,
    *mut MPI_Datatype,
    *mut N,
    *mut c_void,
    *mut MPI_Offset,
    *mut MPI_Aint,
    *mut c_int,
);

/// A subroutine that returns the extent of a datatype in the file.
type Extent = unsafe extern "C" fn(*mut MPI_Datatype, *mut MPI_Aint, *mut MPI_Aint, *mut c_int);

/// The subroutines of a representation; live until the process ends.
struct Subroutines<N> {
    read: Option<Convert<N>>,
    write: Option<Convert<N>>,
    extent: Option<Extent>,
    extra: *mut MPI_Aint,
}

/// # Safety
/// `subroutine` is a conversion subroutine of the program; the other arguments are those of the C
/// function.
unsafe fn convert<N>(
    subroutine: Option<Convert<N>>,
    userbuf: *mut c_void,
    mut datatype: MPI_Datatype,
    mut count: N,
    filebuf: *mut c_void,
    mut position: MPI_Offset,
    extra: *mut MPI_Aint,
) -> c_int {
    let mut code = MPI_SUCCESS;
    let Some(subroutine) = subroutine else {
        return code;
    };
    // SAFETY: the caller's contract; the rest are local variables.
    unsafe {
        subroutine(
            userbuf,
            &raw mut datatype,
            &raw mut count,
            filebuf,
            &raw mut position,
            extra,
            &raw mut code,
        );
    }
    code
}

unsafe extern "C" fn read<N>(
    userbuf: *mut c_void,
    datatype: MPI_Datatype,
    count: N,
    filebuf: *mut c_void,
    position: MPI_Offset,
    state: *mut c_void,
) -> c_int {
    // SAFETY: `register` made the state, which is never freed; the arguments are those of such a
    // function.
    unsafe {
        let state = &*state.cast::<Subroutines<N>>();
        convert(
            state.read,
            userbuf,
            datatype,
            count,
            filebuf,
            position,
            state.extra,
        )
    }
}

unsafe extern "C" fn write<N>(
    userbuf: *mut c_void,
    datatype: MPI_Datatype,
    count: N,
    filebuf: *mut c_void,
    position: MPI_Offset,
    state: *mut c_void,
) -> c_int {
    // SAFETY: `register` made the state, which is never freed; the arguments are those of such a
    // function.
    unsafe {
        let state = &*state.cast::<Subroutines<N>>();
        convert(
            state.write,
            userbuf,
            datatype,
            count,
            filebuf,
            position,
            state.extra,
        )
    }
}

unsafe extern "C" fn extent<N>(
    mut datatype: MPI_Datatype,
    extent: *mut MPI_Aint,
    state: *mut c_void,
) -> c_int {
    let mut code = MPI_SUCCESS;
    // SAFETY: `register` made the state, which is never freed; the arguments are those of such a
    // function.
    unsafe {
        let state = &*state.cast::<Subroutines<N>>();
        if let Some(subroutine) = state.extent {
            subroutine(&raw mut datatype, extent, state.extra, &raw mut code);
        }
    }
    code
}

/// Returns whether a subroutine is `MPI_CONVERSION_FN_NULL`.
fn is_none(subroutine: *mut c_void) -> bool {
    subroutine.is_null() || subroutine == mpi_conversion_fn_null_ as *mut c_void
}

/// Registers subroutines by `call`, which takes the name, whether there are subroutines that read and
/// write, and the address of all as the extra state.
///
/// # Safety
/// `subroutines` are the program's, with the arguments that the standard requires, or
/// `MPI_CONVERSION_FN_NULL`; the name has as many characters as is said.
unsafe fn register<N>(
    (datarep, datarep_len): (*const c_char, usize),
    subroutines: [*mut c_void; 3],
    extra: *mut c_void,
    call: impl FnOnce(*const c_char, [bool; 2], *mut c_void) -> c_int,
) -> c_int {
    // SAFETY: the name has as many characters, and the subroutines such arguments (# Safety).
    let (name, made) = unsafe {
        let made = Subroutines::<N> {
            read: callback(subroutines[0]),
            write: callback(subroutines[1]),
            extent: callback(subroutines[2]),
            extra: extra.cast(),
        };
        (
            Text::new(datarep, datarep_len),
            Box::into_raw(Box::new(made)),
        )
    };
    let there = [subroutines[0], subroutines[1]].map(|subroutine| !is_none(subroutine));
    let code = call(name.as_ptr(), there, made.cast());
    if code != MPI_SUCCESS {
        // SAFETY: `made` comes from a Box above, and C did not keep it.
        drop(unsafe { Box::from_raw(made) });
    }
    code
}

/// `MPI_REGISTER_DATAREP`.
///
/// # Safety
/// The arguments are as the standard asks.
pub unsafe fn register_datarep(
    datarep: *const c_char,
    read_conversion_fn: *mut c_void,
    write_conversion_fn: *mut c_void,
    dtype_file_extent_fn: *mut c_void,
    extra_state: *mut c_void,
    datarep_len: usize,
) -> c_int {
    let all = [
        read_conversion_fn,
        write_conversion_fn,
        dtype_file_extent_fn,
    ];
    let own: [MPI_Datarep_conversion_function; 2] = [read::<c_int>, write::<c_int>];
    // SAFETY: the arguments are as the standard asks (# Safety); `register` gives the extra state that
    // the functions expect.
    unsafe {
        register::<c_int>(
            (datarep, datarep_len),
            all,
            extra_state,
            |name, there, state| {
                let [read, write] = [0, 1].map(|index| there[index].then_some(own[index]));
                c::MPI_Register_datarep(name, read, write, Some(extent::<c_int>), state)
            },
        )
    }
}

/// `MPI_REGISTER_DATAREP` with large counts (MPI-4.0 section 14.5.3).
///
/// # Safety
/// The arguments are as the standard asks.
pub unsafe fn register_datarep_c(
    datarep: *const c_char,
    read_conversion_fn: *mut c_void,
    write_conversion_fn: *mut c_void,
    dtype_file_extent_fn: *mut c_void,
    extra_state: *mut c_void,
    datarep_len: usize,
) -> c_int {
    let all = [
        read_conversion_fn,
        write_conversion_fn,
        dtype_file_extent_fn,
    ];
    let own: [MPI_Datarep_conversion_function_c; 2] = [read::<MPI_Count>, write::<MPI_Count>];
    // SAFETY: the arguments are as the standard asks (# Safety); `register` gives the extra state that
    // the functions expect.
    unsafe {
        register::<MPI_Count>(
            (datarep, datarep_len),
            all,
            extra_state,
            |name, there, state| {
                let [read, write] = [0, 1].map(|index| there[index].then_some(own[index]));
                c::MPI_Register_datarep_c(name, read, write, Some(extent::<MPI_Count>), state)
            },
        )
    }
}
