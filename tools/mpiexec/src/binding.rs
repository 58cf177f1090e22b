//! Bindings of ranks to CPUs by `-bind-to`, `-map-by` and rankfiles.

mod memory;
mod slots;

pub use memory::{Memory, Mode, Policy};
pub use slots::Slots;

use crate::topology::{Machine, ObjectKind, cpu_list, show_list};

/// The options of binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The target of each rank.
    pub to: To,
    /// The kind of object that ranks are dealt out to in turn, and the number of ranks per turn.
    pub map: Option<(ObjectKind, usize)>,
    /// The memory policy.
    pub memory: Memory,
    /// The source of the topology.
    pub library: Library,
}

/// The source of the topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Library {
    /// hwloc if it is installed and more than equal shares are requested, otherwise /sys.
    Auto,
    /// /sys.
    Sys,
    /// hwloc, from this library.
    Hwloc(String),
}

/// The target of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// An equal share of the cores; no binding if there are more ranks than cores.
    Auto,
    /// No binding.
    None,
    /// This number of consecutive objects of a kind.
    Objects(ObjectKind, usize),
    /// These CPUs, a list per rank, used in turn.
    User(Vec<Vec<usize>>),
    /// The slots of a rankfile, one entry per rank.
    Slots(Vec<Slots>),
}

impl Bind {
    /// The default.
    pub const AUTO: Bind = Bind {
        to: To::Auto,
        map: None,
        memory: Memory::Local,
        library: Library::Auto,
    };

    /// Returns the options for a host that runs only these ranks of the job.
    pub fn of(mut self, ranks: &[u32]) -> Bind {
        if let To::Slots(all) = &mut self.to {
            let mine = ranks.iter().filter_map(|&rank| all.get(rank as usize));
            *all = mine.cloned().collect();
        }
        self
    }

    /// Returns the CPUs of each of `ranks` ranks; an empty list for an unbound rank.
    ///
    /// # Errors
    /// A CPU, core or socket is named that the machine lacks.
    pub fn sets(&self, ranks: usize, machine: &Machine) -> Result<Vec<Vec<usize>>, String> {
        let unbound = || Ok(vec![Vec::new(); ranks]);
        let (kind, width) = match &self.to {
            To::None => return unbound(),
            To::User(lists) => {
                let there = machine.cpus();
                if let Some(cpu) = lists.concat().iter().find(|cpu| !there.contains(cpu)) {
                    return Err(format!(
                        "option -bind-to user names CPU {cpu}; CPUs {} are available",
                        show_list(&there)
                    ));
                }
                let list = |rank: usize| lists[rank % lists.len()].clone();
                return Ok((0..ranks).map(list).collect());
            }
            To::Slots(all) => {
                let set = |rank: usize| match all.get(rank) {
                    Some(slots) => slots.cpus(machine),
                    None => Ok(Vec::new()),
                };
                return (0..ranks).map(set).collect();
            }
            To::Auto if self.map.is_none() => {
                return Ok(shares(ranks, &machine.objects(ObjectKind::Core)));
            }
            To::Auto if ranks > machine.objects(ObjectKind::Core).len() => return unbound(),
            To::Auto => (ObjectKind::Core, 1),
            To::Objects(kind, width) => (*kind, *width),
        };
        let objects = machine.objects(kind);
        if objects.is_empty() {
            return unbound();
        }
        Ok(match self.map {
            None => (0..ranks).map(|rank| run(&objects, rank, width)).collect(),
            Some((by, group)) => {
                let places = machine.objects(by);
                let group = group.max(1);
                let set = |rank: usize| {
                    let place = &places[rank / group % places.len()];
                    // Number of ranks that this object already has.
                    let turn = rank / (group * places.len()) * group + rank % group;
                    let inside =
                        |object: &&Vec<usize>| object.iter().any(|cpu| place.contains(cpu));
                    let inside: Vec<Vec<usize>> = objects.iter().filter(inside).cloned().collect();
                    run(&inside, turn, width)
                };
                (0..ranks).map(set).collect()
            }
        })
    }
}

