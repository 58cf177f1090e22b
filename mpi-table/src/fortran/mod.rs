//! The Fortran bindings: the routines, and the correspondence of their arguments to those of the C
//! functions. Submodules generate the library's entry points, `mpif.h` and the modules.

pub mod constants;
mod fixed;
pub mod interfaces;
pub mod sections;
pub mod shims;
pub mod standard;

use crate::function::{Direction, Function, Kind, Param};
use crate::{Abi, Table};

/// A Fortran routine.
#[derive(Debug)]
pub struct Routine<'t> {
    /// The C function that it calls.
    pub function: &'t Function,
    /// The arguments, those of the C function in their order, without the error code.
    pub args: Vec<Arg<'t>>,
    /// The function in the library's `crate::special` that implements it, if its arguments differ
    /// from C's.
    pub special: Option<&'static str>,
}

/// An argument.
#[derive(Debug)]
pub struct Arg<'t> {
    /// The C function's parameter.
    pub param: &'t Param,
    /// The conversion to the C argument.
    pub pass: Pass,
}

/// The conversion of an argument to C's. All Fortran arguments are addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// No argument in Fortran; NULL in C (`argc`).
    Null,
    /// A choice buffer, or a constant in its place.
    Buffer,
    /// An integer or handle that is read.
    Value,
    /// A truth value that is read.
    Logical,
    /// A truth value that is written.
    LogicalOut,
    /// The address itself: written values, and arrays.
    Pointer,
    /// One or several written statuses, or the constants in their place.
    Status,
    /// An index from 0 in C and from 1 in Fortran, written.
    Index,
    /// Written indices, as many as argument `outcount` says.
    Indices,
    /// A string that is read, without trailing blanks.
    Text,
    /// A string that is read, without leading and trailing blanks.
    Trimmed,
    /// A string that is written, padded with blanks.
    TextOut,
    /// Strings, or tables of strings (only for special routines).
    Texts,
    /// Weights of edges, or the constants in their place.
    Weights,
    /// Error codes of spawned processes, or the constant in their place.
    ErrorCodes,
    /// A written address.
    AddressOut,
    /// A file that is read.
    File,
    /// A file that is read and written.
    FileInOut,
    /// An `INTEGER` that is an address or a distance in C (interfaces before MPI-2).
    OldInteger,
    /// Such integers, as many as argument `count` says.
    OldIntegers,
    /// Such an integer, written.
    OldIntegerOut,
    /// A callback subroutine of the program.
    Callback,
}

impl Arg<'_> {
    /// Returns the argument's name.
    pub fn name(&self) -> &str {
        &self.param.name
    }

    /// Returns whether the compiler passes a hidden length with the argument.
    pub fn has_length(&self) -> bool {
        matches!(
            self.pass,
            Pass::Text | Pass::Trimmed | Pass::TextOut | Pass::Texts
        )
    }
}

