//! What manual pages, `mpi.h` and rustdoc say about each function, from the files in `descriptions/`.
//!
//! `descriptions/parameters.mpi` has default phrases of parameters by name; the other files have a
//! statement for each function:
//!
//! ```text
//! MPI_X: does this with that
//!     Sentences about what it means, over several lines.
//!     @count the number of elements, if the default phrase does not say enough
//!     !MPI_ERR_COUNT why the call fails with this class, if the default does not say it
//!     >MPI_Y MPI_Z
//! ```
//!
//! The summary begins with a verb in the third person and has no full stop. The form with large
//! counts shares everything with `MPI_X`. A nonblocking or persistent collective has at least a
//! summary; it inherits the rest of the blocking form, with the rules of its form.

use std::collections::BTreeMap;

use crate::function::{Chapter, Function, Functions, How};
use crate::source::{ParseError, statements};

/// The files with their texts.
const FILES: [(&str, &str); 13] = [
    (
        "descriptions/point-to-point.mpi",
        include_str!("../descriptions/point-to-point.mpi"),
    ),
    (
        "descriptions/datatypes.mpi",
        include_str!("../descriptions/datatypes.mpi"),
    ),
    (
        "descriptions/collectives.mpi",
        include_str!("../descriptions/collectives.mpi"),
    ),
    (
        "descriptions/communicators.mpi",
        include_str!("../descriptions/communicators.mpi"),
    ),
    (
        "descriptions/topologies.mpi",
        include_str!("../descriptions/topologies.mpi"),
    ),
    (
        "descriptions/environment.mpi",
        include_str!("../descriptions/environment.mpi"),
    ),
    (
        "descriptions/one-sided.mpi",
        include_str!("../descriptions/one-sided.mpi"),
    ),
    (
        "descriptions/external.mpi",
        include_str!("../descriptions/external.mpi"),
    ),
    (
        "descriptions/files.mpi",
        include_str!("../descriptions/files.mpi"),
    ),
    (
        "descriptions/tools.mpi",
        include_str!("../descriptions/tools.mpi"),
    ),
    (
        "descriptions/outdated.mpi",
        include_str!("../descriptions/outdated.mpi"),
    ),
    (
        "descriptions/languages.mpi",
        include_str!("../descriptions/languages.mpi"),
    ),
    (
        "descriptions/extensions.mpi",
        include_str!("../descriptions/extensions.mpi"),
    ),
];
const PARAMETERS: (&str, &str) = (
    "descriptions/parameters.mpi",
    include_str!("../descriptions/parameters.mpi"),
);

/// Longest summary.
const SUMMARY: usize = 72;

/// What readers learn about a function.
#[derive(Clone, Default, Debug)]
pub struct Description {
    /// What it does: "sends a message …", without a full stop. Empty if the table has no text.
    pub summary: String,
    /// Sentences about its meaning.
    pub details: String,
    /// Parameters and phrases.
    pub params: Vec<(String, String)>,
    /// Error classes and their reasons.
    pub errors: Vec<(String, String)>,
    /// Related functions.
    pub see_also: Vec<String>,
}

struct Entry {
    file: &'static str,
    line: usize,
    text: Description,
    is_used: bool,
}

/// Gives functions their descriptions.
///
/// # Errors
/// The first mistake in a text, or the first implemented function without one.
pub(crate) fn describe(functions: &mut Functions) -> Result<(), ParseError> {
    let defaults = defaults()?;
    let mut entries = entries()?;
    let names: Vec<String> = functions.all().map(|one| one.name.clone()).collect();
    for chapter in &mut functions.chapters {
        for function in &mut chapter.functions {
            match text_of(function, &mut entries)? {
                Some(text) => function.description = text,
                None if !function.has_page() => continue,
                None => return Err(undescribed(function)),
            }
            add_defaults(function, &defaults);
        }
    }
    for (name, entry) in &entries {
        let unknown = entry.text.see_also.iter().find(|one| !names.contains(one));
        let what = match unknown {
            _ if !entry.is_used => format!("{name} is not in functions.mpi"),
            Some(other) => format!("{other} is not in functions.mpi"),
            None => continue,
        };
        return Err(entry.error(what));
    }
    Ok(())
}

/// Returns the error of a function without a description.
fn undescribed(function: &Function) -> ParseError {
    ParseError {
        file: "functions.mpi".to_owned(),
        line: function.line,
        what: format!("{} has no text in descriptions/", function.name),
    }
}

