//! Types and constants in Rust.

use std::fmt::Write as _;

use crate::Table;
use crate::constant::{Item, Value};
use crate::ctype::CType;
use crate::function::Param;
use crate::standard::Abi;

impl Table {
    /// Returns a Rust module with all types and constants, for `include!`.
    ///
    /// It expects `c_int` and its like from `std::ffi` in scope.
    pub fn rust_constants(&self) -> String {
        self.rust_items(self.constants.items(), &|param| rust_param(param))
    }

    /// Returns a Rust module with the library's types and constants, without
    /// [handles](Self::handle_constants). Its callbacks receive handles as programs see them, and
    /// its constants have the ABI's values.
    ///
    /// # Errors
    /// A constant that the table of that ABI does not know.
    pub fn library_constants(&self, abi: Abi) -> Result<String, String> {
        let outward = |param: &Param| self.outward_param(param);
        let all = match abi {
            Abi::Mpich => self.constants.items().cloned().collect(),
            other => self.inner_constants(other)?,
        };
        let own = all.iter().filter(|item| !self.is_of_handles(item));
        let mut text = String::new();
        for item in own.clone() {
            self.rust_item(&mut text, item, &outward);
        }
        error_names(&mut text, own);
        Ok(text)
    }

    /// Returns handles as integers and the predefined ones, which within the library are those of
    /// the MPICH ABI for all ABIs, and the other names of C's integers.
    pub fn handle_constants(&self) -> String {
        let mut text = String::new();
        let is_typedef = |item: &&Item| matches!(item, Item::Typedef { .. });
        let items = self.constants.items();
        for item in items.filter(|item| is_typedef(item) || self.is_of_handles(item)) {
            self.rust_item(&mut text, item, &|param| rust_param(param));
        }
        self.handle_names(&mut text);
        text
    }

    /// Returns whether an item is a handle type or a predefined handle.
    fn is_of_handles(&self, item: &Item) -> bool {
        match item {
            Item::Handle { .. } => true,
            Item::Constant { ctype, .. } => {
                self.constants.is_handle(&ctype.base) || ctype.base == "MPIX_Stream"
            }
            Item::Alias { target, .. } => {
                let ctype = self.constants.type_of(target);
                ctype.is_some_and(|ctype| self.constants.is_handle(&ctype.base))
            }
            _ => false,
        }
    }

    fn rust_items<'a>(
        &self,
        items: impl Iterator<Item = &'a Item> + Clone,
        param: &dyn Fn(&Param) -> String,
    ) -> String {
        let mut text = String::new();
        for item in items.clone() {
            self.rust_item(&mut text, item, param);
        }
        self.handle_names(&mut text);
        error_names(&mut text, items);
        text
    }

    /// Returns a parameter of a callback, or of a function that the program calls.
    pub(crate) fn outward_param(&self, param: &Param) -> String {
        let mut ctype = param.ctype.clone();
        if self.is_outward(&ctype.base) {
            ctype.base = outward_type(&ctype.base).to_owned();
        }
        format!("{}: {}", rust_name(&param.name), ctype.to_rust())
    }

    fn rust_item(&self, text: &mut String, item: &Item, param: &dyn Fn(&Param) -> String) {
        match item {
            Item::Typedef { name, ctype } => {
                if ctype.base == "int" || ctype.base == "long" {
                    let _ = writeln!(text, "/// `{name}` of C.");
                    let _ = writeln!(text, "pub type {name} = {};", ctype.to_rust());
                }
            }
            Item::Handle { name, ctype } => {
                if let Some(target) = ctype.base.strip_prefix("struct ") {
                    let _ = writeln!(
                        text,
                        "/// What [`{name}`] points to.\n\
                         #[repr(C)]\n\
                         #[derive(Debug)]\n\
                         pub struct {target} {{\n    _opaque: [u8; 0],\n}}"
                    );
                }
                let _ = writeln!(text, "/// `{name}` of C.");
                let _ = writeln!(text, "pub type {name} = {};", ctype.to_rust());
            }
            Item::Struct { name, fields } => {
                let _ = writeln!(
                    text,
                    "/// `{name}` of C.\n\
                     #[repr(C)]\n\
                     #[derive(Clone, Copy, PartialEq, Eq, Debug)]\n\
                     pub struct {name} {{"
                );
                for (ctype, field) in fields {
                    let _ = writeln!(text, "    /// Field `{field}`.");
                    let _ = writeln!(text, "    pub {field}: {},", rust_field(ctype));
                }
                text.push_str("}\n");
            }
            Item::Callback {
                name,
                result,
                params,
                variadic,
            } => {
                let mut list: Vec<String> = params.iter().map(param).collect();
                if *variadic {
                    list.push("...".to_owned());
                }
                let result = rust_result(result);
                let _ = writeln!(text, "/// `{name}` of C.");
                let _ = writeln!(
                    text,
                    "pub type {name} = unsafe extern \"C\" fn({}){result};",
                    list.join(", ")
                );
            }
            Item::Constant { name, ctype, value } => {
                if let Value::Integer {
                    number,
                    text: digits,
                } = value
                {
                    let ctype_text = ctype.to_rust();
                    let value = if ctype.is_callback() {
                        "None".to_owned()
                    } else if ctype.is_pointer() || self.is_pointer_handle(ctype) {
                        rust_pointer(*number)
                    } else if i32::try_from(*number).is_ok() {
                        digits.clone()
                    } else {
                        format!("{digits}_u32 as c_int")
                    };
                    let _ = writeln!(text, "/// `{name}`.");
                    let _ = writeln!(text, "pub const {name}: {ctype_text} = {value};");
                }
            }
            Item::Alias { name, target } => {
                let constant = self.constants.items().find_map(|item| match item {
                    Item::Constant { name, ctype, .. } if name == target => Some(ctype),
                    _ => None,
                });
                if let Some(ctype) = constant {
                    let _ = writeln!(text, "/// `{name}`, another name of [`{target}`].");
                    let _ = writeln!(text, "pub const {name}: {} = {target};", ctype.to_rust());
                }
            }
            Item::Data { .. } => {}
        }
    }

    fn is_pointer_handle(&self, ctype: &CType) -> bool {
        self.constants.items().any(|item| {
            matches!(item, Item::Handle { name, ctype: target }
                if *name == ctype.base && target.is_pointer())
        })
    }

    /// Writes a function that returns the name of a predefined handle.
    fn handle_names(&self, text: &mut String) {
        text.push_str(
            "/// The name of the predefined handle `value` of a type, `\"MPI_Comm\"` say.\n\
             pub fn handle_name(handle_type: &str, value: c_int) -> Option<&'static str> {\n    \
             Some(match (handle_type, value) {\n",
        );
        for item in self.constants.items() {
            if let Item::Constant {
                name,
                ctype,
                value: Value::Integer { .. },
            } = item
                && self.constants.is_handle(&ctype.base)
                && !self.is_pointer_handle(ctype)
            {
                let _ = writeln!(text, "        (\"{}\", {name}) => \"{name}\",", ctype.base);
            }
        }
        text.push_str("        _ => return None,\n    })\n}\n");
    }
}

