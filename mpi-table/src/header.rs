//! `mpi.h`.

use std::fmt::Write as _;

use crate::constant::{Item, Value};
use crate::function::{Function, prototype_text};
use crate::{Chapter, Group, Table};

/// The macros by which programs detect MPICH's version, names, values and types.
const AS_MPICH: &str = "\
/* The version of MPICH whose names, values and types these are. */
#define MPICH 1
#define MPICH_NAME 5
#define MPICH_VERSION \"5.0.2\"
#define MPICH_NUMVERSION 50002300
#define MPICH_RELEASE_TYPE_ALPHA 0
#define MPICH_RELEASE_TYPE_BETA 1
#define MPICH_RELEASE_TYPE_RC 2
#define MPICH_RELEASE_TYPE_PATCH 3
#define MPICH_CALC_VERSION(MAJOR, MINOR, REVISION, TYPE, PATCH) \\
    ((MAJOR) * 10000000 + (MINOR) * 100000 + (REVISION) * 1000 + (TYPE) * 100 + (PATCH))
#define HAVE_MPI_OFFSET
#define MPI_FILE_DEFINED
#define MPI_AINT_FMT_DEC_SPEC \"%ld\"
#define MPI_AINT_FMT_HEX_SPEC \"%lx\"

";

/// Longest line of the header.
const WIDTH: usize = 100;

impl Table {
    /// Returns the text of `mpi.h`: all types and constants, and the implemented functions.
    pub fn header(&self) -> String {
        let mut text = preamble(
            "Types and values are those of the MPICH ABI (libmpi.so.12): a program that is compiled\n \
             * with this header runs with any library of that ABI, and the reverse.",
        );
        text.push_str(AS_MPICH);
        for group in &self.constants.groups {
            self.group(&mut text, group);
        }
        for chapter in &self.functions.chapters {
            chapter_text(&mut text, chapter, |function| !function.is_companion);
        }
        text.push_str(
            "#ifdef __cplusplus\n\
             }\n\
             #endif\n\
             \n\
             /* The C++ bindings of MPI-2.2. */\n\
             #if defined(__cplusplus) && !defined(MPICH_SKIP_MPICXX) && !defined(OMPI_SKIP_MPICXX)\n\
             #include \"mpicxx.h\"\n\
             #endif\n\
             \n\
             #endif /* MPI_INCLUDED */\n",
        );
        text
    }

    /// Returns the text of `mpi.h` for the standard ABI.
    pub fn standard_header(&self) -> String {
        let mut text = preamble(
            "Types and values are those of the standard ABI (MPI-5.0 chapter 21, libmpi_abi.so.1): a\n \
             * program that is compiled with this header runs with any library of that ABI, and\n \
             * the reverse.",
        );
        for group in &self.outer_constants() {
            self.group(&mut text, group);
        }
        for chapter in &self.functions.chapters {
            chapter_text(&mut text, chapter, Function::in_standard_abi);
        }
        text.push_str("#ifdef __cplusplus\n}\n#endif\n\n#endif /* MPI_INCLUDED */\n");
        text
    }

    /// Returns a header for the library of the C++ bindings: declarations of missing functions,
    /// which `mpi.h` lacks, as weak references.
    pub fn missing_header(&self) -> String {
        let mut text = String::from("extern \"C\" {\n");
        for function in self.functions.all() {
            if function.implementation.is_none() && function.is_standard() {
                let prototype = function.prototype(&function.name);
                line(&mut text, &format!("{prototype} __attribute__((weak));"));
            }
        }
        text.push_str("}\n");
        text
    }

    fn group(&self, text: &mut String, group: &Group) {
        comment(text, &group.title);
        for item in &group.items {
            match item {
                Item::Typedef { name, ctype } | Item::Handle { name, ctype } => {
                    line(text, &format!("typedef {};", ctype.to_c(name)));
                }
                Item::Struct { name, fields } => {
                    let _ = writeln!(text, "typedef struct {name} {{");
                    for (ctype, field) in fields {
                        let _ = writeln!(text, "    {};", ctype.to_c(field));
                    }
                    let _ = writeln!(text, "}} {name};");
                }
                Item::Callback {
                    name,
                    result,
                    params,
                    variadic,
                } => {
                    let prototype = prototype_text(result, &format!("({name})"), params, *variadic);
                    line(text, &format!("typedef {prototype};"));
                }
                Item::Constant { name, ctype, value } => {
                    let value = self.value(&ctype.to_c(""), value);
                    let _ = writeln!(text, "#define {name} {value}");
                }
                Item::Alias { name, target } => {
                    let _ = writeln!(text, "#define {name} {target}");
                }
                Item::Data { name, ctype } => {
                    line(text, &format!("extern {};", ctype.to_c(name)));
                }
            }
        }
        text.push('\n');
    }

