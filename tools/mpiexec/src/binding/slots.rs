//! The slots of a rankfile's line: `1:0-2`, `0:*`, `2-3`, `p0-3`.

use crate::topology::{Machine, ObjectKind};

/// The CPUs that a rankfile gives to a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    /// The text of the file without blanks.
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// The socket in which cores are counted; `None` for the whole machine.
    socket: Option<usize>,
    /// The first and last core or CPU; `None` for all.
    range: Option<(usize, usize)>,
    /// Whether the range counts CPUs by the kernel's numbers, not cores.
    physical: bool,
}

impl Slots {
    /// Parses the text after `slot=`.
    pub fn read(text: &str) -> Result<Slots, String> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let wrong = |part: &str| {
            format!(
                "'{part}' in 'slot={text}' names no cores; write cores (2-3), cores of a socket (1:0-2, 0:*) \
                 or the kernel's CPUs (p0-3)"
            )
        };
        let mut parts: Vec<Part> = Vec::new();
        for part in text.split([',', ';']) {
            let (physical, rest) = match part.strip_prefix(['p', 'P']) {
                Some(rest) => (true, rest),
                None => (false, part),
            };
            let (socket, rest) = match rest.split_once(':') {
                Some((socket, rest)) => (Some(socket.parse().map_err(|_| wrong(part))?), rest),
                // A part without a socket is of the socket of the part before it.
                None => (parts.last().and_then(|last| last.socket), rest),
            };
            if physical && socket.is_some() {
                return Err(wrong(part));
            }
            let number = |text: &str| text.parse::<usize>().map_err(|_| wrong(part));
            let range = match rest {
                "*" => None,
                rest => {
                    let (first, last) = rest.split_once('-').unwrap_or((rest, rest));
                    Some((number(first)?, number(last)?))
                }
            };
            if range.is_some_and(|(first, last)| first > last || last > 1 << 16) {
                return Err(wrong(part));
            }
            parts.push(Part {
                socket,
                range,
                physical,
            });
        }
        Ok(Slots { text, parts })
    }

    /// Returns the text of the file without blanks.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the CPUs on `machine`.
    ///
    /// # Errors
    /// A part names a socket, core or CPU that is not available.
    pub fn cpus(&self, machine: &Machine) -> Result<Vec<usize>, String> {
        let mut cpus = Vec::new();
        for part in &self.parts {
            let sockets = machine.objects(ObjectKind::Socket);
            let place = match part.socket {
                None => machine.cpus(),
                Some(number) => sockets.get(number).cloned().ok_or(format!(
                    "'slot={}' names socket {number}, but sockets are counted from 0 and {} are available",
                    self.text,
                    sockets.len()
                ))?,
            };
            let mut units = match part.physical {
                true => machine.objects(ObjectKind::Thread),
                false => machine.objects(ObjectKind::Core),
            };
            units.retain(|unit| place.contains(&unit[0]));
            let Some((first, last)) = part.range else {
                cpus.extend(units.concat());
                continue;
            };
            for number in first..=last {
                let found = match part.physical {
                    true => units.iter().find(|unit| unit[0] == number),
                    false => units.get(number),
                };
                cpus.extend(found.ok_or_else(|| {
                    let what = if part.physical { "CPU" } else { "core" };
                    let of = part
                        .socket
                        .map_or(String::new(), |s| format!(" of socket {s}"));
                    format!(
                        "'slot={}' names {what} {number}{of}, which is not available; {} are",
                        self.text,
                        units.len()
                    )
                })?);
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::show_list;
    use crate::topology::tests::sys;

    #[test]
    fn parts_of_a_machine_are_found() {
        let dir = sys();
        let machine = Machine::read(dir.path(), &(0..32).collect::<Vec<_>>());
        for (text, expected) in [
            ("1:0-2", "8-10,24-26"),
            ("0:0,2", "0,2,16,18"),
            ("0:1; 1:7", "1,15,17,31"),
            ("1:*", "8-15,24-31"),
            ("2-3", "2-3,18-19"),
            ("p2-3,p17", "2-3,17"),
            ("*", "0-31"),
        ] {
            let cpus = Slots::read(text).unwrap().cpus(&machine).unwrap();
            assert_eq!(show_list(&cpus), expected, "{text}");
        }
        let cpus = |text: &str| Slots::read(text).unwrap().cpus(&machine);
        for (text, part) in [
            (
                "2:0",
                "names socket 2, but sockets are counted from 0 and 2 are",
            ),
            ("1:8", "names core 8 of socket 1, which"),
            ("16", "names core 16, which"),
            ("p32", "names CPU 32, which"),
            // A number without the letter counts cores.
            ("p2-3,17", "names core 17, which"),
        ] {
            let error = cpus(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        for text in ["", "x", "1:", "3-1", "p0:1", "-1", "a:0", "1:0-x"] {
            assert!(Slots::read(text).is_err(), "{text}");
        }
    }
}
