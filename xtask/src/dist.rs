//! Packs an installation for other machines: an archive to unpack anywhere, a wheel for pip, and packages of Debian
//! and for rpm.

mod systems;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, install, workspace};

/// Makes the wheel; Python has all that it takes.
const WHEEL: &str = include_str!("../files/wheel.py");
/// Where the packages of systems put everything.
const PREFIX: &str = "usr/lib/weft";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes `weft-VERSION-ARCHITECTURE-linux.tar.gz`, `weft-VERSION-py3-none-PLATFORM.whl`,
/// `weft_VERSION_ARCHITECTURE.deb`, `weft-VERSION-1.ARCHITECTURE.rpm`, and the same of `weft-dev` and `weft-devel`, in `to`, by default the folder `dist` in cargo's target folder.
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
    let told = Path::new("/").join(PREFIX);
    install::run_as(&prefix, &told, dev)?;
    if dev {
        without_debug_information(&prefix)?;
    }

    let archive = archive(to, aside, &prefix)?;
    println!("xtask: {}", archive.display());
    if text_of("python3", &["--version"]).is_err() {
        println!("xtask: no python3 here, so no wheel");
    } else {
        println!("xtask: {}", wheel(to, &prefix)?);
    }
    let roots = [root, aside.join("development")];
    systems::divide(&roots[0], &roots[1])?;
    let mut packages = Vec::new();
    match text_of("dpkg-deb", &["--version"]) {
        Ok(_) => packages.extend(systems::debian(to, &roots)?),
        Err(_) => println!("xtask: no dpkg-deb here, so no Debian packages"),
    }
    match text_of("rpmbuild", &["--version"]) {
        Ok(_) => packages.extend(systems::rpm(to, aside, &roots)?),
        Err(_) => println!("xtask: no rpmbuild here, so no packages for rpm"),
    }
    for package in packages {
        println!("xtask: {}", package.display());
    }
    Ok(())
}

/// Takes the debug information, of which fast builds are full, out of what is installed: it is most of what there
/// would be to pack.
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

/// The archive, with one folder in it.
fn archive(to: &Path, aside: &Path, prefix: &Path) -> Result<PathBuf> {
    let name = format!("weft-{VERSION}");
    let file = to.join(format!("{name}-{}-linux.tar.gz", std::env::consts::ARCH));
    let tree = aside.join(&name);
    // mpivars.sh names the place where it was installed, for shells that don't tell; there is none.
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

/// The wheel; its name tells which glibc it needs.
fn wheel(to: &Path, prefix: &Path) -> Result<String> {
    let [prefix, to] = [prefix, to].map(|path| path.to_string_lossy().into_owned());
    let arguments = ["-c", WHEEL, &prefix, &to, VERSION, std::env::consts::ARCH];
    text_of("python3", &arguments)
}

/// What a command prints, without the end of the line.
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
