//! Places in the source tree.

use std::path::{Path, PathBuf};

/// The root of the source tree.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
