//! Cartesian topologies (MPI-3.1 sections 7.5.1, 7.5.5 to 7.5.7).

use super::check_rank;
use mpi_core::{Class, Error, Result};

/// One dimension of a Cartesian topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// Number of processes along it, at least 1; at most `i32::MAX` in all dimensions together.
    pub size: u32,
    /// Whether the last process is a neighbour of the first.
    pub periodic: bool,
}

/// A Cartesian topology: ranks in row-major order, the last coordinate running fastest.
///
/// Without dimensions it has one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cart {
    dimensions: Box<[Dimension]>,
    size: u32,
}

/// One process's result of [`Cart::sub`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sub {
    /// Identifies the process's subgrid, as the color of a split.
    pub color: u32,
    /// The rank in the subgrid.
    pub rank: u32,
    /// The topology of the subgrid.
    pub cart: Cart,
}

impl Cart {
    /// Returns the topology for `MPI_Cart_create` on a communicator of `available` processes.
    /// Processes from [`Cart::size`] on are not part of it.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_DIMS` if a dimension is not positive or the grid has more than `available`
    /// processes; `MPI_ERR_ARG` if there are not as many periods as dimensions.
    pub fn new(available: u32, dims: &[i32], periods: &[bool]) -> Result<Cart> {
        if dims.len() != periods.len() {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "{} dimensions and {} periods are given; each dimension needs one",
                    dims.len(),
                    periods.len()
                ),
            ));
        }
        let mut size = 1u64;
        for (i, &dim) in dims.iter().enumerate() {
            if dim < 1 {
                return Err(Error::new(
                    Class::Dims,
                    format!("dims[{i}] is {dim}; it must be 1 or more"),
                ));
            }
            // Stops growing once it is too large, so that it cannot overflow.
            if size <= u64::from(available) {
                size *= dim as u64;
            }
        }
        if size > u64::from(available) {
            return Err(Error::new(
                Class::Dims,
                format!(
                    "a grid of {} needs more processes than the {available} of the communicator; \
                     make it smaller (MPI_Dims_create finds dimensions that fit)",
                    by(dims)
                ),
            ));
        }
        let dimension = |(&dim, &periodic): (&i32, &bool)| Dimension {
            size: dim as u32,
            periodic,
        };
        Ok(Cart {
            dimensions: dims.iter().zip(periods).map(dimension).collect(),
            size: size as u32,
        })
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The dimensions; `MPI_Cartdim_get` returns their number.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Returns the rank at coordinates (`MPI_Cart_rank`); those in periodic dimensions wrap around.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if there are fewer coordinates than dimensions, or one is out of range in a
    /// dimension that is not periodic.
    pub fn rank(&self, coords: &[i32]) -> Result<u32> {
        if coords.len() < self.dimensions.len() {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "{} coordinates are given; the topology has {} dimensions",
                    coords.len(),
                    self.dimensions.len()
                ),
            ));
        }
        let mut rank = 0;
        for (i, (dimension, &coord)) in self.dimensions.iter().zip(coords).enumerate() {
            let at = dimension.wrap(i64::from(coord)).ok_or_else(|| {
                Error::new(
                    Class::Arg,
                    format!(
                        "coords[{i}] is {coord}; it must be in 0 to {}, as the dimension is not \
                         periodic",
                        dimension.size - 1
                    ),
                )
            })?;
            rank = rank * dimension.size + at;
        }
        Ok(rank)
    }

    /// Returns the coordinates of a rank (`MPI_Cart_coords`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if the rank is out of range.
    pub fn coords(&self, rank: i32) -> Result<impl ExactSizeIterator<Item = u32> + '_> {
        let mut rest = check_rank(rank, self.size)?;
        // Number of ranks with the same coordinates up to a dimension.
        let mut alike = self.size;
        Ok(self.dimensions.iter().map(move |dimension| {
            // The last dimension needs no division, the slowest operation here.
            if alike == dimension.size {
                return rest;
            }
            alike /= dimension.size;
            let coord = rest / alike;
            rest %= alike;
            coord
        }))
    }

    /// Returns the source and the destination of `rank` in a shift along a dimension
    /// (`MPI_Cart_shift`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if the rank is out of range, `MPI_ERR_DIMS` if there is no such dimension.
    pub fn shift(
        &self,
        rank: i32,
        direction: i32,
        displacement: i32,
    ) -> Result<(Option<u32>, Option<u32>)> {
        let rank = check_rank(rank, self.size)?;
        let direction = match usize::try_from(direction) {
            Ok(direction) if direction < self.dimensions.len() => direction,
            _ => {
                return Err(Error::new(
                    Class::Dims,
                    format!(
                        "direction is {direction}; it must be 0 or more and less than {}, the \
                         number of dimensions",
                        self.dimensions.len()
                    ),
                ));
            }
        };
        let displacement = i64::from(displacement);
        Ok(self.neighbours_along(rank, direction, displacement))
    }

    /// Returns the ranks at distance `by` along a dimension: downwards and upwards.
    fn neighbours_along(&self, rank: u32, direction: usize, by: i64) -> (Option<u32>, Option<u32>) {
        let below = self.dimensions[direction + 1..].iter().map(|d| d.size);
        let stride: u32 = below.product();
        let dimension = &self.dimensions[direction];
        // Without a division, the slowest operation here, where possible.
        let coord = match stride {
            1 => rank,
            _ => rank / stride,
        };
        let coord = match coord < dimension.size {
            true => coord,
            false => coord % dimension.size,
        };
        let moved = |by| {
            let to = dimension.wrap(i64::from(coord) + by)?;
            Some(rank - coord * stride + to * stride)
        };
        (moved(-by), moved(by))
    }

    /// Returns the neighbours of a rank in the order of neighbourhood collectives (section 7.6):
    /// for each dimension those at -1 and +1. They are both sources and destinations.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if the rank is out of range.
    pub fn neighbours(&self, rank: i32) -> Result<Vec<Option<u32>>> {
        let rank = check_rank(rank, self.size)?;
        let both = |direction| <[_; 2]>::from(self.neighbours_along(rank, direction, 1));
        Ok((0..self.dimensions.len()).flat_map(both).collect())
    }

    /// Returns the subgrid of a rank with the dimensions for which `remain` is true
    /// (`MPI_Cart_sub`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if there are fewer flags than dimensions, `MPI_ERR_RANK` if the rank is out of
    /// range.
    pub fn sub(&self, rank: i32, remain: &[bool]) -> Result<Sub> {
        if remain.len() < self.dimensions.len() {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "{} flags are given; the topology has {} dimensions",
                    remain.len(),
                    self.dimensions.len()
                ),
            ));
        }
        let coords = self.coords(rank)?;
        let (mut color, mut in_sub) = (0, 0);
        let mut kept = Vec::new();
        for ((dimension, coord), &keep) in self.dimensions.iter().zip(coords).zip(remain) {
            let position = if keep { &mut in_sub } else { &mut color };
            *position = *position * dimension.size + coord;
            if keep {
                kept.push(*dimension);
            }
        }
        Ok(Sub {
            color,
            rank: in_sub,
            cart: Cart {
                size: kept.iter().map(|d| d.size).product(),
                dimensions: kept.into(),
            },
        })
    }
}

