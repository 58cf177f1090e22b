//! Fuzz targets for all code that parses bytes from outside the process.
//!
//! A *target* is a function of an input. It panics, or the process dies, if the input reveals a
//! defect. libFuzzer generates inputs (`cargo xtask fuzz`); the test `corpus` replays those of
//! `corpus/TARGET`.
//!
//! A new target needs a function, a line in [`TARGETS`], a seed in `corpus/NAME`, and `fuzz_targets/NAME.rs` with its
//! lines in `Cargo.toml`.

pub mod admission;
// Included as files, since a dependency on weft-top would build its terminal library, too.
#[allow(dead_code, missing_docs, reason = "files of a program")]
#[path = "../../tools/weft-top/src/board.rs"]
mod board;
pub mod datatypes;
pub mod engine;
mod input;
#[allow(dead_code, missing_docs, reason = "files of a program")]
#[path = "../../tools/weft-top/src/message.rs"]
mod message;
pub mod pmi;
pub mod settings;
#[allow(dead_code, missing_docs, reason = "files of a program")]
#[path = "../../tools/weft-top/src/text.rs"]
mod text;
pub mod top;
pub mod window;

pub use input::{Input, variables};
pub use mpiexec::fuzzing as launcher;
pub use netmod_tcp::fuzzing as tcp;

/// A target's name and function.
pub type Target = (&'static str, fn(&[u8]));

/// Lists all targets.
pub const TARGETS: &[Target] = &[
    ("pmi_server", pmi::server),
    ("pmi_client", pmi::client),
    ("pmi_parsers", pmi::parsers),
    ("pmi_environment", pmi::environment),
    ("tcp_peer", tcp::peer),
    ("tcp_stranger", tcp::stranger),
    ("launcher_frames", launcher::frames),
    ("launcher_agents", launcher::agents),
    ("launcher_parent", launcher::parent),
    ("command_line", launcher::command_line),
    ("host_files", launcher::host_files),
    ("batch_systems", launcher::batch_systems),
    ("engine", engine::run),
    ("window", window::run),
    ("datatypes", datatypes::run),
    ("bundle", datatypes::bundle),
    ("algorithms", settings::algorithms),
    ("transports", settings::transports),
    ("hints", settings::hints),
    ("info", settings::info),
    ("top", top::datagrams),
    ("admission", admission::admission),
    ("sealed_frames", admission::frames),
    ("port", mpi_runtime::fuzzing::port),
    ("introduction", mpi_comm::dynamic::fuzzing::introduction),
    ("name_server", launcher::name_server),
    ("name_client", launcher::name_client),
];
