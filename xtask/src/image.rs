//! Builds and tries the image of `packaging/Containerfile` without a registry: its base images are
//! Debian systems made by debootstrap under the names in the recipe. Rust is this machine's, mounted
//! into the build.
//!
//! Buildah keeps these images in a separate store, so that they are not mistaken for the real ones,
//! and runs commands in a chroot, which needs only root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::fresh;
use crate::{Result, stand_in, workspace};

/// Options of `cargo xtask image`.
#[derive(Args)]
pub struct Options {
    /// The folder of Debian systems and images, by default `image` in cargo's target folder. Its old
    /// content is removed.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Don't compile, but use this installation as the result of the recipe's cargo. It must run with
    /// Debian 12's C library.
    #[arg(long)]
    installed: Option<PathBuf>,
    /// Keep the images at the end.
    #[arg(long)]
    keep: bool,
    /// Use the base images that an earlier run with --keep has left.
    #[arg(long)]
    reuse: bool,
}

/// Packages of the recipe's first base image besides Rust. (The real one has more.)
const BUILDER: &str = "build-essential,ca-certificates";
/// Packages of the recipe's second base image.
const RUNTIME: &str = "ca-certificates";

/// Name of the image.
const BUILT: &str = "localhost/weft";

/// Commands that must work in the image without installing anything.
const TRIED: &[&str] = &[
    "mpiexec -n 2 osu-bench latency",
    "mpiexec -n 2 weft-info",
    "sh -e /tmp/tutorial.sh",
];

/// Builds the image and runs programs in it.
pub fn run(options: &Options) -> Result {
    for program in ["buildah", "debootstrap"] {
        if !["/usr/sbin", "/usr/bin"]
            .iter()
            .any(|dir| Path::new(dir).join(program).exists())
        {
            return Err(format!(
                "{program} is not installed: run `apt-get install {program}` as root"
            ));
        }
    }
    let dir = match &options.dir {
        Some(dir) => std::path::absolute(dir).map_err(|e| format!("{}: {e}", dir.display()))?,
        None => workspace::target()?.join("image"),
    };
    let recipe = workspace::root().join("packaging/Containerfile");
    let text =
        fs::read_to_string(&recipe).map_err(|error| format!("{}: {error}", recipe.display()))?;
    let [builder, runtime] = bases(&text)?;
    let store = Store { dir: dir.clone() };
    if !options.reuse {
        remove(&dir)?;
        store.base(&builder, BUILDER, "builder")?;
        store.base(&runtime, RUNTIME, "runtime")?;
    }
    store.build(&recipe, options.installed.as_deref())?;
    let result = store.try_it();
    if options.keep {
        println!("xtask: the images are left in {}", dir.display());
        return result;
    }
    result.and(remove(&dir))
}

/// Returns the base images of the recipe.
fn bases(recipe: &str) -> Result<[String; 2]> {
    let lines = recipe.lines().filter_map(|line| line.strip_prefix("FROM "));
    let names = lines.filter_map(|rest| rest.split_whitespace().next());
    let names: Vec<String> = names.map(str::to_owned).collect();
    names
        .try_into()
        .map_err(|names| format!("the recipe has base images {names:?}; it must have two"))
}

/// Buildah's store of images.
struct Store {
    dir: PathBuf,
}

impl Store {
    /// Returns a buildah command on the store.
    fn buildah(&self, command: &str) -> Command {
        let mut buildah = Command::new("buildah");
        // The vfs driver stores layers as folders; overlays do not work on every file system.
        buildah.args(["--storage-driver", "vfs", "--root"]);
        buildah.arg(self.dir.join("store"));
        buildah.arg("--runroot").arg(self.dir.join("run"));
        buildah.arg(command);
        buildah
    }

