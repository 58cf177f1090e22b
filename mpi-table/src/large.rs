//! Functions with large counts (MPI-4.0 section 2.5.8): `MPI_Send_c` beside `MPI_Send`.
//!
//! The table has such a function once, with the attribute `large`, from which the other form's
//! parameter types follow. One Rust function implements both: it takes the types of the form with
//! large counts, and the shim of the form with ints widens numbers. Arrays and addresses of results
//! are passed as the library's `counts::IntArray` and `counts::IntOut`, without copies.

use crate::ctype::CType;
use crate::function::{Form, Function, Kind, Param};
use crate::rust::rust_name;

/// The conversion of a parameter of one of two forms to that of the Rust function that both share.
enum Widening {
    /// None.
    Same,
    /// A number, which is converted.
    Number,
    /// An array of numbers that is read.
    Array,
    /// The address of a written number, or of an array of them.
    Out,
}

impl Function {
    /// Returns whether this is the form of a function with large counts.
    pub fn is_large(&self) -> bool {
        self.form.as_ref().is_some_and(|form| form.is_large)
    }

    /// Returns the form with ints of a function and its parameter types with large counts: ints
    /// that count elements or are in `names` become `MPI_Count`, as do addresses in `names`;
    /// displacements in ints become `MPI_Aint`.
    pub(crate) fn widened(&self, names: &[&str]) -> Result<Form, String> {
        for name in names {
            if !self.params.iter().any(|param| param.name == *name) {
                return Err(format!("{} has no parameter `{name}`", self.name));
            }
        }
        let widened = |param: &Param| {
            let mut ctype = param.ctype.clone();
            let is_int = ctype.base == "int";
            let name = param.name.as_str();
            if names.contains(&name) || (is_int && param.kind == Kind::Count) {
                "MPI_Count".clone_into(&mut ctype.base);
            } else if is_int && (name.ends_with("displs") || name == "disp_unit") {
                "MPI_Aint".clone_into(&mut ctype.base);
            }
            ctype
        };
        let other: Vec<CType> = self.params.iter().map(widened).collect();
        if self.params.iter().map(|param| &param.ctype).eq(&other) {
            return Err(format!("{} has nothing that could be large", self.name));
        }
        Ok(Form {
            is_large: false,
            told: false,
            other,
        })
    }

    /// Returns the form with large counts, if the function has one.
    pub(crate) fn large(&self) -> Option<Function> {
        let form = self.form.as_ref()?;
        let mut large = self.clone();
        large.name.push_str("_c");
        large.since = large.since.max((4, 0));
        for (param, ctype) in large.params.iter_mut().zip(&form.other) {
            if param.ctype != *ctype {
                // A count keeps its kind, from which Fortran knows a buffer's length.
                param.kind = match (param.kind, ctype.base.as_str()) {
                    (Kind::Count, _) => Kind::Count,
                    (_, "MPI_Aint") => Kind::Aint,
                    _ => Kind::BigCount,
                };
                param.ctype.clone_from(ctype);
            }
        }
        large.form = Some(Form {
            is_large: true,
            told: form.told,
            other: self
                .params
                .iter()
                .map(|param| param.ctype.clone())
                .collect(),
        });
        Some(large)
    }

    /// Iterates over the parameters, their conversions, and their types with large counts.
    fn widenings(&self) -> impl Iterator<Item = (&Param, Widening, &CType)> {
        let form = self.form.as_ref();
        self.params.iter().enumerate().map(move |(index, param)| {
            let Some(form) = form else {
                return (param, Widening::Same, &param.ctype);
            };
            let other = &form.other[index];
            let (narrow, wide) = if form.is_large {
                (other, &param.ctype)
            } else {
                (&param.ctype, other)
            };
            // Addresses and large counts have the same type in Rust.
            let widening = if narrow.base == wide.base || narrow.base != "int" {
                Widening::Same
            } else if !narrow.is_pointer() {
                Widening::Number
            } else if narrow.is_const {
                Widening::Array
            } else {
                Widening::Out
            };
            (param, widening, wide)
        })
    }

