//! Entry points for `mpi_f08`, whose choice buffers are array descriptors: gfortran's own under the
//! standard's names (`mpi_x_f08ts_`, MPI-5.0 section 19.1.5), also for programs compiled with
//! another library's module of the same ABI; and the standard's (`CFI_cdesc_t`), which other
//! compilers pass.

use std::fmt::Write as _;

use super::interfaces::keeps;
use super::shims::{parameters, rust_type, symbol};
use super::{Arg, Pass, Routine};
use crate::function::Kind;
use crate::rust::rust_name;

/// The arguments that describe the elements of a buffer.
enum Role<'r> {
    /// Only the address matters.
    Address,
    /// A count of a datatype.
    Typed {
        count: &'r str,
        datatype: &'r str,
        chunked: bool,
    },
    /// Counts and displacements of a datatype.
    Vector { datatype: &'r str },
    /// None: the buffer must be contiguous.
    Whole,
}

fn role<'r>(routine: &'r Routine<'_>, index: usize) -> Role<'r> {
    let args = &routine.args;
    let name = routine.base_name();
    let arg = &args[index];
    if matches!(name, "MPI_Get_address" | "MPI_Free_mem" | "MPI_Win_detach") {
        return Role::Address;
    }
    let reduces = args.iter().any(|arg| arg.param.kind == Kind::Op);
    let accesses = args.iter().any(|arg| arg.param.kind == Kind::Win);
    if arg.param.kind == Kind::Address || (reduces && !accesses) {
        return Role::Whole;
    }
    let next = |ahead: usize| args.get(index + ahead);
    let is = |arg: Option<&'r Arg<'_>>, kind| {
        arg.filter(|arg| arg.param.kind == kind && !arg.param.ctype.is_pointer())
            .map(Arg::name)
    };
    let chunked = ["gather", "scatter", "alltoall"]
        .iter()
        .any(|part| name.to_lowercase().contains(part));
    if let (Some(count), Some(datatype)) = (is(next(1), Kind::Count), is(next(2), Kind::Datatype)) {
        return Role::Typed {
            count,
            datatype,
            chunked,
        };
    }
    // Counts and displacements, or partitions, begin at multiples of the extent.
    let partitioned = matches!(name, "MPI_Psend_init" | "MPI_Precv_init");
    match is(next(3), Kind::Datatype) {
        Some(datatype)
            if partitioned || next(1).is_some_and(|arg| arg.param.kind == Kind::Count) =>
        {
            Role::Vector { datatype }
        }
        _ => Role::Whole,
    }
}

/// Returns the code before and after the call of a routine that completes, tests, frees or starts
/// requests, for requests that use copies of array sections.
pub(super) fn copies_of(routine: &Routine<'_>) -> (String, String) {
    let name = routine.base_name();
    let (requests, count) = match name {
        "MPI_Wait" | "MPI_Test" | "MPI_Request_get_status" | "MPI_Request_free" | "MPI_Start" => {
            ("request", "1")
        }
        "MPI_Waitsome" | "MPI_Testsome" | "MPI_Request_get_status_some" => {
            ("array_of_requests", "*incount")
        }
        "MPI_Waitany"
        | "MPI_Testany"
        | "MPI_Request_get_status_any"
        | "MPI_Waitall"
        | "MPI_Testall"
        | "MPI_Request_get_status_all"
        | "MPI_Startall" => ("array_of_requests", "*count"),
        _ => return (String::new(), String::new()),
    };
    if name.starts_with("MPI_Start") {
        let start = format!("        later::start({requests}, {count});\n");
        return (start, String::new());
    }
    let end = match name {
        "MPI_Request_free" => "freed",
        _ => "looked_at",
    };
    (
        format!("        let held = later::hold({requests}, {count});\n"),
        format!("        held.{end}({requests});\n"),
    )
}

/// Returns the type of a buffer's descriptor.
fn descriptor_type(arg: &Arg<'_>, descriptor: &str, text: &str) -> String {
    match arg.pass {
        Pass::Buffer => format!("*const {descriptor}"),
        Pass::Text if !text.is_empty() => format!("*const {text}"),
        _ => rust_type(arg),
    }
}

/// Returns the names of the profiling interface's twins.
pub(super) fn aliases(routine: &Routine<'_>) -> Vec<(String, String)> {
    let lower = routine.function.name.to_lowercase();
    let descriptors = ["_f08ts_", "_f08ts_cdesc"].map(|end| format!("{lower}{end}"));
    let mut names: Vec<(String, String)> = descriptors
        .iter()
        .map(|name| (format!("p{name}"), name.clone()))
        .collect();
    if !routine.is_large() {
        let [gfortran, _] = descriptors;
        names.push((others_profiling(routine, "_f08ts_"), gfortran));
    }
    names
}

