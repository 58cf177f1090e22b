//! The entry points of `libmpifort`, as Rust: one function for each routine, under the names that
//! Fortran compilers use.

use std::fmt::Write as _;

use super::constants::SENTINELS;
use super::{Arg, Pass, Routine, routines, sections};
use crate::rust::{rust_name, rust_param, rust_result};
use crate::{Abi, Direction, Table};

/// The predefined callbacks (sections 6.7.2 and 13.5.3), with the library's functions for them.
const PREDEFINED_CALLBACKS: &[(&str, &str)] = &[
    ("mpi_null_copy_fn", "mpi_null_copy_fn_"),
    ("mpi_comm_null_copy_fn", "mpi_null_copy_fn_"),
    ("mpi_type_null_copy_fn", "mpi_null_copy_fn_"),
    ("mpi_win_null_copy_fn", "mpi_null_copy_fn_"),
    ("mpi_null_delete_fn", "mpi_null_delete_fn_"),
    ("mpi_comm_null_delete_fn", "mpi_null_delete_fn_"),
    ("mpi_type_null_delete_fn", "mpi_null_delete_fn_"),
    ("mpi_win_null_delete_fn", "mpi_null_delete_fn_"),
    ("mpi_dup_fn", "mpi_dup_fn_"),
    ("mpi_comm_dup_fn", "mpi_comm_dup_fn_"),
    ("mpi_type_dup_fn", "mpi_comm_dup_fn_"),
    ("mpi_win_dup_fn", "mpi_comm_dup_fn_"),
    ("mpi_conversion_fn_null", "mpi_conversion_fn_null_"),
    ("mpi_conversion_fn_null_c", "mpi_conversion_fn_null_"),
];

/// Returns assembly that defines other names of functions.
fn assembly(aliases: &[(String, String)]) -> String {
    let mut text = String::from("std::arch::global_asm!(\n");
    for (alias, target) in aliases {
        let _ = writeln!(text, "    \".weak {alias}\",");
        let _ = writeln!(text, "    \".type {alias}, @function\",");
        let _ = writeln!(text, "    \".set {alias}, {target}\",");
    }
    text.push_str(");\n");
    text
}

impl Table {
    /// Returns a Rust module with the C functions that the library calls, for `include!`.
    ///
    /// It expects the types of [`Table::rust_constants`] and `std::ffi::*` in scope.
    pub fn fortran_imports(&self) -> String {
        let mut text = String::from("unsafe extern \"C\" {\n");
        for function in self.functions.present() {
            let params: Vec<String> = function.params.iter().map(rust_param).collect();
            let _ = writeln!(
                text,
                "    pub fn {}({}){};",
                function.name,
                params.join(", "),
                rust_result(&function.result)
            );
        }
        text.push_str("}\n");
        text
    }

    /// Returns a Rust module with the entry points, for `include!`.
    ///
    /// It expects the types of [`Table::rust_constants`], the functions of
    /// [`Table::fortran_imports`], the library's module `convert` and what is in `sections` in
    /// scope.
    pub fn fortran_shims(&self) -> String {
        let mut text = String::new();
        for routine in routines(self) {
            // Its only forms are those of `mpi_f08`, written by hand.
            if routine.detaches() && routine.is_large() {
                continue;
            }
            let sections = self.abi != Abi::OpenMpi;
            shim(&mut text, &routine, sections);
            // Choice buffers are addresses in all of Open MPI's modules.
            if routine.has_buffers() && sections {
                sections::shim(&mut text, &routine);
            }
        }
        text.push_str(&assembly(&self.fortran_aliases()));
        text
    }

    /// Returns the names of the predefined callbacks, to be included beside their functions.
    pub fn fortran_predefined(&self) -> String {
        let mut text = assembly(&predefined_aliases(self.abi));
        for (name, value) in self.module_constants() {
            let _ = writeln!(
                text,
                "#[unsafe(no_mangle)]\nstatic {name}: std::ffi::c_int = {value};"
            );
        }
        text
    }

