//! Targets: control variables, tables in files, hints, and the strings of Info objects.

use mpi_sched::costs::Measured;
use mpi_sched::tuning::Locality;
use mpi_sched::{Choices, Collective, Situation};
use mpi_types::info::{Info, MAX_KEY, MAX_VALUE};
use netmod_kit::variables::{Reader, parse_number};

use crate::Input;

/// Parses `WEFT_COLL`, a table of algorithms and a file of costs; checks that costs round-trip.
pub fn algorithms(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = mpi_runtime::settings::choices(Some(&text));
    let mut choices = Choices::default();
    if choices.read_table(&text).is_ok() {
        for ranks in [1, 2, 7, 1 << 20] {
            let situation = Situation {
                ranks,
                per_node: ranks.min(8),
                bytes: ranks * 100,
                commutes: true,
            };
            let _ = (choices.bcast(&situation), choices.allreduce(&situation));
            let _ = (
                choices.barrier(&situation),
                choices.in_slots(Collective::Bcast, &situation, Locality::NODE),
            );
        }
    }
    if let Ok(measured) = text.parse::<Measured>() {
        let written = measured.to_string();
        let again: Result<Measured, String> = written.parse();
        let again = again.map(|again| again.to_string());
        assert_eq!(again.as_ref(), Ok(&written));
        choices.set_measured(measured);
        let _ = choices.network("tcp", Some(100));
    }
}

/// Parses the control variables of the transports.
pub fn transports(bytes: &[u8]) {
    let variables = crate::variables(bytes);
    let get = |name: &str| {
        let found = variables.iter().find(|one| one.0 == name)?;
        found.1.to_str().map(str::to_owned)
    };
    let reader = Reader::new(&get);
    let _ = netmod_tcp::Config::read(0, &reader);
    let _ = netmod_verbs::Config::read(0, &reader);
    let _ = netmod_ofi::Config::read(0, &reader);
    let _ = netmod_ucx::Config::read(0, &reader);
    for (_, value) in &variables {
        let _ = value.to_str().and_then(parse_number);
    }
}

/// Checks a value for each hint and converts it as a C string.
pub fn hints(bytes: &[u8]) {
    mpi_runtime::fuzzing::hint(bytes);
    let text = mpi_runtime::settings::text::of(bytes);
    assert_eq!(mpi_runtime::settings::text::bytes(&text), bytes);
    for room in [0, 1, 2, 7, 100] {
        let short = mpi_runtime::settings::text::bytes(&mpi_runtime::settings::text::beginning(
            bytes, room,
        ));
        assert!(short.len() <= room && bytes.starts_with(&short));
    }
}

/// Compares an Info object with a list of pairs while both are changed.
pub fn info(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut info = Info::new();
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    while !input.is_empty() {
        let (code, key) = (input.byte(), input.piece().to_vec());
        let place = model.iter().position(|pair| pair.0 == key);
        match code % 4 {
            0 => {
                let value = input.piece().repeat(1 + usize::from(code / 64));
                let is_set = info.set(&key, &value).is_ok();
                assert!(!is_set || key.len() <= MAX_KEY && value.len() <= MAX_VALUE);
                match place {
                    _ if !is_set => {}
                    Some(at) => model[at].1 = value,
                    None => model.push((key, value)),
                }
            }
            1 => {
                let is_deleted = info.delete(&key).is_ok();
                assert_eq!(is_deleted, place.is_some());
                place.map(|at| model.remove(at));
            }
            2 => {
                let found = info.get(&key).unwrap_or_default();
                assert_eq!(found.as_ref(), place.map(|at| &model[at].1));
                let length = info.valuelen(&key).unwrap_or_default();
                assert_eq!(length, place.map(|at| model[at].1.len()));
            }
            _ => {
                info = info.dup();
                let _ = info.nthkey(i32::from(code) - 100);
                let _ = info.hint(&String::from_utf8_lossy(&key));
            }
        }
        assert_eq!(info.nkeys(), model.len());
        assert_eq!(info.pairs().len(), model.len());
    }
}