    /// Starts a container from an image and returns its name.
    fn from(&self, image: &str) -> Result<String> {
        let output = self
            .buildah("from")
            .args(["--pull-never", image])
            .stderr(Stdio::inherit())
            .output();
        let output = output.map_err(|error| format!("buildah can't be run: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!("buildah from {image} ended with {}", output.status)),
        }
    }

    /// Makes a Debian system and an image of it named `image`.
    fn base(&self, image: &str, packages: &str, folder: &str) -> Result {
        let root = self.dir.join(folder);
        fresh::system(&root, packages)?;
        let container = self.from("scratch")?;
        let quiet = |command: &mut Command, what: &str| {
            command.stdout(Stdio::null());
            workspace::run(command, what)
        };
        quiet(
            self.buildah("add").arg(&container).arg(&root).arg("/"),
            &format!("making an image that stands for {image}"),
        )?;
        // Debian's tools leave what they have fetched otherwise.
        quiet(
            self.buildah("commit")
                .args(["--quiet", "--rm", &container, image]),
            "keeping it",
        )?;
        fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))
    }

    /// Builds the image by the recipe.
    fn build(&self, recipe: &Path, installed: Option<&Path>) -> Result {
        let (mut rust, cargo) = (fresh::sysroot()?, fresh::cargo_home());
        let mut build = self.buildah("build");
        build.args(["--isolation", "chroot", "--pull-never", "--tag", BUILT]);
        if let Some(installed) = installed {
            let folder = self.dir.join("stand-in");
            stand_in::cargo(&folder, "/opt/installed")?;
            rust = folder.display().to_string();
            let installed = std::path::absolute(installed)
                .map_err(|error| format!("{}: {error}", installed.display()))?;
            let volume = format!("{}:/opt/installed:ro", installed.display());
            build.arg("--volume").arg(volume);
        }
        build.arg("--volume").arg(format!("{rust}:/opt/rust:ro"));
        // Crates fetched on this machine are not fetched again.
        if let Some(registry) = cargo.map(|home| home.join("registry")) {
            let registry = registry.display();
            build
                .arg("--volume")
                .arg(format!("{registry}:/root/.cargo/registry"));
        }
        for name in fresh::passed() {
            build.arg("--env").arg(name);
        }
        build.arg("--file").arg(recipe).arg(workspace::root());
        workspace::run(&mut build, "building the image")
    }

    /// Runs programs on two ranks and the tutorial's commands as the image's user.
    fn try_it(&self) -> Result {
        let page = workspace::root().join("docs/tutorial.md");
        let text =
            fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
        let script = self.dir.join("tutorial.sh");
        fs::write(&script, fresh::tutorial(&text)?)
            .map_err(|error| format!("{}: {error}", script.display()))?;
        let container = self.from(BUILT)?;
        workspace::run(
            self.buildah("copy")
                .arg(&container)
                .arg(&script)
                .arg("/tmp/tutorial.sh")
                .stdout(Stdio::null()),
            "copying the tutorial",
        )?;
        for command in TRIED {
            workspace::run(
                self.buildah("run")
                    .args(["--isolation", "chroot", &container, "--", "sh", "-c"])
                    .arg(command),
                &format!("in the image: {command}"),
            )?;
        }
        Ok(())
    }
}

/// Removes the store of an earlier run.
fn remove(dir: &Path) -> Result {
    if !dir.exists() {
        return Ok(());
    }
    // A folder that this task has not made is not removed.
    let known = [
        "store",
        "run",
        "builder",
        "runtime",
        "stand-in",
        "tutorial.sh",
    ];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !known.iter().any(|name| entry.file_name() == *name) {
            return Err(format!(
                "{} has other content than images; name another folder or remove it",
                dir.display()
            ));
        }
    }
    fs::remove_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_begins_with_two_images() {
        let recipe = workspace::root().join("packaging/Containerfile");
        let [builder, runtime] = bases(&fs::read_to_string(recipe).unwrap()).unwrap();
        assert!(builder.contains("/rust:"), "{builder}");
        assert!(runtime.contains("/debian:"), "{runtime}");
        assert!(bases("FROM one\nRUN true\n").is_err());
    }
}
