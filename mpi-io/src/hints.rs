//! Hints (MPI-3.1 section 13.2.8), under the standard's names and those that ROMIO introduced.

use mpi_core::info::Info;
use mpi_types::Result;

/// A switch that a hint sets, or leaves to the library.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Choice {
    #[default]
    Automatic,
    Enable,
    Disable,
}

impl Choice {
    fn parse(text: &str) -> Option<Choice> {
        match text.to_ascii_lowercase().as_str() {
            "automatic" => Some(Choice::Automatic),
            "enable" | "true" => Some(Choice::Enable),
            "disable" | "false" => Some(Choice::Disable),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Choice::Automatic => "automatic",
            Choice::Enable => "enable",
            Choice::Disable => "disable",
        }
    }
}

/// The hints in force on a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hints {
    /// Bytes that an aggregator moves at a time.
    pub cb_buffer_size: u64,
    /// Number of aggregators; 0 leaves it to the library.
    pub cb_nodes: u32,
    /// Number of aggregators per node.
    pub cb_config_list: String,
    pub cb_block_size: Option<u64>,
    pub cb_read: Choice,
    pub cb_write: Choice,
    pub ds_read: Choice,
    pub ds_write: Choice,
    pub no_indep_rw: bool,
    pub ind_rd_buffer_size: u64,
    pub ind_wr_buffer_size: u64,
    pub striping_unit: Option<u64>,
    pub striping_factor: Option<u64>,
    pub access_style: Option<String>,
    pub file_perm: Option<u32>,
}

impl Default for Hints {
    fn default() -> Self {
        Hints {
            cb_buffer_size: 16 << 20,
            cb_nodes: 0,
            cb_config_list: "*:*".to_owned(),
            cb_block_size: None,
            cb_read: Choice::Automatic,
            cb_write: Choice::Automatic,
            ds_read: Choice::Automatic,
            ds_write: Choice::Automatic,
            no_indep_rw: false,
            ind_rd_buffer_size: 4 << 20,
            ind_wr_buffer_size: 512 << 10,
            striping_unit: None,
            striping_factor: None,
            access_style: None,
            file_perm: None,
        }
    }
}

/// Valid access styles.
const STYLES: &[&str] = &[
    "read_once",
    "write_once",
    "read_mostly",
    "write_mostly",
    "sequential",
    "reverse_sequential",
    "random",
];

/// Hints that programs for MPICH look for, with values that never change here.
const FIXED: &[(&str, &str)] = &[
    ("romio_cb_pfr", "disable"),
    ("romio_cb_fr_types", "aar"),
    ("romio_cb_fr_alignment", "1"),
    ("romio_cb_ds_threshold", "0"),
    ("romio_cb_alltoall", "automatic"),
    ("romio_synchronized_flush", "disabled"),
    ("romio_visibility_immediate", "true"),
    ("start_iodevice", "0"),
];

/// Longest value in bytes.
const LONGEST: usize = 1000;

/// Returns ranks in MPICH's format, as many as fit in a value.
fn list(ranks: &[u32]) -> String {
    let mut text = String::new();
    for rank in ranks {
        if text.len() > LONGEST {
            break;
        }
        text.push_str(&format!("{rank} "));
    }
    text
}

/// Parses a buffer size in bytes.
fn size(text: &str) -> Option<u64> {
    let bytes: u64 = text.trim().parse().ok()?;
    (1..=1 << 40).contains(&bytes).then_some(bytes)
}

/// Returns the number of aggregators per node in a list such as `*:1`; `None` if it has no bound.
/// Only entries for all nodes are understood.
pub(crate) fn per_node(list: &str) -> Option<Option<u32>> {
    match list.trim().strip_prefix('*')? {
        "" => Some(Some(1)),
        ":*" => Some(None),
        rest => rest
            .strip_prefix(':')?
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .map(Some),
    }
}

impl Hints {
    /// Applies the hints that are understood. Those that only count when a file is opened are
    /// applied if `opening`.
    pub fn update(&mut self, info: &Info, opening: bool) {
        let hint = |key: &str| info.hint(key);
        let choice = |key: &str| hint(key).and_then(|text| Choice::parse(&text));
        let bytes = |key: &str| hint(key).and_then(|text| size(&text));
        let set = |place: &mut u64, value: Option<u64>| {
            if let Some(value) = value {
                *place = value;
            }
        };
        set(&mut self.cb_buffer_size, bytes("cb_buffer_size"));
        set(&mut self.ind_rd_buffer_size, bytes("ind_rd_buffer_size"));
        set(&mut self.ind_wr_buffer_size, bytes("ind_wr_buffer_size"));
        if let Some(collective) = choice("collective_buffering") {
            self.cb_read = collective;
            self.cb_write = collective;
        }
        for (place, key) in [
            (&mut self.cb_read, "romio_cb_read"),
            (&mut self.cb_write, "romio_cb_write"),
            (&mut self.ds_read, "romio_ds_read"),
            (&mut self.ds_write, "romio_ds_write"),
        ] {
            if let Some(choice) = choice(key) {
                *place = choice;
            }
        }
        if let Some(no_indep) = choice("romio_no_indep_rw") {
            self.no_indep_rw = no_indep == Choice::Enable;
        }
        if let Some(style) = hint("access_style")
            && style.split(',').all(|one| STYLES.contains(&one.trim()))
        {
            self.access_style = Some(style);
        }
        if !opening {
            return;
        }
        if let Some(nodes) = hint("cb_nodes").and_then(|text| text.trim().parse().ok()) {
            self.cb_nodes = nodes;
        }
        if let Some(list) = hint("cb_config_list")
            && per_node(&list).is_some()
        {
            self.cb_config_list = list;
        }
        self.cb_block_size = bytes("cb_block_size").or(self.cb_block_size);
        self.striping_unit = bytes("striping_unit").or(self.striping_unit);
        self.striping_factor = bytes("striping_factor").or(self.striping_factor);
        if let Some(text) = hint("file_perm")
            && let Ok(mode) = u32::from_str_radix(text.trim(), 8)
        {
            self.file_perm = Some(mode & 0o7777);
        }
    }

