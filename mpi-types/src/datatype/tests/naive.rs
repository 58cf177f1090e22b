//! Datatypes as the standard explains them: a type map is a list of basic types with
//! displacements, and every constructor makes a longer list.

use proptest::prelude::*;

use crate::datatype::contents::{Combiner, Contents, Numbers};
use crate::datatype::{Datatype, Distribution, Marker, Order, Predefined, Representation};
use crate::{Error, Result};

/// How to make a datatype.
#[derive(Clone, Debug)]
pub enum Tree {
    Named(Predefined),
    Marker(Marker),
    Dup(Box<Tree>),
    Contiguous(i64, Box<Tree>),
    Vector(i64, i64, i64, Box<Tree>),
    Hvector(i64, i64, i64, Box<Tree>),
    Indexed(Vec<i64>, Vec<i64>, Box<Tree>),
    Hindexed(Vec<i64>, Vec<i64>, Box<Tree>),
    IndexedBlock(i64, Vec<i64>, Box<Tree>),
    HindexedBlock(i64, Vec<i64>, Box<Tree>),
    Struct(Vec<i64>, Vec<i64>, Vec<Tree>),
    Subarray(Vec<i64>, Vec<i64>, Vec<i64>, Order, Box<Tree>),
    Darray(Darray, Box<Tree>),
    Resized(i64, i64, Box<Tree>),
}

#[derive(Clone, Debug)]
pub struct Darray {
    pub size: i64,
    pub rank: i64,
    pub gsizes: Vec<i64>,
    pub distributions: Vec<Distribution>,
    pub arguments: Vec<Option<i64>>,
    pub psizes: Vec<i64>,
    pub order: Order,
}

/// A type map with its bounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Map {
    pub entries: Vec<(Representation, i64)>,
    pub bounds: Option<(i64, i64)>,
    pub alignment: i64,
}

impl Tree {
    pub fn build(&self) -> Result<Datatype> {
        match self {
            Tree::Named(p) => Ok(Datatype::predefined(*p)),
            Tree::Marker(Marker::LowerBound) => Ok(Datatype::lower_bound()),
            Tree::Marker(Marker::UpperBound) => Ok(Datatype::upper_bound()),
            Tree::Dup(old) => old.build()?.dup(),
            Tree::Contiguous(n, old) => old.build()?.contiguous(*n),
            Tree::Vector(n, b, s, old) => old.build()?.vector(*n, *b, *s),
            Tree::Hvector(n, b, s, old) => old.build()?.hvector(*n, *b, *s),
            Tree::Indexed(b, d, old) => old.build()?.indexed(b, d),
            Tree::Hindexed(b, d, old) => old.build()?.hindexed(b, d),
            Tree::IndexedBlock(b, d, old) => old.build()?.indexed_block(*b, d),
            Tree::HindexedBlock(b, d, old) => old.build()?.hindexed_block(*b, d),
            Tree::Struct(b, d, types) => {
                let types: Result<Vec<_>> = types.iter().map(Tree::build).collect();
                Datatype::structure(b, d, &types?)
            }
            Tree::Subarray(n, sub, start, order, old) => {
                old.build()?.subarray(n, sub, start, *order)
            }
            Tree::Darray(d, old) => old.build()?.darray(
                d.size,
                d.rank,
                &d.gsizes,
                &d.distributions,
                &d.arguments,
                &d.psizes,
                d.order,
            ),
            Tree::Resized(lb, extent, old) => old.build()?.resized(*lb, *extent),
        }
    }