/// Returns the description of a function: its own, that of its narrow form, or one derived from the
/// blocking form.
fn text_of(
    function: &Function,
    entries: &mut BTreeMap<String, Entry>,
) -> Result<Option<Description>, ParseError> {
    let name = match function.narrow_name() {
        Some(narrow) if !entries.contains_key(&function.name) => narrow,
        _ => &function.name,
    };
    let blocking = blocking_name(name, function.how);
    let base = blocking.and_then(|base| Some((entries.get(&base)?.text.clone(), base)));
    let Some(entry) = entries.get_mut(name) else {
        return Ok(None);
    };
    entry.is_used = true;
    let has = |name: &String| function.params.iter().any(|param| param.name == *name);
    if let Some((param, _)) = entry.text.params.iter().find(|(param, _)| !has(param)) {
        return Err(entry.error(format!("{name} has no parameter `{param}`")));
    }
    let mut text = entry.text.clone();
    if let Some((mut base, base_name)) = base {
        if text.details.is_empty() {
            text.details = derived(function.how, &base_name, &base.details);
        }
        text.params.append(&mut base.params);
        text.errors.append(&mut base.errors);
        if text.see_also.is_empty() {
            let completion: &[&str] = match function.how {
                How::Persistent => &["MPI_Start", "MPI_Wait", "MPI_Request_free"],
                _ => &["MPI_Wait", "MPI_Test"],
            };
            text.see_also = completion.iter().map(|one| (*one).to_owned()).collect();
        }
    }
    Ok(Some(text))
}

/// Returns the name of the blocking form: `MPI_Bcast` of `MPI_Ibcast` and `MPI_Bcast_init`.
pub(crate) fn blocking_name(name: &str, how: How) -> Option<String> {
    match how {
        How::Blocking => None,
        How::Nonblocking => {
            let (first, rest) = name.strip_prefix("MPI_I")?.split_at_checked(1)?;
            Some(format!("MPI_{}{rest}", first.to_uppercase()))
        }
        How::Persistent => name.strip_suffix("_init").map(str::to_owned),
    }
}

/// Returns the details of a form of a collective.
fn derived(how: How, base_name: &str, details: &str) -> String {
    if how == How::Persistent {
        return format!(
            "Sets up a request for the operation of {base_name} and moves no data. {details} \
             Each MPI_Start or MPI_Startall of the request begins one such operation with the \
             arguments given here, MPI_Wait or its relatives complete it, and MPI_Request_free \
             releases the request. While an operation is active, the program leaves send buffers \
             unchanged and does not access receive buffers; arrays of counts, displacements and \
             datatypes stay as they are until the request is released. All processes initialize \
             and start their persistent collectives on a communicator in the same order; the \
             initialization itself may wait for other processes."
        );
    }
    format!(
        "Begins the operation of {base_name} and returns without waiting for other processes. \
         {details} The operation is complete when MPI_Wait, MPI_Test or one of their relatives \
         completes the request. Until then the program leaves send buffers and arrays of counts, \
         displacements and datatypes unchanged, and does not access receive buffers. All processes \
         begin the collectives of a communicator in the same order, and a nonblocking one never \
         matches a blocking one."
    )
}

/// Adds the default phrases of parameters that have none of their own.
fn add_defaults(function: &mut Function, defaults: &BTreeMap<String, String>) {
    for param in &function.params {
        let texts = &mut function.description.params;
        if texts.iter().all(|(name, _)| *name != param.name)
            && let Some(text) = defaults.get(&param.name)
        {
            texts.push((param.name.clone(), text.clone()));
        }
    }
}

fn defaults() -> Result<BTreeMap<String, String>, ParseError> {
    let (file, text) = PARAMETERS;
    let mut found = BTreeMap::new();
    for statement in statements(file, text)? {
        let line = statement.text();
        let (name, phrase) = line.split_once(": ").ok_or_else(|| ParseError {
            file: file.to_owned(),
            line: statement.line,
            what: "a parameter needs `NAME: PHRASE`".to_owned(),
        })?;
        found.insert(name.to_owned(), phrase.to_owned());
    }
    Ok(found)
}

