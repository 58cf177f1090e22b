//! The standard ABI, from the same table as the other.

use mpi_table::{Abi, Item, Standard, Table, Value};

/// The tables as if every function were implemented.
fn complete() -> Table {
    let mut table = Table::load().expect("good tables");
    for chapter in &mut table.functions.chapters {
        for function in &mut chapter.functions {
            function.implement(format!("all::{}", function.name));
        }
    }
    table
}

#[test]
fn each_function_has_a_rule_for_each_parameter() {
    let shims = complete().standard_shims().expect("rules for all");
    assert!(shims.contains(
        "pub unsafe extern \"C\" fn PMPI_Send(buf: *const c_void, count: c_int, datatype: Outward,"
    ));
    // Conversions by Fortran's INTEGER and what MPI-3.0 removed are not in it.
    for name in [
        "MPI_Comm_c2f",
        "MPI_Status_f2c",
        "MPI_Type_hvector",
        "MPIR_Dup_fn",
    ] {
        assert!(!shims.contains(&format!("{name}(")), "{name}");
    }
}

#[test]
fn a_parameter_without_a_rule_is_named() {
    let mut table = complete();
    let functions = table
        .functions
        .chapters
        .iter_mut()
        .flat_map(|chapter| &mut chapter.functions);
    let function = functions
        .into_iter()
        .find(|function| function.name == "MPI_Waitall");
    function.expect("it is there").params[1].name = "many".to_owned();
    let error = table.standard_shims().expect_err("no rule");
    assert!(
        error.contains("MPI_Waitall") && error.contains("MPI_Request many[]"),
        "{error}"
    );
}

#[test]
fn a_constant_without_a_value_is_named() {
    let mut table = Table::load().expect("good tables");
    table.constants.groups[0].items.push(Item::Constant {
        name: "MPI_NEW".to_owned(),
        ctype: mpi_table::CType {
            base: "int".to_owned(),
            is_const: false,
            pointers: 0,
            const_pointer: false,
            dimensions: Vec::new(),
        },
        value: Value::Integer {
            number: 1,
            text: "1".to_owned(),
        },
    });
    let error = table
        .library_constants(Abi::Standard)
        .expect_err("no value");
    assert!(error.contains("MPI_NEW"), "{error}");
    assert!(table.library_constants(Abi::Mpich).is_ok());
}

/// Values that the library computes with stay those of the MPICH ABI, others become the standard's.
#[test]
fn the_library_has_its_own_handles_and_the_standards_numbers() {
    let table = Table::load().expect("good tables");
    let text = table.library_constants(Abi::Standard).expect("all values");
    for line in [
        "pub const MPI_ANY_SOURCE: c_int = -1;",
        "pub const MPI_ANY_TAG: c_int = -2;",
        "pub const MPI_PROC_NULL: c_int = -3;",
        "pub const MPI_THREAD_MULTIPLE: c_int = 4096;",
        "pub const MPI_STATUS_IGNORE: *mut MPI_Status = std::ptr::null_mut();",
        "    pub MPI_internal: [c_int; 3],",
    ] {
        assert!(text.contains(line), "{line}");
    }
    let world = "pub const MPI_COMM_WORLD: MPI_Comm = 0x44000000;";
    assert!(!text.contains("MPI_COMM_WORLD:") && table.handle_constants().contains(world));
}

#[test]
fn mistakes_have_their_lines() {
    let error = Standard::parse("t", "group G\nsame MPI_A\nint MPI_X 5\n").expect_err("a mistake");
    assert_eq!(error.to_string(), "t:3: expected `=` before `5`");
}