/// Returns the CPUs of the `turn`-th group of `width` objects, cyclically.
fn run(objects: &[Vec<usize>], turn: usize, width: usize) -> Vec<usize> {
    let first = turn.wrapping_mul(width) % objects.len();
    let mine = objects.iter().cycle().skip(first);
    let mut cpus: Vec<usize> = mine
        .take(width.min(objects.len()))
        .flatten()
        .copied()
        .collect();
    cpus.sort_unstable();
    cpus
}

/// Splits all cores into shares that differ by one at most. With more ranks than cores all shares
/// are empty: sharing some cores but not others is worse than sharing all.
fn shares(ranks: usize, cores: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let share = |rank: usize| {
        if ranks > cores.len() {
            return Vec::new();
        }
        let share = rank * cores.len() / ranks..(rank + 1) * cores.len() / ranks;
        let mut cpus: Vec<usize> = cores[share].concat();
        cpus.sort_unstable();
        cpus
    };
    (0..ranks).map(share).collect()
}

/// Parses the value of `-bind-to`.
pub fn to(text: &str) -> Option<To> {
    let (name, rest) = match text.split_once(':') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text, None),
    };
    match (name, rest) {
        ("none", None) => Some(To::None),
        ("auto", None) => Some(To::Auto),
        // Hydra's name for one thread after the other.
        ("rr", None) => Some(To::Objects(ObjectKind::Thread, 1)),
        ("user", Some(lists)) => user(lists),
        (name, rest) => {
            let width = match rest {
                // Open MPI's qualifiers for Weft's behaviour.
                None | Some("overload-allowed" | "if-supported") => 1,
                Some(number) => number.parse().ok().filter(|n| *n > 0)?,
            };
            Some(To::Objects(ObjectKind::named(name)?, width))
        }
    }
}

/// Parses lists of CPUs: a comma separates ranks, `+` the parts of one rank (`0+2,1-3`).
fn user(text: &str) -> Option<To> {
    let list = |part: &str| cpu_list(&part.replace('+', ","));
    let lists: Option<Vec<Vec<usize>>> = text.split(',').map(list).collect();
    lists.map(To::User)
}

/// Parses a value of `-map-by` that names parts of a machine: `socket`, `ppr:2:socket`.
pub fn map(text: &str) -> Option<(ObjectKind, usize)> {
    match text.strip_prefix("ppr:") {
        Some(rest) => {
            let (number, kind) = rest.split_once(':')?;
            let number = number.parse().ok().filter(|n| *n > 0)?;
            Some((ObjectKind::named(kind)?, number))
        }
        None => Some((ObjectKind::named(text)?, 1)),
    }
}

impl Bind {
    /// Formats the options for [`Bind::read`].
    pub fn show(&self) -> String {
        let mut text = match &self.to {
            To::Slots(all) => {
                let all: Vec<&str> = all.iter().map(Slots::text).collect();
                format!("slots:{}", all.join("|"))
            }
            To::Auto => "auto".to_owned(),
            To::None => "none".to_owned(),
            To::Objects(kind, width) => format!("{}:{width}", kind.name()),
            To::User(lists) => {
                let list = |cpus: &Vec<usize>| {
                    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                    cpus.join("+")
                };
                let lists: Vec<String> = lists.iter().map(list).collect();
                format!("user:{}", lists.join(","))
            }
        };
        if let Some((kind, number)) = self.map {
            text += &format!(" ppr:{number}:{}", kind.name());
        }
        if self.memory != Memory::Local {
            text += &format!(" memory={}", self.memory.show());
        }
        match &self.library {
            Library::Auto => {}
            Library::Sys => text += " library=sys",
            Library::Hwloc(name) => text += &format!(" library={name}"),
        }
        text
    }

    /// Parses the output of [`Bind::show`].
    pub fn read(text: &str) -> Option<Bind> {
        let mut words = text.split(' ');
        let first = words.next()?;
        let mut bind = Bind {
            to: match first.strip_prefix("slots:") {
                Some(all) => {
                    let all: Result<_, _> = all.split('|').map(Slots::read).collect();
                    To::Slots(all.ok()?)
                }
                None => to(first)?,
            },
            ..Bind::AUTO
        };
        for word in words {
            match word.split_once('=') {
                Some(("memory", how)) => bind.memory = Memory::read(how)?,
                Some(("library", name)) => bind.library = library(name)?,
                _ => bind.map = Some(map(word)?),
            }
        }
        Some(bind)
    }
}

