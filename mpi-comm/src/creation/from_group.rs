//! Communicators of a group, without a parent communicator (MPI-4.1 sections 7.4.2 and 7.6.2): for
//! sessions.
//!
//! Members meet in a context of the group's first member that no communicator has: contexts of
//! communicators begin with number 2, and the first two, of `MPI_COMM_WORLD` and `MPI_COMM_SELF`,
//! have no second half (`ContextId::within`). In it, calls are distinguished by a tag that is a
//! hash of the program's string and the group. So calls with different strings don't match,
//! whatever threads make them; calls with the same string come one after the other. The first
//! member leads: it chooses the communicator's context, and sends it with the whole hash, of which
//! the tag is a part, so that a collision of tags is detected.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::broadcast_in;
use super::intercomm::{Bridge, introduce};
use mpi_core::comm::{Comm, ContextId, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::loan::Loan;
use mpi_core::process::notes::AwaitedEvent;
use mpi_core::process::{Destination, Process, Source};
use mpi_core::vci::Mode;
use mpi_sched::Team;

/// How long members wait for the first one, and leaders for each other, before they print a message.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// Words of the program's string that travel with a call, for members that have passed another one.
const TEXT_WORDS: usize = 8;

/// Identifies a call among concurrent ones.
struct Name {
    tag: u32,
    check: u64,
}

impl Name {
    /// Hashes a call of these processes, in this order, with the program's string.
    fn new(peers: impl Iterator<Item = u32>, text: &[u8]) -> Name {
        // The same in all processes: it has no random key.
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        peers.for_each(|peer| peer.hash(&mut hasher));
        let tag = hasher.finish() as u32 & i32::MAX as u32;
        text.len().hash(&mut hasher);
        Name {
            tag,
            check: hasher.finish(),
        }
    }

    fn verify(&self, received: u64) -> Result<()> {
        if received == self.check {
            return Ok(());
        }
        Err(Error::new(
            Class::Other,
            "stringtag collides with that of another call at the same time; choose another \
             one, and the same on all members of the group",
        ))
    }
}

/// Makes a communicator of a group (`MPI_Comm_create_from_group`). All its members call it with the
/// same string.
///
/// # Errors
/// `MPI_ERR_GROUP` if this process is not a member.
pub fn create_from_group(process: &Process, group: &Group, text: &[u8]) -> Result<Comm> {
    let Some(place) = group.rank_of(process.me()) else {
        let why = "this process is not in the group; only its members may call this";
        return Err(Error::new(Class::Group, why));
    };
    let name = Name::new(group.peers(), text);
    let meeting = ContextId::new(group.peer(0), 0).within();
    let meeting = Comm::new(meeting, group.clone(), place);
    let mut received = [0; 2 + TEXT_WORDS];
    if place == 0 {
        [received[0], received[1]] = [process.new_context().to_bits(), name.check];
        received[2..].copy_from_slice(&to_words(text));
    } else {
        Wait::for_first(process, &meeting, &name).until_sent(&text_of, &|others| {
            let others = match others {
                "" => String::new(),
                others => format!(" Other members have called it with {others}."),
            };
            format!(
                "MPI_Comm_create_from_group with stringtag '{}' for the group's first member, process {}.{others} All {} \
                 members must call it with the same stringtag and group.",
                String::from_utf8_lossy(text),
                group.peer(0),
                group.size(),
            )
        })?;
    }
    let team = Team::all(place, group.size());
    broadcast_in(
        process,
        &meeting,
        team,
        0,
        Purpose::Creation,
        name.tag,
        &mut received,
    )?;
    name.verify(received[1])?;
    Ok(Comm::new(
        ContextId::from_bits(received[0]),
        group.clone(),
        place,
    ))
}

/// Returns the beginning of the program's string, padded with zeros.
fn to_words(text: &[u8]) -> [u64; TEXT_WORDS] {
    let mut bytes = [0; 8 * TEXT_WORDS];
    let len = text.len().min(bytes.len());
    bytes[..len].copy_from_slice(&text[..len]);
    std::array::from_fn(|at| {
        let word = bytes[8 * at..].first_chunk().copied();
        u64::from_ne_bytes(word.unwrap_or_default())
    })
}

/// Returns the string in the message of another call.
fn text_of(message: &[u8]) -> Option<String> {
    let text = message.get(16..16 + 8 * TEXT_WORDS)?;
    let end = text.iter().position(|byte| *byte == 0);
    Some(String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]).into_owned())
}