    /// Returns the hints in force as an info object, for a file with this name, number of ranks,
    /// and aggregators.
    pub fn to_info(
        &self,
        path: &str,
        ranks: u32,
        aggregators: &[u32],
        is_local: bool,
    ) -> Result<Info> {
        let info = Info::new();
        let collective = match (self.cb_read, self.cb_write) {
            (Choice::Disable, Choice::Disable) => "false",
            _ => "true",
        };
        let number = |value: u64| value.to_string();
        let kind = match is_local {
            true => "UFS: files of this machine",
            false => "NFS: files that other machines change",
        };
        for (key, value) in FIXED {
            info.set(key, value.as_bytes())?;
        }
        let pairs = [
            ("filename", Some(path.chars().take(1024).collect())),
            ("nb_proc", Some(ranks.to_string())),
            ("access_style", self.access_style.clone()),
            ("collective_buffering", Some(collective.to_owned())),
            ("cb_block_size", self.cb_block_size.map(number)),
            ("cb_buffer_size", Some(number(self.cb_buffer_size))),
            ("cb_nodes", Some(aggregators.len().to_string())),
            ("cb_config_list", Some(self.cb_config_list.clone())),
            ("romio_cb_read", Some(self.cb_read.name().to_owned())),
            ("romio_cb_write", Some(self.cb_write.name().to_owned())),
            ("romio_no_indep_rw", Some(self.no_indep_rw.to_string())),
            ("romio_ds_read", Some(self.ds_read.name().to_owned())),
            ("romio_ds_write", Some(self.ds_write.name().to_owned())),
            ("ind_rd_buffer_size", Some(number(self.ind_rd_buffer_size))),
            ("ind_wr_buffer_size", Some(number(self.ind_wr_buffer_size))),
            (
                "striping_unit",
                Some(number(self.striping_unit.unwrap_or(0))),
            ),
            (
                "striping_factor",
                Some(number(self.striping_factor.unwrap_or(0))),
            ),
            ("romio_aggregator_list", Some(list(aggregators))),
            ("romio_filesystem_type", Some(kind.to_owned())),
            ("file_perm", self.file_perm.map(|mode| format!("{mode:o}"))),
        ];
        for (key, value) in pairs {
            if let Some(value) = value {
                info.set(key, value.as_bytes())?;
            }
        }
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood_is_kept_and_nothing_else() {
        let info = Info::new();
        for (key, value) in [
            ("cb_buffer_size", "4096"),
            ("romio_cb_write", "enable"),
            ("romio_ds_read", "perhaps"),
            ("ind_rd_buffer_size", "-5"),
            ("cb_nodes", "3"),
            ("file_perm", "640"),
        ] {
            info.set(key, value).unwrap();
        }
        let mut hints = Hints::default();
        hints.update(&info, false);
        assert_eq!((hints.cb_buffer_size, hints.cb_nodes), (4096, 0));
        assert_eq!(hints.cb_write, Choice::Enable);
        assert_eq!(hints.ds_read, Choice::Automatic);
        assert_eq!(hints.ind_rd_buffer_size, 4 << 20);
        hints.update(&info, true);
        assert_eq!((hints.cb_nodes, hints.file_perm), (3, Some(0o640)));
        let shown = hints.to_info("/a", 4, &[0, 2], true).unwrap();
        assert_eq!(shown.hint("romio_aggregator_list").as_deref(), Some("0 2 "));
        assert_eq!(shown.hint("striping_factor").as_deref(), Some("0"));
        assert_eq!(shown.hint("cb_buffer_size").as_deref(), Some("4096"));
        assert_eq!(shown.hint("romio_cb_write").as_deref(), Some("enable"));
        assert_eq!(shown.hint("file_perm").as_deref(), Some("640"));
    }

    #[test]
    fn lists_of_aggregators_say_how_many_a_node_may_have() {
        assert_eq!(per_node("*:2"), Some(Some(2)));
        assert_eq!(per_node("*"), Some(Some(1)));
        assert_eq!(per_node("*:*"), Some(None));
        assert_eq!(per_node("host1:2"), None);
        assert_eq!(per_node("*:0"), None);
    }
}
