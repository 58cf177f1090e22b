//! The function table: prototypes by chapter, and the meanings of their parameters.

use std::collections::BTreeSet;

use crate::ctype::CType;
use crate::description::Description;
use crate::source::{ParseError, Tokens, identifiers, statements};

/// All functions.
#[derive(Debug)]
pub struct Functions {
    /// The chapters of the standard, in order, and then the groups of other symbols.
    pub chapters: Vec<Chapter>,
}

/// A chapter of the standard, or a group of symbols that the standard does not name.
#[derive(Debug)]
pub struct Chapter {
    /// The chapter's number; `None` for a group of other symbols.
    pub number: Option<u32>,
    /// The chapter's title.
    pub title: String,
    /// Its functions, in the order of the table.
    pub functions: Vec<Function>,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The name, `MPI_Send`.
    pub name: String,
    /// The result's type.
    pub result: CType,
    /// The parameters, without those behind `...`.
    pub params: Vec<Param>,
    /// Whether the prototype ends in `...`.
    pub variadic: bool,
    /// The Rust function below `crate::api` that implements it; `None` if it is missing.
    pub implementation: Option<String>,
    /// The Rust function's arguments, if they are not the parameters in order.
    pub passed: Option<String>,
    /// The Rust function that the blocking form of a collective calls with its parameters instead.
    pub blocking: Option<String>,
    /// How a collective is called.
    pub how: How,
    /// The Rust function below `crate::api` that is tried first, with the parameters as they are.
    pub fast: Option<String>,
    /// The Cargo feature of libmpi without which it is missing.
    pub feature: Option<String>,
    /// Deprecated or removed by the standard.
    pub outdated: bool,
    /// Removed by MPI-3.0.
    pub removed: bool,
    /// The first version of the standard that has it: `(4, 0)`. All of MPI-3.1 counts as (3, 1).
    pub since: (u32, u32),
    /// Whether `mpi.h` defines it as a macro too (handle conversions).
    pub is_macro: bool,
    /// Whether only libraries of other languages use it, so that `mpi.h` does not declare it.
    pub is_companion: bool,
    /// The Rust function's kind of result.
    pub style: Style,
    /// This form, if the function has one with large counts.
    pub form: Option<Form>,
    /// The section of the standard, "3.2 Blocking send and receive"; may be empty.
    pub section: String,
    /// What readers learn about it.
    pub description: Description,
    /// The line of the table.
    pub line: usize,
}

/// One of the two forms of a function.
#[derive(Clone, Debug)]
pub struct Form {
    /// Whether this is the form with large counts.
    pub is_large: bool,
    /// Whether the Rust function's first argument is the form that was called.
    pub told: bool,
    /// The types of the other form's parameters, in order.
    pub other: Vec<CType>,
}

/// The three forms of a collective, and of all other functions the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// `MPI_Bcast`.
    Blocking,
    /// `MPI_Ibcast`.
    Nonblocking,
    /// `MPI_Bcast_init`.
    Persistent,
}

/// The kind of result of the Rust function behind a C function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// A `Result`: an error goes to the error handler, and its code is returned.
    Checked,
    /// The value that C returns.
    Plain,
    /// The tool interface's `Result`, of which a code is made; the state of the interface, locked,
    /// is the first argument.
    Tool,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ctype: CType,
    /// Its meaning.
    pub kind: Kind,
    /// Whether the argument, or the memory it points to, is read or written.
    pub direction: Direction,
}

/// Whether the library reads or writes an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// It is read.
    In,
    /// It is written.
    Out,
    /// It is read and written.
    InOut,
}

/// The meaning of a parameter; for a pointer, of its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "handles by their names")]
pub enum Kind {
    /// The program's data, of the datatype that another parameter gives.
    Buffer,
    /// Another address.
    Address,
    /// A value of the program that is passed to its callbacks.
    ExtraState,
    /// The value of an attribute.
    Attribute,
    Comm,
    Group,
    Datatype,
    Op,
    Request,
    Message,
    Errhandler,
    Info,
    Win,
    Session,
    /// A stream, an extension.
    Stream,
    /// The argument of `MPIX_Async_start`'s callbacks.
    AsyncThing,
    File,
    Status,
    /// A status of Fortran 2008.
    StatusF08,
    /// A handle of the tool information interface.
    Tool,
    /// A number of elements.
    Count,
    /// A rank, or a constant in its place.
    Rank,
    /// A message tag.
    Tag,
    /// A truth value.
    Logical,
    /// An attribute key.
    Keyval,
    /// An error code or class.
    ErrorCode,
    /// Another int.
    Int,
    /// `MPI_Aint`.
    Aint,
    /// `MPI_Offset`.
    Offset,
    /// `MPI_Count`.
    BigCount,
    /// A Fortran `INTEGER`.
    Fint,
    /// A string that ends in NUL.
    Text,
    /// An array of strings, or of arrays of strings.
    Texts,
    /// A callback of the program.
    Callback,
}

