//! Substitutes for array sections that are not contiguous (section 17.1.12): a datatype that
//! describes the section, or a copy of it (`later.rs` keeps copies beyond the call).

use std::ffi::{c_int, c_void};

use crate::abi::{
    MPI_Aint, MPI_BYTE, MPI_Comm, MPI_Count, MPI_DATATYPE_NULL, MPI_Datatype, MPI_ERR_BUFFER,
    MPI_SUCCESS,
};
use crate::convert::finish;
use crate::descriptors::{Dimension, Section};
use crate::imports as c;
use crate::picked;

impl Section {
    /// Returns a buffer that `count` elements of a datatype can be read from or written to. In a
    /// `chunked` buffer they may be needed once for each of several processes. If it `may_copy`,
    /// the result can be a copy, from which results go `back`.
    ///
    /// # Safety
    /// The section is a valid array of the program with space for the elements.
    pub unsafe fn typed(
        &self,
        count: impl Into<MPI_Count>,
        datatype: MPI_Datatype,
        chunked: bool,
        may_copy: bool,
        back: bool,
    ) -> Result<Substitute, &'static str> {
        let count = count.into();
        // SAFETY: the section is a valid array of the program (# Safety).
        unsafe {
            if self.is_plain() {
                return Ok(Substitute::plain(self.base, count, datatype));
            }
            // The C call reports what is wrong.
            let state = State::of(datatype);
            if count < 0 || state == State::None {
                return Ok(Substitute::plain(self.base, count, datatype));
            }
            if self.is_temporary() {
                return self
                    .whole(may_copy, back)
                    .map(|place| place.with(count, datatype));
            }
            if let Some(array) = self.with_elements_of(count, datatype) {
                return array.typed(count, datatype, chunked, may_copy, back);
            }
            let Some((size, unit_type)) = self.unit_of(datatype) else {
                if !may_copy && state == State::Open {
                    return Ok(Substitute::plain(self.base, count, datatype));
                }
                if !may_copy && let Some(made) = self.picked(count, datatype) {
                    return Ok(Substitute::made(self.base, 1, made));
                }
                return self
                    .whole(may_copy, back)
                    .map(|place| place.with(count, datatype));
            };
            let wanted = usize::try_from(count).unwrap_or(0).saturating_mul(size) / self.element;
            // Nested types describe the dimensions below `level`; above it, elements are a constant
            // distance apart.
            let level = self.regular_from();
            let inner = self.inner(level);
            // A count that was an int must stay one.
            let fits = |number: usize| number <= c_int::MAX as usize || count > c_int::MAX.into();
            if inner > 0 && wanted.is_multiple_of(inner) && fits(wanted / inner) {
                let made = self.nested(level, unit_type, state);
                return Ok(Substitute::made(self.base, wanted / inner, made));
            }
            if !chunked && wanted <= self.len() {
                let made = self.beginning(wanted, unit_type, state);
                return Ok(Substitute::made(self.base, 1, made));
            }
            self.whole(may_copy, back)
                .map(|place| place.with(count, datatype))
        }
    }

    /// Returns a buffer in which counts and displacements select elements of a datatype.
    ///
    /// # Safety
    /// The section is a valid array of the program with space for the elements.
    pub unsafe fn strided(
        &self,
        datatype: MPI_Datatype,
        may_copy: bool,
        back: bool,
    ) -> Result<Substitute, &'static str> {
        // SAFETY: the section is a valid array of the program (# Safety).
        unsafe {
            if self.is_plain() {
                return Ok(Substitute::plain(self.base, 0, datatype));
            }
            let state = State::of(datatype);
            if state == State::None {
                return Ok(Substitute::plain(self.base, 0, datatype));
            }
            if let Some(array) = self.with_elements_of(0, datatype) {
                return array.strided(datatype, may_copy, back);
            }
            let level = self.regular_from();
            match self.unit_of(datatype) {
                Some((size, unit))
                    if size == self.element && self.inner(level) == 1 && !self.is_temporary() =>
                {
                    let made = self.nested(level, unit, state);
                    Ok(Substitute::made(self.base, 0, made))
                }
                _ => self
                    .whole(may_copy, back)
                    .map(|place| place.with(0, datatype)),
            }
        }
    }

    /// Returns the whole section as a contiguous buffer.
    ///
    /// # Safety
    /// The section is a valid array of the program with space for the elements.
    pub unsafe fn whole(&self, may_copy: bool, back: bool) -> Result<Substitute, &'static str> {
        if self.is_plain() {
            return Ok(Substitute::plain(self.base, 0, MPI_DATATYPE_NULL));
        }
        if !may_copy {
            return Err(
                "this operation can't use this array section, which has gaps, with this datatype; \
                 use a contiguous array",
            );
        }
        let size = self.len().saturating_mul(self.element);
        let mut copied = Copied {
            section: *self,
            bytes: Vec::new(),
            before: Vec::new(),
            back,
        };
        let reserved = copied.bytes.try_reserve_exact(size).is_ok()
            && (!back || copied.before.try_reserve_exact(size).is_ok());
        if !reserved {
            return Err(
                "there is not enough memory for a copy of the array section; use a contiguous array",
            );
        }
        copied.bytes.resize(size, 0);
        // SAFETY: the caller promises a valid section (`# Safety`); the copy is new.
        unsafe { copied.refresh() };
        let mut place = Substitute::plain(copied.address(), 0, MPI_DATATYPE_NULL);
        place.copy = Some(copied);
        Ok(place)
    }

    /// Returns the array with elements of its dynamic type, if that is what the datatype describes.
    fn with_elements_of(&self, count: MPI_Count, datatype: MPI_Datatype) -> Option<Section> {
        let (mut lb, mut extent) = (0, 0);
        // SAFETY: local variables.
        let code = unsafe { c::MPI_Type_get_extent(datatype, &raw mut lb, &raw mut extent) };
        let total = i128::from(count) * extent as i128;
        self.of_dynamic_type(total, extent as isize)
            .filter(|_| code == MPI_SUCCESS)
    }

    /// Creates a datatype for the bytes that elements of a datatype with gaps select from the
    /// section.
    fn picked(&self, count: MPI_Count, datatype: MPI_Datatype) -> Option<MPI_Datatype> {
        let length = self.len().checked_mul(self.element)?;
        picked::datatype(count, datatype, length, self.element, |byte| {
            let mut index = (byte / self.element) as isize;
            let mut at = (byte % self.element) as isize;
            for dimension in self.dimensions() {
                at += index % dimension.extent * dimension.stride;
                index /= dimension.extent;
            }
            at
        })
    }

    /// Returns the size of a datatype without gaps, and a datatype for one element of the array:
    /// the same one, or its predefined constituent if that has the element's size, else bytes.
    /// `None` if the datatype has gaps or does not fit the elements.
    unsafe fn unit_of(&self, datatype: MPI_Datatype) -> Option<(usize, MPI_Datatype)> {
        let (mut size, mut lb, mut extent) = (0, 0, 0);
        // SAFETY: local variables; the datatype is there.
        unsafe {
            if c::MPI_Type_size_c(datatype, &raw mut size) != MPI_SUCCESS
                || c::MPI_Type_get_extent(datatype, &raw mut lb, &raw mut extent) != MPI_SUCCESS
            {
                return None;
            }
        }
        let size = usize::try_from(size).ok()?;
        let fits = lb == 0 && extent as usize == size && self.element > 0;
        if !fits || !size.is_multiple_of(self.element) {
            return None;
        }
        if size == self.element {
            return Some((size, datatype));
        }
        // The datatype must cover its bytes each once and in order: gaps and overlaps may cancel
        // out in its size.
        if picked::in_order(datatype)? != size {
            return None;
        }
        let unit = picked::basic(datatype).filter(|one| picked::size(*one) == Some(self.element));
        Some((size, unit.unwrap_or(MPI_DATATYPE_NULL)))
    }

    /// Returns the lowest dimension from which elements are a constant distance apart, its own
    /// stride. The stride of a dimension of one element does not count.
    fn regular_from(&self) -> usize {
        let longer = |(_, one): &(usize, &Dimension)| one.extent != 1;
        let mut longer = self.dimensions().iter().enumerate().filter(longer).rev();
        let Some((mut level, mut above)) = longer.next() else {
            return self.rank - 1;
        };
        for (number, below) in longer {
            if above.stride != below.stride * below.extent {
                break;
            }
            (level, above) = (number, below);
        }
        level
    }

    /// Returns the number of elements in the dimensions below `level`.
    fn inner(&self, level: usize) -> usize {
        let below = &self.dimensions()[..level];
        below.iter().map(|one| one.extent as usize).product()
    }

    /// Creates a type for the elements of the dimensions below `level`, with the stride of `level`
    /// as extent.
    unsafe fn nested(&self, level: usize, unit: MPI_Datatype, state: State) -> MPI_Datatype {
        // SAFETY: the datatypes are the program's or made here; results go to local variables.
        unsafe {
            let slab = self.slab(level, unit);
            let mut made = MPI_DATATYPE_NULL;
            c::MPI_Type_create_resized(
                slab,
                0,
                self.dimensions()[level].stride as MPI_Aint,
                &raw mut made,
            );
            free(slab);
            state.give(&mut made);
            made
        }
    }

    /// Creates a type for all elements of the dimensions below `level`; the caller frees it.
    unsafe fn slab(&self, level: usize, unit: MPI_Datatype) -> MPI_Datatype {
        let mut made = MPI_DATATYPE_NULL;
        // SAFETY: the datatypes are the program's or made here; results go to local variables.
        unsafe {
            let Some(below) = level.checked_sub(1) else {
                if unit == MPI_DATATYPE_NULL {
                    c::MPI_Type_contiguous_c(self.element as MPI_Count, MPI_BYTE, &raw mut made);
                } else {
                    c::MPI_Type_dup(unit, &raw mut made);
                }
                return made;
            };
            let inner = self.slab(below, unit);
            let Dimension { extent, stride } = self.dimensions()[below];
            c::MPI_Type_create_hvector_c(
                extent as MPI_Count,
                1,
                stride as MPI_Count,
                inner,
                &raw mut made,
            );
            free(inner);
        }
        made
    }

    /// Creates a type for the first `wanted` elements.
    unsafe fn beginning(&self, wanted: usize, unit: MPI_Datatype, state: State) -> MPI_Datatype {
        let mut left = wanted;
        let mut at: MPI_Aint = 0;
        let (mut lengths, mut places, mut types) = (Vec::new(), Vec::new(), Vec::new());
        // SAFETY: the datatypes are the program's or made here; results go to local variables.
        unsafe {
            for level in (0..self.rank).rev() {
                let inner = self.inner(level);
                let Dimension { stride, .. } = self.dimensions()[level];
                let full = left / inner;
                if full > 0 {
                    let slab = self.slab(level, unit);
                    let mut made = MPI_DATATYPE_NULL;
                    c::MPI_Type_create_hvector_c(
                        full as MPI_Count,
                        1,
                        stride as MPI_Count,
                        slab,
                        &raw mut made,
                    );
                    free(slab);
                    lengths.push(1);
                    places.push(at);
                    types.push(made);
                }
                at += full as MPI_Aint * stride as MPI_Aint;
                left -= full * inner;
            }
            let mut made = MPI_DATATYPE_NULL;
            c::MPI_Type_create_struct(
                types.len() as c_int,
                lengths.as_ptr(),
                places.as_ptr(),
                types.as_ptr(),
                &raw mut made,
            );
            for one in types {
                free(one);
            }
            state.give(&mut made);
            made
        }
    }
}

