//! The machine that this process runs on.

use crate::settings::text;

/// Returns this machine's host name.
pub fn name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: `name` is a local buffer one byte longer than the length passed; the last byte stays
    // NUL, which a truncated name would lack.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    if failed || length == 0 {
        return "unknown host".to_owned();
    }
    text::of(&name[..length])
}
