//! Categories of variables and events (section 14.3.8).

use std::sync::LazyLock;

use crate::bootstrap::netmods::NETMODS;
use crate::settings;
use crate::tool::pvars;
use netmod_kit::Netmod;

use crate::tool::events::EVENTS;
use crate::tool::sessions::index_of;

/// The audience of a variable (section 14.3.1).
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
    /// A description of its content.
    pub help: &'static str,
    /// Prefixes of the names of its control variables.
    prefixes: &'static [&'static str],
    /// Names of its subcategories.
    parts: &'static [&'static str],
    /// The audience of its variables.
    pub verbosity: Verbosity,
}

/// Returns all categories. A control variable belongs to the first with a matching prefix; the last
/// one matches all.
pub fn all() -> &'static [Category] {
    static ALL: LazyLock<Vec<Category>> = LazyLock::new(|| {
        let mut all = BUILT_IN.to_vec();
        // Inserted after the transports and shared memory.
        all.splice(2..2, NETMODS.iter().map(of_netmod));
        let names = NETMODS.iter().map(|netmod| netmod.name);
        all[0].parts = Vec::leak(["shared_memory"].into_iter().chain(names).collect());
        all
    });
    &ALL
}

/// Returns the category of a transport's control variables.
fn of_netmod(netmod: &Netmod) -> Category {
    let prefix: &str = format!("WEFT_{}_", netmod.name.to_uppercase()).leak();
    Category {
        name: netmod.name,
        help: format!("The transport between nodes by {}.", netmod.title).leak(),
        prefixes: vec![prefix].leak(),
        parts: &[],
        verbosity: Verbosity::UserDetail,
    }
}

/// The categories that do not depend on the transports between nodes.
const BUILT_IN: &[Category] = &[
    Category {
        name: "transports",
        help: "The transports between processes.",
        prefixes: &["WEFT_NETMOD"],
        parts: &[],
        verbosity: Verbosity::UserDetail,
    },
    Category {
        name: "shared_memory",
        help: "The transport between processes of a node.",
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
        help: "The behaviour of waiting threads.",
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
        help: "All that belongs to no other category.",
        prefixes: &[""],
        parts: &[],
        verbosity: Verbosity::UserBasic,
    },
];

/// Returns the category of a control variable.
pub fn of_cvar(name: &str) -> &'static Category {
    let fits = |category: &&Category| category.prefixes.iter().any(|it| name.starts_with(it));
    let all = all();
    all.iter().find(fits).unwrap_or(&all[all.len() - 1])
}

/// Returns the category of a performance variable.
pub fn of_pvar(variable: &pvars::Variable) -> Option<&'static Category> {
    all()
        .iter()
        .find(|category| category.name == variable.category)
}

impl Category {
    /// Returns the indices of its control variables.
    pub fn cvars(&self) -> Vec<usize> {
        let all = settings::variables().iter().enumerate();
        all.filter(|(_, variable)| of_cvar(variable.name).name == self.name)
            .map(|(place, _)| place)
            .collect()
    }

    /// Returns the indices of its performance variables.
    pub fn pvars(&self) -> Vec<usize> {
        let mine = |variable: &&pvars::Variable| variable.category == self.name;
        pvars::VARIABLES
            .iter()
            .filter(mine)
            .filter_map(index_of)
            .collect()
    }

    /// Returns the indices of its events.
    pub fn events(&self) -> Vec<usize> {
        let mine = |number: &usize| EVENTS[*number].category == self.name;
        (0..EVENTS.len()).filter(mine).collect()
    }

    /// Returns the indices of its subcategories.
    pub fn parts(&self) -> Vec<usize> {
        let place = |name: &&str| all().iter().position(|it| it.name == *name);
        self.parts.iter().filter_map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_event_and_part_is_found() {
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
