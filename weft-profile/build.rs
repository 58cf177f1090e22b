//! Generates a function in front of each of MPI's from the table.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use mpi_table::{Function, Table};

/// Those that begin and end everything, and those that take no time or nothing that can be passed on.
fn is_special(function: &Function) -> bool {
    let special = [
        "MPI_Init",
        "MPI_Init_thread",
        "MPI_Finalize",
        "MPI_Wtime",
        "MPI_Wtick",
        "MPI_Aint_add",
        "MPI_Aint_diff",
    ];
    function.variadic
        || function.is_macro
        || function.is_companion
        || special.contains(&function.name.as_str())
        || function.name.starts_with("MPI_T_")
        || !function.name.starts_with("MPI_")
        || function.name.ends_with("_toint")
        || function.name.ends_with("_fromint")
}

/// The places of count and datatype of what a call moves, where it says so by one pair.
fn data(function: &Function) -> Option<(usize, usize)> {
    let names = ["MPI_Recv", "MPI_Irecv", "MPI_Mrecv", "MPI_Imrecv"];
    let others = [
        "MPI_Status_",
        "MPI_Get_",
        "MPI_Type_",
        "MPI_Pack",
        "MPI_Unpack",
        "MPI_Precv",
    ];
    let moves_nothing = names
        .iter()
        .chain(&others)
        .any(|start| function.name.starts_with(start))
        && !function.name.starts_with("MPI_Get_accumulate")
        || function.name.ends_with("_init")
        || function.name.ends_with("_init_c");
    if moves_nothing {
        return None;
    }
    let place = |name: &str| {
        let found = function
            .params
            .iter()
            .position(|param| param.name == name)?;
        (!function.params[found].ctype.is_pointer()).then_some(found)
    };
    [
        ("count", "datatype"),
        ("sendcount", "sendtype"),
        ("origin_count", "origin_datatype"),
        ("recvcount", "datatype"),
    ]
    .into_iter()
    .find_map(|(count, datatype)| Some((place(count)?, place(datatype)?)))
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let table = Table::load().unwrap_or_else(|error| panic!("libmpi/table/{error}"));
    let mut text = String::new();
    let mut names = Vec::new();
    for function in table
        .functions
        .present()
        .filter(|function| !is_special(function))
    {
        let name = &function.name;
        let count = function.params.len();
        let params: String = (0..count).map(|i| format!("a{i}: usize, ")).collect();
        let types = "usize, ".repeat(count);
        let arguments: String = (0..count).map(|i| format!("a{i}, ")).collect();
        let large = name.ends_with("_c");
        let bytes = data(function).map_or("0".to_owned(), |(count, datatype)| {
            let count = if large {
                format!("a{count} as i64")
            } else {
                format!("i64::from(a{count} as i32)")
            };
            format!("bytes({count}, a{datatype})")
        });
        let index = names.len();
        write!(
            text,
            "#[unsafe(no_mangle)]\n\
             unsafe extern \"C\" fn {name}({params}) -> usize {{\n    \
                 static REAL: Real = Real::new(c\"P{name}\");\n    \
                 // SAFETY: this is the type of the function in registers; see the module.\n    \
                 let real: unsafe extern \"C\" fn({types}) -> usize = unsafe {{ std::mem::transmute(REAL.get()) }};\n    \
                 let before = enter();\n    \
                 // SAFETY: the arguments are those that the program gave to this very function.\n    \
                 let result = unsafe {{ real({arguments}) }};\n    \
                 leave(before, {index}, || {bytes});\n    \
                 result\n\
             }}\n\n"
        )
        .expect("memory");
        names.push(name);
    }
    let names = format!(
        "/// The functions that are counted, in the order of their numbers.\n\
         pub const NAMES: [&str; {}] = {names:?};\n",
        names.len()
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (file, text) in [("shims.rs", text), ("names.rs", names)] {
        let path = out.join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