impl Routine<'_> {
    /// Iterates over the arguments that Fortran programs pass.
    pub fn passed(&self) -> impl Iterator<Item = &Arg<'_>> {
        self.args.iter().filter(|arg| arg.pass != Pass::Null)
    }

    /// Returns whether the routine has choice buffers in `mpi_f08`.
    pub fn has_buffers(&self) -> bool {
        !self.detaches() && self.args.iter().any(|arg| arg.pass == Pass::Buffer)
    }

    /// Returns whether the routine returns an address as a type that only `mpi_f08` has; `mpif.h`
    /// has a buffer there that is not written (section 3.6).
    pub fn detaches(&self) -> bool {
        matches!(
            self.base_name(),
            "MPI_Buffer_detach" | "MPI_Comm_detach_buffer" | "MPI_Session_detach_buffer"
        )
    }

    /// Returns whether its buffer may be `MPI_BUFFER_AUTOMATIC` (MPI-4.1 section 3.6).
    pub fn attaches(&self) -> bool {
        matches!(
            self.base_name(),
            "MPI_Buffer_attach" | "MPI_Comm_attach_buffer" | "MPI_Session_attach_buffer"
        )
    }

    /// Returns whether the routine is a function, which has no error code.
    pub fn is_function(&self) -> bool {
        self.function.result.to_c("") != "int"
    }

    /// Returns whether the routine has an error code: `MPI_Pcontrol` has none in Fortran (MPI-4.1
    /// section 15.2.4).
    pub fn has_error_code(&self) -> bool {
        !self.is_function() && self.base_name() != "MPI_Pcontrol"
    }

    /// Returns whether the routine starts an operation that continues after the call.
    pub fn is_nonblocking(&self) -> bool {
        let has = |kind| self.args.iter().any(|arg| arg.param.kind == kind);
        let begins = self
            .args
            .iter()
            .any(|arg| arg.param.kind == Kind::Request && arg.param.direction == Direction::Out);
        begins || has(Kind::Win) || self.attaches()
    }

    /// Returns whether the routine is one half of a split access to a file.
    pub fn is_split(&self) -> bool {
        let name = self.base_name();
        let half = name.ends_with("_begin") || name.ends_with("_end");
        name.starts_with("MPI_File_") && half
    }

    /// Returns the name of the form with ints, which shares the routine's special cases.
    pub fn base_name(&self) -> &str {
        self.function.narrow_name().unwrap_or(&self.function.name)
    }

    /// Returns whether the routine has large counts, which only `mpi_f08` has.
    pub fn is_large(&self) -> bool {
        self.function.narrow_name().is_some()
    }

    /// Returns whether the compiler can distinguish the routine from its form with ints, so that
    /// both can have one generic name. A large count is an address kind for it, and procedures are
    /// all alike.
    pub fn is_told_apart(&self) -> bool {
        let int_and_not = |(param, other): (&Param, &crate::CType)| {
            (param.ctype.base == "int") != (other.base == "int")
        };
        match &self.function.form {
            Some(form) => self
                .function
                .params
                .iter()
                .zip(&form.other)
                .any(int_and_not),
            None => !self.args.iter().any(|arg| arg.pass == Pass::Callback),
        }
    }

    /// Returns whether `mpi_f08` has the routine: deprecated ones are left out.
    pub fn in_f08(&self) -> bool {
        !self.function.outdated
    }

    /// Returns the routine's name with another prefix and suffix: `PMPI_Send_f08ts`.
    pub fn named(&self, prefix: &str, suffix: &str) -> String {
        format!("{prefix}{}{suffix}", self.function.name)
    }

    /// Returns the suffix of the specific procedure in `mpi_f08` (section 17.1.5).
    pub fn suffix(&self) -> &'static str {
        if self.has_buffers() { "_f08ts" } else { "_f08" }
    }
}

/// Returns the Fortran routines of all implemented functions.
pub fn routines(table: &Table) -> Vec<Routine<'_>> {
    table
        .functions
        .chapters
        .iter()
        .filter(|chapter| chapter.number.is_some())
        .flat_map(|chapter| &chapter.functions)
        .filter(|function| function.implementation.is_some() && is_routine(function))
        .map(|function| Routine {
            function,
            args: function
                .params
                .iter()
                .map(|param| Arg {
                    param,
                    pass: pass(function, param),
                })
                .collect(),
            special: special(&function.name).or_else(|| match table.abi {
                Abi::OpenMpi => special_of_openmpi(&function.name),
                // A file's handle is no integer in C.
                _ => (function.name == "MPI_File_create_errhandler")
                    .then_some("file_create_errhandler"),
            }),
        })
        .collect()
}

/// Returns whether Fortran has the function: the tool interface and conversions for C are left out.
fn is_routine(function: &Function) -> bool {
    let name = function.name.as_str();
    let converts = ["_c2f", "_f2c", "_f082c", "_c2f08", "_toint", "_fromint"]
        .iter()
        .any(|end| name.ends_with(end));
    !name.starts_with("MPI_T_") && !converts
}

