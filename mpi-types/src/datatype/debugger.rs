//! Where a debugger finds the size of a datatype.

use std::sync::Arc;

use super::{Datatype, Inner, Predefined, Repr};

/// A datatype to look at.
pub struct Specimen {
    /// The datatype.
    pub datatype: Datatype,
    /// How far into a datatype of this kind its pointer is.
    pub pointer: usize,
    /// Where this one's size is.
    pub size: usize,
}

impl Datatype {
    /// A predefined datatype, and one that was made.
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
            // It may be moved: only the distance stays.
            let pointer = pointer - std::ptr::from_ref(&datatype) as usize;
            Specimen {
                datatype,
                pointer,
                size,
            }
        }))
    }
}
