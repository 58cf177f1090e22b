//! The constructor of a datatype: envelope and contents (MPI-3.1 section 4.1.13).

use std::fmt;

use super::{Datatype, Predefined};
use crate::{Class, Error, Result};

/// The constructor that made a datatype, with its arguments.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are the standard's arguments")]
pub enum Constructor {
    Named(Predefined),
    Marker(Marker),
    Dup {
        old: Datatype,
    },
    Contiguous {
        count: i64,
        old: Datatype,
    },
    Vector {
        count: i64,
        block: i64,
        stride: i64,
        old: Datatype,
    },
    Hvector {
        count: i64,
        block: i64,
        stride: i64,
        old: Datatype,
    },
    Indexed {
        blocks: Box<[i64]>,
        displacements: Box<[i64]>,
        old: Datatype,
    },
    Hindexed {
        blocks: Box<[i64]>,
        displacements: Box<[i64]>,
        old: Datatype,
    },
    IndexedBlock {
        block: i64,
        displacements: Box<[i64]>,
        old: Datatype,
    },
    HindexedBlock {
        block: i64,
        displacements: Box<[i64]>,
        old: Datatype,
    },
    Struct {
        blocks: Box<[i64]>,
        displacements: Box<[i64]>,
        types: Box<[Datatype]>,
    },
    Subarray {
        sizes: Box<[i64]>,
        subsizes: Box<[i64]>,
        starts: Box<[i64]>,
        order: Order,
        old: Datatype,
    },
    Darray {
        size: i64,
        rank: i64,
        gsizes: Box<[i64]>,
        distributions: Box<[Distribution]>,
        arguments: Box<[Option<i64>]>,
        psizes: Box<[i64]>,
        order: Order,
        old: Datatype,
    },
    F90Real {
        precision: Option<i64>,
        range: Option<i64>,
    },
    F90Complex {
        precision: Option<i64>,
        range: Option<i64>,
    },
    F90Integer {
        range: i64,
    },
    Resized {
        lb: i64,
        extent: i64,
        old: Datatype,
    },
}

/// The zero-size types of MPI-1 that set bounds when they are members of a struct.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Marker {
    /// `MPI_LB`.
    LowerBound,
    /// `MPI_UB`.
    UpperBound,
}

/// Storage order of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// The last index runs fastest (`MPI_ORDER_C`).
    C,
    /// The first index runs fastest (`MPI_ORDER_FORTRAN`).
    Fortran,
}

/// How a dimension of an array is distributed over processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Distribution {
    /// `MPI_DISTRIBUTE_BLOCK`.
    Block,
    /// `MPI_DISTRIBUTE_CYCLIC`.
    Cyclic,
    /// `MPI_DISTRIBUTE_NONE`.
    None,
}

/// Which constructor made a datatype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the standard's, MPI_COMBINER_*")]
pub enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    F90Real,
    F90Complex,
    F90Integer,
    Resized,
}

/// The result of `MPI_Type_get_envelope`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Number of integers in the contents.
    pub integers: usize,
    /// Number of addresses in the contents.
    pub addresses: usize,
    /// Number of large counts in the contents.
    pub large_counts: usize,
    /// Number of datatypes in the contents.
    pub datatypes: usize,
    /// The constructor.
    pub combiner: Combiner,
}

/// The result of `MPI_Type_get_contents`.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The integer arguments in the standard's order.
    pub integers: Vec<i64>,
    /// The address arguments in the standard's order.
    pub addresses: Vec<i64>,
    /// The arguments that are large counts, in the standard's order.
    pub large_counts: Vec<i64>,
    /// The datatype arguments in the standard's order.
    pub datatypes: Vec<Datatype>,
}

/// An ABI's values of the constants among the integers of [`Contents`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub struct Numbers {
    pub order_c: i64,
    pub order_fortran: i64,
    pub distribute_block: i64,
    pub distribute_cyclic: i64,
    pub distribute_none: i64,
    pub distribute_default_argument: i64,
    pub undefined: i64,
}

impl Constructor {
    /// Returns the combiner.
    pub fn combiner(&self) -> Combiner {
        match self {
            Constructor::Named(_) | Constructor::Marker(_) => Combiner::Named,
            Constructor::Dup { .. } => Combiner::Dup,
            Constructor::Contiguous { .. } => Combiner::Contiguous,
            Constructor::Vector { .. } => Combiner::Vector,
            Constructor::Hvector { .. } => Combiner::Hvector,
            Constructor::Indexed { .. } => Combiner::Indexed,
            Constructor::Hindexed { .. } => Combiner::Hindexed,
            Constructor::IndexedBlock { .. } => Combiner::IndexedBlock,
            Constructor::HindexedBlock { .. } => Combiner::HindexedBlock,
            Constructor::Struct { .. } => Combiner::Struct,
            Constructor::Subarray { .. } => Combiner::Subarray,
            Constructor::Darray { .. } => Combiner::Darray,
            Constructor::F90Real { .. } => Combiner::F90Real,
            Constructor::F90Complex { .. } => Combiner::F90Complex,
            Constructor::F90Integer { .. } => Combiner::F90Integer,
            Constructor::Resized { .. } => Combiner::Resized,
        }
    }