    /// Returns pairs of a name and the function of the generated module that it is an alias of.
    pub fn fortran_aliases(&self) -> Vec<(String, String)> {
        let mut aliases = Vec::new();
        for routine in routines(self) {
            let strong = symbol(&routine);
            for prefix in ["", "p"] {
                let lower = format!("{prefix}{}", routine.function.name.to_lowercase());
                let mut names = match routine.is_large() {
                    true => Vec::new(),
                    false => vec![
                        lower.clone(),
                        format!("{lower}_"),
                        format!("{lower}__"),
                        lower.to_uppercase(),
                    ],
                };
                let detached = routine.detaches();
                let whole = !routine.has_buffers() || self.abi == Abi::OpenMpi;
                // Choice buffers are addresses for gfortran before version 12.
                if routine.in_f08() {
                    names.push(format!("{lower}_f08_"));
                    if whole && prefix == "p" && !routine.is_large() {
                        names.push(sections::others_profiling(&routine, "_f08_"));
                    }
                }
                let has_address = routine.args.iter().any(|arg| arg.pass == Pass::AddressOut);
                if has_address && !routine.is_large() {
                    names.push(format!("{lower}_cptr_"));
                }
                if let "MPI_Status_f2f08" | "MPI_Status_f082f" = routine.function.name.as_str()
                    && prefix.is_empty()
                {
                    names.push(format!("__mpi_f08_types_MOD_{lower}"));
                }
                names.retain(|name| *name != strong && !(detached && name.contains("f08")));
                aliases.extend(names.into_iter().map(|name| (name, strong.clone())));
                if !whole && prefix == "p" {
                    for (one, other) in sections::aliases(&routine) {
                        aliases.push((one, other));
                    }
                }
            }
        }
        aliases
    }

    /// Returns the constants of Open MPI's module `mpi_f08` that gfortran compiles to variables,
    /// with their values: handles.
    fn module_constants(&self) -> Vec<(String, i64)> {
        if self.abi != Abi::OpenMpi {
            return Vec::new();
        }
        let constants = self.fortran_constants().into_iter();
        constants
            .filter(|one| one.handle.is_some() && !one.name.starts_with("MPI_T_"))
            .map(|one| {
                let name = format!("__mpi_f08_types_MOD_{}", one.name.to_lowercase());
                (name, one.value)
            })
            .collect()
    }

    /// Returns a linker's version script that exports the names that are defined in assembly.
    pub fn fortran_version_script(&self) -> String {
        let mut text = String::from("{\n  global:\n");
        for (name, _) in self
            .fortran_aliases()
            .into_iter()
            .chain(predefined_aliases(self.abi))
        {
            let _ = writeln!(text, "    {name};");
        }
        if self.abi != Abi::OpenMpi {
            for (name, ..) in SENTINELS {
                let _ = writeln!(text, "    {name};");
            }
        }
        text.push_str("};\n");
        text
    }

    /// Returns the functions and the variables of `libmpi.so.12` that programs need through this
    /// library.
    pub fn fortran_needs(&self) -> (Vec<&str>, Vec<&str>) {
        let functions = self.functions.present().map(|one| one.name.as_str());
        let variables = self.constants.items().filter_map(|item| match item {
            crate::Item::Data { name, .. } => Some(name.as_str()),
            _ => None,
        });
        (functions.collect(), variables.collect())
    }
}

/// The handles that another library's `mpi_f08` compares by procedures, with each other and with
/// integers. Here all of them are addresses of integers.
const COMPARED: &[&str] = &[
    "comm",
    "datatype",
    "errhandler",
    "file",
    "group",
    "info",
    "message",
    "op",
    "request",
    "session",
    "win",
];

