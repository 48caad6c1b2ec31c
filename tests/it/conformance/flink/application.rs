//! Applications that scripts deploy, with the options that the operator sets for them.

use super::script::MANY;

/// What a script deploys: `deploy JOB`, and then `from PATH`, `parallelism N` or `records N`.
pub(crate) struct Application {
    pub(crate) job_id: String,
    /// Where its job starts, unless HA metadata has a checkpoint.
    from: Option<String>,
    parallelism: String,
    /// Records that the job has before it ends.
    pub(super) records: String,
}

impl Application {
    /// Reads the words of a line. `nowhere` stands for a savepoint that does not exist, and `chk-N` for a checkpoint of the
    /// same job.
    pub(super) fn read(words: &[String], savepoints: &str, checkpoints: &str) -> Self {
        let job_id = words[1].clone();
        let (mut from, mut parallelism, mut records) = (None, "1".to_owned(), MANY.to_owned());
        let mut words = words[2..].iter();
        while let (Some(word), Some(value)) = (words.next(), words.next()) {
            match word.as_str() {
                "from" if value == "nowhere" => from = Some(format!("{savepoints}/nowhere")),
                "from" if value.starts_with("chk-") => {
                    from = Some(format!("{checkpoints}/{job_id}/{value}"));
                }
                "from" => from = Some(value.clone()),
                "parallelism" => parallelism.clone_from(value),
                "records" => records.clone_from(value),
                other => panic!("{other}: an option of `deploy`"),
            }
        }
        Self { job_id, from, parallelism, records }
    }

    /// Returns its options: `run` keeps its results apart from those of earlier ones, below the folder `ha`.
    pub(crate) fn options(&self, run: usize, ha: &str) -> Vec<(&'static str, String)> {
        let of_run = |store: &str| format!("{ha}/{store}/available/{run}");
        let mut options = vec![
            ("$internal.application.program-args", format!("gate;{}", self.records)),
            ("$internal.pipeline.job-id", self.job_id.clone()),
            ("application-result-store.delete-on-commit", "false".to_owned()),
            ("application-result-store.storage-path", of_run("application-result-store")),
            ("execution.shutdown-on-application-finish", "false".to_owned()),
            ("execution.submit-failed-job-on-application-error", "true".to_owned()),
            ("execution.target", "remote".to_owned()),
            ("high-availability.cluster-id", "available".to_owned()),
            ("job-result-store.delete-on-commit", "false".to_owned()),
            ("job-result-store.storage-path", of_run("job-result-store")),
            ("parallelism.default", self.parallelism.clone()),
        ];
        options.extend(self.from.clone().map(|path| ("execution.savepoint.path", path)));
        options
    }
}