    pub fn map(&self) -> Map {
        match self {
            Tree::Named(p) => Map {
                entries: basics(p.kind()),
                bounds: Some((0, p.kind().extent() as i64)),
                alignment: alignment(p.kind()),
            },
            Tree::Marker(_) => EMPTY,
            Tree::Dup(old) => old.map(),
            Tree::Contiguous(n, old) => place(&old.map(), &places(0, *n, 1)),
            Tree::Vector(n, b, s, old) => {
                let map = old.map();
                let blocks = (0..*n).flat_map(|i| places(i * s, *b, 1));
                place(&map, &blocks.collect::<Vec<_>>())
            }
            Tree::Hvector(n, b, s, old) => {
                let map = old.map();
                let extent = map.extent();
                let blocks = (0..*n).flat_map(|i| bytes(i * s, *b, extent));
                at(&map, blocks)
            }
            Tree::Indexed(b, d, old) => {
                let blocks = b.iter().zip(d).flat_map(|(&b, &d)| places(d, b, 1));
                place(&old.map(), &blocks.collect::<Vec<_>>())
            }
            Tree::Hindexed(b, d, old) => {
                let map = old.map();
                let extent = map.extent();
                at(
                    &map,
                    b.iter().zip(d).flat_map(|(&b, &d)| bytes(d, b, extent)),
                )
            }
            Tree::IndexedBlock(b, d, old) => {
                let blocks = d.iter().flat_map(|&d| places(d, *b, 1));
                place(&old.map(), &blocks.collect::<Vec<_>>())
            }
            Tree::HindexedBlock(b, d, old) => {
                let map = old.map();
                let extent = map.extent();
                at(&map, d.iter().flat_map(|&d| bytes(d, *b, extent)))
            }
            Tree::Struct(b, d, types) => structure(b, d, types),
            Tree::Subarray(sizes, sub, start, order, old) => {
                let owned = sub.iter().zip(start).map(|(&n, &s)| (s..s + n).collect());
                array(&old.map(), sizes, owned.collect(), *order)
            }
            Tree::Darray(d, old) => {
                let mut owned = Vec::new();
                let (mut rank, mut size) = (d.rank, d.size);
                for i in 0..d.gsizes.len() {
                    size /= d.psizes[i];
                    let me = rank / size;
                    rank %= size;
                    let (g, p) = (d.gsizes[i], d.psizes[i]);
                    let width = match (d.distributions[i], d.arguments[i]) {
                        (Distribution::None, _) => g,
                        (_, Some(width)) => width,
                        (Distribution::Block, None) => (g + p - 1) / p,
                        (Distribution::Cyclic, None) => 1,
                    };
                    // Deal the indices out one by one.
                    owned.push((0..g).filter(|index| index / width % p == me).collect());
                }
                array(&old.map(), &d.gsizes, owned, d.order)
            }
            Tree::Resized(lb, extent, old) => Map {
                bounds: Some((*lb, lb + extent)),
                ..old.map()
            },
        }
    }
}

const EMPTY: Map = Map {
    entries: Vec::new(),
    bounds: None,
    alignment: 1,
};

impl Map {
    pub fn extent(&self) -> i64 {
        self.bounds.map_or(0, |b| b.1 - b.0)
    }

    pub fn true_bounds(&self) -> (i64, i64) {
        let low = self.entries.iter().map(|e| e.1).min();
        let high = self.entries.iter().map(|e| e.1 + e.0.size() as i64).max();
        (low.unwrap_or(0), high.unwrap_or(0))
    }

    /// Offsets of all bytes of data of `count` elements, in order.
    pub fn bytes(&self, count: usize) -> Vec<i64> {
        let elements = 0..count as i64;
        let entries = elements.flat_map(|i| {
            let shift = i * self.extent();
            self.entries.iter().map(move |e| (e.0, e.1 + shift))
        });
        entries
            .flat_map(|(kind, at)| (0..kind.size() as i64).map(move |i| at + i))
            .collect()
    }

    fn join(&mut self, other: &Map, shift: i64) {
        self.entries
            .extend(other.entries.iter().map(|e| (e.0, e.1 + shift)));
        if let Some((low, high)) = other.bounds {
            let (low, high) = (low + shift, high + shift);
            self.bounds = Some(match self.bounds {
                Some(b) => (b.0.min(low), b.1.max(high)),
                None => (low, high),
            });
        }
    }
}

fn basics(kind: Representation) -> Vec<(Representation, i64)> {
    match kind {
        Representation::FloatInt => vec![(Representation::F32, 0), (Representation::I32, 4)],
        Representation::DoubleInt => vec![(Representation::F64, 0), (Representation::I32, 8)],
        Representation::LongInt => vec![(Representation::I64, 0), (Representation::I32, 8)],
        Representation::IntInt => vec![(Representation::I32, 0), (Representation::I32, 4)],
        Representation::ShortInt => vec![(Representation::I16, 0), (Representation::I32, 4)],
        Representation::F80Int => vec![(Representation::F80, 0), (Representation::I32, 16)],
        Representation::F128Int => vec![(Representation::F128, 0), (Representation::I32, 16)],
        Representation::FloatFloat => vec![(Representation::F32, 0), (Representation::F32, 4)],
        Representation::DoubleDouble => vec![(Representation::F64, 0), (Representation::F64, 8)],
        basic => vec![(basic, 0)],
    }
}

