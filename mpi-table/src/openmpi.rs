//! Open MPI's ABI: handles are addresses of objects that the library exports, with unrelated
//! integers in Fortran.

use std::fmt::Write as _;

use crate::function::{Function, Kind};
use crate::shims::{aliases, version_script};
use crate::source::{ParseError, statements};
use crate::standard_shims::method;
use crate::{Standard, Table};

/// The parts of the predefined attribute functions' names that name the object.
const OBJECTS: [&str; 4] = ["", "COMM_", "TYPE_", "WIN_"];

/// The table of Open MPI's ABI.
#[derive(Debug)]
pub struct OpenMpi {
    /// Its status and constants.
    pub values: Standard,
    /// The size of each handle type's objects, in bytes.
    sizes: Vec<(String, usize)>,
    /// The predefined objects.
    pub objects: Vec<Object>,
    /// Objects without a handle: the type of handle, and the variable.
    unused: Vec<(String, String)>,
}

/// A predefined object.
#[derive(Debug)]
pub struct Object {
    /// The handle's name, `MPI_COMM_WORLD`.
    pub name: String,
    /// The variable whose address is the handle, `ompi_mpi_comm_world`.
    pub symbol: String,
    /// Fortran's integer.
    pub number: i32,
}

/// A predefined object, with the library's own handle for it.
struct KnownObject<'t> {
    object: &'t Object,
    handle: &'t str,
    inner: u32,
    size: usize,
}

impl OpenMpi {
    /// Parses the table; `file` is the name for messages.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, ParseError> {
        let (mut sizes, mut objects, mut unused) = (Vec::new(), Vec::new(), Vec::new());
        for statement in statements(file, text)? {
            let line = statement.text();
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = || ParseError {
                file: file.to_owned(),
                line: statement.line,
                what: format!("`{line}` is not of the form that the table's head explains"),
            };
            match words[..] {
                ["size", handle, bytes] => {
                    sizes.push((handle.to_owned(), bytes.parse().map_err(|_| wrong())?));
                }
                ["object", name, symbol, number] => objects.push(Object {
                    name: name.to_owned(),
                    symbol: symbol.to_owned(),
                    number: number.parse().map_err(|_| wrong())?,
                }),
                ["unused", handle, symbol] => unused.push((handle.to_owned(), symbol.to_owned())),
                ["size" | "object" | "unused", ..] => return Err(wrong()),
                _ => {}
            }
        }
        // Removed lines stay empty, which keeps the line numbers of messages.
        let rest: String = text
            .lines()
            .map(|line| match line.split(' ').next() {
                Some("size" | "object" | "unused") => "\n".to_owned(),
                _ => format!("{line}\n"),
            })
            .collect();
        Ok(OpenMpi {
            values: Standard::parse(file, &rest)?,
            sizes,
            objects,
            unused,
        })
    }

    /// Returns an empty table.
    pub(crate) fn none() -> Self {
        OpenMpi {
            values: Standard::none(),
            sizes: Vec::new(),
            objects: Vec::new(),
            unused: Vec::new(),
        }
    }
}

impl Table {
    /// Returns a Rust module with the shims of all implemented functions for Open MPI's ABI, for
    /// `include!`.
    ///
    /// # Errors
    /// A function with a parameter that there is no rule for.
    pub fn openmpi_shims(&self) -> Result<String, String> {
        let mut text = String::new();
        for chapter in &self.functions.chapters {
            for function in &chapter.functions {
                if let Some(implementation) = &function.implementation
                    && function.in_openmpi_library()
                {
                    let implementation = conversion(function, implementation);
                    self.outward_shim(&mut text, chapter, function, &implementation)?;
                }
            }
        }
        text.push_str(&attribute_functions());
        aliases(&mut text, self.openmpi_names());
        text.push_str("std::arch::global_asm!(\n");
        for (old, name) in self.openmpi_old_names() {
            for (old, bind) in [(format!("P{old}"), "globl"), (old, "weak")] {
                let _ = writeln!(text, "    \".{bind} {old}\",");
                let _ = writeln!(text, "    \".type {old}, @function\",");
                let _ = writeln!(text, "    \".set {old}, P{name}\",");
            }
        }
        text.push_str(");\n");
        Ok(text)
    }

