//! The linker of the shared libraries, for build scripts.

use std::env;
use std::path::Path;
use std::process::Command;

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
