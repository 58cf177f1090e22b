//! Builds and tests conda's recipe without a channel (see `files/conda.py`).

use std::fs;
use std::path::PathBuf;
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
    let mut build = Command::new(&python);
    build.args(["-c", include_str!("../files/conda.py")]);
    build.arg(workspace::root().join("packaging/conda/recipe.yaml"));
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