/// The types that other libraries' modules distinguish in `MPI_Sizeof`, by their sizes.
const SIZES: &[(u32, &[&str])] = &[
    (1, &["ch", "i1", "character", "xint8"]),
    (2, &["i2", "xint16"]),
    (4, &["i", "l", "r", "logical", "xint32", "xreal32"]),
    (8, &["i8", "d", "cx", "xint64", "xreal64", "xcomplex32"]),
    (16, &["xreal128", "xcomplex64"]),
    (32, &["xcomplex128"]),
];

fn predefined_aliases(abi: Abi) -> Vec<(String, String)> {
    let mut aliases = Vec::new();
    for handle in COMPARED {
        for (end, target) in [("eq", "weft_handles_eq"), ("neq", "weft_handles_neq")] {
            let f08 = format!("__mpi_f08_types_MOD_mpi_{handle}");
            for name in [
                format!("{f08}_{end}"),
                format!("{f08}_f08_{end}_f"),
                format!("{f08}_f_{end}_f08"),
                format!("__mpi_constants_MOD_{handle}{end}"),
            ] {
                aliases.push((name, target.to_owned()));
            }
            if abi == Abi::OpenMpi {
                let end = end.replace("neq", "ne");
                let name = format!("__mpi_f08_types_MOD_ompi_{handle}_op_{end}");
                aliases.push((name, target.to_owned()));
            }
        }
    }
    for prefix in ["mpi_f_sync_reg", "pmpi_f_sync_reg"] {
        for name in [
            prefix.to_owned(),
            format!("{prefix}_"),
            format!("{prefix}__"),
            prefix.to_uppercase(),
            format!("{prefix}_f08_"),
            format!("{prefix}_f08ts_"),
            format!("{prefix}_f08ts_cdesc"),
        ] {
            aliases.push((name, "weft_nothing".to_owned()));
        }
    }
    if abi == Abi::OpenMpi {
        aliases.extend(openmpi_aliases());
    }
    let sync = "pmpir_f_sync_reg_f08ts_".to_owned();
    aliases.push((sync, "weft_nothing".to_owned()));
    // Module procedures for MPI_Sizeof by type, in other libraries' modules.
    for (size, kinds) in SIZES {
        for kind in *kinds {
            let name = if kind.len() > 2 {
                format!("__mpi_f08_types_MOD_mpi_sizeof_{kind}")
            } else {
                aliases.push((
                    format!("__mpi_sizeofs_MOD_mpi_sizeof_{kind}v"),
                    format!("weft_sizeof_{size}"),
                ));
                format!("__mpi_sizeofs_MOD_mpi_sizeof_{kind}")
            };
            aliases.push((name, format!("weft_sizeof_{size}")));
        }
    }
    for (name, target) in PREDEFINED_CALLBACKS {
        let names = [
            (*name).to_owned(),
            format!("{name}_"),
            format!("{name}__"),
            name.to_uppercase(),
            format!("__mpi_f08_callbacks_MOD_{name}"),
        ];
        let others = names.into_iter().filter(|name| name != target);
        aliases.extend(others.map(|name| (name, (*target).to_owned())));
    }
    aliases
}

/// The types that Open MPI's modules distinguish in `MPI_Sizeof`, besides the number of dimensions,
/// with their sizes.
const OPENMPI_SIZES: &[(&str, u32)] = &[
    ("character", 1),
    ("logical", 4),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("real32", 4),
    ("real64", 8),
    ("real128", 16),
    ("complex32", 8),
    ("complex64", 16),
    ("complex128", 32),
];

/// Returns the procedures of Open MPI's modules that have no C function.
fn openmpi_aliases() -> Vec<(String, String)> {
    let mut aliases = Vec::new();
    for prefix in ["", "p"] {
        for (kind, size) in OPENMPI_SIZES {
            let shapes = (1..=15).map(|rank| format!("r{rank}"));
            for shape in shapes.chain(["scalar".to_owned()]) {
                let name = format!("{prefix}mpi_sizeof_{kind}_{shape}_");
                aliases.push((name, format!("weft_sizeof_{size}")));
            }
        }
    }
    aliases
}

