//! The functions of the C++ bindings that correspond to one C function each.
//!
//! The bindings' header declares them, the table has the C functions. A member is generated if each
//! of its parameters is one of the C function's, in order, with the object itself as the handle,
//! and if its result is what C stores at an address. All others are written by hand.

use std::fmt::Write as _;

use crate::ctype::CType;
use crate::function::{Direction, Function, Kind, Param};
use crate::{Functions, Table};

/// A member function as the header declares it.
struct Member {
    class: String,
    name: String,
    result: String,
    params: Vec<CxxParam>,
    is_const: bool,
}

/// A parameter: its type `const Datatype &`, its name, and the `[]` behind it.
struct CxxParam {
    ctype: String,
    name: String,
    array: String,
}

impl CxxParam {
    fn parse(text: &str) -> Option<CxxParam> {
        let (text, array) = match text.find('[') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let from = text.trim_end().rfind(|c| !word(c))? + 1;
        Some(CxxParam {
            ctype: text[..from].trim().to_owned(),
            name: text[from..].trim().to_owned(),
            array: array.trim().to_owned(),
        })
    }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes comments from a text.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once("*/").map_or("", |(_, rest)| rest)
    })
}

/// Returns the members of all classes that have no body.
fn members(header: &str) -> Vec<Member> {
    let header = without_comments(header);
    let mut found = Vec::new();
    for part in header.split("\nclass ").skip(1) {
        let Some((head, body)) = part.split_once('{') else {
            continue; // only declared
        };
        let class: String = head
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if head.contains(';') {
            continue;
        }
        let (mut depth, mut statement) = (0, String::new());
        for c in body.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => {
                    depth -= 1;
                    statement.clear();
                }
                ';' if depth == 0 => {
                    found.extend(member(&class, &std::mem::take(&mut statement)));
                }
                _ if depth == 0 => statement.push(c),
                _ => {}
            }
        }
    }
    found
}

/// Parses a declaration, except of constructors and the like.
fn member(class: &str, statement: &str) -> Option<Member> {
    let text = squeezed(statement.rsplit("public:").next()?);
    let text = text.strip_prefix("virtual ").unwrap_or(&text);
    let (head, rest) = text.split_once('(')?;
    let (params, tail) = rest.rsplit_once(')')?;
    let (result, name) = head.rsplit_once(' ')?;
    let special = result.starts_with("static") || head.contains("operator") || name.contains('~');
    if special || !(tail.trim().is_empty() || tail.trim() == "const") || params.contains('(') {
        return None;
    }
    let params = params.split(',').filter(|param| !param.trim().is_empty());
    let params = params
        .map(|param| CxxParam::parse(param.trim()))
        .collect::<Option<_>>()?;
    Some(Member {
        class: class.to_owned(),
        name: name.to_owned(),
        result: result.to_owned(),
        params,
        is_const: tail.trim() == "const",
    })
}

/// Classes, the kinds of their handles in the table, and the prefixes of their C functions.
const CLASSES: [(&str, Kind, &[&str]); 11] = [
    ("Comm", Kind::Comm, &["MPI_Comm_", "MPI_"]),
    ("Intracomm", Kind::Comm, &["MPI_Comm_", "MPI_"]),
    ("Intercomm", Kind::Comm, &["MPI_Intercomm_", "MPI_Comm_"]),
    ("Cartcomm", Kind::Comm, &["MPI_Cart_"]),
    ("Graphcomm", Kind::Comm, &["MPI_Graph_"]),
    ("Win", Kind::Win, &["MPI_Win_", "MPI_"]),
    ("File", Kind::File, &["MPI_File_"]),
    ("Group", Kind::Group, &["MPI_Group_"]),
    ("Info", Kind::Info, &["MPI_Info_"]),
    ("Op", Kind::Op, &["MPI_Op_", "MPI_"]),
    ("Datatype", Kind::Datatype, &["MPI_Type_", "MPI_"]),
];

impl Member {
    /// Returns the declaration of the parameters.
    fn declared(&self) -> String {
        let params = self.params.iter().map(|param| {
            let space = if param.ctype.ends_with(['&', '*']) {
                ""
            } else {
                " "
            };
            format!("{}{space}{}{}", param.ctype, param.name, param.array)
        });
        params.collect::<Vec<_>>().join(", ")
    }