fn special(name: &str) -> Option<&'static str> {
    Some(match name {
        "MPI_Buffer_detach" => "buffer_detach",
        "MPI_Comm_detach_buffer" => "comm_detach_buffer",
        "MPI_Session_detach_buffer" => "session_detach_buffer",
        "MPI_Comm_create_keyval" => "comm_create_keyval",
        "MPI_Type_create_keyval" => "type_create_keyval",
        "MPI_Win_create_keyval" => "win_create_keyval",
        "MPI_Keyval_create" => "keyval_create",
        "MPI_Comm_set_attr" => "comm_set_attr",
        "MPI_Type_set_attr" => "type_set_attr",
        "MPI_Win_set_attr" => "win_set_attr",
        "MPI_Attr_put" => "attr_put",
        "MPI_Comm_get_attr" => "comm_get_attr",
        "MPI_Type_get_attr" => "type_get_attr",
        "MPI_Win_get_attr" => "win_get_attr",
        "MPI_Attr_get" => "attr_get",
        "MPI_Grequest_start" => "grequest_start",
        "MPI_Info_get" => "info_get",
        "MPI_Info_get_string" => "info_get_string",
        "MPI_Session_get_nth_pset" => "session_get_nth_pset",
        "MPI_Register_datarep" => "register_datarep",
        "MPI_Register_datarep_c" => "register_datarep_c",
        "MPI_Comm_spawn" => "comm_spawn",
        "MPI_Comm_spawn_multiple" => "comm_spawn_multiple",
        _ => return None,
    })
}

/// Returns the special function for a routine whose callbacks receive handles, which Open MPI's ABI
/// must convert.
fn special_of_openmpi(name: &str) -> Option<&'static str> {
    Some(match name {
        "MPI_Op_create" => "op_create",
        "MPI_Comm_create_errhandler" | "MPI_Errhandler_create" => "comm_create_errhandler",
        "MPI_Win_create_errhandler" => "win_create_errhandler",
        "MPI_File_create_errhandler" => "file_create_errhandler",
        _ => return None,
    })
}

/// Returns whether the program's arguments are among the function's.
fn has_argc(function: &Function) -> bool {
    function.params.iter().any(|param| param.name == "argc")
}

fn pass(function: &Function, param: &Param) -> Pass {
    let (ctype, name) = (&param.ctype, param.name.as_str());
    let written = param.direction != Direction::In;
    let single = ctype.pointers == 1 && ctype.dimensions.is_empty();
    let old = function.outdated;
    match param.kind {
        Kind::Texts if name == "argv" && has_argc(function) => Pass::Null,
        _ if name == "argc" => Pass::Null,
        Kind::Texts => Pass::Texts,
        // Truth values in Fortran's representation.
        Kind::Buffer if name.starts_with("logical_") => Pass::Pointer,
        Kind::Buffer => Pass::Buffer,
        Kind::Address if name == "baseptr" => Pass::AddressOut,
        Kind::Address => Pass::Buffer,
        Kind::ExtraState | Kind::Attribute => Pass::Pointer,
        Kind::Status if ctype.is_const || function.name.starts_with("MPI_Status_set") => {
            Pass::Pointer
        }
        Kind::Status => Pass::Status,
        Kind::Logical if !ctype.is_pointer() => Pass::Logical,
        Kind::Logical if single => Pass::LogicalOut,
        Kind::Text if written => Pass::TextOut,
        Kind::Text if function.name.starts_with("MPI_Info_") => Pass::Trimmed,
        Kind::Text => Pass::Text,
        Kind::ErrorCode if name == "array_of_errcodes" => Pass::ErrorCodes,
        Kind::File if !ctype.is_pointer() => Pass::File,
        Kind::File => Pass::FileInOut,
        Kind::Callback => Pass::Callback,
        Kind::Aint if old && !ctype.is_pointer() => Pass::OldInteger,
        Kind::Aint if old && single => Pass::OldIntegerOut,
        Kind::Aint if old => Pass::OldIntegers,
        _ if name.ends_with("weights") => Pass::Weights,
        _ if name == "index" && single => Pass::Index,
        _ if name == "array_of_indices" => Pass::Indices,
        _ if ctype.is_pointer() => Pass::Pointer,
        _ => Pass::Value,
    }
}
