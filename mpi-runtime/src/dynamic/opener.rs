//! The transports of a connection between jobs.

use std::sync::Arc;

use mpi_comm::dynamic::{Opener, Wanted};
use netmod::{OpenError, Transport};
use netmod_kit::variables::Reader;

use crate::bootstrap::netmods::{self, Choice, Place};
use crate::settings::{self, Settings};

/// Opens transports by the control variables.
pub struct Transports {
    /// The node of this process.
    pub node: u64,
}

impl Opener for Transports {
    fn node(&self) -> u64 {
        self.node
    }

    fn open(&self, wanted: &Wanted<'_>) -> Result<Vec<Arc<dyn Transport>>, OpenError> {
        let settings = Settings::from_env().map_err(OpenError)?;
        let variables = Reader::new(&settings::raw);
        let mut opened: Vec<Arc<dyn Transport>> = Vec::new();
        let shared = wanted.here && settings.shm;
        if shared {
            let config = shmmod::Config::read(wanted.own, &variables).map_err(OpenError)?;
            let resolver = wanted.directory.of_transport("shm");
            opened.push(Arc::new(shmmod::Shm::open(config, resolver)));
        }
        if shared && !wanted.elsewhere {
            return Ok(opened);
        }
        if settings.netmod == Choice::None {
            return Err(OpenError(
                "WEFT_NETMOD is none, but shared memory does not reach all processes of the other job; set it to \
                 auto"
                    .to_string(),
            ));
        }
        let place = Place {
            me: wanted.own,
            variables,
            may_sleep: true,
            one_machine: wanted.one_machine && settings.netmod == Choice::Auto,
            resolver: &|transport| wanted.directory.of_transport(transport),
        };
        let mut notes = Vec::new();
        let transport = netmods::open(&place, settings.netmod, &mut notes).map_err(|why| {
            OpenError(format!(
                "no transport to the other job can be opened: {why}"
            ))
        })?;
        opened.push(transport);
        Ok(opened)
    }

    fn reaches(&self, transport: &str, node: u64) -> bool {
        transport != "shm" || node == self.node
    }
}