/// Parses the value of `-topolib`.
pub fn library(text: &str) -> Option<Library> {
    match text {
        "auto" | "default" => Some(Library::Auto),
        "sys" => Some(Library::Sys),
        "hwloc" => Some(Library::Hwloc(crate::topology::hwloc::NAME.to_owned())),
        name if name.contains(".so") && !name.contains(' ') => {
            Some(Library::Hwloc(name.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::sys;

    #[test]
    fn agents_are_told_everything() {
        let bind = Bind {
            to: To::Slots(
                ["0:1", "p3", "1:*"]
                    .map(|text| Slots::read(text).unwrap())
                    .to_vec(),
            ),
            memory: Memory::Bind(vec![0, 2]),
            library: Library::Hwloc("/opt/libhwloc.so.15".to_owned()),
            ..Bind::AUTO
        };
        assert_eq!(Bind::read(&bind.show()), Some(bind.clone()));
        assert_eq!(
            bind.of(&[1]).show(),
            "slots:p3 memory=bind:0,2 library=/opt/libhwloc.so.15"
        );
    }

    #[test]
    fn cpus_that_are_not_there_are_named() {
        let machine = Machine::read(std::path::Path::new("/nowhere"), &[0, 1]);
        let user = Bind {
            to: to("user:0,5").unwrap(),
            ..Bind::AUTO
        };
        let error = user.sets(2, &machine).unwrap_err();
        assert!(error.contains("CPU 5; CPUs 0-1"), "{error}");
    }

    fn sets(machine: &Machine, to: &str, by: &str, ranks: usize) -> String {
        let bind = Bind {
            to: super::to(to).unwrap(),
            map: (!by.is_empty()).then(|| map(by).unwrap()),
            ..Bind::AUTO
        };
        assert_eq!(Bind::read(&bind.show()), Some(bind.clone()));
        let sets = bind.sets(ranks, machine).unwrap();
        let sets: Vec<String> = sets.iter().map(|set| show_list(set)).collect();
        sets.join(" ")
    }

    #[test]
    fn every_rank_is_where_it_should_be() {
        let dir = sys();
        let machine = Machine::read(dir.path(), &(0..32).collect::<Vec<_>>());
        for (to, by, ranks, expected) in [
            ("hwthread", "", 3, "0 16 1"),
            ("rr", "", 2, "0 16"),
            ("core", "", 3, "0,16 1,17 2,18"),
            ("core:2", "", 3, "0-1,16-17 2-3,18-19 4-5,20-21"),
            ("l2cache", "", 2, "0,16 1,17"),
            (
                "l3cache",
                "",
                5,
                "0-3,16-19 4-7,20-23 8-11,24-27 12-15,28-31 0-3,16-19",
            ),
            ("numa", "", 2, "0-3,16-19 4-7,20-23"),
            ("socket", "", 3, "0-7,16-23 8-15,24-31 0-7,16-23"),
            ("board", "", 2, "0-31 0-31"),
            ("none", "", 2, " "),
            ("user:0+2,1-3", "", 3, "0,2 1-3 0,2"),
            ("auto", "", 2, "0-7,16-23 8-15,24-31"),
            ("auto", "", 17, "                "),
            ("core", "socket", 5, "0,16 8,24 1,17 9,25 2,18"),
            ("core", "numa", 5, "0,16 4,20 8,24 12,28 1,17"),
            ("hwthread", "core", 3, "0 1 2"),
            (
                "hwthread",
                "core",
                18,
                "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
            ),
            ("core", "ppr:2:socket", 5, "0,16 1,17 8,24 9,25 2,18"),
            // Larger than what ranks are dealt out to.
            ("socket", "core", 2, "0-7,16-23 0-7,16-23"),
            ("auto", "socket", 2, "0,16 8,24"),
        ] {
            assert_eq!(sets(&machine, to, by, ranks), expected, "{to} by {by}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "", "moon", "core:0", "core:x", "user:", "user:a", "user", "none:1",
        ] {
            assert_eq!(to(text), None, "{text}");
        }
        for text in ["", "moon", "ppr:0:socket", "ppr:socket", "ppr:2:moon"] {
            assert_eq!(map(text), None, "{text}");
        }
    }
}