    fn value(&self, ctype: &str, value: &Value) -> String {
        match value {
            Value::Integer { number, text } if ctype == "int" && *number >= 0 => text.clone(),
            Value::Integer { text, .. } if ctype == "int" => format!("({text})"),
            Value::Integer { number, text } if *number >= 0 => format!("(({ctype}){text})"),
            Value::Integer { text, .. } => format!("(({ctype})({text}))"),
            Value::Name(name) => format!("(({ctype}){name})"),
        }
    }
}

fn preamble(abi: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let part = |text: &str| text.parse::<u32>().unwrap_or(0);
    let number = part(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
        + part(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
        + part(env!("CARGO_PKG_VERSION_PATCH"));
    format!(
        "/*\n \
         * mpi.h: the C interface of Weft, an implementation of MPI-5.0.\n \
         *\n \
         * {abi}\n \
         * Only functions that this version of Weft has are declared.\n \
         *\n \
         * Generated by `cargo xtask headers` from mpi-table. Do not edit.\n \
         * SPDX-License-Identifier: MIT OR Apache-2.0\n \
         */\n\
         #ifndef MPI_INCLUDED\n\
         #define MPI_INCLUDED\n\
         \n\
         #ifdef __cplusplus\n\
         extern \"C\" {{\n\
         #endif\n\
         \n\
         /* Version of the library: 1000000 * major + 1000 * minor + patch. */\n\
         #define WEFT_VERSION \"{version}\"\n\
         #define WEFT_NUMVERSION {number}\n\
         \n"
    )
}

fn chapter_text(text: &mut String, chapter: &Chapter, wanted: impl Fn(&Function) -> bool) {
    let mut present = chapter
        .functions
        .iter()
        .filter(|function| function.implementation.is_some() && wanted(function))
        .peekable();
    if present.peek().is_none() {
        return;
    }
    match chapter.number {
        Some(number) => comment(text, &format!("Chapter {number}: {}", chapter.title)),
        None => comment(text, &chapter.title),
    }
    for function in present {
        if let Some(sentence) = function.sentence() {
            let _ = writeln!(text, "/** {sentence} */");
        }
        line(text, &format!("{};", function.prototype(&function.name)));
        if function.is_standard() {
            let twin = function.strong_name();
            line(text, &format!("{};", function.prototype(&twin)));
        }
        if function.is_macro {
            macros(text, function);
        }
    }
    text.push('\n');
}

/// Writes handle conversions as macros too, as the standard allows (section 2.6.4). Other libraries
/// of this ABI have only the macros, so that a program must not refer to symbols.
fn macros(text: &mut String, function: &Function) {
    let result = function.result.to_c("");
    for param in &function.params {
        let param = &param.name;
        for name in [&function.name, &function.strong_name()] {
            let _ = writeln!(text, "#define {name}({param}) (({result})({param}))");
        }
    }
}

fn comment(text: &mut String, title: &str) {
    let _ = writeln!(text, "/* {title} */");
}

/// Writes one C statement, broken after commas if it is too long.
fn line(text: &mut String, statement: &str) {
    wrapped(text, statement, WIDTH);
}

/// Writes a C statement in lines of up to `width` columns, broken after commas.
pub(crate) fn wrapped(text: &mut String, statement: &str, width: usize) {
    let mut current = String::new();
    for word in statement.split(' ') {
        if !current.is_empty() && current.len() + 1 + word.len() > width {
            // A parameter's words stay together: moves its beginning to the next line.
            let kept = current.rfind(", ").map_or(current.len(), |comma| comma + 1);
            let tail = current.split_off(kept);
            let _ = writeln!(text, "{current}");
            current = format!("   {tail}");
            if tail.is_empty() {
                current.push(' ');
            }
        }
        if !current.is_empty() && !current.ends_with("    ") {
            current.push(' ');
        }
        current.push_str(word);
    }
    let _ = writeln!(text, "{current}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statements_break_behind_commas() {
        let mut text = String::new();
        let params: Vec<String> = (0..12)
            .map(|n| format!("const void *argument{n}"))
            .collect();
        line(&mut text, &format!("int MPI_X({});", params.join(", ")));
        assert!(text.lines().count() > 2);
        for one in text.lines() {
            assert!(one.len() <= WIDTH, "{one}");
            assert!(one.ends_with([',', ';']), "{one}");
        }
        assert_eq!(text.split_whitespace().count(), 1 + 12 * 3);
    }
}
