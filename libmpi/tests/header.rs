//! Tests that `include/mpi.h` is generated from the tables and that compilers accept it.

mod common;

use std::fs;
use std::process::Command;

use mpi_table::Table;

#[test]
fn header_is_up_to_date() {
    let path = common::include().join("mpi.h");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let table = Table::load().expect("a good table");
    assert!(
        text == table.header(),
        "include/mpi.h is stale: run `cargo xtask headers`"
    );
}

#[test]
fn header_compiles_alone() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let source = "#include <mpi.h>\n";
    let c = common::write(dir.path(), "alone.c", source);
    let cxx = common::write(dir.path(), "alone.cpp", source);
    for (compiler, standard, source) in [
        ("cc", "c99", &c),
        ("cc", "c11", &c),
        ("c++", "c++11", &cxx),
        ("c++", "c++17", &cxx),
    ] {
        let mut command = Command::new(compiler);
        command
            .arg(format!("-std={standard}"))
            .args([
                "-Wall",
                "-Wextra",
                "-pedantic",
                "-Werror",
                "-fsyntax-only",
                "-I",
            ])
            .arg(common::include())
            .arg(source);
        common::compile(&mut command);
    }
}

/// Uses constants in expressions, also in C++, and where the compiler needs a constant.
#[test]
fn constants_can_be_used() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = "#include <mpi.h>\n\
        static int label(MPI_Datatype type) {\n\
            switch (type) {\n\
            case MPI_INT: return 1;\n\
            case MPI_DOUBLE_INT: return 2;\n\
            default: return MPI_UNDEFINED;\n\
            }\n\
        }\n\
        static MPI_Comm_copy_attr_function *copy = MPI_COMM_DUP_FN;\n\
        static MPI_Comm_delete_attr_function *forget = MPI_COMM_NULL_DELETE_FN;\n\
        static char name[MPI_MAX_PROCESSOR_NAME];\n\
        int main(void) {\n\
            MPI_Status status = { 0, 0, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS };\n\
            const void *place = MPI_IN_PLACE;\n\
            MPI_Status *none = MPI_STATUS_IGNORE;\n\
            return label(MPI_INT) + status.MPI_TAG + (place == MPI_BOTTOM) + (none == &status)\n\
                + (copy == 0) + (forget != 0) + name[0] + (MPI_UNWEIGHTED == MPI_WEIGHTS_EMPTY);\n\
        }\n";
    let c = common::write(dir.path(), "use.c", text);
    let cxx = common::write(dir.path(), "use.cpp", text);
    let installed = common::installed();
    for (compiler, source) in [("cc", &c), ("c++", &cxx)] {
        let program = dir.path().join("use");
        let mut command = Command::new(compiler);
        command
            .args(["-Wall", "-Wextra", "-Werror", "-I"])
            .arg(common::include())
            .arg("-o")
            .arg(&program)
            .arg(source)
            .arg("-L")
            .arg(installed.path())
            .arg(format!("-Wl,-rpath,{}", installed.path().display()))
            .arg("-lmpi");
        common::compile(&mut command);
        common::stdout(&mut Command::new(&program));
    }
}
