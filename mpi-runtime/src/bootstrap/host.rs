//! The machine that this process runs on.

use crate::settings::text;

/// This machine's name.
pub fn name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has the length that is given; one byte is kept for the NUL that a
    // truncated name would lack.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    if failed || length == 0 {
        return "unknown host".to_owned();
    }
    text::of(&name[..length])
}