/// A wait for a message whose sender may have given another string, and then never sends it.
struct Wait<'a> {
    process: &'a Process,
    meeting: &'a Comm,
    tag: u32,
    /// The process that sends the message.
    sender: u32,
    note: AwaitedEvent,
}

impl<'a> Wait<'a> {
    fn for_first(process: &'a Process, meeting: &'a Comm, name: &Name) -> Wait<'a> {
        let first = meeting.local().peer(0);
        Wait {
            process,
            meeting,
            tag: name.tag,
            sender: first,
            note: AwaitedEvent::Creation { first },
        }
    }

    fn for_leader(process: &'a Process, meeting: &'a Comm, name: &Name, leader: u32) -> Wait<'a> {
        Wait {
            process,
            meeting,
            tag: name.tag,
            sender: leader,
            note: AwaitedEvent::Leader { leader },
        }
    }

    /// Waits until the message has come, or a member is lost. Members with another string would wait forever, so after
    /// a while this rank prints what `explain` makes of the strings that `text_of` finds in other members' messages.
    fn until_sent(
        &self,
        text_of: &dyn Fn(&[u8]) -> Option<String>,
        explain: &dyn Fn(&str) -> String,
    ) -> Result<()> {
        let (process, meeting) = (self.process, self.meeting);
        let group = meeting.local();
        let (vci, began) = (meeting.vci(), process.clock().now());
        let unexpected = || process.unexpected_in(vci, meeting.context(), Purpose::Creation);
        let note = process.note(self.note, vci, std::iter::once(self.sender));
        let mut has_said = false;
        process.wait_ignoring_loss(vci, || {
            let found = unexpected()?;
            if found.iter().any(|(tag, _)| *tag == self.tag as i32) {
                return Ok(Some(()));
            }
            let is_lost = process.loss_among(|peer| group.rank_of(peer).is_some());
            if !has_said && process.clock().now().saturating_sub(began) > REPORT_AFTER {
                has_said = true;
                let mut others: Vec<String> = found
                    .iter()
                    .filter_map(|(_, message)| Some(format!("'{}'", text_of(message)?)))
                    .collect();
                others.dedup();
                eprintln!(
                    "Weft: process {} has waited {} s in {}",
                    process.me(),
                    REPORT_AFTER.as_secs(),
                    explain(&others.join(", ")),
                );
            }
            // The receive that follows raises the loss, if it affects the call.
            Ok(is_lost.map(|_| ()))
        })?;
        drop(note);
        Ok(())
    }
}

/// Joins two groups by an intercommunicator (`MPI_Intercomm_create_from_groups`). All members of
/// both call it with the same string.
///
/// `remote` is, on the leader of the local group, the other group and the rank of its leader.
///
/// # Errors
/// The errors of [`create_from_group`]; `MPI_ERR_COMM` if the groups overlap.
pub fn create_intercomm_from_groups(
    process: &Process,
    local: &Group,
    leader: u32,
    remote: Option<Result<(&Group, u32)>>,
    text: &[u8],
) -> Result<Comm> {
    let within = create_from_group(process, local, text)?;
    let Some(remote) = remote else {
        return introduce(process, &within, leader, None)?.join(process, &within);
    };
    let met = remote.and_then(|(group, rank)| Meeting::begin(process, group.peer(rank), text));
    let bridge = match &met {
        Ok(met) => Ok(Bridge {
            comm: &met.comm,
            rank: 1 - met.comm.rank(),
            tag: met.name.tag,
        }),
        Err(error) => Err(error.clone()),
    };
    introduce(process, &within, leader, Some(bridge))?.join(process, &within)
}

/// Where two leaders meet.
struct Meeting {
    /// The communicator of both, the process with the lower number first.
    comm: Comm,
    name: Name,
}

/// The first message of a leader to the other: a checksum, [`Name::check`] and the beginning of its string.
type Greeting = [u64; 2 + TEXT_WORDS];

impl Meeting {
    /// Meets the leader `other`, which has given the same string.
    fn begin(process: &Process, other: u32, text: &[u8]) -> Result<Meeting> {
        let me = process.me();
        if other == me {
            let why = "remote_leader is this process itself; it must be in the other group";
            return Err(Error::new(Class::Rank, why));
        }
        let both = [me.min(other), me.max(other)];
        let context = ContextId::new(both[0], 1).within();
        let place = u32::from(me > other);
        let meeting = Meeting {
            comm: Comm::new(context, Group::from_peers(&both)?, place),
            name: Name::new(both.into_iter(), text),
        };
        meeting.greet(process, other, text)?;
        Ok(meeting)
    }

