//! What a process knows of the members of a window.

/// A member's part of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub size: u64,
    pub unit: i64,
    /// How its memory is reached without asking it.
    pub reach: Reach,
}

/// How a member's memory is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// By plain loads and stores: it begins here. (The address 0 for a dynamic window's.)
    Here(*mut u8),
    /// By copies of the kernel's: it begins at this address of that process's.
    There(u64),
    /// By messages only.
    Messages,
}

/// All members.
pub(crate) enum Members {
    /// One by one.
    Each(Box<[Member]>),
    /// All have as much memory and the same unit. Whoever is not among the near ones, which are few
    /// and sorted by rank, is reached by messages: these say where in the target's memory, and need
    /// no address.
    Alike {
        size: u64,
        unit: i64,
        near: Box<[(u32, Reach)]>,
    },
}

impl Members {
    #[inline(always)]
    pub fn get(&self, rank: u32) -> Member {
        match self {
            Members::Each(all) => all[rank as usize],
            Members::Alike { size, unit, near } => {
                let found = near.binary_search_by_key(&rank, |one| one.0);
                Member {
                    size: *size,
                    unit: *unit,
                    reach: found.map_or(Reach::Messages, |place| near[place].1),
                }
            }
        }
    }

    /// Bytes of memory.
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
    fn members_alike_are_as_if_told_one_by_one() {
        let near = [
            (3, Reach::There(64)),
            (5, Reach::Here(std::ptr::null_mut())),
        ];
        let (size, unit) = (128, 4);
        let alike = Members::Alike {
            size,
            unit,
            near: near.into(),
        };
        for rank in 0..8 {
            let member = alike.get(rank);
            assert_eq!((member.size, member.unit), (size, unit));
            let reach = near.iter().find(|one| one.0 == rank);
            assert_eq!(
                member.reach,
                reach.map_or(Reach::Messages, |one| one.1),
                "{rank}"
            );
        }
    }
}
