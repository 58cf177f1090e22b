//! The modules `mpi` and `mpi_f08`, as Fortran sources for the user's compiler.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::constants::{CALLBACKS, COMMON};
use super::fixed::{F08_CALLBACKS, F08_MACROS, F08_VARIABLES};
use super::{Arg, Pass, Routine, routines};
use crate::function::{Direction, Kind};
use crate::{Abi, CType, Table};

/// Columns of the modules' lines.
const WIDTH: usize = 96;

/// The handles that have types of their own in `mpi_f08`.
const HANDLES: &[&str] = &[
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
];

/// The module that an interface is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Module {
    Mpi,
    F08,
}

fn preamble(what: &str) -> String {
    format!(
        "! {what}\n\
         !\n\
         ! Part of Weft, an implementation of MPI-5.0. Compiled by mpifort.\n\
         ! Generated from mpi-table by `cargo xtask install`.\n\
         ! SPDX-License-Identifier: MIT OR Apache-2.0\n\n"
    )
}

impl Table {
    /// Returns the text of `mpi_f08_types.f90`: kinds and the types of handles and statuses.
    pub fn f08_types(&self) -> String {
        let mut text = preamble("The types that the modules mpi and mpi_f08 share.");
        text.push_str("module mpi_f08_types\n  implicit none\n  public\n\n");
        for name in HANDLES {
            let _ = writeln!(
                text,
                "  type, bind(C) :: {name}\n    integer :: MPI_VAL = 0\n  end type {name}"
            );
        }
        text.push_str("  type, bind(C) :: MPI_Status\n");
        let hidden = "    integer, private ::";
        if self.abi == Abi::Mpich {
            let _ = writeln!(
                text,
                "{hidden} count_lo = 0\n{hidden} count_hi_and_cancelled = 0"
            );
        }
        for name in ["MPI_SOURCE", "MPI_TAG", "MPI_ERROR"] {
            let _ = writeln!(text, "    integer :: {name} = 0");
        }
        if self.abi == Abi::Standard {
            let _ = writeln!(text, "{hidden} MPI_internal(5)");
        }
        text.push_str("  end type MPI_Status\n\n");
        // With initial values, variables in common blocks would differ from uninitialized ones.
        text = text.replace(" = 0\n", "\n");
        for (operator, suffix) in [("==", "eq"), ("/=", "ne")] {
            let _ = writeln!(text, "  interface operator({operator})");
            for name in HANDLES {
                let _ = writeln!(text, "    module procedure {name}_{suffix}");
            }
            let _ = writeln!(
                text,
                "  end interface\n  private :: {}",
                HANDLES
                    .iter()
                    .map(|name| format!("{name}_{suffix}"))
                    .collect::<Vec<_>>()
                    .join(", &\n    ")
            );
        }
        text.push_str("\ncontains\n");
        for (operator, suffix) in [("==", "eq"), ("/=", "ne")] {
            for name in HANDLES {
                let _ = writeln!(
                    text,
                    "\n  elemental logical function {name}_{suffix}(a, b)\n    \
                     type({name}), intent(in) :: a, b\n    \
                     {name}_{suffix} = a%MPI_VAL {operator} b%MPI_VAL\n  \
                     end function {name}_{suffix}"
                );
            }
        }
        text.push_str("\nend module mpi_f08_types\n");
        text
    }

    /// Returns the text of `mpi.f90`.
    pub fn mpi_f90(&self) -> String {
        let mut text = preamble("Module mpi: the routines of mpif.h, with interfaces.");
        text.push_str("module mpi\n");
        let types: Vec<&str> = HANDLES.iter().copied().chain(["MPI_Status"]).collect();
        let _ = writeln!(
            text,
            "  use mpi_f08_types, only: operator(==), operator(/=), &\n    {}",
            types.join(", &\n    ")
        );
        text.push_str("  implicit none\n  public\n\n");
        self.constants_text(&mut text, Module::Mpi);
        text.push_str(
            "\n  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .false.\n  \
             logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .false.\n\n",
        );
        for line in COMMON.lines() {
            let _ = writeln!(text, "  {}", line.trim_start());
        }
        text.push('\n');
        for name in CALLBACKS {
            let _ = writeln!(text, "  external :: {name}");
        }
        for routine in routines(self).iter().filter(|one| !one.is_large()) {
            for prefix in ["", "P"] {
                interface(&mut text, &[routine], prefix, Module::Mpi);
            }
        }
        sizeof(&mut text);
        for prefix in ["", "P"] {
            let _ = write!(
                text,
                "\n  interface\n    \
                 subroutine {prefix}MPI_F_sync_reg(buf)\n      \
                 implicit none\n      \
                 !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf\n      \
                 !DEC$ ATTRIBUTES NO_ARG_CHECK :: buf\n      \
                 !DIR$ IGNORE_TKR buf\n      \
                 real :: buf(*)\n    \
                 end subroutine\n  \
                 end interface\n"
            );
        }
        text.push_str("\nend module mpi\n");
        text
    }

