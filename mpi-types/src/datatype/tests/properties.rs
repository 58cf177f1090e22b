//! Random datatypes against the naive type map. Proptest prints and keeps the seeds of failures.

#![allow(unsafe_code, reason = "buffers of the tests")]

use proptest::prelude::*;

use super::naive::{Map, Tree, decode, tree};
use crate::Class;
use crate::datatype::{Cursor, Datatype, Predefined, Representation};

/// Larger type maps than that only cost time.
const LIMIT: usize = 20_000;

fn small(tree: &Tree) -> Option<(Datatype, Map)> {
    let datatype = tree.build().expect("arguments are in range");
    (datatype.size() <= LIMIT).then(|| (datatype, tree.map()))
}

/// A buffer that holds `count` elements, each byte different from its neighbours, and where
/// the elements' address is in it.
fn buffer(map: &Map, count: usize) -> (Vec<u8>, usize) {
    let bytes = map.bytes(count);
    let low = bytes.iter().copied().min().unwrap_or(0).min(0);
    let high = bytes.iter().copied().max().unwrap_or(0).max(0);
    let data = (0..high - low + 1)
        .map(|i| (i * 7 + i / 256) as u8)
        .collect();
    (data, -low as usize)
}

/// A kind of its own predefined type.
fn predefined(kind: Representation) -> Datatype {
    let row = Predefined::TABLE.iter().find(|row| row.2 == kind);
    Datatype::predefined(row.expect("every kind has a type").0)
}

/// What one value becomes in external32.
fn external(kind: Representation, value: &[u8]) -> Vec<u8> {
    let mut out = value.to_vec();
    let width = match kind {
        Representation::C16 => 2,
        Representation::C32 => 4,
        Representation::C64 => 8,
        Representation::C80 | Representation::C128 => 16,
        other => other.size(),
    };
    out.chunks_mut(width).for_each(<[u8]>::reverse);
    match kind {
        Representation::Wchar => out.split_off(2),
        // Sign and exponent are the same bits; the leading bit disappears.
        Representation::F80 => {
            let significand = u64::from_be_bytes(out[8..].try_into().unwrap());
            let fraction = u128::from(significand << 1) << 48;
            let head = u16::from_be_bytes([out[6], out[7]]);
            ((u128::from(head) << 112) | fraction)
                .to_be_bytes()
                .to_vec()
        }
        _ => out,
    }
}

/// Packs and unpacks a part of `count` elements.
fn packs(tree: &Tree, count: usize, from: f64, to: f64) -> Result<(), TestCaseError> {
    let Some((t, map)) = small(tree) else {
        return Ok(());
    };
    let offsets = map.bytes(count);
    let (mut data, base) = buffer(&map, count);
    let at = |offset: i64| (base as i64 + offset) as usize;
    let skip = (offsets.len() as f64 * from) as usize;
    let end = (offsets.len() as f64 * to) as usize;
    let end = end.min(offsets.len()).max(skip);
    let expected: Vec<u8> = offsets[skip..end].iter().map(|&o| data[at(o)]).collect();

    let mut packed = vec![0; end - skip];
    // SAFETY: the buffer covers the type map.
    unsafe { t.pack(data.as_ptr().add(base), count, skip, &mut packed) };
    prop_assert_eq!(&packed, &expected);

    let fresh: Vec<u8> = (0..packed.len()).map(|i| (i * 31 + 5) as u8).collect();
    let mut written = data.clone();
    for (&offset, &byte) in offsets[skip..end].iter().zip(&fresh) {
        written[at(offset)] = byte;
    }
    // SAFETY: the buffer covers the type map.
    unsafe { t.unpack(data.as_mut_ptr().add(base), count, skip, &fresh) };
    prop_assert_eq!(data, written);
    Ok(())
}