/// The state of a datatype. Its substitute gets the same, so that the C call reports it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The handle is invalid.
    None,
    /// The datatype is not committed.
    Open,
    Committed,
}

impl State {
    fn of(datatype: MPI_Datatype) -> State {
        // SAFETY: the function accepts any handle.
        match unsafe { c::MPII_Type_state(datatype) } {
            0 => State::None,
            1 => State::Open,
            _ => State::Committed,
        }
    }

    fn give(self, datatype: &mut MPI_Datatype) {
        if self == State::Committed {
            // SAFETY: a datatype that this module made.
            unsafe { c::MPI_Type_commit(datatype) };
        }
    }
}

fn free(mut datatype: MPI_Datatype) {
    // SAFETY: a datatype that this module made.
    unsafe { c::MPI_Type_free(&raw mut datatype) };
}

/// The arguments that a call passes instead of a buffer and its description. Operations keep the
/// datatype that they use beyond the call.
#[derive(Debug)]
pub struct Substitute {
    /// The buffer's address.
    pub address: *mut c_void,
    /// The number of elements, for functions that take an int.
    pub count: c_int,
    /// The number of elements, for functions with large counts.
    pub large_count: MPI_Count,
    /// The datatype.
    pub datatype: MPI_Datatype,
    /// The datatype created for this call, or MPI_DATATYPE_NULL.
    made: MPI_Datatype,
    copy: Option<Copied>,
}

