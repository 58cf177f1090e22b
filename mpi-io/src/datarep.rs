//! Data representations (MPI-3.1 section 13.5): the layout of values in the file, and of filetypes
//! made of them.

use std::sync::Arc;

use mpi_types::datatype::{Constructor, Datatype, Predefined};
use mpi_types::{Class, Error, Result};

/// A representation that the program registered (`MPI_Register_datarep`).
pub trait Conversions: Send + Sync {
    /// Returns the bytes of a value of a predefined datatype in the file.
    ///
    /// # Errors
    /// Those of the program's function.
    fn file_extent(&self, datatype: &Datatype) -> Result<i64>;

    /// Converts `count` elements in memory to the file's representation.
    ///
    /// # Errors
    /// Those of the program's function.
    ///
    /// # Safety
    /// `memory` holds the elements.
    unsafe fn convert_write(
        &self,
        memory: *const u8,
        datatype: &Datatype,
        count: usize,
        file: &mut [u8],
    ) -> Result<()>;

    /// Converts `count` elements in the file's representation to memory.
    ///
    /// # Errors
    /// Those of the program's function.
    ///
    /// # Safety
    /// `memory` has space for the elements.
    unsafe fn convert_read(
        &self,
        memory: *mut u8,
        datatype: &Datatype,
        count: usize,
        file: &[u8],
    ) -> Result<()>;

    /// Returns whether values have the same representation in memory and in the file.
    fn is_none(&self) -> bool;
}

/// A data representation.
#[derive(Clone)]
pub enum Representation {
    /// Values as in memory.
    Native,
    /// Values as in memory, since all processes have the same representation.
    Internal,
    /// Big-endian, of fixed sizes (section 13.5.2).
    External32,
    /// A representation of the program, by its name.
    User(String, Arc<dyn Conversions>),
}

impl Representation {
    /// Returns the predefined representation of a name, in lower or upper case.
    pub fn predefined(name: &[u8]) -> Option<Representation> {
        match name.to_ascii_lowercase().as_slice() {
            b"native" => Some(Representation::Native),
            b"internal" => Some(Representation::Internal),
            b"external32" => Some(Representation::External32),
            _ => None,
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Representation::Native => "native",
            Representation::Internal => "internal",
            Representation::External32 => "external32",
            Representation::User(name, _) => name,
        }
    }

    /// Returns whether data is moved without conversion.
    pub(crate) fn is_unconverted(&self) -> bool {
        match self {
            Representation::Native | Representation::Internal => true,
            Representation::External32 => false,
            Representation::User(_, conversions) => conversions.is_none(),
        }
    }

    /// Returns whether only the calling thread may convert, because functions of the program do.
    pub(crate) fn needs_caller(&self) -> bool {
        matches!(self, Representation::User(..)) && !self.is_unconverted()
    }

    /// Returns the layout of a predefined datatype in the file.
    fn basic(&self, datatype: &Datatype, predefined: Predefined) -> Result<Datatype> {
        let bytes = |count: i64| Datatype::predefined(Predefined::Byte).contiguous(count);
        match self {
            Representation::Native | Representation::Internal => Ok(datatype.clone()),
            Representation::External32 => {
                let size = datatype.pack_external_size(1)?;
                // Values of the same size keep their extent.
                if size == datatype.size() {
                    return Ok(datatype.clone());
                }
                let _ = predefined;
                bytes(size as i64)
            }
            Representation::User(name, conversions) => {
                let extent = conversions.file_extent(datatype)?;
                if extent < 0 {
                    let why = format!(
                        "the extent function of data representation \"{name}\" says that {datatype} takes \
                         {extent} bytes; it must be 0 or more"
                    );
                    return Err(Error::new(Class::Conversion, why));
                }
                bytes(extent)
            }
        }
    }

    /// Returns the layout of a datatype in the file: each predefined datatype is replaced by its
    /// layout there, and displacements counted in extents are adapted. Those in bytes stay.
    pub(crate) fn in_file(&self, datatype: &Datatype) -> Result<Datatype> {
        if self.is_unconverted() {
            return Ok(datatype.clone());
        }
        let made = self.build(datatype)?;
        made.commit();
        Ok(made)
    }

