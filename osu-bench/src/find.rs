//! Choice of the MPI library to measure: the one in `LD_LIBRARY_PATH`, the one that is installed
//! with this program, or the one that the loader finds; and its name.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The names of the library's file, in the order of the search.
pub const LIBRARY_NAMES: [&str; 2] = ["libmpi.so.12", "libmpich.so.12"];

/// The loader's usual default folders.
const SYSTEM: [&str; 4] = [
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// Returns this program's file.
pub fn this_program() -> Result<PathBuf> {
    Ok(env::current_exe()?)
}

/// Returns the library's file in `dir`, if there is one.
fn file_in(dir: &Path) -> Option<PathBuf> {
    let files = LIBRARY_NAMES.map(|name| dir.join(name));
    files.into_iter().find(|file| file.exists())
}

/// Returns the library that is installed with this program (`../lib`), unless `LD_LIBRARY_PATH` has
/// another, which the user has chosen.
pub fn beside() -> Option<PathBuf> {
    let path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    if env::split_paths(&path).any(|dir| file_in(&dir).is_some()) {
        return None;
    }
    // The canonical path, since the program may be called through a link.
    let program = this_program().ok()?.canonicalize().ok()?;
    file_in(&program.parent()?.parent()?.join("lib"))
}

/// Returns the folder of the library that [`crate::mpi::Table::open`] opens.
pub fn folder() -> Result<PathBuf> {
    if let Some(dir) = beside().as_deref().and_then(Path::parent) {
        return Ok(dir.to_path_buf());
    }
    let path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    places
        .find(|place| file_in(place).is_some())
        .ok_or_else(|| {
            Error::new("found no libmpi.so.12; name its folder with --lib DIR or LD_LIBRARY_PATH")
        })
}

/// Another library of this machine.
pub struct Peer {
    pub name: &'static str,
    /// The folder of its library.
    pub folder: PathBuf,
    /// Its launcher, where that is not beside it.
    pub launcher: Option<PathBuf>,
}

/// Returns the default library and the others of this machine.
pub fn all() -> Result<Vec<Peer>> {
    let folder = folder()?;
    // LD_LIBRARY_PATH may name another library.
    let name = if beside().is_some() { "Weft" } else { "here" };
    let others = peers().into_iter().filter(|peer| peer.folder != folder);
    let others: Vec<Peer> = others.collect();
    let own = Peer {
        name,
        folder,
        launcher: None,
    };
    Ok([own].into_iter().chain(others).collect())
}

/// Returns the names and folders of [`all`], and the launchers of those that have one elsewhere.
pub fn assigned() -> Result<[Vec<(String, String)>; 2]> {
    let [mut libs, mut launchers] = [Vec::new(), Vec::new()];
    for peer in all()? {
        let assigned = |path: &Path| (peer.name.to_owned(), path.display().to_string());
        libs.push(assigned(&peer.folder));
        launchers.extend(peer.launcher.as_deref().map(assigned));
    }
    Ok([libs, launchers])
}

/// Returns whether `dir` is the folder of Open MPI's library. Debian's has links for compilers,
/// whose targets are two folders above.
pub fn is_open_mpi(dir: &Path) -> bool {
    const NAME: &str = "libmpi.so.40";
    let above = debian_usr(dir).and(dir.ancestors().nth(2));
    dir.join(NAME).exists() || above.is_some_and(|above| above.join(NAME).exists())
}

/// Returns a program of Debian's Open MPI with its library in `dir`:
/// `usr/lib/ARCHITECTURE/openmpi/lib` of the system, or of a folder with its unpacked packages.
pub fn debian_tool(dir: &Path, name: &str) -> Option<PathBuf> {
    let path = debian_usr(dir)?.join("bin").join(name);
    path.exists().then_some(path)
}

/// Returns the `usr` folder of Debian's Open MPI with its library in `dir`.
pub fn debian_usr(dir: &Path) -> Option<&Path> {
    let inner = dir.parent()?;
    let usr = inner.parent()?.parent()?.parent()?;
    (dir.ends_with("openmpi/lib") && usr.ends_with("usr")).then_some(usr)
}

/// Returns the other libraries in the folders of Debian or of their own installers.
pub fn peers() -> Vec<Peer> {
    let debian = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let at = |name, folder: PathBuf, library: &str, launcher: Option<&str>| {
        let launcher = launcher.map(PathBuf::from);
        let has_launcher = launcher.as_ref().is_none_or(|path| path.exists());
        (folder.join(library).exists() && has_launcher).then_some(Peer {
            name,
            folder,
            launcher,
        })
    };
    let hydra = Some("/usr/bin/mpiexec.hydra");
    let mpich = at("MPICH", debian.clone().into(), "libmpich.so.12", hydra);
    let open = at(
        "Open MPI",
        format!("{debian}/openmpi/lib").into(),
        "libmpi.so",
        None,
    );
    // Many machines have the library as a dependency, without a launcher.
    let open = open.filter(|peer| {
        is_open_mpi(&peer.folder) && debian_tool(&peer.folder, "mpiexec.openmpi").is_some()
    });
    let intel = env::var_os("I_MPI_ROOT").map(|root| Path::new(&root).join("lib"));
    let intel = intel.and_then(|folder| at("Intel MPI", folder, "libmpi.so.12", None));
    [mpich, open, intel].into_iter().flatten().collect()
}

/// Returns the first line of a version text, with the device if one is named.
pub fn one_line(version: &str) -> String {
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = version.lines().map(squeeze).find(|line| !line.is_empty());
    let first = first.unwrap_or_default().replace("MPICH Version:", "MPICH");
    match version
        .lines()
        .find_map(|line| line.strip_prefix("MPICH Device:"))
    {
        Some(device) => format!("{first} ({})", squeeze(device)),
        None => first,
    }
}
