//! What takes the place of array sections that don't lie in one piece (section 17.1.12): a datatype that describes
//! them, or a copy (of what goes on after the call: `later.rs`).

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
    /// Something that `count` elements of a datatype can be taken from or put to. In a `chunked`
    /// buffer they may be needed several times, for several processes. If it `may_copy`, a copy
    /// will do, from which results go `back`.
    ///
    /// # Safety
    /// The section is the program's, and has room for the elements.
    pub unsafe fn typed(
        &self,
        count: impl Into<MPI_Count>,
        datatype: MPI_Datatype,
        chunked: bool,
        may_copy: bool,
        back: bool,
    ) -> Result<Place, &'static str> {
        let count = count.into();
        // SAFETY: the caller's contract.
        unsafe {
            if self.is_plain() {
                return Ok(Place::plain(self.base, count, datatype));
            }
            // The call that comes after reports what is wrong.
            let state = State::of(datatype);
            if count < 0 || state == State::None {
                return Ok(Place::plain(self.base, count, datatype));
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
                    return Ok(Place::plain(self.base, count, datatype));
                }
                if !may_copy && let Some(made) = self.picked(count, datatype) {
                    return Ok(Place::made(self.base, 1, made));
                }
                return self
                    .whole(may_copy, back)
                    .map(|place| place.with(count, datatype));
            };
            let wanted = usize::try_from(count).unwrap_or(0).saturating_mul(size) / self.element;
            // Below dimension `level` sections are described by nested types; above, elements
            // follow each other at one distance.
            let level = self.regular_from();
            let inner = self.inner(level);
            // Who passed an int needs one in its place.
            let fits = |number: usize| number <= c_int::MAX as usize || count > c_int::MAX.into();
            if inner > 0 && wanted.is_multiple_of(inner) && fits(wanted / inner) {
                let made = self.nested(level, unit_type, state);
                return Ok(Place::made(self.base, wanted / inner, made));
            }
            if !chunked && wanted <= self.len() {
                let made = self.beginning(wanted, unit_type, state);
                return Ok(Place::made(self.base, 1, made));
            }
            self.whole(may_copy, back)
                .map(|place| place.with(count, datatype))
        }
    }

    /// Something in which elements of a datatype have counts and displacements.
    ///
    /// # Safety
    /// As for [`Section::typed`].
    pub unsafe fn strided(
        &self,
        datatype: MPI_Datatype,
        may_copy: bool,
        back: bool,
    ) -> Result<Place, &'static str> {
        // SAFETY: the caller's contract.
        unsafe {
            if self.is_plain() {
                return Ok(Place::plain(self.base, 0, datatype));
            }
            let state = State::of(datatype);
            if state == State::None {
                return Ok(Place::plain(self.base, 0, datatype));
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
                    Ok(Place::made(self.base, 0, made))
                }
                _ => self
                    .whole(may_copy, back)
                    .map(|place| place.with(0, datatype)),
            }
        }
    }

    /// All of it in one piece.
    ///
    /// # Safety
    /// As for [`Section::typed`].
    pub unsafe fn whole(&self, may_copy: bool, back: bool) -> Result<Place, &'static str> {
        if self.is_plain() {
            return Ok(Place::plain(self.base, 0, MPI_DATATYPE_NULL));
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
            room: Vec::new(),
            before: Vec::new(),
            back,
        };
        let reserved = copied.room.try_reserve_exact(size).is_ok()
            && (!back || copied.before.try_reserve_exact(size).is_ok());
        if !reserved {
            return Err(
                "there is not enough memory for a copy of the array section; use a contiguous array",
            );
        }
        copied.room.resize(size, 0);
        // SAFETY: the section is the program's.
        unsafe { copied.refresh() };
        let mut place = Place::plain(copied.address(), 0, MPI_DATATYPE_NULL);
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

    /// A datatype for what elements of a datatype with gaps take out of it.
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

    /// The size of a datatype without gaps, and a datatype for one element of the array: the same, or the one that it
    /// is made of, where sizes agree, else bytes. None if the one has gaps or doesn't fit to the other.
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
        // What is taken apart must be what lies there, each byte once and in order: gaps and overlaps may make up
        // for each other.
        if picked::in_order(datatype)? != size {
            return None;
        }
        let unit = picked::basic(datatype).filter(|one| picked::size(*one) == Some(self.element));
        Some((size, unit.unwrap_or(MPI_DATATYPE_NULL)))
    }

    /// The lowest dimension from which on elements follow each other at one distance, which is its own stride. The stride of a
    /// dimension with one element says nothing.
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

    /// The number of elements in the dimensions below `level`.
    fn inner(&self, level: usize) -> usize {
        let below = &self.dimensions()[..level];
        below.iter().map(|one| one.extent as usize).product()
    }

    /// A type for the elements of the dimensions below `level`, as far from the next as dimension
    /// `level` says.
    unsafe fn nested(&self, level: usize, unit: MPI_Datatype, state: State) -> MPI_Datatype {
        // SAFETY: types of ours and of the program's, into local variables.
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

    /// A type for all elements of the dimensions below `level`; to be freed.
    unsafe fn slab(&self, level: usize, unit: MPI_Datatype) -> MPI_Datatype {
        let mut made = MPI_DATATYPE_NULL;
        // SAFETY: as above.
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

    /// A type for the first `wanted` elements.
    unsafe fn beginning(&self, wanted: usize, unit: MPI_Datatype, state: State) -> MPI_Datatype {
        let mut left = wanted;
        let mut at: MPI_Aint = 0;
        let (mut lengths, mut places, mut types) = (Vec::new(), Vec::new(), Vec::new());
        // SAFETY: as above.
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

/// The state of a datatype. What stands for it has the same, so that the call that comes after reports it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is no such datatype.
    None,
    /// It is not committed.
    Open,
    Committed,
}

impl State {
    fn of(datatype: MPI_Datatype) -> State {
        // SAFETY: takes any handle.
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

/// What is passed in place of a buffer and its description, for the time of a call. Operations keep
/// the datatype that they use beyond that.
#[derive(Debug)]
pub struct Place {
    /// The buffer's address.
    pub address: *mut c_void,
    /// The number of elements, for functions that take an int.
    pub count: c_int,
    /// The number of elements, for functions with large counts.
    pub large_count: MPI_Count,
    /// The datatype.
    pub datatype: MPI_Datatype,
    /// The datatype that was made for this, or none.
    made: MPI_Datatype,
    copy: Option<Copied>,
}

/// A copy of a section.
#[derive(Debug)]
pub struct Copied {
    section: Section,
    room: Vec<u8>,
    /// What was in the section, if results go `back`.
    before: Vec<u8>,
    back: bool,
}

impl Copied {
    /// Its address.
    pub fn address(&self) -> *mut c_void {
        self.room.as_ptr().cast_mut().cast()
    }

    /// Takes what is in the section.
    ///
    /// # Safety
    /// The section is the program's, and no operation uses the copy.
    pub unsafe fn refresh(&mut self) {
        let mut next = self.room.as_mut_ptr();
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
            self.before.extend_from_slice(&self.room);
        }
    }

    /// Results go to the section: elements that are other than before. The rest may be the program's meanwhile.
    ///
    /// # Safety
    /// The section is the program's, and no operation uses the copy.
    pub unsafe fn give_back(&self) {
        if !self.back || self.section.element == 0 {
            return;
        }
        let size = self.section.element;
        let mut pairs = self
            .room
            .chunks_exact(size)
            .zip(self.before.chunks_exact(size));
        // SAFETY: the caller's contract.
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

impl Place {
    fn plain(address: *mut c_void, count: MPI_Count, datatype: MPI_Datatype) -> Place {
        Place {
            address,
            count: c_int::try_from(count).unwrap_or(c_int::MAX),
            large_count: count,
            datatype,
            made: MPI_DATATYPE_NULL,
            copy: None,
        }
    }

    /// Elements of a datatype that was made for this.
    fn made(address: *mut c_void, count: usize, made: MPI_Datatype) -> Place {
        let mut place = Place::plain(address, count as MPI_Count, made);
        place.made = made;
        place
    }

    /// Its copy, if it has one, which is no longer given back when the call ends.
    pub fn take_copy(&mut self) -> Option<Copied> {
        self.copy.take()
    }

    fn with(mut self, count: MPI_Count, datatype: MPI_Datatype) -> Place {
        self.count = c_int::try_from(count).unwrap_or(c_int::MAX);
        self.large_count = count;
        self.datatype = datatype;
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.made != MPI_DATATYPE_NULL {
            free(self.made);
        }
        if let Some(copy) = &self.copy {
            // SAFETY: as when it was copied; the call has ended.
            unsafe { copy.give_back() };
        }
    }
}

/// Why a buffer is refused that gfortran frees behind the call.
pub const TEMPORARY: &str = "the array is a temporary copy that gfortran made of a component, a part of a string or an expression, which ends \
     with the call, but the operation goes on; pass a variable, or an array of elements with a derived datatype";

/// Reports an argument that this library can't pass on, as C functions report wrong ones.
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
