use super::*;
use mpi_types::datatype::Predefined;

fn int() -> Datatype {
    Datatype::predefined(Predefined::Int)
}

fn view(displacement: i64, etype: &Datatype, filetype: &Datatype) -> Result<View> {
    etype.commit();
    filetype.commit();
    View::new(displacement, etype, filetype, Representation::Native, true)
}

#[test]
fn runs_follow_the_filetype() {
    let filetype = int().vector(2, 1, 3).unwrap().resized(0, 24).unwrap();
    let view = view(100, &int(), &filetype).unwrap();
    let runs: Vec<_> = view.runs(0, 16).map(|run| (run.at, run.len)).collect();
    assert_eq!(runs, [(100, 4), (112, 4), (124, 4), (136, 4)]);
    let runs: Vec<_> = view.runs(6, 5).map(|run| (run.at, run.len)).collect();
    assert_eq!(runs, [(114, 2), (124, 3)]);
    assert_eq!(view.span(4, 8), 112..128);
    assert_eq!(view.etypes_before(0), 0);
    assert_eq!(view.etypes_before(100), 0);
    assert_eq!(view.etypes_before(101), 1);
    assert_eq!(view.etypes_before(125), 3);
}

#[test]
fn adjacent_runs_are_one() {
    let filetype = int().contiguous(2).unwrap().resized(0, 16).unwrap();
    let view = view(0, &int(), &filetype).unwrap();
    let runs: Vec<_> = view.runs(0, 24).map(|run| (run.at, run.len)).collect();
    assert_eq!(runs, [(0, 8), (16, 8), (32, 8)]);
    let dense = self::view(8, &int(), &int()).unwrap();
    let runs: Vec<_> = dense
        .runs(4, 1 << 40)
        .map(|run| (run.at, run.len))
        .collect();
    assert_eq!(runs, [(12, 1 << 40)]);
}

/// Overlap is allowed only for reading (section 13.3).
#[test]
fn overlap_is_detected() {
    let read_only = |filetype: Datatype| {
        filetype.commit();
        int().commit();
        View::new(0, &int(), &filetype, Representation::Native, false).unwrap()
    };
    let twice = read_only(int().indexed(&[2, 3], &[0, 1]).unwrap());
    assert!(twice.overlaps);
    assert_eq!(twice.span(0, 20), 0..16);
    assert_eq!(twice.span(4, 8), 4..8);
    let tiles = read_only(int().contiguous(3).unwrap().resized(0, 4).unwrap());
    assert!(tiles.overlaps);
    assert_eq!(tiles.span(8, 8), 4..12);
    // Etypes are at 0, 4, 8, then at 4, 8, 12.
    assert_eq!(
        [0, 1, 5, 9].map(|size| tiles.etypes_before(size)),
        [0, 1, 4, 7]
    );
    assert!(!read_only(int().indexed(&[1, 2], &[0, 2]).unwrap()).overlaps);
    assert!(!read_only(int()).overlaps);
}

#[test]
fn what_the_standard_forbids_is_refused() {
    let class = |made: Result<View>| made.err().map(|error| error.class());
    let back = int().indexed(&[1, 1], &[4, 0]).unwrap();
    assert_eq!(class(view(0, &int(), &back)), Some(Class::Type));
    let negative = int().indexed(&[1], &[-1]).unwrap();
    assert_eq!(class(view(0, &int(), &negative)), Some(Class::Type));
    let twice = int().indexed(&[2, 1], &[0, 1]).unwrap();
    assert_eq!(class(view(0, &int(), &twice)), Some(Class::Type));
    let short = int().contiguous(3).unwrap().resized(0, 8).unwrap();
    assert_eq!(class(view(0, &int(), &short)), Some(Class::Type));
    assert_eq!(class(view(-1, &int(), &int())), Some(Class::Arg));
    let bytes = Datatype::predefined(Predefined::Byte)
        .contiguous(6)
        .unwrap();
    assert_eq!(class(view(0, &int(), &bytes)), Some(Class::Type));
    let none = int().contiguous(0).unwrap();
    assert_eq!(class(view(0, &none, &int())), Some(Class::Type));
    assert!(view(0, &int(), &none).is_ok());
}

#[test]
fn offsets_far_out_are_found_or_refused() {
    let filetype = int().resized(0, 1 << 33).unwrap();
    let view = view(1 << 31, &int(), &filetype).unwrap();
    assert_eq!(view.place(view.position(3).unwrap()), (1 << 31) + (3 << 33));
    assert!(view.position(i64::MAX).is_err());
    assert!(view.position(-1).is_err());
}
