//! Fortran for the standard ABI and for Open MPI's: the table for the generators of this folder,
//! and the C functions as Fortran's library calls them.
//!
//! Fortran's handle is the integer that `MPI_Comm_toint` and its kin return (MPI-5.0 section
//! 21.4.4). It is the low half of a pointer whose high half is 0, so that only the width is
//! converted, here and in callbacks. In Open MPI's ABI integers and pointers are unrelated:
//! `MPI_Comm_c2f` and its kin convert them.

use std::fmt::Write as _;

use crate::function::{Direction, Function, Param};
use crate::rust::{rust_name, rust_param, rust_result};
use crate::standard_shims::{length, method};
use crate::{
    Abi, CType, Chapter, Constants, Functions, Group, Item, OpenMpi, Standard, Table, Value,
};

/// Functions that the library calls and the standard ABI's C interface lacks; `libmpifort` defines
/// them itself.
const BY_HAND: &[&str] = &[
    "MPI_File_f2c",
    "MPI_File_c2f",
    "MPI_Status_f2f08",
    "MPI_Status_f082f",
];

impl Table {
    /// Returns the table for Fortran of the standard ABI: its functions, handles as integers, the
    /// standard's values.
    #[must_use]
    pub fn for_standard_fortran(&self) -> Table {
        self.for_fortran(Abi::Standard)
    }

    /// Returns the table for Fortran of Open MPI's ABI: its functions, handles as integers, Open
    /// MPI's values.
    #[must_use]
    pub fn for_openmpi_fortran(&self) -> Table {
        self.for_fortran(Abi::OpenMpi)
    }

    fn for_fortran(&self, abi: Abi) -> Table {
        let chapter = |chapter: &Chapter| Chapter {
            number: chapter.number,
            title: chapter.title.clone(),
            functions: chapter.functions.iter().map(|one| kept(one, abi)).collect(),
        };
        let groups = &self.constants.groups;
        let outer = Outer { table: self, abi };
        let mut groups: Vec<Group> = groups.iter().map(|group| outer.group(group)).collect();
        if abi == Abi::Standard {
            groups.push(self.version_of_the_abi());
        }
        Table {
            functions: Functions {
                chapters: self.functions.chapters.iter().map(chapter).collect(),
            },
            constants: Constants { groups },
            standard: Standard::none(),
            openmpi: OpenMpi::none(),
            abi,
        }
    }
}

impl Table {
    /// Returns the integers that only the standard ABI has (MPI-5.0 section 21.2).
    fn version_of_the_abi(&self) -> Group {
        let is_own = |item: &&Item| match item {
            Item::Constant { name, ctype, .. } => {
                let known = self.constants.items().any(|other| other.name() == name);
                !known && ctype.base == "int" && !ctype.is_pointer() && name.starts_with("MPI_ABI_")
            }
            _ => false,
        };
        Group {
            title: "Version of the ABI".to_owned(),
            items: self
                .standard
                .constants
                .items()
                .filter(is_own)
                .cloned()
                .collect(),
        }
    }
}

/// The types and constants of an ABI.
struct Outer<'t> {
    table: &'t Table,
    abi: Abi,
}