/// Returns the name of `PMPI_X` in another library's `mpi_f08`: `pmpir_x_f08_`.
pub(super) fn others_profiling(routine: &Routine<'_>, end: &str) -> String {
    let lower = routine.function.name.to_lowercase();
    format!("pmpir_{}{end}", lower.trim_start_matches("mpi_"))
}

pub(super) fn shim(text: &mut String, routine: &Routine<'_>) {
    let lower = routine.function.name.to_lowercase();
    let upper = routine.function.name.to_uppercase();
    let inner = format!("{lower}_sections");
    let call = |convert: &str, text_of: bool| {
        let mut list: Vec<String> = routine
            .passed()
            .map(|arg| {
                let n = rust_name(arg.name());
                match arg.pass {
                    Pass::Buffer => format!("Section::{convert}({n})"),
                    Pass::Text if text_of => format!("(*{n}).text().0"),
                    _ => n,
                }
            })
            .collect();
        list.push("ierror".to_owned());
        for arg in routine.passed().filter(|arg| arg.has_length()) {
            let n = rust_name(arg.name());
            list.push(if text_of {
                format!("(*{n}).text().1")
            } else {
                format!("{}_len", arg.name())
            });
        }
        format!("{inner}({})", list.join(", "))
    };
    let _ = writeln!(
        text,
        "/// `{upper}` of `mpi_f08`, with descriptors of gfortran.\n\
         ///\n\
         /// # Safety\n\
         /// The arguments are as the standard asks.\n\
         #[unsafe(no_mangle)]\n\
         pub unsafe extern \"C\" fn {lower}_f08ts_({}) {{\n    \
         // SAFETY: as the caller promises.\n    \
         unsafe {{ {} }}\n}}\n",
        parameters(routine, |arg| descriptor_type(arg, "Gfortran", "")),
        call("of_gfortran", false)
    );
    // With the standard's descriptors, strings have one, too.
    let mut list: Vec<String> = routine
        .passed()
        .map(|arg| {
            let kind = descriptor_type(arg, "Standard", "Standard");
            format!("{}: {kind}", rust_name(arg.name()))
        })
        .collect();
    list.push("ierror: *mut c_int".to_owned());
    let _ = writeln!(
        text,
        "/// `{upper}` of `mpi_f08`, with descriptors of the standard.\n\
         ///\n\
         /// # Safety\n\
         /// The arguments are as the standard asks.\n\
         #[unsafe(no_mangle)]\n\
         pub unsafe extern \"C\" fn {lower}_f08ts_cdesc({}) {{\n    \
         // SAFETY: as the caller promises.\n    \
         unsafe {{ {} }}\n}}\n",
        list.join(", "),
        call("of_standard", true)
    );
    let _ = writeln!(
        text,
        "unsafe fn {inner}({}) {{\n    // SAFETY: as the caller promises.\n    unsafe {{",
        parameters(routine, |arg| match arg.pass {
            Pass::Buffer => "Section".to_owned(),
            _ => rust_type(arg),
        })
    );
    body(text, routine);
    text.push_str("    }\n}\n\n");
}

/// Returns the code for a buffer that is freed after the call while the operation continues. Data
/// that is read once is copied, where arrays with gaps are copied; other buffers are refused.
fn later(routine: &Routine<'_>, index: usize) -> String {
    let name = routine.base_name();
    let begins = name.starts_with("MPI_File_") && name.ends_with("_begin");
    if !begins && !routine.is_nonblocking() && !keeps(routine) {
        return String::new();
    }
    let arg = &routine.args[index];
    let n = rust_name(arg.name());
    let has_request = routine
        .args
        .iter()
        .any(|arg| arg.param.kind == Kind::Request);
    let is_read_once = begins || (has_request && !name.ends_with("_init"));
    let mut text = format!("        let {n} = {n}.of_later();\n");
    if !is_read_once || arg.param.direction != crate::Direction::In {
        let _ = writeln!(
            text,
            "        if {n}.is_temporary() {{\n            return refuse(ierror, {}, TEMPORARY);\n        }}",
            comm(routine)
        );
    }
    text
}

/// Returns the communicator whose error handler is called.
fn comm(routine: &Routine<'_>) -> String {
    let mut args = routine.args.iter();
    let is_one = |arg: &&Arg<'_>| arg.param.kind == Kind::Comm && arg.pass == Pass::Value;
    args.find(is_one)
        .map_or("MPI_COMM_WORLD".to_owned(), |arg| {
            format!("*{}", arg.name())
        })
}

