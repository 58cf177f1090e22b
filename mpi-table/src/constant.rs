//! The constant table: types, handles, constants and variables.

use crate::ctype::CType;
use crate::function::{Param, prototype};
use crate::source::{ParseError, Statement, Tokens, statements};

/// All types, constants and variables, in groups.
#[derive(Debug)]
pub struct Constants {
    /// The groups, in the order of the table.
    pub groups: Vec<Group>,
}

/// Items under one heading.
#[derive(Clone, Debug)]
pub struct Group {
    /// The heading.
    pub title: String,
    /// The items.
    pub items: Vec<Item>,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub enum Item {
    /// Another name of a type.
    Typedef {
        /// The new name.
        name: String,
        /// The type.
        ctype: CType,
    },
    /// An opaque object's type.
    Handle {
        /// The type's name.
        name: String,
        /// The C type that represents it.
        ctype: CType,
    },
    /// A struct.
    Struct {
        /// The name of struct and typedef.
        name: String,
        /// The fields, in order.
        fields: Vec<(CType, String)>,
    },
    /// The type of a callback of the program.
    Callback {
        /// The typedef's name.
        name: String,
        /// The function's result.
        result: CType,
        /// Its parameters (their kinds and directions are not used).
        params: Vec<Param>,
        /// Whether `...` follows.
        variadic: bool,
    },
    /// A constant.
    Constant {
        /// Its name.
        name: String,
        /// Its type.
        ctype: CType,
        /// Its value.
        value: Value,
    },
    /// Another name of a constant or function.
    Alias {
        /// The new name.
        name: String,
        /// The old one.
        target: String,
    },
    /// A variable of the library.
    Data {
        /// Its name.
        name: String,
        /// Its type.
        ctype: CType,
    },
}

/// A constant's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// An integer, as the table writes it.
    Integer {
        /// The number.
        number: i64,
        /// Its text, `0x4c000101` or `-1`.
        text: String,
    },
    /// The name of a function.
    Name(String),
}

impl Item {
    /// Returns the declared name.
    pub fn name(&self) -> &str {
        match self {
            Item::Typedef { name, .. }
            | Item::Handle { name, .. }
            | Item::Struct { name, .. }
            | Item::Callback { name, .. }
            | Item::Constant { name, .. }
            | Item::Alias { name, .. }
            | Item::Data { name, .. } => name,
        }
    }

    fn parse(statement: &Statement<'_>) -> Result<Self, String> {
        let text = statement.text();
        let mut tokens = Tokens::new(&text);
        let item = if tokens.take("typedef") {
            let (ctype, name) = CType::declaration(&mut tokens)?;
            Item::Typedef { name, ctype }
        } else if tokens.take("handle") {
            let (ctype, name) = CType::declaration(&mut tokens)?;
            Item::Handle { name, ctype }
        } else if tokens.take("data") {
            let (ctype, name) = CType::declaration(&mut tokens)?;
            Item::Data { name, ctype }
        } else if tokens.take("callback") {
            let (result, name, params, variadic) = prototype(&mut tokens)?;
            Item::Callback {
                name,
                result,
                params,
                variadic,
            }
        } else if tokens.take("alias") {
            let name = tokens.identifier("a name")?.to_owned();
            tokens.expect("=")?;
            let target = tokens.identifier("a name")?.to_owned();
            Item::Alias { name, target }
        } else if statement.lines.len() > 1 && tokens.take("struct") {
            return Self::parse_struct(statement);
        } else {
            let (ctype, name) = CType::declaration(&mut tokens)?;
            tokens.expect("=")?;
            let value = Value::parse(tokens.rest())?;
            return Ok(Item::Constant { name, ctype, value });
        };
        match tokens.rest() {
            "" => Ok(item),
            rest => Err(format!("`{rest}` does not belong here")),
        }
    }

    fn parse_struct(statement: &Statement<'_>) -> Result<Self, String> {
        let mut tokens = Tokens::new(statement.lines[0]);
        tokens.expect("struct")?;
        let name = tokens.identifier("a struct's name")?.to_owned();
        let mut fields = Vec::new();
        for line in &statement.lines[1..] {
            let mut tokens = Tokens::new(line);
            fields.push(CType::declaration(&mut tokens)?);
            if !tokens.rest().is_empty() {
                return Err(format!("`{}` does not belong here", tokens.rest()));
            }
        }
        Ok(Item::Struct { name, fields })
    }
}

impl Value {
    fn parse(text: &str) -> Result<Self, String> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let mut tokens = Tokens::new(text);
        match number {
            Some(number) => Ok(Value::Integer {
                number,
                text: text.to_owned(),
            }),
            None => {
                let name = tokens.identifier("a value")?.to_owned();
                match tokens.rest() {
                    "" => Ok(Value::Name(name)),
                    rest => Err(format!("`{rest}` does not belong here")),
                }
            }
        }
    }
}

impl Constants {
    /// Parses a constant table; `file` is the name for messages.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, ParseError> {
        let mut groups: Vec<Group> = Vec::new();
        for statement in statements(file, text)? {
            let fail = |what: String| ParseError {
                file: file.to_owned(),
                line: statement.line,
                what,
            };
            if let Some(title) = statement.lines[0].strip_prefix("group ") {
                groups.push(Group {
                    title: title.to_owned(),
                    items: Vec::new(),
                });
                continue;
            }
            let item = Item::parse(&statement).map_err(fail)?;
            let known = groups
                .iter()
                .flat_map(|group| &group.items)
                .any(|other| other.name() == item.name());
            if known {
                return Err(fail(format!("{} is declared twice", item.name())));
            }
            groups
                .last_mut()
                .ok_or_else(|| fail("a statement above the first group".to_owned()))?
                .items
                .push(item);
        }
        Ok(Constants { groups })
    }

    /// Iterates over all items, in the order of the table.
    pub fn items(&self) -> impl Iterator<Item = &Item> + Clone {
        self.groups.iter().flat_map(|group| &group.items)
    }

    /// Returns whether `name` is the type of an opaque object.
    pub fn is_handle(&self, name: &str) -> bool {
        self.items()
            .any(|item| matches!(item, Item::Handle { name: other, .. } if other == name))
    }

    /// Returns the type of a constant; also accepts its other names.
    pub fn type_of(&self, name: &str) -> Option<&CType> {
        match self.items().find(|item| item.name() == name)? {
            Item::Constant { ctype, .. } => Some(ctype),
            Item::Alias { target, .. } => self.type_of(target),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, message) in [
            ("int MPI_X 5", "t:2: expected `=` before `5`"),
            ("int MPI_X = 5x", "t:2: expected a value before `5x`"),
            (
                "int MPI_X = 5\nint MPI_X = 6",
                "t:3: MPI_X is declared twice",
            ),
            ("alias MPI_X = 7", "t:2: expected a name before `7`"),
        ] {
            let error = Constants::parse("t", &format!("group G\n{text}")).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn values() {
        let table = "group G\nhandle int MPI_Comm\nMPI_Comm MPI_COMM_WORLD = 0x44000000\n\
                     void *MPI_IN_PLACE = -1\nstruct MPI_Status\n    int a\n    int b\n";
        let constants = Constants::parse("t", table).unwrap();
        assert!(constants.is_handle("MPI_Comm"));
        let numbers: Vec<i64> = constants
            .items()
            .filter_map(|item| match item {
                Item::Constant {
                    value: Value::Integer { number, .. },
                    ..
                } => Some(*number),
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [0x4400_0000, -1]);
        assert!(
            matches!(constants.items().last(), Some(Item::Struct { fields, .. }) if fields.len() == 2)
        );
    }
}
