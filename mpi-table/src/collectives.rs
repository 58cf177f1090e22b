//! The table of collectives: its parser, and the generators of the selection's types, of the
//! dispatch to builders of schedules, and of `WEFT_COLL`'s help.

use std::fmt::Write as _;

use crate::source::{ParseError, Statement, statements};

/// The medium through which a schedule's data moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executor {
    /// Messages between ranks.
    Messages,
    /// Slots of a node in shared memory.
    Slots,
    /// Copies from each other's memory within a node.
    Direct,
    /// Writes to slots over a network.
    Writes,
}

/// All executors, by their names in the table.
const EXECUTORS: [(&str, Executor); 4] = [
    ("messages", Executor::Messages),
    ("slots", Executor::Slots),
    ("direct", Executor::Direct),
    ("writes", Executor::Writes),
];

/// The collectives that have a choice of algorithms.
#[derive(Debug)]
pub struct Collectives {
    /// Heads of the executors' parts of the help.
    heads: Vec<(Executor, String)>,
    /// The switches with their help.
    switches: Vec<(String, String)>,
    /// The collectives, in the order of the table.
    collectives: Vec<Collective>,
}

/// A collective.
#[derive(Debug)]
struct Collective {
    name: String,
    algorithms: Vec<Algorithm>,
}

/// An algorithm of a collective.
#[derive(Debug)]
struct Algorithm {
    executor: Executor,
    name: String,
    parameters: Vec<Parameter>,
    /// What a call must be, `power-of-two`.
    conditions: Vec<String>,
    /// The algorithm for other calls, with its parameters.
    otherwise: Option<String>,
    /// The path of the function that builds the schedule.
    builder: Option<String>,
    doc: Vec<String>,
}

/// A parameter of an algorithm.
#[derive(Clone, PartialEq, Debug)]
struct Parameter {
    name: String,
    ty: String,
    /// The allowed values; empty: all from `least` on.
    values: Vec<usize>,
    least: usize,
    default: Option<usize>,
    help: String,
}

