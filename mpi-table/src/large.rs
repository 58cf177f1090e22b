//! Functions with large counts (MPI-4.0 section 2.5.8): `MPI_Send_c` beside `MPI_Send`.
//!
//! The table names such a function once, with the attribute `large`; what the other form's
//! parameters are follows from that. One Rust function does both: it takes the types of the form with
//! large counts, and the shim of the form with ints widens what it is given. Arrays and places for
//! results are passed on as they are, as one of the library's `counts::IntArray` and
//! `counts::IntOut`, so nothing is copied.

use crate::ctype::CType;
use crate::function::{Form, Function, Kind, Param};
use crate::rust::rust_name;

/// How a parameter of one of two forms reaches the Rust function that both share.
enum Way {
    /// As it is.
    Same,
    /// A number.
    Number,
    /// An array of numbers that is read.
    Array,
    /// A place for a number, or for an array of them.
    Out,
}

impl Function {
    /// Whether this is the form of a function with large counts.
    pub fn is_large(&self) -> bool {
        self.form.as_ref().is_some_and(|form| form.is_large)
    }

    /// The form with ints of a function whose parameters have these types with large counts: ints
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

    /// The form with large counts of a function that says it has one.
    pub(crate) fn large(&self) -> Option<Function> {
        let form = self.form.as_ref()?;
        let mut large = self.clone();
        large.name.push_str("_c");
        large.since = large.since.max((4, 0));
        for (param, ctype) in large.params.iter_mut().zip(&form.other) {
            if param.ctype != *ctype {
                // A count stays one, by which Fortran knows how long a buffer is.
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

    /// The parameters with how they reach the Rust function, and with their types with large counts.
    fn ways(&self) -> impl Iterator<Item = (&Param, Way, &CType)> {
        let form = self.form.as_ref();
        self.params.iter().enumerate().map(move |(index, param)| {
            let Some(form) = form else {
                return (param, Way::Same, &param.ctype);
            };
            let other = &form.other[index];
            let (narrow, wide) = if form.is_large {
                (other, &param.ctype)
            } else {
                (&param.ctype, other)
            };
            // Addresses and large counts are the same for Rust.
            let way = if narrow.base == wide.base || narrow.base != "int" {
                Way::Same
            } else if !narrow.is_pointer() {
                Way::Number
            } else if narrow.is_const {
                Way::Array
            } else {
                Way::Out
            };
            (param, way, wide)
        })
    }

    /// The types of the parameters of the Rust function behind it.
    pub fn rust_types(&self) -> Vec<String> {
        let types = self.ways().map(|(param, way, wide)| match way {
            Way::Same => param.ctype.to_rust(),
            Way::Number => wide.to_rust(),
            Way::Array => "IntArray".to_owned(),
            Way::Out => "IntOut".to_owned(),
        });
        let told = self.told().map(|_| "bool".to_owned());
        told.into_iter().chain(types).collect()
    }

    /// What the Rust function is told of which form this is, if it is.
    fn told(&self) -> Option<bool> {
        let form = self.form.as_ref()?;
        form.told.then_some(form.is_large)
    }

    /// The arguments that the shim gives to the Rust function.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let form = if self.is_large() { "Large" } else { "Int" };
        let arguments = self.ways().map(|(param, way, wide)| {
            let name = rust_name(&param.name);
            match way {
                Way::Number if !self.is_large() => format!("{}::from({name})", wide.base),
                Way::Same | Way::Number => name,
                Way::Array => format!("IntArray::{form}({name})"),
                Way::Out => format!("IntOut::{form}({name})"),
            }
        });
        let told = self.told().map(|is_large| is_large.to_string());
        told.into_iter().chain(arguments).collect()
    }

    /// The types of the parameters of the short way, which takes ints in both forms, and the name
    /// of its function: `MPI_Send_c` has its own, so that its errors name it.
    pub fn fast_types(&self) -> Vec<String> {
        let types = self.ways().zip(&self.params).enumerate();
        types
            .map(|(index, ((_, way, _), param))| match (&self.form, way) {
                (Some(form), Way::Number) if form.is_large => form.other[index].to_rust(),
                _ => param.ctype.to_rust(),
            })
            .collect()
    }

    /// What the Rust function of the short way has behind its name.
    pub fn fast_suffix(&self) -> &'static str {
        if self.is_large() { "_c_fast" } else { "_fast" }
    }

    /// The numbers that must fit into ints for the short way of a form with large counts.
    pub(crate) fn narrowed(&self) -> Vec<String> {
        let is_large = self.is_large();
        self.ways()
            .filter(|(_, way, _)| is_large && matches!(way, Way::Number))
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
