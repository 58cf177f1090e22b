//! Arguments of the library's Rust functions: converted and checked by their kinds in the table, if
//! the Rust function's types ask for it.

use crate::function::{Direction, Function, How, Kind, Param, Style};
use crate::rust::rust_name;
use crate::source::identifiers;

impl Function {
    /// Returns the path and the arguments of the call of the Rust function. In checked functions the
    /// arguments are expressions that may end in `?`: see `libmpi/src/args.rs`.
    pub(crate) fn rust_call<'a>(&'a self, implementation: &'a str) -> (&'a str, String) {
        let arguments = match self.style {
            Style::Plain => self.arguments(),
            Style::Checked | Style::Tool => self.converted_arguments(),
        };
        match (&self.blocking, &self.passed) {
            (Some(blocking), _) => (blocking, arguments.join(", ")),
            (None, Some(passed)) => (implementation, self.expanded(passed, &arguments)),
            (None, None) => (implementation, arguments.join(", ")),
        }
    }

    /// Returns the text of arguments with parameters converted, arrays with their lengths, and the
    /// form of a collective. A parameter of which a method is called is as it is.
    fn expanded(&self, passed: &str, converted: &[String]) -> String {
        let plain = self.arguments();
        let mut text = String::new();
        let mut done = 0;
        for (at, word) in identifiers(passed) {
            let end = at + word.len();
            let param = self.params.iter().position(|param| param.name == word);
            let (from, to, value) = match param {
                _ if at < done => continue,
                None if word == "how" => (at, end, self.how().to_owned()),
                None => continue,
                Some(index) => match self.array(passed, at, word) {
                    Some(array) => array,
                    None if passed[end..].starts_with('.') => (at, end, plain[index].clone()),
                    None => (at, end, converted[index].clone()),
                },
            };
            text.push_str(&passed[done..from]);
            text.push_str(&value);
            done = to;
        }
        text.push_str(&passed[done..]);
        text
    }

    /// Returns the form of a collective, as the library has it.
    fn how(&self) -> &'static str {
        match self.how {
            How::Blocking => "How::Wait",
            How::Nonblocking => "How::Start(request)",
            How::Persistent => "How::Init(info, request)",
        }
    }

    /// Returns the array with its length that `[ARRAY; LENGTH]` stands for, if `word` is the array,
    /// and where that text begins and ends.
    fn array(&self, passed: &str, at: usize, word: &str) -> Option<(usize, usize, String)> {
        let before = passed[..at].trim_end().strip_suffix('[')?;
        let rest = passed[at..].strip_prefix(word)?.trim_start();
        let (length, rest) = rest.strip_prefix(';')?.split_once(']')?;
        let array = self.params.iter().find(|param| param.name == word)?;
        let function = match array.direction {
            Direction::In => "array",
            Direction::Out | Direction::InOut => "array_mut",
        };
        let (length, name) = (length.trim(), rust_name(word));
        let call = format!("{function}({name}, \"{word}\", {length}, \"{length}\")");
        Some((before.len(), passed.len() - rest.len(), call))
    }

    /// Returns the converted arguments of the shim.
    fn converted_arguments(&self) -> Vec<String> {
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
        let base = &ctype.base;
        let is_handler = base.contains("_errhandler_function") || base == "MPI_Handler_function";
        return Some(if is_handler {
            "ErrorFunction"
        } else {
            "Callback"
        });
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
            Kind::Request => "Request",
            _ => return None,
        });
    }
    let one = ctype.pointers == 1 && ctype.dimensions.is_empty();
    match (param.kind, param.direction) {
        (Kind::Text, Direction::In) if one && ctype.is_const => Some("Text"),
        (Kind::Text, Direction::Out) if one => Some("OutText"),
        (Kind::Status, Direction::In) if one => Some("StatusIn"),
        (Kind::Text | Kind::Texts | Kind::Buffer, _) => None,
        (_, Direction::Out) if one => Some("Output"),
        (_, Direction::InOut) if one => Some("Variable"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::function::Functions;

    /// Returns the calls that the shims of a table make.
    fn calls(text: &str) -> Vec<String> {
        let functions = Functions::parse("t", &format!("chapter 5 Title\n{text}")).unwrap();
        let calls = functions.present().map(|function| {
            let (path, arguments) = function.rust_call(function.implementation.as_deref().unwrap());
            format!("{}: {path}({arguments})", function.name)
        });
        calls.collect()
    }

    #[test]
    fn parameters_stand_for_their_arguments() {
        assert_eq!(
            calls(
                "int MPI_X(MPI_File fh, MPI_Offset offset, int *flag)\n    \
                 -> file::x(fh, At::offset(offset), Place { flag: fh.get() }, flag)"
            ),
            [
                "MPI_X: file::x(given::<kind::File, _, _>(fh, \"fh\")?, At::offset(offset), \
              Place { flag: fh.get() }, \
              given::<kind::Output, _, _>(flag, \"flag\")?)"
            ]
        );
    }

    #[test]
    fn arrays_come_with_their_lengths() {
        assert_eq!(
            calls(
                "int MPI_X(int n, const int in[], int m, int out[]) -> x::x([in; n], [ out ; m ])"
            ),
            ["MPI_X: x::x(array(r#in, \"in\", n, \"n\"), array_mut(out, \"out\", m, \"m\"))"]
        );
    }

    #[test]
    fn a_collective_has_three_forms() {
        assert_eq!(
            calls(
                "int MPI_X(void *buf, int count, MPI_Comm comm) [large, blocking x::x]\n    \
                 -> x::x_as(how, buf, count, comm)\n\
                 nonblocking MPI_X\n\
                 persistent MPI_X"
            ),
            [
                "MPI_X: x::x(buf, MPI_Count::from(count), given::<kind::Comm, _, _>(comm, \"comm\")?)",
                "MPI_X_c: x::x(buf, count, given::<kind::Comm, _, _>(comm, \"comm\")?)",
                "MPI_Ix: x::x_as(How::Start(request), buf, MPI_Count::from(count), \
                 given::<kind::Comm, _, _>(comm, \"comm\")?)",
                "MPI_Ix_c: x::x_as(How::Start(request), buf, count, \
                 given::<kind::Comm, _, _>(comm, \"comm\")?)",
                "MPI_X_init: x::x_as(How::Init(info, request), buf, MPI_Count::from(count), \
                 given::<kind::Comm, _, _>(comm, \"comm\")?)",
                "MPI_X_init_c: x::x_as(How::Init(info, request), buf, count, \
                 given::<kind::Comm, _, _>(comm, \"comm\")?)",
            ]
        );
    }
}