fn alignment(kind: Representation) -> i64 {
    let of = |kind: Representation| match kind {
        Representation::C16 => 2,
        Representation::C32 => 4,
        Representation::C64 => 8,
        Representation::C80 | Representation::C128 => 16,
        other => other.size() as i64,
    };
    basics(kind).into_iter().map(|e| of(e.0)).max().unwrap_or(1)
}

fn places(first: i64, count: i64, step: i64) -> Vec<i64> {
    (0..count).map(|i| first + i * step).collect()
}

fn bytes(first: i64, count: i64, extent: i64) -> Vec<i64> {
    places(first, count, extent)
}

/// Copies of a map at multiples of its extent.
fn place(map: &Map, multiples: &[i64]) -> Map {
    let extent = map.extent();
    at(map, multiples.iter().map(|m| m * extent))
}

/// Copies of a map at displacements in bytes.
fn at(map: &Map, displacements: impl IntoIterator<Item = i64>) -> Map {
    let mut all = Map {
        alignment: map.alignment,
        ..EMPTY
    };
    for displacement in displacements {
        all.join(map, displacement);
    }
    all
}

fn structure(blocks: &[i64], displacements: &[i64], types: &[Tree]) -> Map {
    let mut all = EMPTY;
    let (mut lower, mut upper): (Vec<i64>, Vec<i64>) = (vec![], vec![]);
    for ((&n, &d), t) in blocks.iter().zip(displacements).zip(types) {
        match t {
            _ if n == 0 => {}
            Tree::Marker(Marker::LowerBound) => lower.push(d),
            Tree::Marker(Marker::UpperBound) => upper.push(d),
            t => {
                let map = t.map();
                // The padding goes by what is in the type map: bounds alone have nothing to be aligned.
                if !map.entries.is_empty() {
                    all.alignment = all.alignment.max(map.alignment);
                }
                let extent = map.extent();
                all.join(&at(&map, bytes(d, n, extent)), 0);
            }
        }
    }
    // Members built one by one are the same only if they are predefined or alone.
    let alike = types
        .windows(2)
        .all(|pair| matches!((&pair[0], &pair[1]), (Tree::Named(a), Tree::Named(b)) if a == b));
    if let (Some((low, mut high)), false) = (all.bounds, alike) {
        while (high - low) % all.alignment != 0 {
            high += 1;
        }
        all.bounds = Some((low, high));
    }
    let lower = lower.into_iter().min();
    let upper = upper.into_iter().max();
    let fallback = all.bounds;
    let low = lower.or(fallback.map(|b| b.0)).or(upper);
    let high = upper.or(fallback.map(|b| b.1)).or(lower);
    all.bounds = low.zip(high);
    all
}

fn array(map: &Map, sizes: &[i64], owned: Vec<Vec<i64>>, order: Order) -> Map {
    // Positions in the whole array, with the fastest index innermost.
    let mut positions = vec![0];
    let dimensions: Vec<usize> = match order {
        Order::C => (0..sizes.len()).collect(),
        Order::Fortran => (0..sizes.len()).rev().collect(),
    };
    for i in dimensions {
        let outer = std::mem::take(&mut positions);
        for position in outer {
            positions.extend(owned[i].iter().map(|index| position * sizes[i] + index));
        }
    }
    let all: i64 = sizes.iter().product();
    Map {
        bounds: Some((0, all * map.extent())),
        ..place(map, &positions)
    }
}

pub const NUMBERS: Numbers = Numbers {
    order_c: 56,
    order_fortran: 57,
    distribute_block: 121,
    distribute_cyclic: 122,
    distribute_none: 123,
    distribute_default_argument: -49767,
    undefined: -32766,
};