/// A copy of a section.
#[derive(Debug)]
pub struct Copied {
    section: Section,
    bytes: Vec<u8>,
    /// The section's previous contents, if results go `back`.
    before: Vec<u8>,
    back: bool,
}

impl Copied {
    /// Returns the copy's address.
    pub fn address(&self) -> *mut c_void {
        self.bytes.as_ptr().cast_mut().cast()
    }

    /// Copies the section's current contents.
    ///
    /// # Safety
    /// The section is a valid array of the program, and no operation uses the copy.
    pub unsafe fn refresh(&mut self) {
        let mut next = self.bytes.as_mut_ptr();
        let size = self.section.element;
        // SAFETY: the caller's contract; the room has the size of all elements.
        unsafe {
            let (rank, base) = (self.section.rank, self.section.base.cast());
            self.section.each(rank, base, &mut |element| {
                std::ptr::copy_nonoverlapping(element, next, size);
                next = next.add(size);
            });
        }
        if self.back {
            self.before.clear();
            self.before.extend_from_slice(&self.bytes);
        }
    }

    /// Copies changed elements back to the section. The program may use the others meanwhile.
    ///
    /// # Safety
    /// The section is a valid array of the program, and no operation uses the copy.
    pub unsafe fn give_back(&self) {
        if !self.back || self.section.element == 0 {
            return;
        }
        let size = self.section.element;
        let mut pairs = self
            .bytes
            .chunks_exact(size)
            .zip(self.before.chunks_exact(size));
        // SAFETY: the section is a valid array of the program (# Safety).
        unsafe {
            let (rank, base) = (self.section.rank, self.section.base.cast());
            self.section.each(rank, base, &mut |element| {
                if let Some((now, before)) = pairs.next()
                    && now != before
                {
                    std::ptr::copy_nonoverlapping(now.as_ptr(), element, size);
                }
            });
        }
    }
}

