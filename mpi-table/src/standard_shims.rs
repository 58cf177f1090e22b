//! The exported C functions of the standard ABI: they convert handles to those of the library, call
//! the Rust functions of the MPICH ABI's shims, and convert handles back.
//!
//! All other values have the same form inside and outside of the library, which is compiled with
//! the standard's constants.

use std::fmt::Write as _;

use crate::Table;
use crate::function::{Chapter, Direction, Function, Kind, Param, Style};
use crate::rust::{outward_type, rust_name, rust_param, rust_result};
use crate::shims::{aliases, argument, fast_call, object, version_script};
use crate::standard::Abi;

/// The conversion of a parameter.
enum Conversion {
    /// None.
    Same,
    /// A handle.
    Handle,
    /// The address of a handle.
    Address,
    /// An array of handles, with the expression of its length.
    Array(String),
    /// A function that copies attributes.
    Copy,
}

impl Table {
    /// Returns a Rust module with the shims of all implemented functions for the standard ABI, for
    /// `include!`.
    ///
    /// # Errors
    /// A function with a parameter that there is no rule for.
    pub fn standard_shims(&self) -> Result<String, String> {
        let mut text = String::new();
        for chapter in &self.functions.chapters {
            for function in &chapter.functions {
                if let Some(implementation) = &function.implementation
                    && function.in_standard_library()
                {
                    self.outward_shim(&mut text, chapter, function, implementation)?;
                }
            }
        }
        aliases(&mut text, self.standard_names());
        Ok(text)
    }

    /// Iterates over the weak symbols of the library of the standard ABI: `MPI_Send` …
    pub fn standard_names(&self) -> impl Iterator<Item = &str> {
        self.functions
            .present()
            .filter(|function| function.in_standard_abi())
            .map(|function| function.name.as_str())
    }

    /// Returns a linker's version script for the library of the standard ABI.
    pub fn standard_version_script(&self) -> String {
        version_script(self.standard_names())
    }

    /// Returns a Rust module that converts handles to those of the library and back, for
    /// `include!`. It expects `Outward` in scope.
    pub fn outward(&self, abi: Abi) -> String {
        if abi == Abi::OpenMpi {
            return self.openmpi_outward();
        }
        let mut text = String::new();
        let predefined = self.predefined();
        if abi == Abi::Standard {
            let mut table: Vec<i64> = (0..1024).collect();
            for one in &predefined {
                if let (Some(inner), true) = (one.inner, one.handle != "MPI_File") {
                    table[one.outer as usize] = inner;
                }
            }
            let absent = predefined.iter().filter(|one| one.inner.is_none());
            let absent: Vec<String> = absent
                .filter(|one| one.handle == "MPI_Datatype")
                .map(|one| format!("{:#x}", one.outer))
                .collect();
            let _ = writeln!(
                text,
                "/// The optional datatypes that the library lacks.\n\
                 pub const ABSENT: &[c_int] = &[{}];",
                absent.join(", ")
            );
            let list: Vec<String> = table
                .iter()
                .map(|value| format!("{:#x}", *value as u32))
                .collect();
            let _ = writeln!(
                text,
                "/// Handles of the library by those of the standard ABI; what is none stays.\n\
                 static INWARD: [u32; 1024] = [{}];",
                list.join(", ")
            );
        }
        text.push_str("impl Outward {\n");
        for item in self.constants.items() {
            let crate::Item::Handle { name, ctype } = item else {
                continue;
            };
            if !self.is_outward(name) || ctype.is_pointer() {
                continue;
            }
            let method = method(name);
            let _ = writeln!(
                text,
                "    /// An `{name}`.\n    \
                 #[inline(always)]\n    \
                 pub const fn {method}(handle: c_int) -> Outward {{"
            );
            if abi == Abi::Standard {
                text.push_str("        match handle as u32 {\n");
                for one in predefined.iter().filter(|one| one.handle == name) {
                    if let Some(inner) = one.inner {
                        let (inner, outer) = (inner as u32, one.outer);
                        let _ = writeln!(text, "            {inner:#x} => Outward({outer:#x}),");
                    }
                }
                text.push_str("            made => Outward(made as usize),\n        }\n    }\n");
            } else {
                text.push_str("        Outward(handle)\n    }\n");
            }
            let _ = writeln!(
                text,
                "    /// The integer that stands for an `{name}` (MPI-5.0 section 21.4.4).\n    \
                 pub const fn {method}_to_int(handle: c_int) -> c_int {{\n        \
                 Outward::{method}(handle).to_int()\n    }}\n    \
                 /// The `{name}` that an integer stands for.\n    \
                 pub fn {method}_from_int(number: c_int) -> c_int {{\n        \
                 Outward::from_int(number).inward()\n    }}"
            );
        }
        text.push_str("}\n");
        text
    }

