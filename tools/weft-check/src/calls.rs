//! MPI functions as the table describes them, and calls of them.

/// An MPI function.
pub struct Function {
    /// The name, such as `MPI_Send_c`.
    pub name: &'static str,
    /// The name of the variant with int counts, `MPI_Send`.
    pub base: &'static str,
    /// The parameters.
    pub params: &'static [Param],
}

impl Function {
    /// Returns the index of a parameter.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }
}

/// A parameter.
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The kind of a handle or buffer; `None` for others.
    pub kind: Option<ParamKind>,
    /// Whether it is an address.
    pub pointer: bool,
    /// Whether it is the address of an array.
    pub array: bool,
    /// Whether the library writes there.
    pub written: bool,
    /// Whether the library reads there.
    pub read: bool,
    /// Whether integers have 64 bits.
    pub wide: bool,
}

/// The kind of a handle or buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "handles by their names")]
pub enum ParamKind {
    /// A buffer of the program.
    Buffer,
    Comm,
    Group,
    Datatype,
    Op,
    Request,
    Message,
    Errhandler,
    Info,
    Win,
    Session,
    File,
}

/// A call of the program.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The function.
    pub function: &'static Function,
    /// Its arguments in registers.
    pub args: &'a [usize],
}

impl Call<'_> {
    /// Returns the name of the variant with int counts.
    pub fn base(&self) -> &'static str {
        self.function.base
    }

    /// Returns an argument.
    pub fn raw(&self, name: &str) -> Option<usize> {
        self.args.get(self.function.place(name)?).copied()
    }

    /// Returns an integer argument.
    pub fn number(&self, name: &str) -> Option<i64> {
        let place = self.function.place(name)?;
        let param = &self.function.params[place];
        if param.pointer {
            return None;
        }
        let raw = *self.args.get(place)?;
        Some(if param.wide {
            raw as i64
        } else {
            i64::from(raw as i32)
        })
    }

    /// Returns a handle that is passed by value.
    pub fn handle(&self, name: &str) -> Option<usize> {
        let place = self.function.place(name)?;
        let param = &self.function.params[place];
        let kind = param.kind.filter(|_| !param.pointer)?;
        Some(crate::abi::abi().by_value(kind, *self.args.get(place)?))
    }

    /// Returns the first `count` integers of an array argument.
    pub fn numbers(&self, name: &str, count: usize) -> Option<Vec<i64>> {
        let place = self.function.place(name)?;
        let from = *self.args.get(place)?;
        if from == 0 || !self.function.params[place].pointer {
            return None;
        }
        let wide = self.function.params[place].wide;
        let number = |index: usize| {
            // SAFETY: the MPI standard requires the program to pass `count` numbers, which the MPI
            // library reads or has written itself.
            unsafe {
                if wide {
                    (from as *const i64).add(index).read_unaligned()
                } else {
                    i64::from((from as *const i32).add(index).read_unaligned())
                }
            }
        };
        Some((0..count).map(number).collect())
    }
}
