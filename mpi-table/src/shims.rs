//! The exported C functions: for each a Rust function `PMPI_X` and a weak symbol `MPI_X`.

use std::fmt::Write as _;

use crate::Table;
use crate::function::{Chapter, Direction, Function, Kind, Param, Style};
use crate::rust::{rust_name, rust_param, rust_result};

impl Table {
    /// Returns a Rust module with the shims of all implemented functions, for `include!`.
    ///
    /// It expects the types and constants of [`Table::rust_constants`], `std::ffi::*`, `mpi_core`,
    /// `crate::args::{Late, given, kind}`, `mpi_runtime::handles::counts::{IntArray, IntOut}`,
    /// `crate::raise::{Arg, On, raise}`, `crate::tool_codes::with_tool`, and whatever the table's
    /// arguments name in scope. The alias of a function stands in the module of
    /// the function, because the assembler can give another name only to a symbol that it sees.
    pub fn shims(&self) -> String {
        let mut text = String::new();
        for chapter in &self.functions.chapters {
            for function in &chapter.functions {
                if let Some(implementation) = &function.implementation {
                    shim(&mut text, chapter, function, implementation);
                }
            }
        }
        aliases(&mut text, self.weak_names());
        text
    }

    /// Iterates over the weak symbols that the library exports: `MPI_Send` …
    pub fn weak_names(&self) -> impl Iterator<Item = &str> {
        self.functions
            .present()
            .filter(|function| function.is_standard())
            .map(|function| function.name.as_str())
    }

    /// Returns a linker's version script that exports the weak symbols; rustc exports the strong
    /// ones.
    pub fn version_script(&self) -> String {
        version_script(self.weak_names())
    }
}

/// Writes weak symbols for functions.
pub(crate) fn aliases<'a>(text: &mut String, names: impl Iterator<Item = &'a str>) {
    text.push_str("std::arch::global_asm!(\n");
    for name in names {
        let _ = writeln!(text, "    \".weak {name}\",");
        let _ = writeln!(text, "    \".type {name}, @function\",");
        let _ = writeln!(text, "    \".set {name}, P{name}\",");
    }
    text.push_str(");\n");
}

pub(crate) fn version_script<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from("{\n  global:\n");
    for name in names {
        let _ = writeln!(text, "    {name};");
    }
    text.push_str("};\n");
    text
}

fn shim(text: &mut String, chapter: &Chapter, function: &Function, implementation: &str) {
    let name = &function.name;
    let params: Vec<String> = function.params.iter().map(rust_param).collect();
    let names: Vec<String> = function
        .params
        .iter()
        .map(|param| rust_name(&param.name))
        .collect();
    let _ = writeln!(
        text,
        "{}///\n\
         /// # Safety\n\
         /// The arguments are as the standard asks.\n\
         #[unsafe(no_mangle)]\n\
         pub unsafe extern \"C\" fn {}({}){} {{\n    \
         let _entry = mpi_core::breakdown::enter(mpi_core::breakdown::Part::Entry);",
        function.doc_comment(chapter),
        function.strong_name(),
        params.join(", "),
        rust_result(&function.result)
    );
    let call = call(function, implementation);
    let safety = "    // SAFETY: the program keeps to the standard's contract, and the Rust function\n    \
                  // asks for no more than that.\n";
    match function.style {
        Style::Plain | Style::Tool => {
            text.push_str(safety);
            let _ = writeln!(text, "    {call}");
        }
        Style::Checked => {
            let on = object(function, "*object");
            let args: Vec<String> = function.params.iter().map(argument).collect();
            let list = names.join(", ");
            let params = params.join(", ");
            // Reporting takes a stack frame, which the path without errors must not pay for.
            let _ = writeln!(
                text,
                "    #[cold]\n    \
                 #[inline(never)]\n    \
                 fn fail(failure: mpi_core::Error, {params}) -> c_int {{\n        \
                 raise(failure, \"{name}\", {on}, &[{}])\n    \
                 }}",
                args.join(", "),
            );
            let slow_path = format!(
                "{safety}    \
                 match {call} {{\n        \
                 Ok(()) => MPI_SUCCESS,\n        \
                 Err(failure) => fail(failure, {list}),\n    }}"
            );
            if let Some(fast) = &function.fast {
                // Both paths are tail calls, so that only the slow one has a frame. Its name
                // identifies the function, which has left the stack, in reports of hangs.
                let long = format!("{}_long", function.name);
                let _ = writeln!(
                    text,
                    "    #[inline(never)]\n    \
                     #[allow(non_snake_case, reason = \"a name of C\")]\n    \
                     unsafe fn {long}({params}) -> c_int {{\n{slow_path}\n    }}\n    \
                     // SAFETY: the program keeps to the standard's contract.\n    \
                     match {} {{\n        \
                     Some(code) => code,\n        \
                     // SAFETY: the arguments are those of the call.\n        \
                     None => unsafe {{ {long}({list}) }},\n    }}",
                    fast_call(function, fast, &list)
                );
            } else {
                let _ = writeln!(text, "{slow_path}");
            }
        }
    }
    text.push_str("}\n\n");
}