    pub(crate) fn outward_shim(
        &self,
        text: &mut String,
        chapter: &Chapter,
        function: &Function,
        implementation: &str,
    ) -> Result<(), String> {
        let conversions = function
            .params
            .iter()
            .map(|param| self.conversion_of(function, param))
            .collect::<Result<Vec<Conversion>, String>>()?;
        let params: Vec<String> = function
            .params
            .iter()
            .map(|param| self.outward_param(param))
            .collect();
        let params = params.join(", ");
        let names: Vec<String> = function
            .params
            .iter()
            .map(|param| rust_name(&param.name))
            .collect();
        let names = names.join(", ");
        let is_outward = self.is_outward(&function.result.base) && !function.result.is_pointer();
        let result = if is_outward {
            format!(" -> {}", outward_type(&function.result.base))
        } else {
            rust_result(&function.result)
        };
        let _ = writeln!(
            text,
            "{}///\n\
             /// # Safety\n\
             /// The arguments are as the standard asks.\n\
             #[unsafe(no_mangle)]\n\
             pub unsafe extern \"C\" fn {}({params}){result} {{",
            function.doc_comment(chapter),
            function.strong_name(),
        );
        let before = self.before(function, &conversions);
        let after = self.after(function, &conversions);
        let call = inside(
            function,
            &conversions,
            &crate::shims::call(function, implementation),
        );
        match function.style {
            Style::Plain if is_outward => {
                let back = outward_of(&function.result.base);
                let _ = writeln!(text, "{before}    {back}({call})");
            }
            Style::Plain | Style::Tool if after.is_empty() => {
                let _ = writeln!(text, "{before}    {call}");
            }
            Style::Plain | Style::Tool => {
                let _ = writeln!(text, "{before}    let result = {call};\n{after}    result");
            }
            Style::Checked => {
                self.fail(text, function, &conversions);
                let told: Vec<String> = function
                    .params
                    .iter()
                    .zip(&conversions)
                    .map(|(param, conversion)| match conversion {
                        Conversion::Handle => format!("inner_{}", param.name),
                        _ => rust_name(&param.name),
                    })
                    .collect();
                let slow_path = format!(
                    "{before}    \
                     // SAFETY: the program keeps to the standard's contract, with the handles made of its.\n    \
                     let done = {call};\n    \
                     match done {{\n        \
                     Ok(()) => {{\n{after}            MPI_SUCCESS\n        }}\n        \
                     Err(failure) => {{\n{after}            fail(failure, {})\n        }}\n    }}",
                    told.join(", ")
                );
                if let Some(fast) = &function.fast {
                    let fast = fast_call(function, fast, &names);
                    let fast = inside(function, &conversions, &fast);
                    let long = format!("{}_long", function.name);
                    let _ = writeln!(
                        text,
                        "    #[inline(never)]\n    \
                         #[allow(non_snake_case, reason = \"a name of C\")]\n    \
                         unsafe fn {long}({params}) -> c_int {{\n{slow_path}\n    }}\n{before}    \
                         // SAFETY: the program keeps to the standard's contract, with the handles made of its.\n    \
                         let done = {fast};\n    \
                         match done {{\n        \
                         Some(code) => {{\n{after}            code\n        }}\n        \
                         // SAFETY: the arguments are those of the call.\n        \
                         None => unsafe {{ {long}({}) }},\n    }}",
                        names
                    );
                } else {
                    let _ = writeln!(text, "{slow_path}");
                }
            }
        }
        text.push_str("}\n\n");
        Ok(())
    }

