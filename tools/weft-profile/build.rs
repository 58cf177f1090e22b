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

/// The place of a parameter that is a value.
fn value(function: &Function, names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| {
        let place = function
            .params
            .iter()
            .position(|param| param.name == *name)?;
        (!function.params[place].ctype.is_pointer()).then_some(place)
    })
}

/// Where communicator, other rank and tag are, and how the rank is called.
fn whom(function: &Function) -> ([Option<usize>; 3], &'static str) {
    let ranks: [(&[&str], &str); 4] = [
        (&["source"], "from"),
        (&["dest"], "to"),
        (&["target_rank", "rank"], "at"),
        (&["root"], "root"),
    ];
    let both = value(function, &["source"]).is_some() && value(function, &["dest"]).is_some();
    let moves = value(function, &["comm", "win"]).is_some();
    let rank = ranks
        .into_iter()
        .filter(|_| moves && !both)
        .find_map(|(names, word)| Some((value(function, names)?, word)));
    let tag = if both {
        None
    } else {
        value(function, &["tag"])
    };
    let places = [
        value(function, &["comm"]),
        rank.map(|(place, _)| place),
        tag,
    ];
    (places, rank.map_or("", |(_, word)| word))
}

/// What is done besides, mostly where `mpiexec -top` watches: before and after the call.
fn watched(function: &Function, index: usize, whom: &str) -> (String, String) {
    let before = match function.name.as_str() {
        "MPI_Wait" => "watch::waits(1, a0 as *const usize);",
        "MPI_Waitall" | "MPI_Waitany" | "MPI_Waitsome" => "watch::waits(a0, a1 as *const usize);",
        "MPI_Comm_set_name" => "watch::named(a0, a1 as *const libc::c_char);",
        "MPI_Comm_free" | "MPI_Comm_disconnect" => "watch::freed(a0 as *const usize);",
        "MPI_Type_free" => "sizes::freed();",
        _ => "",
    };
    let request = function
        .params
        .iter()
        .position(|param| param.name == "request");
    let starts = request.filter(|place| {
        function.params[*place].ctype.is_pointer()
            && *place > 0
            && value(function, &["comm", "win", "fh"]).is_some()
    });
    let after = starts.map(|place| {
        format!(
            "if result as i32 == 0 {{ watch::started(a{place} as *const usize, {index}, {whom}); }}"
        )
    });
    (before.to_owned(), after.unwrap_or_default())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let table = Table::load().unwrap_or_else(|error| panic!("mpi-table/{error}"));
    let mut text = String::new();
    let mut names = Vec::new();
    let mut facts = Vec::new();
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
        let bytes = data(function).map_or("_| 0".to_owned(), |(count, datatype)| {
            let count = if large {
                format!("a{count} as i64")
            } else {
                format!("i64::from(a{count} as i32)")
            };
            format!("sizes| sizes.bytes({count}, a{datatype})")
        });
        let index = names.len();
        let (places, word) = whom(function);
        let whom = places.map(|place| place.map_or("0".to_owned(), |place| format!("a{place}")));
        let whom = format!("[{}]", whom.join(", "));
        let (watch_before, watch_after) = watched(function, index, &whom);
        let [comm, _, tag] = places.map(|place| place.is_some());
        facts.push(format!(
            "Facts {{ comm: {comm}, word: {word:?}, tag: {tag} }}"
        ));
        write!(
            text,
            "#[unsafe(no_mangle)]\n\
             unsafe extern \"C\" fn {name}({params}) -> usize {{\n    \
                 static REAL: Real = Real::new(c\"P{name}\");\n    \
                 // SAFETY: this is the type of the function in registers; see the module.\n    \
                 let real: unsafe extern \"C\" fn({types}) -> usize = unsafe {{ std::mem::transmute(REAL.get()) }};\n    \
                 {watch_before}\n    \
                 let before = enter({index}, {whom});\n    \
                 // SAFETY: the arguments are those that the program gave to this very function.\n    \
                 let result = unsafe {{ real({arguments}) }};\n    \
                 leave(before, {index}, |{bytes});\n    \
                 {watch_after}\n    \
                 result\n\
             }}\n\n"
        )
        .expect("memory");
        names.push(name);
    }
    let _ = writeln!(
        text,
        "/// Which arguments the functions have, in the order of their numbers.\n\
         pub const FACTS: [Facts; {}] = [{}];",
        facts.len(),
        facts.join(", ")
    );
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