/// Returns the symbol of the routine's code.
pub(super) fn symbol(routine: &Routine<'_>) -> String {
    format!("p{}_", routine.function.name.to_lowercase())
}

/// Returns the type of an argument in Rust.
pub(super) fn rust_type(arg: &Arg<'_>) -> String {
    match arg.pass {
        Pass::Null => String::new(),
        Pass::Buffer | Pass::Callback => "*mut c_void".to_owned(),
        Pass::Value => format!("*const {}", arg.param.ctype.to_rust()),
        Pass::Logical | Pass::File | Pass::OldInteger | Pass::OldIntegers => {
            "*const c_int".to_owned()
        }
        Pass::LogicalOut
        | Pass::FileInOut
        | Pass::OldIntegerOut
        | Pass::ErrorCodes
        | Pass::Weights => "*mut c_int".to_owned(),
        Pass::Status | Pass::Pointer | Pass::Index | Pass::Indices => arg.param.ctype.to_rust(),
        Pass::Text | Pass::Trimmed | Pass::Texts => "*const c_char".to_owned(),
        Pass::TextOut => "*mut c_char".to_owned(),
        Pass::AddressOut => "*mut c_void".to_owned(),
    }
}

/// Returns the parameters of an entry point: arguments, error code, lengths of strings.
pub(super) fn parameters(routine: &Routine<'_>, kind: impl Fn(&Arg<'_>) -> String) -> String {
    let mut list: Vec<String> = routine
        .passed()
        .map(|arg| format!("{}: {}", rust_name(arg.name()), kind(arg)))
        .collect();
    if routine.has_error_code() {
        list.push("ierror: *mut c_int".to_owned());
    }
    for arg in routine.passed().filter(|arg| arg.has_length()) {
        list.push(format!("{}_len: usize", arg.name()));
    }
    list.join(", ")
}

fn shim(text: &mut String, routine: &Routine<'_>, sections: bool) {
    let name = &routine.function.name;
    let _ = writeln!(
        text,
        "/// `{}` of Fortran.\n\
         ///\n\
         /// # Safety\n\
         /// The arguments are as the standard asks.\n\
         #[unsafe(no_mangle)]\n\
         pub unsafe extern \"C\" fn {}({}){} {{\n    // SAFETY: as the caller promises.\n    unsafe {{",
        name.to_uppercase(),
        symbol(routine),
        parameters(routine, rust_type),
        rust_result_of(routine),
    );
    if let Some(special) = routine.special {
        let mut list: Vec<String> = routine.passed().map(|arg| rust_name(arg.name())).collect();
        list.extend(
            routine
                .passed()
                .filter(|arg| arg.has_length())
                .map(|arg| format!("{}_len", arg.name())),
        );
        if special.contains("spawn") {
            list.insert(0, name.clone());
        }
        let list = list.join(", ");
        let _ = writeln!(
            text,
            "        convert::finish(ierror, crate::special::{special}({list}));\n    }}\n}}\n"
        );
        return;
    }
    let mut around = Around::default();
    let list: Vec<String> = routine
        .args
        .iter()
        .map(|arg| match arg.pass {
            Pass::Buffer if routine.attaches() => {
                format!("convert::attached({})", rust_name(arg.name()))
            }
            _ => argument(arg, &mut around),
        })
        .collect();
    text.push_str(&around.before);
    let (hold, release) = match sections {
        true => sections::copies_of(routine),
        false => (String::new(), String::new()),
    };
    text.push_str(&hold);
    let call = format!("{name}({})", list.join(", "));
    if routine.is_function() {
        let _ = writeln!(text, "        {call}\n    }}\n}}\n");
        return;
    }
    let _ = write!(text, "        let code = {call};\n{release}");
    text.push_str(&around.after);
    if !around.on_success.is_empty() {
        let _ = writeln!(
            text,
            "        if code == MPI_SUCCESS {{\n{}        }}",
            around.on_success
        );
    }
    if !routine.has_error_code() {
        let _ = writeln!(text, "        let _ = code;\n    }}\n}}\n");
        return;
    }
    let _ = writeln!(text, "        convert::finish(ierror, code);\n    }}\n}}\n");
}

