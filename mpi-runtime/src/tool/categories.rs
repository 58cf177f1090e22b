//! Categories: which variables belong together (section 14.3.8).

use std::sync::LazyLock;

use crate::bootstrap::netmods::NETMODS;
use crate::settings;
use crate::tool::pvars;
use netmod_kit::Netmod;

use crate::tool::events::EVENTS;
use crate::tool::sessions::index_of;

/// For whom variables are (section 14.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verbosity {
    /// `MPI_T_VERBOSITY_USER_BASIC`.
    UserBasic,
    /// `MPI_T_VERBOSITY_USER_DETAIL`.
    UserDetail,
    /// `MPI_T_VERBOSITY_TUNER_BASIC`.
    TunerBasic,
    /// `MPI_T_VERBOSITY_TUNER_DETAIL`.
    TunerDetail,
}

/// A category.
#[derive(Clone)]
pub struct Category {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub help: &'static str,
    /// Control variables whose names begin so belong to it.
    prefixes: &'static [&'static str],
    /// Names of the categories in it.
    parts: &'static [&'static str],
    /// For whom its variables are.
    pub verbosity: Verbosity,
}

/// All categories. Control variables belong to the first that fits; the last fits all.
pub fn all() -> &'static [Category] {
    static ALL: LazyLock<Vec<Category>> = LazyLock::new(|| {
        let mut all = OWN.to_vec();
        // After the transports and shared memory.
        all.splice(2..2, NETMODS.iter().map(of_netmod));
        let names = NETMODS.iter().map(|netmod| netmod.name);
        all[0].parts = Vec::leak(["shared_memory"].into_iter().chain(names).collect());
        all
    });
    &ALL
}

/// The category of a transport's control variables.
fn of_netmod(netmod: &Netmod) -> Category {
    let prefix: &str = format!("WEFT_{}_", netmod.name.to_uppercase()).leak();
    Category {
        name: netmod.name,
        help: format!("The way between nodes by {}.", netmod.title).leak(),
        prefixes: vec![prefix].leak(),
        parts: &[],
        verbosity: Verbosity::UserDetail,
    }
}

/// Those that are there with whatever transports between nodes.
const OWN: &[Category] = &[
    Category {
        name: "transports",
        help: "The ways between processes.",
        prefixes: &["WEFT_NETMOD"],
        parts: &[],
        verbosity: Verbosity::UserDetail,
    },
    Category {
        name: "shared_memory",
        help: "The way between processes of a node.",
        prefixes: &["WEFT_SHM"],
        parts: &[],
        verbosity: Verbosity::UserDetail,
    },
    Category {
        name: "messages",
        help: "Protocols of point-to-point messages, and their queues.",
        prefixes: &["WEFT_EAGER"],
        parts: &[],
        verbosity: Verbosity::TunerBasic,
    },
    Category {
        name: "vcis",
        help: "Independent streams of communication, and how threads share them.",
        prefixes: &["WEFT_NUM_VCIS", "WEFT_DUP_VCIS", "WEFT_PROGRESS"],
        parts: &[],
        verbosity: Verbosity::TunerBasic,
    },
    Category {
        name: "waiting",
        help: "What a thread does that has nothing to do.",
        prefixes: &["WEFT_SPIN", "WEFT_YIELD"],
        parts: &[],
        verbosity: Verbosity::TunerDetail,
    },
    Category {
        name: "collectives",
        help: "Algorithms of collective communication.",
        prefixes: &["WEFT_COLL"],
        parts: &[],
        verbosity: Verbosity::TunerDetail,
    },
    Category {
        name: "general",
        help: "All that is in no other category.",
        prefixes: &[""],
        parts: &[],
        verbosity: Verbosity::UserBasic,
    },
];

/// The category of a control variable.
pub fn of_cvar(name: &str) -> &'static Category {
    let fits = |category: &&Category| category.prefixes.iter().any(|it| name.starts_with(it));
    let all = all();
    all.iter().find(fits).unwrap_or(&all[all.len() - 1])
}

/// The category of a performance variable.
pub fn of_pvar(variable: &pvars::Variable) -> Option<&'static Category> {
    all()
        .iter()
        .find(|category| category.name == variable.category)
}

impl Category {
    /// Its control variables, by their places in the table.
    pub fn cvars(&self) -> Vec<usize> {
        let all = settings::variables().iter().enumerate();
        all.filter(|(_, variable)| of_cvar(variable.name).name == self.name)
            .map(|(place, _)| place)
            .collect()
    }

    /// Its performance variables, by their places in the table.
    pub fn pvars(&self) -> Vec<usize> {
        let mine = |variable: &&pvars::Variable| variable.category == self.name;
        pvars::VARIABLES
            .iter()
            .filter(mine)
            .filter_map(index_of)
            .collect()
    }

    /// Its events, by their places in the table.
    pub fn events(&self) -> Vec<usize> {
        let mine = |number: &usize| EVENTS[*number].category == self.name;
        (0..EVENTS.len()).filter(mine).collect()
    }

    /// The categories in it, by their places in the table.
    pub fn parts(&self) -> Vec<usize> {
        let place = |name: &&str| all().iter().position(|it| it.name == *name);
        self.parts.iter().filter_map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_and_every_part_has_its_place() {
        for variable in pvars::VARIABLES {
            assert!(of_pvar(variable).is_some(), "{}", variable.name);
        }
        let mut cvars: Vec<_> = all().iter().flat_map(Category::cvars).collect();
        cvars.sort_unstable();
        assert!(cvars.into_iter().eq(0..settings::variables().len()));
        let events = all().iter().map(|category| category.events().len());
        assert_eq!(events.sum::<usize>(), EVENTS.len());
        for category in all() {
            assert_eq!(category.parts().len(), category.parts.len());
        }
    }
}
