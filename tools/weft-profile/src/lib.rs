//! Measures the time in MPI functions through the profiling interface (MPI-5.0 section 15.2).
//!
//! `mpiexec -stats`, `-trace FILE` and `-top` preload this library (`LD_PRELOAD`). It defines each
//! MPI function; the definition measures and calls the real one by its PMPI name. The MPI library
//! has no hooks for it, so jobs without these options pay nothing.
//!
//! The functions are generated from the table (`build.rs`). All parameters have a register's width,
//! so they pass on the arguments of all three ABIs, integers of 32 bits and pointers: no MPI
//! function takes a floating-point number or a structure by value.

mod abi;
mod clock;
mod collect;
mod events;
mod functions;
mod job;
mod names;
mod pmpi;
mod pvars;
mod record;
mod sizes;
mod stats;
mod trace;
mod watch;

use std::ffi::{c_int, c_void};

use weft_pmpi::Real;

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut c_void) -> c_int {
    static REAL: Real = Real::new(c"PMPI_Init");
    type Init = unsafe extern "C" fn(*mut c_int, *mut c_void) -> c_int;
    // SAFETY: the MPI standard gives the function this type.
    let real: Init = unsafe { std::mem::transmute(REAL.get()) };
    // SAFETY: the program has passed these arguments to this very MPI function.
    let code = unsafe { real(argc, argv) };
    collect::begin(code);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut c_void,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    static REAL: Real = Real::new(c"PMPI_Init_thread");
    type Init = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
    // SAFETY: the MPI standard gives the function this type.
    let real: Init = unsafe { std::mem::transmute(REAL.get()) };
    // SAFETY: the program has passed these arguments to this very MPI function.
    let code = unsafe { real(argc, argv, required, provided) };
    collect::begin(code);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Finalize() -> c_int {
    static REAL: Real = Real::new(c"PMPI_Finalize");
    // SAFETY: the MPI standard gives the function this type.
    let real: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(REAL.get()) };
    collect::end();
    // SAFETY: MPI_Finalize has no arguments.
    let code = unsafe { real() };
    watch::finalize(true);
    code
}

/// Invalidates the cached sizes of datatypes that a tool frees by the PMPI name. Not counted as a
/// call.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMPI_Type_free(datatype: *mut c_void) -> c_int {
    static REAL: Real = Real::new(c"PMPI_Type_free");
    // SAFETY: the MPI standard gives the function this type.
    let real: unsafe extern "C" fn(*mut c_void) -> c_int =
        unsafe { std::mem::transmute(REAL.get()) };
    sizes::freed();
    // SAFETY: the caller has passed this argument to this very MPI function.
    unsafe { real(datatype) }
}
