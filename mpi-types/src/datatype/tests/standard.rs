//! The standard's own examples, error cases, and limits.

#![allow(unsafe_code, reason = "buffers of the tests")]

use crate::datatype::predefined::Predefined as P;
use crate::datatype::{
    Combiner, Datatype, Distribution, Order, Predefined, Representation, TypeClass,
};
use crate::{Class, Result};

fn named(p: Predefined) -> Datatype {
    Datatype::predefined(p)
}

/// Size, lower bound, extent, true lower bound, true extent.
fn shape(t: &Datatype) -> (usize, isize, isize, isize, isize) {
    (t.size(), t.lb(), t.extent(), t.true_lb(), t.true_extent())
}

/// {(double, 0), (char, 8)}, with an extent of 16: the standard's running example.
fn double_char() -> Datatype {
    Datatype::structure(&[1, 1], &[0, 8], &[named(P::Double), named(P::Char)]).unwrap()
}

/// Runs of one element, as (offset, length).
fn runs(t: &Datatype) -> Vec<(usize, usize)> {
    let base = std::ptr::null_mut();
    let pieces = t.blocks(base, 1, 0, usize::MAX);
    pieces.map(|(at, len)| (at as usize, len)).collect()
}

fn class(result: Result<Datatype>) -> Class {
    result.expect_err("the arguments are wrong").class()
}

#[test]
fn examples_of_the_constructors() {
    let old = double_char();
    assert_eq!(shape(&old), (9, 0, 16, 0, 9));
    // Example 4.2.
    let three = old.contiguous(3).unwrap();
    assert_eq!(runs(&three), [(0, 9), (16, 9), (32, 9)]);
    // Example 4.3.
    let vector = old.vector(2, 3, 4).unwrap();
    let expected: Vec<_> = [0, 16, 32, 64, 80, 96].map(|at| (at, 9)).to_vec();
    assert_eq!(runs(&vector), expected);
    // Example 4.4: overlapping data at a stride of -2.
    let back = old.vector(3, 1, -2).unwrap();
    assert_eq!(shape(&back), (27, -64, 80, -64, 73));
    // Example 4.5.
    let indexed = old.indexed(&[3, 1], &[4, 0]).unwrap();
    let expected: Vec<_> = [64, 80, 96, 0].map(|at| (at, 9)).to_vec();
    assert_eq!(runs(&indexed), expected);
    // Example 4.6: {(float, 0), (float, 4), type1 at 16, (char, 26) three times}.
    let mixed = Datatype::structure(
        &[2, 1, 3],
        &[0, 16, 26],
        &[named(P::Float), old.clone(), named(P::Char)],
    )
    .unwrap();
    assert_eq!(runs(&mixed), [(0, 8), (16, 9), (26, 3)]);
    assert_eq!(shape(&mixed), (20, 0, 32, 0, 29));
}

#[test]
fn bounds_as_in_section_4_1_7() {
    let resized = named(P::Int).resized(-3, 9).unwrap();
    assert_eq!(shape(&resized), (4, -3, 9, 0, 4));
    let two = resized.contiguous(2).unwrap();
    assert_eq!(shape(&two), (8, -3, 18, 0, 13));
    assert_eq!(runs(&two), [(0, 4), (9, 4)]);
}

#[test]
fn markers_of_mpi_1_set_bounds() {
    let (lower, upper) = (Datatype::lower_bound(), Datatype::upper_bound());
    let int = named(P::Int);
    let t = Datatype::structure(
        &[1, 1, 1],
        &[-4, 0, 20],
        &[lower.clone(), int.clone(), upper.clone()],
    );
    assert_eq!(shape(&t.unwrap()), (4, -4, 24, 0, 4));
    // An upper bound below the data, and no padding then.
    let t = Datatype::structure(&[1, 1], &[0, 2], &[int.clone(), upper.clone()]);
    assert_eq!(shape(&t.unwrap()), (4, 0, 2, 0, 4));
    // A lower bound alone leaves the padding.
    let t = Datatype::structure(
        &[1, 1, 1],
        &[0, 8, -1],
        &[named(P::Double), named(P::Char), lower.clone()],
    );
    assert_eq!(shape(&t.unwrap()), (9, -1, 17, 0, 9));
    // Bounds without data; the outermost upper bound counts.
    let t = Datatype::structure(&[1, 1, 1], &[-3, 9, 7], &[lower, upper.clone(), upper]).unwrap();
    assert_eq!(shape(&t), (0, -3, 12, 0, 0));
    assert_eq!(t.envelope().combiner, Combiner::Struct);
}