/// Reads a datatype back from what it says about itself.
pub fn decode(datatype: &Datatype) -> Result<Tree> {
    let envelope = datatype.envelope();
    if envelope.combiner == Combiner::Named {
        let named = datatype.as_predefined().map(Tree::Named);
        return Ok(named.unwrap_or_else(|| {
            Tree::Marker(if datatype.is_same(&Datatype::lower_bound()) {
                Marker::LowerBound
            } else {
                Marker::UpperBound
            })
        }));
    }
    let Contents {
        integers,
        addresses,
        large_counts,
        datatypes,
    } = datatype.contents(&NUMBERS)?;
    assert_eq!(envelope.large_counts, large_counts.len());
    assert_eq!(envelope.integers, integers.len());
    assert_eq!(envelope.addresses, addresses.len());
    assert_eq!(envelope.datatypes, datatypes.len());
    let mut types = datatypes.iter().map(decode).collect::<Result<Vec<_>>>()?;
    let i = &integers;
    if envelope.combiner == Combiner::Struct {
        return Ok(Tree::Struct(i[1..].to_vec(), addresses, types));
    }
    let old = Box::new(types.remove(0));
    let order = |number: i64| match number {
        56 => Order::C,
        _ => Order::Fortran,
    };
    let half = |list: &[i64]| {
        let (a, b) = list.split_at(list.len() / 2);
        (a.to_vec(), b.to_vec())
    };
    Ok(match envelope.combiner {
        Combiner::Dup => Tree::Dup(old),
        Combiner::Contiguous => Tree::Contiguous(i[0], old),
        Combiner::Vector => Tree::Vector(i[0], i[1], i[2], old),
        Combiner::Hvector => Tree::Hvector(i[0], i[1], addresses[0], old),
        Combiner::Indexed => {
            let (blocks, displacements) = half(&i[1..]);
            Tree::Indexed(blocks, displacements, old)
        }
        Combiner::Hindexed => Tree::Hindexed(i[1..].to_vec(), addresses, old),
        Combiner::IndexedBlock => Tree::IndexedBlock(i[1], i[2..].to_vec(), old),
        Combiner::HindexedBlock => Tree::HindexedBlock(i[1], addresses, old),
        Combiner::Subarray => {
            let n = i[0] as usize;
            let part = |k: usize| i[1 + k * n..1 + (k + 1) * n].to_vec();
            Tree::Subarray(part(0), part(1), part(2), order(i[1 + 3 * n]), old)
        }
        Combiner::Darray => {
            let n = i[2] as usize;
            let part = |k: usize| i[3 + k * n..3 + (k + 1) * n].to_vec();
            let distribution = |d: &i64| match d {
                121 => Distribution::Block,
                122 => Distribution::Cyclic,
                _ => Distribution::None,
            };
            let darray = Darray {
                size: i[0],
                rank: i[1],
                gsizes: part(0),
                distributions: part(1).iter().map(distribution).collect(),
                arguments: part(2)
                    .iter()
                    .map(|&a| (a != -49767).then_some(a))
                    .collect(),
                psizes: part(3),
                order: order(i[3 + 4 * n]),
            };
            Tree::Darray(darray, old)
        }
        Combiner::Resized => Tree::Resized(addresses[0], addresses[1], old),
        other => {
            let detail = format!("unexpected combiner {other:?}");
            return Err(Error::new(crate::Class::Intern, detail));
        }
    })
}

fn named() -> impl Strategy<Value = Tree> {
    use Predefined as P;
    let all = [
        P::Byte,
        P::Char,
        P::Short,
        P::Int,
        P::Double,
        P::Int64T,
        P::Wchar,
        P::CFloatComplex,
        P::Complex32,
        P::ShortInt,
        P::DoubleInt,
        P::FloatInt,
        P::LongDoubleInt,
        P::TwoInt,
    ];
    prop::sample::select(all.to_vec()).prop_map(Tree::Named)
}

fn order() -> impl Strategy<Value = Order> {
    prop::sample::select(vec![Order::C, Order::Fortran])
}

