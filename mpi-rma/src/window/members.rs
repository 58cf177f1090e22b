//! Size, unit and route of each member of a window.

/// One member's part of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub size: u64,
    pub unit: i64,
    /// The path of puts and gets.
    pub route: Route,
}

/// The path of puts and gets to a member, chosen when the window is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    Mapped(Mapped),
    Copied(Copied),
    Network(Network),
    Messages(Messages),
}

/// Memory that is mapped in this process, from this address (0 for a dynamic window).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapped(pub *mut u8);

/// Memory that CMA copies, from this address in the member's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copied(pub u64);

/// Memory that the network accesses, unless a transport refuses it at the first access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Network;

/// Memory that only its owner accesses, by request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Messages;

/// All members of a window.
pub(crate) enum Members {
    /// Each on its own, by rank.
    Each(Box<[Member]>),
    /// All have the same size and unit. `near` is short and sorted by rank; `far` is the route to
    /// all others, which need no address.
    Alike {
        size: u64,
        unit: i64,
        near: Box<[(u32, Route)]>,
        far: Route,
    },
}

impl Members {
    #[inline(always)]
    pub fn get(&self, rank: u32) -> Member {
        match self {
            Members::Each(all) => all[rank as usize],
            Members::Alike {
                size,
                unit,
                near,
                far,
            } => {
                let found = near.binary_search_by_key(&rank, |one| one.0);
                Member {
                    size: *size,
                    unit: *unit,
                    route: found.map_or(*far, |place| near[place].1),
                }
            }
        }
    }

    /// Replaces messages as the route by the network.
    pub fn use_network(&mut self) {
        let replace = |route: &mut Route| {
            if matches!(route, Route::Messages(_)) {
                *route = Route::Network(Network);
            }
        };
        match self {
            Members::Each(all) => all.iter_mut().for_each(|member| replace(&mut member.route)),
            Members::Alike { far, .. } => replace(far),
        }
    }

    /// Bytes of memory that this takes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        match self {
            Members::Each(all) => size_of_val(&**all),
            Members::Alike { near, .. } => size_of_val(&**near),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_alike_equal_members_listed_one_by_one() {
        let near = [
            (3, Route::Copied(Copied(64))),
            (5, Route::Mapped(Mapped(std::ptr::null_mut()))),
        ];
        let (size, unit) = (128, 4);
        let alike = Members::Alike {
            size,
            unit,
            near: near.into(),
            far: Route::Network(Network),
        };
        for rank in 0..8 {
            let member = alike.get(rank);
            assert_eq!((member.size, member.unit), (size, unit));
            let route = near.iter().find(|one| one.0 == rank);
            let expected = route.map_or(Route::Network(Network), |one| one.1);
            assert_eq!(member.route, expected, "{rank}");
        }
    }
}
