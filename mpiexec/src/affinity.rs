//! Which hardware threads each rank may use, on the machine at hand.

use std::path::Path;

use crate::binding::Bind;
use crate::system;
use crate::topology::{Kind, Machine, show_list};

/// A set of CPUs as the kernel takes it, one bit each.
pub type Mask = Vec<u64>;

/// This machine, less what a control group or whoever started us has kept from us.
fn machine() -> Machine {
    Machine::read(Path::new("/sys"), &cpus(&system::allowed_cpus()))
}

/// The cores that this process may use: for each the allowed CPUs (hardware threads) of it.
pub fn cores() -> Vec<Vec<usize>> {
    machine().objects(Kind::Core)
}

/// The masks of `ranks` ranks, empty for those that stay unbound.
pub fn masks(bind: &Bind, ranks: usize) -> Vec<Mask> {
    let sets = bind.sets(ranks, &machine());
    sets.into_iter().map(|set| mask(&set)).collect()
}

/// For each rank a picture of what it is bound to.
pub fn pictures(bind: &Bind, ranks: usize) -> Vec<String> {
    let machine = machine();
    let sets = bind.sets(ranks, &machine);
    let picture = |set: &Vec<usize>| match set.is_empty() {
        true => "not bound".to_owned(),
        false => format!("bound to CPUs {}: {}", show_list(set), machine.picture(set)),
    };
    sets.iter().map(picture).collect()
}

fn mask(cpus: &[usize]) -> Mask {
    let mut mask = Mask::new();
    for cpu in cpus {
        let word = cpu / 64;
        if word >= mask.len() {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1 << (cpu % 64);
    }
    mask
}

fn cpus(mask: &[u64]) -> Vec<usize> {
    let is_set = |&cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    (0..mask.len() * 64).filter(is_set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_what_they_are_made_of() {
        for set in [vec![], vec![0], vec![3, 64, 130]] {
            assert_eq!(cpus(&mask(&set)), set);
        }
    }
}