    /// Writes the function that raises an error. It takes handles in the library's form, and
    /// addresses as the program passed them.
    fn fail(&self, text: &mut String, function: &Function, conversions: &[Conversion]) {
        let params: Vec<String> = function
            .params
            .iter()
            .zip(conversions)
            .map(|(param, conversion)| match conversion {
                Conversion::Address | Conversion::Array(_) => self.outward_param(param),
                _ => rust_param(param),
            })
            .collect();
        let args: Vec<String> = function.params.iter().map(argument).collect();
        let _ = writeln!(
            text,
            "    #[cold]\n    \
             #[inline(never)]\n    \
             fn fail(failure: mpi_core::Error, {}) -> c_int {{\n        \
             raise(failure, \"{}\", {}, &[{}])\n    \
             }}",
            params.join(", "),
            function.name,
            object(function, "object.inward()"),
            args.join(", "),
        );
    }

    fn conversion_of(&self, function: &Function, param: &Param) -> Result<Conversion, String> {
        let ctype = &param.ctype;
        if ctype.is_callback() {
            let copies =
                ctype.base.ends_with("_copy_attr_function") || ctype.base == "MPI_Copy_function";
            return Ok(if copies {
                Conversion::Copy
            } else {
                Conversion::Same
            });
        }
        if !self.is_outward(&ctype.base) {
            let looks_like_one =
                self.standard.constants.is_handle(&ctype.base) && !ctype.base.starts_with("MPI_T_");
            return match looks_like_one {
                true => Err(format!(
                    "{}: {} is a handle in abi_constants.mpi, and none in constants.mpi",
                    function.name, ctype.base
                )),
                false => Ok(Conversion::Same),
            };
        }
        let lacks = |what: &str| {
            let (name, function) = (&param.name, &function.name);
            Err(format!(
                "functions.mpi: {function}: mpi-table/src/standard_shims.rs has no rule for `{}` \
                 ({:?}, {what}); add one",
                ctype.to_c(name),
                param.kind,
            ))
        };
        match (ctype.pointers, ctype.dimensions.as_slice()) {
            (0, []) => Ok(Conversion::Handle),
            (1, []) if !ctype.is_const => Ok(Conversion::Address),
            (0, [size]) if size.is_empty() => {
                match length(function, param, "crate::peers::count(inner_comm") {
                    Some(length) => Ok(Conversion::Array(length)),
                    None => lacks("an array whose length is not known"),
                }
            }
            _ => lacks("not a handle, nor the address of one, nor an array"),
        }
    }

    /// Returns the statements before the call.
    fn before(&self, function: &Function, conversions: &[Conversion]) -> String {
        let mut text = String::new();
        let mut params: Vec<(&Param, &Conversion)> =
            function.params.iter().zip(conversions).collect();
        // Arrays come last, since their length may depend on a handle.
        params.sort_by_key(|(_, conversion)| matches!(conversion, Conversion::Array(_)));
        for (param, conversion) in params {
            let (plain, name) = (&param.name, rust_name(&param.name));
            let reads = param.direction != Direction::Out;
            let _ = match conversion {
                Conversion::Same => Ok(()),
                Conversion::Handle => writeln!(text, "    let inner_{plain} = {name}.inward();"),
                Conversion::Copy => writeln!(
                    text,
                    "    let inner_{plain} = crate::attributes::copy_function({name});"
                ),
                Conversion::Address => {
                    let none = match param.kind {
                        Kind::File => "outward::NO_FILE",
                        _ => "0",
                    };
                    let first = match reads {
                        true => format!(
                            "\n        \
                             // SAFETY: NULL, or by the standard's contract a handle of the program's.\n        \
                             unsafe {{ outward::load({name}, {none}) }}"
                        ),
                        false => none.to_owned(),
                    };
                    writeln!(
                        text,
                        "    let mut inner_{plain} = {first};\n    \
                         let at_{plain} = outward::place({name}, &raw mut inner_{plain});"
                    )
                }
                Conversion::Array(length) => {
                    writeln!(
                        text,
                        "    let mut inner_{plain} = outward::Array::empty();\n    \
                         // SAFETY: NULL, or by the standard's contract an array of that length.\n    \
                         let at_{plain} = unsafe {{ inner_{plain}.fill({name}, {length}, {reads}) }};"
                    )
                }
            };
        }
        text
    }

