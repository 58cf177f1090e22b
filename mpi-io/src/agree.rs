//! What the members of a file tell each other before they go on together, so that an error of one is an
//! error of all and nobody waits for somebody who has given up.

#![allow(unsafe_code, reason = "collectives take addresses")]

use mpi_coll::{Buffers, Call, Root};
use mpi_core::Process;
use mpi_core::comm::Comm;
use mpi_sched::Part;
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::{Class, Error, Result};

use crate::system;

/// Bytes of an error's text that others are told.
pub(crate) const TEXT: usize = 512;

/// Sends bytes of one member to all.
pub(crate) fn broadcast(process: &Process, comm: &Comm, root: u32, data: &mut [u8]) -> Result<()> {
    let byte = Datatype::predefined(Predefined::Byte);
    let call = Call::Bcast {
        root: Root::Rank(root),
        part: Part {
            count: data.len(),
            datatype: &byte,
        },
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr(),
    };
    // SAFETY: the call reads or writes the bytes of `data`, which is borrowed exclusively.
    unsafe { mpi_coll::call(process, comm, buffers, &call) }
}

/// What a member tells of its result: 0 if it has one, or the class of its error and which member it is. The
/// greatest is that of the first rank among those with the class of the greatest number.
pub(crate) fn word<T>(comm: &Comm, own: &Result<T>) -> u64 {
    match own {
        Ok(_) => 0,
        Err(error) => system::number(error.class()) << 32 | u64::from(comm.size() - comm.rank()),
    }
}

/// The member whose word this is.
pub(crate) fn root(comm: &Comm, word: u64) -> u32 {
    comm.size() - (word & 0xffff_ffff) as u32
}

/// The text of an error, as it is told others.
pub(crate) fn text<T>(own: &Result<T>) -> [u8; TEXT] {
    let mut text = [0; TEXT];
    if let Err(error) = own {
        let detail = error.detail().as_bytes();
        let len = detail.len().min(TEXT);
        text[..len].copy_from_slice(&detail[..len]);
    }
    text
}

/// The error of another member, by its word and its text.
pub(crate) fn of_other(root: u32, word: u64, text: &[u8; TEXT]) -> Error {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(TEXT);
    let text = String::from_utf8_lossy(&text[..end]);
    let why = format!("rank {root} of the file: {text}");
    Error::new(system::class(word >> 32), why)
}

/// The result of each member, if all have one; the error of one of them, if not.
pub(crate) fn agree<T>(process: &Process, comm: &Comm, own: Result<T>) -> Result<T> {
    if comm.size() == 1 {
        return own;
    }
    let mut told = [word(comm, &own)];
    let done = mpi_coll::greatest_u64(process, comm, &mut told);
    outcome(process, comm, own, done.map(|()| told[0]))
}

/// What comes of the members' results, if all know the greatest of their words ([`word`]).
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
            let told_all = broadcast(process, comm, root, &mut text);
            match (own, told_all) {
                (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                (Ok(_), Ok(())) => Err(of_other(root, word, &text)),
            }
        }
    }
}

/// That all members gave the same numbers for `what`; an error of each that could not say its own
/// comes first.
pub(crate) fn same<T>(
    process: &Process,
    comm: &Comm,
    what: &str,
    own: Result<(T, Vec<u64>)>,
    words: usize,
) -> Result<T> {
    same_and(process, comm, what, own, words, &mut [])
}

/// The same, which also gives the greatest of each of some numbers.
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
    // The least of a number is what the greatest of its complement is the complement of.
    let mut told = vec![0; 1 + 2 * words];
    told[0] = word(comm, &own);
    if let Ok((_, numbers)) = &own {
        let (ones, complements) = told[1..].split_at_mut(words);
        for (index, number) in numbers.iter().take(words).enumerate() {
            (ones[index], complements[index]) = (*number, !number);
        }
    }
    told.extend_from_slice(greatest);
    let done = mpi_coll::greatest_u64(process, comm, &mut told);
    let (value, _) = outcome(process, comm, own, done.map(|()| told[0]))?;
    let (ones, rest) = told[1..].split_at(words);
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

/// A number for a text, the same for equal ones.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    text.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
