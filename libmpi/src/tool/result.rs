//! How functions of the tool interface end.

use std::ffi::c_int;

/// An error of the tool interface: a return code, since there are no error handlers here.
pub type Result<T = ()> = std::result::Result<T, c_int>;