    /// Returns the datatypes that the type was made from.
    pub fn datatypes(&self) -> &[Datatype] {
        match self {
            Constructor::Named(_)
            | Constructor::Marker(_)
            | Constructor::F90Real { .. }
            | Constructor::F90Complex { .. }
            | Constructor::F90Integer { .. } => &[],
            Constructor::Struct { types, .. } => types,
            Constructor::Dup { old }
            | Constructor::Contiguous { old, .. }
            | Constructor::Vector { old, .. }
            | Constructor::Hvector { old, .. }
            | Constructor::Indexed { old, .. }
            | Constructor::Hindexed { old, .. }
            | Constructor::IndexedBlock { old, .. }
            | Constructor::HindexedBlock { old, .. }
            | Constructor::Subarray { old, .. }
            | Constructor::Darray { old, .. }
            | Constructor::Resized { old, .. } => std::slice::from_ref(old),
        }
    }

    /// Returns the sizes of the contents (`MPI_Type_get_envelope`).
    ///
    /// With `large`, arguments that can be large counts are reported as such (MPI-4.0 section
    /// 5.1.13): all but constants and the sizes of a process grid.
    pub fn envelope(&self, large: bool) -> Envelope {
        let (integers, addresses) = match self {
            Constructor::Named(_) | Constructor::Marker(_) | Constructor::Dup { .. } => (0, 0),
            Constructor::Contiguous { .. } | Constructor::F90Integer { .. } => (1, 0),
            Constructor::Vector { .. } => (3, 0),
            Constructor::Hvector { .. } => (2, 1),
            Constructor::Indexed { blocks, .. } => (2 * blocks.len() + 1, 0),
            Constructor::Hindexed { blocks, .. } | Constructor::Struct { blocks, .. } => {
                (blocks.len() + 1, blocks.len())
            }
            Constructor::IndexedBlock { displacements, .. } => (displacements.len() + 2, 0),
            Constructor::HindexedBlock { displacements, .. } => (2, displacements.len()),
            Constructor::Subarray { sizes, .. } => (3 * sizes.len() + 2, 0),
            Constructor::Darray { gsizes, .. } => (4 * gsizes.len() + 4, 0),
            Constructor::F90Real { .. } | Constructor::F90Complex { .. } => (2, 0),
            Constructor::Resized { .. } => (0, 2),
        };
        let (integers, addresses, large_counts) = match self {
            _ if !large => (integers, addresses, 0),
            Constructor::Subarray { sizes, .. } => (2, 0, 3 * sizes.len()),
            Constructor::Darray { gsizes, .. } => (3 * gsizes.len() + 4, 0, gsizes.len()),
            _ => (0, 0, integers + addresses),
        };
        Envelope {
            integers,
            addresses,
            large_counts,
            datatypes: self.datatypes().len(),
            combiner: self.combiner(),
        }
    }

    /// Returns the arguments (`MPI_Type_get_contents`). Fails with `MPI_ERR_TYPE` for predefined
    /// types.
    pub fn contents(&self, numbers: &Numbers, large: bool) -> Result<Contents> {
        let mut integers = Vec::new();
        let mut addresses = Vec::new();
        let length = |list: &[i64]| list.len() as i64;
        let order_number = |order: &Order| match order {
            Order::C => numbers.order_c,
            Order::Fortran => numbers.order_fortran,
        };
        match self {
            Constructor::Named(_) | Constructor::Marker(_) => {
                return Err(Error::new(
                    Class::Type,
                    format!(
                        "{self} is predefined and has no contents; ask for the envelope first \
                         and leave types with combiner MPI_COMBINER_NAMED out"
                    ),
                ));
            }
            Constructor::Dup { .. } => {}
            Constructor::Contiguous { count, .. } => integers.push(*count),
            Constructor::Vector {
                count,
                block,
                stride,
                ..
            } => integers.extend([*count, *block, *stride]),
            Constructor::Hvector {
                count,
                block,
                stride,
                ..
            } => {
                integers.extend([*count, *block]);
                addresses.push(*stride);
            }
            Constructor::Indexed {
                blocks,
                displacements,
                ..
            } => {
                integers.push(length(blocks));
                integers.extend(blocks.iter().chain(displacements));
            }
            Constructor::Hindexed {
                blocks,
                displacements,
                ..
            }
            | Constructor::Struct {
                blocks,
                displacements,
                ..
            } => {
                integers.push(length(blocks));
                integers.extend(blocks);
                addresses.extend(displacements);
            }
            Constructor::IndexedBlock {
                block,
                displacements,
                ..
            } => {
                integers.extend([length(displacements), *block]);
                integers.extend(displacements);
            }
            Constructor::HindexedBlock {
                block,
                displacements,
                ..
            } => {
                integers.extend([length(displacements), *block]);
                addresses.extend(displacements);
            }
            Constructor::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                ..
            } => {
                integers.push(length(sizes));
                integers.extend(sizes.iter().chain(subsizes).chain(starts));
                integers.push(order_number(order));
            }
            Constructor::Darray {
                size,
                rank,
                gsizes,
                distributions,
                arguments,
                psizes,
                order,
                ..
            } => {
                integers.extend([*size, *rank, length(gsizes)]);
                integers.extend(gsizes);
                integers.extend(distributions.iter().map(|d| match d {
                    Distribution::Block => numbers.distribute_block,
                    Distribution::Cyclic => numbers.distribute_cyclic,
                    Distribution::None => numbers.distribute_none,
                }));
                let default = numbers.distribute_default_argument;
                integers.extend(arguments.iter().map(|a| a.unwrap_or(default)));
                integers.extend(psizes);
                integers.push(order_number(order));
            }
            Constructor::F90Real { precision, range }
            | Constructor::F90Complex { precision, range } => {
                integers.extend([precision, range].map(|n| n.unwrap_or(numbers.undefined)));
            }
            Constructor::F90Integer { range } => integers.push(*range),
            Constructor::Resized { lb, extent, .. } => addresses.extend([*lb, *extent]),
        }
        let large_counts = match self {
            _ if !large => Vec::new(),
            Constructor::Subarray { sizes, .. } => integers.drain(1..=3 * sizes.len()).collect(),
            Constructor::Darray { gsizes, .. } => integers.drain(3..3 + gsizes.len()).collect(),
            _ => std::mem::take(&mut integers)
                .into_iter()
                .chain(std::mem::take(&mut addresses))
                .collect(),
        };
        Ok(Contents {
            integers,
            addresses,
            large_counts,
            datatypes: self.datatypes().to_vec(),
        })
    }
}

