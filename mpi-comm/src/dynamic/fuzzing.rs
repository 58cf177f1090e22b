//! What the root of another job says, for the fuzz targets only.

use super::address_record::{AddressRecord, join, split};
use super::{parse_members, words};

/// Reads the members of a group and the addresses of its processes.
pub fn introduction(bytes: &[u8]) {
    if let Some((context, members)) = parse_members(bytes) {
        let mut again = context.to_ne_bytes().to_vec();
        let numbers = members.iter().flat_map(words);
        again.extend(numbers.flat_map(u64::to_ne_bytes));
        let same = parse_members(&again);
        assert_eq!(same.map(|(_, members)| members.len()), Some(members.len()));
    }
    if let Some(parts) = split(bytes) {
        assert_eq!(join(&parts), bytes);
        for part in &parts {
            card(part);
        }
    }
    card(bytes);
}

fn card(bytes: &[u8]) {
    let Some(card) = AddressRecord::parse(bytes) else {
        return;
    };
    let again = AddressRecord::parse(&card.to_bytes())
        .expect("a card that was read is written and read again");
    assert_eq!(again.failure(), card.failure());
    assert!(again.addresses().eq(card.addresses()));
}