#[test]
fn padding_follows_the_c_abi() {
    let char_at = |p: Predefined| {
        let first = named(p);
        let at = first.extent() as i64;
        Datatype::structure(&[1, 1], &[0, at], &[first, named(P::Char)]).unwrap()
    };
    // As Debian's MPICH has them.
    for (p, extent) in [
        (P::Short, 4),
        (P::Int, 8),
        (P::Long, 16),
        (P::Double, 16),
        (P::LongDouble, 32),
        (P::CFloatComplex, 12),
        (P::CDoubleComplex, 24),
        (P::CLongDoubleComplex, 48),
        (P::TwoInt, 12),
        (P::FloatInt, 12),
        (P::ShortInt, 12),
        (P::DoubleInt, 24),
        (P::LongInt, 24),
        (P::LongDoubleInt, 48),
        (P::CBool, 2),
    ] {
        assert_eq!(char_at(p).extent(), extent, "{}", p.name());
    }
}

#[test]
fn structs_of_one_type_are_not_padded() {
    let (int, short) = (named(P::Int), named(P::Short));
    let t = Datatype::structure(&[1, 1], &[0, 5], &[int.clone(), int.clone()]).unwrap();
    assert_eq!(shape(&t), (8, 0, 9, 0, 9));
    let t = Datatype::structure(&[1, 1], &[0, 5], &[int.clone(), short]).unwrap();
    assert_eq!(shape(&t), (6, 0, 8, 0, 7));
    let odd = int.resized(0, 5).unwrap();
    let t = Datatype::structure(&[2], &[0], &[odd]).unwrap();
    assert_eq!(shape(&t), (8, 0, 10, 0, 9));
}

/// The padding of section 5.1 of MPI-4.1 goes by the types in the type map, where empty members have none.
#[test]
fn members_without_data_are_not_aligned() {
    let empty = named(P::Long).contiguous(0).unwrap().resized(0, 8).unwrap();
    let t = Datatype::structure(&[1, 1], &[0, 8], &[empty.clone(), named(P::Short)]).unwrap();
    assert_eq!(shape(&t), (2, 0, 10, 8, 2));
    let full = named(P::Long).resized(0, 8).unwrap();
    let t = Datatype::structure(&[1, 1], &[0, 8], &[full, named(P::Short)]).unwrap();
    assert_eq!(shape(&t), (10, 0, 16, 0, 10));
}

#[test]
fn elements_as_in_example_4_21() {
    let real = named(P::Real);
    let pair = real.contiguous(2).unwrap();
    assert_eq!((pair.count_in(8), pair.elements_in(8)), (Some(1), Some(2)));
    assert_eq!((pair.count_in(12), pair.elements_in(12)), (None, Some(3)));
    assert_eq!((pair.count_in(13), pair.elements_in(13)), (None, None));
    let empty = real.contiguous(0).unwrap();
    assert_eq!(
        (empty.count_in(0), empty.elements_in(0)),
        (Some(0), Some(0))
    );
    assert_eq!((empty.count_in(4), empty.elements_in(4)), (None, None));
    assert_eq!(named(P::DoubleInt).elements_in(20), Some(3));
}

#[test]
fn a_matrix_is_transposed_as_in_example_4_15() {
    const N: usize = 10;
    let column = named(P::Double).vector(N as i64, 1, N as i64).unwrap();
    let all = column.hvector(N as i64, 1, 8).unwrap();
    all.commit();
    let a: Vec<f64> = (0..N * N).map(|i| i as f64).collect();
    let mut packed = vec![0u8; 8 * N * N];
    // SAFETY: the type describes the whole of `a`.
    unsafe { all.pack(a.as_ptr().cast(), 1, 0, &mut packed) };
    for (index, value) in packed.chunks(8).enumerate() {
        let (i, j) = (index / N, index % N);
        assert_eq!(f64::from_ne_bytes(value.try_into().unwrap()), a[j * N + i]);
    }
}

