//! The machine that this process runs on.

use crate::settings::text;

/// Returns this machine's host name.
pub fn name() -> String {
    match rustix::system::uname().nodename().to_bytes() {
        b"" => "unknown host".to_owned(),
        name => text::of(name),
    }
}
