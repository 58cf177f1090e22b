use super::*;

#[test]
fn contiguous_of_ints_is_one_run() {
    let t = Datatype::predefined(Predefined::Int).contiguous(5).unwrap();
    assert_eq!((t.size(), t.extent(), t.lb()), (20, 20, 0));
    assert!(t.is_contiguous());
    let data: Vec<u8> = (0..40).collect();
    let mut out = [0; 7];
    // SAFETY: two elements of 20 bytes are there.
    unsafe { t.pack(data.as_ptr(), 2, 17, &mut out) };
    assert_eq!(out, [17, 18, 19, 20, 21, 22, 23]);
}

#[test]
fn short_int_skips_its_gap() {
    let t = Datatype::predefined(Predefined::ShortInt)
        .contiguous(2)
        .unwrap();
    assert_eq!((t.size(), t.extent()), (12, 16));
    let data: Vec<u8> = (0..16).collect();
    let mut out = [0; 9];
    // SAFETY: one element of extent 16 is there.
    unsafe { t.pack(data.as_ptr(), 1, 1, &mut out) };
    assert_eq!(out, [1, 4, 5, 6, 7, 8, 9, 12, 13]);
    let mut back = [0u8; 16];
    // SAFETY: as above.
    unsafe { t.unpack(back.as_mut_ptr(), 1, 1, &out) };
    assert_eq!(back, [0, 1, 0, 0, 4, 5, 6, 7, 8, 9, 0, 0, 12, 13, 0, 0]);
}
