//! PMI-2, the protocol of Slurm's `srun --mpi=pmi2`.

use crate::channel::{Channel, nonsense};
use crate::connection::Connection;
use crate::link::Link;
use crate::wire2::{HEAD, LONGEST, Message, Messages, message, message_of};
use crate::{Limits, PmiError, Spawn, mapping};

#[derive(Debug)]
pub(crate) struct Pmi2 {
    channel: Channel<Messages>,
    job: String,
    appnum: Option<i32>,
    how: String,
}

/// This process's identity, as the launcher sends it.
pub(crate) struct Identity {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) spawned: bool,
}

impl Pmi2 {
    /// Continues after `init`, with which both versions begin.
    pub(crate) fn begin(
        connection: Connection,
        rank: u32,
        job: Option<&str>,
        how: String,
    ) -> Result<(Pmi2, Identity), PmiError> {
        let mut link = Pmi2 {
            channel: Channel::new(connection, Messages::default()),
            job: job.unwrap_or_default().to_owned(),
            appnum: None,
            how,
        };
        let me = rank.to_string();
        let mut fields = vec![("pmirank", me.as_str()), ("threaded", "TRUE")];
        if let Some(job) = job {
            fields.insert(0, ("pmijobid", job));
        }
        let answer = link.ask("fullinit", &fields)?;
        let read = Message::parse(&answer);
        let (Some(rank), Some(size)) = (read.number("rank"), read.number("size")) else {
            return Err(nonsense("fullinit", "no rank or no size", &answer));
        };
        if rank >= size {
            return Err(nonsense(
                "fullinit",
                "the rank must be below the size",
                &answer,
            ));
        }
        // A negative number means that the launcher does not know.
        link.appnum = read.number("appnum").filter(|&n: &i32| n >= 0);
        let spawner = read.text("spawner-jobid");
        let place = Identity {
            rank,
            size,
            spawned: spawner.is_some_and(|job| !job.is_empty()),
        };
        if link.job.is_empty() {
            let answer = link.ask("job-getid", &[])?;
            link.job = Message::parse(&answer).text("jobid").unwrap_or_default();
        }
        Ok((link, place))
    }

    /// Sends a request and returns the answer if it reports success.
    fn ask(&self, command: &'static str, fields: &[(&str, &str)]) -> Result<Vec<u8>, PmiError> {
        self.accepted(command, self.raw(command, &message(command, fields))?)
    }

    /// Returns an answer if it reports success.
    fn accepted(&self, command: &'static str, answer: Vec<u8>) -> Result<Vec<u8>, PmiError> {
        let read = Message::parse(&answer);
        match read.number::<i64>("rc") {
            None | Some(0) => Ok(answer),
            Some(rc) => Err(PmiError::Refused {
                command,
                reason: read.text("errmsg").unwrap_or_else(|| format!("rc={rc}")),
            }),
        }
    }

    /// Sends a request and returns the answer whatever it reports.
    fn raw(&self, command: &'static str, request: &[u8]) -> Result<Vec<u8>, PmiError> {
        let expected = format!("{command}-response");
        self.channel.exchange(command, request, |answer| {
            match Message::parse(answer).command() == expected.as_bytes() {
                true => Ok(()),
                false => Err(format!("expected cmd={expected}")),
            }
        })
    }

    /// Returns the value in an answer, or `None` if it reports that there is none.
    fn found(
        &self,
        command: &'static str,
        fields: &[(&str, &str)],
        name: &str,
    ) -> Result<Option<String>, PmiError> {
        let answer = self.raw(command, &message(command, fields))?;
        let read = Message::parse(&answer);
        let failed = read.number::<i64>("rc").is_some_and(|rc| rc != 0);
        let absent = read.text("found").is_some() && !read.is_true("found");
        if failed || absent {
            return Ok(None);
        }
        Ok(read.text("value").or_else(|| read.text(name)))
    }

    fn attribute(&self, key: &str) -> Result<Option<String>, PmiError> {
        self.found("info-getjobattr", &[("key", key)], "value")
    }
}

impl Link for Pmi2 {
    fn describe(&self) -> String {
        format!("PMI-2 {}", self.how)
    }

    fn space(&self) -> &str {
        &self.job
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        self.ask("kvs-put", &[("key", key), ("value", value)])
            .map(drop)
    }

    fn get(&self, from: u32, key: &str) -> Result<Option<String>, PmiError> {
        // A hint to where the value may be.
        let from = from.to_string();
        let fields = [("jobid", self.job.as_str()), ("srcid", &from), ("key", key)];
        self.found("kvs-get", &fields, "value")
    }

    fn fence(&self) -> Result<(), PmiError> {
        self.ask("kvs-fence", &[])?;
        // A server may answer before all processes have come to the fence, as Hydra's does. Only
        // questions for a key that is not put wait until the last process has come.
        self.get(0, "weft-fence").map(drop)
    }

    fn publish(&self, service: &str, port: &str) -> Result<(), PmiError> {
        self.ask("name-publish", &[("name", service), ("port", port)])
            .map(drop)
    }

    fn unpublish(&self, service: &str) -> Result<(), PmiError> {
        self.ask("name-unpublish", &[("name", service)]).map(drop)
    }

    fn lookup(&self, service: &str) -> Result<Option<String>, PmiError> {
        let port = self.found("name-lookup", &[("name", service)], "port")?;
        Ok(port.filter(|port| !port.is_empty()))
    }

    fn spawn(&self, spawn: &Spawn) -> Result<(), PmiError> {
        let request = message_of("spawn", spawn.to_fields());
        let bytes = request.len() - HEAD;
        if bytes > LONGEST {
            return Err(PmiError::Unfit(format!(
                "programs, arguments and Info keys take {bytes} bytes, and PMI-2 carries at most {LONGEST}; pass on \
                 less, or the rest by a message"
            )));
        }
        self.accepted("spawn", self.raw("spawn", &request)?)
            .map(drop)
    }

    fn abort(&self, _code: i32, text: &str) -> Result<(), PmiError> {
        let request = message("abort", &[("isworld", "TRUE"), ("msg", text)]);
        self.channel.send(&request, "aborting")
    }

    fn finalize(&self) -> Result<(), PmiError> {
        if self.channel.is_finalized() {
            return Ok(());
        }
        self.ask("finalize", &[])?;
        self.channel.finish();
        Ok(())
    }

    fn appnum(&self) -> Result<Option<i32>, PmiError> {
        Ok(self.appnum)
    }

    fn universe_size(&self) -> Result<Option<u32>, PmiError> {
        let size = self.attribute("universeSize")?;
        Ok(size
            .and_then(|text| text.trim().parse().ok())
            .filter(|&n| n > 0))
    }

    fn nodes(&self, size: u32) -> Result<Option<Vec<u32>>, PmiError> {
        let text = self.attribute("PMI_process_mapping")?;
        Ok(text.and_then(|text| mapping::parse(&text, size as usize)))
    }
}