#[test]
fn a_distributed_array_as_in_section_4_1_4() {
    // A Fortran array of 100 x 200 x 300, cyclic(10) over 2, block over 3, not distributed.
    let t = named(P::Double).darray(
        6,
        3,
        &[100, 200, 300],
        &[
            Distribution::Cyclic,
            Distribution::None,
            Distribution::Block,
        ],
        &[Some(10), None, None],
        &[2, 1, 3],
        Order::Fortran,
    );
    let t = t.unwrap();
    // Process (1, 0, 0): the second ten of each twenty, and the first 100 of 300.
    assert_eq!(t.size(), 50 * 200 * 100 * 8);
    assert_eq!((t.lb(), t.extent()), (0, 100 * 200 * 300 * 8));
    assert_eq!(t.true_lb(), 80);
    let first: Vec<_> = t.blocks(std::ptr::null_mut(), 1, 0, 6).collect();
    let expected = [80, 240, 400, 560, 720, 880].map(|at| (at as *mut u8, 80));
    assert_eq!(first, expected);
}

#[test]
fn blocks_are_merged_and_vectors_recognised() {
    let byte = named(P::Byte);
    let merged = byte.indexed(&[2, 3, 1], &[0, 2, 5]).unwrap();
    assert_eq!(merged.as_block(1), Some((0, 6)));
    assert!(merged.is_contiguous());
    // A face of a cube is a vector of the row's length over all planes.
    let cube = [16, 16, 16];
    let face = |sub: [i64; 3]| {
        named(P::Double)
            .subarray(&cube, &sub, &[0; 3], Order::C)
            .unwrap()
    };
    assert_eq!(face([1, 16, 16]).as_block(1), Some((0, 2048)));
    assert!(!face([1, 16, 16]).is_contiguous());
    assert_eq!(runs(&face([16, 1, 16])).len(), 16);
    assert_eq!(runs(&face([16, 16, 1])).len(), 256);
    // A struct without gaps is one run.
    let int = named(P::Int);
    let t = Datatype::structure(&[2, 1], &[0, 8], &[int, named(P::Float)]).unwrap();
    assert!(t.is_contiguous());
    assert_eq!(t.element(), None);
}

#[test]
fn the_only_element_is_known() {
    let pairs = named(P::DoubleInt).vector(3, 1, 2).unwrap();
    assert_eq!(pairs.element(), Some(P::DoubleInt));
    assert_eq!(pairs.as_predefined(), None);
    let both = Datatype::structure(&[1, 2], &[0, 48], &[pairs, named(P::DoubleInt)]).unwrap();
    assert_eq!(both.element(), Some(P::DoubleInt));
    assert_eq!(named(P::Int).dup().unwrap().element(), Some(P::Int));
    assert_eq!(
        Datatype::f90_real(Some(10), None).unwrap().element(),
        Some(P::Real8)
    );
}

#[test]
fn signatures_are_compared() {
    let ints = named(P::Int).contiguous(4).unwrap();
    let spread = named(P::Int).vector(4, 1, 3).unwrap();
    let floats = named(P::Float).contiguous(4).unwrap();
    let of = |t: &Datatype| t.signature(16).unwrap();
    assert!(of(&ints).matches(&of(&spread)));
    assert!(!of(&ints).matches(&of(&floats)));
    assert!(of(&floats).matches(&named(P::Byte).signature(16).unwrap()));
    assert!(!of(&floats).matches(&named(P::Byte).signature(15).unwrap()));
    assert!(of(&ints).matches(&named(P::TwoInt).signature(16).unwrap()));
    assert_eq!(of(&ints).elements(), 4);
}