impl Outer<'_> {
    fn values(&self) -> &Standard {
        match self.abi {
            Abi::OpenMpi => &self.table.openmpi.values,
            _ => &self.table.standard,
        }
    }

    fn group(&self, group: &Group) -> Group {
        Group {
            title: group.title.clone(),
            items: group
                .items
                .iter()
                .filter_map(|item| self.item(item))
                .collect(),
        }
    }

    /// Returns a type or constant with its value in the ABI, if the ABI has it.
    fn item(&self, item: &Item) -> Option<Item> {
        match item {
            Item::Data { name, .. } => match self.values().find(name) {
                Some(constant @ Item::Constant { .. }) => Some(constant.clone()),
                _ if self.abi == Abi::OpenMpi && name.starts_with("MPI_F_STATUS") => {
                    Some(item.clone())
                }
                _ => None,
            },
            Item::Alias { name, target } if self.value(name) == self.value(target) => {
                self.value(name).map(|_| item.clone())
            }
            Item::Struct { name, .. } if name == "MPI_Status" || name == "MPI_F08_status" => {
                let status = self.values().find("MPI_Status")?;
                let Item::Struct { fields, .. } = status else {
                    return None;
                };
                Some(Item::Struct {
                    name: name.clone(),
                    fields: fields.clone(),
                })
            }
            Item::Constant { name, .. } | Item::Alias { name, .. } => {
                let ctype = self.table.constants.type_of(name)?.clone();
                Some(Item::Constant {
                    name: name.clone(),
                    value: self.value(name)?,
                    ctype,
                })
            }
            _ => Some(item.clone()),
        }
    }

    /// Returns the value of a constant in the ABI; for a handle, Fortran's integer.
    fn value(&self, name: &str) -> Option<Value> {
        let table = self.table;
        let own = |name: &str| table.constants.items().find(|item| item.name() == name);
        if self.values().is_without(name) {
            return None;
        }
        let mut objects = table.openmpi.objects.iter();
        if self.abi == Abi::OpenMpi
            && let Some(object) = objects.find(|object| object.name == name)
        {
            return Some(Value::Integer {
                number: i64::from(object.number),
                text: object.number.to_string(),
            });
        }
        match self.values().find(name).or_else(|| own(name))? {
            Item::Constant { value, .. } => Some(value.clone()),
            Item::Alias { target, .. } => self.value(target),
            _ => None,
        }
    }
}

/// Functions that other libraries of the standard ABI lack. They are looked up at run time: with
/// such a library, `libmpifort_abi` can then report it, rather than fail to load.
const OWN: [&str; 2] = ["MPII_Errhandler_set_fc", "MPII_Type_state"];

impl Table {
    /// Returns the C functions that Fortran's library calls, with the standard ABI's handles
    /// converted to and from integers, for `include!`. Must be called on this table, not that of
    /// [`Table::for_standard_fortran`].
    ///
    /// # Errors
    /// A function with a parameter that there is no rule for.
    pub fn fortran_standard_imports(&self) -> Result<String, String> {
        self.pointer_imports(Abi::Standard)
    }

    /// Returns the C functions that Fortran's library calls, with the handles of Open MPI's ABI
    /// converted to and from integers, for `include!`.
    ///
    /// # Errors
    /// A function with a parameter that there is no rule for.
    pub fn fortran_openmpi_imports(&self) -> Result<String, String> {
        self.pointer_imports(Abi::OpenMpi)
    }

    fn pointer_imports(&self, abi: Abi) -> Result<String, String> {
        let (mut outer, mut found) = (String::new(), String::new());
        let mut text = String::new();
        let wanted = |function: &&Function| {
            is_in(function, abi)
                && !function.name.starts_with("MPI_T_")
                && (function.name.starts_with("MPI_File_") || !converts(function))
        };
        for function in self.functions.present().filter(wanted) {
            let params: Vec<String> = function
                .params
                .iter()
                .map(|param| {
                    let mut ctype = param.ctype.clone();
                    if self.has_width(&ctype) {
                        ctype.base = "Pointer".to_owned();
                    }
                    format!("{}: {}", rust_name(&param.name), ctype.to_rust())
                })
                .collect();
            let result = rust_result(&function.result);
            let (name, list) = (&function.name, params.join(", "));
            if abi == Abi::Standard && OWN.contains(&name.as_str()) {
                let args: Vec<String> = function
                    .params
                    .iter()
                    .map(|param| rust_name(&param.name))
                    .collect();
                let _ = writeln!(
                    found,
                    "    pub unsafe fn {name}({list}){result} {{\n        \
                     // SAFETY: it has these parameters.\n        \
                     unsafe {{\n            \
                     let function = widths::own(c\"{name}\");\n            \
                     std::mem::transmute::<*mut c_void, unsafe extern \"C\" fn({list}){result}>(function)({})\n        \
                     }}\n    }}",
                    args.join(", ")
                );
            } else {
                let _ = writeln!(outer, "    pub fn {name}({list}){result};");
            }
            self.import(&mut text, function, &result, abi)?;
        }
        Ok(format!(
            "/// The functions as C has them.\n\
             pub mod outer {{\n    use super::*;\n    unsafe extern \"C\" {{\n{outer}    }}\n{found}}}\n{text}"
        ))
    }

