//! Programs that were built for Open MPI: they ask for `libmpi.so.40`, which Weft has in a folder of its own. Ranks look
//! there first for libraries. Nothing else is there, so it means nothing to other programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the loader looks for libraries first.
const VARIABLE: &str = "LD_LIBRARY_PATH";

/// The folder, if Weft is installed with it.
fn folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?.parent()?.join("lib/weft/openmpi");
    folder.join("libmpi.so.40").exists().then_some(folder)
}

/// Has the programs of an environment find the libraries.
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
    // An empty name in the list is the working directory, which nobody asks for by an empty list.
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