#[test]
fn fortran_types_by_precision_and_range() {
    let kind = |t: Result<Datatype>| t.unwrap().element().unwrap().kind();
    assert_eq!(
        kind(Datatype::f90_real(Some(6), Some(30))),
        Representation::F32
    );
    assert_eq!(
        kind(Datatype::f90_real(Some(15), None)),
        Representation::F64
    );
    assert_eq!(
        kind(Datatype::f90_real(None, Some(100))),
        Representation::F64
    );
    let long_double = named(P::LongDouble).element().unwrap().kind();
    assert_eq!(kind(Datatype::f90_real(Some(18), None)), long_double);
    if cfg!(target_arch = "powerpc64") {
        // Pairs of doubles.
        assert_eq!(kind(Datatype::f90_real(Some(31), Some(291))), long_double);
        assert_eq!(class(Datatype::f90_real(Some(33), None)), Class::Arg);
        assert_eq!(class(Datatype::f90_real(Some(16), Some(300))), Class::Arg);
    } else {
        assert_eq!(
            kind(Datatype::f90_real(Some(33), None)),
            Representation::F128
        );
    }
    assert_eq!(
        kind(Datatype::f90_complex(Some(7), None)),
        Representation::C64
    );
    assert_eq!(kind(Datatype::f90_integer(9)), Representation::I32);
    assert_eq!(class(Datatype::f90_real(Some(40), None)), Class::Arg);
    assert_eq!(class(Datatype::f90_real(None, None)), Class::Arg);
    assert_eq!(kind(Datatype::f90_integer(19)), Representation::I128);
    assert_eq!(class(Datatype::f90_integer(39)), Class::Arg);
    let t = Datatype::f90_real(Some(10), None).unwrap();
    assert!(t.is_committed() && t.is_builtin());
    let contents = t.contents(&super::naive::NUMBERS).unwrap();
    assert_eq!(contents.integers, [10, -32766]);
    let found = Datatype::match_size(TypeClass::Complex, 16).unwrap();
    assert_eq!(found.as_predefined(), Some(P::Complex16));
    assert_eq!(class(Datatype::match_size(TypeClass::Real, 3)), Class::Arg);
}

#[test]
fn committing_is_seen_by_clones_and_inherited_by_dup() {
    let t = named(P::Int).vector(2, 1, 2).unwrap();
    let clone = t.clone();
    assert!(!t.is_committed() && !t.dup().unwrap().is_committed());
    t.commit();
    assert!(clone.is_committed() && t.dup().unwrap().is_committed());
    assert!(!t.contiguous(2).unwrap().is_committed());
    assert!(named(P::Int).is_committed());
}

#[test]
fn wrong_arguments_are_refused() {
    let int = named(P::Int);
    assert_eq!(class(int.contiguous(-1)), Class::Count);
    assert_eq!(class(int.vector(-1, 1, 1)), Class::Count);
    assert_eq!(class(int.vector(1, -1, 1)), Class::Arg);
    assert_eq!(class(int.indexed(&[1, -2], &[0, 1])), Class::Arg);
    assert_eq!(class(int.indexed(&[1, 2], &[0])), Class::Arg);
    assert_eq!(class(Datatype::structure(&[1], &[0], &[])), Class::Arg);
    let sub = |n, sub, start| int.subarray(&[4, n], &[2, sub], &[0, start], Order::C);
    assert_eq!(class(sub(4, 5, 0)), Class::Arg);
    assert_eq!(class(sub(4, 0, 0)), Class::Arg);
    assert_eq!(class(sub(4, 2, 3)), Class::Arg);
    assert_eq!(class(sub(4, 2, -1)), Class::Arg);
    assert_eq!(class(sub(0, 0, 0)), Class::Arg);
    assert_eq!(class(int.subarray(&[], &[], &[], Order::C)), Class::Arg);
    let darray = |rank, distribution, argument, processes| {
        let (distributions, arguments) = ([distribution], [argument]);
        int.darray(
            3,
            rank,
            &[8],
            &distributions,
            &arguments,
            &[processes],
            Order::C,
        )
    };
    assert_eq!(class(darray(3, Distribution::Block, None, 3)), Class::Arg);
    assert_eq!(class(darray(0, Distribution::Block, None, 2)), Class::Arg);
    assert_eq!(
        class(darray(0, Distribution::Block, Some(2), 3)),
        Class::Arg
    );
    assert_eq!(
        class(darray(0, Distribution::Cyclic, Some(0), 3)),
        Class::Arg
    );
    assert_eq!(class(darray(0, Distribution::None, None, 3)), Class::Arg);
    assert!(darray(2, Distribution::Cyclic, Some(3), 3).is_ok());
    let error = int.contents(&super::naive::NUMBERS).unwrap_err();
    assert_eq!(error.class(), Class::Type);
    let error = int.vector(3, -2, 4).unwrap_err();
    assert_eq!(error.detail(), "blocklength is -2; it must be 0 or more");
}