impl Functions {
    /// Parses a function table; `file` is the name for messages.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, ParseError> {
        let mut chapters: Vec<Chapter> = Vec::new();
        let mut section = String::new();
        let mut feature: Option<String> = None;
        for statement in statements(file, text)? {
            let fail = |what: String| ParseError {
                file: file.to_owned(),
                line: statement.line,
                what,
            };
            let line = statement.text();
            match line.split_once(' ') {
                Some(("chapter", rest)) => {
                    let (number, title) = rest
                        .split_once(' ')
                        .ok_or_else(|| fail("a chapter needs number and title".to_owned()))?;
                    let number = number
                        .parse()
                        .map_err(|_| fail(format!("`{number}` is not a chapter's number")))?;
                    chapters.push(Chapter {
                        number: Some(number),
                        title: title.to_owned(),
                        functions: Vec::new(),
                    });
                    section.clear();
                    feature = None;
                }
                Some(("support", title)) => {
                    chapters.push(Chapter {
                        number: None,
                        title: title.to_owned(),
                        functions: Vec::new(),
                    });
                    section.clear();
                    feature = None;
                }
                Some(("feature", rest)) => match rest.split_once(' ') {
                    None => feature = Some(rest.to_owned()),
                    Some((feature, names)) => {
                        for name in names.split_whitespace() {
                            needs(&mut chapters, name, feature).map_err(fail)?;
                        }
                    }
                },
                Some(("section", rest)) => rest.clone_into(&mut section),
                Some((form @ ("nonblocking" | "persistent"), names)) => {
                    let how = match form {
                        "nonblocking" => How::Nonblocking,
                        _ => How::Persistent,
                    };
                    for name in names.split_whitespace() {
                        let mut function = all_of(&chapters)
                            .find(|function| function.name == name)
                            .ok_or_else(|| format!("{name} does not stand above"))
                            .and_then(|collective| collective.in_form(how))
                            .map_err(fail)?;
                        function.line = statement.line;
                        section.clone_into(&mut function.section);
                        function.feature.clone_from(&feature);
                        add(&mut chapters, function).map_err(fail)?;
                    }
                }
                _ => {
                    let mut function = Function::parse(&line, statement.line).map_err(fail)?;
                    section.clone_into(&mut function.section);
                    function.feature.clone_from(&feature);
                    add(&mut chapters, function).map_err(fail)?;
                }
            }
        }
        Ok(Functions { chapters })
    }

    /// Returns the Cargo features that functions need.
    pub fn features(&self) -> BTreeSet<&str> {
        self.all()
            .filter_map(|function| function.feature.as_deref())
            .collect()
    }

    /// Removes the implementations of functions whose Cargo feature is off.
    pub fn keep_features(&mut self, is_on: impl Fn(&str) -> bool) {
        let chapters = self.chapters.iter_mut();
        for function in chapters.flat_map(|chapter| &mut chapter.functions) {
            if function.feature.as_deref().is_some_and(|name| !is_on(name)) {
                function.implementation = None;
            }
        }
    }

    /// Iterates over all functions, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = &Function> {
        all_of(&self.chapters)
    }

    /// Iterates over the implemented functions.
    pub fn present(&self) -> impl Iterator<Item = &Function> {
        self.all()
            .filter(|function| function.implementation.is_some())
    }
}

/// Iterates over the functions of chapters.
fn all_of(chapters: &[Chapter]) -> impl Iterator<Item = &Function> {
    chapters.iter().flat_map(|chapter| &chapter.functions)
}

/// Notes the Cargo feature that a function and its form with large counts need.
fn needs(chapters: &mut [Chapter], name: &str, feature: &str) -> Result<(), String> {
    let functions = chapters
        .iter_mut()
        .flat_map(|chapter| &mut chapter.functions);
    let mut forms = functions
        .filter(|function| {
            function
                .name
                .strip_prefix(name)
                .is_some_and(|rest| ["", "_c"].contains(&rest))
        })
        .peekable();
    if forms.peek().is_none() {
        return Err(format!("{name} does not stand above"));
    }
    forms.for_each(|function| function.feature = Some(feature.to_owned()));
    Ok(())
}