    /// Returns the parameter types of the Rust function.
    pub fn rust_types(&self) -> Vec<String> {
        let types = self
            .widenings()
            .map(|(param, widening, wide)| match widening {
                Widening::Same => param.ctype.to_rust(),
                Widening::Number => wide.to_rust(),
                Widening::Array => "IntArray".to_owned(),
                Widening::Out => "IntOut".to_owned(),
            });
        let form = self.form_argument().map(|_| "bool".to_owned());
        form.into_iter().chain(types).collect()
    }

    /// Returns the Rust function's argument that identifies the form, if it takes one.
    fn form_argument(&self) -> Option<bool> {
        let form = self.form.as_ref()?;
        form.told.then_some(form.is_large)
    }

    /// Returns the arguments that the shim passes to the Rust function.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let form = if self.is_large() { "Large" } else { "Int" };
        let arguments = self.widenings().map(|(param, widening, wide)| {
            let name = rust_name(&param.name);
            match widening {
                Widening::Number if !self.is_large() => format!("{}::from({name})", wide.base),
                Widening::Same | Widening::Number => name,
                Widening::Array => format!("IntArray::{form}({name})"),
                Widening::Out => format!("IntOut::{form}({name})"),
            }
        });
        let form = self.form_argument().map(|is_large| is_large.to_string());
        form.into_iter().chain(arguments).collect()
    }

    /// Returns the parameter types of the fast path, which takes ints in both forms.
    pub fn fast_types(&self) -> Vec<String> {
        let types = self.widenings().zip(&self.params).enumerate();
        types
            .map(
                |(index, ((_, widening, _), param))| match (&self.form, widening) {
                    (Some(form), Widening::Number) if form.is_large => form.other[index].to_rust(),
                    _ => param.ctype.to_rust(),
                },
            )
            .collect()
    }

    /// Returns the numbers that must fit into ints for the fast path of a form with large counts.
    pub(crate) fn narrowed(&self) -> Vec<String> {
        let is_large = self.is_large();
        self.widenings()
            .filter(|(_, widening, _)| is_large && matches!(widening, Widening::Number))
            .map(|(param, ..)| rust_name(&param.name))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::function::Functions;

    fn forms(text: &str) -> Vec<String> {
        let functions = Functions::parse("t", &format!("chapter 3 Title\n{text}"));
        match functions {
            Ok(functions) => functions
                .all()
                .map(|one| one.prototype(&one.name))
                .collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn counts_and_displacements_become_large() {
        assert_eq!(
            forms(
                "int MPI_X(const void *buf, int count, const int recvcounts[], \
                 const int displs[], int disp_unit, int root) [large]"
            )[1],
            "int MPI_X_c(const void *buf, MPI_Count count, const MPI_Count recvcounts[], \
             const MPI_Aint displs[], MPI_Aint disp_unit, int root)"
        );
    }

    #[test]
    fn others_become_large_when_they_are_named() {
        assert_eq!(
            forms("int MPI_X(MPI_Aint lb, int *size, int rank) [large lb size]")[1],
            "int MPI_X_c(MPI_Count lb, MPI_Count *size, int rank)"
        );
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            forms("int MPI_X(int rank) [large]"),
            ["t:2: MPI_X has nothing that could be large"]
        );
        assert_eq!(
            forms("int MPI_X(int rank) [large size]"),
            ["t:2: MPI_X has no parameter `size`"]
        );
    }

    #[test]
    fn one_rust_function_does_both() {
        let functions = Functions::parse(
            "t",
            "chapter 3 Title\nint MPI_X(int count, const int displs[], int *size) [large size]",
        )
        .unwrap();
        let all: Vec<_> = functions.all().collect();
        assert_eq!(all[0].rust_types(), ["MPI_Count", "IntArray", "IntOut"]);
        assert_eq!(all[0].rust_types(), all[1].rust_types());
        assert_eq!(
            all[0].arguments(),
            [
                "MPI_Count::from(count)",
                "IntArray::Int(displs)",
                "IntOut::Int(size)"
            ]
        );
        assert_eq!(
            all[1].arguments(),
            ["count", "IntArray::Large(displs)", "IntOut::Large(size)"]
        );
        assert_eq!((all[0].since, all[1].since), ((3, 1), (4, 0)));
    }
}