    /// Iterates over the names of persistent collectives in Open MPI 4 before MPI-4.0, such as
    /// `MPIX_Bcast_init`, with the standard's names.
    pub fn openmpi_old_names(&self) -> impl Iterator<Item = (String, &str)> {
        self.functions.present().filter_map(|function| {
            let collective = function.name.strip_prefix("MPI_")?.strip_suffix("_init")?;
            let has = |name: &str| function.params.iter().any(|param| param.name == name);
            let is_one = has("info") && has("request") && !["Psend", "Precv"].contains(&collective);
            is_one.then(|| (format!("MPIX_{collective}_init"), function.name.as_str()))
        })
    }

    /// Iterates over the weak symbols of the library of Open MPI's ABI: `MPI_Send` …
    pub fn openmpi_names(&self) -> impl Iterator<Item = &str> {
        self.functions
            .present()
            .filter(|function| function.is_standard())
            .map(|function| function.name.as_str())
    }

    /// Returns a linker's version script for the library of Open MPI's ABI.
    pub fn openmpi_version_script(&self) -> String {
        let old = self.openmpi_old_names();
        let old: Vec<String> = old.flat_map(|(old, _)| [format!("P{old}"), old]).collect();
        version_script(self.openmpi_names().chain(old.iter().map(String::as_str)))
    }

