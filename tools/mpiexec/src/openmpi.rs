//! Library path for programs that were built for Open MPI.
//!
//! They need `libmpi.so.40`, which Weft installs in a folder without other libraries. Ranks search
//! it first, which does not affect other programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The loader's list of folders that it searches first.
const VARIABLE: &str = "LD_LIBRARY_PATH";

/// Returns the folder of `libmpi.so.40`, if it is installed.
fn folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?.parent()?.join("lib/weft/openmpi");
    folder.join("libmpi.so.40").exists().then_some(folder)
}

/// Adds the folder to an environment.
pub fn offer(environment: &mut Vec<(OsString, OsString)>) {
    if let Some(folder) = folder() {
        put_first(environment, &folder);
    }
}

fn put_first(environment: &mut Vec<(OsString, OsString)>, folder: &Path) {
    let set = environment.iter_mut().rfind(|(name, _)| name == VARIABLE);
    let Some((_, value)) = set else {
        environment.push((VARIABLE.into(), folder.into()));
        return;
    };
    let mut list = folder.as_os_str().to_owned();
    // An empty element would be the working directory, which an empty list does not mean.
    if !value.is_empty() {
        list.push(":");
        list.push(&*value);
    }
    *value = list;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_comes_before_what_the_user_has_set() {
        let folder = Path::new("/w/openmpi");
        for (before, after) in [
            (None, "/w/openmpi"),
            (Some(""), "/w/openmpi"),
            (Some("/a:/b"), "/w/openmpi:/a:/b"),
        ] {
            let mut environment = vec![("A".into(), "1".into())];
            environment.extend(before.map(|value| (VARIABLE.into(), value.into())));
            put_first(&mut environment, folder);
            let wanted = [("A", "1"), (VARIABLE, after)].map(|(a, b)| (a.into(), b.into()));
            assert_eq!(environment, wanted);
        }
    }
}
