//! Where a job's time goes, seen through the profiling interface (MPI-5.0 section 15.2).
//!
//! `mpiexec -stats`, `-trace FILE` and `-top` put this library before MPI's (`LD_PRELOAD`). It has a
//! function of the name of each of MPI's, which calls the real one by its name with a P, and measures.
//! MPI's own library knows nothing of it, so that it costs nothing where it isn't used.
//!
//! The functions are generated from the table. Their parameters are all of a register's width: so they
//! pass on what all three ABIs have there, numbers of 32 bits and pointers (no function of theirs takes a
//! floating-point number or a structure by value), to whichever of the libraries the program uses.

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
    // SAFETY: this is the function's type.
    let real: Init = unsafe { std::mem::transmute(REAL.get()) };
    // SAFETY: the arguments are the program's.
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
    // SAFETY: this is the function's type.
    let real: Init = unsafe { std::mem::transmute(REAL.get()) };
    // SAFETY: the arguments are the program's.
    let code = unsafe { real(argc, argv, required, provided) };
    collect::begin(code);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Finalize() -> c_int {
    static REAL: Real = Real::new(c"PMPI_Finalize");
    // SAFETY: this is the function's type.
    let real: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(REAL.get()) };
    collect::end();
    // SAFETY: it takes nothing.
    let code = unsafe { real() };
    watch::finalize(true);
    code
}

/// A tool may free datatypes by this name, and what was remembered of them must go all the same; it is not counted as a call.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMPI_Type_free(datatype: *mut c_void) -> c_int {
    static REAL: Real = Real::new(c"PMPI_Type_free");
    // SAFETY: this is the function's type.
    let real: unsafe extern "C" fn(*mut c_void) -> c_int =
        unsafe { std::mem::transmute(REAL.get()) };
    sizes::freed();
    // SAFETY: the argument is the program's.
    unsafe { real(datatype) }
}