    /// Exchanges greetings. A leader that waits for the other's can say which string the other has given instead.
    fn greet(&self, process: &Process, other: u32, text: &[u8]) -> Result<()> {
        let (comm, name) = (&self.comm, &self.name);
        let (vci, context) = (comm.vci(), comm.context().of(Purpose::Creation));
        let to = Destination {
            peer: other,
            vci,
            context,
            rank: comm.rank() as i32,
            tag: name.tag as i32,
            owner: 0,
        };
        let from = Source {
            context,
            rank: 1 - comm.rank() as i32,
            tag: name.tag as i32,
            owner: 0,
            peer: other,
        };
        let own = Box::new(greeting(process.me(), name.check, text));
        let sent = Loan::send(own, |buffer| {
            process.isend(vci, &to, buffer, Mode::Standard)
        })?;
        let theirs = |message: &[u8]| text_of_greeting(other, message);
        let waited =
            Wait::for_leader(process, comm, name, other).until_sent(&theirs, &|given| {
                let given = match given {
                    "" => String::new(),
                    given => format!(" It has called it with {given}."),
                };
                format!(
                    "MPI_Intercomm_create_from_groups with stringtag '{}' for the other group's leader, process {other}.\
                     {given} All members of both groups must call it with the same stringtag, and their leaders must \
                     name each other.",
                    String::from_utf8_lossy(text),
                )
            });
        let received = waited.and_then(|()| {
            let post = |buffer| process.irecv(vci, &from, buffer);
            Loan::new(Box::<Greeting>::default(), post)?.wait(process)
        });
        match (received, sent) {
            (Ok(greeting), sent) => {
                sent.map_or(Ok(()), |sent| sent.wait(process).map(drop))?;
                name.verify(greeting[1])
            }
            (Err(error), sent) => {
                sent.map_or(Ok(()), |sent| sent.abort(process).map(drop))?;
                Err(error)
            }
        }
    }
}

fn greeting(sender: u32, check: u64, text: &[u8]) -> Greeting {
    let mut words = [0; 2 + TEXT_WORDS];
    words[1] = check;
    words[2..].copy_from_slice(&to_words(text));
    words[0] = checksum(sender, &words[1..]);
    words
}

/// Tells a greeting of a process from other messages between leaders.
fn checksum(sender: u32, words: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (sender, words).hash(&mut hasher);
    hasher.finish()
}

/// Returns the string in a greeting of `sender`.
fn text_of_greeting(sender: u32, message: &[u8]) -> Option<String> {
    let (words, rest) = message.as_chunks::<8>();
    let words: Vec<u64> = words.iter().copied().map(u64::from_ne_bytes).collect();
    let (first, others) = words.split_first()?;
    let is_greeting = rest.is_empty()
        && words.len() == size_of::<Greeting>() / size_of::<u64>()
        && *first == checksum(sender, others);
    is_greeting.then(|| text_of(message))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_string_comes_back() {
        for (text, seen) in [
            ("", ""),
            ("a", "a"),
            (&"x".repeat(100)[..], &"x".repeat(64)[..]),
        ] {
            let words = [[7; 2].as_slice(), &to_words(text.as_bytes())].concat();
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
            assert_eq!(text_of(&bytes).unwrap(), seen);
        }
        assert_eq!(text_of(&[0; 16]), None);
    }

    #[test]
    fn greetings_are_told_from_other_messages() {
        let words = greeting(3, 7, b"model");
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(text_of_greeting(3, &bytes).unwrap(), "model");
        assert_eq!(text_of_greeting(4, &bytes), None);
        assert_eq!(text_of_greeting(3, &bytes[8..]), None);
        assert_eq!(text_of_greeting(3, &[]), None);
        assert_eq!(text_of_greeting(3, &[&bytes[..], &[0; 8]].concat()), None);
    }

    #[test]
    fn names_differ_by_text_and_members_in_order() {
        let name = |peers: &[u32], text: &str| {
            let name = Name::new(peers.iter().copied(), text.as_bytes());
            (name.tag, name.check)
        };
        let one = name(&[0, 1, 2], "a");
        assert_eq!(name(&[0, 1, 2], "a"), one);
        assert_ne!(name(&[0, 2, 1], "a"), one);
        assert_ne!(name(&[0, 1], "a"), one);
        assert_ne!(name(&[0, 1, 2], "b"), one);
        assert!(one.0 <= i32::MAX as u32);
        let wrong = Name { tag: 0, check: 1 };
        assert_eq!(wrong.verify(2).unwrap_err().class(), Class::Other);
    }
}