/// Types with more blocks than are taken apart, so that all forms of layout appear.
fn many() -> impl Strategy<Value = Tree> {
    let basic = prop::sample::select(vec![Predefined::Byte, Predefined::Short, Predefined::Int]);
    let basic = basic.prop_map(|p| Box::new(Tree::Named(p)));
    let places = prop::collection::vec(0i64..4, 17..30).prop_map(|gaps| {
        let steps = gaps.iter().scan(0, |at, gap| {
            *at += gap + 2;
            Some(*at)
        });
        steps.collect::<Vec<_>>()
    });
    let row = prop_oneof![
        (17i64..30, 1i64..5, 5i64..9, basic.clone())
            .prop_map(|(n, b, s, t)| Tree::Vector(n, b, s, t)),
        (1i64..3, places.clone(), basic).prop_map(|(b, d, t)| Tree::IndexedBlock(b, d, t)),
    ];
    let row = row.prop_map(Box::new);
    let groups = prop::collection::vec((0i64..3, -4i64..9), 1..5);
    let plane = prop_oneof![
        (1i64..5, -400i64..400, row.clone()).prop_map(|(n, s, t)| Tree::Hvector(n, 1, s, t)),
        (groups, row.clone()).prop_map(|(list, t)| {
            let (b, d) = list.into_iter().unzip();
            Tree::Indexed(b, d, t)
        }),
        row.prop_map(|t| *t),
    ];
    let member = (0i64..3, -300i64..300, plane);
    prop::collection::vec(member, 1..4).prop_map(|list| {
        let blocks = list.iter().map(|m| m.0).collect();
        let displacements = list.iter().map(|m| m.1).collect();
        let types = list.into_iter().map(|m| m.2).collect();
        Tree::Struct(blocks, displacements, types)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn sizes_and_bounds(tree in tree()) {
        let Some((t, map)) = small(&tree) else { return Ok(()) };
        let size: usize = map.entries.iter().map(|e| e.0.size()).sum();
        prop_assert_eq!(t.size(), size);
        let (lb, ub) = map.bounds.unwrap_or((0, 0));
        prop_assert_eq!((t.lb() as i64, t.ub() as i64), (lb, ub));
        prop_assert_eq!(t.extent() as i64, ub - lb);
        let (low, high) = map.true_bounds();
        prop_assert_eq!((t.true_lb() as i64, t.true_extent() as i64), (low, high - low));
        let three = map.bytes(3);
        let one_run = three.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if t.is_contiguous() {
            prop_assert!(one_run);
            prop_assert_eq!(three.first().copied().unwrap_or(0), t.true_lb() as i64);
        }
        if let Some((at, len)) = t.as_block(1) {
            let bytes: Vec<i64> = (at as i64..at as i64 + len as i64).collect();
            prop_assert_eq!(bytes, map.bytes(1));
        }
    }

    #[test]
    fn packing(tree in tree(), count in 0usize..4, from in 0.0..1.0f64, to in 0.0..1.2f64) {
        packs(&tree, count, from, to)?;
    }

    #[test]
    fn packing_of_many_blocks(
        tree in many(), count in 1usize..4, from in 0.0..1.0f64, to in 0.0..1.2f64,
    ) {
        packs(&tree, count, from, to)?;
    }

    #[test]
    fn packing_of_all_block_sizes(
        block in 1i64..300, gap in 0i64..20, n in 1i64..12, skip in 0.0..0.3f64, at in -90i64..90,
    ) {
        let byte = Box::new(Tree::Named(Predefined::Byte));
        let places = |i: i64| i * (block + gap) + at * (i % 3);
        let vector = Tree::Hvector(n, block, block + gap, byte.clone());
        packs(&vector, 1, skip, 1.0 - skip)?;
        let listed = Tree::HindexedBlock(block, (0..n).map(places).collect(), byte.clone());
        packs(&listed, 1, skip, 1.0 - skip)?;
        let mixed = (0..n).map(|i| block + i % 2).collect();
        let places = (0..n).map(|i| i * (block + gap + 1)).collect();
        packs(&Tree::Hindexed(mixed, places, byte), 2, skip, 1.0 - skip)?;
    }

    #[test]
    fn cursors_and_pieces(tree in tree(), count in 0usize..4, step in 1usize..40, max in 1usize..40) {
        let Some((t, map)) = small(&tree) else { return Ok(()) };
        let offsets = map.bytes(count);
        let (data, base) = buffer(&map, count);
        let address = data.as_ptr().wrapping_add(base);
        let expected: Vec<u8> =
            offsets.iter().map(|&o| data[(base as i64 + o) as usize]).collect();

        let mut cursor = Cursor::new(t.clone(), count);
        let mut all = Vec::new();
        let mut some = vec![0; step];
        loop {
            // SAFETY: the buffer covers the type map.
            let n = unsafe { cursor.pack(address, &mut some) };
            all.extend_from_slice(&some[..n]);
            if n == 0 { break; }
        }
        prop_assert_eq!(cursor.remaining(), 0);
        prop_assert_eq!(&all, &expected);

        let (mut seen, mut skip) = (Vec::new(), 0);
        while skip < offsets.len() {
            let mut pieces = t.blocks(address.cast_mut(), count, skip, max);
            let mut number = 0;
            for (at, len) in &mut pieces {
                prop_assert!(len > 0);
                let first = at as i64 - address as i64;
                seen.extend(first..first + len as i64);
                number += 1;
            }
            prop_assert!(0 < number && number <= max);
            prop_assert_eq!(pieces.position(), seen.len());
            skip = pieces.position();
        }
        prop_assert_eq!(seen, offsets);
    }

    #[test]
    fn elements_and_signatures(tree in tree(), count in 0usize..4) {
        let Some((t, map)) = small(&tree) else { return Ok(()) };
        let kinds: Vec<Representation> = (0..count).flat_map(|_| map.entries.iter().map(|e| e.0)).collect();
        let types: Vec<Datatype> = kinds.iter().map(|&kind| predefined(kind)).collect();
        let (mut bytes, mut elements) = (0, 0);
        let stride = kinds.len() / 16 + 1;
        for (index, kind) in kinds.iter().enumerate() {
            prop_assert_eq!(t.elements_in(bytes), Some(elements));
            prop_assert_eq!(t.bytes_of(elements), Some(bytes));
            if kind.size() > 1 {
                prop_assert_eq!(t.elements_in(bytes + 1), None);
                prop_assert!(t.signature(bytes + 1).is_none());
            }
            if index % stride == 0 {
                let flat = Datatype::structure(
                    &vec![1; index], &vec![0; index], &types[..index],
                ).unwrap();
                prop_assert_eq!(flat.size(), bytes);
                prop_assert_eq!(flat.signature(bytes), t.signature(bytes));
            }
            bytes += kind.size();
            elements += 1;
        }
        prop_assert_eq!(t.elements_in(bytes), Some(elements));
        prop_assert_eq!(t.count_in(bytes), Some(if bytes == 0 { 0 } else { count }));
    }

    #[test]
    fn contents_rebuild_the_type(tree in tree()) {
        let Some((t, map)) = small(&tree) else { return Ok(()) };
        let again = decode(&t).unwrap();
        prop_assert_eq!(again.map(), map);
        let rebuilt = again.build().unwrap();
        prop_assert_eq!(rebuilt.to_string(), t.to_string());
        prop_assert_eq!(rebuilt.signature(t.size()), t.signature(t.size()));
        prop_assert_eq!(rebuilt.element(), t.element());
    }

    #[test]
    fn external32(tree in tree(), count in 0usize..3) {
        let Some((t, map)) = small(&tree) else { return Ok(()) };
        // Unpacking into one place twice has no defined result.
        let mut places = map.bytes(count);
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0] == pair[1]) { return Ok(()) }

        let (mut data, base) = buffer(&map, count);
        let at = |offset: i64| (base as i64 + offset) as usize;
        let mut expected = Vec::new();
        for element in 0..count as i64 {
            for &(kind, offset) in &map.entries {
                let first = at(offset + element * map.extent());
                let value = &mut data[first..first + kind.size()];
                match kind {
                    Representation::Wchar => value.copy_from_slice(&0xbeefu32.to_ne_bytes()),
                    // Normal numbers, with nothing in the padding.
                    Representation::F80 => {
                        value[7] |= 0x80;
                        (value[8], value[9]) = (0x12, 0x34);
                        value[10..].fill(0);
                    }
                    _ => {}
                }
                expected.extend(external(kind, value));
            }
        }
        let size = t.pack_external_size(count).unwrap();
        prop_assert_eq!(size, expected.len());
        let mut packed = vec![0xaa; size + 3];
        // SAFETY: the buffer covers the type map.
        let end = unsafe { t.pack_external(data.as_ptr().add(base), count, &mut packed, 3) };
        let is_extended = |kind| matches!(kind, Representation::F80 | Representation::C80);
        let has_extended = map.entries.iter().any(|&(kind, _)| is_extended(kind));
        if cfg!(target_arch = "powerpc64") && has_extended && count > 0 {
            // Pairs of doubles, which have no conversion.
            prop_assert_eq!(end.unwrap_err().class(), Class::Conversion);
            return Ok(());
        }
        prop_assert_eq!(end.unwrap() as usize, size + 3);
        prop_assert_eq!(&packed[3..], &expected);

        let mut back = data.clone();
        for &offset in &places { back[at(offset)] ^= 0xff; }
        // SAFETY: the buffer covers the type map.
        let end = unsafe { t.unpack_external(back.as_mut_ptr().add(base), count, &packed, 3) };
        prop_assert_eq!(end.unwrap() as usize, size + 3);
        prop_assert_eq!(back, data);
    }
}