#[test]
fn overflow_is_an_error() {
    let double = named(P::Double);
    assert_eq!(class(double.contiguous(i64::MAX)), Class::Arg);
    assert_eq!(class(double.vector(2, 1, i64::MAX)), Class::Arg);
    assert_eq!(class(double.hvector(3, 1, i64::MAX)), Class::Arg);
    assert_eq!(class(double.vector(i64::MAX, i64::MAX, 0)), Class::Arg);
    assert_eq!(class(double.hindexed(&[1], &[i64::MAX])), Class::Arg);
    assert_eq!(class(double.hindexed(&[1, 1], &[i64::MIN, 8])), Class::Arg);
    assert_eq!(
        class(double.indexed(&[i64::MAX, i64::MAX], &[0, 0])),
        Class::Arg
    );
    assert_eq!(class(double.resized(i64::MAX, 1)), Class::Arg);
    assert_eq!(
        class(double.subarray(&[i64::MAX, 2], &[1, 1], &[0, 0], Order::C)),
        Class::Arg
    );
    let big = [i64::MAX];
    let cyclic = [Distribution::Cyclic];
    let t = named(P::Byte).darray(1, 0, &big, &cyclic, &[Some(i64::MAX)], &[1], Order::C);
    assert_eq!(t.unwrap().size(), i64::MAX as usize);
    // A stride that is not used may be anything.
    assert!(double.vector(1, 1, i64::MAX).is_ok());
    // Large is fine where it fits.
    let t = double.contiguous(1 << 40).unwrap();
    assert_eq!((t.size(), t.extent()), (1 << 43, 1 << 43));
    let t = double.hvector(2, 1, 1 << 50).unwrap();
    assert_eq!(runs(&t), [(0, 8), (1 << 50, 8)]);
    assert_eq!(t.pack_size(usize::MAX).unwrap_err().class(), Class::Arg);
}

#[test]
fn deep_types_need_no_deep_stack() {
    // On a thread with the stack that Rust gives by default.
    let deep = std::thread::spawn(|| {
        let mut t = named(P::Short);
        for level in 1..=20_000_i64 {
            // Alternately a gap before and a gap after, so that nothing can be merged.
            let at = if level % 2 == 0 { 1 } else { 0 };
            let extent = t.extent() as i64 + 2;
            t = Datatype::structure(&[1, 1], &[at, extent + 1], &[t, named(P::Byte)]).unwrap();
        }
        let runs = runs(&t);
        let total: usize = runs.iter().map(|run| run.1).sum();
        assert_eq!(total, t.size());
        let buffer = vec![0u8; t.true_extent() as usize + t.true_lb() as usize];
        let mut out = vec![1; t.size()];
        // SAFETY: the buffer is as long as the type.
        unsafe { t.pack(buffer.as_ptr(), 1, 0, &mut out) };
        assert!(out.iter().all(|&byte| byte == 0));
        assert!(t.elements_in(t.size()).is_some());
        assert!(t.to_string().len() < 500);
    });
    deep.join().unwrap();
}