    /// Returns whether the type is a handle whose width differs between C and Fortran's library.
    /// Files are addresses in both.
    fn has_width(&self, ctype: &CType) -> bool {
        self.is_outward(&ctype.base) && ctype.base != "MPI_File" && !ctype.is_callback()
    }

    fn import(
        &self,
        text: &mut String,
        function: &Function,
        result: &str,
        abi: Abi,
    ) -> Result<(), String> {
        let mut before = String::new();
        let mut after = String::new();
        let mut args = Vec::new();
        for param in &function.params {
            args.push(if self.has_width(&param.ctype) {
                convert(function, param, abi, &mut before, &mut after)?
            } else {
                rust_name(&param.name)
            });
        }
        let name = &function.name;
        let params: Vec<String> = function.params.iter().map(rust_param).collect();
        let call = format!("outer::{name}({})", args.join(", "));
        let body = match after.is_empty() {
            true => format!("{before}        {call}\n"),
            false => format!("{before}        let result = {call};\n{after}        result\n"),
        };
        let _ = writeln!(
            text,
            "#[inline(always)]\n\
             pub unsafe extern \"C\" fn {name}({}){result} {{\n    \
             // SAFETY: the arguments are the caller's, of handles their wide form.\n    \
             unsafe {{\n{body}    }}\n}}",
            params.join(", "),
        );
        Ok(())
    }
}

/// Returns whether the C library of an ABI has the function.
fn is_in(function: &Function, abi: Abi) -> bool {
    match abi {
        Abi::OpenMpi => function.in_openmpi_library() && !function.name.starts_with("MPIX_"),
        _ => function.in_standard_library(),
    }
}

/// Returns a function for Fortran, without an implementation if the library lacks it.
fn kept(function: &Function, abi: Abi) -> Function {
    let mut function = function.clone();
    let name = function.name.as_str();
    let by_hand = abi == Abi::Standard && BY_HAND.contains(&name);
    // Its callbacks would receive handles, which no proxy converts.
    let cannot = abi == Abi::OpenMpi && name.starts_with("MPI_Register_datarep");
    if cannot || !is_in(&function, abi) && !by_hand {
        function.implementation = None;
    }
    function
}

/// Returns whether the function is `MPI_Comm_toint`, `MPI_Comm_c2f` or one of their kin.
fn converts(function: &Function) -> bool {
    let ends = ["_toint", "_fromint", "_c2f", "_f2c"];
    !function.name.starts_with("MPI_Status_") && ends.iter().any(|end| function.name.ends_with(end))
}

/// Returns the C argument for one with handles, and the statements before and after the call.
fn convert(
    function: &Function,
    param: &Param,
    abi: Abi,
    before: &mut String,
    after: &mut String,
) -> Result<String, String> {
    // In the standard ABI all handle types are converted alike.
    let of = match abi {
        Abi::OpenMpi => format!("widths::{}, ", method(&param.ctype.base).to_uppercase()),
        _ => String::new(),
    };
    let (n, wide) = (rust_name(&param.name), format!("wide_{}", param.name));
    let ctype = &param.ctype;
    let is_written = param.direction != Direction::In;
    match (ctype.pointers, ctype.dimensions.as_slice()) {
        (0, []) => Ok(format!("widths::wide({of}{n})")),
        (1, []) if !ctype.is_const => {
            let _ = writeln!(before, "        let mut {wide} = widths::load({of}{n});");
            if is_written {
                let _ = writeln!(after, "        widths::store({of}{n}, {wide});");
            }
            Ok(format!("widths::place({n}, &raw mut {wide})"))
        }
        (0, [size]) if size.is_empty() => {
            let length = length(function, param, "crate::peers::peers(comm")
                .ok_or_else(|| format!("{}: no rule for the length of {n}", function.name))?;
            let _ = writeln!(
                before,
                "        let mut {wide} = widths::Array::new({of}{n}, {length});"
            );
            if is_written {
                let _ = writeln!(after, "        {wide}.store({n});");
            }
            Ok(format!("{wide}.as_mut_ptr()"))
        }
        _ => Err(format!("{}: no rule for {n}", function.name)),
    }
}
