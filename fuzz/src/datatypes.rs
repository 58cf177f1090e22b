//! Targets: constructors of datatypes, packed data, and bundles of messages.

use mpi_types::datatype::{Datatype, Distribution, Numbers, Order, Predefined};

use crate::Input;

/// Most datatypes of an input.
const MOST: usize = 24;
/// Most numbers in a list.
const LIST: u8 = 5;
/// Most bytes of a datatype's data, and of memory on either side of its origin.
const SMALL: usize = 1 << 16;
/// Initial value of memory.
const POISON: u8 = 0xa5;

const BASES: &[Predefined] = &[
    Predefined::Byte,
    Predefined::Char,
    Predefined::Int,
    Predefined::Double,
    Predefined::LongDouble,
    Predefined::DoubleInt,
    Predefined::Uint64T,
];

/// Reads a number: small, negative, near a bound, or any.
fn number(input: &mut Input) -> i64 {
    match input.byte() {
        0xff => input.word() as i64,
        code @ 0xf0.. => i64::MAX - i64::from(code - 0xf0),
        code @ 0xe0.. => i64::MIN + i64::from(code - 0xe0),
        code @ 0xc0.. => 1 << (2 * (code - 0xc0)).min(62),
        code @ 0x80.. => -i64::from(code - 0x80),
        code => code.into(),
    }
}

fn numbers(input: &mut Input, count: u8) -> Vec<i64> {
    (0..count).map(|_| number(input)).collect()
}

/// Makes a datatype from earlier ones.
fn make(input: &mut Input, known: &[Datatype]) -> mpi_types::Result<Datatype> {
    let (code, which) = (input.byte(), input.byte());
    let pick = |which: u8| known[usize::from(which) % known.len()].clone();
    let old = pick(which);
    let count = input.byte() % LIST;
    let order = match which & 0x80 {
        0 => Order::C,
        _ => Order::Fortran,
    };
    match code % 12 {
        0 => old.contiguous(number(input)),
        1 => old.vector(number(input), number(input), number(input)),
        2 => old.hvector(number(input), number(input), number(input)),
        3 => old.indexed(&numbers(input, count), &numbers(input, count)),
        4 => old.hindexed(&numbers(input, count), &numbers(input, count)),
        5 => old.indexed_block(number(input), &numbers(input, count)),
        6 => old.hindexed_block(number(input), &numbers(input, count)),
        7 => {
            let (blocks, displacements) = (numbers(input, count), numbers(input, count));
            let member = |_| match input.byte() {
                0xfe => Datatype::lower_bound(),
                0xff => Datatype::upper_bound(),
                which => pick(which),
            };
            let types: Vec<Datatype> = (0..count).map(member).collect();
            Datatype::structure(&blocks, &displacements, &types)
        }
        8 => {
            let sizes = numbers(input, count);
            old.subarray(
                &sizes,
                &numbers(input, count),
                &numbers(input, count),
                order,
            )
        }
        9 => {
            let (size, rank) = (number(input), number(input));
            let sizes = numbers(input, count);
            let distribution = |_| match input.byte() % 3 {
                0 => Distribution::Block,
                1 => Distribution::Cyclic,
                _ => Distribution::None,
            };
            let distributions: Vec<Distribution> = (0..count).map(distribution).collect();
            let arguments = numbers(input, count);
            let arguments: Vec<Option<i64>> = arguments
                .into_iter()
                .map(|it| (it != 0).then_some(it))
                .collect();
            let grid = numbers(input, count);
            old.darray(size, rank, &sizes, &distributions, &arguments, &grid, order)
        }
        10 => old.resized(number(input), number(input)),
        _ => old.dup(),
    }
}

