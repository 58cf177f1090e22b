//! The generators produce valid C and Rust for every function of the table, including those that
//! the library lacks.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use mpi_table::{Style, Table};

/// The table as if every function were implemented, each by a function of the same name.
fn complete() -> Table {
    let mut table = Table::load().expect("good tables");
    for chapter in &mut table.functions.chapters {
        for function in &mut chapter.functions {
            function.implement(format!("all::{}", function.name));
        }
    }
    table
}

/// Functions that never return, with the arguments of the shims' calls.
fn implementations(table: &Table) -> String {
    let mut text = String::new();
    for function in table.functions.all() {
        let list = |types: Vec<String>| {
            let list: Vec<String> = types.iter().map(|one| format!("_: {one}")).collect();
            list.join(", ")
        };
        let result = match function.style {
            Style::Checked | Style::Tool => "Result<(), crate::mpi_core::Error>".to_owned(),
            Style::Plain if function.result.to_c("") == "void" => "()".to_owned(),
            Style::Plain => function.result.to_rust(),
        };
        let mut types = function.rust_types();
        if function.style == Style::Tool {
            types.insert(0, "&mut ()".to_owned());
        }
        let _ = writeln!(
            text,
            "pub unsafe fn {}({}) -> {result} {{ loop {{}} }}",
            function.name,
            list(types)
        );
        if function.fast.is_some() {
            let _ = writeln!(
                text,
                "pub unsafe fn {}_fast({}) -> Option<c_int> {{ None }}",
                function.name,
                list(function.fast_types())
            );
        }
    }
    text
}

#[test]
fn shims_of_all_functions_compile() {
    let table = complete();
    let text = format!(
        "#![allow(nonstandard_style, dead_code, unused)]\n\
         mod abi {{ use std::ffi::*;\n{}}}\n\
         mod mpi_core {{ pub struct Error; \
         pub mod breakdown {{ pub enum Part {{ Entry }} pub fn enter(_: Part) {{}} }} }}\n\
         mod raise {{ use std::ffi::*;\n\
         pub enum On {{ Comm(crate::abi::MPI_Comm), Win(crate::abi::MPI_Win), \
         File(crate::abi::MPI_File), Session(crate::abi::MPI_Session), \
         NewComm(crate::abi::MPI_Errhandler), NewSession(crate::abi::MPI_Errhandler), Process }}\n\
         pub enum Arg {{ Buffer(*const c_void), Pointer(*const c_void), Int(c_int), \
         Long(c_long), Rank(c_int), Tag(c_int), Handle(&'static str, c_int), \
         Text(*const c_char) }}\n\
         pub fn raise(_: crate::mpi_core::Error, _: &str, _: On, _: &[(&str, Arg)]) -> c_int {{ 0 }} }}\n\
         mod mpi_runtime {{ pub mod handles {{ pub mod counts {{ use std::ffi::*; \
         pub enum IntArray {{ Int(*const c_int), Large(*const c_long) }} \
         pub enum IntOut {{ Int(*mut c_int), Large(*mut c_long) }} }} }} }}\n\
         mod args {{ pub mod kind {{ pub enum Comm {{}} pub enum Group {{}} pub enum Win {{}} \
         pub enum File {{}} pub enum Session {{}} pub enum Datatype {{}} pub enum Op {{}} \
         pub enum Errhandler {{}} pub enum Info {{}} pub enum Request {{}} pub enum Output {{}} pub enum Variable {{}} \
         pub enum Text {{}} pub enum Callback {{}} \
         pub enum ErrorFunction {{}} pub enum OutText {{}} pub enum StatusIn {{}} }} \
         pub struct Late; impl Late {{ pub unsafe fn new<H>(handle: H) -> H {{ handle }} }} \
         pub unsafe fn given<K, R, T: From<R>>(raw: R, _: &'static str) -> Result<T, crate::mpi_core::Error> \
         {{ Ok(raw.into()) }} }}\n\
         mod tool_codes {{ use std::ffi::*; pub fn with_tool(_: impl FnOnce(&mut ()) \
         -> Result<(), crate::mpi_core::Error>) -> c_int {{ 0 }} }}\n\
         mod api {{ pub mod all {{ use std::ffi::*; use crate::abi::*; use crate::mpi_runtime::handles::counts::*;\n{}}} }}\n\
         mod shims {{ use std::ffi::*; use crate::abi::*; use crate::args::{{Late, given, kind}}; use crate::mpi_runtime::handles::counts::*; use crate::raise::{{Arg, On, raise}}; use crate::tool_codes::with_tool; use crate::mpi_core;\n\
         {}}}\n",
        table.rust_constants(),
        implementations(&table),
        table.shims()
    );
    compile(
        "rustc",
        &["--edition=2024", "--crate-type=lib"],
        "all.rs",
        &text,
    );
}

#[test]
fn header_with_all_functions_compiles() {
    let text = complete().header();
    let warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
    for (compiler, standard, file) in [
        ("cc", "-std=c99", "all.c"),
        ("c++", "-std=c++11", "all.cpp"),
    ] {
        let options = [&[standard][..], &warnings].concat();
        compile(compiler, &options, file, &text);
    }
}

#[test]
fn special_arguments_give_no_warnings() {
    let use_them = r#"
        int main(int argc, char **argv) {
            MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
            MPI_Comm comm;
            int count = 0, found = 0, indices[2], sources[1] = { 0 };
            double value = 1.0;
            MPI_Init(&argc, &argv);
            MPI_Init(NULL, NULL);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            MPI_Testall(2, requests, &count, MPI_STATUSES_IGNORE);
            MPI_Waitsome(2, requests, &found, indices, MPI_STATUSES_IGNORE);
            MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                MPI_STATUS_IGNORE);
            MPI_Bcast(MPI_BOTTOM, 0, MPI_BYTE, 0, MPI_COMM_WORLD);
            MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            MPI_Comm_spawn("x", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm,
                MPI_ERRCODES_IGNORE);
            MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 0, NULL,
                MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &comm);
            MPI_Gather(&value, 1, MPI_DOUBLE, NULL, 0, MPI_DATATYPE_NULL, 1, MPI_COMM_WORLD);
            MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &found, NULL);
            return MPI_Finalize();
        }
    "#;
    let text = format!("#include <stddef.h>\n{}{use_them}", complete().header());
    let options = ["-O2", "-Wall", "-Wextra", "-Werror"];
    compile("cc", &options, "special.c", &text);
    compile("c++", &options, "special.cpp", &text);
}

#[test]
fn nothing_is_missing_from_a_complete_table() {
    let report = complete().coverage();
    assert!(!report.contains("missing"), "{report}");
    assert!(report.lines().count() > 10);
}

fn compile(compiler: &str, options: &[&str], file: &str, text: &str) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = dir.join(file);
    fs::write(&source, text).expect("a temporary file");
    let output = Command::new(compiler)
        .args(options)
        .arg("-o")
        .arg(dir.join(format!("{file}.o")))
        .args(if compiler == "rustc" {
            &[][..]
        } else {
            // For mpicxx.h, which mpi.h includes.
            &[
                "-c",
                concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../include"),
            ]
        })
        .arg(&source)
        .output()
        .expect("a compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