/// Returns a name as a type or variant, `ReduceScatter` of `reduce_scatter`.
fn camel(name: &str) -> String {
    let words = name.split(['-', '_']).filter(|word| !word.is_empty());
    words
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// Joins a list for people: `a, b and c`.
fn listed(items: &[String], last: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// Splits a text at a bracket that closes at its end.
fn bracketed(text: &str, open: char, close: char) -> Result<(&str, &str), String> {
    match text.strip_suffix(close) {
        None => Ok((text, "")),
        Some(inner) => inner
            .split_once(open)
            .map(|(before, inner)| (before.trim_end(), inner))
            .ok_or_else(|| format!("`{close}` without `{open}`")),
    }
}

impl Parameter {
    fn parse(text: &str) -> Result<Parameter, String> {
        let (head, help) = text
            .split_once(':')
            .ok_or_else(|| format!("expected `: HELP` behind `{text}`"))?;
        let number = |word: &str| {
            let number: Result<usize, _> = word.parse();
            number.map_err(|_| format!("expected a number before `{word}`"))
        };
        let (head, default) = match head.split_once('=') {
            Some((head, default)) => (head, Some(number(default.trim())?)),
            None => (head, None),
        };
        let mut words = head.split_whitespace().peekable();
        let name = words.next().ok_or("expected a parameter's name")?;
        let ty = words.next_if(|word| !["in", "from"].contains(word));
        let (mut values, mut least) = (Vec::new(), 1);
        while let Some(word) = words.next() {
            match word {
                "in" => {
                    while let Some(value) = words.next_if(|word| *word != "from") {
                        values.push(number(value)?);
                    }
                }
                "from" => least = number(words.next().unwrap_or_default())?,
                other => return Err(format!("`{other}` does not belong here")),
            }
        }
        Ok(Parameter {
            name: name.to_owned(),
            ty: ty.unwrap_or("usize").to_owned(),
            values,
            least,
            default,
            help: help.trim().to_owned(),
        })
    }

    /// Returns the type of the field.
    fn rust_type(&self) -> String {
        match self.default {
            Some(_) => self.ty.clone(),
            None => format!("Option<{}>", self.ty),
        }
    }

    /// Returns the expression of the field from a parsed value, an `Option<usize>`.
    fn value_of(&self, value: &str) -> String {
        let cast = match self.ty.as_str() {
            "usize" => String::new(),
            ty => format!(" as {ty}"),
        };
        match self.default {
            Some(default) => format!("{value}.unwrap_or({default}){cast}"),
            None => value.to_owned(),
        }
    }
}

impl Algorithm {
    fn parse(executor: Executor, text: &str, doc: Vec<String>) -> Result<Algorithm, String> {
        let (head, builder) = match text.split_once(" -> ") {
            Some((head, builder)) => (head.trim(), Some(builder.trim().to_owned())),
            None => (text, None),
        };
        let (head, restrictions) = bracketed(head, '[', ']')?;
        let (name, parameters) = bracketed(head, '(', ')')?;
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(format!("expected an algorithm's name before `{text}`"));
        }
        let (mut conditions, mut otherwise) = (Vec::new(), None);
        for word in restrictions.split(',').map(str::trim) {
            match word.strip_prefix("else ") {
                Some(other) => otherwise = Some(other.to_owned()),
                None if !word.is_empty() => conditions.push(word.to_owned()),
                None => {}
            }
        }
        if conditions.is_empty() != otherwise.is_none() {
            return Err(format!("{name} needs conditions and `else`, or neither"));
        }
        let parameters = parameters.split(',').filter(|text| !text.is_empty());
        Ok(Algorithm {
            executor,
            name: name.to_owned(),
            parameters: parameters.map(Parameter::parse).collect::<Result<_, _>>()?,
            conditions,
            otherwise,
            builder,
            doc,
        })
    }

    /// Returns the name of the variant.
    fn variant(&self) -> String {
        camel(self.name.strip_prefix("rdma-").unwrap_or(&self.name))
    }

    /// Returns the fields of the variant, each by `field`.
    fn fields(&self, field: impl Fn(usize, &Parameter) -> String) -> String {
        let fields: Vec<String> = (0..)
            .zip(&self.parameters)
            .map(|(at, parameter)| field(at, parameter))
            .collect();
        match fields.is_empty() {
            true => String::new(),
            false => format!(" {{ {} }}", fields.join(", ")),
        }
    }

    /// Describes the algorithm with its parameters in the help.
    fn help(&self) -> String {
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .map(|Parameter { help, values, .. }| {
                let values: Vec<String> = values.iter().map(usize::to_string).collect();
                match values.is_empty() {
                    true => help.clone(),
                    false => format!("{help} {}", listed(&values, "or")),
                }
            })
            .collect();
        match parameters.is_empty() {
            true => self.name.clone(),
            false => format!("{} with {}", self.name, listed(&parameters, "and")),
        }
    }
}

impl Collective {
    fn by(&self, executor: Executor) -> impl Iterator<Item = &Algorithm> {
        self.algorithms
            .iter()
            .filter(move |algorithm| algorithm.executor == executor)
    }

    /// The named algorithms by writes.
    fn written(&self) -> impl Iterator<Item = &Algorithm> {
        self.by(Executor::Writes)
            .filter(|algorithm| algorithm.name != "rdma")
    }

    /// Returns the enum of an algorithm and its variant there; `None`: a variant of `Algorithm`.
    fn enum_of(&self, algorithm: &Algorithm) -> Option<String> {
        match algorithm.executor {
            Executor::Messages => Some(camel(&self.name)),
            Executor::Writes if algorithm.name != "rdma" => {
                Some(format!("Rdma{}", camel(&self.name)))
            }
            _ => None,
        }
    }

    /// Returns an algorithm by messages with the parameters given to it, as an expression.
    fn expression(&self, named: &str) -> Result<String, String> {
        let mut parts = named.split(':');
        let name = parts.next().unwrap_or_default();
        let values: Vec<&str> = parts.collect();
        let algorithm = self
            .by(Executor::Messages)
            .find(|algorithm| algorithm.name == name)
            .ok_or_else(|| format!("{} has no algorithm `{name}` by messages", self.name))?;
        let fields = algorithm.fields(|at, parameter| {
            let default = parameter.default.map(|default| default.to_string());
            let value = values.get(at).map(|value| (*value).to_owned());
            format!(
                "{}: {}",
                parameter.name,
                value.or(default).unwrap_or_default()
            )
        });
        Ok(format!("Self::{}{fields}", algorithm.variant()))
    }
}

impl Collectives {
    /// Parses the table of this library.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn load() -> Result<Collectives, ParseError> {
        Collectives::parse("collectives.mpi", crate::COLLECTIVES)
    }

    /// Parses a table; `file` is the name for messages.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Collectives, ParseError> {
        let mut table = Collectives {
            heads: Vec::new(),
            switches: Vec::new(),
            collectives: Vec::new(),
        };
        for statement in statements(file, text)? {
            table.add(&statement).map_err(|what| ParseError {
                file: file.to_owned(),
                line: statement.line,
                what,
            })?;
        }
        for collective in &table.collectives {
            let all = collective.algorithms.iter();
            for other in all.filter_map(|algorithm| algorithm.otherwise.as_deref()) {
                collective.expression(other).map_err(|what| ParseError {
                    file: file.to_owned(),
                    line: 0,
                    what,
                })?;
            }
        }
        Ok(table)
    }

    fn add(&mut self, statement: &Statement<'_>) -> Result<(), String> {
        let lines = statement.lines[1..].iter();
        let doc: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
        let (keyword, rest) = statement.lines[0].split_once(' ').unwrap_or_default();
        let executor = |name: &str| {
            let found = EXECUTORS.iter().find(|(known, _)| *known == name);
            found.map(|(_, executor)| *executor)
        };
        let rest = rest.trim();
        match (keyword, executor(keyword)) {
            ("executor", _) => {
                let executor = executor(rest).ok_or_else(|| format!("`{rest}` is no executor"))?;
                self.heads.push((executor, doc.join(" ")));
            }
            ("switch", _) => self.switches.push((rest.to_owned(), doc.join(" "))),
            ("collective", _) => {
                let is_same = |other: &Collective| other.name == rest;
                if self.collectives.iter().any(is_same) {
                    return Err(format!("{rest} is declared twice"));
                }
                self.collectives.push(Collective {
                    name: rest.to_owned(),
                    algorithms: Vec::new(),
                });
            }
            (_, Some(executor)) => {
                let collective = self.collectives.last_mut();
                let collective = collective.ok_or("an algorithm above the first collective")?;
                let algorithm = Algorithm::parse(executor, rest, doc)?;
                let is_same = |other: &Algorithm| other.name == algorithm.name;
                if collective.algorithms.iter().any(is_same) {
                    return Err(format!("{} is declared twice", algorithm.name));
                }
                collective.algorithms.push(algorithm);
            }
            _ => return Err(format!("`{keyword}` begins no statement")),
        }
        Ok(())
    }

    /// Returns the help of `WEFT_COLL`.
    pub fn help(&self) -> String {
        let mut text = String::from(
            "Algorithms of collectives, the same on all ranks: \"bcast=chain:65536,barrier=tree\". \
             Parameters follow after colons, as in slots-tree:4:8192, and may be left out.",
        );
        for (executor, head) in &self.heads {
            let mut parts: Vec<(String, Vec<String>)> = Vec::new();
            let mut add =
                |part: String, name: &str| match parts.iter_mut().find(|(known, _)| *known == part)
                {
                    Some((_, names)) => names.push(name.to_owned()),
                    None => parts.push((part, vec![name.to_owned()])),
                };
            for collective in &self.collectives {
                let algorithms: Vec<String> =
                    collective.by(*executor).map(Algorithm::help).collect();
                match executor {
                    Executor::Messages => add(algorithms.join(", "), &collective.name),
                    _ => algorithms
                        .into_iter()
                        .for_each(|algorithm| add(algorithm, &collective.name)),
                }
            }
            let parts: Vec<String> = parts
                .iter()
                .map(|(part, names)| match executor {
                    Executor::Messages => format!("{} ({part})", listed(names, "and")),
                    _ if names.len() == self.collectives.len() => format!("{part} for all"),
                    _ => format!("{part} for {}", listed(names, "and")),
                })
                .collect();
            let separator = match executor {
                Executor::Messages => ", ",
                _ => "; ",
            };
            let _ = write!(text, " {head}: {}.", parts.join(separator));
        }
        let switches = self.switches.iter();
        let switches: Vec<String> = switches
            .map(|(name, help)| format!("{name} ({help})"))
            .collect();
        let _ = write!(
            text,
            " Switches (on, off): {}. auto uses WEFT_COLL_TABLE, or else the built-in rules. The info \
             hint weft_coll sets the same for one communicator, if all members give it.",
            listed(&switches, "and")
        );
        text
    }

    /// Returns the Rust code of the selection's types and of the dispatch, for mpi-sched.
    pub fn rust(&self) -> String {
        let mut code = String::new();
        let names = self.collectives.iter().map(|one| one.name.as_str());
        names_enum(
            &mut code,
            "Collective",
            "A collective that has a choice of algorithms.",
            names,
        );
        let written = self.collectives.iter();
        let written: Vec<String> = written
            .filter(|one| one.by(Executor::Writes).next().is_some())
            .map(|one| format!("Collective::{}", camel(&one.name)))
            .collect();
        let _ = writeln!(
            code,
            "/// The collectives that can use writes over a network.\n\
             pub const WRITTEN: [Collective; {}] = [{}];",
            written.len(),
            written.join(", ")
        );
        let switches = self.switches.iter().map(|(name, _)| name.as_str());
        names_enum(&mut code, "Switch", "A switch of the selection.", switches);
        for collective in &self.collectives {
            let name = &collective.name;
            let all: Vec<_> = collective.by(Executor::Messages).collect();
            let doc = format!("The algorithm of `{name}` by messages.");
            algorithms_enum(&mut code, &camel(name), &doc, &all);
            by_messages(&mut code, collective, &all);
            let written: Vec<_> = collective.written().collect();
            if !written.is_empty() {
                let doc = format!("The algorithm of `{name}` by writes over a network.");
                let ty = format!("Rdma{}", camel(name));
                algorithms_enum(&mut code, &ty, &doc, &written);
                let _ = writeln!(
                    code,
                    "impl {ty} {{\n\
                     /// Returns the algorithm if it is one of this enum.\n\
                     pub fn of(algorithm: Algorithm) -> Option<Self> {{\n\
                     match algorithm {{ Algorithm::{ty}(own) => Some(own), _ => None }}\n}}\n}}"
                );
            }
        }
        let described = self.collectives.iter().map(|one| {
            let (ty, name) = (camel(&one.name), &one.name);
            format!("Collective::{ty} => format!(\"{{:?}}\", self.{name}(situation)),\n")
        });
        let _ = writeln!(
            code,
            "impl crate::Choices {{\n/// Describes a collective's algorithm by messages, for people.\n\
             pub fn describe_messages(&self, collective: Collective, situation: &Situation) -> String {{\n\
             match collective {{\n{}}}\n}}\n}}",
            described.collect::<String>()
        );
        self.all_algorithms(&mut code);
        let _ = writeln!(
            code,
            "/// The help of `WEFT_COLL`.\npub const HELP: &str = {:?};",
            self.help()
        );
        code
    }

    /// Adds the enum of all algorithms, and the entries by which their names are read.
    fn all_algorithms(&self, code: &mut String) {
        // Of a name that several collectives share, the form with the most parameters.
        let mut shared: Vec<&Algorithm> = Vec::new();
        let mut wrapped: Vec<(String, Executor)> = Vec::new();
        for collective in &self.collectives {
            for algorithm in &collective.algorithms {
                let same = shared.iter_mut().find(|one| one.name == algorithm.name);
                match (collective.enum_of(algorithm), same) {
                    (Some(ty), _) if wrapped.iter().any(|(known, _)| *known == ty) => {}
                    (Some(ty), _) => wrapped.push((ty, algorithm.executor)),
                    (None, Some(same)) if same.parameters.len() >= algorithm.parameters.len() => {}
                    (None, Some(same)) => *same = algorithm,
                    (None, None) => shared.push(algorithm),
                }
            }
        }
        let _ = writeln!(
            code,
            "/// An algorithm with its parameters.\n\
             #[derive(Clone, Copy, PartialEq, Eq, Debug)]\npub enum Algorithm {{"
        );
        for (ty, _) in &wrapped {
            let _ = writeln!(code, "/// One of [`{ty}`].\n{ty}({ty}),");
        }
        for algorithm in &shared {
            let fields = algorithm.fields(|_, parameter| {
                let Parameter { name, help, .. } = parameter;
                format!("\n/// The {help}.\n{name}: {}", parameter.rust_type())
            });
            let (name, variant) = (&algorithm.name, algorithm.variant());
            let _ = writeln!(code, "/// `{name}`.\n{variant}{fields},");
        }
        code.push_str("}\n");
        let _ = writeln!(
            code,
            "impl Algorithm {{\n/// Returns the executor.\n\
             pub const fn executor(self) -> Executor {{\nmatch self {{"
        );
        for (ty, executor) in &wrapped {
            let _ = writeln!(code, "Self::{ty}(_) => Executor::{executor:?},");
        }
        for algorithm in &shared {
            let (variant, executor) = (algorithm.variant(), algorithm.executor);
            let _ = writeln!(code, "Self::{variant} {{ .. }} => Executor::{executor:?},");
        }
        code.push_str(
            "}\n}\n}\n/// All algorithms of all collectives.\npub const ENTRIES: &[Entry] = &[\n",
        );
        for collective in &self.collectives {
            for algorithm in &collective.algorithms {
                let parameters: Vec<String> = algorithm.parameters.iter().map(entry).collect();
                let full = shared.iter().find(|one| one.name == algorithm.name);
                let full = full.copied().unwrap_or(algorithm);
                let fields = full.fields(|at, parameter| {
                    let value = parameter.value_of(&format!("values[{at}]"));
                    format!("{}: {value}", parameter.name)
                });
                let variant = algorithm.variant();
                let made = match collective.enum_of(algorithm) {
                    Some(ty) => format!("Algorithm::{ty}({ty}::{variant}{fields})"),
                    None => format!("Algorithm::{variant}{fields}"),
                };
                let values = if full.parameters.is_empty() {
                    "_"
                } else {
                    "values"
                };
                let _ = writeln!(
                    code,
                    "Entry {{ collective: Collective::{}, name: {:?}, parameters: &[{}], \
                     make: |{values}| {made} }},",
                    camel(&collective.name),
                    algorithm.name,
                    parameters.join(", ")
                );
            }
        }
        code.push_str("];\n");
    }
}