/// Queries all properties of a datatype.
fn describe(datatype: &Datatype, input: &mut Input) {
    let constants = Numbers {
        order_c: 56,
        order_fortran: 57,
        distribute_block: 121,
        distribute_cyclic: 122,
        distribute_none: 123,
        distribute_default_argument: -49767,
        undefined: -32766,
    };
    let _ = (datatype.envelope(), datatype.contents(&constants));
    let _ = (datatype.extent(), datatype.lb(), datatype.ub());
    let _ = (
        datatype.true_lb(),
        datatype.true_extent(),
        datatype.alignment(),
    );
    let bytes = number(input) as usize;
    let _ = (datatype.count_in(bytes), datatype.bytes_of(bytes as u64));
    if let Some(elements) = datatype.elements_in(bytes) {
        let again = datatype.bytes_of(elements);
        assert!(
            again.is_none_or(|again| again <= bytes),
            "{again:?} of {bytes}"
        );
    }
    let _ = datatype.total(bytes, 3);
}

/// Unpacks and packs data if the datatype's data lies near its origin.
fn carry(datatype: &Datatype, count: usize, input: &mut Input) {
    let Some(size) = datatype
        .size()
        .checked_mul(count)
        .filter(|size| *size <= SMALL)
    else {
        return;
    };
    let small = |place: isize| place.unsigned_abs() <= SMALL;
    let steps = datatype.extent().checked_mul(count as isize);
    let is_small = small(datatype.true_lb()) && small(datatype.true_extent());
    if !is_small || !steps.is_some_and(small) {
        return;
    }
    let mut memory = vec![POISON; 8 * SMALL];
    let base = memory[4 * SMALL..].as_mut_ptr();
    let mut data = vec![input.byte(); size];
    for (place, byte) in data.iter_mut().zip(input.bytes(64)) {
        *place = *byte;
    }
    // SAFETY: the checks above keep an element's data and the steps between elements within `SMALL`
    // bytes of `base` each; `memory` has `4 * SMALL` bytes on either side.
    let end = unsafe { datatype.unpack_at(base, count, &data, 0) };
    assert_eq!(end, Ok(size as i64));
    let mut packed = vec![0; size];
    // SAFETY: the data of `count` elements lie in `memory`, within `SMALL` bytes around `base`.
    let end = unsafe { datatype.pack_at(base, count, &mut packed, 0) };
    assert_eq!(end, Ok(size as i64));
    let Ok(external) = datatype.pack_external_size(count) else {
        return;
    };
    if external <= SMALL {
        let mut packed = vec![0; external];
        // SAFETY: the data of `count` elements lie in `memory`, within `SMALL` bytes around `base`.
        let end = unsafe { datatype.pack_external(base, count, &mut packed, 0) };
        assert!(end.is_err() || end == Ok(external as i64));
        let _ = datatype.external_bytes(size);
        let cut = usize::from(input.byte());
        packed.truncate(external.saturating_sub(cut % 9));
        // SAFETY: `packed` has at most the data of `count` elements, which lie in `memory`.
        let taken = unsafe { datatype.unpack_external_part(base, &packed) };
        assert!(taken.is_err() || taken.is_ok_and(|bytes| bytes <= size));
    }
}

/// Builds datatypes from each other, and moves data by the small ones.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut known: Vec<Datatype> = BASES.iter().map(|one| Datatype::predefined(*one)).collect();
    let most = known.len() + MOST;
    while !input.is_empty() && known.len() < most {
        let Ok(datatype) = make(&mut input, &known) else {
            continue;
        };
        describe(&datatype, &mut input);
        datatype.commit();
        let count = usize::from(input.byte() % 4);
        carry(&datatype, count, &mut input);
        known.push(datatype);
    }
}

/// Splits a bundle into its messages, and bundles them again.
pub fn bundle(bytes: &[u8]) {
    use netmod_kit::bundle::{Bundle, messages};

    let mut bundle = Bundle::default();
    let mut room = vec![0; bytes.len()];
    let mut count = 0;
    for (header, payload) in messages(bytes) {
        let fits = bundle.add(&mut room, &header, payload.len(), |to| {
            to.copy_from_slice(payload)
        });
        assert!(fits, "its messages fit into the same number of bytes");
        count += 1;
    }
    assert_eq!(messages(&room[..bundle.used]).count(), count);
    assert_eq!(&room[..bundle.used], &bytes[..bundle.used]);
}
