//! Open MPI's ABI, from the same table as the others.

use mpi_table::{Abi, OpenMpi, Table};

/// The tables as if every function were implemented.
fn complete() -> Table {
    let mut table = Table::load().expect("good tables");
    for chapter in &mut table.functions.chapters {
        for function in &mut chapter.functions {
            if function.implementation.is_none() {
                function.implement(format!("all::{}", function.name));
            }
        }
    }
    table
}

#[test]
fn each_function_has_a_rule_for_each_parameter() {
    let shims = complete().openmpi_shims().expect("rules for all");
    for text in [
        "pub unsafe extern \"C\" fn PMPI_Send(buf: *const c_void, count: c_int, datatype: Outward,",
        "pub unsafe extern \"C\" fn PMPI_Type_hvector(",
        "pub unsafe extern \"C\" fn OMPI_C_MPI_WIN_DUP_FN(",
        "crate::api::standard_abi::Outward::comm_to_int(comm)",
        "crate::api::standard_abi::Outward::datatype_from_int(datatype)",
    ] {
        assert!(shims.contains(text), "{text}");
    }
    assert!(!shims.contains("convert::same"));
}

/// Values that the library computes with stay those of the MPICH ABI, others become Open MPI's.
#[test]
fn the_library_has_its_own_handles_and_open_mpis_numbers() {
    let table = Table::load().expect("good tables");
    let text = table.library_constants(Abi::OpenMpi).expect("all values");
    for line in [
        "pub const MPI_ANY_SOURCE: c_int = -1;",
        "pub const MPI_ANY_TAG: c_int = -1;",
        "pub const MPI_PROC_NULL: c_int = -2;",
        "pub const MPI_ROOT: c_int = -4;",
        "pub const MPI_KEYVAL_INVALID: c_int = -1;",
        "pub const MPI_ERR_LASTCODE: c_int = 92;",
        "pub const MPI_STATUS_IGNORE: *mut MPI_Status = std::ptr::null_mut();",
        "    pub cancelled: c_int,",
    ] {
        assert!(text.contains(line), "{line}");
    }
    let world = "pub const MPI_COMM_WORLD: MPI_Comm = 0x44000000;";
    assert!(!text.contains("MPI_COMM_WORLD:") && table.handle_constants().contains(world));
}

/// Classes and keys are identified by their numbers, which must differ.
#[test]
fn numbers_of_a_kind_differ() {
    let table = Table::load().expect("good tables");
    let text = table.library_constants(Abi::OpenMpi).expect("all values");
    let constants = || {
        text.lines().filter_map(|line| {
            let line = line.strip_prefix("pub const ")?.strip_suffix(';')?;
            let (name, value) = line.split_once(": c_int = ")?;
            Some((name, value.parse::<i32>().ok()?))
        })
    };
    for kind in ["_ERR_", "MPI_COMBINER_", "MPI_COMM_TYPE_"] {
        let mut of_kind: Vec<(i32, &str)> = constants()
            .filter(|(name, _)| name.contains(kind) && *name != "MPI_ERR_LASTCODE")
            .map(|(name, value)| (value, name))
            .collect();
        of_kind.sort_unstable();
        assert!(of_kind.len() > 3, "{kind}");
        for pair in of_kind.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "{pair:?}");
        }
    }
    let last = constants().find(|(name, _)| *name == "MPI_ERR_LASTCODE");
    let last = last.expect("it is there").1;
    for (name, value) in constants().filter(|(name, _)| name.contains("_ERR_")) {
        assert!(value <= last, "{name} is {value}");
    }
}

#[test]
fn objects_and_their_handles() {
    let table = Table::load().expect("good tables");
    let text = table.outward(Abi::OpenMpi);
    for line in [
        "pub static ompi_mpi_comm_world: Object<512> = Object::new();",
        "pub static ompi_mpi_op_sum: Object<2048> = Object::new();",
        "    (Address((&raw const ompi_mpi_comm_self).cast()), 0x44000001),",
        "            0x44000001 => Outward((&raw const ompi_mpi_comm_self).addr()),",
        "            0x4c00041b => 7,",
        "            7 => 0x4c00041b_u32 as c_int,",
    ] {
        assert!(text.contains(line), "{line}");
    }
    // Each has a name, an object and a number of its own.
    for (index, one) in table.openmpi.objects.iter().enumerate() {
        for other in &table.openmpi.objects[..index] {
            assert_ne!(one.name, other.name);
            assert_ne!(one.symbol, other.symbol);
            let alike = table.constants.type_of(&one.name) == table.constants.type_of(&other.name);
            assert!(!alike || one.number != other.number, "{}", one.name);
        }
    }
}

#[test]
fn mistakes_have_their_lines() {
    let error = OpenMpi::parse("t", "group G\nsize MPI_Comm\n").expect_err("a mistake");
    assert!(error.to_string().starts_with("t:2: "), "{error}");
}