/// Returns a parameter as an expression.
fn entry(parameter: &Parameter) -> String {
    let Parameter {
        help,
        values,
        least,
        ..
    } = parameter;
    format!("Parameter {{ help: {help:?}, values: &{values:?}, least: {least} }}")
}

/// Adds an enum of names.
fn names_enum<'a>(
    code: &mut String,
    ty: &str,
    doc: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) {
    let _ = writeln!(
        code,
        "/// {doc}\n#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]\npub enum {ty} {{"
    );
    for name in names.clone() {
        let _ = writeln!(code, "/// `{name}`.\n{},", camel(name));
    }
    let all: Vec<String> = names
        .clone()
        .map(|name| format!("{ty}::{}", camel(name)))
        .collect();
    let _ = writeln!(
        code,
        "}}\nimpl {ty} {{\n/// All of them, in the order of the table.\n\
         pub const ALL: [{ty}; {}] = [{}];\n/// Returns the name.\n\
         pub const fn name(self) -> &'static str {{\nmatch self {{",
        all.len(),
        all.join(", ")
    );
    for name in names {
        let _ = writeln!(code, "{ty}::{} => {name:?},", camel(name));
    }
    code.push_str("}\n}\n}\n");
}

/// Adds the enum of a collective's algorithms with one executor.
fn algorithms_enum(code: &mut String, ty: &str, doc: &str, algorithms: &[&Algorithm]) {
    let _ = writeln!(
        code,
        "/// {doc}\n#[derive(Clone, Copy, PartialEq, Eq, Debug)]\npub enum {ty} {{"
    );
    for algorithm in algorithms {
        for line in &algorithm.doc {
            let _ = writeln!(code, "/// {line}");
        }
        if let Some(other) = &algorithm.otherwise {
            let conditions = algorithm.conditions.join(", ");
            let _ = writeln!(
                code,
                "///\n/// For calls that are {conditions}; else `{other}`."
            );
        }
        let fields = algorithm.fields(|_, parameter| {
            let Parameter { name, help, .. } = parameter;
            format!("\n/// The {help}.\n{name}: {}", parameter.rust_type())
        });
        let _ = writeln!(code, "{}{fields},", algorithm.variant());
    }
    code.push_str("}\n");
}

