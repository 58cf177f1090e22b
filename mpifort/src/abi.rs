//! Types and constants of `mpi.h`.
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    reason = "generated: names of C; each library uses some of them"
)]

use std::ffi::{c_char, c_double, c_int, c_long, c_void};

include!(concat!(env!("OUT_DIR"), "/constants.rs"));
