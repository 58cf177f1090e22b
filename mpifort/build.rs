//! Generates entry points from the tables, and sets the exports of `libmpifort.so.12` and its
//! dependency on `libmpi.so.12`. Packages `libmpifort-abi` and `libmpifort-ompi` use it for the
//! standard ABI and for Open MPI's.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    // The script reruns for `CC` only: a path named here would be relative to each package's
    // folder.
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-check-cfg=cfg(standard_abi, openmpi_abi, pointer_abi)");
    let table = mpi_table::Table::for_package();
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let (table, imports, own, needed) = match package.as_str() {
        "libmpifort-abi" => {
            println!("cargo::rustc-cfg=standard_abi");
            println!("cargo::rustc-cfg=pointer_abi");
            let imports = table.fortran_standard_imports();
            let imports = imports.unwrap_or_else(|error| panic!("mpi-table/{error}"));
            let names = ("libmpifort_abi.so.1", "libmpi_abi.so.1");
            (table.for_standard_fortran(), imports, names.0, names.1)
        }
        "libmpifort-ompi" => {
            println!("cargo::rustc-cfg=openmpi_abi");
            println!("cargo::rustc-cfg=pointer_abi");
            let imports = table.fortran_openmpi_imports();
            let imports = imports.unwrap_or_else(|error| panic!("mpi-table/{error}"));
            let names = ("libmpi_mpifh.so.40", "libmpi.so.40");
            (table.for_openmpi_fortran(), imports, names.0, names.1)
        }
        _ => {
            let imports = table.fortran_imports();
            (table, imports, "libmpifort.so.12", "libmpi.so.12")
        }
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let write = |name: &str, text: String| -> PathBuf {
        let path = out.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    };
    write("constants.rs", table.rust_constants());
    write("imports.rs", imports);
    write("shims.rs", table.fortran_shims());
    write("predefined.rs", table.fortran_predefined());
    write("sentinels.s", table.fortran_sentinels());
    let script = write("exports.map", table.fortran_version_script());

    // The linker must see that library to record the dependency, but cargo cannot build the real
    // one first: an empty one with the same names suffices.
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
        .args(["-shared", "-nostdlib"])
        .arg(format!("-Wl,-soname,{needed}"))
        .arg("-o")
        .arg(out.join(needed))
        .arg(source)
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "a C compiler is needed to link; set CC to one"
    );
    println!("cargo::rustc-cdylib-link-arg=-L{}", out.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed,-l:{needed}");
    mpi_table::link::use_lld();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{own}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
        script.display()
    );
}