    /// Returns the text of `mpi_f08.F90`, which is preprocessed.
    pub fn mpi_f08_f90(&self) -> String {
        let mut text = preamble("Module mpi_f08: handles with types, and array descriptors.");
        let all = routines(self);
        text.push_str(F08_MACROS);
        for name in with_buffers(&all) {
            let _ = writeln!(text, "#define {name}_f08ts {name}_f08");
        }
        text.push_str("#endif\n\n");
        text.push_str(
            "module mpi_f08\n  \
             use, intrinsic :: iso_c_binding, only: c_ptr, c_funptr, c_int, c_char\n  \
             use mpi_f08_types\n  \
             implicit none\n  public\n  private :: c_ptr, c_funptr, c_int, c_char\n\n",
        );
        self.constants_text(&mut text, Module::F08);
        text.push_str(F08_VARIABLES);
        text.push_str(F08_CALLBACKS);
        for routine in all.iter().filter(|routine| routine.in_f08()) {
            // The form with large counts has the same generic name if the compiler can distinguish
            // the two.
            let name = routine.function.name.as_str();
            let large = all
                .iter()
                .find(|other| other.function.narrow_name() == Some(name) && other.is_told_apart());
            let forms: Vec<&Routine<'_>> = match routine.function.narrow_name() {
                None => [Some(routine), large].into_iter().flatten().collect(),
                Some(_) if routine.function.form.is_none() && !routine.is_told_apart() => {
                    vec![routine]
                }
                Some(_) => continue,
            };
            for prefix in ["", "P"] {
                interface(&mut text, &forms, prefix, Module::F08);
            }
        }
        sizeof(&mut text);
        for prefix in ["", "P"] {
            let _ = write!(
                text,
                "\n  interface {prefix}MPI_F_sync_reg\n    \
                 subroutine {prefix}MPI_F_sync_reg_f08ts(buf) BIND_C('{}mpi_f_sync_reg_f08ts_cdesc')\n      \
                 ANY_RANK(buf)\n      \
                 BUFFER LATER :: buf\n    \
                 end subroutine\n  \
                 end interface\n",
                prefix.to_lowercase()
            );
        }
        text.push_str("\nend module mpi_f08\n");
        text
    }

    fn constants_text(&self, text: &mut String, module: Module) {
        for constant in self.fortran_constants() {
            let (name, value) = (&constant.name, constant.value);
            let _ = match (&constant.handle, module) {
                (Some(handle), Module::F08) => {
                    writeln!(
                        text,
                        "  type({handle}), parameter :: {name} = {handle}({value})"
                    )
                }
                _ if constant.wide => writeln!(
                    text,
                    "  integer(kind=MPI_OFFSET_KIND), parameter :: {name} = {value}"
                ),
                _ => writeln!(text, "  integer, parameter :: {name} = {value}"),
            };
        }
    }
}