fn entries() -> Result<BTreeMap<String, Entry>, ParseError> {
    let mut found = BTreeMap::new();
    for (file, text) in FILES {
        for statement in statements(file, text)? {
            let (name, text) = parse(&statement.lines);
            let entry = Entry {
                file,
                line: statement.line,
                text,
                is_used: false,
            };
            let summary = &entry.text.summary;
            if summary.is_empty() || summary.len() > SUMMARY || summary.ends_with('.') {
                let what = format!("{name} needs `: SUMMARY` of up to {SUMMARY} characters");
                return Err(entry.error(what));
            }
            if found.contains_key(&name) {
                return Err(entry.error(format!("{name} is described twice")));
            }
            found.insert(name, entry);
        }
    }
    Ok(found)
}

/// Parses the statement of a function.
fn parse(lines: &[&str]) -> (String, Description) {
    let mut text = Description::default();
    let (name, summary) = lines[0].split_once(": ").unwrap_or((lines[0], ""));
    summary.clone_into(&mut text.summary);
    // A line without a mark continues the item above it.
    let mut items: Vec<String> = vec![String::new()];
    for line in lines[1..].iter().map(|line| line.trim()) {
        match items.last_mut() {
            Some(last) if !line.starts_with(['@', '!', '>']) => {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(line);
            }
            _ => items.push(line.to_owned()),
        }
    }
    for item in items {
        let (mark, rest) = item.split_at(item.len().min(1));
        let (first, phrase) = rest.split_once(' ').unwrap_or((rest, ""));
        let pair = (first.to_owned(), phrase.to_owned());
        match mark {
            "@" => text.params.push(pair),
            "!" => text.errors.push(pair),
            ">" => text.see_also = rest.split_whitespace().map(str::to_owned).collect(),
            _ => text.details = item,
        }
    }
    (name.to_owned(), text)
}

impl Entry {
    fn error(&self, what: String) -> ParseError {
        ParseError {
            file: self.file.to_owned(),
            line: self.line,
            what,
        }
    }
}

impl Function {
    /// Returns whether it has a manual page: whether programs call it.
    pub fn has_page(&self) -> bool {
        self.implementation.is_some() && self.is_standard() && !self.is_companion
    }

    /// Returns whether it is the form with large counts of the other one and has the same text.
    pub fn shares_text(&self, other: &Function) -> bool {
        self.narrow_name() == Some(&other.name)
            && self.description.summary == other.description.summary
    }

    /// Returns the summary as a sentence.
    pub(crate) fn sentence(&self) -> Option<String> {
        let summary = &self.description.summary;
        let (first, rest) = summary.split_at_checked(1)?;
        // A text of its own names the form.
        let large = match self.narrow_name() {
            Some(_) if !summary.contains("large counts") => " (large counts)",
            _ => "",
        };
        Some(format!("{}{rest}{large}.", first.to_uppercase()))
    }

    /// Returns the rustdoc comment of its entry point, without the section on safety.
    pub(crate) fn doc_comment(&self, chapter: &Chapter) -> String {
        let name = &self.name;
        let place = match chapter.number {
            Some(number) => format!("MPI-3.1 chapter {number}, {}", chapter.title),
            None => chapter.title.clone(),
        };
        // A bracket would begin a link.
        let details = self.description.details.replace('[', "\\[");
        match self.sentence() {
            None => format!("/// `{name}` ({place}).\n"),
            Some(sentence) => {
                format!("/// {sentence}\n///\n/// {details}\n///\n/// `{name}`: {place}.\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_with_everything() {
        let (name, text) = parse(&[
            "MPI_X: does this",
            "    One sentence.",
            "    Another.",
            "    @count the number",
            "        of elements",
            "    !MPI_ERR_COUNT it is negative",
            "    >MPI_Y MPI_Z",
        ]);
        let pair = |one: &str, two: &str| (one.to_owned(), two.to_owned());
        assert_eq!(
            (name.as_str(), text.summary.as_str()),
            ("MPI_X", "does this")
        );
        assert_eq!(text.details, "One sentence. Another.");
        assert_eq!(text.params, [pair("count", "the number of elements")]);
        assert_eq!(text.errors, [pair("MPI_ERR_COUNT", "it is negative")]);
        assert_eq!(text.see_also, ["MPI_Y", "MPI_Z"]);
    }

    #[test]
    fn names_of_blocking_forms() {
        let name = |name, how| blocking_name(name, how);
        assert_eq!(
            name("MPI_Ibcast", How::Nonblocking).as_deref(),
            Some("MPI_Bcast")
        );
        assert_eq!(
            name("MPI_Bcast_init", How::Persistent).as_deref(),
            Some("MPI_Bcast")
        );
        assert_eq!(name("MPI_Bcast", How::Blocking), None);
    }
}