    /// Returns whether a text defines the member.
    fn is_in(&self, text: &str) -> bool {
        let head = format!("{}::{}(", self.class, self.name);
        text.match_indices(&head).any(|(at, _)| {
            let rest = &text[at + head.len()..];
            squeezed(rest.split(')').next().unwrap_or_default()) == self.declared()
        })
    }

    /// Returns the C function of the member's name, and the kind of its handle.
    fn function<'a>(&self, functions: &'a Functions) -> Option<(&'a Function, Kind)> {
        let (_, kind, starts) = CLASSES.iter().find(|class| class.0 == self.class)?;
        let mut ends = vec![self.name.clone(), self.name.to_lowercase()];
        ends.extend(
            self.name
                .strip_prefix("Get_")
                .map(|short| short.to_lowercase()),
        );
        let names = starts
            .iter()
            .flat_map(|start| ends.iter().map(move |end| format!("{start}{end}")));
        let mut names = names;
        names
            .find_map(|name| functions.present().find(|one| one.name == name))
            .map(|function| (function, *kind))
    }

    /// Returns the member's definition, if it corresponds to a C function.
    fn define(&self, functions: &Functions) -> Option<String> {
        let (function, kind) = self.function(functions)?;
        if function.variadic || function.result.to_c("") != "int" {
            return None;
        }
        let mut left = self.params.iter().peekable();
        let (mut own, mut told) = (false, None);
        let mut arguments = Vec::new();
        for param in &function.params {
            let is_handle = param.kind == kind && param.ctype.dimensions.is_empty();
            if is_handle && !own && param.ctype.pointers == 0 {
                own = true;
                arguments.push("handle".to_owned());
            } else if is_handle && !own && param.direction == Direction::InOut {
                own = true;
                arguments.push("&handle".to_owned());
            } else if let Some(argument) = left.peek().and_then(|given| pass(given, param)) {
                left.next();
                arguments.push(argument);
            } else if param.kind == Kind::Status && param.direction == Direction::Out {
                arguments.push("MPI_STATUS_IGNORE".to_owned());
            } else if told.is_none() && self.returns(param) {
                told = Some(param);
                arguments.push(format!("&{}", param.name));
            } else {
                return None;
            }
        }
        let complete = own && left.peek().is_none() && told.is_some() == (self.result != "void");
        complete.then(|| self.body(function, &arguments, told))
    }

    /// Returns whether the member's result is the value that C stores through this parameter.
    fn returns(&self, param: &Param) -> bool {
        let CType {
            base,
            pointers,
            dimensions,
            ..
        } = &param.ctype;
        if *pointers != 1 || !dimensions.is_empty() || param.direction != Direction::Out {
            return false;
        }
        match self.result.as_str() {
            "bool" => base == "int" && param.kind == Kind::Logical,
            "int" => base == "int" && param.kind != Kind::Logical,
            other => handle_of(other) == Some(base) || base_of(other) == *base,
        }
    }

    fn body(&self, function: &Function, arguments: &[String], told: Option<&Param>) -> String {
        let Member {
            class,
            name,
            result,
            is_const,
            ..
        } = self;
        let mut text = format!("{result} {class}::{name}({})", self.declared());
        text += if *is_const { " const\n{\n" } else { "\n{\n" };
        if let Some(told) = told {
            let base = &told.ctype.base;
            let first = match handle_of(result) {
                Some(handle) => format!("{}_NULL", null_of(handle)),
                None if told.kind == Kind::Rank => "MPI_UNDEFINED".to_owned(),
                None => "0".to_owned(),
            };
            let _ = writeln!(text, "    {base} {} = {first};", told.name);
        }
        let call = format!("{}({})", function.name, arguments.join(", "));
        let _ = writeln!(text, "    weft::check({call});");
        if let Some(told) = told {
            let test = if result == "bool" { " != 0" } else { "" };
            let _ = writeln!(text, "    return {}{test};", told.name);
        }
        text + "}\n"
    }
}

/// Returns the handle type of a class.
fn handle_of(class: &str) -> Option<&'static str> {
    Some(match class {
        "Comm" | "Intracomm" | "Intercomm" | "Cartcomm" | "Graphcomm" => "MPI_Comm",
        "Group" => "MPI_Group",
        "Datatype" => "MPI_Datatype",
        "Errhandler" => "MPI_Errhandler",
        "Info" => "MPI_Info",
        "Op" => "MPI_Op",
        "Request" | "Prequest" => "MPI_Request",
        "Win" => "MPI_Win",
        _ => return None,
    })
}

