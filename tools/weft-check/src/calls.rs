//! What the table says of functions, and a call of one.

/// A function of MPI.
pub struct Function {
    /// The name, `MPI_Send_c`.
    pub name: &'static str,
    /// The name of the form with small counts, `MPI_Send`.
    pub base: &'static str,
    /// The parameters.
    pub params: &'static [Param],
}

impl Function {
    /// The place of a parameter.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }
}

/// A parameter.
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it is, where that matters here.
    pub kind: Option<Kind>,
    /// Whether it is an address.
    pub pointer: bool,
    /// Whether it is the address of an array.
    pub array: bool,
    /// Whether the library writes there.
    pub written: bool,
    /// Whether the library reads there.
    pub read: bool,
    /// Whether numbers have 64 bits.
    pub wide: bool,
}

/// What a parameter is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "handles by their names")]
pub enum Kind {
    /// The program's data.
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

/// A call that the program makes.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The function.
    pub function: &'static Function,
    /// Its arguments, as they are in registers.
    pub args: &'a [usize],
}

impl Call<'_> {
    /// The name of the form with small counts.
    pub fn base(&self) -> &'static str {
        self.function.base
    }

    /// An argument.
    pub fn raw(&self, name: &str) -> Option<usize> {
        self.args.get(self.function.place(name)?).copied()
    }

    /// A number.
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

    /// A handle that is passed by value.
    pub fn handle(&self, name: &str) -> Option<usize> {
        let place = self.function.place(name)?;
        let param = &self.function.params[place];
        let kind = param.kind.filter(|_| !param.pointer)?;
        Some(crate::abi::abi().by_value(kind, *self.args.get(place)?))
    }

    /// The numbers of an array, of so many.
    pub fn numbers(&self, name: &str, count: usize) -> Option<Vec<i64>> {
        let place = self.function.place(name)?;
        let from = *self.args.get(place)?;
        if from == 0 || !self.function.params[place].pointer {
            return None;
        }
        let wide = self.function.params[place].wide;
        let number = |index: usize| {
            // SAFETY: the library has found the arguments to be right, or reads the same numbers itself: the
            // standard says that there are so many.
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