impl Dimension {
    /// Returns the coordinate after wrapping; `None` beyond a dimension that is not periodic.
    fn wrap(&self, coord: i64) -> Option<u32> {
        let size = i64::from(self.size);
        if (0..size).contains(&coord) {
            return Some(coord as u32);
        }
        self.periodic.then(|| coord.rem_euclid(size) as u32)
    }
}

/// Formats dimensions, as in "2 x 3 x 4".
pub(super) fn by(dims: &[i32]) -> String {
    let dims: Vec<_> = dims.iter().map(i32::to_string).collect();
    dims.join(" x ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn example_of_the_standard_two_by_two() {
        // Section 7.2: (0,0) is rank 0, (0,1) is rank 1, (1,0) is rank 2, (1,1) is rank 3.
        let cart = Cart::new(4, &[2, 2], &[false, false]).unwrap();
        for (rank, coords) in [[0, 0], [0, 1], [1, 0], [1, 1]].iter().enumerate() {
            assert_eq!(cart.rank(coords).unwrap() as usize, rank);
            let back = cart.coords(rank as i32).unwrap();
            assert_eq!(back.map(|c| c as i32).collect::<Vec<_>>(), coords);
        }
    }

    #[test]
    fn example_of_the_standard_shift() {
        // As in the example of section 7.5.6: a column is shifted in a periodic grid.
        let cart = Cart::new(12, &[3, 4], &[true, true]).unwrap();
        let rank = cart.rank(&[1, 2]).unwrap() as i32;
        let (source, dest) = cart.shift(rank, 0, 2).unwrap();
        assert_eq!(source, Some(cart.rank(&[-1, 2]).unwrap()));
        assert_eq!(dest, Some(cart.rank(&[3, 2]).unwrap()));
        assert_eq!((source, dest), (Some(10), Some(2)));
        let open = Cart::new(12, &[3, 4], &[false, true]).unwrap();
        assert_eq!(open.shift(rank, 0, 2).unwrap(), (None, None));
        assert_eq!(open.shift(rank, 0, 1).unwrap(), (Some(2), Some(10)));
        assert_eq!(open.shift(rank, 0, 0).unwrap(), (Some(6), Some(6)));
        assert_eq!(cart.shift(rank, 1, i32::MIN).unwrap(), (Some(6), Some(6)));
    }

    #[test]
    fn example_of_the_standard_sub() {
        // Section 7.5.7: of (2 x 3 x 4) keep the first and the last: three grids of 2 x 4.
        let cart = Cart::new(24, &[2, 3, 4], &[false, true, true]).unwrap();
        let mut seen = vec![vec![]; 3];
        for rank in 0..24 {
            let sub = cart.sub(rank, &[true, false, true]).unwrap();
            let dims: Vec<_> = sub.cart.dimensions().iter().map(|d| d.size).collect();
            assert_eq!((dims, sub.cart.size()), (vec![2, 4], 8));
            assert!(!sub.cart.dimensions()[0].periodic && sub.cart.dimensions()[1].periodic);
            seen[sub.color as usize].push(sub.rank);
        }
        assert!(
            seen.iter()
                .all(|ranks| *ranks == (0..8).collect::<Vec<_>>())
        );
        // And of those keep the last only: six grids of 4.
        let colors = (0..24).map(|r| cart.sub(r, &[false, false, true]).unwrap().color);
        assert_eq!(colors.collect::<std::collections::HashSet<_>>().len(), 6);
        // None: each process alone, in no dimensions.
        let none = cart.sub(5, &[false; 3]).unwrap();
        assert_eq!((none.color, none.rank, none.cart.size()), (5, 0, 1));
        assert_eq!(none.cart.rank(&[]).unwrap(), 0);
        assert_eq!(none.cart.shift(0, 0, 1).unwrap_err().class(), Class::Dims);
    }

    #[test]
    fn bad_arguments() {
        let class = |r: Result<Cart>| r.unwrap_err().class();
        assert_eq!(class(Cart::new(8, &[2, 0], &[false; 2])), Class::Dims);
        assert_eq!(class(Cart::new(8, &[2, -4], &[false; 2])), Class::Dims);
        assert_eq!(class(Cart::new(8, &[3, 3], &[false; 2])), Class::Dims);
        assert_eq!(
            class(Cart::new(8, &[i32::MAX; 40], &[false; 40])),
            Class::Dims
        );
        assert_eq!(class(Cart::new(8, &[2], &[])), Class::Arg);
        let cart = Cart::new(8, &[2, 3], &[false, true]).unwrap();
        assert_eq!(cart.size(), 6);
        assert_eq!(cart.rank(&[2, 0]).unwrap_err().class(), Class::Arg);
        assert_eq!(cart.rank(&[0, i32::MIN]).unwrap(), 1);
        assert_eq!(cart.rank(&[0]).unwrap_err().class(), Class::Arg);
        assert_eq!(cart.coords(6).err().unwrap().class(), Class::Rank);
        assert_eq!(cart.coords(-1).err().unwrap().class(), Class::Rank);
        assert_eq!(cart.shift(0, 2, 1).unwrap_err().class(), Class::Dims);
        assert_eq!(cart.sub(0, &[true]).unwrap_err().class(), Class::Arg);
    }

    proptest! {
        #[test]
        fn coordinates_and_neighbours_agree(
            dims in prop::collection::vec((1i32..6, any::<bool>()), 0..4),
            far in -12i32..12,
        ) {
            let (sizes, periods): (Vec<_>, Vec<_>) = dims.iter().copied().unzip();
            let cart = Cart::new(1000, &sizes, &periods).unwrap();
            for rank in 0..cart.size() {
                let coords: Vec<i32> =
                    cart.coords(rank as i32).unwrap().map(|c| c as i32).collect();
                prop_assert_eq!(cart.rank(&coords).unwrap(), rank);
                let neighbours = cart.neighbours(rank as i32).unwrap();
                for d in 0..dims.len() {
                    let at = |by: i32| {
                        let mut moved = coords.clone();
                        moved[d] += by;
                        cart.rank(&moved).ok()
                    };
                    prop_assert_eq!(&neighbours[2 * d..2 * d + 2], &[at(-1), at(1)]);
                    let shift = cart.shift(rank as i32, d as i32, far).unwrap();
                    prop_assert_eq!(shift, (at(-far), at(far)));
                }
            }
        }
    }
}