/// Adds a function to the last chapter, and its form with large counts.
fn add(chapters: &mut [Chapter], function: Function) -> Result<(), String> {
    let large = function.large();
    for function in [Some(function), large].into_iter().flatten() {
        if let Some(twin) = all_of(chapters).find(|other| other.name == function.name) {
            return Err(format!(
                "{} stands on line {} already",
                twin.name, twin.line
            ));
        }
        let chapter = chapters.last_mut();
        let chapter = chapter.ok_or("a function above the first chapter")?;
        chapter.functions.push(function);
    }
    Ok(())
}

impl Function {
    /// Parses a prototype with its attributes and implementation.
    fn parse(text: &str, line: usize) -> Result<Self, String> {
        let mut tokens = Tokens::new(text);
        let (result, name, params, variadic) = prototype(&mut tokens)?;
        let mut function = Function {
            style: match result.to_c("") == "int" {
                true if name.starts_with("MPI_T_") => Style::Tool,
                true => Style::Checked,
                false => Style::Plain,
            },
            name,
            result,
            params,
            variadic,
            implementation: None,
            passed: None,
            blocking: None,
            how: How::Blocking,
            fast: None,
            feature: None,
            outdated: false,
            removed: false,
            since: (3, 1),
            is_macro: false,
            is_companion: false,
            section: String::new(),
            description: Description::default(),
            line,
            form: None,
        };
        if !function.name.starts_with("MPI") {
            return Err(format!("`{}` is not a name of MPI", function.name));
        }
        for param in &mut function.params {
            param.kind = kind(&param.ctype, &param.name).ok_or_else(|| {
                let (ctype, name) = (&param.ctype, &param.name);
                format!("what `{}` means is not known here", ctype.to_c(name))
            })?;
            param.direction = direction(&param.ctype);
        }
        if tokens.take("[") {
            loop {
                function.attribute(&mut tokens)?;
                if !tokens.take(",") {
                    break;
                }
            }
            tokens.expect("]")?;
        }
        if tokens.take("->") {
            function.implementation = Some(path(&mut tokens)?);
            function.passed = tokens.parenthesized()?.map(str::to_owned);
        }
        match tokens.rest() {
            "" => Ok(function),
            rest => Err(format!("`{rest}` does not belong here")),
        }
    }

    fn attribute(&mut self, tokens: &mut Tokens<'_>) -> Result<(), String> {
        match tokens.identifier("an attribute")? {
            "deprecated" => self.outdated = true,
            "removed" => (self.outdated, self.removed) = (true, true),
            "since" => self.since = version(tokens)?,
            "macro" => self.is_macro = true,
            "companion" => self.is_companion = true,
            "plain" => self.style = Style::Plain,
            "fast" => {
                let mut fast = path(tokens)?;
                if tokens.take("<") {
                    tokens.expect("LARGE")?;
                    tokens.expect(">")?;
                    fast.push_str("::<LARGE>");
                }
                self.fast = Some(fast);
            }
            "blocking" => self.blocking = Some(path(tokens)?),
            "large" => {
                let mut names = Vec::new();
                while !matches!(tokens.peek(), "," | "]") {
                    names.push(tokens.identifier("a parameter")?);
                }
                self.form = Some(self.widened(&names)?);
            }
            "in" => self.each_named(tokens, |param| param.direction = Direction::In)?,
            "inout" => self.each_named(tokens, |param| param.direction = Direction::InOut)?,
            "is" => {
                let name = tokens.identifier("a parameter")?;
                let kind = named_kind(tokens.identifier("a kind")?)?;
                self.param_mut(name)?.kind = kind;
            }
            "told" => match &mut self.form {
                Some(form) => form.told = true,
                None => return Err("`told` belongs behind `large`".to_owned()),
            },
            other => return Err(format!("`{other}` is not an attribute")),
        }
        Ok(())
    }

    fn each_named(
        &mut self,
        tokens: &mut Tokens<'_>,
        change: impl Fn(&mut Param),
    ) -> Result<(), String> {
        loop {
            change(self.param_mut(tokens.identifier("a parameter")?)?);
            if matches!(tokens.peek(), "," | "]") {
                return Ok(());
            }
        }
    }

