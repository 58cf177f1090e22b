//! Library path of the ranks.
//!
//! Programs that were built for Open MPI need `libmpi.so.40`; those that look for MPI only when they
//! run (mpi4py's wheel) open `libmpi.so`, which would be another MPI's where one is installed.
//! Weft installs these in a folder without other libraries. Ranks search it first, which does not
//! affect other programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The loader's list of folders that it searches first.
const VARIABLE: &str = "LD_LIBRARY_PATH";

/// The folder below the installation's prefix.
const FOLDER: &str = "lib/weft/compat";

/// Returns the folder where Weft is installed.
pub fn prefix() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.to_owned())
}

/// Adds the folder to an environment, if it is installed.
pub fn offer(environment: &mut Vec<(OsString, OsString)>) {
    let folder = prefix().map(|prefix| prefix.join(FOLDER));
    if let Some(folder) = folder.filter(|folder| folder.exists()) {
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
        let folder = Path::new("/w/compat");
        for (before, after) in [
            (None, "/w/compat"),
            (Some(""), "/w/compat"),
            (Some("/a:/b"), "/w/compat:/a:/b"),
        ] {
            let mut environment = vec![("A".into(), "1".into())];
            environment.extend(before.map(|value| (VARIABLE.into(), value.into())));
            put_first(&mut environment, folder);
            let wanted = [("A", "1"), (VARIABLE, after)].map(|(a, b)| (a.into(), b.into()));
            assert_eq!(environment, wanted);
        }
    }
}