    /// Returns the predefined objects that the library exports.
    fn known_objects(&self) -> Vec<KnownObject<'_>> {
        let find = |object| self.known_object(object);
        self.openmpi.objects.iter().filter_map(find).collect()
    }

    fn known_object<'t>(&'t self, object: &'t Object) -> Option<KnownObject<'t>> {
        let handle = self.constants.type_of(&object.name)?.base.as_str();
        let (_, inner) = self.handle_value(&object.name)?;
        let size = self.openmpi.sizes.iter().find(|(name, _)| name == handle)?;
        Some(KnownObject {
            object,
            handle,
            inner: inner as u32,
            size: size.1,
        })
    }

    /// Iterates over variables that programs refer to and that are no handles here, with their
    /// sizes.
    fn unused_objects(&self) -> impl Iterator<Item = (&str, usize)> {
        let openmpi = &self.openmpi;
        openmpi.unused.iter().filter_map(|(handle, symbol)| {
            let size = openmpi.sizes.iter().find(|(name, _)| name == handle)?;
            Some((symbol.as_str(), size.1))
        })
    }

    /// Returns a Rust module with the objects and the conversions between their addresses and the
    /// library's handles.
    pub(crate) fn openmpi_outward(&self) -> String {
        let known = self.known_objects();
        let mut text = String::from(
            "/// The optional datatypes that the library lacks: nothing is exported for them.\n\
             pub const ABSENT: &[c_int] = &[];\n",
        );
        for one in &known {
            let (symbol, size, name) = (&one.object.symbol, one.size, &one.object.name);
            let _ = writeln!(
                text,
                "/// Its address is `{name}`.\n\
                 #[unsafe(no_mangle)]\n\
                 pub static {symbol}: Object<{size}> = Object::new();"
            );
        }
        for (symbol, size) in self.unused_objects() {
            let _ = writeln!(
                text,
                "/// The address of this is no handle.\n\
                 #[unsafe(no_mangle)]\n\
                 pub static {symbol}: Object<{size}> = Object::new();"
            );
        }
        let handles = known.iter().filter(|one| one.handle != "MPI_File");
        let list: Vec<String> = handles
            .clone()
            .map(|one| {
                format!(
                    "    (Address((&raw const {}).cast()), {:#x}),\n",
                    one.object.symbol, one.inner
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "/// The objects, and the library's handles for them.\n\
             static OBJECTS: [(Address, u32); {}] = [\n{}];",
            list.len(),
            list.concat()
        );
        text.push_str("impl Outward {\n");
        for item in self.constants.items() {
            let crate::Item::Handle { name, ctype } = item else {
                continue;
            };
            if !self.is_outward(name) || ctype.is_pointer() {
                continue;
            }
            let own: Vec<&KnownObject<'_>> =
                known.iter().filter(|one| one.handle == name).collect();
            outward_methods(&mut text, name, &own);
        }
        text.push_str("}\n");
        text
    }
}

/// Writes the conversions of one handle type to the forms of C and Fortran.
fn outward_methods(text: &mut String, name: &str, own: &[&KnownObject<'_>]) {
    let method = method(name);
    let arms = |arm: &dyn Fn(&KnownObject<'_>) -> String| -> String {
        let each = own.iter().map(|one| format!("            {},\n", arm(one)));
        each.collect()
    };
    let objects = arms(&|one| {
        format!(
            "{:#x} => Outward((&raw const {}).addr())",
            one.inner, one.object.symbol
        )
    });
    let numbers = arms(&|one| format!("{:#x} => {}", one.inner, one.object.number));
    let handles = arms(&|one| format!("{} => {:#x}_u32 as c_int", one.object.number, one.inner));
    let _ = writeln!(
        text,
        "    /// An `{name}`.\n    \
         #[inline(always)]\n    \
         pub fn {method}(handle: c_int) -> Outward {{\n        \
         match handle as u32 {{\n{objects}            \
         made => Outward::made(made),\n        }}\n    }}\n    \
         /// The integer that stands for an `{name}` in Fortran.\n    \
         pub fn {method}_to_int(handle: c_int) -> c_int {{\n        \
         match handle as u32 {{\n{numbers}            \
         made => made as c_int,\n        }}\n    }}\n    \
         /// The `{name}` that an integer stands for.\n    \
         pub fn {method}_from_int(number: c_int) -> c_int {{\n        \
         match number {{\n{handles}            \
         other => other,\n        }}\n    }}"
    );
}

/// Functions that only Fortran's library for this ABI needs: its callbacks receive integers for
/// handles.
const COMPANIONS: [&str; 2] = ["MPII_Op_set_cxx", "MPII_Errhandler_set_cxx"];

impl Function {
    /// Returns whether the library of Open MPI's ABI has the function: all but those that only
    /// other languages' libraries of the MPICH ABI need.
    pub fn in_openmpi_library(&self) -> bool {
        self.is_standard() || self.in_standard_library() || COMPANIONS.contains(&self.name.as_str())
    }
}

/// Returns the Rust function of a handle conversion: handles differ between the languages, unlike
/// in the MPICH ABI.
fn conversion(function: &Function, implementation: &str) -> String {
    if implementation != "convert::same" {
        return implementation.to_owned();
    }
    let name = function.name.trim_start_matches("MPI_").to_lowercase();
    let (handle, direction) = match name.strip_suffix("_c2f") {
        Some(handle) => (handle, "to_int"),
        None => (name.trim_end_matches("_f2c"), "from_int"),
    };
    let handle = if handle == "type" { "datatype" } else { handle };
    debug_assert!(
        function.result.base == "MPI_Fint" || function.params[0].kind == Kind::Fint,
        "{} is no conversion",
        function.name
    );
    format!("standard_abi::Outward::{handle}_{direction}")
}

/// Returns the functions behind `MPI_COMM_DUP_FN` and its kin in `mpi.h`.
fn attribute_functions() -> String {
    let mut text = String::new();
    let mut add = |name: &str, params: &str, body: &str| {
        let _ = writeln!(
            text,
            "/// One of the predefined functions for attributes (MPI-3.1 section 6.7).\n\
             ///\n\
             /// # Safety\n\
             /// The arguments are as the standard says.\n\
             #[unsafe(no_mangle)]\n\
             pub unsafe extern \"C\" fn OMPI_C_MPI_{name}({params}) -> c_int {{\n    \
             // SAFETY: the arguments are those of such a function.\n    \
             {body}\n}}\n"
        );
    };
    let copies = "_object: Outward, _keyval: c_int, _extra_state: *mut c_void, \
                  value_in: *mut c_void, value_out: *mut c_void, flag: *mut c_int";
    for object in OBJECTS {
        add(
            &format!("{object}DUP_FN"),
            copies,
            "unsafe { crate::attributes::dup_fn(0, 0, std::ptr::null_mut(), value_in, value_out, flag) }",
        );
        add(
            &format!("{object}NULL_COPY_FN"),
            copies,
            "unsafe { flag.write(0) };\n    let _ = (value_in, value_out);\n    MPI_SUCCESS",
        );
        add(
            &format!("{object}NULL_DELETE_FN"),
            "_object: Outward, _keyval: c_int, _value: *mut c_void, _extra_state: *mut c_void",
            "MPI_SUCCESS",
        );
    }
    let list = OBJECTS.map(|object| format!("OMPI_C_MPI_{object}DUP_FN"));
    let _ = writeln!(
        text,
        "/// Those that copy.\n\
         pub static DUP_FUNCTIONS: [MPI_Comm_copy_attr_function; {}] = [{}];",
        list.len(),
        list.join(", ")
    );
    text
}
