//! The Fortran bindings: which routines there are, and how their arguments correspond to those of
//! the C functions. The modules below write the library's entry points, `mpif.h` and the modules.

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
    /// A function in `crate::special` of the library that does it, where arguments don't
    /// correspond one by one.
    pub special: Option<&'static str>,
}

/// An argument.
#[derive(Debug)]
pub struct Arg<'t> {
    /// The C function's parameter.
    pub param: &'t Param,
    /// How it is passed on.
    pub pass: Pass,
}

/// How an argument becomes one of C. All Fortran arguments are addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// No argument in Fortran; NULL in C (`argc`).
    Null,
    /// A choice buffer, or one of the constants that stand for buffers.
    Buffer,
    /// An integer or handle that is read.
    Value,
    /// A truth value that is read.
    Logical,
    /// A truth value that is written.
    LogicalOut,
    /// The address itself: what is written, and arrays.
    Pointer,
    /// One status to be written, or several, or the constants that stand for them.
    Status,
    /// An index from 0 in C and from 1 in Fortran, written.
    Index,
    /// Several of them; the argument `outcount` says how many.
    Indices,
    /// A string that is read, without trailing blanks.
    Text,
    /// A string that is read, without leading and trailing blanks.
    Trimmed,
    /// A string that is written, filled up with blanks.
    TextOut,
    /// Strings, or tables of strings (only for special routines).
    Texts,
    /// Weights of edges, or the constants that stand for them.
    Weights,
    /// Error codes of spawned processes, or the constant that stands for them.
    ErrorCodes,
    /// A place for an address.
    AddressOut,
    /// A file that is read.
    File,
    /// A file that is read and written.
    FileInOut,
    /// An `INTEGER` that is an address or a distance in C (interfaces before MPI-2).
    OldInteger,
    /// As many of them as the argument `count` says.
    OldIntegers,
    /// One to be written.
    OldIntegerOut,
    /// A subroutine of the program's.
    Callback,
}

impl Arg<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.param.name
    }

    /// Whether a length comes with it.
    pub fn has_length(&self) -> bool {
        matches!(
            self.pass,
            Pass::Text | Pass::Trimmed | Pass::TextOut | Pass::Texts
        )
    }
}

impl Routine<'_> {
    /// The arguments that Fortran programs pass.
    pub fn passed(&self) -> impl Iterator<Item = &Arg<'_>> {
        self.args.iter().filter(|arg| arg.pass != Pass::Null)
    }

    /// Whether it has choice buffers in `mpi_f08`.
    pub fn has_buffers(&self) -> bool {
        !self.detaches() && self.args.iter().any(|arg| arg.pass == Pass::Buffer)
    }

    /// Whether it gives an address that only `mpi_f08` has a type for; `mpif.h` has a buffer there
    /// that is left alone (section 3.6).
    pub fn detaches(&self) -> bool {
        matches!(
            self.base_name(),
            "MPI_Buffer_detach" | "MPI_Comm_detach_buffer" | "MPI_Session_detach_buffer"
        )
    }

    /// Whether its buffer may be `MPI_BUFFER_AUTOMATIC` (MPI-4.1 section 3.6).
    pub fn attaches(&self) -> bool {
        matches!(
            self.base_name(),
            "MPI_Buffer_attach" | "MPI_Comm_attach_buffer" | "MPI_Session_attach_buffer"
        )
    }

    /// Whether it is a function, so that there is no error code.
    pub fn is_function(&self) -> bool {
        self.function.result.to_c("") != "int"
    }

    /// Whether it has an error code: `MPI_Pcontrol` has none in Fortran (MPI-4.1 section 15.2.4).
    pub fn has_error_code(&self) -> bool {
        !self.is_function() && self.base_name() != "MPI_Pcontrol"
    }

    /// Whether it begins something that goes on after the call.
    pub fn is_nonblocking(&self) -> bool {
        let has = |kind| self.args.iter().any(|arg| arg.param.kind == kind);
        let begins = self
            .args
            .iter()
            .any(|arg| arg.param.kind == Kind::Request && arg.param.direction == Direction::Out);
        begins || has(Kind::Win) || self.attaches()
    }

    /// Whether it begins or ends an access to a file whose other half is another call.
    pub fn is_split(&self) -> bool {
        let name = self.base_name();
        let half = name.ends_with("_begin") || name.ends_with("_end");
        name.starts_with("MPI_File_") && half
    }

    /// The name of its form with ints: both have in common what is particular to a routine.
    pub fn base_name(&self) -> &str {
        self.function.narrow_name().unwrap_or(&self.function.name)
    }

    /// Whether it has large counts, which only `mpi_f08` has.
    pub fn is_large(&self) -> bool {
        self.function.narrow_name().is_some()
    }

    /// Whether its arguments tell it from its form with ints, so that both can have one generic name. A
    /// large count is an address for the compiler, and procedures are all alike.
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

    /// Whether `mpi_f08` has it: that leaves out what is deprecated.
    pub fn in_f08(&self) -> bool {
        !self.function.outdated
    }

    /// The routine's name with another prefix and suffix: `PMPI_Send_f08ts`.
    pub fn named(&self, prefix: &str, suffix: &str) -> String {
        format!("{prefix}{}{suffix}", self.function.name)
    }

    /// The suffix of the specific procedure in `mpi_f08` (section 17.1.5).
    pub fn suffix(&self) -> &'static str {
        if self.has_buffers() { "_f08ts" } else { "_f08" }
    }
}

/// The Fortran routines of all functions that there are.
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

/// Whether Fortran has it: tools and conversions for C are left out.
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

/// Callbacks that get handles, which are not the same integers there.
fn special_of_openmpi(name: &str) -> Option<&'static str> {
    Some(match name {
        "MPI_Op_create" => "op_create",
        "MPI_Comm_create_errhandler" | "MPI_Errhandler_create" => "comm_create_errhandler",
        "MPI_Win_create_errhandler" => "win_create_errhandler",
        "MPI_File_create_errhandler" => "file_create_errhandler",
        _ => return None,
    })
}

/// Whether the arguments of the program are among those of the function.
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
        // Truth values as they are in Fortran's memory.
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