    /// Returns the statements after the call.
    fn after(&self, function: &Function, conversions: &[Conversion]) -> String {
        let mut text = String::new();
        for (param, conversion) in function.params.iter().zip(conversions) {
            if param.direction == Direction::In {
                continue;
            }
            let (plain, name) = (&param.name, rust_name(&param.name));
            let back = outward_of(&param.ctype.base);
            let _ = match conversion {
                Conversion::Address if param.kind == Kind::File => writeln!(
                    text,
                    "            // SAFETY: NULL, or by the standard's contract a place for a handle.\n            \
                     unsafe {{ outward::store_file({name}, inner_{plain}) }};"
                ),
                Conversion::Address => writeln!(
                    text,
                    "            // SAFETY: NULL, or by the standard's contract a place for a handle.\n            \
                     unsafe {{ outward::store({name}, inner_{plain}, {back}) }};"
                ),
                Conversion::Array(_) => writeln!(
                    text,
                    "            // SAFETY: the array that it was filled from.\n            \
                     unsafe {{ inner_{plain}.store({name}, {back}) }};"
                ),
                _ => Ok(()),
            };
        }
        text
    }
}

/// Returns an expression with the arguments in the library's form under their own names.
fn inside(function: &Function, conversions: &[Conversion], expression: &str) -> String {
    if conversions
        .iter()
        .all(|conversion| matches!(conversion, Conversion::Same))
    {
        return expression.to_owned();
    }
    let mut text = String::from("{ ");
    for (param, conversion) in function.params.iter().zip(conversions) {
        let form = match conversion {
            Conversion::Same => continue,
            Conversion::Handle | Conversion::Copy => "inner",
            Conversion::Address | Conversion::Array(_) => "at",
        };
        let _ = write!(
            text,
            "let {} = {form}_{}; ",
            rust_name(&param.name),
            param.name
        );
    }
    format!("{text}{expression} }}")
}

/// Returns the Rust expression of the length of an array of handles. Where it depends on the
/// communicator it is a call that begins with `peers`.
pub(crate) fn length(function: &Function, array: &Param, peers: &str) -> Option<String> {
    let find = |name: &str| function.params.iter().find(|param| param.name == name);
    let has = |name: &str| find(name).is_some();
    let first = |names: &[&str]| -> Option<String> {
        let count = names.iter().find_map(|name| find(name))?;
        Some(match count.ctype.base.as_str() {
            "int" => format!("i64::from({})", count.name),
            _ => count.name.clone(),
        })
    };
    match array.name.as_str() {
        "array_of_requests" | "array_of_types" | "array_of_info" => first(&["incount", "count"]),
        "array_of_datatypes" if has("max_datatypes") => first(&["max_datatypes"]),
        "array_of_datatypes" if has("num_elements") => Some(
            // SAFETY: in the generated code, the program passes NULL or a valid address, as the
            // standard requires.
            "unsafe { num_elements.as_ref() }.map_or(0, |number| i64::from(*number))".to_owned(),
        ),
        "out_comm_hdls" | "out_win_hdls" => first(&["my_num_ep"]),
        "sendtypes" | "recvtypes" => {
            let neighbors = function.name.contains("eighbor");
            let sends = array.name == "sendtypes";
            // In place, the send types are not used.
            let buffer = if sends && !neighbors {
                "sendbuf"
            } else {
                "recvbuf.cast_const()"
            };
            Some(format!("{peers}, {buffer}, {sends}, {neighbors})"))
        }
        _ => None,
    }
}

/// Returns the method of `Outward` for a handle type.
pub(crate) fn method(handle: &str) -> String {
    handle.trim_start_matches("MPI_").to_lowercase()
}

/// Returns the function that converts a handle of the library to the program's form.
fn outward_of(handle: &str) -> String {
    match handle {
        "MPI_File" => "OutwardFile::new".to_owned(),
        handle => format!("Outward::{}", method(handle)),
    }
}