/// Adds the selection and the dispatch of a collective's algorithms by messages.
fn by_messages(code: &mut String, collective: &Collective, algorithms: &[&Algorithm]) {
    let (ty, name) = (camel(&collective.name), &collective.name);
    let expression = |named: &str| collective.expression(named).unwrap_or_default();
    let first = expression(&algorithms[0].name);
    let _ = writeln!(
        code,
        "impl ByMessages for {ty} {{\nconst COLLECTIVE: Collective = Collective::{ty};\n\
         const FIRST: Self = {first};\nfn of(algorithm: Algorithm) -> Option<Self> {{\n\
         match algorithm {{ Algorithm::{ty}(own) => Some(own), _ => None }}\n}}"
    );
    let commutative = |algorithm: &&&Algorithm| {
        let mut conditions = algorithm.conditions.iter();
        conditions.any(|condition| condition == "commutative")
    };
    if algorithms.iter().any(|algorithm| commutative(&algorithm)) {
        code.push_str("fn resolve(self, situation: &Situation) -> Self {\nmatch self {\n");
        for algorithm in algorithms.iter().filter(commutative) {
            let other = expression(algorithm.otherwise.as_deref().unwrap_or_default());
            let variant = algorithm.variant();
            let _ = writeln!(
                code,
                "Self::{variant} {{ .. }} if !situation.commutes => {other}.resolve(situation),"
            );
        }
        code.push_str("other => other,\n}\n}\n");
    }
    let _ = writeln!(
        code,
        "}}\nimpl crate::Choices {{\n/// Returns the algorithm of `{name}` by messages.\n\
         pub fn {name}(&self, situation: &Situation) -> {ty} {{\nself.by_messages(situation)\n}}\n}}"
    );
    let Some((file, _)) = algorithms[0]
        .builder
        .as_deref()
        .and_then(|path| path.split_once("::"))
    else {
        return;
    };
    let _ = writeln!(
        code,
        "impl {ty} {{\n/// Builds this rank's schedule.\n\
         pub(crate) fn build(self, schedule: &mut Schedule, args: &crate::{file}::{ty}Args<'_>) {{\n\
         match self {{"
    );
    for algorithm in algorithms {
        let variant = algorithm.variant();
        if let Some(other) = &algorithm.otherwise {
            let conditions = algorithm.conditions.iter();
            let conditions: Vec<String> = conditions
                .map(|condition| format!("args.is_{}()", condition.replace('-', "_")))
                .collect();
            let _ = writeln!(
                code,
                "Self::{variant} {{ .. }} if !({}) => {}.build(schedule, args),",
                conditions.join(" && "),
                expression(other)
            );
        }
        let fields = algorithm.fields(|_, parameter| parameter.name.clone());
        let passed = algorithm.parameters.iter();
        let passed: String = passed
            .map(|parameter| format!(", {}", parameter.name))
            .collect();
        let builder = algorithm.builder.as_deref().unwrap_or("no_builder");
        let _ = writeln!(
            code,
            "Self::{variant}{fields} => crate::{builder}(schedule, args{passed}),"
        );
    }
    code.push_str("}\n}\n}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, message) in [
            (
                "messages ring",
                "t:1: an algorithm above the first collective",
            ),
            ("collective a\ncollective a", "t:2: a is declared twice"),
            (
                "collective a\nmessages r\nmessages r",
                "t:3: r is declared twice",
            ),
            ("collective a\nwords r", "t:2: `words` begins no statement"),
            ("executor words", "t:1: `words` is no executor"),
            (
                "collective a\nmessages r [even]",
                "t:2: r needs conditions and `else`, or neither",
            ),
            (
                "collective a\nmessages r(k = x: k)",
                "t:2: expected a number before `x`",
            ),
        ] {
            let error = Collectives::parse("t", text).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let text = "collective a\nmessages r [even, else s]";
        let error = Collectives::parse("t", text).unwrap_err();
        assert!(error.to_string().contains("no algorithm `s`"), "{error}");
    }

    #[test]
    fn restrictions_and_parameters_reach_the_code() {
        let text = "collective a_b\nmessages x-y(k = 3: size, l u32 in 1 2 = 2: steps) \
                    [even, else z:7] -> f::g\nmessages z(n = 5: count) -> f::z\nslots slots(c: bytes)\n";
        let table = Collectives::parse("t", text).unwrap();
        let code = table.rust();
        for part in [
            "pub enum AB {",
            "Self::XY { .. } if !(args.is_even()) => Self::Z { n: 7 }.build(schedule, args),",
            "Self::XY { k, l } => crate::f::g(schedule, args, k, l),",
            "args: &crate::f::ABArgs<'_>",
            "l: values[1].unwrap_or(2) as u32",
            "make: |values| Algorithm::Slots { c: values[0] }",
        ] {
            assert!(code.contains(part), "{part} is not in\n{code}");
        }
    }

    #[test]
    fn the_help_names_all_algorithms() {
        let table = Collectives::load().unwrap();
        let help = table.help();
        for collective in &table.collectives {
            for algorithm in &collective.algorithms {
                assert!(help.contains(&algorithm.name), "{}", algorithm.name);
            }
        }
        assert!(
            help.contains("gather and scatter (linear, binomial)"),
            "{help}"
        );
        assert!(help.contains("slots for all"), "{help}");
    }
}
