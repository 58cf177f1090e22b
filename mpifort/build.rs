//! Generates entry points from the tables, and tells the linker what `libmpifort.so.12` exports and
//! that it needs `libmpi.so.12`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let table = mpi_table::Table::load().unwrap_or_else(|error| panic!("libmpi/table/{error}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let write = |name: &str, text: String| -> PathBuf {
        let path = out.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    };
    write("constants.rs", table.rust_constants());
    write("imports.rs", table.fortran_imports());
    write("shims.rs", table.fortran_shims());
    write("predefined.rs", table.fortran_predefined());
    let script = write("exports.map", table.fortran_version_script());

    // The linker has to see a libmpi.so.12 to note that it is needed, but cargo can't say that the
    // real one be built before this: an empty one with the same names serves.
    let (functions, variables) = table.fortran_needs();
    let mut text = String::from(".text\n");
    for name in functions {
        let _ = writeln!(text, ".globl {name}\n.type {name}, %function\n{name}:");
    }
    text.push_str(".byte 0\n.data\n");
    for name in variables {
        let _ = writeln!(
            text,
            ".globl {name}\n.type {name}, %object\n.size {name}, 8\n{name}: .quad 0"
        );
    }
    text.push_str(".section .note.GNU-stack,\"\",%progbits\n");
    let source = write("needs.s", text);
    let status = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi.so.12", "-o"])
        .arg(out.join("libmpi.so"))
        .arg(source)
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "a C compiler is needed to link; set CC to one"
    );
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-cdylib-link-arg=-L{}", out.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed,-lmpi");
    // As for libmpi: of the linkers only lld takes a second version script.
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpifort.so.12");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
        script.display()
    );
}
