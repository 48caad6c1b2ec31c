//! Which namespaces and labels are operated, and what decides it: the command line and the environment, else the
//! operator's configuration, else the namespace that commands work in.

use super::super::args::Global;
use super::super::connection::Connection;
use super::super::failure::Failure;
use super::OperateArgs;
use config::label_selector::LabelSelector;
use config::namespaces::Namespaces;
use config::option::{InvalidValue, OptionValue};
use config::{FlinkConfig, options};
use operator::run::Watch;
use operator::webhook::admit::Jurisdiction;

/// The sources that decide what is operated.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Namespaces from the command line or the environment, and the name of that source.
    told: Option<(Watch, &'static str)>,
    /// The namespace to operate if nothing else names one.
    own: String,
    /// Label selector from the command line.
    selector: Option<String>,
}

impl Choice {
    pub(super) fn new(
        args: &OperateArgs,
        global: &Global,
        connection: &Connection,
    ) -> anyhow::Result<Self> {
        let own = connection.namespace.clone();
        let named = args.watch_namespaces.join(",");
        let told = if args.all_namespaces {
            Some((Watch::AllNamespaces, "--all-namespaces"))
        } else if !named.replace([',', ' '], "").is_empty() {
            let by = "--watch-namespaces or WATCH_NAMESPACES";
            let namespaces = Namespaces::parse(&named).ok_or_else(|| {
                Failure::usage(format!("{by} is `{named}`: expected {}", Namespaces::EXPECTED))
            })?;
            Some((namespaces.into(), by))
        } else {
            let given = global.namespace.is_some();
            given.then(|| (Watch::Namespaces(vec![own.clone()]), "--namespace"))
        };
        Ok(Self { told, own, selector: args.selector.clone() })
    }

    #[cfg(test)]
    pub(super) fn of_own(own: &str) -> Self {
        Self { told: None, own: own.to_owned(), selector: None }
    }

    /// Returns the namespaces to operate with this configuration.
    pub(super) fn watch(&self, config: &FlinkConfig) -> Result<Watch, InvalidValue> {
        match &self.told {
            Some((watch, _)) => Ok(watch.clone()),
            None => self.configured(config),
        }
    }

    /// Returns whether a changed configuration can change the namespaces while the operator runs.
    pub(super) fn is_dynamic(&self, config: &FlinkConfig) -> bool {
        self.told.is_none() && config.get(&options::DYNAMIC_NAMESPACES_ENABLED) == Ok(true)
    }

    /// Returns a remark if the configuration names other namespaces without effect.
    pub(super) fn remark(&self, config: &FlinkConfig) -> Option<String> {
        let (told, by) = self.told.as_ref()?;
        let key = options::WATCHED_NAMESPACES.key();
        let is_vain = config.is_set(&options::WATCHED_NAMESPACES)
            && self.configured(config).is_ok_and(|configured| configured != *told);
        is_vain.then(|| format!("`{key}` has no effect: {by} sets the namespaces"))
    }

    /// Returns the label selector of the operated resources; `None` for all.
    pub(super) fn selector(&self, config: &FlinkConfig) -> anyhow::Result<Option<String>> {
        let configured = config.find(&options::LABEL_SELECTOR)?;
        let selector = self.selector.clone().or(configured);
        let Some(selector) = selector.filter(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        LabelSelector::parse(&selector).map_err(|invalid| Failure::usage(invalid.to_string()))?;
        Ok(Some(selector))
    }

    /// Returns which resources the webhook reviews with this configuration.
    pub(super) fn jurisdiction(&self, config: &FlinkConfig) -> anyhow::Result<Jurisdiction> {
        let selector = self.selector(config)?;
        let selector = selector.as_deref().map(LabelSelector::parse).transpose()?;
        Ok(Jurisdiction { watch: self.watch(config)?, selector })
    }

    fn configured(&self, config: &FlinkConfig) -> Result<Watch, InvalidValue> {
        if config.is_set(&options::WATCHED_NAMESPACES) {
            return Ok(config.get(&options::WATCHED_NAMESPACES)?.into());
        }
        Ok(Watch::Namespaces(vec![self.own.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(told: Option<Watch>) -> Choice {
        let told = told.map(|watch| (watch, "--watch-namespaces"));
        Choice { told, own: "default".to_owned(), selector: None }
    }

    fn named(names: &[&str]) -> Watch {
        Watch::Namespaces(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn config(text: &str) -> FlinkConfig {
        config::file::parse_flink_conf(text)
    }

    const SHOP: &str = "kubernetes.operator.watched.namespaces: shop, fraud\n";

    #[test]
    fn the_configuration_counts_where_the_command_line_says_nothing() {
        let nobody = choice(None);
        assert_eq!(nobody.watch(&config("")).unwrap(), named(&["default"]));
        assert_eq!(nobody.watch(&config(SHOP)).unwrap(), named(&["fraud", "shop"]));
        let all = config("kubernetes.operator.watched.namespaces: JOSDK_ALL_NAMESPACES\n");
        assert_eq!(nobody.watch(&all).unwrap(), Watch::AllNamespaces);
        assert_eq!(nobody.remark(&config(SHOP)), None);
        let told = choice(Some(named(&["billing"])));
        assert_eq!(told.watch(&config(SHOP)).unwrap(), named(&["billing"]));
    }

    #[test]
    fn what_is_named_in_vain_is_reported() {
        let told = choice(Some(Watch::AllNamespaces));
        let remark = told.remark(&config(SHOP)).unwrap();
        assert!(remark.contains("has no effect: --watch-namespaces sets"), "{remark}");
        assert_eq!(choice(Some(named(&["fraud", "shop"]))).remark(&config(SHOP)), None);
        assert_eq!(told.remark(&config("")), None);
    }

    #[test]
    fn labels_of_the_command_line_count_before_those_of_the_configuration() {
        let config = config("kubernetes.operator.label.selector: team in (data)\n");
        let nobody = choice(None);
        assert_eq!(nobody.selector(&config).unwrap().as_deref(), Some("team in (data)"));
        let told = Choice { selector: Some("team=ops".to_owned()), ..choice(None) };
        assert_eq!(told.selector(&config).unwrap().as_deref(), Some("team=ops"));
        assert!(told.jurisdiction(&config).unwrap().selector.is_some());
        assert_eq!(nobody.jurisdiction(&FlinkConfig::new()).unwrap().selector, None);
        let wrong = Choice { selector: Some("team in ops".to_owned()), ..choice(None) };
        let told = wrong.selector(&config).unwrap_err().to_string();
        assert!(told.contains("invalid label selector `team in ops`"), "{told}");
    }

    #[test]
    fn namespaces_move_only_where_that_is_asked_for() {
        let dynamic = config("kubernetes.operator.dynamic.namespaces.enabled: true\n");
        assert!(choice(None).is_dynamic(&dynamic));
        assert!(!choice(None).is_dynamic(&config("")));
        assert!(!choice(Some(Watch::AllNamespaces)).is_dynamic(&dynamic));
    }
}