    fn param_mut(&mut self, name: &str) -> Result<&mut Param, String> {
        let function = &self.name;
        self.params
            .iter_mut()
            .find(|param| param.name == name)
            .ok_or_else(|| format!("{function} has no parameter `{name}`"))
    }

    /// Names the Rust function that implements it, which takes the parameters in order.
    pub fn implement(&mut self, path: String) {
        self.fast = self.fast.is_some().then(|| format!("{path}_fast"));
        self.implementation = Some(path);
        (self.passed, self.blocking) = (None, None);
    }

    /// Returns the nonblocking or persistent form of a collective.
    fn in_form(&self, how: How) -> Result<Function, String> {
        let name = self.name.strip_prefix("MPI_").unwrap_or(&self.name);
        let passed = self.passed.as_deref().unwrap_or_default();
        if !identifiers(passed).any(|(_, word)| word == "how") {
            return Err(format!(
                "{} passes no `how` to its Rust function",
                self.name
            ));
        }
        let mut form = self.clone();
        form.how = how;
        form.blocking = None;
        let added = match how {
            How::Blocking => "",
            How::Nonblocking => {
                let (first, rest) = name.split_at(1);
                form.name = format!("MPI_I{}{rest}", first.to_lowercase());
                "MPI_Request *request"
            }
            How::Persistent => {
                form.name.push_str("_init");
                form.since = form.since.max((4, 0));
                "MPI_Info info, MPI_Request *request"
            }
        };
        let added = Function::parse(&format!("int MPI_X({added})"), self.line)?.params;
        if let Some(form) = &mut form.form {
            form.other
                .extend(added.iter().map(|param| param.ctype.clone()));
        }
        form.params.extend(added);
        Ok(form)
    }

    /// Returns the name of the form with ints, if this one has large counts: `MPI_Send` of
    /// `MPI_Send_c`.
    pub fn narrow_name(&self) -> Option<&str> {
        self.name
            .strip_suffix("_c")
            .filter(|_| self.since >= (4, 0))
    }

    /// Returns whether the standard or an extension names it, so that it has a `PMPI_` twin.
    pub fn is_standard(&self) -> bool {
        self.name.starts_with("MPI_") || self.name.starts_with("MPIX_")
    }

    /// Returns the symbol of the function's code: `PMPI_Send`.
    pub fn strong_name(&self) -> String {
        if self.is_standard() {
            format!("P{}", self.name)
        } else {
            self.name.clone()
        }
    }

    /// Returns the C prototype under another name, on one line, without a semicolon.
    pub fn prototype(&self, name: &str) -> String {
        prototype_text(&self.result, name, &self.params, self.variadic)
    }
}

/// Takes the path of a Rust function below `crate::api`.
fn path(tokens: &mut Tokens<'_>) -> Result<String, String> {
    let mut path = tokens.identifier("a module of crate::api")?.to_owned();
    tokens.expect("::")?;
    loop {
        path.push_str("::");
        path.push_str(tokens.identifier("a function's name")?);
        if !tokens.take("::") || tokens.peek() == "<" {
            return Ok(path);
        }
    }
}

/// The versions of the standard that a function can be new in, oldest first.
pub const VERSIONS: [(u32, u32); 4] = [(3, 1), (4, 0), (4, 1), (5, 0)];

/// Takes a version of the standard, `4.1`.
fn version(tokens: &mut Tokens<'_>) -> Result<(u32, u32), String> {
    let major = tokens.next();
    tokens.expect(".")?;
    let minor = tokens.next();
    VERSIONS
        .into_iter()
        .find(|(one, two)| major == one.to_string() && minor == two.to_string())
        .ok_or_else(|| format!("`{major}.{minor}` is not a version of the standard known here"))
}

/// Writes a prototype in one line.
pub(crate) fn prototype_text(
    result: &CType,
    name: &str,
    params: &[Param],
    variadic: bool,
) -> String {
    let mut list: Vec<String> = params
        .iter()
        .map(|param| param.ctype.to_c_param(&param.name))
        .collect();
    if variadic {
        list.push("...".to_owned());
    }
    if list.is_empty() {
        list.push("void".to_owned());
    }
    format!("{}({})", result.to_c(name), list.join(", "))
}

