//! A stand-in for `cargo` that copies a finished installation, so that recipes are tried in minutes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::Result;

/// Makes the stand-in in the folder's `bin`. It accepts only `cargo xtask install --prefix DIR`, for
/// which it copies the installation at `installed`.
pub fn cargo(folder: &Path, installed: &str) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).map_err(failed)?;
    let script = format!(
        "#!/bin/sh\nset -e\n[ \"$1 $2 $3\" = 'xtask install --prefix' ] && [ $# = 4 ]\n\
         mkdir -p \"$4\"\ncp -r '{installed}/.' \"$4\"\n"
    );
    let program = bin.join("cargo");
    fs::write(&program, script).map_err(failed)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_installs_and_does_nothing_else() {
        let dir = std::env::temp_dir().join(format!("weft-stand-in-{}", std::process::id()));
        let (from, to) = (dir.join("from"), dir.join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("file"), "text").unwrap();
        cargo(&dir, &from.display().to_string()).unwrap();
        let run = |words: &[&str]| {
            // A child of another test may still hold the new file open.
            let script = dir.join("bin/cargo");
            let status = Command::new("sh").arg(script).args(words).status();
            status.unwrap().success()
        };
        let place = to.display().to_string();
        assert!(!run(&["build"]) && !run(&["xtask", "install", "--prefix", &place, "--dev"]));
        assert!(!to.exists());
        assert!(run(&["xtask", "install", "--prefix", &place]));
        assert_eq!(fs::read(to.join("file")).unwrap(), b"text");
        fs::remove_dir_all(&dir).unwrap();
    }
}