/// Writes the body: contiguous buffers are passed on, others get a substitute.
fn body(text: &mut String, routine: &Routine<'_>) {
    let buffers: Vec<usize> = (0..routine.args.len())
        .filter(|index| routine.args[*index].pass == Pass::Buffer)
        .collect();
    let strong = symbol(routine);
    let tail = |list: &mut Vec<String>| {
        list.push("ierror".to_owned());
        for arg in routine.passed().filter(|arg| arg.has_length()) {
            list.push(format!("{}_len", arg.name()));
        }
        list.join(", ")
    };
    let mut plain: Vec<String> = routine
        .passed()
        .map(|arg| match arg.pass {
            Pass::Buffer => format!("{}.base", rust_name(arg.name())),
            _ => rust_name(arg.name()),
        })
        .collect();
    let in_one_piece: Vec<String> = buffers
        .iter()
        .filter(|index| !matches!(role(routine, **index), Role::Address))
        .map(|index| format!("{}.is_contiguous()", rust_name(routine.args[*index].name())))
        .collect();
    let part = |end: &str| {
        let name = routine.base_name();
        name.starts_with("MPI_File_") && name.ends_with(end)
    };
    for index in &buffers {
        text.push_str(&later(routine, *index));
    }
    // The second half of an access uses the substitute of the first half.
    if part("_end") {
        let _ = writeln!(
            text,
            "        let split = later::split(*fh);\n        \
             let mut code = MPI_SUCCESS;\n        \
             {strong}(fh, split.address(buf.base), status, &raw mut code);\n        \
             split.ended(*fh, code);\n        \
             convert::finish(ierror, code);"
        );
        return;
    }
    let plain = tail(&mut plain);
    if in_one_piece.is_empty() {
        let _ = writeln!(text, "        {strong}({plain});");
        return;
    }
    let _ = writeln!(
        text,
        "        if {} {{\n            return {strong}({plain});\n        }}",
        in_one_piece.join(" && ")
    );
    let comm = comm(routine);
    let request = routine.args.iter().find(|arg| {
        arg.param.kind == Kind::Request && arg.param.direction == crate::Direction::Out
    });
    let partitioned = matches!(routine.base_name(), "MPI_Psend_init" | "MPI_Precv_init");
    let may_copy = !routine.is_nonblocking() || (request.is_some() && !partitioned);
    let kept = part("_begin") || (request.is_some() && may_copy);
    let mutable = if kept { "mut " } else { "" };
    let mut places: Vec<String> = Vec::new();
    let mut instead: Vec<(usize, String)> = Vec::new();
    for index in buffers {
        let n = rust_name(routine.args[index].name());
        let place = format!("{}_place", routine.args[index].name());
        let back = routine.args[index].param.direction != crate::Direction::In;
        let made = match role(routine, index) {
            // A routine that needs only the address has no other buffers.
            Role::Address => continue,
            Role::Typed {
                count,
                datatype,
                chunked,
            } => {
                let field = if routine.is_large() {
                    "large_count"
                } else {
                    "count"
                };
                instead.push((index + 1, format!("&raw const {place}.{field}")));
                instead.push((index + 2, format!("&raw const {place}.datatype")));
                format!("{n}.typed(*{count}, *{datatype}, {chunked}, {may_copy}, {back})")
            }
            Role::Vector { datatype } => {
                instead.push((index + 3, format!("&raw const {place}.datatype")));
                format!("{n}.strided(*{datatype}, {may_copy}, {back})")
            }
            Role::Whole => format!("{n}.whole({may_copy}, {back})"),
        };
        instead.push((index, format!("{place}.address")));
        places.push(format!("&mut {place}"));
        let _ = writeln!(
            text,
            "        let {mutable}{place} = match {made} {{\n            \
             Ok(place) => place,\n            \
             Err(why) => return refuse(ierror, {comm}, why),\n        }};"
        );
    }
    let mut list: Vec<String> = routine
        .args
        .iter()
        .enumerate()
        .filter(|(_, arg)| arg.pass != Pass::Null)
        .map(|(index, arg)| {
            let found = instead.iter().find(|(place, _)| *place == index);
            found.map_or(rust_name(arg.name()), |(_, value)| value.clone())
        })
        .collect();
    let places = places.join(", ");
    if let Some(request) = request.filter(|_| kept) {
        let request = rust_name(request.name());
        let persistent = routine.base_name().ends_with("_init");
        let list = tail(&mut list);
        let _ = writeln!(
            text,
            "        *{request} = MPI_REQUEST_NULL;\n        \
             {strong}({list});\n        \
             later::keep(&mut [{places}], {request}, {persistent});"
        );
    } else if kept {
        let list = tail(&mut list).replace("ierror", "&raw mut code");
        let _ = writeln!(
            text,
            "        let mut code = MPI_SUCCESS;\n        \
             {strong}({list});\n        \
             later::keep_split(&mut [{places}], *fh, code);\n        \
             convert::finish(ierror, code);"
        );
    } else {
        let list = tail(&mut list);
        let _ = writeln!(text, "        {strong}({list});");
    }
}
