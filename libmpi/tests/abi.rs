//! Compares types, values and prototypes with the header of another library of the same ABI.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use mpi_table::{Item, Table, Value};

/// Names that differ on purpose: the other header is of MPI 4 and lacks 16-byte integers.
const DIFFERENT: &[&str] = &["MPI_VERSION", "MPI_SUBVERSION", "MPI_INTEGER16"];

/// Names of the other header that Weft's lacks: of MPI 4, and its own.
const BEYOND: &[&str] = &[
    "MPI_AINT_FMT_DEC_SPEC",
    "MPI_AINT_FMT_HEX_SPEC",
    "MPI_COMM_TYPE_HW_GUIDED",
    "MPI_COMM_TYPE_HW_UNGUIDED",
    "MPI_ERRORS_ABORT",
    "MPI_ERR_PROC_ABORTED",
    "MPI_ERR_SESSION",
    "MPI_ERR_VALUE_TOO_LARGE",
    "MPI_FILE_DEFINED",
    "MPI_INCLUDED",
    "MPI_MAX_PSET_NAME_LEN",
    "MPI_MAX_STRINGTAG_LEN",
    "MPI_PROTO_H_INCLUDED",
    "MPI_SESSION_NULL",
    "MPI_Session_c2f",
    "MPI_Session_f2c",
    "MPI_T_ERR_NOT_SUPPORTED",
];

/// Constants that the other header is too old for, with the values of MPICH 5.0.
const NEWER: &[(&str, i64)] = &[
    ("MPI_BUFFER_AUTOMATIC", -2),
    ("MPI_COMPLEX4", 0x4c00_042e),
    ("MPI_LOGICAL1", 0x4c00_0147),
    ("MPI_LOGICAL16", 0x4c00_104b),
    ("MPI_LOGICAL2", 0x4c00_0248),
    ("MPI_LOGICAL4", 0x4c00_0449),
    ("MPI_LOGICAL8", 0x4c00_084a),
    ("MPI_REAL2", 0x4c00_0226),
    ("MPIX_ASYNC_DONE", 1),
    ("MPIX_ASYNC_NOPROGRESS", 0),
    ("MPIX_BFLOAT16", 0x4c00_024c),
    ("MPIX_EQUAL", 0x5800_000f),
    ("MPIX_ERR_STREAM", 106),
    ("MPIX_STREAM_NULL", 0x3c00_0000),
    ("MPI_COMBINER_VALUE_INDEX", 20),
    ("MPI_COMM_TYPE_RESOURCE_GUIDED", 4),
    ("MPI_ERR_ABI", 81),
    ("MPI_ERR_ERRHANDLER", 80),
    ("MPIX_GPU_SUPPORT_CUDA", 0),
    ("MPIX_GPU_SUPPORT_HIP", 2),
    ("MPIX_GPU_SUPPORT_ZE", 1),
    ("MPI_T_BIND_MPI_SESSION", 9711),
    ("MPI_T_ERR_NOT_ACCESSIBLE", 79),
];

/// A struct that the other header lacks.
const NEWER_STRUCT: &str = "MPIX_Iov";

/// Handle types that the other header lacks.
const NEWER_HANDLES: [&str; 2] = ["MPIX_Stream", "MPIX_Async_thing"];

/// Functions whose arguments have become `const` since the other header.
const NOW_CONSTANT: &[&str] = &["MPI_Pready_list"];

/// Enumerations of the other header that are integers of the same size in Weft's.
const ENUMERATIONS: &[&str] = &["MPI_T_cb_safety", "MPI_T_source_order"];

#[test]
fn newer_values_are_those_of_the_abi() {
    let table = Table::load().expect("a good table");
    for (name, expected) in NEWER {
        let found = table.constants.items().find_map(|item| match item {
            Item::Constant {
                name: other,
                value: Value::Integer { number, .. },
                ..
            } if other == name => Some(*number),
            _ => None,
        });
        assert_eq!(found, Some(*expected), "{name}");
    }
}

