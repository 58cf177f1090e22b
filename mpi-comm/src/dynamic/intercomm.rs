//! `MPI_Intercomm_create` of groups with members of several jobs (MPI-5.0 section 7.6.2). The
//! members need not be connected before: connection is transitive (section 11.10.4).

use super::{Link, Opener, meet};
use crate::creation::intercomm::introduce;
use mpi_core::comm::Comm;
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::process::foreign::Pin;

pub use crate::creation::intercomm::Bridge;

/// A link between two leaders by messages.
struct Messages<'a>(Bridge<'a>);

impl Link for Messages<'_> {
    fn exchange(&mut self, process: &Process, _: &Comm, own: &[u8]) -> Result<Vec<u8>> {
        let mut words = vec![own.len() as u64];
        words.extend(own.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        }));
        let theirs = self.0.exchange(process, &words)?;
        let [len, ref words @ ..] = theirs[..] else {
            let why = "internal error: the other leader sent an empty list";
            return Err(Error::new(Class::Intern, why));
        };
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(len as usize);
        Ok(bytes)
    }
}

/// Joins two groups by an intercommunicator, and connects their members that are not connected yet.
///
/// `bridge` is passed by the local group's leader. No other thread disconnects the members while
/// the pins live; the caller registers the communicator before it drops them.
///
/// # Errors
/// `MPI_ERR_COMM` if the groups overlap; the leader's error on all members.
pub fn create_intercomm(
    process: &Process,
    local: &Comm,
    leader: u32,
    bridge: Option<Result<Bridge<'_>>>,
    opener: &dyn Opener,
) -> Result<(Comm, Vec<Pin>)> {
    let link = match &bridge {
        Some(Ok(bridge)) => Some(Messages(*bridge)),
        _ => None,
    };
    let introduction = introduce(process, local, leader, bridge)?;
    if introduction.is_within_job(process, local) {
        return Ok((introduction.join(process, local)?, Vec::new()));
    }
    let mut link = link;
    let link = link.as_mut().map(|link| Ok(link as &mut dyn Link));
    meet(
        process,
        local,
        leader,
        introduction.is_first(),
        link,
        opener,
    )
}
