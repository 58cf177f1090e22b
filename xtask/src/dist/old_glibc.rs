//! Compilers that link for an older glibc than this machine's, as a wheel for `manylinux_2_28` needs.
//!
//! Zig's wheel has the lists of the symbols of each glibc. It makes of them libraries without code, and
//! has the start-up files of that version; the compilers and linkers are this machine's.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::failed;
use crate::{Result, workspace};

/// The package at PyPI.
const ZIG: &str = "ziglang==0.15.1";

/// The linker's names of libraries. `libc.so` names static functions, too.
const NAMES: &[(&str, &str)] = &[
    ("libm.so", "libm.so.6"),
    ("libpthread.so", "libpthread.so.0"),
    ("libdl.so", "libdl.so.2"),
    ("librt.so", "librt.so.1"),
    ("libutil.so", "libutil.so.1"),
    ("libresolv.so", "libresolv.so.2"),
];
const LIBC: &str = "INPUT(libc.so.6 libc_nonshared.a AS_NEEDED(libld.so.2))\n";

/// Has all that this process builds from now on be linked for this version.
///
/// Must be called before other threads run.
pub fn use_version(version: &str) -> Result {
    let arch = env::consts::ARCH;
    let folder = workspace::target()?
        .join("tools")
        .join(format!("glibc-{version}"));
    let [cc, cxx] = ["cc", "c++"].map(|name| folder.join(name));
    if !cxx.exists() {
        make(&folder, &format!("{arch}-linux-gnu.{version}"))?;
        wrapper(&cc, "cc", &folder)?;
        wrapper(&cxx, "c++", &folder)?;
    }
    let linker = format!(
        "CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_LINKER",
        arch.to_uppercase()
    );
    // SAFETY: the only thread runs this, so that no other reads the environment.
    unsafe {
        env::set_var(linker, cc);
        env::set_var("WEFT_CXX", cxx);
    }
    Ok(())
}

/// Collects the files to link with.
fn make(folder: &Path, target: &str) -> Result {
    let venv = workspace::target()?.join("tools/zig");
    let python = venv.join("bin/python");
    if !python.exists() {
        let mut command = Command::new("python3");
        workspace::run(
            command.args(["-m", "venv"]).arg(&venv),
            "making a virtual environment",
        )?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", ZIG]);
    workspace::run(&mut install, "installing Zig")?;
    let lib = folder.join("lib");
    let cache = folder.join("cache");
    fs::create_dir_all(&lib).map_err(|error| failed(&lib, error))?;
    let source = folder.join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").map_err(|error| failed(&source, error))?;
    let mut zig = Command::new(&python);
    zig.args(["-m", "ziglang", "cc", "-target", target, "-o"])
        .arg(folder.join("empty"))
        .arg(&source)
        .env("ZIG_GLOBAL_CACHE_DIR", &cache)
        .env("ZIG_LOCAL_CACHE_DIR", &cache);
    workspace::run(&mut zig, "making the libraries of an older glibc")?;
    let objects = cache.join("o");
    for made in fs::read_dir(&objects)
        .map_err(|error| failed(&objects, error))?
        .flatten()
    {
        for file in fs::read_dir(made.path()).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.contains(".so.") || name == "crt1.o" || name == "libc_nonshared.a" {
                let to = lib.join(name);
                fs::copy(file.path(), &to).map_err(|error| failed(&to, error))?;
            }
        }
    }
    // Zig's start-up file is independent of its position.
    let links = NAMES.iter().copied().chain([("Scrt1.o", "crt1.o")]);
    for (name, file) in links {
        let link = lib.join(name);
        if !lib.join(file).exists() {
            return Err(format!("{ZIG} has made no {file} in {}", objects.display()));
        }
        let _ = fs::remove_file(&link);
        symlink(file, &link).map_err(|error| failed(&link, error))?;
    }
    let libc = lib.join("libc.so");
    fs::write(&libc, LIBC).map_err(|error| failed(&libc, error))?;
    fs::remove_dir_all(&cache).map_err(|error| failed(&cache, error))
}

/// Writes a script that runs a compiler with these libraries. This machine's libgcc_s may need a newer
/// glibc; where the result runs, that system's own is loaded.
fn wrapper(path: &Path, compiler: &str, folder: &Path) -> Result {
    let lib = folder.join("lib");
    let lib = lib.display();
    let text = format!(
        "#!/bin/sh\nexec {compiler} -B '{lib}' -L '{lib}' -Wl,--allow-shlib-undefined \"$@\"\n"
    );
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| failed(path, error))
}
