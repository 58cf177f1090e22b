//! Layout information from which a debugger reads the size of a datatype.

use std::sync::Arc;

use super::{Datatype, Inner, Predefined, Repr};

/// A sample datatype, from which field offsets are measured.
pub struct Specimen {
    /// The datatype.
    pub datatype: Datatype,
    /// Offset of the pointer within a `Datatype` of this representation.
    pub pointer: usize,
    /// Address of this datatype's size.
    pub size: usize,
}

impl Datatype {
    /// Returns a predefined and a derived datatype.
    pub fn specimens() -> Option<[Specimen; 2]> {
        let predefined = Datatype::predefined(Predefined::Double);
        let made = predefined.contiguous(2).ok()?;
        Some([predefined, made].map(|datatype| {
            let size = |inner: *const Inner| inner as usize + std::mem::offset_of!(Inner, size);
            let (pointer, size) = match &datatype.0 {
                Repr::Static(inner) => (std::ptr::from_ref(inner) as usize, size(*inner)),
                Repr::Shared(inner) => {
                    (std::ptr::from_ref(inner) as usize, size(Arc::as_ptr(inner)))
                }
            };
            // The datatype may move: only the offset is kept.
            let pointer = pointer - std::ptr::from_ref(&datatype) as usize;
            Specimen {
                datatype,
                pointer,
                size,
            }
        }))
    }
}