/// Returns the C type of a C++ typedef.
fn base_of(ctype: &str) -> &str {
    match ctype {
        "Aint" => "MPI_Aint",
        "Offset" => "MPI_Offset",
        other => other,
    }
}

/// Returns the prefix of a handle's null constant: `MPI_COMM` for `MPI_Comm`.
fn null_of(handle: &str) -> String {
    handle.to_uppercase()
}

/// Returns the C argument for a parameter, if it corresponds to this C parameter.
fn pass(given: &CxxParam, param: &Param) -> Option<String> {
    let CxxParam { ctype, name, array } = given;
    let pointers = param.ctype.pointers;
    if let Some(class) = ctype
        .strip_prefix("const ")
        .and_then(|rest| rest.strip_suffix(" &"))
    {
        let same = handle_of(class) == Some(param.ctype.base.as_str());
        return (same && pointers == 0 && array.is_empty()).then(|| name.clone());
    }
    if ctype == "Status &" {
        let same = param.kind == Kind::Status && param.direction == Direction::Out;
        return same.then(|| format!("&{name}.handle"));
    }
    if let Some(inner) = ctype.strip_suffix(" &") {
        let same = base_of(inner) == param.ctype.base && pointers == 1 && !param.ctype.is_const;
        return (same && param.kind != Kind::Logical).then(|| format!("&{name}"));
    }
    if ctype == "bool" {
        let same = param.kind == Kind::Logical && pointers == 0;
        return same.then(|| name.clone());
    }
    let (is_const, plain) = match ctype.strip_prefix("const ") {
        Some(plain) => (true, plain),
        None => (false, ctype.as_str()),
    };
    let stars = plain.matches('*').count();
    let plain = base_of(plain.trim_end_matches(['*', ' ']));
    let dimensions: String = param
        .ctype
        .dimensions
        .iter()
        .fold(String::new(), |all, size| all + "[" + size + "]");
    // A writable object can be passed where it is only read.
    let same = plain == param.ctype.base
        && stars == pointers
        && *array == dimensions
        && (is_const == param.ctype.is_const || (!is_const && pointers + dimensions.len() > 0));
    // Truth values are `bool` in C++ and correspond only as arrays or pointers.
    let fits = stars > 0 || !array.is_empty() || param.kind != Kind::Logical;
    (same && fits).then(|| name.clone())
}

impl Table {
    /// Returns the definitions of the members of `header`'s classes that follow from the table and
    /// that `by_hand` does not define.
    pub fn cxx(&self, header: &str, by_hand: &str) -> String {
        let mut text =
            "/* Generated from the table. */\n#include \"call.h\"\n\nnamespace MPI {\n".to_owned();
        for member in members(header) {
            if member.is_in(by_hand) {
                continue;
            }
            if let Some(definition) = member.define(&self.functions) {
                text.push('\n');
                text += &definition;
            }
        }
        text + "\n} // namespace MPI\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_follow_from_the_table_or_are_left_out() {
        let header = "\nclass Comm {\npublic:\n    Comm() : handle(MPI_COMM_NULL) {}\n    \
            virtual void Send(const void *buf, int count, const Datatype &datatype,\n        int dest, int tag) const;\n    \
            virtual int Get_rank() const; /* the rank; */\n    \
            virtual bool Iprobe(int source, int tag) const;\n    \
            virtual void Free();\n    \
            virtual bool Is_inter() const;\n    \
            virtual void Barrier() const;\n\
            };\n";
        let table = Table::load().unwrap();
        let text = table.cxx(header, "void Comm::Barrier() const\n{\n}\n");
        for part in [
            "void Comm::Send(const void *buf, int count, const Datatype &datatype, int dest, int tag) const\n{\n    \
             weft::check(MPI_Send(buf, count, datatype, dest, tag, handle));\n",
            "int Comm::Get_rank() const\n{\n    int rank = MPI_UNDEFINED;\n",
            "MPI_Iprobe(source, tag, handle, &flag, MPI_STATUS_IGNORE));",
            "return flag != 0;",
            "void Comm::Free()\n{\n    weft::check(MPI_Comm_free(&handle));\n",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        // The table has no such function, and the other is written by hand.
        assert!(
            !text.contains("Is_inter") && !text.contains("Barrier"),
            "{text}"
        );
    }
}