/// Returns the names of all procedures of `mpi_f08` with choice buffers, without their suffix.
fn with_buffers(all: &[Routine<'_>]) -> Vec<String> {
    let with_buffers = all.iter().filter(|one| one.in_f08() && one.has_buffers());
    let names = with_buffers.map(|routine| routine.function.name.as_str());
    let names = names.chain(["MPI_F_sync_reg"]);
    names
        .flat_map(|name| [name.to_owned(), format!("P{name}")])
        .collect()
}

/// Writes the interface of `MPI_Sizeof`, which is generic over all variables.
fn sizeof(text: &mut String) {
    for prefix in ["", "P"] {
        let _ = writeln!(
            text,
            "\n  interface {prefix}MPI_Sizeof\n    \
             subroutine {prefix}MPI_Sizeof_cdesc(x, size, ierror) &\n        \
             bind(C, name='{}mpi_sizeof_cdesc')\n      \
             type(*), dimension(..), intent(in) :: x\n      \
             integer, intent(out) :: size\n      \
             integer, optional, intent(out) :: ierror\n    \
             end subroutine\n  \
             end interface",
            prefix.to_lowercase()
        );
    }
}

/// Writes the interface of a routine in one or two forms, of which the first has the generic name.
fn interface(text: &mut String, forms: &[&Routine<'_>], prefix: &str, module: Module) {
    let generic = forms[0].named(prefix, "");
    let specific = |routine: &Routine<'_>| match module {
        Module::Mpi => routine.named(prefix, ""),
        Module::F08 => routine.named(prefix, routine.suffix()),
    };
    let is_named_alike = generic == specific(forms[0]);
    let _ = if is_named_alike && !has_cptr(forms[0], module) {
        writeln!(text, "\n  interface")
    } else {
        writeln!(text, "\n  interface {generic}")
    };
    for routine in forms {
        let specific = specific(routine);
        procedure(text, routine, &specific, module, false);
        if has_cptr(routine, module) {
            procedure(text, routine, &format!("{specific}_cptr"), module, true);
        }
    }
    text.push_str("  end interface\n");
}

/// Returns the declaration of a routine in `mpi_f08` or `mpi` for readers, without directives for
/// compilers, in lines of up to `width` columns where commas allow.
pub fn synopsis(routine: &Routine<'_>, f08: bool, width: usize) -> String {
    let module = if f08 { Module::F08 } else { Module::Mpi };
    let mut declared = String::new();
    procedure(
        &mut declared,
        routine,
        &routine.function.name,
        module,
        false,
    );
    let starts = ["import", "implicit", "use,", "!", "ANY_RANK", "end "];
    let mut text = String::new();
    for line in declared.replace("&\n        ", "").lines() {
        let statement = line.trim_start();
        if starts.iter().any(|start| statement.starts_with(start)) {
            continue;
        }
        let line = line.strip_prefix("    ").unwrap_or(line);
        let line = line.split("BIND_C(").next().unwrap_or(line);
        let line = line.replace(" BUFFER", " type(*), dimension(..)");
        let line = line.replace("real ::", "<type> ::");
        broken(
            &mut text,
            &line.replace(" LATER ", ", asynchronous "),
            width,
        );
    }
    text
}

/// Returns whether the module has the routine with an integer and with a `TYPE(C_PTR)` for an
/// address.
fn has_cptr(routine: &Routine<'_>, module: Module) -> bool {
    module == Module::Mpi && routine.args.iter().any(|arg| arg.pass == Pass::AddressOut)
}

fn procedure(text: &mut String, routine: &Routine<'_>, name: &str, module: Module, cptr: bool) {
    let mut names: Vec<&str> = routine.passed().map(|arg| arg.name()).collect();
    let is_function = routine.is_function();
    if routine.has_error_code() {
        names.push("ierror");
    }
    let by_descriptor = module == Module::F08 && routine.has_buffers();
    let mut head = if is_function {
        let result = match routine.function.result.to_c("").as_str() {
            "double" => "double precision",
            _ => "integer(kind=MPI_ADDRESS_KIND)",
        };
        format!("    {result} function {name}({})", names.join(", "))
    } else {
        format!("    subroutine {name}({})", names.join(", "))
    };
    if by_descriptor {
        // Without a blank, so that both stay on one line.
        let _ = write!(head, "BIND_C('{}_cdesc')", name.to_lowercase());
    }
    broken(text, &head, WIDTH);
    let mut lines: Vec<String> = Vec::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for arg in routine.passed() {
        lines.extend(declaration(routine, arg, module, cptr, &mut wanted));
    }
    if is_function {
        wanted.insert("MPI_ADDRESS_KIND".to_owned());
    } else if routine.has_error_code() {
        lines.push(match module {
            Module::Mpi => "integer, intent(out) :: ierror".to_owned(),
            Module::F08 => "integer, optional, intent(out) :: ierror".to_owned(),
        });
    }
    if wanted.remove("c_ptr") && module == Module::Mpi {
        text.push_str("      use, intrinsic :: iso_c_binding, only: c_ptr\n");
    } else if module == Module::F08 && lines.iter().any(|line| line.contains("c_ptr")) {
        wanted.insert("c_ptr".to_owned());
    }
    if !wanted.is_empty() {
        let list: Vec<&str> = wanted.iter().map(String::as_str).collect();
        broken(text, &format!("      import :: {}", list.join(", ")), WIDTH);
    }
    text.push_str("      implicit none\n");
    for line in lines {
        broken(text, &format!("      {line}"), WIDTH);
    }
    let _ = writeln!(
        text,
        "    end {}",
        if is_function {
            "function"
        } else {
            "subroutine"
        }
    );
}

/// Returns the declarations of an argument.
fn declaration(
    routine: &Routine<'_>,
    arg: &Arg<'_>,
    module: Module,
    cptr: bool,
    wanted: &mut BTreeSet<String>,
) -> Vec<String> {
    let name = arg.name();
    let param = arg.param;
    let f08 = module == Module::F08;
    let intent = match param.direction {
        // C receives the address but does not write there.
        _ if routine.base_name() == "MPI_Cancel" => "intent(in)",
        Direction::In => "intent(in)",
        Direction::Out => "intent(out)",
        Direction::InOut => "intent(inout)",
    };
    let mut want = |name: &str| {
        wanted.insert(name.to_owned());
    };
    match arg.pass {
        Pass::Null => Vec::new(),
        Pass::Buffer if f08 && routine.detaches() => {
            want("c_ptr");
            vec![format!("type(c_ptr), intent(out) :: {name}")]
        }
        Pass::Buffer if f08 => {
            let asynchronous = if routine.is_nonblocking() || routine.is_split() || keeps(routine) {
                " LATER"
            } else {
                ""
            };
            let intent = match param.direction {
                Direction::In if !keeps(routine) || routine.base_name() == "MPI_Free_mem" => {
                    ", intent(in)"
                }
                _ => "",
            };
            vec![
                format!("ANY_RANK({name})"),
                format!("BUFFER{intent}{asynchronous} :: {name}"),
            ]
        }
        Pass::Buffer => vec![
            format!("!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}"),
            format!("!DEC$ ATTRIBUTES NO_ARG_CHECK :: {name}"),
            format!("!DIR$ IGNORE_TKR {name}"),
            format!("!$PRAGMA IGNORE_TKR {name}"),
            format!("!IBM* IGNORE_TKR {name}"),
            format!("real :: {name}(*)"),
        ],
        Pass::Callback if f08 => {
            let callback = match param.ctype.base.as_str() {
                "MPI_Copy_function" => "MPI_Comm_copy_attr_function",
                other => other,
            };
            want(callback);
            vec![format!("procedure({callback}) :: {name}")]
        }
        Pass::Callback => vec![format!("external :: {name}")],
        Pass::Logical => vec![format!("logical, intent(in) :: {name}")],
        Pass::LogicalOut => vec![format!("logical, intent(out) :: {name}")],
        Pass::Text | Pass::Trimmed => {
            vec![format!("character(len=*), intent(in) :: {name}")]
        }
        Pass::TextOut => vec![format!("character(len=*), intent(out) :: {name}")],
        Pass::Texts => {
            let shape = if name == "array_of_argv" {
                "count, *"
            } else {
                "*"
            };
            vec![format!("character(len=*), intent(in) :: {name}({shape})")]
        }
        Pass::AddressOut if f08 || cptr => {
            want("c_ptr");
            vec![format!("type(c_ptr), intent(out) :: {name}")]
        }
        Pass::AddressOut => {
            want("MPI_ADDRESS_KIND");
            vec![format!(
                "integer(kind=MPI_ADDRESS_KIND), intent(out) :: {name}"
            )]
        }
        Pass::OldInteger => vec![format!("integer, intent(in) :: {name}")],
        Pass::OldIntegers => vec![format!("integer, intent(in) :: {name}(*)")],
        Pass::OldIntegerOut => vec![format!("integer, intent(out) :: {name}")],
        // The argument may be a constant that must not be written.
        Pass::Weights if param.direction == Direction::Out => {
            vec![format!("integer :: {name}(*)")]
        }
        Pass::Weights => vec![format!("integer, {intent} :: {name}(*)")],
        Pass::ErrorCodes => vec![format!("integer :: {name}(*)")],
        Pass::Index => vec![format!("integer, intent(out) :: {name}")],
        Pass::Indices => vec![format!("integer, intent(out) :: {name}(*)")],
        Pass::Status | Pass::Pointer | Pass::Value | Pass::File | Pass::FileInOut => {
            let shape = shape(&param.ctype);
            let element = match param.ctype.base.as_str() {
                "MPI_Count" => Kind::BigCount,
                _ => param.kind,
            };
            let kind = kind(routine, element, module, &mut want);
            if param.kind == Kind::StatusF08 || param.kind == Kind::Status {
                return vec![status(
                    param.kind,
                    param.direction,
                    module,
                    name,
                    shape,
                    &mut want,
                )];
            }
            if param.kind == Kind::Fint {
                want("MPI_STATUS_SIZE");
                return vec![format!("integer, {intent} :: {name}(MPI_STATUS_SIZE)")];
            }
            let shape = match (shape, name) {
                (_, "ranges") => "(3, *)",
                (shape, _) => shape,
            };
            // A buffer that a pending operation reads must not be moved, either.
            let reads_on = !shape.is_empty()
                && param.direction == Direction::In
                && routine.is_nonblocking()
                && routine.has_buffers();
            // The communicator is created when the operation completes.
            let is_made = name == "newcomm" && routine.is_nonblocking() && param.kind == Kind::Comm;
            let asynchronous = if f08 && (reads_on || is_made) {
                ", asynchronous"
            } else {
                ""
            };
            let intent = match param.kind {
                Kind::ExtraState | Kind::Attribute if param.direction == Direction::In => {
                    "intent(in)"
                }
                _ => intent,
            };
            vec![format!("{kind}, {intent}{asynchronous} :: {name}{shape}")]
        }
    }
}

/// Returns whether the buffer is used after the call by an operation without a request of its own.
pub(super) fn keeps(routine: &Routine<'_>) -> bool {
    matches!(
        routine.base_name(),
        "MPI_Buffer_attach"
            | "MPI_Get_address"
            | "MPI_Win_create"
            | "MPI_Win_attach"
            | "MPI_Win_detach"
            | "MPI_Free_mem"
            | "MPI_Comm_attach_buffer"
            | "MPI_Comm_detach_buffer"
            | "MPI_Session_attach_buffer"
            | "MPI_Session_detach_buffer"
    )
}

fn status(
    kind: Kind,
    direction: Direction,
    module: Module,
    name: &str,
    shape: &str,
    want: &mut impl FnMut(&str),
) -> String {
    let intent = match direction {
        Direction::In => ", intent(in)",
        Direction::InOut => ", intent(inout)",
        Direction::Out if kind == Kind::StatusF08 => ", intent(out)",
        // The argument may be a constant that must not be written.
        Direction::Out => "",
    };
    if kind == Kind::StatusF08 || module == Module::F08 {
        want("MPI_Status");
        return format!("type(MPI_Status){intent} :: {name}{shape}");
    }
    want("MPI_STATUS_SIZE");
    let shape = if shape.is_empty() {
        "(MPI_STATUS_SIZE)"
    } else {
        "(MPI_STATUS_SIZE, *)"
    };
    format!("integer{intent} :: {name}{shape}")
}

/// Returns the type of an argument's elements.
fn kind(routine: &Routine<'_>, kind: Kind, module: Module, want: &mut impl FnMut(&str)) -> String {
    let mut wide = |name: &str| {
        want(name);
        format!("integer(kind={name})")
    };
    match kind {
        Kind::Aint => wide("MPI_ADDRESS_KIND"),
        Kind::ExtraState | Kind::Attribute if routine.function.outdated => "integer".to_owned(),
        Kind::ExtraState | Kind::Attribute => wide("MPI_ADDRESS_KIND"),
        Kind::Offset => wide("MPI_OFFSET_KIND"),
        Kind::BigCount => wide("MPI_COUNT_KIND"),
        // The only buffers that reach this arm hold truth values.
        Kind::Logical | Kind::Buffer => "logical".to_owned(),
        _ if module == Module::Mpi => "integer".to_owned(),
        _ => {
            let handle = match kind {
                Kind::Comm => "MPI_Comm",
                Kind::Group => "MPI_Group",
                Kind::Datatype => "MPI_Datatype",
                Kind::Op => "MPI_Op",
                Kind::Request => "MPI_Request",
                Kind::Message => "MPI_Message",
                Kind::Errhandler => "MPI_Errhandler",
                Kind::Info => "MPI_Info",
                Kind::Win => "MPI_Win",
                Kind::Session => "MPI_Session",
                Kind::File => "MPI_File",
                _ => return "integer".to_owned(),
            };
            want(handle);
            format!("type({handle})")
        }
    }
}

fn shape(ctype: &CType) -> &'static str {
    if ctype.dimensions.is_empty() {
        ""
    } else {
        "(*)"
    }
}

/// Writes a line, broken after commas if it is too long. Directives are never broken.
fn broken(text: &mut String, line: &str, width: usize) {
    let mut current = String::new();
    for word in line.split_inclusive(' ') {
        if current.len() + word.len() > width && current.ends_with(", ") {
            let _ = writeln!(text, "{}&", current);
            current = "        ".to_owned();
        }
        current.push_str(word);
    }
    let _ = writeln!(text, "{current}");
}
