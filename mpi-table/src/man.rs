//! Manual pages of all implemented functions, section 3.

use std::fmt::Write as _;

use crate::description::blocking_name;
use crate::fortran;
use crate::header::wrapped;
use crate::{Direction, Function, Kind, Param, Style, Table};

/// Returns the names of the pages, `MPI_Send.3`, and their texts.
pub fn pages(table: &Table) -> Vec<(String, String)> {
    let routines = fortran::routines(table);
    let all = table.functions.all();
    let functions: Vec<&Function> = all.filter(|function| function.has_page()).collect();
    let twin = |function: &Function| {
        let large = format!("{}_c", function.name);
        let mut all = functions.iter().copied();
        all.find(|other| other.name == large && other.shares_text(function))
    };
    let mut pages = Vec::new();
    for function in &functions {
        // The form with large counts shares the page of the other.
        let narrow = functions.iter().find(|other| function.shares_text(other));
        let text = if let Some(narrow) = narrow {
            format!(".so man3/{}.3\n", narrow.name)
        } else {
            let large = twin(function);
            let routine = routines
                .iter()
                .find(|routine| routine.function.name == function.name);
            page(function, large, routine, &related(function, &functions))
        };
        pages.push((format!("{}.3", function.name), text));
    }
    pages.push(("MPI.3".to_owned(), overview(table)));
    pages
}

/// Returns the page that lists all functions with their summaries.
fn overview(table: &Table) -> String {
    let mut text = heading("MPI");
    text.push_str(
        "MPI \\- functions of the Message Passing Interface, by chapter of the standard\n\
         .SH DESCRIPTION\n\
         Each function has a page of its own in section 3.\n\
         Forms with large counts, whose names end in _c, share the page of the other form.\n",
    );
    for chapter in &table.functions.chapters {
        let is_twin = |function: &Function| {
            chapter
                .functions
                .iter()
                .any(|other| function.shares_text(other))
        };
        let listed = chapter.functions.iter();
        let mut listed = listed
            .filter(|one| one.has_page() && !is_twin(one))
            .peekable();
        if listed.peek().is_some() {
            let _ = writeln!(text, ".SH {}", chapter.title.to_uppercase());
            for function in listed {
                let summary = plain(&function.description.summary);
                let _ = write!(text, ".TP\n.B {}\n{summary}", function.name);
            }
        }
    }
    text
}

/// Returns the beginning of a page.
fn heading(name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {name} 3 \"\" \"Weft {version}\" \"MPI\"\n.SH NAME\n")
}

/// Returns the names of related functions: the other forms of a collective, and those that the
/// table gives.
fn related<'t>(function: &'t Function, all: &[&'t Function]) -> Vec<&'t str> {
    let base = |other: &Function| blocking_name(&other.name, other.how);
    let own = base(function).unwrap_or_else(|| function.name.clone());
    let is_form = |other: &&&Function| {
        other.name != function.name && (other.name == own || base(other).as_ref() == Some(&own))
    };
    let forms = all.iter().filter(is_form).map(|other| other.name.as_str());
    let given = function.description.see_also.iter().map(String::as_str);
    forms.chain(given).collect()
}

/// Columns of C and Fortran in a page, which `man` indents.
const WIDTH: usize = 72;

/// Escapes text for roff, so that no line looks like a request.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    text.lines()
        .map(|line| match line.starts_with(['.', '\'']) {
            true => format!("\\&{line}\n"),
            false => format!("{line}\n"),
        })
        .collect()
}

