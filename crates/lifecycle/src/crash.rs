//! The cause of a container's exit, from the last lines of its log. Kubernetes knows only the exit code.

/// Maximum length of a cause, which goes into a status and an event.
const CAUSE_CHARS_MAX: usize = 300;
const CAUSED_BY: &str = "Caused by: ";

/// Returns the innermost cause of the last error in `log`, or else its last line; `None` if the log is empty.
pub fn cause_of_exit(log: &str) -> Option<String> {
    let lines: Vec<&str> =
        log.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let error = lines.iter().rposition(|line| is_error(line));
    let tail = lines.get(error.unwrap_or(0)..).unwrap_or_default();
    let innermost = tail.iter().rev().find_map(|line| line.strip_prefix(CAUSED_BY));
    // Java prints the exception on the line below the logged message.
    let exception = tail.iter().skip(1).find(|line| error.is_some() && is_exception(line)).copied();
    let cause = innermost.or(exception).or(error.and_then(|_| tail.first().copied()));
    cause.or_else(|| lines.last().copied()).map(shortened)
}

fn is_error(line: &str) -> bool {
    line.contains(" ERROR ")
        || line.contains(" FATAL ")
        || line.starts_with("Exception in thread")
        || line.starts_with("Error:")
}

/// Returns true for `package.Class: message`, or `package.Class` alone.
fn is_exception(line: &str) -> bool {
    let class = line.split(':').next().unwrap_or_default();
    class.contains('.')
        && !class.contains(char::is_whitespace)
        && (class.ends_with("Exception") || class.ends_with("Error"))
}

fn shortened(line: &str) -> String {
    let line = line.trim();
    if line.chars().count() <= CAUSE_CHARS_MAX {
        return line.to_owned();
    }
    line.chars().take(CAUSE_CHARS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_cause_of_the_last_error_is_reported() {
        let log = "\
12:00:00,000 INFO  ClusterEntrypoint [main] starting
Caused by: java.lang.IllegalStateException: of an earlier warning
12:00:01,000 ERROR ClusterEntrypoint [main] Could not create application program.
org.apache.flink.util.FlinkException: Could not load the provided entrypoint class.
\tat org.apache.flink.Retriever.get(Retriever.java:231)
Caused by: org.apache.flink.ProgramInvocationException: JAR file does not exist
\tat org.apache.flink.PackagedProgram.check(PackagedProgram.java:618)
Caused by: java.io.IOException: JAR file does not exist '/opt/flink/job.jar'
\tat org.apache.flink.util.JarUtils.checkJarFile(JarUtils.java:46)
\t... 4 more
";
        assert_eq!(
            cause_of_exit(log).as_deref(),
            Some("java.io.IOException: JAR file does not exist '/opt/flink/job.jar'")
        );
    }

    #[test]
    fn an_exception_without_a_cause_is_reported_itself() {
        let log = "\
12:00:01,000 ERROR ClusterEntrypoint [main] Could not start cluster entrypoint.
org.apache.flink.configuration.IllegalConfigurationException: no value for `key`
\tat org.apache.flink.Some.method(Some.java:1)
";
        assert_eq!(
            cause_of_exit(log).as_deref(),
            Some(
                "org.apache.flink.configuration.IllegalConfigurationException: no value for `key`"
            )
        );
    }

    #[test]
    fn a_program_that_is_not_java_is_explained_by_its_last_line() {
        assert_eq!(
            cause_of_exit("preparing\nsh: 1: exec: nothing: not found\n\n").as_deref(),
            Some("sh: 1: exec: nothing: not found")
        );
        assert_eq!(cause_of_exit(" \n"), None);
    }

    #[test]
    fn a_long_cause_is_cut() {
        let cause = cause_of_exit(&"é".repeat(2_000)).unwrap();
        assert_eq!(cause.chars().count(), CAUSE_CHARS_MAX + 1);
        assert!(cause.ends_with('…'));
    }
}
