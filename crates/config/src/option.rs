//! One typed option: its key, its former names, its default, and how its value is parsed.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use strum::EnumString;

use api::status::{CheckpointType, SavepointFormatType};

use super::memory::MemorySize;
use super::{duration, memory, structure};

/// A value that does not have its option's type.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("invalid value `{value}` of `{key}`: expected {expected}")]
pub struct InvalidValue {
    /// The key as the user wrote it.
    pub key: String,
    pub value: String,
    /// Describes a valid value.
    pub expected: String,
}

impl InvalidValue {
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), value: value.into(), expected: expected.into() }
    }

    /// Hides the value, which may be a secret.
    #[must_use]
    pub fn hidden(self) -> Self {
        Self { value: "***".to_owned(), ..self }
    }
}

/// A type that an option can have.
pub trait OptionValue: Sized {
    /// The format of a value, for messages.
    const EXPECTED: &str;
    /// Whether the value may also be written as keys below the option's own, as a YAML map is.
    const IS_MAP: bool = false;

    /// Parses a value in Flink's syntax.
    fn parse(text: &str) -> Option<Self>;
}

/// An option of Flink or of the operator.
#[derive(Debug)]
pub struct ConfigOption<T> {
    key: &'static str,
    /// Older names, which are used unless the key itself is set.
    former_keys: &'static [&'static str],
    /// In Flink's syntax; a test parses every one.
    default: Option<&'static str>,
    value: PhantomData<fn() -> T>,
}

impl<T: OptionValue> ConfigOption<T> {
    /// Creates an option without a default.
    pub const fn new(key: &'static str) -> Self {
        Self { key, former_keys: &[], default: None, value: PhantomData }
    }

    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    #[must_use]
    pub const fn formerly(mut self, former_keys: &'static [&'static str]) -> Self {
        self.former_keys = former_keys;
        self
    }

    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// Returns the default in Flink's syntax.
    pub const fn default_text(&self) -> Option<&'static str> {
        self.default
    }

    /// Returns the older names, which are used unless the current one is set.
    pub const fn former_keys(&self) -> &'static [&'static str] {
        self.former_keys
    }

    /// Returns every name of the option, the current one first.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + use<T> {
        std::iter::once(self.key).chain(self.former_keys.iter().copied())
    }

    /// Parses a value that was set under `key`, one of the option's names.
    pub fn parse(&self, key: &str, text: &str) -> Result<T, InvalidValue> {
        T::parse(text).ok_or_else(|| InvalidValue::new(key, text, T::EXPECTED))
    }
}

impl OptionValue for String {
    const EXPECTED: &str = "text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl OptionValue for bool {
    const EXPECTED: &str = "`true` or `false`";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
}

/// Types whose `FromStr` parses a value, with its format.
macro_rules! values_from_str {
    ($($type:ty: $expected:expr;)*) => {$(
        impl $crate::option::OptionValue for $type {
            const EXPECTED: &str = $expected;

            fn parse(text: &str) -> Option<Self> {
                text.trim().parse().ok()
            }
        }
    )*};
}
pub(crate) use values_from_str;

values_from_str! {
    i32: "a whole number";
    i64: "a whole number";
    u32: "a whole number";
    u16: "a port number";
    SavepointFormatType: "`CANONICAL` or `NATIVE`";
    CheckpointType: "`FULL`, `INCREMENTAL` or `UNKNOWN`";
    DeletionPropagation: "`Foreground`, `Background` or `Orphan`";
    PullPolicy: "`IfNotPresent`, `Always` or `Never`";
    Preflight: "`none`, `objects` or `pods`";
    ServiceExposedType: "`ClusterIP`, `NodePort`, `LoadBalancer` or `Headless_ClusterIP`";
}

impl OptionValue for f64 {
    const EXPECTED: &str = "a number";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number: &Self| number.is_finite())
    }
}

impl OptionValue for Duration {
    const EXPECTED: &str = duration::EXPECTED;

    fn parse(text: &str) -> Option<Self> {
        duration::parse(text)
    }
}

/// An interval that a negative duration turns off, as does the default `-1 min` of such an option in Java.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MaybeInterval(pub Option<Duration>);

