//! The standard ABI (MPI-5.0 chapter 21): its table, and the constants that follow from both
//! tables.

use crate::ctype::CType;
use crate::source::{ParseError, statements};
use crate::{Constants, Function, Group, Item, Kind, Table, Value};

/// An ABI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abi {
    /// MPICH's: `libmpi.so.12`.
    Mpich,
    /// The standard's: `libmpi_abi.so.1`.
    Standard,
    /// Open MPI's: `libmpi.so.40`.
    OpenMpi,
}

/// Functions beyond the standard that `libmpifort_abi` needs.
const STANDARD_COMPANIONS: &[&str] = &[
    "MPII_Comm_set_attr",
    "MPII_Comm_get_attr",
    "MPII_Type_set_attr",
    "MPII_Type_get_attr",
    "MPII_Win_set_attr",
    "MPII_Win_get_attr",
    "MPII_Keyval_set_proxy",
    "MPII_Errhandler_set_fc",
    "MPII_Type_state",
];

/// The table of the standard ABI.
#[derive(Debug)]
pub struct Standard {
    /// Its handles, status and constants.
    pub constants: Constants,
    /// Names that have the same value in both ABIs.
    same: Vec<String>,
    /// Names of the MPICH ABI alone.
    without: Vec<String>,
}

impl Standard {
    /// Parses the table; `file` is the name for messages.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, ParseError> {
        let (mut same, mut without) = (Vec::new(), Vec::new());
        for statement in statements(file, text)? {
            let line = statement.text();
            let mut words = line.split_whitespace().map(str::to_owned);
            match words.next().as_deref() {
                Some("same") => same.extend(words),
                Some("without") => without.extend(words),
                _ => {}
            }
        }
        // Removed lines stay empty, which keeps the line numbers of messages.
        let rest: String = text
            .lines()
            .map(|line| match line.split(' ').next() {
                Some("same" | "without") => "\n".to_owned(),
                _ => format!("{line}\n"),
            })
            .collect();
        Ok(Standard {
            constants: Constants::parse(file, &rest)?,
            same,
            without,
        })
    }

    /// Returns an empty table.
    pub(crate) fn none() -> Self {
        Standard {
            constants: Constants { groups: Vec::new() },
            same: Vec::new(),
            without: Vec::new(),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Item> {
        self.constants.items().find(|item| item.name() == name)
    }

    pub(crate) fn is_without(&self, name: &str) -> bool {
        self.without.iter().any(|other| other == name) || name.starts_with("MPIR_")
    }
}

/// A predefined handle: its type, its value in the library, `None` if the library lacks it, and its
/// value in the standard ABI.
pub(crate) struct Predefined<'a> {
    pub handle: &'a str,
    pub inner: Option<i64>,
    pub outer: i64,
}

impl Table {
    /// Returns the constants that the library is compiled with for another ABI: handles are those
    /// of the MPICH ABI, all other values are that ABI's.
    ///
    /// # Errors
    /// A constant that the table of that ABI does not know.
    pub fn inner_constants(&self, abi: Abi) -> Result<Vec<Item>, String> {
        let (standard, file) = match abi {
            Abi::OpenMpi => (&self.openmpi.values, "openmpi_constants.mpi"),
            _ => (&self.standard, "abi_constants.mpi"),
        };
        let mut items = Vec::new();
        for item in self.constants.items() {
            let other = standard.find(item.name());
            items.push(match (item, other) {
                (Item::Constant { ctype, .. }, _)
                    if self.constants.is_handle(&ctype.base) || ctype.is_callback() =>
                {
                    item.clone()
                }
                (Item::Constant { .. }, Some(other)) => other.clone(),
                (Item::Constant { name, .. }, None) => {
                    let known = standard.same.contains(name) || standard.is_without(name);
                    if name.starts_with("MPI_") && !known {
                        return Err(format!(
                            "{file}: {name} of constants.mpi is missing: give its value in \
                             that ABI, or name it behind `same` or `without`"
                        ));
                    }
                    item.clone()
                }
                (Item::Struct { .. }, Some(other @ Item::Struct { .. })) if abi == Abi::OpenMpi => {
                    other.clone()
                }
                (Item::Struct { name, fields }, Some(Item::Struct { fields: other, .. })) => {
                    Item::Struct {
                        name: name.clone(),
                        fields: filled(name, fields, other)?,
                    }
                }
                _ => item.clone(),
            });
        }
        for item in standard.constants.items() {
            if let Item::Constant { name, ctype, .. } = item
                && self.constants.items().all(|other| other.name() != name)
                && ctype.base == "int"
                && ctype.pointers == 0
            {
                items.push(item.clone());
            }
        }
        Ok(items)
    }