/// Returns the call of the Rust function. An argument that fails its conversion ends it with the
/// error.
pub(crate) fn call(function: &Function, implementation: &str) -> String {
    let (path, arguments) = function.rust_call(implementation);
    // SAFETY: in the generated code, the shim's line above the call states it.
    let call = format!("unsafe {{ crate::api::{path}({arguments}) }}");
    match function.style {
        Style::Plain => call,
        Style::Checked => format!("(|| {call})()"),
        // SAFETY: in the generated code, the shim's line above the call states it.
        Style::Tool => {
            format!("with_tool(|tool| unsafe {{ crate::api::{path}(tool, {arguments}) }})")
        }
    }
}

/// Returns the call of the fast path, which takes counts that fit into ints.
pub(crate) fn fast_call(function: &Function, fast: &str, list: &str) -> String {
    let path = fast.replace("LARGE", if function.is_large() { "true" } else { "false" });
    let list = late_handles(function, list);
    // SAFETY: in the generated code, the shim's line above the call states it.
    let call = format!("unsafe {{ crate::api::{path}({list}) }}");
    let narrowed = function.narrowed();
    if narrowed.is_empty() {
        return call;
    }
    let tries: Vec<String> = narrowed
        .iter()
        .map(|name| format!("c_int::try_from({name})"))
        .collect();
    let oks: Vec<String> = narrowed.iter().map(|name| format!("Ok({name})")).collect();
    format!(
        "match ({},) {{\n        \
         // SAFETY: the program keeps to the standard's contract.\n        \
         ({},) => {call},\n        _ => None,\n    }}",
        tries.join(", "),
        oks.join(", ")
    )
}

/// Wraps the communicator or window among the arguments `list`, which the fast path looks up, in a
/// `Late`.
fn late_handles(function: &Function, list: &str) -> String {
    let wrap = |(param, name): (&Param, &str)| match param.kind {
        Kind::Comm | Kind::Win => format!("Late::new({name})"),
        _ => name.to_owned(),
    };
    let names = function.params.iter().zip(list.split(", "));
    let wrapped: Vec<String> = names.map(wrap).collect();
    wrapped.join(", ")
}

/// Functions whose error handler argument is for the object that they create and for their own
/// errors (MPI-4.1 sections 7.4.2, 7.6.2 and 11.3.1).
const MAKERS: [&str; 3] = [
    "MPI_Session_init",
    "MPI_Comm_create_from_group",
    "MPI_Intercomm_create_from_groups",
];

/// Returns the object on which an error is raised (section 8.3): the communicator, window or file
/// among the arguments. `target` is the handle that `object` refers to.
pub(crate) fn object(function: &Function, target: &str) -> String {
    // Before there is a file, errors go to the handler of MPI_FILE_NULL (section 13.7).
    let is_io =
        function.name.starts_with("MPI_File_") || function.name.starts_with("MPI_Register_datarep");
    let candidates: &[(Kind, &str)] = if is_io {
        &[(Kind::File, "File")]
    } else {
        &[
            (Kind::Comm, "Comm"),
            (Kind::Win, "Win"),
            (Kind::Session, "Session"),
        ]
    };
    // These functions raise errors on the error handler argument.
    if MAKERS.contains(&function.name.as_str()) {
        let variant = match function.name.as_str() {
            "MPI_Session_init" => "NewSession",
            _ => "NewComm",
        };
        return format!("On::{variant}(errhandler)");
    }
    for (kind, variant) in candidates {
        let param = function
            .params
            .iter()
            .find(|param| param.kind == *kind && param.direction != Direction::Out);
        if let Some(param) = param {
            let name = rust_name(&param.name);
            if !param.ctype.is_pointer() {
                return format!("On::{variant}({name})");
            }
            // An array of handles has no single object.
            if param.ctype.dimensions.is_empty() && param.direction == Direction::InOut {
                return format!(
                    "// SAFETY: NULL, or by the standard's contract a handle of the program's.\n            \
                     match unsafe {{ {name}.as_ref() }} {{ \
                     Some(object) => On::{variant}({target}), None => On::Process }}"
                );
            }
        }
    }
    if is_io {
        "On::File(MPI_FILE_NULL)".to_owned()
    } else {
        "On::Process".to_owned()
    }
}

/// Returns the description of an argument for error messages.
pub(crate) fn argument(param: &Param) -> String {
    let name = rust_name(&param.name);
    let value = if param.ctype.is_callback() {
        format!("Arg::Pointer({name}.map_or(std::ptr::null(), |f| f as *const c_void))")
    } else if param.ctype.is_pointer() {
        match param.kind {
            Kind::Buffer => format!("Arg::Buffer({name}.cast())"),
            Kind::Text if param.ctype.is_const => format!("Arg::Text({name})"),
            _ => format!("Arg::Pointer({name}.cast())"),
        }
    } else {
        match param.kind {
            Kind::Comm
            | Kind::Group
            | Kind::Datatype
            | Kind::Op
            | Kind::Request
            | Kind::Message
            | Kind::Errhandler
            | Kind::Info
            | Kind::Session
            | Kind::Stream
            | Kind::Win => {
                format!("Arg::Handle(\"{}\", {name})", param.ctype.base)
            }
            Kind::File | Kind::Tool | Kind::AsyncThing => format!("Arg::Pointer({name}.cast())"),
            Kind::Aint | Kind::Offset | Kind::BigCount => format!("Arg::Long({name})"),
            Kind::Count if param.ctype.base == "MPI_Count" => format!("Arg::Long({name})"),
            Kind::Rank => format!("Arg::Rank({name})"),
            Kind::Tag => format!("Arg::Tag({name})"),
            _ => format!("Arg::Int({name})"),
        }
    };
    format!("(\"{}\", {value})", param.name)
}