/// Writes a function that returns the name of an error class.
fn error_names<'a>(text: &mut String, items: impl Iterator<Item = &'a Item>) {
    text.push_str(
        "/// The name of a predefined error class, `\"MPI_ERR_COUNT\"` say.\n\
         pub fn error_name(class: c_int) -> Option<&'static str> {\n    \
         Some(match class {\n",
    );
    for item in items {
        if let Item::Constant { name, .. } = item {
            let is_class =
                name == "MPI_SUCCESS" || (name != "MPI_ERR_LASTCODE" && name.contains("_ERR_"));
            if is_class {
                let _ = writeln!(text, "        {name} => \"{name}\",");
            }
        }
    }
    text.push_str("        _ => return None,\n    })\n}\n");
}

/// Returns the type of a field: arrays are part of the struct.
fn rust_field(ctype: &CType) -> String {
    let mut element = ctype.clone();
    let sizes = std::mem::take(&mut element.dimensions);
    let wrap = |inner, size: &String| format!("[{inner}; {size}]");
    sizes.iter().rev().fold(element.to_rust(), wrap)
}

/// Returns the Rust type of handles in programs' form.
pub(crate) fn outward_type(handle: &str) -> &'static str {
    match handle {
        "MPI_File" => "OutwardFile",
        _ => "Outward",
    }
}

fn rust_pointer(number: i64) -> String {
    if number == 0 {
        "std::ptr::null_mut()".to_owned()
    } else {
        format!("std::ptr::without_provenance_mut({number}_isize as usize)")
    }
}

/// Returns a valid Rust name: keywords get `r#`.
pub(crate) fn rust_name(name: &str) -> String {
    match name {
        "type" | "fn" | "in" | "ref" | "match" | "move" | "use" | "mod" | "impl" | "loop"
        | "where" | "box" | "final" | "virtual" | "override" | "priv" | "try" | "gen" => {
            format!("r#{name}")
        }
        other => other.to_owned(),
    }
}

pub(crate) fn rust_param(param: &Param) -> String {
    format!("{}: {}", rust_name(&param.name), param.ctype.to_rust())
}

/// Returns ` -> c_int`, or an empty text for `void`.
pub(crate) fn rust_result(result: &CType) -> String {
    if result.to_c("") == "void" {
        String::new()
    } else {
        format!(" -> {}", result.to_rust())
    }
}
