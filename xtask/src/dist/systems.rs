//! Packages for dpkg and rpm: one with the files for running programs and one with those for
//! compiling them, below the same prefix.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{PREFIX, SOURCE_TIME, VERSION, failed, set_times, text_of};
use crate::{Result, workspace};

const CONTROLS: [&str; 2] = [
    include_str!("../../files/control"),
    include_str!("../../files/control-dev"),
];
/// Scripts that dpkg runs after unpacking and before removal, per package.
const SCRIPTS: [[(&str, &str); 2]; 2] = [
    [
        ("postinst", include_str!("../../files/postinst")),
        ("prerm", include_str!("../../files/prerm")),
    ],
    [
        ("postinst", include_str!("../../files/postinst-dev")),
        ("prerm", include_str!("../../files/prerm-dev")),
    ],
];
const SPEC: &str = include_str!("../../files/weft.spec");

/// Names of the compilers' wrappers, in `bin` and as manual pages.
const WRAPPERS: &[&str] = &[
    "mpicc",
    "mpicc_abi",
    "mpiCC",
    "mpic++",
    "mpicxx",
    "mpicxx_abi",
    "mpif08",
    "mpif77",
    "mpif90",
    "mpifort",
    "mpifort_abi",
];

/// Returns the files and folders for compiling, relative to the prefix.
fn for_development(prefix: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = ["include", "lib/pkgconfig", "share/man/man3"]
        .map(PathBuf::from)
        .into();
    for name in WRAPPERS {
        found.push(Path::new("bin").join(name));
        found.push(Path::new("share/man/man1").join(format!("{name}.1")));
    }
    let lib = prefix.join("lib");
    for entry in fs::read_dir(&lib)
        .map_err(|error| failed(&lib, error))?
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        // The linker's names of libraries are links to the names for running.
        if name.ends_with(".so") && entry.path().is_symlink() {
            found.push(Path::new("lib").join(name));
        }
    }
    found.retain(|path| prefix.join(path).symlink_metadata().is_ok());
    Ok(found)
}

/// Moves the files for compiling to another tree.
pub fn divide(root: &Path, development: &Path) -> Result {
    let [from, to] = [root, development].map(|root| root.join(PREFIX));
    for path in for_development(&from)? {
        let place = to.join(&path);
        let folder = place.parent().unwrap_or(&to);
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        fs::rename(from.join(&path), &place).map_err(|error| failed(&place, error))?;
    }
    Ok(())
}

/// Packs both trees for dpkg.
pub fn debian(to: &Path, roots: &[PathBuf; 2], time: &str, glibc: &str) -> Result<Vec<PathBuf>> {
    let architecture = text_of("dpkg", &["--print-architecture"])?;
    let mut packages = Vec::new();
    for ((root, control), scripts) in roots.iter().zip(CONTROLS).zip(SCRIPTS) {
        let size = text_of("du", &["-sk", &root.join("usr").to_string_lossy()])?;
        let dir = root.join("DEBIAN");
        fs::create_dir_all(&dir).map_err(|error| failed(&dir, error))?;
        let control = control
            .replace("@VERSION@", VERSION)
            .replace("@ARCHITECTURE@", &architecture)
            .replace("@SIZE@", size.split_whitespace().next().unwrap_or("0"))
            .replace("@GLIBC@", glibc);
        let name = control
            .lines()
            .find_map(|line| line.strip_prefix("Package: "));
        let file = to.join(format!(
            "{}_{VERSION}_{architecture}.deb",
            name.unwrap_or("weft")
        ));
        write(&dir.join("control"), &control, 0o644)?;
        for (name, text) in scripts {
            write(&dir.join(name), text, 0o755)?;
        }
        set_times(&dir, time)?;
        let mut command = Command::new("dpkg-deb");
        command
            .env(SOURCE_TIME, time)
            .args(["--root-owner-group", "--build"])
            .arg(root)
            .arg(&file);
        workspace::run(&mut command, "packing a Debian package")?;
        fs::remove_dir_all(&dir).map_err(|error| failed(&dir, error))?;
        packages.push(file);
    }
    Ok(packages)
}

/// Packs both trees for rpm.
pub fn rpm(
    to: &Path,
    aside: &Path,
    roots: &[PathBuf; 2],
    time: &str,
    glibc: &str,
) -> Result<Vec<PathBuf>> {
    let top = aside.join("rpm");
    fs::create_dir_all(&top).map_err(|error| failed(&top, error))?;
    let spec = top.join("weft.spec");
    let text = SPEC.replace("@VERSION@", VERSION).replace("@GLIBC@", glibc);
    write(&spec, &text, 0o644)?;
    let mut lists = Vec::new();
    for (root, name) in roots.iter().zip(["runtime", "development"]) {
        let list = top.join(name);
        let root = root.to_string_lossy();
        let files = text_of(
            "find",
            &[
                &root,
                "-mindepth",
                "1",
                "-not",
                "-type",
                "d",
                "-printf",
                "/%P\n",
            ],
        )?;
        let mut files: Vec<&str> = files.lines().collect();
        files.sort_unstable();
        write(&list, &(files.join("\n") + "\n"), 0o644)?;
        lists.push(list);
    }
    let mut command = Command::new("rpmbuild");
    command.args(["-bb", "--quiet", "--target", std::env::consts::ARCH]);
    command.env(SOURCE_TIME, time);
    let places = [
        ("_topdir", &top),
        ("_rpmdir", &top.join("packages")),
        ("runtime", &roots[0]),
        ("development", &roots[1]),
    ];
    for (name, place) in places {
        command
            .arg("--define")
            .arg(format!("{name} {}", place.display()));
    }
    for (name, list) in ["files_of_runtime", "files_of_development"]
        .iter()
        .zip(&lists)
    {
        command
            .arg("--define")
            .arg(format!("{name} {}", list.display()));
    }
    workspace::run(command.arg(&spec), "packing for rpm")?;
    let made = top.join("packages").join(std::env::consts::ARCH);
    let mut packages = Vec::new();
    for entry in fs::read_dir(&made)
        .map_err(|error| failed(&made, error))?
        .flatten()
    {
        let file = to.join(entry.file_name());
        fs::rename(entry.path(), &file).map_err(|error| failed(&file, error))?;
        packages.push(file);
    }
    Ok(packages)
}

fn write(path: &Path, text: &str, mode: u32) -> Result {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(|error| failed(path, error))
}
