//! Packs an installation for other machines: an archive, a wheel for pip, and packages for dpkg and
//! rpm.

mod systems;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::features::Features;
use crate::{Result, install, workspace};

/// Script that makes the wheel with Python's standard library.
const WHEEL: &str = include_str!("../files/wheel.py");
/// Prefix of the dpkg and rpm packages, relative to the root.
const PREFIX: &str = "usr/lib/weft";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes `weft-VERSION-ARCHITECTURE-linux.tar.gz`, `weft-VERSION-py3-none-PLATFORM.whl`,
/// `weft_VERSION_ARCHITECTURE.deb`, `weft-VERSION-1.ARCHITECTURE.rpm`, and the packages `weft-dev`
/// and `weft-devel`, in `to`, by default `dist` in cargo's target folder.
pub fn run(to: Option<&Path>, dev: bool) -> Result {
    let to = match to {
        Some(to) => to.to_owned(),
        None => workspace::target()?.join("dist"),
    };
    fs::create_dir_all(&to).map_err(|error| failed(&to, error))?;
    let to = fs::canonicalize(&to).map_err(|error| failed(&to, error))?;
    let aside = to.join(format!("new-{}", std::process::id()));
    let result = pack(&to, &aside, dev);
    let removed = fs::remove_dir_all(&aside).map_err(|error| failed(&aside, error));
    result.and(removed)
}

fn pack(to: &Path, aside: &Path, dev: bool) -> Result {
    let root = aside.join("system");
    let prefix = root.join(PREFIX);
    let final_prefix = Path::new("/").join(PREFIX);
    install::run_as(&prefix, &final_prefix, dev, &Features::default())?;
    if dev {
        without_debug_information(&prefix)?;
    }

    let archive = archive(to, aside, &prefix)?;
    println!("xtask: {}", archive.display());
    if text_of("python3", &["--version"]).is_err() {
        println!("xtask: python3 is not installed: made no wheel");
    } else {
        println!("xtask: {}", wheel(to, &prefix)?);
    }
    let roots = [root, aside.join("development")];
    systems::divide(&roots[0], &roots[1])?;
    let mut packages = Vec::new();
    match text_of("dpkg-deb", &["--version"]) {
        Ok(_) => packages.extend(systems::debian(to, &roots)?),
        Err(_) => println!("xtask: dpkg-deb is not installed: made no Debian packages"),
    }
    match text_of("rpmbuild", &["--version"]) {
        Ok(_) => packages.extend(systems::rpm(to, aside, &roots)?),
        Err(_) => println!("xtask: rpmbuild is not installed: made no rpm packages"),
    }
    for package in packages {
        println!("xtask: {}", package.display());
    }
    Ok(())
}

/// Strips the debug information, which is most of the size of a fast build.
fn without_debug_information(prefix: &Path) -> Result {
    let mut folders = vec![prefix.join("bin"), prefix.join("lib")];
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug");
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| failed(&folder, error))?;
        for entry in entries.flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            match kind.map_err(|error| failed(&path, error))? {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() && is_elf(&path) => _ = strip.arg(path),
                _ => {}
            }
        }
    }
    workspace::run(&mut strip, "removing debug information")
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF"
}

/// Packs the archive, which contains one folder.
fn archive(to: &Path, aside: &Path, prefix: &Path) -> Result<PathBuf> {
    let name = format!("weft-{VERSION}");
    let file = to.join(format!("{name}-{}-linux.tar.gz", std::env::consts::ARCH));
    let tree = aside.join(&name);
    // mpivars.sh has the final prefix, for shells in which it cannot find its own path. The archive
    // has no final prefix.
    let mut copy = Command::new("cp");
    workspace::run(copy.arg("-a").arg(prefix).arg(&tree), "copying the tree")?;
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--gzip",
        "--owner=0",
        "--group=0",
        "--sort=name",
    ]);
    tar.arg("--file").arg(&file).arg("--directory").arg(aside);
    workspace::run(tar.arg(&name), "packing the archive")?;
    Ok(file)
}

/// Packs the wheel, whose name contains the glibc that it needs.
fn wheel(to: &Path, prefix: &Path) -> Result<String> {
    let [prefix, to] = [prefix, to].map(|path| path.to_string_lossy().into_owned());
    let arguments = ["-c", WHEEL, &prefix, &to, VERSION, std::env::consts::ARCH];
    text_of("python3", &arguments)
}

/// Returns a command's output without the newline at its end.
fn text_of(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program} can't be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn failed(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
