//! Sets of members, by number.

/// A set of numbers below some thousands.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Set(Vec<u64>);

impl Set {
    /// Collects members into a set.
    pub fn of(members: impl IntoIterator<Item = u32>) -> Set {
        let mut set = Set::default();
        members.into_iter().for_each(|member| set.add(member));
        set
    }

    pub fn has(&self, member: u32) -> bool {
        let word = self.0.get(member as usize / 64);
        word.is_some_and(|word| word >> (member % 64) & 1 != 0)
    }

    pub fn add(&mut self, member: u32) {
        self.set_word(member as usize / 64, 1 << (member % 64));
    }

    /// Adds the members of a word of another set.
    pub fn set_word(&mut self, index: usize, word: u64) {
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] |= word;
    }

    pub fn add_all(&mut self, others: &Set) {
        for (index, word) in others.words() {
            self.set_word(index, word);
        }
    }

    /// Whether it contains all members of another set.
    pub fn has_all(&self, others: &Set) -> bool {
        let is_in = |(index, word): (usize, u64)| {
            let mine = self.0.get(index).copied().unwrap_or(0);
            word & !mine == 0
        };
        others.words().all(is_in)
    }

    /// Returns the words that are not 0, with their indices.
    pub fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let words = self.0.iter().copied().enumerate();
        words.filter(|(_, word)| *word != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_travel_by_words() {
        let set = Set::of([0, 63, 64, 700]);
        let mut copy = Set::default();
        for (index, word) in set.words() {
            copy.set_word(index, word);
        }
        assert_eq!(copy, set);
        assert!(copy.has(700) && !copy.has(699) && !copy.has(100_000));
        assert!(set.has_all(&Set::of([63, 700])) && set.has_all(&Set::default()));
        assert!(!Set::of([63, 700]).has_all(&set) && !set.has_all(&Set::of([800])));
    }
}