fn page(
    function: &Function,
    large: Option<&Function>,
    routine: Option<&fortran::Routine<'_>>,
    others: &[&str],
) -> String {
    let name = &function.name;
    let description = &function.description;
    let names = match large {
        Some(large) => format!("{name}, {}", large.name),
        None => name.clone(),
    };
    let mut text = heading(name);
    let _ = write!(text, "{names} \\- {}", plain(&description.summary));
    text.push_str(".SH SYNOPSIS\n.SS C\n.nf\n#include <mpi.h>\n\n");
    for form in [Some(function), large].into_iter().flatten() {
        let mut prototype = String::new();
        wrapped(&mut prototype, &form.prototype(&form.name), WIDTH);
        text.push_str(&plain(&prototype));
        text.push('\n');
    }
    text.push_str(".fi\n");
    if let Some(routine) = routine {
        if routine.in_f08() {
            let form = fortran::interfaces::synopsis(routine, true, WIDTH);
            let _ = write!(
                text,
                ".SS Fortran 2008\n.nf\nuse mpi_f08\n\n{}.fi\n",
                plain(&form)
            );
        }
        let form = fortran::interfaces::synopsis(routine, false, WIDTH);
        let _ = write!(
            text,
            ".SS Fortran\n.nf\nuse mpi  ! or include 'mpif.h'\n\n{}.fi\n",
            plain(&form)
        );
    }
    text.push_str(".SH DESCRIPTION\n");
    text.push_str(&plain(&description.details.replace(". ", ".\n")));
    if let Some(large) = large {
        let _ = writeln!(
            text,
            "{name}_c has MPI_Count or MPI_Aint where the synopsis says so, and is otherwise the same."
        );
        // Fortran can't distinguish kinds of the same size, such as those of addresses and counts.
        let mut pairs = function.params.iter().zip(&large.params);
        let is_generic =
            pairs.any(|(narrow, wide)| narrow.ctype.base == "int" && wide.ctype.base != "int");
        if is_generic && routine.is_some_and(fortran::Routine::in_f08) {
            let _ = writeln!(
                text,
                "In the module mpi_f08, {name} takes integers of both kinds."
            );
        }
    }
    if !function.params.is_empty() {
        text.push_str(".SH PARAMETERS\n");
        for param in &function.params {
            let direction = match param.direction {
                Direction::In => "in",
                Direction::Out => "out",
                Direction::InOut => "in and out",
            };
            let given = description.params.iter().find(|one| one.0 == param.name);
            let phrase = given.map_or_else(|| by_kind(param), |(_, phrase)| phrase.clone());
            let _ = write!(
                text,
                ".TP\n.I {}\n({direction}) {}",
                param.name,
                plain(&phrase)
            );
        }
    }
    status(&mut text, function);
    errors(&mut text, function, routine.is_some());
    if !others.is_empty() {
        let list: Vec<String> = others
            .iter()
            .map(|other| format!(".BR {other} (3)"))
            .collect();
        let _ = write!(text, ".SH SEE ALSO\n{}\n", list.join(" ,\n"));
    }
    text
}

/// Describes a parameter by what it is.
fn by_kind(param: &Param) -> String {
    let many = !param.ctype.dimensions.is_empty();
    let what = match param.kind {
        Kind::Buffer => "address of the data",
        Kind::Address => "an address",
        Kind::ExtraState => "handed to the callbacks as it is",
        Kind::Attribute => "the attribute's value",
        Kind::Comm => "communicator",
        Kind::Group => "group",
        Kind::Datatype => "datatype",
        Kind::Op => "reduction operation",
        Kind::Request => "request",
        Kind::Message => "matched message",
        Kind::Errhandler => "error handler",
        Kind::Info => "info object, or MPI_INFO_NULL",
        Kind::Win => "window",
        Kind::Session => "session",
        Kind::Stream => "stream",
        Kind::AsyncThing => "what the function is called with",
        Kind::File => "file",
        Kind::Status if many => "statuses, or MPI_STATUSES_IGNORE",
        Kind::Status => "status; where it is written, MPI_STATUS_IGNORE is allowed",
        Kind::StatusF08 => "status as Fortran 2008 has it",
        Kind::Tool => "object of the tool interface",
        Kind::Count => "number of elements, not negative",
        Kind::Rank => "rank, or a constant such as MPI_PROC_NULL that stands for one",
        Kind::Tag => "message tag, from 0 to the value of MPI_TAG_UB",
        Kind::Logical => "true or false",
        Kind::Keyval => "attribute key",
        Kind::ErrorCode => "error code or class",
        Kind::Int | Kind::Fint => "integer",
        Kind::Aint => "address or displacement in bytes (MPI_Aint)",
        Kind::Offset => "offset in a file (MPI_Offset)",
        Kind::BigCount => "large count (MPI_Count)",
        Kind::Text => "text",
        Kind::Texts => "texts",
        Kind::Callback => "function of the program",
    };
    let array = if many && param.kind != Kind::Status {
        "array: "
    } else {
        ""
    };
    format!("{array}{what}")
}

/// Writes the version that introduced the function, and whether it is deprecated or removed.
fn status(text: &mut String, function: &Function) {
    let (major, minor) = function.since;
    let since = match function.since {
        (3, 1) => String::new(),
        _ => format!("Part of MPI since version {major}.{minor}.\n"),
    };
    let outdated = match (function.removed, function.outdated) {
        (true, _) => "Removed from the standard by MPI\\-3.0; kept for programs that use it.\n",
        (_, true) => "Deprecated by the standard; new programs use something else.\n",
        _ => "",
    };
    if !since.is_empty() || !outdated.is_empty() {
        let _ = write!(text, ".SH STANDARD\n{since}{outdated}");
    }
}

