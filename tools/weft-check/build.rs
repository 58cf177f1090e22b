//! Generates a wrapper of each checked MPI function, and tables of their parameters and of
//! constants.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use mpi_table::{CType, Direction, Function, Item, Kind, Table, Value};

/// Checked functions that their parameters don't mark as such.
const OTHERS: [&str; 7] = [
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Finalize",
    "MPI_Abort",
    "MPI_Barrier",
    "MPI_Win_create",
    "MPI_Cancel",
];

/// Returns the name in `ParamKind` of objects that programs create and free.
fn object(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Comm => "Comm",
        Kind::Group => "Group",
        Kind::Datatype => "Datatype",
        Kind::Op => "Op",
        Kind::Request => "Request",
        Kind::Message => "Message",
        Kind::Errhandler => "Errhandler",
        Kind::Info => "Info",
        Kind::Win => "Win",
        Kind::Session => "Session",
        Kind::File => "File",
        _ => return None,
    })
}

/// Returns whether calls of a function are checked.
fn is_checked(function: &Function) -> bool {
    let returns_a_code = function.result.base == "int" && function.result.pointers == 0;
    let is_plain = function.variadic
        || function.is_macro
        || function.is_companion
        || function.name.starts_with("MPI_T_")
        || !function.name.starts_with("MPI_")
        || function.name.ends_with("_toint")
        || function.name.ends_with("_fromint");
    let makes_or_ends = |param: &mpi_table::Param| {
        object(param.kind).is_some() && param.ctype.is_pointer() && param.direction != Direction::In
    };
    let has = |kind| function.params.iter().any(|param| param.kind == kind);
    let moves = has(Kind::Comm) && has(Kind::Buffer);
    let is_other = OTHERS.contains(&function.name.as_str());
    returns_a_code && !is_plain && (moves || is_other || function.params.iter().any(makes_or_ends))
}

/// Returns whether a constant is one of the integers that the library needs.
fn is_number(name: &str, ctype: &CType) -> bool {
    let names = [
        "MPI_ANY_SOURCE",
        "MPI_ANY_TAG",
        "MPI_PROC_NULL",
        "MPI_ROOT",
        "MPI_UNDEFINED",
    ];
    ctype.base == "int" && (names.contains(&name) || name.starts_with("MPI_COMBINER_"))
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let table = Table::load().unwrap_or_else(|error| panic!("mpi-table/{error}"));
    let mut text = String::new();
    let mut functions = String::new();
    let mut index = 0;
    for function in table
        .functions
        .present()
        .filter(|function| is_checked(function))
    {
        let name = &function.name;
        let count = function.params.len();
        let params: String = (0..count).map(|i| format!("a{i}: usize, ")).collect();
        let types = "usize, ".repeat(count);
        let own: String = (0..count).map(|i| format!("a{i}, ")).collect();
        let passed: String = (0..count).map(|i| format!("args[{i}], ")).collect();
        write!(
            text,
            "#[unsafe(no_mangle)]\n\
             unsafe extern \"C\" fn {name}({params}) -> usize {{\n    \
                 static REAL: Real = Real::new(c\"P{name}\");\n    \
                 // SAFETY: the MPI standard gives the function these parameters, each in a register.\n    \
                 let real: unsafe extern \"C\" fn({types}) -> usize = unsafe {{ std::mem::transmute(REAL.get()) }};\n    \
                 let mut args: [usize; {count}] = [{own}];\n    \
                 let before = before({index}, &mut args);\n    \
                 // SAFETY: the arguments are those that the program gave to this very function.\n    \
                 let result = unsafe {{ real({passed}) }};\n    \
                 after(before, {index}, &args, result);\n    \
                 result\n\
             }}\n\n"
        )
        .expect("memory");
        let params: String = function
            .params
            .iter()
            .map(|param| {
                let kind = match param.kind {
                    Kind::Buffer => "Some(ParamKind::Buffer)".to_owned(),
                    kind => format!("{:?}", object(kind))
                        .replace("Some(\"", "Some(ParamKind::")
                        .replace("\")", ")"),
                };
                format!(
                    "Param {{ name: {:?}, kind: {kind}, pointer: {}, array: {}, written: {}, read: {}, wide: {} }}, ",
                    param.name,
                    param.ctype.is_pointer(),
                    !param.ctype.dimensions.is_empty(),
                    param.direction != Direction::In,
                    param.direction != Direction::Out,
                    matches!(param.kind, Kind::Aint | Kind::Offset | Kind::BigCount)
                        || param.ctype.base == "MPI_Count" || param.ctype.base == "MPI_Aint",
                )
            })
            .collect();
        let base = function.narrow_name().unwrap_or(name);
        writeln!(
            functions,
            "    Function {{ name: {name:?}, base: {base:?}, params: &[{params}] }},"
        )
        .expect("memory");
        index += 1;
    }
    let mut tables = String::new();
    write!(
        tables,
        "/// The checked functions, in the order of their numbers.\n\
         pub static FUNCTIONS: [Function; {index}] = [\n{functions}];\n\n"
    )
    .expect("memory");
    constants(&table, &mut tables);
    let dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, text) in [("shims.rs", text), ("tables.rs", tables)] {
        let out = dir.join(name);
        fs::write(&out, text).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    }
}

/// Writes the predefined handles and some integers of all three ABIs.
fn constants(table: &Table, text: &mut String) {
    let mut handles = String::new();
    let mut numbers = String::new();
    for item in table.constants.items() {
        let Item::Constant {
            name,
            ctype,
            value: Value::Integer { number, .. },
        } = item
        else {
            continue;
        };
        let in_other = |values: &mpi_table::Standard| {
            values.constants.items().find_map(|item| match item {
                Item::Constant {
                    name: other,
                    value: Value::Integer { number, .. },
                    ..
                } if other == name => Some(*number),
                _ => None,
            })
        };
        let other = in_other(&table.standard);
        if let Some(kind) = ctype.base.strip_prefix("MPI_")
            && table.constants.is_handle(&ctype.base)
            && [
                "Comm",
                "Group",
                "Datatype",
                "Op",
                "Request",
                "Message",
                "Errhandler",
                "Info",
                "Win",
                "Session",
                "File",
            ]
            .contains(&kind)
        {
            let mpich = if kind == "File" {
                *number
            } else {
                i64::from(*number as u32)
            };
            let mut objects = table.openmpi.objects.iter();
            let object = objects.find(|object| object.name == *name);
            let symbol = object.map_or("", |object| object.symbol.as_str());
            writeln!(
                handles,
                "    (ParamKind::{kind}, {name:?}, [{mpich}, {}], c{symbol:?}),",
                other.unwrap_or(-1)
            )
            .expect("memory");
        } else if is_number(name, ctype) {
            writeln!(
                numbers,
                "    ({name:?}, [{number}, {}, {}]),",
                other.unwrap_or(i64::from(i32::MIN)),
                in_other(&table.openmpi.values).unwrap_or(i64::from(i32::MIN))
            )
            .expect("memory");
        }
    }
    write!(
        text,
        "/// Predefined handles and null ones: kind, name, values in MPICH's ABI and the standard one, the variable of\n\
         /// Open MPI's.\n\
         pub static HANDLES: &[(ParamKind, &str, [i64; 2], &std::ffi::CStr)] = &[\n{handles}];\n\n\
         /// Numbers: name, values in MPICH's ABI, the standard one, Open MPI's.\n\
         pub static NUMBERS: &[(&str, [i64; 3])] = &[\n{numbers}];\n"
    )
    .expect("memory");
}
