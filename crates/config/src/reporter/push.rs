//! Options of Flink's reporters for `PushGateway`, `InfluxDB`, `StatsD` and Graphite.

use std::time::Duration;

use url::Url;

use super::{InvalidValue, Options, Reporter, Scopes, TIMEOUT, To};

pub(super) const PUSH_GATEWAY: [&str; 11] = [
    "hostUrl",
    "host",
    "port",
    "jobName",
    "randomJobNameSuffix",
    "deleteOnShutdown",
    "filterLabelValueCharacters",
    "groupingKey",
    "username",
    "password",
    "interval",
];
pub(super) const INFLUX_DB: [&str; 11] = [
    "scheme",
    "host",
    "port",
    "username",
    "password",
    "db",
    "retentionPolicy",
    "consistency",
    "connectTimeout",
    "writeTimeout",
    "interval",
];
pub(super) const STATSD: [&str; 3] = ["host", "port", "interval"];
pub(super) const GRAPHITE: [&str; 5] = ["host", "port", "protocol", "prefix", "interval"];
const INFLUX_DB_PORT: u16 = 8086;

/// A group of metrics in a Prometheus `PushGateway`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PushGateway {
    /// The URL of the gateway, with the user's name and password.
    pub url: Url,
    pub job: String,
    /// Whether the job gets a unique name at each start.
    pub has_suffix: bool,
    pub grouping: Vec<(String, String)>,
    /// Whether the group is deleted when the operator stops.
    pub is_deleted: bool,
    pub filters_label_values: bool,
}

/// A server that accepts lines, with names that contain all labels.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Server {
    pub host: String,
    pub port: u16,
    pub transport: Transport,
    /// Prefix of each name.
    pub prefix: Option<String>,
    pub scopes: Scopes,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    Tcp,
    Udp,
}

impl Options<'_> {
    pub(super) fn push_gateway(&self) -> Result<Reporter, InvalidValue> {
        let example = "http://pushgateway:9091";
        let url = match self.text("hostUrl") {
            Some(_) => self.url("hostUrl", example)?,
            None if self.text("host").is_some() => self.server_url("http", None)?,
            None => return Err(self.invalid("hostUrl", "", &format!("one such as `{example}`"))),
        };
        let (job, has_suffix) =
            (self.text("jobName").unwrap_or_default(), self.flag("randomJobNameSuffix", true)?);
        if job.contains('/') || (job.is_empty() && !has_suffix) {
            return Err(self.invalid("jobName", job, "a name without `/`"));
        }
        self.push(
            TIMEOUT,
            To::PushGateway(PushGateway {
                url: self.with_user(url),
                job: job.to_owned(),
                has_suffix,
                grouping: self.grouping()?,
                is_deleted: self.flag("deleteOnShutdown", true)?,
                filters_label_values: self.flag("filterLabelValueCharacters", true)?,
            }),
        )
    }

    fn grouping(&self) -> Result<Vec<(String, String)>, InvalidValue> {
        let text = self.text("groupingKey").unwrap_or_default();
        let read = |pair: &str| {
            let (key, value) = pair.split_once('=')?;
            let (key, value) = (key.trim(), value.trim());
            let is_good = |text: &str| !text.is_empty() && !text.contains('/');
            (is_good(key) && is_good(value)).then(|| (key.to_owned(), value.to_owned()))
        };
        let pairs = text.split(';').filter(|pair| !pair.trim().is_empty()).map(read);
        pairs.collect::<Option<_>>().ok_or_else(|| {
            self.invalid("groupingKey", text, "labels without `/`, such as `k1=v1;k2=v2`")
        })
    }

    /// Returns the URL to which points are written.
    pub(super) fn influx_db(&self) -> Result<Reporter, InvalidValue> {
        let scheme = self.text("scheme").unwrap_or("http").to_lowercase();
        if !["http", "https"].contains(&scheme.as_str()) {
            return Err(self.invalid("scheme", &scheme, "`http` or `https`"));
        }
        let mut url = self.server_url(&scheme, Some(INFLUX_DB_PORT))?;
        url.set_path("/write");
        let database = self.text("db").filter(|name| !name.is_empty());
        let database = database.ok_or_else(|| self.invalid("db", "", "the name of a database"))?;
        let consistency = self.text("consistency").unwrap_or("ONE").to_lowercase();
        if !["all", "any", "one", "quorum"].contains(&consistency.as_str()) {
            let expected = "`ALL`, `ANY`, `ONE` or `QUORUM`";
            return Err(self.invalid("consistency", &consistency, expected));
        }
        let policy = self.text("retentionPolicy").filter(|name| !name.is_empty());
        url.query_pairs_mut()
            .append_pair("db", database)
            .append_pair("precision", "ms")
            .append_pair("consistency", &consistency)
            .extend_pairs(policy.map(|policy| ("rp", policy)));
        let timeout =
            self.milliseconds("connectTimeout")?.saturating_add(self.milliseconds("writeTimeout")?);
        self.push(timeout, To::InfluxDb(self.with_user(url)))
    }

    pub(super) fn statsd(&self) -> Result<Reporter, InvalidValue> {
        self.push(TIMEOUT, To::StatsD(self.server(Transport::Udp)?))
    }

    pub(super) fn graphite(&self) -> Result<Reporter, InvalidValue> {
        let protocol = self.text("protocol").unwrap_or("TCP");
        let transport = match protocol.to_lowercase().as_str() {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            _ => return Err(self.invalid("protocol", protocol, "`TCP` or `UDP`")),
        };
        let prefix = self.text("prefix").filter(|text| !text.is_empty()).map(str::to_owned);
        self.push(TIMEOUT, To::Graphite(Server { prefix, ..self.server(transport)? }))
    }

    fn server(&self, transport: Transport) -> Result<Server, InvalidValue> {
        let (host, port) = (self.host()?.to_owned(), self.port(None)?);
        let scopes = Scopes::of(self.config)?;
        Ok(Server { host, port, transport, prefix: None, scopes })
    }

    fn server_url(&self, scheme: &str, port: Option<u16>) -> Result<Url, InvalidValue> {
        let (host, port) = (self.host()?, self.port(port)?);
        Url::parse(&format!("{scheme}://{host}:{port}"))
            .map_err(|_| self.invalid("host", host, "the name of a host"))
    }

    fn host(&self) -> Result<&str, InvalidValue> {
        let host = self.text("host").filter(|host| !host.is_empty());
        host.ok_or_else(|| self.invalid("host", "", "the name of a host"))
    }

    fn port(&self, default: Option<u16>) -> Result<u16, InvalidValue> {
        let text = self.text("port").unwrap_or_default();
        let default = default.filter(|_| text.is_empty());
        let port = text.parse().ok().filter(|port| *port > 0).or(default);
        port.ok_or_else(|| self.invalid("port", text, "a port"))
    }

    /// Only the server may see the password, so no message contains the address.
    fn with_user(&self, mut url: Url) -> Url {
        if let (Some(user), Some(password)) = (self.text("username"), self.text("password")) {
            // Cannot fail: an address with a host accepts both.
            let _taken = url.set_username(user).and_then(|()| url.set_password(Some(password)));
        }
        url
    }

    fn milliseconds(&self, option: &str) -> Result<Duration, InvalidValue> {
        let Some(text) = self.text(option) else { return Ok(TIMEOUT) };
        let read = text.parse().ok().filter(|milliseconds| *milliseconds > 0);
        let read = read.map(|milliseconds: u32| Duration::from_millis(milliseconds.into()));
        read.ok_or_else(|| self.invalid(option, text, "a number of milliseconds"))
    }
}
