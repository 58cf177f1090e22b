//! Constants of the Fortran bindings, and `mpif.h`.

use std::fmt::Write as _;

use super::routines;
use crate::{Abi, Item, Table, Value};

/// A constant of Fortran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: i64,
    /// The type of a handle, `MPI_Comm`; `None` for other integers.
    pub handle: Option<String>,
    /// Whether it is an `INTEGER(KIND=MPI_OFFSET_KIND)`.
    pub wide: bool,
}

/// Kinds of integers.
const KINDS: &[(&str, i64)] = &[
    ("MPI_ADDRESS_KIND", 8),
    ("MPI_COUNT_KIND", 8),
    ("MPI_OFFSET_KIND", 8),
    ("MPI_INTEGER_KIND", 4),
];

/// Returns the indices of a status's fields in `mpif.h`, from 1.
fn layout(abi: Abi) -> [(&'static str, i64); 4] {
    let (size, source, tag, error) = match abi {
        Abi::Mpich => (5, 3, 4, 5),
        Abi::Standard => (8, 1, 2, 3),
        Abi::OpenMpi => (6, 1, 2, 3),
    };
    [
        ("MPI_STATUS_SIZE", size),
        ("MPI_SOURCE", source),
        ("MPI_TAG", tag),
        ("MPI_ERROR", error),
    ]
}

impl Table {
    /// Returns the integer constants of Fortran with their values there.
    pub fn fortran_constants(&self) -> Vec<Constant> {
        let mut found: Vec<Constant> = KINDS
            .iter()
            .chain(&layout(self.abi))
            .map(|(name, value)| Constant {
                name: (*name).to_owned(),
                value: *value,
                handle: None,
                wide: false,
            })
            .collect();
        for group in &self.constants.groups {
            if group.title == "Status in Fortran" {
                continue;
            }
            // Predefined keys of the MPICH ABI differ by language, so that C's get addresses.
            let is_key = self.abi == Abi::Mpich && group.title.starts_with("Attributes of ");
            for item in &group.items {
                match item {
                    Item::Constant {
                        name,
                        ctype,
                        value: Value::Integer { number, .. },
                    } if !name.starts_with("MPI_T_") && !ctype.is_pointer() => {
                        let is_handle = self.constants.is_handle(&ctype.base);
                        let number = if is_handle || *number > i64::from(i32::MAX) {
                            i64::from(*number as i32)
                        } else {
                            *number
                        };
                        found.push(Constant {
                            name: name.clone(),
                            // Fortran strings have no terminating NUL.
                            value: number + i64::from(is_key)
                                - i64::from(name.starts_with("MPI_MAX_")),
                            handle: is_handle.then(|| ctype.base.clone()),
                            wide: name == "MPI_DISPLACEMENT_CURRENT",
                        });
                    }
                    Item::Alias { name, target } => {
                        let same = found.iter().find(|one| one.name == *target).cloned();
                        found.extend(same.map(|one| Constant {
                            name: name.clone(),
                            ..one
                        }));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// Returns an assembler file that defines the variables whose addresses are constants as unique
    /// symbols. The dynamic linker then gives all parts of a process the same ones, even shared
    /// objects that are loaded one by one and see no others, such as Python's extension modules.
    /// The definitions replace the compilers' common blocks.
    pub fn fortran_sentinels(&self) -> String {
        let [(_, status), ..] = layout(self.abi);
        let status = 4 * status;
        let mut text = String::from(
            "# The constants of Fortran that are known by their addresses: one of each in a process.\n\
             #\n\
             # Generated from mpi-table by `cargo xtask install`.\n\
             # SPDX-License-Identifier: MIT OR Apache-2.0\n\
             \x20       .section .bss.weft_sentinels,\"aw\",@nobits\n",
        );
        for (name, integers, statuses) in SENTINELS {
            let size = integers + statuses * status;
            let _ = write!(
                text,
                "        .balign 64\n        .type   {name}, @gnu_unique_object\n        \
                 .size   {name}, {size}\n{name}:\n        .zero   {size}\n"
            );
        }
        text.push_str("        .section .note.GNU-stack,\"\",@progbits\n");
        text
    }

    /// Returns the text of `mpif.h`, for both source forms.
    pub fn mpif_h(&self) -> String {
        let abi = match self.abi {
            Abi::Mpich => "MPICH",
            Abi::Standard => "standard",
            Abi::OpenMpi => "Open MPI",
        };
        let mut text = format!(
            "!     mpif.h: the interface of Weft, an implementation of MPI-5.0, for\n\
             !     programs in Fortran 90 and later. Values are of the {abi} ABI.\n\
             !     Module mpi_f08, and module mpi, let the compiler check arguments.\n\
             !\n\
             !     Generated from mpi-table by `cargo xtask install`.\n\
             !     SPDX-License-Identifier: MIT OR Apache-2.0\n",
        );
        for constant in self.fortran_constants() {
            let Constant {
                name, value, wide, ..
            } = constant;
            let kind = match wide {
                true => "INTEGER(KIND=MPI_OFFSET_KIND)",
                false => "INTEGER",
            };
            let _ = writeln!(text, "      {kind} {name}");
            let _ = writeln!(text, "      PARAMETER ({name}={value})");
        }
        for name in ["MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"] {
            let _ = writeln!(text, "      LOGICAL {name}");
            let _ = writeln!(text, "      PARAMETER ({name}=.FALSE.)");
        }
        text.push_str(COMMON);
        for function in CALLBACKS {
            let _ = writeln!(text, "      EXTERNAL {function}");
        }
        for routine in routines(self).iter().filter(|one| !one.is_large()) {
            if routine.is_function() {
                let name = routine.function.name.to_uppercase();
                let kind = match routine.function.result.to_c("").as_str() {
                    "double" => "DOUBLE PRECISION",
                    _ => "INTEGER(KIND=MPI_ADDRESS_KIND)",
                };
                for name in [name.clone(), format!("P{name}")] {
                    let _ = writeln!(text, "      EXTERNAL {name}");
                    let _ = writeln!(text, "      {kind} {name}");
                }
            }
        }
        text
    }
}

/// Variables whose addresses are constants, in common blocks and in `mpi_f08`: their bytes besides
/// statuses, and the number of statuses.
pub(super) const SENTINELS: &[(&str, i64, i64)] = &[
    ("mpipriv1_", 8, 1),
    ("mpipriv2_", 4, 1),
    ("mpiprivc_", 2, 0),
    ("mpifcmb5_", 4, 0),
    ("mpifcmb9_", 4, 0),
    ("mpifcmba_", 4, 0),
    ("MPIR_F08_MPI_BOTTOM", 4, 0),
    ("MPIR_F08_MPI_IN_PLACE", 4, 0),
    ("MPIR_F08_MPI_STATUS_IGNORE_OBJ", 0, 1),
    ("MPIR_F08_MPI_STATUSES_IGNORE_OBJ", 0, 1),
    ("weft_errcodes_ignore", 4, 0),
    ("weft_argv_null", 1, 0),
    ("weft_argvs_null", 1, 0),
];

/// The predefined callbacks.
pub(super) const CALLBACKS: &[&str] = &[
    "MPI_NULL_COPY_FN",
    "MPI_NULL_DELETE_FN",
    "MPI_DUP_FN",
    "MPI_COMM_NULL_COPY_FN",
    "MPI_COMM_NULL_DELETE_FN",
    "MPI_COMM_DUP_FN",
    "MPI_TYPE_NULL_COPY_FN",
    "MPI_TYPE_NULL_DELETE_FN",
    "MPI_TYPE_DUP_FN",
    "MPI_WIN_NULL_COPY_FN",
    "MPI_WIN_NULL_DELETE_FN",
    "MPI_WIN_DUP_FN",
    "MPI_CONVERSION_FN_NULL",
    "MPI_CONVERSION_FN_NULL_C",
];

/// The declarations of constants that are addresses.
pub(super) const COMMON: &str = "\
\x20     INTEGER MPI_BOTTOM, MPI_IN_PLACE
      INTEGER MPI_STATUS_IGNORE(MPI_STATUS_SIZE)
      COMMON /MPIPRIV1/ MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE
      INTEGER MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)
      INTEGER MPI_ERRCODES_IGNORE(1)
      COMMON /MPIPRIV2/ MPI_STATUSES_IGNORE, MPI_ERRCODES_IGNORE
      CHARACTER*1 MPI_ARGVS_NULL(1,1)
      CHARACTER*1 MPI_ARGV_NULL(1)
      COMMON /MPIPRIVC/ MPI_ARGVS_NULL, MPI_ARGV_NULL
      INTEGER MPI_UNWEIGHTED(1)
      COMMON /MPIFCMB5/ MPI_UNWEIGHTED
      INTEGER MPI_WEIGHTS_EMPTY(1)
      COMMON /MPIFCMB9/ MPI_WEIGHTS_EMPTY
      INTEGER MPI_BUFFER_AUTOMATIC
      TARGET MPI_BUFFER_AUTOMATIC
      COMMON /MPIFCMBA/ MPI_BUFFER_AUTOMATIC
      SAVE /MPIPRIV1/, /MPIPRIV2/, /MPIPRIVC/
      SAVE /MPIFCMB5/, /MPIFCMB9/, /MPIFCMBA/
";
