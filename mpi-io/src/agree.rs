//! Agreement of a file's members on results, so that an error of one becomes an error of all, and
//! no member waits for one that has given up.

#![allow(unsafe_code, reason = "collectives take addresses")]

use mpi_coll::{Buffers, Call, Root};
use mpi_core::Process;
use mpi_core::comm::Comm;
use mpi_sched::Part;
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::{Class, Error, Result};

use crate::system;

/// Bytes of an error's text in messages.
pub(crate) const TEXT: usize = 512;

/// Broadcasts bytes of one member.
pub(crate) fn broadcast(process: &Process, comm: &Comm, root: u32, data: &mut [u8]) -> Result<()> {
    let byte = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: data.len(),
        datatype: &byte,
    };
    let call = Call::Bcast(Root::Rank(root), part);
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr(),
    };
    // SAFETY: the call reads or writes the bytes of `data`, which is borrowed exclusively.
    unsafe { mpi_coll::call(process, comm, buffers, &call) }
}

/// Returns the number that a member contributes: 0 for a result, or the class and rank of its
/// error. The greatest is that of the first rank among those with the greatest class number.
pub(crate) fn word<T>(comm: &Comm, own: &Result<T>) -> u64 {
    match own {
        Ok(_) => 0,
        Err(error) => system::number(error.class()) << 32 | u64::from(comm.size() - comm.rank()),
    }
}

/// Returns the member that contributed a number.
pub(crate) fn root(comm: &Comm, word: u64) -> u32 {
    comm.size() - (word & 0xffff_ffff) as u32
}

/// Returns the text of an error in the form that members exchange.
pub(crate) fn text<T>(own: &Result<T>) -> [u8; TEXT] {
    let mut text = [0; TEXT];
    if let Err(error) = own {
        let detail = error.detail().as_bytes();
        let len = detail.len().min(TEXT);
        text[..len].copy_from_slice(&detail[..len]);
    }
    text
}

/// Returns the error of another member, from its number and text.
pub(crate) fn of_other(root: u32, word: u64, text: &[u8; TEXT]) -> Error {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(TEXT);
    let text = String::from_utf8_lossy(&text[..end]);
    let why = format!("rank {root} of the file: {text}");
    Error::new(system::class(word >> 32), why)
}

/// Returns each member's own result if all succeeded, otherwise the error of one of them on all.
pub(crate) fn agree<T>(process: &Process, comm: &Comm, own: Result<T>) -> Result<T> {
    if comm.size() == 1 {
        return own;
    }
    let mut numbers = [word(comm, &own)];
    let done = mpi_coll::greatest_u64(process, comm, &mut numbers);
    outcome(process, comm, own, done.map(|()| numbers[0]))
}

/// Returns the common outcome of the members' results, given the greatest of their numbers
/// ([`word`]).
pub(crate) fn outcome<T>(
    process: &Process,
    comm: &Comm,
    own: Result<T>,
    greatest: Result<u64>,
) -> Result<T> {
    match (own, greatest) {
        (own, Ok(0)) => own,
        (Err(error), Err(_)) | (Ok(_), Err(error)) => Err(error),
        (own, Ok(word)) => {
            let root = root(comm, word);
            let mut text = text(&own);
            let sent = broadcast(process, comm, root, &mut text);
            match (own, sent) {
                (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                (Ok(_), Ok(())) => Err(of_other(root, word, &text)),
            }
        }
    }
}

/// Checks that all members gave the same numbers for `what`. An error of a member comes first.
pub(crate) fn same<T>(
    process: &Process,
    comm: &Comm,
    what: &str,
    own: Result<(T, Vec<u64>)>,
    words: usize,
) -> Result<T> {
    same_and(process, comm, what, own, words, &mut [])
}

/// Makes the check of [`same`], and returns the maximum over the members of each further number.
pub(crate) fn same_and<T>(
    process: &Process,
    comm: &Comm,
    what: &str,
    own: Result<(T, Vec<u64>)>,
    words: usize,
    greatest: &mut [u64],
) -> Result<T> {
    if comm.size() == 1 {
        return own.map(|(value, _)| value);
    }
    // The minimum of a number is the complement of the maximum of its complement.
    let mut exchanged = vec![0; 1 + 2 * words];
    exchanged[0] = word(comm, &own);
    if let Ok((_, numbers)) = &own {
        let (ones, complements) = exchanged[1..].split_at_mut(words);
        for (index, number) in numbers.iter().take(words).enumerate() {
            (ones[index], complements[index]) = (*number, !number);
        }
    }
    exchanged.extend_from_slice(greatest);
    let done = mpi_coll::greatest_u64(process, comm, &mut exchanged);
    let (value, _) = outcome(process, comm, own, done.map(|()| exchanged[0]))?;
    let (ones, rest) = exchanged[1..].split_at(words);
    let (complements, found) = rest.split_at(words);
    greatest.copy_from_slice(found);
    if ones
        .iter()
        .zip(complements)
        .any(|(one, other)| *one != !other)
    {
        let why = format!("{what} differs among the ranks of the file; all must give the same");
        return Err(Error::new(Class::NotSame, why));
    }
    Ok(value)
}

/// Returns a hash of a text.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    text.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
