//! Logging files in the Flink configuration's ConfigMap.
//!
//! The ConfigMap is mounted over the image's own files and hides them, so there must always be one.

use std::collections::BTreeMap;

use api::deployment::FlinkDeploymentSpec;
use config::{FlinkConfig, options};

/// Files that Flink's console scripts look for.
const NAMES: [&str; 2] = ["log4j-console.properties", "logback-console.xml"];

/// Where the root level goes in [`DEFAULT_LOG4J`].
const LEVEL: &str = "@level@";

/// To the console for `kubectl logs`, and to a bounded file for the web UI.
const DEFAULT_LOG4J: &str = "\
# Reread on change: an edit of this ConfigMap takes effect without a restart.
monitorInterval = 30

rootLogger.level = @level@
rootLogger.appenderRef.console.ref = Console
rootLogger.appenderRef.file.ref = File

appender.console.type = Console
appender.console.name = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c [%t] %m%n

appender.file.type = RollingFile
appender.file.name = File
appender.file.fileName = ${sys:log.file}
appender.file.filePattern = ${sys:log.file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c [%t] %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 50MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3

# Libraries stay quiet when the root level is lowered to look for a fault.
logger.pekko.name = org.apache.pekko
logger.pekko.level = INFO
logger.akka.name = akka
logger.akka.level = INFO
logger.hadoop.name = org.apache.hadoop
logger.hadoop.level = INFO
logger.kafka.name = org.apache.kafka
logger.kafka.level = INFO
logger.zookeeper.name = org.apache.zookeeper
logger.zookeeper.level = INFO
logger.kubernetes.name = org.apache.flink.kubernetes.shaded.io.fabric8
logger.kubernetes.level = INFO
logger.http.name = org.apache.flink.kubernetes.shaded.okhttp3
logger.http.level = WARN
# Connections that a peer closes are reported here as if something were wrong.
logger.pipeline.name = org.jboss.netty.channel.DefaultChannelPipeline
logger.pipeline.level = OFF
logger.channel.name = org.apache.flink.shaded.netty4.io.netty.channel.DefaultChannelPipeline
logger.channel.level = OFF
";

/// The user's files, else the default one.
pub(super) fn files(spec: &FlinkDeploymentSpec, config: &FlinkConfig) -> BTreeMap<String, String> {
    let given = spec.log_configuration.iter().flatten();
    let given: BTreeMap<String, String> = given
        .filter(|(name, _)| NAMES.contains(&name.as_str()))
        .map(|(name, content)| (name.clone(), content.clone()))
        .collect();
    if !given.is_empty() {
        return given;
    }
    let level = config
        .text_of(&options::LOG_LEVEL)
        .filter(|level| level.bytes().all(|byte| byte.is_ascii_alphabetic()) && !level.is_empty())
        .unwrap_or("INFO");
    BTreeMap::from([(NAMES[0].to_owned(), DEFAULT_LOG4J.replace(LEVEL, level))])
}