impl OptionValue for MaybeInterval {
    const EXPECTED: &str = "a duration, or a negative one such as `-1 min` for never";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().strip_prefix('-') {
            Some(positive) => duration::parse(positive).map(|_| Self(None)),
            None => duration::parse(text).map(|interval| Self(Some(interval))),
        }
    }
}

impl OptionValue for MemorySize {
    const EXPECTED: &str = memory::EXPECTED;

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl OptionValue for Vec<String> {
    const EXPECTED: &str = "a list separated by `;`, such as `a;b`";

    fn parse(text: &str) -> Option<Self> {
        structure::split_list(text)
    }
}

impl OptionValue for BTreeMap<String, String> {
    const EXPECTED: &str = "a map such as `k1:v1,k2:v2`";
    const IS_MAP: bool = true;

    fn parse(text: &str) -> Option<Self> {
        structure::split_map(text)
    }
}

impl OptionValue for Vec<BTreeMap<String, String>> {
    const EXPECTED: &str = "a list of maps such as `k1:v1,k2:v2;k1:v3`";

    fn parse(text: &str) -> Option<Self> {
        structure::split_list(text)?.iter().map(|item| structure::split_map(item)).collect()
    }
}

/// What happens to the dependents of a deleted Deployment.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString)]
#[strum(ascii_case_insensitive)]
pub enum DeletionPropagation {
    Foreground,
    Background,
    Orphan,
}

/// When the kubelet pulls an image.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::IntoStaticStr, EnumString)]
#[strum(ascii_case_insensitive, const_into_str)]
pub enum PullPolicy {
    IfNotPresent,
    Always,
    Never,
}

/// What is tested of a changed spec before a running job is stopped for it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, EnumString)]
#[strum(ascii_case_insensitive)]
pub enum Preflight {
    None,
    /// Whether the API server accepts the objects of the new cluster.
    Objects,
    /// Also whether pods of the new spec start.
    Pods,
}

/// How the REST service is exposed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString)]
#[strum(ascii_case_insensitive)]
pub enum ServiceExposedType {
    ClusterIp,
    NodePort,
    LoadBalancer,
    #[strum(serialize = "Headless_ClusterIP")]
    HeadlessClusterIp,
}

/// A Gateway of the Gateway API, or one of its listeners.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GatewayName {
    /// `None` for the namespace of the resource.
    pub namespace: Option<String>,
    pub name: String,
    /// Name of the listener; `None` for all that match.
    pub listener: Option<String>,
}

impl OptionValue for GatewayName {
    const EXPECTED: &str = "a Gateway as `name`, `namespace/name` or `namespace/name:listener`";

    fn parse(text: &str) -> Option<Self> {
        let (gateway, listener) = match text.trim().split_once(':') {
            Some((gateway, listener)) => (gateway, Some(listener)),
            None => (text.trim(), None),
        };
        let (namespace, name) = match gateway.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, gateway),
        };
        let all = [Some(name), namespace, listener];
        let owned = |part: Option<&str>| part.map(str::to_owned);
        all.into_iter().flatten().all(is_object_name).then(|| Self {
            namespace: owned(namespace),
            name: name.to_owned(),
            listener: owned(listener),
        })
    }
}

/// Returns whether this is a valid name of a Kubernetes object.
fn is_object_name(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|c| is_end(c) || c == '-' || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_interval_is_off() {
        let read = |text| MaybeInterval::parse(text).map(|it| it.0);
        assert_eq!(read("-1 min"), Some(None));
        assert_eq!(read(" -60000 "), Some(None));
        assert_eq!(read("0"), Some(Some(Duration::ZERO)));
        assert_eq!(read("1 min"), Some(Some(Duration::from_mins(1))));
        for bad in ["-", "-soon", "--1 min", "off"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_gateway_has_a_name_and_maybe_more() {
        let read = |text| GatewayName::parse(text).map(|it| (it.namespace, it.name, it.listener));
        let text = |text: &str| text.to_owned();
        assert_eq!(read(" web "), Some((None, text("web"), None)));
        let whole = (Some(text("infra")), text("web"), Some(text("https")));
        assert_eq!(read("infra/web:https"), Some(whole));
        for bad in ["", "/web", "web:", "a/b/c", "Web", "web_1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
