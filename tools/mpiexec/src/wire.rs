//! The connections between the root and agents: messages, their encoding, and the tree.

pub mod check;
pub mod frames;
pub mod greeting;
pub mod join;
pub mod link;
pub mod messages;
#[cfg(test)]
mod simulated;
pub mod tree;
