//! Pairs of a value and an index, for `MPI_MINLOC` and `MPI_MAXLOC` (MPI-4.1 section 6.9.4).

use mpi_core::Result;
use mpi_runtime::handles::types;

use crate::abi::{self, MPI_Datatype};
use crate::args::{Late, Out};

/// The predefined pairs: value, index, pair.
const PAIRS: &[(MPI_Datatype, MPI_Datatype, MPI_Datatype)] = &[
    (abi::MPI_FLOAT, abi::MPI_INT, abi::MPI_FLOAT_INT),
    (abi::MPI_DOUBLE, abi::MPI_INT, abi::MPI_DOUBLE_INT),
    (abi::MPI_LONG, abi::MPI_INT, abi::MPI_LONG_INT),
    (abi::MPI_INT, abi::MPI_INT, abi::MPI_2INT),
    (abi::MPI_SHORT, abi::MPI_INT, abi::MPI_SHORT_INT),
    (abi::MPI_LONG_DOUBLE, abi::MPI_INT, abi::MPI_LONG_DOUBLE_INT),
    (abi::MPI_REAL, abi::MPI_REAL, abi::MPI_2REAL),
    (
        abi::MPI_DOUBLE_PRECISION,
        abi::MPI_DOUBLE_PRECISION,
        abi::MPI_2DOUBLE_PRECISION,
    ),
    (abi::MPI_INTEGER, abi::MPI_INTEGER, abi::MPI_2INTEGER),
];

/// `MPI_Type_get_value_index`: the predefined pair of these types; `MPI_DATATYPE_NULL` if there is
/// none.
pub fn type_get_value_index(
    Late(value_type, call): Late<MPI_Datatype>,
    index_type: MPI_Datatype,
    pair_type: Out<MPI_Datatype>,
) -> Result<()> {
    types::object(value_type, call)?;
    types::object(index_type, call)?;
    let found = PAIRS
        .iter()
        .find(|(value, index, _)| (*value, *index) == (value_type, index_type));
    let pair = found.map_or(abi::MPI_DATATYPE_NULL, |(_, _, pair)| *pair);
    pair_type.set(pair);
    Ok(())
}
