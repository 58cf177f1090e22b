//! What build scripts of shared libraries have in common: generated sources, and the linker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::{Abi, Table};

/// Generates the constants and exported functions of a C library, and tells the linker what it exports.
///
/// # Panics
/// There is a mistake in a table, or the output folder can't be written.
pub fn library(abi: Abi) {
    println!("cargo::rerun-if-changed=build.rs");
    let table = Table::for_package();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let write = |name: &str, text: String| -> PathBuf {
        let path = out.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    };
    let wrong = |error: String| -> String { panic!("mpi-table/{error}") };
    let (soname, shims, exports) = match abi {
        Abi::Mpich => ("libmpi.so.12", Ok(table.shims()), table.version_script()),
        Abi::Standard => (
            "libmpi_abi.so.1",
            table.standard_shims(),
            table.standard_version_script(),
        ),
        Abi::OpenMpi => (
            "libmpi.so.40",
            table.openmpi_shims(),
            table.openmpi_version_script(),
        ),
    };
    let constants = table.library_constants(abi);
    write("constants.rs", constants.unwrap_or_else(wrong));
    write("outward.rs", table.outward(abi));
    write("shims.rs", shims.unwrap_or_else(wrong));
    // rustc hides symbols that it doesn't know, and it doesn't know the weak MPI_ symbols, which
    // assembler makes. A second, anonymous version script exports them.
    let script = write("exports.map", exports);
    use_lld();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
        script.display()
    );
}

/// Makes a package's shared library be linked by lld.
///
/// Weak `MPI_` symbols, which only assembler defines, are exported by a version script besides
/// rustc's; lld alone takes two. A toolchain has lld, but rustc passes its path for few targets.
pub fn use_lld() {
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
    let variable = |name| env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut rustc = Command::new(variable("RUSTC"));
    let printed = rustc.args(["--print", "sysroot"]).output();
    let printed = printed.unwrap_or_else(|error| panic!("{rustc:?}: {error}"));
    let sysroot = String::from_utf8_lossy(&printed.stdout);
    let tools = format!("lib/rustlib/{}/bin/gcc-ld", variable("HOST"));
    let tools = Path::new(sysroot.trim()).join(tools);
    // Elsewhere `ld.lld` must be in PATH.
    if tools.join("ld.lld").exists() {
        println!("cargo::rustc-cdylib-link-arg=-B{}", tools.display());
    }
}
