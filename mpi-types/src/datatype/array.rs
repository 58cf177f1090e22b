//! Subarrays and distributed arrays (MPI-3.1 sections 4.1.3 and 4.1.4).

use std::sync::Arc;

use super::Datatype;
use super::construct::{same_length, too_large};
use super::contents::{Constructor, Distribution, Order};
use super::layout::{Builder, Node};
use super::shape::Shape;
use crate::{Class, Error, Result};

/// The indices of one dimension that belong to a type: groups of `group` indices, `step` apart.
#[derive(Clone, Copy, Debug)]
struct Indices {
    first: i64,
    group: i64,
    step: i64,
    groups: i64,
    /// Size of a shorter last group.
    rest: i64,
}

impl Indices {
    fn run(first: i64, count: i64) -> Indices {
        Indices {
            first,
            group: count,
            step: 0,
            groups: i64::from(count > 0),
            rest: 0,
        }
    }

    fn count(self) -> i64 {
        self.groups * self.group + self.rest
    }

    /// Returns the first and the last index.
    fn span(self) -> Option<(i64, i64)> {
        let last = match (self.groups, self.rest) {
            (0, 0) => return None,
            (n, 0) => self.first + (n - 1) * self.step + self.group - 1,
            (n, rest) => self.first + n * self.step + rest - 1,
        };
        Some((self.first, last))
    }

    /// Returns the elements of `body` at these indices, `stride` bytes apart per index.
    fn of(self, body: &Arc<Node>, stride: i64) -> Arc<Node> {
        let group = Node::repeat(body, self.group as usize, stride);
        let step = stride.wrapping_mul(self.step);
        let mut builder = Builder::default();
        let first = stride.wrapping_mul(self.first);
        builder.push(first, &group, self.groups as usize, step);
        let last = first.wrapping_add(step.wrapping_mul(self.groups));
        builder.push(last, body, self.rest as usize, stride);
        builder.finish()
    }
}

/// Iterates over dimensions from the fastest-varying one on.
fn fastest_first(dimensions: usize, order: Order) -> impl Iterator<Item = usize> {
    (0..dimensions).map(move |i| match order {
        Order::Fortran => i,
        Order::C => dimensions - 1 - i,
    })
}

#[cold]
fn wrong(detail: String) -> Error {
    Error::new(Class::Arg, detail)
}

fn check_sizes(name: &str, sizes: &[i64]) -> Result<()> {
    if sizes.is_empty() {
        return Err(wrong(
            "the number of dimensions is 0; it must be 1 or more".into(),
        ));
    }
    match sizes.iter().position(|&size| size < 1) {
        Some(i) => Err(wrong(format!(
            "{name}[{i}] is {}; it must be 1 or more",
            sizes[i]
        ))),
        None => Ok(()),
    }
}

impl Datatype {
    /// Makes a part of an array of `self`, with the bounds of the whole array
    /// (`MPI_Type_create_subarray`).
    pub fn subarray(
        &self,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
    ) -> Result<Datatype> {
        check_sizes("array_of_sizes", sizes)?;
        same_length("array_of_subsizes", subsizes.len(), sizes.len())?;
        same_length("array_of_starts", starts.len(), sizes.len())?;
        for (i, ((&size, &sub), &start)) in sizes.iter().zip(subsizes).zip(starts).enumerate() {
            if sub < 1 || sub > size {
                return Err(wrong(format!(
                    "array_of_subsizes[{i}] is {sub}; it must be 1 to {size}, the array's size"
                )));
            }
            if start < 0 || start > size - sub {
                return Err(wrong(format!(
                    "array_of_starts[{i}] is {start}; it must be 0 to {}, so that the subarray \
                     lies within the array",
                    size - sub
                )));
            }
        }
        let indices: Vec<_> = (starts.iter().zip(subsizes))
            .map(|(&start, &sub)| Indices::run(start, sub))
            .collect();
        let made = Constructor::Subarray {
            sizes: sizes.into(),
            subsizes: subsizes.into(),
            starts: starts.into(),
            order,
            old: self.clone(),
        };
        self.array(sizes, &indices, order, made)
    }

    /// Makes one process's part of a distributed array of `self` (`MPI_Type_create_darray`). `None`
    /// in `arguments` is `MPI_DISTRIBUTE_DFLT_DARG`.
    pub fn darray(
        &self,
        size: i64,
        rank: i64,
        gsizes: &[i64],
        distributions: &[Distribution],
        arguments: &[Option<i64>],
        psizes: &[i64],
        order: Order,
    ) -> Result<Datatype> {
        check_sizes("array_of_gsizes", gsizes)?;
        check_sizes("array_of_psizes", psizes)?;
        same_length("array_of_distribs", distributions.len(), gsizes.len())?;
        same_length("array_of_dargs", arguments.len(), gsizes.len())?;
        same_length("array_of_psizes", psizes.len(), gsizes.len())?;
        let grid = psizes.iter().try_fold(1i64, |all, &n| all.checked_mul(n));
        if grid != Some(size) {
            return Err(wrong(format!(
                "size is {size}, but array_of_psizes makes a grid of {} processes; they must be \
                 equal",
                grid.map_or("too many".into(), |n| n.to_string())
            )));
        }
        if !(0..size).contains(&rank) {
            return Err(wrong(format!(
                "rank is {rank}; it must be 0 to {}",
                size - 1
            )));
        }
        let mut indices = Vec::with_capacity(gsizes.len());
        let mut remaining = (rank, size);
        for i in 0..gsizes.len() {
            // The process grid has C order, whatever the order of the array.
            remaining.1 /= psizes[i];
            let coordinate = remaining.0 / remaining.1;
            remaining.0 %= remaining.1;
            let (global, processes) = (gsizes[i], psizes[i]);
            let part = owned(
                distributions[i],
                arguments[i],
                global,
                processes,
                coordinate,
            );
            indices.push(part.map_err(|detail| wrong(format!("dimension {i}: {detail}")))?);
        }
        let made = Constructor::Darray {
            size,
            rank,
            gsizes: gsizes.into(),
            distributions: distributions.into(),
            arguments: arguments.into(),
            psizes: psizes.into(),
            order,
            old: self.clone(),
        };
        self.array(gsizes, &indices, order, made)
    }