fn subarray() -> impl Strategy<Value = (Vec<i64>, Vec<i64>, Vec<i64>)> {
    let dimension = (1i64..6).prop_flat_map(|size| {
        (Just(size), 1..=size).prop_flat_map(|(size, sub)| (Just(size), Just(sub), 0..=size - sub))
    });
    prop::collection::vec(dimension, 1..4).prop_map(|list| {
        let sizes = list.iter().map(|d| d.0).collect();
        let subsizes = list.iter().map(|d| d.1).collect();
        (sizes, subsizes, list.iter().map(|d| d.2).collect())
    })
}

fn darray() -> impl Strategy<Value = Darray> {
    let dimension = (1i64..9, 1i64..4, 0..3, prop::option::of(1i64..5));
    let dimensions = prop::collection::vec(dimension, 1..4);
    (dimensions, any::<prop::sample::Index>(), order()).prop_map(|(list, rank, order)| {
        let mut d = Darray {
            size: 1,
            rank: 0,
            gsizes: vec![],
            distributions: vec![],
            arguments: vec![],
            psizes: vec![],
            order,
        };
        for (g, p, distribution, argument) in list {
            let (distribution, p, argument) = match distribution {
                0 => {
                    let even = (g + p - 1) / p;
                    (Distribution::Block, p, argument.map(|a| a.max(even)))
                }
                1 => (Distribution::Cyclic, p, argument),
                _ => (Distribution::None, 1, argument),
            };
            d.size *= p;
            d.gsizes.push(g);
            d.psizes.push(p);
            d.distributions.push(distribution);
            d.arguments.push(argument);
        }
        d.rank = rank.index(d.size as usize) as i64;
        d
    })
}

/// Random constructions, a few levels deep.
pub fn tree() -> impl Strategy<Value = Tree> {
    named().prop_recursive(4, 12, 3, |inner| {
        let old = inner.clone().prop_map(Box::new);
        let blocks = || prop::collection::vec((0i64..4, -6i64..12), 0..6);
        let places = || prop::collection::vec(-6i64..12, 0..6);
        let regular = (0i64..6, -3i64..4, -6i64..12)
            .prop_map(|(n, step, first)| (0..n).map(|i| first + i * step).collect::<Vec<_>>());
        let marker = prop::sample::select(vec![Marker::LowerBound, Marker::UpperBound]);
        let member = prop_oneof![
            8 => inner.clone(),
            1 => marker.prop_map(Tree::Marker),
        ];
        let members = prop::collection::vec((0i64..3, -20i64..60, member), 0..4);
        prop_oneof![
            old.clone().prop_map(Tree::Dup),
            (0i64..5, old.clone()).prop_map(|(n, t)| Tree::Contiguous(n, t)),
            (0i64..5, 0i64..4, -5i64..6, old.clone())
                .prop_map(|(n, b, s, t)| Tree::Vector(n, b, s, t)),
            (0i64..20, 0i64..3, -40i64..60, old.clone())
                .prop_map(|(n, b, s, t)| Tree::Hvector(n, b, s, t)),
            (blocks(), old.clone()).prop_map(|(l, t)| {
                let (b, d) = l.into_iter().unzip();
                Tree::Indexed(b, d, t)
            }),
            (blocks(), 1i64..5, old.clone()).prop_map(|(l, unit, t)| {
                let (b, d) = l.into_iter().map(|(b, d)| (b, d * unit)).unzip();
                Tree::Hindexed(b, d, t)
            }),
            (0i64..3, places(), old.clone()).prop_map(|(b, d, t)| Tree::IndexedBlock(b, d, t)),
            (0i64..3, regular, 1i64..9, old.clone()).prop_map(|(b, d, unit, t)| {
                Tree::HindexedBlock(b, d.into_iter().map(|d| d * unit).collect(), t)
            }),
            members.prop_map(|list| {
                let blocks = list.iter().map(|m| m.0).collect();
                let displacements = list.iter().map(|m| m.1).collect();
                Tree::Struct(
                    blocks,
                    displacements,
                    list.into_iter().map(|m| m.2).collect(),
                )
            }),
            (subarray(), order(), old.clone())
                .prop_map(|((n, sub, s), order, t)| Tree::Subarray(n, sub, s, order, t)),
            (darray(), old.clone()).prop_map(|(d, t)| Tree::Darray(d, t)),
            (-20i64..20, -30i64..60, old).prop_map(|(lb, e, t)| Tree::Resized(lb, e, t)),
        ]
    })
}
