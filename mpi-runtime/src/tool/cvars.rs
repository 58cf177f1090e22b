//! Control variables: the tool interface to [`crate::settings`].

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::handles::predefined::{MPI_CHAR, MPI_Datatype, MPI_INT};
use crate::settings::{self, Variable};

use crate::tool::error::{Error, Result};

/// The type of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Off or on.
    Switch,
    /// A number; -1 if it is not set.
    Number,
    /// One of several names.
    Choice(Vec<&'static str>),
    /// A string; empty if it is not set.
    Text,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The value of a switch, number or choice.
    Number(c_int),
    /// The value of a text.
    Text(String),
}

/// Whether a variable can be written, and which processes must write it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `MPI_T_SCOPE_READONLY`.
    ReadOnly,
    /// `MPI_T_SCOPE_LOCAL`.
    Local,
    /// `MPI_T_SCOPE_ALL_EQ`.
    AllEq,
}

/// Least number of characters of a text, with the NUL.
const MIN_TEXT: usize = 1024;

/// A handle of a control variable.
#[derive(Clone, Copy)]
pub struct Handle {
    /// The variable.
    pub variable: &'static Variable,
    /// Number of elements that are read and written.
    pub count: usize,
}

impl Handle {
    /// Creates a handle of a variable.
    pub fn new(variable: &'static Variable) -> Handle {
        let count = match variable.holds() {
            Holds::Text => {
                let now = settings::displayed(variable.name).map_or(0, |text| text.len());
                MIN_TEXT.max(now + 1)
            }
            _ => 1,
        };
        Handle { variable, count }
    }
}

/// Returns the handle of the enumeration of a variable's values, from the variable's index; `None`
/// if the values have no names. Handles start at 1, since 0 is `MPI_T_ENUM_NULL`.
pub fn enumeration(place: usize) -> Option<usize> {
    let variable = settings::variables().get(place)?;
    (!variable.names().is_empty()).then_some(place + 1)
}

/// Returns the variable whose values an enumeration names.
///
/// # Errors
/// `MPI_T_ERR_INVALID_HANDLE`.
pub fn enumerated(handle: usize) -> Result<&'static Variable> {
    let place = handle.checked_sub(1);
    place
        .and_then(|place| settings::variables().get(place))
        .filter(|variable| !variable.names().is_empty())
        .ok_or(Error::InvalidHandle)
}

/// A control variable as the tool interface uses it.
pub trait Cvar {
    /// Returns its type.
    fn holds(&self) -> Holds;

    /// Returns the names of its values from 0 on, if they have names.
    fn names(&self) -> Vec<&'static str>;

    /// Returns the type of its elements.
    fn datatype(&self) -> MPI_Datatype;

    /// Returns which processes must change it together.
    ///
    /// It is read-only if the first query of any variable comes after `MPI_Init`, which reads the
    /// variables once; the answer never changes (MPI-5.0 section 15.3.6).
    fn scope(&self) -> Scope;

    /// Returns its description.
    fn description(&self) -> String;

    /// Returns its value. An invalid value in the environment, which `MPI_Init` will refuse, counts
    /// as not set.
    fn value(&self) -> Value;

    /// Sets it.
    ///
    /// # Errors
    /// `MPI_T_ERR_CVAR_SET_NEVER` from `MPI_Init` on, which reads the variables once;
    /// `MPI_T_ERR_INVALID` for invalid values.
    fn set(&'static self, value: Value) -> Result;
}

impl Cvar for Variable {
    fn holds(&self) -> Holds {
        match self.kind {
            "0 or 1" => Holds::Switch,
            "count" | "bytes" => Holds::Number,
            kind => match kind.rsplit_once(" or ") {
                Some((rest, last)) => Holds::Choice(rest.split(", ").chain([last]).collect()),
                None => Holds::Text,
            },
        }
    }

    fn names(&self) -> Vec<&'static str> {
        match self.holds() {
            Holds::Switch => vec!["off", "on"],
            Holds::Choice(names) => names,
            Holds::Number | Holds::Text => Vec::new(),
        }
    }

    fn datatype(&self) -> MPI_Datatype {
        match self.holds() {
            Holds::Text => MPI_CHAR,
            _ => MPI_INT,
        }
    }

    fn scope(&self) -> Scope {
        static IS_LATE: OnceLock<bool> = OnceLock::new();
        if *IS_LATE.get_or_init(settings::are_read) {
            Scope::ReadOnly
        } else if self.help.contains("same on all ranks") {
            Scope::AllEq
        } else {
            Scope::Local
        }
    }

    fn description(&self) -> String {
        let unset = match self.holds() {
            Holds::Number => "; -1: not set",
            Holds::Text => "; empty: not set",
            _ => "",
        };
        format!(
            "{} (Value: {}{unset}. Default: {}.)",
            self.help, self.kind, self.default
        )
    }

    fn value(&self) -> Value {
        let text = settings::displayed(self.name);
        let text = text.as_deref();
        let number = |text: &str| match self.holds() {
            Holds::Switch => match text {
                "1" | "yes" | "on" | "true" => Some(1),
                "0" | "no" | "off" | "false" => Some(0),
                _ => None,
            },
            Holds::Choice(names) => names
                .iter()
                .position(|name| *name == text)
                .map(|place| place as c_int),
            _ => settings::parse_number(text).and_then(|number| c_int::try_from(number).ok()),
        };
        match self.holds() {
            Holds::Text => Value::Text(text.unwrap_or("").to_owned()),
            _ => {
                let found = text.and_then(number).or_else(|| number(self.default));
                Value::Number(found.unwrap_or(-1))
            }
        }
    }

    fn set(&'static self, value: Value) -> Result {
        if settings::are_read() {
            return Err(Error::CvarSetNever);
        }
        let text = match (self.holds(), value) {
            (Holds::Number, Value::Number(-1)) => String::new(),
            (Holds::Choice(names), Value::Number(place)) => usize::try_from(place)
                .ok()
                .and_then(|place| names.get(place))
                .ok_or(Error::Invalid)?
                .to_string(),
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Text(text)) => text,
        };
        settings::override_value(self, text).map_err(|_| Error::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::variables;

    #[test]
    fn every_variable_has_a_type_and_a_readable_default() {
        for variable in variables() {
            match variable.holds() {
                Holds::Text => assert!(
                    matches!(variable.kind, "name" | "list"),
                    "{}: {:?} is not a kind of the tool interface",
                    variable.name,
                    variable.kind
                ),
                Holds::Switch => assert!(matches!(variable.default, "0" | "1")),
                Holds::Choice(names) => assert!(names.contains(&variable.default)),
                Holds::Number => {}
            }
        }
        let netmod = variables().iter().find(|it| it.name == "WEFT_NETMOD");
        let names = vec!["auto", "verbs", "tcp", "ucx", "ofi", "none"];
        assert_eq!(netmod.map(Cvar::holds), Some(Holds::Choice(names)));
    }

    #[test]
    fn an_enumeration_leads_back_to_its_variable() {
        for (place, variable) in variables().iter().enumerate() {
            match enumeration(place) {
                Some(handle) => assert_eq!(enumerated(handle).unwrap().name, variable.name),
                None => assert_eq!(enumerated(place + 1).err(), Some(Error::InvalidHandle)),
            }
        }
        for wrong in [0, variables().len() + 1] {
            assert_eq!(enumerated(wrong).err(), Some(Error::InvalidHandle));
        }
        assert_eq!(enumeration(variables().len()), None);
    }
}