/// Parses `int NAME(PARAMETERS)`; kinds and directions are not yet known.
pub(crate) fn prototype(
    tokens: &mut Tokens<'_>,
) -> Result<(CType, String, Vec<Param>, bool), String> {
    let result = CType::abstract_type(tokens)?;
    let name = tokens.identifier("a function's name")?.to_owned();
    tokens.expect("(")?;
    let mut params: Vec<Param> = Vec::new();
    let mut variadic = false;
    if tokens.peek() == "void" {
        let mut ahead = Tokens::new(tokens.rest());
        ahead.next();
        if ahead.peek() == ")" {
            tokens.next();
        }
    }
    if !tokens.take(")") {
        loop {
            if tokens.take("...") {
                variadic = true;
                tokens.expect(")")?;
                break;
            }
            let (ctype, name) = CType::declaration(tokens)?;
            if params.iter().any(|param| param.name == name) {
                return Err(format!("two parameters have the name `{name}`"));
            }
            params.push(Param {
                name,
                ctype,
                kind: Kind::Int,
                direction: Direction::In,
            });
            if tokens.take(")") {
                break;
            }
            tokens.expect(",")?;
        }
    }
    Ok((result, name, params, variadic))
}

/// Returns the direction of a parameter: pointers to objects that are not constant are written.
fn direction(ctype: &CType) -> Direction {
    if ctype.is_pointer() && !ctype.is_const && !ctype.is_callback() {
        Direction::Out
    } else {
        Direction::In
    }
}

/// Returns the meaning of a parameter by its type, and for ints and addresses by its name.
fn kind(ctype: &CType, name: &str) -> Option<Kind> {
    Some(match ctype.base.as_str() {
        "void" => match name {
            "extra_state" => Kind::ExtraState,
            _ if name.starts_with("attribute_val") => Kind::Attribute,
            "base" | "baseptr" | "location" | "buffer_addr" | "obj_handle" => Kind::Address,
            _ => Kind::Buffer,
        },
        "char" if ctype.pointers + ctype.dimensions.len() > 1 => Kind::Texts,
        "char" => Kind::Text,
        "int" => int_kind(name),
        "MPI_Comm" => Kind::Comm,
        "MPI_Group" => Kind::Group,
        "MPI_Datatype" => Kind::Datatype,
        "MPI_Op" => Kind::Op,
        "MPI_Request" => Kind::Request,
        "MPI_Message" => Kind::Message,
        "MPI_Errhandler" => Kind::Errhandler,
        "MPI_Info" => Kind::Info,
        "MPI_Win" => Kind::Win,
        "MPI_Session" => Kind::Session,
        "MPIX_Stream" => Kind::Stream,
        "MPIX_Async_thing" => Kind::AsyncThing,
        "MPIX_Grequest_class" => Kind::Int,
        "MPI_File" => Kind::File,
        "MPI_Status" => Kind::Status,
        "MPI_F08_status" => Kind::StatusF08,
        "MPI_Aint" => Kind::Aint,
        "MPIX_Iov" => Kind::Address,
        "MPI_Offset" => Kind::Offset,
        "MPI_Count" => Kind::BigCount,
        "MPI_Fint" => Kind::Fint,
        tool if tool.starts_with("MPI_T_") => Kind::Tool,
        _ if ctype.is_callback() => Kind::Callback,
        _ => return None,
    })
}

fn int_kind(name: &str) -> Kind {
    match name {
        "dest" | "source" | "root" | "rank" | "target_rank" | "local_leader" | "remote_leader"
        | "rank_source" | "rank_dest" | "newrank" | "ranks" | "ranks1" | "ranks2" | "sources"
        | "destinations" | "neighbors" | "edges" => Kind::Rank,
        "tag" | "sendtag" | "recvtag" => Kind::Tag,
        "flag" | "reorder" | "periods" | "remain_dims" | "commute" | "high" | "weighted" => {
            Kind::Logical
        }
        "errorcode" | "errorclass" | "array_of_errcodes" => Kind::ErrorCode,
        _ if name.ends_with("keyval") => Kind::Keyval,
        _ if name.ends_with("count") || name.ends_with("counts") => Kind::Count,
        _ => Kind::Int,
    }
}