    fn build(&self, datatype: &Datatype) -> Result<Datatype> {
        let old = |old: &Datatype| self.build(old);
        match datatype.constructor() {
            Constructor::Named(predefined) => self.basic(datatype, *predefined),
            Constructor::Marker(_) => Ok(datatype.clone()),
            Constructor::F90Real { .. }
            | Constructor::F90Complex { .. }
            | Constructor::F90Integer { .. } => match datatype.element() {
                Some(predefined) => self.basic(&Datatype::predefined(predefined), predefined),
                None => Ok(datatype.clone()),
            },
            Constructor::Dup { old: of } => old(of),
            Constructor::Contiguous { count, old: of } => old(of)?.contiguous(*count),
            Constructor::Vector {
                count,
                block,
                stride,
                old: of,
            } => old(of)?.vector(*count, *block, *stride),
            Constructor::Hvector {
                count,
                block,
                stride,
                old: of,
            } => old(of)?.hvector(*count, *block, *stride),
            Constructor::Indexed {
                blocks,
                displacements,
                old: of,
            } => old(of)?.indexed(blocks, displacements),
            Constructor::Hindexed {
                blocks,
                displacements,
                old: of,
            } => old(of)?.hindexed(blocks, displacements),
            Constructor::IndexedBlock {
                block,
                displacements,
                old: of,
            } => old(of)?.indexed_block(*block, displacements),
            Constructor::HindexedBlock {
                block,
                displacements,
                old: of,
            } => old(of)?.hindexed_block(*block, displacements),
            Constructor::Struct {
                blocks,
                displacements,
                types,
            } => {
                let mut there = Vec::<Datatype>::with_capacity(types.len());
                for (index, of) in types.iter().enumerate() {
                    // Members of one type keep their displacements: a struct of them has no
                    // padding.
                    let member = match index.checked_sub(1) {
                        Some(before) if types[before].is_same(of) => there[before].clone(),
                        _ => self.build(of)?,
                    };
                    there.push(member);
                }
                Datatype::structure(blocks, displacements, &there)
            }
            Constructor::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                old: of,
            } => old(of)?.subarray(sizes, subsizes, starts, *order),
            Constructor::Darray {
                size,
                rank,
                gsizes,
                distributions,
                arguments,
                psizes,
                order,
                old: of,
            } => old(of)?.darray(
                *size,
                *rank,
                gsizes,
                distributions,
                arguments,
                psizes,
                *order,
            ),
            Constructor::Resized {
                lb,
                extent,
                old: of,
            } => old(of)?.resized(*lb, *extent),
        }
    }

    /// Returns the bytes of `count` elements in the file.
    pub(crate) fn bytes(&self, datatype: &Datatype, count: usize) -> Result<usize> {
        match self {
            Representation::Native | Representation::Internal => Ok(datatype.size() * count),
            Representation::External32 => datatype.pack_external_size(count),
            Representation::User(..) => self.in_file(datatype)?.total(count, 1),
        }
    }

    /// Returns the bytes in the file of `moved` bytes in memory, for whole values.
    pub(crate) fn bytes_moved(&self, datatype: &Datatype, moved: u64) -> Result<u64> {
        if self.is_unconverted() {
            return Ok(moved);
        }
        if let Representation::External32 = self {
            return Ok(datatype.external_bytes(moved as usize) as u64);
        }
        let elements = moved / (datatype.size() as u64).max(1);
        Ok(elements * self.bytes(datatype, 1)? as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with the same sizes in both have the same displacements, as without a struct around
    /// them.
    #[test]
    fn structs_of_one_type_are_as_long_in_external32() {
        let double = Datatype::predefined(Predefined::Double);
        let row = double.hvector(2, 2, 40).unwrap();
        let both = Datatype::structure(&[3, 3], &[0, 181], &[row.clone(), row]).unwrap();
        let there = Representation::External32.in_file(&both).unwrap();
        assert_eq!((there.lb(), there.extent()), (both.lb(), both.extent()));
        assert_eq!(both.extent() % 8, 5);
    }

    #[test]
    fn longs_take_four_bytes_in_external32() {
        let rep = Representation::External32;
        let long = Datatype::predefined(Predefined::Long);
        assert_eq!(rep.in_file(&long).unwrap().extent(), 4);
        let vector = long.vector(3, 2, 5).unwrap();
        let there = rep.in_file(&vector).unwrap();
        assert_eq!((there.size(), there.extent()), (24, 48));
        let bytes = long.hvector(2, 1, 100).unwrap();
        let there = rep.in_file(&bytes).unwrap();
        assert_eq!((there.size(), there.extent()), (8, 104));
        let int = Datatype::predefined(Predefined::Int)
            .vector(2, 1, 3)
            .unwrap();
        assert_eq!(rep.in_file(&int).unwrap().extent(), int.extent());
    }
}
