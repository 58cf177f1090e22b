//! Which MPI library is measured where none is named: the one in `LD_LIBRARY_PATH`, the one that was
//! installed with this program, or the one that the loader finds; and what it is called.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The names under which the library is looked for, in this order.
pub const LIBRARY_NAMES: [&str; 2] = ["libmpi.so.12", "libmpich.so.12"];

/// Where the loader looks without being told, as far as is the custom.
const SYSTEM: [&str; 4] = [
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// This program's file.
pub fn this_program() -> Result<PathBuf> {
    Ok(env::current_exe()?)
}

/// The library's file in `dir`, if there is one.
fn file_in(dir: &Path) -> Option<PathBuf> {
    let files = LIBRARY_NAMES.map(|name| dir.join(name));
    files.into_iter().find(|file| file.exists())
}

/// The library that was installed with this program (`../lib` from here), unless `LD_LIBRARY_PATH`
/// has one: that was set on purpose.
pub fn beside() -> Option<PathBuf> {
    let path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    if env::split_paths(&path).any(|dir| file_in(&dir).is_some()) {
        return None;
    }
    // The program's real place, so that a link to it in another folder does not matter.
    let program = this_program().ok()?.canonicalize().ok()?;
    file_in(&program.parent()?.parent()?.join("lib"))
}

/// The folder of the library that [`crate::mpi::Table::open`] would take.
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

/// The library that is measured where none is named, and the others of this machine.
pub fn all() -> Result<Vec<Peer>> {
    let own = folder()?;
    // Another one may have been named on purpose.
    let name = match beside() {
        Some(_) => "Weft",
        None => "here",
    };
    let others = peers().into_iter().filter(|peer| peer.folder != own);
    let mut all: Vec<Peer> = others.collect();
    all.insert(
        0,
        Peer {
            name,
            folder: own,
            launcher: None,
        },
    );
    Ok(all)
}

/// Whether `dir` is the folder of Open MPI's library: Debian's has links for compilers, and what they lead to is two
/// folders above.
pub fn is_open_mpi(dir: &Path) -> bool {
    const NAME: &str = "libmpi.so.40";
    let above = debian_usr(dir).and(dir.ancestors().nth(2));
    dir.join(NAME).exists() || above.is_some_and(|above| above.join(NAME).exists())
}

/// A program of Debian's Open MPI, whose library is in `dir`: `usr/lib/ARCHITECTURE/openmpi/lib` of the system, or of
/// a folder in which its packages were unpacked.
pub fn debian_tool(dir: &Path, name: &str) -> Option<PathBuf> {
    let path = debian_usr(dir)?.join("bin").join(name);
    path.exists().then_some(path)
}

/// The `usr` of Debian's Open MPI, whose library is in `dir`.
pub fn debian_usr(dir: &Path) -> Option<&Path> {
    let inner = dir.parent()?;
    let usr = inner.parent()?.parent()?.parent()?;
    (dir.ends_with("openmpi/lib") && usr.ends_with("usr")).then_some(usr)
}

/// The other libraries that are where Debian or their own scripts put them.
pub fn peers() -> Vec<Peer> {
    let debian = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let at = |name, folder: PathBuf, library: &str, launcher: Option<&str>| {
        let launcher = launcher.map(PathBuf::from);
        let there =
            folder.join(library).exists() && launcher.as_ref().is_none_or(|path| path.exists());
        there.then_some(Peer {
            name,
            folder,
            launcher,
        })
    };
    let mpich = at(
        "MPICH",
        debian.clone().into(),
        "libmpich.so.12",
        Some("/usr/bin/mpiexec.hydra"),
    );
    let open = at(
        "Open MPI",
        format!("{debian}/openmpi/lib").into(),
        "libmpi.so",
        None,
    );
    // Its library alone is on many machines, for some program or other, without a launcher.
    let open = open.filter(|peer| {
        is_open_mpi(&peer.folder) && debian_tool(&peer.folder, "mpiexec.openmpi").is_some()
    });
    let intel = env::var_os("I_MPI_ROOT").and_then(|root| {
        at(
            "Intel MPI",
            Path::new(&root).join("lib"),
            "libmpi.so.12",
            None,
        )
    });
    [mpich, open, intel].into_iter().flatten().collect()
}

/// The first line of a version text, and the device if one is named, with single spaces.
pub fn one_line(version: &str) -> String {
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = version
        .lines()
        .map(squeeze)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let first = first.replace("MPICH Version:", "MPICH");
    match version
        .lines()
        .find_map(|line| line.strip_prefix("MPICH Device:"))
    {
        Some(device) => format!("{first} ({})", squeeze(device)),
        None => first,
    }
}
