//! Builds and tests conda's recipe without a channel (see `files/conda.py`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::{Result, stand_in, workspace};

/// Version of rattler-build, which is installed from PyPI.
const VERSION: &str = "0.73.0";

/// Options of `cargo xtask conda`.
#[derive(Args)]
pub struct Options {
    /// The build folder, by default `conda` in cargo's target folder.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Build the sources in this archive (`cargo xtask release` makes it) by its own recipe, by default
    /// this source tree.
    #[arg(long)]
    archive: Option<PathBuf>,
    /// Don't compile, but use this installation as the result of the recipe's cargo.
    #[arg(long)]
    installed: Option<PathBuf>,
}

/// Builds the package and runs its tests.
pub fn run(options: &Options) -> Result {
    let dir = match &options.dir {
        Some(dir) => std::path::absolute(dir).map_err(|e| format!("{}: {e}", dir.display()))?,
        None => workspace::target()?.join("conda"),
    };
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let python = dir.join("env/bin/python");
    if !python.exists() {
        workspace::run(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(dir.join("env")),
            "making a virtual environment for rattler-build",
        )?;
    }
    workspace::run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .arg(format!("py-rattler-build=={VERSION}")),
        "installing rattler-build",
    )?;
    let sources = match &options.archive {
        Some(archive) => unpacked(archive, &dir.join("sources"))?,
        None => workspace::root(),
    };
    let mut build = Command::new(&python);
    build.args(["-c", include_str!("../files/conda.py")]);
    build.arg(sources.join("packaging/conda/recipe.yaml"));
    build.arg(&dir);
    // Unpacked packages stay in the build folder, too.
    build.env("RATTLER_CACHE_DIR", dir.join("cache"));
    if let Some(installed) = &options.installed {
        let installed = std::path::absolute(installed)
            .map_err(|error| format!("{}: {error}", installed.display()))?;
        let folder = dir.join("stand-in");
        stand_in::cargo(&folder, &installed.display().to_string())?;
        let mut path = folder.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        build.env("PATH", path);
    }
    workspace::run(&mut build, "building the package of conda, and testing it")?;
    println!("xtask: the package is in {}", dir.join("channel").display());
    Ok(())
}

/// Unpacks an archive and returns the only folder in it.
fn unpacked(archive: &Path, to: &Path) -> Result<PathBuf> {
    let failed = |error: io::Error| format!("{}: {error}", to.display());
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).map_err(failed)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(to);
    workspace::run(&mut tar, "unpacking the sources")?;
    let mut entries = fs::read_dir(to).map_err(failed)?;
    match (entries.next(), entries.next()) {
        (Some(entry), None) => Ok(entry.map_err(failed)?.path()),
        _ => Err(format!("{} has not one folder", archive.display())),
    }
}
