//! Data representations by name, including those that the program registered (section 13.5.3).

use std::sync::Arc;

use crate::settings::text;
use mpi_core::{Class, Error, Result};
use mpi_io::{Conversions, Representation};
use parking_lot::Mutex;

/// A data representation that the program registered.
struct Datarep {
    name: String,
    functions: Arc<dyn Conversions>,
}

/// Data representations that the program registered, for as long as the library is loaded.
static REGISTERED: Mutex<Vec<Datarep>> = Mutex::new(Vec::new());

/// Registers a data representation.
///
/// # Errors
/// `MPI_ERR_DUP_DATAREP` if the name is in use.
pub fn register(name: &[u8], functions: Arc<dyn Conversions>) -> Result<()> {
    let text = text::of(name);
    let mut all = REGISTERED.lock();
    if Representation::predefined(name).is_some() || all.iter().any(|one| one.name == text) {
        let why = format!("there is a data representation \"{text}\" already; choose another name");
        return Err(Error::new(Class::DupDatarep, why));
    }
    all.push(Datarep {
        name: text,
        functions,
    });
    Ok(())
}

/// Returns the representation with this name.
///
/// # Errors
/// `MPI_ERR_UNSUPPORTED_DATAREP` if there is none.
pub fn find(name: &[u8]) -> Result<Representation> {
    if let Some(predefined) = Representation::predefined(name) {
        return Ok(predefined);
    }
    let text = text::of(name);
    let all = REGISTERED.lock();
    match all.iter().find(|one| one.name == text) {
        Some(one) => Ok(Representation::User(
            one.name.clone(),
            one.functions.clone(),
        )),
        None => Err(Error::new(
            Class::UnsupportedDatarep,
            format!(
                "there is no data representation \"{text}\"; there are native, internal, external32 and \
                 those registered by MPI_Register_datarep"
            ),
        )),
    }
}
