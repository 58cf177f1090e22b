//! Arguments of the library's Rust functions: converted and checked by their kinds in the table, if
//! the Rust function's types ask for it.

use crate::function::{Direction, Function, Kind, Param};

impl Function {
    /// Returns the arguments of the call of the Rust function, expressions that may end in `?`: see
    /// `libmpi/src/args.rs`.
    pub(crate) fn converted_arguments(&self) -> Vec<String> {
        let arguments = self.arguments();
        let told = arguments.len() - self.params.len();
        let (told, arguments) = arguments.split_at(told);
        let converted = self.params.iter().zip(arguments);
        let converted = converted.map(|(param, argument)| match conversion(param) {
            None => argument.clone(),
            Some(kind) => {
                let name = &param.name;
                format!("given::<kind::{kind}, _, _>({argument}, \"{name}\")?")
            }
        });
        told.iter().cloned().chain(converted).collect()
    }
}

/// Returns the kind of an argument that can be converted.
fn conversion(param: &Param) -> Option<&'static str> {
    let ctype = &param.ctype;
    if ctype.is_callback() {
        return Some("Callback");
    }
    if !ctype.is_pointer() {
        return Some(match param.kind {
            Kind::Comm => "Comm",
            Kind::Group => "Group",
            Kind::Win => "Win",
            Kind::File => "File",
            Kind::Session => "Session",
            Kind::Datatype => "Datatype",
            Kind::Op => "Op",
            Kind::Errhandler => "Errhandler",
            Kind::Info => "Info",
            _ => return None,
        });
    }
    let one = ctype.pointers == 1 && ctype.dimensions.is_empty();
    match (param.kind, param.direction) {
        (Kind::Text, Direction::In) if one && ctype.is_const => Some("Text"),
        (Kind::Text | Kind::Texts | Kind::Buffer, _) => None,
        (_, Direction::Out) if one => Some("Output"),
        (_, Direction::InOut) if one => Some("Variable"),
        _ => None,
    }
}