    /// Returns the constants of `mpi.h` for the standard ABI.
    pub(crate) fn outer_constants(&self) -> Vec<Group> {
        let standard = &self.standard;
        let mut groups = vec![Group {
            title: "Integers".to_owned(),
            items: Vec::new(),
        }];
        let mut others: Vec<Group> = Vec::new();
        for group in &self.constants.groups {
            let mut types = Vec::new();
            let mut constants = Vec::new();
            for item in &group.items {
                let name = item.name();
                if standard.is_without(name) || standard.find(name).is_some() {
                    continue;
                }
                match item {
                    Item::Typedef { ctype, .. } if ctype.base == "long" => {
                        groups[0].items.push(item.clone());
                    }
                    Item::Typedef { .. } | Item::Handle { .. } | Item::Callback { .. } => {
                        types.push(item.clone());
                    }
                    Item::Alias { target, .. } if standard.is_without(target) => {}
                    Item::Data { .. } => {}
                    _ => constants.push(item.clone()),
                }
            }
            for (items, place) in [(types, &mut groups), (constants, &mut others)] {
                if !items.is_empty() {
                    place.push(Group {
                        title: group.title.clone(),
                        items,
                    });
                }
            }
        }
        // Handles precede the callbacks that receive them.
        let mut own = standard.constants.groups.iter();
        for (index, group) in own.by_ref().take(1).enumerate() {
            groups.insert(1 + index, group.clone());
        }
        groups.extend(others);
        groups.extend(own.cloned());
        groups
    }

    /// Returns all predefined handles of the standard ABI that are integers within the library.
    pub(crate) fn predefined(&self) -> Vec<Predefined<'_>> {
        let mut found = Vec::new();
        for item in self.standard.constants.items() {
            if let Item::Constant {
                name,
                ctype,
                value: Value::Integer { number, .. },
            } = item
                && self.is_outward(&ctype.base)
            {
                // A name that is an alias of a null handle in the MPICH ABI has no handle in the
                // library.
                let inner = self.handle_value(name);
                let inner = inner.filter(|(null, _)| *null == name.ends_with("_NULL"));
                found.push(Predefined {
                    handle: &ctype.base,
                    inner: inner.map(|(_, number)| number),
                    outer: *number,
                });
            }
        }
        found
    }

    /// Returns the value of a constant of the MPICH ABI, and whether it is a null handle.
    pub(crate) fn handle_value(&self, name: &str) -> Option<(bool, i64)> {
        let item = self.constants.items().find(|item| item.name() == name)?;
        match item {
            Item::Alias { target, .. } => self.handle_value(target),
            Item::Constant {
                value: Value::Integer { number, .. },
                ..
            } => Some((name.ends_with("_NULL"), *number)),
            _ => None,
        }
    }

    /// Returns whether a type's values differ between programs and the library.
    pub fn is_outward(&self, handle: &str) -> bool {
        let everywhere_alike = handle.starts_with("MPI_T_") || handle == "MPIX_Async_thing";
        !everywhere_alike && self.constants.is_handle(handle)
    }
}

/// Returns the fields of a struct within the library: the standard's, whose last one is an array
/// that the library's own fields replace the beginning of.
fn filled(
    name: &str,
    own: &[(CType, String)],
    standard: &[(CType, String)],
) -> Result<Vec<(CType, String)>, String> {
    let (array, told) = standard.split_last().ok_or("a struct without fields")?;
    let extra = own
        .iter()
        .filter(|(_, field)| told.iter().all(|(_, other)| other != field));
    let mut fields = told.to_vec();
    fields.extend(extra.cloned());
    let room = array
        .0
        .dimensions
        .first()
        .and_then(|size| size.parse().ok());
    let left = room.and_then(|room: usize| room.checked_sub(fields.len() - told.len()));
    let left =
        left.ok_or_else(|| format!("abi_constants.mpi: {name} has no room for its fields"))?;
    let mut ctype = array.0.clone();
    ctype.dimensions = vec![left.to_string()];
    fields.push((ctype, array.1.clone()));
    Ok(fields)
}

impl Function {
    /// Returns whether the standard ABI has the function: not those that MPI-3.0 removed, nor those
    /// that depend on Fortran's `INTEGER` (MPI-5.0 sections 21.2.1 and 21.4).
    pub fn in_standard_abi(&self) -> bool {
        let fortran = |kind| matches!(kind, Kind::Fint | Kind::StatusF08);
        let result = self.result.base == "MPI_Fint";
        let converts = result || self.params.iter().any(|param| fortran(param.kind));
        self.is_standard() && !self.removed && !converts
    }

    /// Returns whether the library of the standard ABI has the function. Besides the standard's, it
    /// has those with which Fortran's library shares attributes with C, and creates error handlers
    /// of files.
    pub fn in_standard_library(&self) -> bool {
        self.in_standard_abi() || STANDARD_COMPANIONS.contains(&self.name.as_str())
    }
}