#[test]
fn values_and_layouts_are_those_of_the_abi() {
    let Some(theirs) = common::mpich_include() else {
        return;
    };
    let table = Table::load().expect("a good table");
    let dir = common::installed();
    let source = common::write(dir.path(), "values.c", &printer(&table));
    let ours = values(dir.path(), &source, &common::include());
    let theirs = values(dir.path(), &source, &theirs);
    assert!(ours.len() > 300, "only {} values", ours.len());
    let mut problems = Vec::new();
    for (name, value) in &ours {
        let other = theirs.get(name).map_or("nothing", String::as_str);
        if value != other && !DIFFERENT.contains(&name.as_str()) {
            problems.push(format!("{name} is {value}, must be {other}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns a C program that prints every constant and the layout of every type.
fn printer(table: &Table) -> String {
    let mut body = String::new();
    for item in table.constants.items() {
        let name = item.name();
        let newer = NEWER.iter().any(|(newer, _)| *newer == name);
        if newer || name == NEWER_STRUCT || NEWER_HANDLES.contains(&name) {
            continue;
        }
        let _ = match item {
            Item::Typedef { .. } | Item::Handle { .. } if !name.ends_with("_fn") => {
                writeln!(body, "    show(\"sizeof {name}\", sizeof({name}));")
            }
            Item::Struct { fields, .. } => {
                let _ = writeln!(body, "    show(\"sizeof {name}\", sizeof({name}));");
                for (_, field) in fields {
                    let _ = writeln!(
                        body,
                        "    show(\"{name}.{field}\", offsetof({name}, {field}));"
                    );
                }
                Ok(())
            }
            Item::Constant { .. } => writeln!(
                body,
                "    show(\"{name}\", (long long)({name}));\n    \
                 show(\"sizeof {name}\", sizeof({name}));"
            ),
            Item::Alias { .. } => writeln!(body, "    show(\"{name}\", (long long)({name}));"),
            Item::Data { .. } => {
                writeln!(body, "    show(\"sizeof {name}\", sizeof({name}));")
            }
            Item::Typedef { .. } | Item::Handle { .. } | Item::Callback { .. } => Ok(()),
        };
    }
    // Addresses of functions differ from run to run, so their names are compared.
    format!(
        "#include <stddef.h>\n\
         #include <stdio.h>\n\
         #include <mpi.h>\n\
         int MPIR_Dup_fn(MPI_Comm, int, void *, void *, void *, int *);\n\
         static void show(const char *name, long long value) {{\n    \
             if (value == (long long)&MPIR_Dup_fn) printf(\"%s = MPIR_Dup_fn\\n\", name);\n    \
             else printf(\"%s = %lld\\n\", name, value);\n\
         }}\n\
         int main(void) {{\n{body}    return 0;\n}}\n"
    )
}

fn values(dir: &Path, source: &Path, include: &Path) -> BTreeMap<String, String> {
    let program = dir.join("values");
    common::compile(
        common::cc(include)
            .args(["-std=gnu11", "-w", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-L")
            .arg(dir)
            .arg(format!("-Wl,-rpath,{}", dir.display()))
            .arg("-lmpi"),
    );
    common::stdout(&mut Command::new(&program))
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Has the compiler compare all prototypes, also of missing functions: C allows another declaration
/// of a function or typedef only with a compatible type.
#[test]
fn prototypes_are_those_of_the_abi() {
    let Some(theirs) = common::mpich_include() else {
        return;
    };
    let table = Table::load().expect("a good table");
    let mut text = format!(
        "#include <mpi.h>\n\
         typedef struct {NEWER_STRUCT} {{ void *iov_base; MPI_Aint iov_len; }} {NEWER_STRUCT};\n"
    );
    for line in table.header().lines() {
        if line.starts_with("extern MPI") || line.starts_with("extern int") {
            let _ = writeln!(text, "{line}");
        }
    }
    // A callback's typedef spans several lines.
    let header = table.header();
    for typedef in header.split("typedef ").skip(1) {
        let end = typedef.find(';').expect("a semicolon");
        let is_enumeration = ENUMERATIONS
            .iter()
            .any(|name| typedef[..end].ends_with(name));
        if !typedef[..end].contains('{') && !is_enumeration {
            let _ = writeln!(text, "typedef {};", &typedef[..end]);
        }
    }
    let same = |name: &str| !NOW_CONSTANT.contains(&name);
    for function in table.functions.all().filter(|one| same(&one.name)) {
        let names = [function.name.clone(), function.strong_name()];
        for name in names {
            let _ = writeln!(text, "#undef {name}\n{};", function.prototype(&name));
        }
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let source = common::write(dir.path(), "again.c", &text);
    common::compile(
        common::cc(&theirs)
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
            .arg(&source),
    );
}

#[test]
fn no_macro_of_the_standard_is_forgotten() {
    let Some(theirs) = common::mpich_include() else {
        return;
    };
    let table = Table::load().expect("a good table");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let source = common::write(dir.path(), "macros.c", "#include <mpi.h>\n");
    let text = common::stdout(common::cc(&theirs).args(["-dM", "-E"]).arg(&source));
    let mut forgotten = Vec::new();
    for line in text.lines() {
        let name: String = line
            .strip_prefix("#define ")
            .unwrap_or_default()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let known = table.constants.items().any(|item| item.name() == name)
            || table.functions.all().any(|function| function.name == name);
        if name.starts_with("MPI_") && !known && !BEYOND.contains(&name.as_str()) {
            forgotten.push(name);
        }
    }
    assert!(forgotten.is_empty(), "not in constants.mpi: {forgotten:?}");
}
