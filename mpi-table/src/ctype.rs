//! The C types that the tables use.

use crate::source::Tokens;

/// The type of a parameter, a field or a variable, as it is declared in C.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CType {
    /// The base type: `int`, `void`, `MPI_Comm`, `struct X` …
    pub base: String,
    /// Whether the base is `const`.
    pub is_const: bool,
    /// Number of `*` behind the base.
    pub pointers: usize,
    /// Whether the outermost pointer is `const` itself.
    pub const_pointer: bool,
    /// The contents of each pair of brackets behind the name: "" or a number.
    pub dimensions: Vec<String>,
}

impl CType {
    /// Parses a type and the name that is declared with it: `const int name[]`.
    pub(crate) fn declaration(tokens: &mut Tokens<'_>) -> Result<(CType, String), String> {
        let mut ctype = Self::abstract_type(tokens)?;
        let name = tokens.identifier("a name")?.to_owned();
        while tokens.take("[") {
            let size = if tokens.peek() == "]" {
                ""
            } else {
                tokens.next()
            };
            ctype.dimensions.push(size.to_owned());
            tokens.expect("]")?;
        }
        Ok((ctype, name))
    }

    /// Parses a type without a name: `const char *`.
    pub(crate) fn abstract_type(tokens: &mut Tokens<'_>) -> Result<CType, String> {
        let is_const = tokens.take("const");
        let mut base = tokens.identifier("a type")?.to_owned();
        if base == "struct" {
            base = format!("struct {}", tokens.identifier("a struct's name")?);
        }
        let mut pointers = 0;
        while tokens.take("*") {
            pointers += 1;
        }
        let const_pointer = pointers > 0 && tokens.take("const");
        Ok(CType {
            base,
            is_const,
            pointers,
            const_pointer,
            dimensions: Vec::new(),
        })
    }

    /// Returns whether a value of this type is an address.
    pub fn is_pointer(&self) -> bool {
        self.pointers > 0 || !self.dimensions.is_empty()
    }

    /// Returns whether this is a pointer to a callback of the program.
    pub fn is_callback(&self) -> bool {
        let endings = ["_function", "_function_c", "_function_x"];
        let is_function = endings.iter().any(|ending| self.base.ends_with(ending));
        let is_ours = self.base.starts_with("MPI_") || self.base.starts_with("MPIX_");
        self.pointers == 1 && is_ours && is_function
    }

    /// Returns the C declaration of `name` with this type; without a name, the type alone.
    pub fn to_c(&self, name: &str) -> String {
        let mut text = String::new();
        if self.is_const {
            text.push_str("const ");
        }
        text.push_str(&self.base);
        if self.pointers > 0 || !name.is_empty() {
            text.push(' ');
        }
        text.push_str(&"*".repeat(self.pointers));
        if self.const_pointer {
            text.push_str("const ");
        }
        text.push_str(name);
        for size in &self.dimensions {
            text.push('[');
            text.push_str(size);
            text.push(']');
        }
        text
    }

    /// Returns the declaration of a parameter in a prototype of `mpi.h`.
    ///
    /// Programs may pass `MPI_STATUSES_IGNORE` for an array. If the parameter is declared as `x[]`,
    /// GCC warns that the array at address 1 is too short; it does not for a pointer. The same goes
    /// for `MPI_UNWEIGHTED`.
    pub fn to_c_param(&self, name: &str) -> String {
        let mut ctype = self.clone();
        let may_be_constant = self.base == "MPI_Status" || name.ends_with("weights");
        if may_be_constant && self.dimensions == [""] {
            ctype.dimensions.clear();
            ctype.pointers += 1;
        }
        ctype.to_c(name)
    }

    /// Returns the type of a parameter in Rust: arrays are pointers to their elements.
    pub fn to_rust(&self) -> String {
        if self.is_callback() {
            return format!("Option<{}>", self.base);
        }
        let mut text = rust_base(&self.base);
        for level in 0..self.pointers {
            text = pointer(&text, level == 0 && self.is_const);
        }
        for size in self.dimensions.iter().skip(1).rev() {
            text = format!("[{text}; {size}]");
        }
        if !self.dimensions.is_empty() {
            text = pointer(&text, self.pointers == 0 && self.is_const);
        }
        text
    }
}

fn pointer(target: &str, is_const: bool) -> String {
    let kind = if is_const { "const" } else { "mut" };
    format!("*{kind} {target}")
}

fn rust_base(base: &str) -> String {
    match base {
        "void" => "c_void".to_owned(),
        "int" => "c_int".to_owned(),
        "long" => "c_long".to_owned(),
        "char" => "c_char".to_owned(),
        "double" => "c_double".to_owned(),
        other => other.trim_start_matches("struct ").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_c_and_in_rust() {
        for (c, rust) in [
            ("const void *buf", "*const c_void"),
            ("int count", "c_int"),
            ("char ***argv", "*mut *mut *mut c_char"),
            ("char *argv[]", "*mut *mut c_char"),
            ("const int ranks[]", "*const c_int"),
            ("int ranges[][3]", "*mut [c_int; 3]"),
            (
                "MPI_Comm_copy_attr_function *fn",
                "Option<MPI_Comm_copy_attr_function>",
            ),
            ("struct MPIR_T_enum_s *handle", "*mut MPIR_T_enum_s"),
            ("MPI_Datatype types[]", "*mut MPI_Datatype"),
            ("int *const data", "*mut c_int"),
        ] {
            let mut tokens = Tokens::new(c);
            let (ctype, name) = CType::declaration(&mut tokens).unwrap();
            assert_eq!(tokens.rest(), "");
            assert_eq!(ctype.to_c(&name), c);
            assert_eq!(ctype.to_rust(), rust, "{c}");
        }
    }
}
