//! Size, unit and reach of each member of a window.

/// One member's part of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub size: u64,
    pub unit: i64,
    /// How its memory is accessed without asking the member.
    pub reach: Reach,
}

/// How a member's memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// By loads and stores, from this address (0 for a dynamic window).
    Here(*mut u8),
    /// By CMA copies, from this address in the member's process.
    There(u64),
    /// By messages only.
    Messages,
}

/// All members of a window.
pub(crate) enum Members {
    /// Each on its own, by rank.
    Each(Box<[Member]>),
    /// All have the same size and unit. `near` is short and sorted by rank; all others are reached
    /// by messages, which name offsets in the target's memory and need no address.
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

    /// Bytes of memory that this takes.
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