    fn array(
        &self,
        sizes: &[i64],
        indices: &[Indices],
        order: Order,
        made: Constructor,
    ) -> Result<Datatype> {
        let old = self.inner().shape;
        let (mut stride, mut elements) = (old.extent(), Some(1i64));
        let mut data = Some(Shape {
            bounds: None,
            ..old
        });
        for i in fastest_first(sizes.len(), order) {
            elements = elements.and_then(|n| n.checked_mul(indices[i].count()));
            data = data.and_then(|data| match indices[i].span() {
                Some((first, last)) => {
                    let near = data.shifted(first.checked_mul(stride)?)?;
                    Some(near.union(data.shifted(last.checked_mul(stride)?)?))
                }
                None => Some(Shape::EMPTY),
            });
            stride = stride.checked_mul(sizes[i]).ok_or_else(too_large)?;
        }
        let shape = data.map(|data| Shape {
            bounds: Some((0, stride)),
            ..data
        });
        let draft = self.draft(elements.ok_or_else(too_large)?, shape, made)?;
        Ok(draft.build())
    }

    /// Compiles a type made by [`array`](Self::array).
    pub(super) fn array_layout(&self, made: &Constructor) -> Option<Arc<Node>> {
        let (sizes, order, indices): (_, _, Vec<_>) = match made {
            Constructor::Subarray {
                sizes,
                subsizes,
                starts,
                order,
                ..
            } => {
                let runs = starts.iter().zip(subsizes);
                let runs = runs.map(|(&start, &sub)| Indices::run(start, sub));
                (sizes, *order, runs.collect())
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
                let mut remaining = (*rank, *size);
                let owned = (0..gsizes.len()).map(|i| {
                    remaining.1 /= psizes[i];
                    let coordinate = remaining.0 / remaining.1;
                    remaining.0 %= remaining.1;
                    let (global, processes) = (gsizes[i], psizes[i]);
                    owned(
                        distributions[i],
                        arguments[i],
                        global,
                        processes,
                        coordinate,
                    )
                    .ok()
                });
                (gsizes, *order, owned.collect::<Option<_>>()?)
            }
            _ => return None,
        };
        let mut node = self.inner().program().node().clone();
        let mut stride = self.inner().shape.extent();
        for i in fastest_first(sizes.len(), order) {
            node = indices[i].of(&node, stride);
            stride = stride.wrapping_mul(sizes[i]);
        }
        Some(node)
    }
}

/// Returns the indices that process `coordinate` of `processes` owns in a dimension of `global`
/// indices.
fn owned(
    distribution: Distribution,
    argument: Option<i64>,
    global: i64,
    processes: i64,
    coordinate: i64,
) -> Result<Indices, String> {
    let wrong = argument.filter(|&argument| argument < 1 && distribution != Distribution::None);
    if let Some(argument) = wrong {
        return Err(format!(
            "the distribution argument is {argument}; it must be 1 or more, or \
             MPI_DISTRIBUTE_DFLT_DARG"
        ));
    }
    match distribution {
        Distribution::None if processes != 1 => Err(format!(
            "it is not distributed, but spread over {processes} processes; array_of_psizes must \
             be 1 there"
        )),
        Distribution::None => Ok(Indices::run(0, global)),
        Distribution::Block => {
            // Rounded up without overflow; sizes are 1 or more.
            let even = (global - 1) / processes + 1;
            let block = argument.unwrap_or(even);
            if block < even {
                return Err(format!(
                    "blocks of {block} for {processes} processes do not cover {global} indices; \
                     the distribution argument must be {even} or more"
                ));
            }
            let first = block.saturating_mul(coordinate).min(global);
            Ok(Indices::run(first, block.min(global - first)))
        }
        Distribution::Cyclic => {
            let group = argument.unwrap_or(1);
            let first = group.saturating_mul(coordinate);
            if first >= global {
                return Ok(Indices::run(0, 0));
            }
            let available = global - first;
            let step = group.saturating_mul(processes);
            let (groups, tail) = (available / step, available % step);
            let complete = groups + i64::from(tail >= group);
            let rest = if tail < group { tail } else { 0 };
            Ok(Indices {
                first,
                group,
                step,
                groups: complete,
                rest,
            })
        }
    }
}
