//! Packs an installation for other machines: an archive, a wheel for pip, and packages for dpkg and
//! rpm.

mod needs;
mod old_glibc;
pub mod release;
mod systems;

use std::env;
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
/// and `weft-devel`, in `to`, by default `dist` in cargo's target folder. Prints and returns their
/// paths. The same sources, folder and compiler make the same bytes.
///
/// With `glibc` links for this version. Must then be called before other threads run.
///
/// # Errors
/// If a file needs a newer glibc than this, or newer libraries of gcc than its contemporaries.
pub fn run(to: Option<&Path>, dev: bool, glibc: Option<&str>) -> Result<Vec<PathBuf>> {
    if let Some(version) = glibc {
        old_glibc::use_version(version)?;
    }
    let to = match to {
        Some(to) => to.to_owned(),
        None => workspace::target()?.join("dist"),
    };
    fs::create_dir_all(&to).map_err(|error| failed(&to, error))?;
    let to = fs::canonicalize(&to).map_err(|error| failed(&to, error))?;
    let aside = to.join(format!("new-{}", std::process::id()));
    let result = pack(&to, &aside, dev, glibc);
    let removed = fs::remove_dir_all(&aside).map_err(|error| failed(&aside, error));
    let made = result?;
    removed?;
    for file in &made {
        println!("xtask: {}", file.display());
    }
    Ok(made)
}

fn pack(to: &Path, aside: &Path, dev: bool, glibc: Option<&str>) -> Result<Vec<PathBuf>> {
    let time = source_time()?;
    let root = aside.join("system");
    let prefix = root.join(PREFIX);
    let final_prefix = Path::new("/").join(PREFIX);
    install::run_as(&prefix, &final_prefix, dev, &Features::default())?;
    if dev {
        without_debug_information(&prefix)?;
    }
    let needs = needs::of(&elf_files(&prefix)?)?;
    if let Some(version) = glibc {
        needs.check(version)?;
    }
    let glibc = needs.glibc();

    set_times(&root, &time)?;

    let mut made = vec![archive(to, aside, &prefix)?];
    if text_of("python3", &["--version"]).is_err() {
        println!("xtask: python3 is not installed: made no wheel");
    } else {
        made.push(wheel(to, &prefix, &glibc)?);
    }
    let roots = [root, aside.join("development")];
    systems::divide(&roots[0], &roots[1])?;
    for root in &roots {
        set_times(root, &time)?;
    }
    match text_of("dpkg-deb", &["--version"]) {
        Ok(_) => made.extend(systems::debian(to, &roots, &time, &glibc)?),
        Err(_) => println!("xtask: dpkg-deb is not installed: made no Debian packages"),
    }
    match text_of("rpmbuild", &["--version"]) {
        Ok(_) => made.extend(systems::rpm(to, aside, &roots, &time, &glibc)?),
        Err(_) => println!("xtask: rpmbuild is not installed: made no rpm packages"),
    }
    Ok(made)
}

/// Variable that gives all packages a time, in seconds since 1970
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
const SOURCE_TIME: &str = "SOURCE_DATE_EPOCH";

/// Returns the time of the packages and of the files in them: that of [`SOURCE_TIME`], by default
/// the time of the last commit, or 1980 (the earliest that a wheel can hold) without git.
fn source_time() -> Result<String> {
    if let Ok(time) = env::var(SOURCE_TIME) {
        let valid = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        return match valid {
            true => Ok(time),
            false => Err(format!("{SOURCE_TIME}={time} is no number of seconds")),
        };
    }
    let root = workspace::root().to_string_lossy().into_owned();
    let commit = text_of("git", &["-C", &root, "log", "-1", "--format=%ct"]);
    Ok(commit.unwrap_or_else(|_| "315532800".to_owned()))
}

/// Sets the times of all files and folders of a tree.
fn set_times(tree: &Path, time: &str) -> Result {
    let mut find = Command::new("find");
    find.arg(tree).args(["-exec", "touch", "--no-dereference"]);
    find.arg(format!("--date=@{time}")).args(["{}", "+"]);
    match find.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{find:?} ended with {status}")),
        Err(error) => Err(format!("{find:?} can't be run: {error}")),
    }
}

/// Strips the debug information, which is most of the size of a fast build.
fn without_debug_information(prefix: &Path) -> Result {
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").args(elf_files(prefix)?);
    workspace::run(&mut strip, "removing debug information")
}

/// Returns the programs and libraries of an installation.
fn elf_files(prefix: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![prefix.join("bin"), prefix.join("lib")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| failed(&folder, error))?;
        for entry in entries.flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            match kind.map_err(|error| failed(&path, error))? {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() && is_elf(&path) => found.push(path),
                _ => {}
            }
        }
    }
    Ok(found)
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
        "--format=gnu",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--sort=name",
    ]);
    tar.arg("--file").arg(&file).arg("--directory").arg(aside);
    workspace::run(tar.arg(&name), "packing the archive")?;
    Ok(file)
}

/// Packs the wheel, whose name contains the glibc that it needs.
fn wheel(to: &Path, prefix: &Path, glibc: &str) -> Result<PathBuf> {
    let [prefix, to] = [prefix, to].map(|path| path.to_string_lossy().into_owned());
    let arguments = ["-c", WHEEL, &prefix, &to, VERSION, env::consts::ARCH, glibc];
    text_of("python3", &arguments).map(PathBuf::from)
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