fn named_kind(name: &str) -> Result<Kind, String> {
    Ok(match name {
        "buffer" => Kind::Buffer,
        "address" => Kind::Address,
        "count" => Kind::Count,
        "rank" => Kind::Rank,
        "tag" => Kind::Tag,
        "logical" => Kind::Logical,
        "keyval" => Kind::Keyval,
        "errorcode" => Kind::ErrorCode,
        "int" => Kind::Int,
        other => return Err(format!("`{other}` is not a kind that can be given")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Function, String> {
        Functions::parse("t", &format!("chapter 3 Title\n{text}"))
            .map(|functions| functions.all().next().unwrap().clone())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn prototype_with_everything() {
        let function = one(
            "int MPI_Mrecv(void *buf, int count,\n    MPI_Message *message, int \
                            odd) [removed, inout message, is odd rank] -> pt2pt::recv::mrecv",
        )
        .unwrap();
        assert_eq!(
            function.implementation.as_deref(),
            Some("pt2pt::recv::mrecv")
        );
        assert!(function.outdated);
        let meaning: Vec<(Kind, Direction)> = function
            .params
            .iter()
            .map(|param| (param.kind, param.direction))
            .collect();
        assert_eq!(
            meaning,
            [
                (Kind::Buffer, Direction::Out),
                (Kind::Count, Direction::In),
                (Kind::Message, Direction::InOut),
                (Kind::Rank, Direction::In),
            ]
        );
        assert_eq!(
            function.prototype("PMPI_Mrecv"),
            "int PMPI_Mrecv(void *buf, int count, MPI_Message *message, int odd)"
        );
    }

    #[test]
    fn functions_of_a_feature_that_is_off_have_no_implementation() {
        let text = "chapter 3 One\nint MPI_A(int count) [large] -> a::a\nint MPI_B(void) -> a::b\n\
                    feature some MPI_A\nchapter 4 Two\nfeature other\nint MPI_C(void) -> a::c\n\
                    chapter 5 Three\nint MPI_D(void) -> a::d";
        let mut functions = Functions::parse("t", text).unwrap();
        assert_eq!(
            functions.features().into_iter().collect::<Vec<_>>(),
            ["other", "some"]
        );
        functions.keep_features(|name| name == "other");
        let names: Vec<&str> = functions.present().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["MPI_B", "MPI_C", "MPI_D"]);
        functions.keep_features(|_| false);
        assert_eq!(functions.present().count(), 2);
    }

    #[test]
    fn versions() {
        assert_eq!(one("int MPI_X(void)").unwrap().since, (3, 1));
        assert_eq!(one("int MPI_X(void) [since 4.1]").unwrap().since, (4, 1));
        assert_eq!(
            one("int MPI_X(void) [since 4.2]").unwrap_err(),
            "t:2: `4.2` is not a version of the standard known here"
        );
    }

    #[test]
    fn styles() {
        assert_eq!(one("int MPI_X(void)").unwrap().style, Style::Checked);
        assert_eq!(one("double MPI_X(void)").unwrap().style, Style::Plain);
        assert_eq!(one("int MPI_T_x(void)").unwrap().style, Style::Tool);
        assert_eq!(one("int MPI_X(void) [plain]").unwrap().style, Style::Plain);
        assert!(
            one("int MPI_Pcontrol(const int level, ...)")
                .unwrap()
                .variadic
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, message) in [
            (
                "int MPI_X(int a, int a)",
                "t:2: two parameters have the name `a`",
            ),
            ("int MPI_X(int)", "t:2: expected a name before `)`"),
            (
                "int MPI_X(MPI_Foo *x)",
                "t:2: what `MPI_Foo *x` means is not known here",
            ),
            (
                "int MPI_X(int a) [inout b]",
                "t:2: MPI_X has no parameter `b`",
            ),
            ("int MPI_X(int a) [nice]", "t:2: `nice` is not an attribute"),
            ("int MPI_X(int a) -> send", "t:2: expected `::` before ``"),
            ("int MPI_X(int a);", "t:2: `;` does not belong here"),
            (
                "int MPI_X(int a) -> x::x(a",
                "t:2: `(a` has no closing parenthesis",
            ),
            ("nonblocking MPI_X", "t:2: MPI_X does not stand above"),
            ("feature f MPI_X", "t:2: MPI_X does not stand above"),
            (
                "int MPI_X(int a) -> x::x\nnonblocking MPI_X",
                "t:3: MPI_X passes no `how` to its Rust function",
            ),
            ("int foo(int a)", "t:2: `foo` is not a name of MPI"),
            (
                "int MPI_X(void)\nint MPI_X(void)",
                "t:3: MPI_X stands on line 2 already",
            ),
        ] {
            assert_eq!(one(text).unwrap_err(), message);
        }
        assert_eq!(
            Functions::parse("t", "int MPI_X(void)")
                .unwrap_err()
                .to_string(),
            "t:1: a function above the first chapter"
        );
    }
}