/// The first entries of a list, in brackets.
struct Short<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Short<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        f.write_str("[")?;
        for (index, item) in self.0.iter().take(SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{item}")?;
        }
        if self.0.len() > SHOWN {
            write!(f, ", … {} in all", self.0.len())?;
        }
        f.write_str("]")
    }
}

/// A constructor and the levels of nesting that may still be displayed.
struct Level<'a>(&'a Constructor, usize);

impl fmt::Display for Level<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Level(constructor, levels) = *self;
        let known = |n: &Option<i64>| n.map_or("undefined".to_owned(), |n| n.to_string());
        match constructor {
            Constructor::Named(p) => return f.write_str(p.name()),
            Constructor::Marker(Marker::LowerBound) => return f.write_str("MPI_LB"),
            Constructor::Marker(Marker::UpperBound) => return f.write_str("MPI_UB"),
            Constructor::F90Real { precision, range } => {
                return write!(f, "f90_real({}, {})", known(precision), known(range));
            }
            Constructor::F90Complex { precision, range } => {
                return write!(f, "f90_complex({}, {})", known(precision), known(range));
            }
            Constructor::F90Integer { range } => return write!(f, "f90_integer({range})"),
            Constructor::Struct {
                blocks,
                displacements,
                types,
            } => {
                write!(f, "struct({}, {})", Short(blocks), Short(displacements))?;
                if levels == 0 {
                    return f.write_str(" of …");
                }
                // Limits the text of nested structs.
                let shown = types.iter().map(|t| Level(t.constructor(), levels / 2));
                return write!(f, " of {}", Short(&shown.collect::<Vec<_>>()));
            }
            Constructor::Dup { .. } => f.write_str("dup")?,
            Constructor::Contiguous { count, .. } => write!(f, "contiguous({count})")?,
            Constructor::Vector {
                count,
                block,
                stride,
                ..
            } => write!(f, "vector({count}, {block}, {stride})")?,
            Constructor::Hvector {
                count,
                block,
                stride,
                ..
            } => write!(f, "hvector({count}, {block}, {stride})")?,
            Constructor::Indexed {
                blocks,
                displacements,
                ..
            } => write!(f, "indexed({}, {})", Short(blocks), Short(displacements))?,
            Constructor::Hindexed {
                blocks,
                displacements,
                ..
            } => write!(f, "hindexed({}, {})", Short(blocks), Short(displacements))?,
            Constructor::IndexedBlock {
                block,
                displacements,
                ..
            } => write!(f, "indexed_block({block}, {})", Short(displacements))?,
            Constructor::HindexedBlock {
                block,
                displacements,
                ..
            } => write!(f, "hindexed_block({block}, {})", Short(displacements))?,
            Constructor::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                ..
            } => write!(
                f,
                "subarray({}, {}, {}, {order:?})",
                Short(sizes),
                Short(subsizes),
                Short(starts)
            )?,
            Constructor::Darray {
                size,
                rank,
                gsizes,
                psizes,
                order,
                ..
            } => write!(
                f,
                "darray(rank {rank} of {size}, {} over {}, {order:?})",
                Short(gsizes),
                Short(psizes)
            )?,
            Constructor::Resized { lb, extent, .. } => write!(f, "resized({lb}, {extent})")?,
        }
        match constructor.datatypes() {
            [old, ..] if levels > 0 => write!(f, " of {}", Level(old.constructor(), levels - 1)),
            _ => f.write_str(" of …"),
        }
    }
}

impl fmt::Display for Constructor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Level(self, 6), f)
    }
}
