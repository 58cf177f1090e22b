//! Fortran for the standard ABI: the table that the generators of this folder take for it, and the C
//! functions as they are called there.
//!
//! A handle of Fortran is the integer that `MPI_Comm_toint` and its like give (MPI-5.0 section 21.4.4). A pointer's low
//! half is that integer, its high half is 0, so nothing but the width is converted, here and in callbacks.

use std::fmt::Write as _;

use crate::function::{Direction, Function, Param};
use crate::rust::{rust_name, rust_param, rust_result};
use crate::standard_shims::length;
use crate::{
    Abi, CType, Chapter, Constants, Functions, Group, Item, OpenMpi, Standard, Table, Value,
};

/// What the library calls that the C interface of the standard ABI doesn't have; `libmpifort` has it itself.
const BY_HAND: &[&str] = &[
    "MPI_File_f2c",
    "MPI_File_c2f",
    "MPI_Status_f2f08",
    "MPI_Status_f082f",
];

impl Table {
    /// The table for Fortran of the standard ABI: the functions that are in it, handles as integers, all with
    /// the standard's values.
    #[must_use]
    pub fn for_standard_fortran(&self) -> Table {
        let chapter = |chapter: &Chapter| Chapter {
            number: chapter.number,
            title: chapter.title.clone(),
            functions: chapter.functions.iter().map(kept).collect(),
        };
        let groups = &self.constants.groups;
        Table {
            functions: Functions {
                chapters: self.functions.chapters.iter().map(chapter).collect(),
            },
            constants: Constants {
                groups: groups.iter().map(|group| self.outer_group(group)).collect(),
            },
            standard: Standard::none(),
            openmpi: OpenMpi::none(),
            abi: Abi::Standard,
        }
    }

    fn outer_group(&self, group: &Group) -> Group {
        Group {
            title: group.title.clone(),
            items: group
                .items
                .iter()
                .filter_map(|item| self.outer_item(item))
                .collect(),
        }
    }

    /// A type or constant with its value in the standard ABI, if it is there.
    fn outer_item(&self, item: &Item) -> Option<Item> {
        match item {
            Item::Data { name, .. } => match self.standard.find(name) {
                Some(constant @ Item::Constant { .. }) => Some(constant.clone()),
                _ => None,
            },
            Item::Alias { name, target } if self.outer_value(name) == self.outer_value(target) => {
                self.outer_value(name).map(|_| item.clone())
            }
            Item::Struct { name, .. } if name == "MPI_Status" || name == "MPI_F08_status" => {
                let status = self.standard.find("MPI_Status")?;
                let Item::Struct { fields, .. } = status else {
                    return None;
                };
                Some(Item::Struct {
                    name: name.clone(),
                    fields: fields.clone(),
                })
            }
            Item::Constant { name, .. } | Item::Alias { name, .. } => {
                let ctype = self.constants.type_of(name)?.clone();
                Some(Item::Constant {
                    name: name.clone(),
                    value: self.outer_value(name)?,
                    ctype,
                })
            }
            _ => Some(item.clone()),
        }
    }

    /// The value of a constant in the standard ABI.
    fn outer_value(&self, name: &str) -> Option<Value> {
        let own = |name: &str| self.constants.items().find(|item| item.name() == name);
        if self.standard.is_without(name) {
            return None;
        }
        match self.standard.find(name).or_else(|| own(name))? {
            Item::Constant { value, .. } => Some(value.clone()),
            Item::Alias { target, .. } => self.outer_value(target),
            _ => None,
        }
    }

    /// The C functions that Fortran's library calls, with the standard ABI's handles turned to and from
    /// integers; for `include!`, as [`Table::fortran_imports`] of the MPICH ABI. Of this table, not of
    /// [`Table::for_standard_fortran`].
    ///
    /// # Errors
    /// A function with a parameter that there is no rule for.
    pub fn fortran_standard_imports(&self) -> Result<String, String> {
        let mut outer = String::new();
        let mut text = String::new();
        let wanted = |function: &&Function| {
            function.in_standard_library()
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
            let _ = writeln!(
                outer,
                "    pub fn {}({}){result};",
                function.name,
                params.join(", "),
            );
            self.import(&mut text, function, &result)?;
        }
        Ok(format!(
            "/// The functions as C has them.\n\
             pub mod outer {{\n    use super::*;\n    unsafe extern \"C\" {{\n{outer}    }}\n}}\n{text}"
        ))
    }

    /// Whether it is a handle of another width in C than in Fortran's library. Files are addresses there, too.
    fn has_width(&self, ctype: &CType) -> bool {
        self.is_outward(&ctype.base) && ctype.base != "MPI_File" && !ctype.is_callback()
    }

    fn import(&self, text: &mut String, function: &Function, result: &str) -> Result<(), String> {
        let mut before = String::new();
        let mut after = String::new();
        let mut args = Vec::new();
        for param in &function.params {
            args.push(if self.has_width(&param.ctype) {
                convert(function, param, &mut before, &mut after)?
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

/// A function as Fortran has it: none is declared that the library lacks.
fn kept(function: &Function) -> Function {
    let mut function = function.clone();
    if !function.in_standard_library() && !BY_HAND.contains(&function.name.as_str()) {
        function.implementation = None;
    }
    function
}

/// Whether it is one of `MPI_Comm_toint` and its like.
fn converts(function: &Function) -> bool {
    function.name.ends_with("_toint") || function.name.ends_with("_fromint")
}

/// The argument that C gets for one with handles; what is to be done before and after the call.
fn convert(
    function: &Function,
    param: &Param,
    before: &mut String,
    after: &mut String,
) -> Result<String, String> {
    let (n, wide) = (rust_name(&param.name), format!("wide_{}", param.name));
    let ctype = &param.ctype;
    let is_written = param.direction != Direction::In;
    match (ctype.pointers, ctype.dimensions.as_slice()) {
        (0, []) => Ok(format!("widths::wide({n})")),
        (1, []) if !ctype.is_const => {
            let _ = writeln!(before, "        let mut {wide} = widths::load({n});");
            if is_written {
                let _ = writeln!(after, "        widths::store({n}, {wide});");
            }
            Ok(format!("widths::place({n}, &raw mut {wide})"))
        }
        (0, [size]) if size.is_empty() => {
            let length = length(function, param, "widths::peers(comm")
                .ok_or_else(|| format!("{}: no rule for the length of {n}", function.name))?;
            let _ = writeln!(
                before,
                "        let mut {wide} = widths::Array::new({n}, {length});"
            );
            if is_written {
                let _ = writeln!(after, "        {wide}.store({n});");
            }
            Ok(format!("{wide}.as_mut_ptr()"))
        }
        _ => Err(format!("{}: no rule for {n}", function.name)),
    }
}
