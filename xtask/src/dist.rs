//! Packs an installation for other machines: an archive to unpack anywhere, a wheel for pip, and a Debian
//! package.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, install, workspace};

/// Makes the wheel; Python has all that it takes.
const WHEEL: &str = include_str!("../files/wheel.py");
const CONTROL: &str = include_str!("../files/control");
/// What dpkg runs after unpacking and before removal.
const SCRIPTS: &[(&str, &str)] = &[
    ("postinst", include_str!("../files/postinst")),
    ("prerm", include_str!("../files/prerm")),
];
/// Where the Debian package puts everything.
const DEBIAN_PREFIX: &str = "usr/lib/weft";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes `weft-VERSION-ARCHITECTURE-linux.tar.gz`, `weft-VERSION-py3-none-PLATFORM.whl` and
/// `weft_VERSION_ARCHITECTURE.deb` in `to`, by default the folder `dist` in cargo's target folder.
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
    let root = aside.join("debian");
    let prefix = root.join(DEBIAN_PREFIX);
    let told = Path::new("/").join(DEBIAN_PREFIX);
    install::run_as(&prefix, &told, dev)?;

    let archive = archive(to, aside, &prefix)?;
    println!("xtask: {}", archive.display());
    if text_of("python3", &["--version"]).is_err() {
        println!("xtask: no python3 here, so no wheel");
    } else {
        println!("xtask: {}", wheel(to, &prefix)?);
    }
    if text_of("dpkg-deb", &["--version"]).is_err() {
        println!("xtask: no dpkg-deb here, so no Debian package");
        return Ok(());
    }
    let package = package(to, &root)?;
    println!("xtask: {}", package.display());
    Ok(())
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

/// The Debian package of the tree below `root`.
fn package(to: &Path, root: &Path) -> Result<PathBuf> {
    let architecture = text_of("dpkg", &["--print-architecture"])?;
    let glibc = text_of("getconf", &["GNU_LIBC_VERSION"])?;
    let glibc = glibc.rsplit(' ').next().unwrap_or_default();
    let sizes = Command::new("du")
        .args(["-sk", "usr"])
        .current_dir(root)
        .output();
    let size = sizes
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .and_then(|text| text.split_whitespace().next().map(str::to_owned))
        .ok_or("du can't tell how large the tree is")?;

    let dir = root.join("DEBIAN");
    fs::create_dir_all(&dir).map_err(|error| failed(&dir, error))?;
    let control = CONTROL
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@SIZE@", &size)
        .replace("@GLIBC@", glibc);
    write(&dir.join("control"), &control, 0o644)?;
    for (name, text) in SCRIPTS {
        write(&dir.join(name), text, 0o755)?;
    }
    let file = to.join(format!("weft_{VERSION}_{architecture}.deb"));
    let mut command = Command::new("dpkg-deb");
    command
        .args(["--root-owner-group", "--build"])
        .arg(root)
        .arg(&file);
    workspace::run(&mut command, "packing the Debian package")?;
    Ok(file)
}

fn write(path: &Path, text: &str, mode: u32) -> Result {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(|error| failed(path, error))
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