fn rust_result_of(routine: &Routine<'_>) -> String {
    if routine.is_function() {
        rust_result(&routine.function.result)
    } else {
        String::new()
    }
}

/// The statements around a call.
#[derive(Default)]
struct Around {
    before: String,
    /// Executed after success and failure: a failed completion call also returns its index (section
    /// 3.7.5).
    after: String,
    on_success: String,
}

/// Returns the C argument.
fn argument(arg: &Arg<'_>, around: &mut Around) -> String {
    let n = rust_name(arg.name());
    let base = arg.name();
    let c = format!("{base}_c");
    let before = &mut around.before;
    let mut local = |value: String| {
        let _ = writeln!(before, "        let mut {c} = {value};");
    };
    let after = &mut around.after;
    let mut always = |statement: String| {
        let _ = writeln!(after, "        {statement}");
    };
    let on_success = &mut around.on_success;
    let mut then = |statement: String| {
        let _ = writeln!(on_success, "            {statement}");
    };
    match arg.pass {
        Pass::Null if arg.param.ctype.is_pointer() => "std::ptr::null_mut()".to_owned(),
        Pass::Null => "0".to_owned(),
        Pass::Buffer => format!("convert::buffer({n})"),
        Pass::Value => format!("*{n}"),
        Pass::Logical => format!("c_int::from(*{n} != 0)"),
        Pass::LogicalOut => {
            // Keeps the old value if C does not write one.
            local(format!("*{n}"));
            always(format!("*{n} = c_int::from({c} != 0);"));
            format!("&raw mut {c}")
        }
        Pass::Pointer => n,
        Pass::Status => format!("convert::status({n})"),
        Pass::Index => {
            local("convert::NO_INDEX".to_owned());
            always(format!("convert::one_based({c}, {n});"));
            format!("&raw mut {c}")
        }
        Pass::Indices => {
            always(format!("convert::all_one_based({n}, outcount, code);"));
            n
        }
        Pass::Text => {
            let _ = writeln!(
                before,
                "        let {c} = convert::Text::new({n}, {base}_len);"
            );
            format!("{c}.as_ptr()")
        }
        Pass::Trimmed => {
            let _ = writeln!(
                before,
                "        let {c} = convert::Text::trimmed({n}, {base}_len);"
            );
            format!("{c}.as_ptr()")
        }
        Pass::TextOut => {
            local("convert::StringBuffer::new()".to_owned());
            then(format!("{c}.give({n}, {base}_len);"));
            format!("{c}.as_mut_ptr()")
        }
        Pass::Weights => format!("convert::weights({n})"),
        Pass::ErrorCodes => format!("convert::error_codes({n})"),
        Pass::AddressOut => n,
        Pass::File => format!("MPI_File_f2c(*{n})"),
        Pass::FileInOut => {
            // The variable may be unset before a file is opened.
            local(match arg.param.direction {
                Direction::Out => "MPI_File_f2c(0)".to_owned(),
                _ => format!("MPI_File_f2c(*{n})"),
            });
            always(format!("*{n} = MPI_File_c2f({c});"));
            format!("&raw mut {c}")
        }
        Pass::OldInteger => format!("MPI_Aint::from(*{n})"),
        Pass::OldIntegers => {
            local(format!("convert::widened({n}, *count)"));
            format!("{c}.as_mut_ptr()")
        }
        Pass::OldIntegerOut => {
            local("0".to_owned());
            always(format!("let code = convert::narrowed({c}, {n}, code);"));
            format!("&raw mut {c}")
        }
        Pass::Callback => format!("convert::callback({n})"),
        Pass::Texts => {
            unreachable!("internal error: a table of strings in a routine that is not special")
        }
    }
}