impl Substitute {
    fn plain(address: *mut c_void, count: MPI_Count, datatype: MPI_Datatype) -> Substitute {
        Substitute {
            address,
            count: c_int::try_from(count).unwrap_or(c_int::MAX),
            large_count: count,
            datatype,
            made: MPI_DATATYPE_NULL,
            copy: None,
        }
    }

    /// Returns `count` elements of a datatype created for this call.
    fn made(address: *mut c_void, count: usize, made: MPI_Datatype) -> Substitute {
        let mut place = Substitute::plain(address, count as MPI_Count, made);
        place.made = made;
        place
    }

    /// Takes the copy out, if there is one; it is then not copied back when the call ends.
    pub fn take_copy(&mut self) -> Option<Copied> {
        self.copy.take()
    }

    fn with(mut self, count: MPI_Count, datatype: MPI_Datatype) -> Substitute {
        self.count = c_int::try_from(count).unwrap_or(c_int::MAX);
        self.large_count = count;
        self.datatype = datatype;
        self
    }
}

impl Drop for Substitute {
    fn drop(&mut self) {
        if self.made != MPI_DATATYPE_NULL {
            free(self.made);
        }
        if let Some(copy) = &self.copy {
            // SAFETY: the section is still the program's valid array, and the call that used the
            // copy has ended.
            unsafe { copy.give_back() };
        }
    }
}

/// The error text for a buffer that gfortran frees after the call.
pub const TEMPORARY: &str = "the array is a temporary copy that gfortran made of a component, a part of a string or an expression, which ends \
     with the call, but the operation goes on; pass a variable, or an array of elements with a derived datatype";

/// Reports an unsupported argument through the communicator's error handler.
///
/// # Safety
/// `ierror` is valid or NULL.
pub unsafe fn refuse(ierror: *mut c_int, comm: MPI_Comm, why: &'static str) {
    // SAFETY: local variables, a string that ends in NUL, and the caller's contract.
    unsafe {
        let mut code = MPI_ERR_BUFFER;
        if c::MPI_Add_error_code(MPI_ERR_BUFFER, &raw mut code) == MPI_SUCCESS
            && let Ok(text) = std::ffi::CString::new(why)
        {
            c::MPI_Add_error_string(code, text.as_ptr());
        }
        c::MPI_Comm_call_errhandler(comm, code);
        finish(ierror, code);
    }
}