#[test]
fn descriptions_are_short() {
    let t = named(P::Double).vector(3, 2, 4).unwrap();
    assert_eq!(t.to_string(), "vector(3, 2, 4) of MPI_DOUBLE");
    let t = t.indexed(&[1; 9], &[0, 1, 2, 3, 4, 5, 6, 7, 9]).unwrap();
    assert_eq!(
        t.to_string(),
        "indexed([1, 1, 1, 1, … 9 in all], [0, 1, 2, 3, … 9 in all]) of vector(3, 2, 4) of \
         MPI_DOUBLE"
    );
    let int = named(P::Int);
    let t = Datatype::structure(&[1, 2], &[0, 8], &[int, Datatype::upper_bound()]).unwrap();
    assert_eq!(t.to_string(), "struct([1, 2], [0, 8]) of [MPI_INT, MPI_UB]");
}

#[test]
fn packing_checks_its_room() {
    let int = named(P::Int);
    let (data, mut out) = ([7i32, 8], [0u8; 8]);
    let base = data.as_ptr().cast();
    let mut class = |count, position| {
        // SAFETY: `data` has as many elements as are packed before an error.
        unsafe { int.pack_at(base, count, &mut out, position) }.map_err(|e| e.class())
    };
    assert_eq!(class(1, 0), Ok(4));
    assert_eq!(class(1, 4), Ok(8));
    assert_eq!(class(0, 8), Ok(8));
    assert_eq!(class(1, 5), Err(Class::Truncate));
    assert_eq!(class(usize::MAX, 0), Err(Class::Truncate));
    assert_eq!(class(1, 9), Err(Class::Arg));
    assert_eq!(class(1, -1), Err(Class::Arg));
    let mut back = [0i32; 2];
    // SAFETY: `back` has two elements.
    let end = unsafe { int.unpack_at(back.as_mut_ptr().cast(), 2, &out, 0) };
    assert_eq!((end.unwrap(), back), (8, [7, 7]));
}

#[test]
fn external32_of_many_short_runs() {
    // 9 bytes and 5: converted in pieces that no number of elements fills.
    let types = [named(P::Char), named(P::Long)];
    let t = Datatype::structure(&[1, 1], &[0, 8], &types).unwrap();
    let count = 2000;
    let data: Vec<[i64; 2]> = (0..count).map(|n| [n % 100, -n]).collect();
    let mut packed = vec![0; t.pack_external_size(data.len()).unwrap()];
    assert_eq!(packed.len(), 5 * data.len());
    // SAFETY: the data are as many elements, and the type covers 16 bytes of each.
    let end = unsafe { t.pack_external(data.as_ptr().cast(), data.len(), &mut packed, 0) };
    assert_eq!(end.unwrap(), packed.len() as i64);
    for (n, element) in packed.chunks_exact(5).enumerate() {
        let long = (-(n as i32)).to_be_bytes();
        assert_eq!(
            (element[0], &element[1..]),
            ((n % 100) as u8, &long[..]),
            "{n}"
        );
    }
    let mut back = vec![[0i64; 2]; data.len()];
    // SAFETY: `back` has the type map's elements.
    let end = unsafe { t.unpack_external(back.as_mut_ptr().cast(), back.len(), &packed, 0) };
    assert_eq!(end.unwrap(), packed.len() as i64);
    assert_eq!(back, data);
}

#[test]
fn external32_has_the_standards_sizes() {
    for (p, size) in [
        (P::Wchar, 2),
        (P::Short, 2),
        (P::Int, 4),
        (P::Long, 4),
        (P::UnsignedLong, 4),
        (P::LongLong, 8),
        (P::Int64T, 8),
        (P::Aint, 8),
        (P::Count, 8),
        (P::LongDouble, 16),
        (P::CBool, 1),
        (P::Logical, 4),
        (P::CLongDoubleComplex, 32),
        (P::LongInt, 8),
        (P::ShortInt, 6),
        (P::Packed, 1),
    ] {
        let t = named(p);
        assert_eq!(t.pack_external_size(3).unwrap(), 3 * size, "{}", p.name());
    }
    // Values that do not fit are found wherever they are.
    let longs = [1i64, 1 << 33];
    let mut out = [0; 8];
    // SAFETY: both longs are there.
    let packed = unsafe { named(P::Long).pack_external(longs.as_ptr().cast(), 2, &mut out, 0) };
    assert_eq!(packed.unwrap_err().class(), Class::Conversion);
}