/// Writes what the function returns. `in_fortran` is true if it has a Fortran binding.
fn errors(text: &mut String, function: &Function, in_fortran: bool) {
    if function.style == Style::Plain || function.result.base != "int" {
        return;
    }
    let is_tool = function.name.starts_with("MPI_T_");
    text.push_str(".SH RETURN VALUE\n");
    if is_tool {
        text.push_str(
            "MPI_SUCCESS, or a code MPI_T_ERR_ that says what was wrong.\nNo error handler is called.\n",
        );
    } else {
        let ierror = if in_fortran {
            ", which Fortran has in IERROR"
        } else {
            ""
        };
        let _ = write!(
            text,
            "MPI_SUCCESS, or an error code{ierror}.\nBefore a code is returned the error handler is \
             called: by default that ends the job with a\nmessage that names the function, its \
             arguments, what was wrong and what to do.\n"
        );
    }
    let given = &function.description.errors;
    let mut all = if is_tool { Vec::new() } else { usual(function) };
    all.retain(|(class, _)| given.iter().all(|(other, _)| other != class));
    all.extend(
        given
            .iter()
            .map(|(class, what)| (class.as_str(), what.as_str())),
    );
    if !all.is_empty() {
        text.push_str(".SH ERRORS\n");
    }
    for (class, what) in all {
        let _ = write!(text, ".TP\n.B {class}\n{}", plain(what));
    }
}

/// Returns the error classes that follow from a function's parameters, with reasons.
fn usual(function: &Function) -> Vec<(&str, &str)> {
    const CLASSES: [(Kind, &str, &str); 16] = [
        (
            Kind::Comm,
            "MPI_ERR_COMM",
            "not a communicator, or one of the wrong kind",
        ),
        (Kind::Group, "MPI_ERR_GROUP", "not a group"),
        (
            Kind::Buffer,
            "MPI_ERR_BUFFER",
            "an address that is NULL or otherwise invalid",
        ),
        (
            Kind::Count,
            "MPI_ERR_COUNT",
            "a negative number of elements",
        ),
        (
            Kind::Datatype,
            "MPI_ERR_TYPE",
            "not a datatype, or one that is not committed",
        ),
        (Kind::Rank, "MPI_ERR_RANK", "a rank that does not exist"),
        (Kind::Rank, "MPI_ERR_ROOT", "a root that does not exist"),
        (
            Kind::Tag,
            "MPI_ERR_TAG",
            "a tag that is negative or too large",
        ),
        (
            Kind::Op,
            "MPI_ERR_OP",
            "not an operation, or not for this datatype",
        ),
        (
            Kind::Request,
            "MPI_ERR_REQUEST",
            "not a request, or not in a state for this",
        ),
        (Kind::Win, "MPI_ERR_WIN", "not a window"),
        (Kind::File, "MPI_ERR_FILE", "not a file"),
        (Kind::Info, "MPI_ERR_INFO", "not an info object"),
        (
            Kind::Errhandler,
            "MPI_ERR_ERRHANDLER",
            "not an error handler",
        ),
        (Kind::Session, "MPI_ERR_SESSION", "not a session"),
        (Kind::Keyval, "MPI_ERR_KEYVAL", "not an attribute key"),
    ];
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (kind, class, what) in CLASSES {
        let takes = |param: &Param| {
            param.kind == kind
                && (param.name == "root") == (class == "MPI_ERR_ROOT")
                && (param.direction != Direction::Out || kind == Kind::Buffer)
        };
        if function.params.iter().any(takes) {
            found.push((class, what));
        }
    }
    if !function.params.is_empty() {
        let what = match found.is_empty() {
            true => "an argument is invalid",
            false => "another argument is invalid",
        };
        found.push(("MPI_ERR_ARG", what));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_a_page() {
        let table = Table::load().expect("the tables are right");
        let pages = pages(&table);
        let text = |name: &str| {
            let found = pages.iter().find(|(other, _)| other == name);
            &found.unwrap_or_else(|| panic!("no page {name}")).1
        };
        for function in table
            .functions
            .present()
            .filter(|function| function.name.starts_with("MPI_"))
        {
            if !function.is_companion {
                text(&format!("{}.3", function.name));
            }
        }
        let send = text("MPI_Send.3");
        for part in [
            "int MPI_Send(const void *buf, int count,",
            "int MPI_Send_c(const void *buf, MPI_Count count,",
            "subroutine MPI_Send(buf, count, datatype, dest, tag, comm, ierror)",
            "type(MPI_Comm), intent(in) :: comm",
            ".I dest\n(in) rank",
            ".B MPI_ERR_TAG",
            ".BR MPI_Recv (3)",
        ] {
            assert!(send.contains(part), "{part:?} is lacking in:\n{send}");
        }
        assert_eq!(text("MPI_Send_c.3"), ".so man3/MPI_Send.3\n");
        // Only functions with a Fortran binding have IERROR, and an only error is not "another" one.
        assert!(send.contains("IERROR") && !text("MPI_Status_c2f08.3").contains("IERROR"));
        assert!(text("MPI_Comm_get_parent.3").contains("MPI_ERR_ARG\nan argument"));
        // The two forms have different parameters.
        assert!(text("MPI_Type_get_envelope_c.3").contains(".I num_large_counts\n"));
    }
}
