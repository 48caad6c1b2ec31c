//! What `spec.ingress` may ask of the operator, which creates the Ingress with its own permissions.
//!
//! A resource keeps what it had before, so that new limits and a takeover from the Java operator stop no change of it.

use std::collections::BTreeSet;

use api::deployment::IngressSpec;
use config::option::ConfigOption;
use config::{FlinkConfig, options};

use super::{Finding, Rule};

/// The annotation that names a class as `spec.ingressClassName` does.
const CLASS: &str = "kubernetes.io/ingress.class";

/// A part of the name of an annotation, after its `/`.
enum Part {
    Starts(&'static str),
    Ends(&'static str),
}

/// Annotations by which an Ingress controller takes over configuration, another authentication or other hosts: the controller's
/// domain, or `None` for any, because it can be configured.
const DANGEROUS: [(Option<&str>, Part); 10] = [
    // https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/ and
    // https://www.haproxy.com/documentation/kubernetes-ingress/ingress-configuration-reference/ (`backend-config-snippet`)
    (None, Part::Ends("-snippet")),
    // The same, and https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/
    (None, Part::Starts("auth-")),
    // Both of ingress-nginx: other hosts, whatever `allowed-hosts` names, and no authentication of the controller's own.
    (None, Part::Starts("server-alias")),
    (None, Part::Starts("enable-global-auth")),
    // https://docs.nginx.com/nginx-ingress-controller/configuration/ingress-resources/advanced-configuration-with-annotations/
    (None, Part::Ends("-snippets")),
    (Some("nginx.org"), Part::Starts("basic-auth-")),
    (Some("nginx.com"), Part::Starts("jwt-")),
    // https://haproxy-ingress.github.io/docs/configuration/keys/ (`config-backend`)
    (Some("haproxy-ingress.github.io"), Part::Starts("config-")),
    (Some("ingress.kubernetes.io"), Part::Starts("config-")),
    // Joins the load balancer of others; the controller's page as above.
    (Some("alb.ingress.kubernetes.io"), Part::Starts("group.")),
];

/// Returns what the operator's options do not allow, except for what was there before. `last` is the former
/// `spec.ingress`.
pub(super) fn check(
    (name, namespace): (&str, &str),
    ingress: Option<&IngressSpec>,
    last: Option<&IngressSpec>,
    operator: &FlinkConfig,
) -> Vec<Finding> {
    let Some(ingress) = ingress else { return Vec::new() };
    // Nothing is below a limit that cannot be read.
    let limit = |option: &ConfigOption<Vec<String>>| {
        operator.get(option).unwrap_or_else(|error| vec![error.to_string()])
    };
    let refused = |place: &str, what: String, key: &str| {
        let message = format!("{what}: whoever runs the operator can allow it with `{key}`");
        Rule::IngressLimit.found(format!("spec.ingress.{place}"), message)
    };
    let mut found = Vec::new();

    let allowed = limit(&options::INGRESS_ALLOWED_HOSTS);
    let hosts_before = last.map(|last| hosts(last, name, namespace)).unwrap_or_default();
    for (place, host) in hosts(ingress, name, namespace) {
        let is_retained = hosts_before.iter().any(|(_, before)| *before == host);
        if !allowed.is_empty() && !is_retained && !allowed.iter().any(|it| is_below(&host, it)) {
            let what = if host.is_empty() {
                format!(
                    "names no host, and only hosts below `{}` are allowed",
                    allowed.join("`, `")
                )
            } else {
                format!("host `{host}` is not below `{}`", allowed.join("`, `"))
            };
            found.push(refused(place, what, options::INGRESS_ALLOWED_HOSTS.key()));
        }
    }

    let allowed = limit(&options::INGRESS_ALLOWED_CLASSES);
    let classes_before = last.map(classes).unwrap_or_default();
    if !allowed.is_empty() {
        for class in classes(ingress).difference(&classes_before) {
            let is_allowed = class.is_some_and(|class| allowed.iter().any(|it| it == class));
            if !is_allowed {
                let allowed = allowed.join("`, `");
                let what = match class {
                    Some(class) => format!("class `{class}` is not one of `{allowed}`"),
                    None => format!("must be one of `{allowed}`"),
                };
                found.push(refused("className", what, options::INGRESS_ALLOWED_CLASSES.key()));
            }
        }
    }

    let allowed = limit(&options::INGRESS_ALLOWED_ANNOTATIONS);
    let before = last.and_then(|last| last.annotations.as_ref());
    for (key, value) in ingress.annotations.iter().flatten() {
        let is_retained = before.is_some_and(|before| before.get(key) == Some(value));
        if key != CLASS && !is_retained && !may_annotate(key, &allowed) {
            let what = if is_dangerous(key) {
                "can change configuration, authentication or hosts of an Ingress controller"
            } else {
                "is not an allowed annotation"
            };
            let key_of_option = options::INGRESS_ALLOWED_ANNOTATIONS.key();
            found.push(refused(&format!("annotations.{key}"), what.to_owned(), key_of_option));
        }
    }
    found
}

/// Returns what would be refused if the resource had not had it before.
pub fn stored(
    id: (&str, &str),
    ingress: Option<&IngressSpec>,
    last: Option<&IngressSpec>,
    operator: &FlinkConfig,
) -> Vec<Finding> {
    let refused = check(id, ingress, last, operator);
    let mut found = check(id, ingress, None, operator);
    found.retain(|finding| !refused.contains(finding));
    found
}

/// What the Ingresses of a fleet have: the narrowest limits that all of them are within.
#[derive(Debug, Default)]
pub struct InUse {
    domains: BTreeSet<String>,
    classes: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

impl InUse {
    /// Adds an Ingress. One without a host or a class cannot be allowed, and stays as it is.
    pub fn add(&mut self, ingress: &IngressSpec) {
        let variable = "\0";
        let hosts = hosts(ingress, variable, variable).into_iter();
        let domain = |(_, host): (_, String)| match host.rsplit_once(variable) {
            // The rest of a label that a variable is part of is no domain.
            Some((_, rest)) => rest.split_once('.').map(|(_, domain)| domain.to_owned()),
            None => Some(host),
        };
        self.domains.extend(hosts.filter_map(domain).filter(|domain| !domain.is_empty()));
        self.classes.extend(classes(ingress).into_iter().flatten().map(ToOwned::to_owned));
        let annotations = ingress.annotations.iter().flatten().map(|(key, _)| key);
        self.annotations.extend(annotations.filter(|key| *key != CLASS).cloned());
    }

    /// Returns the options with these limits, and their values; none if there are no Ingresses.
    pub fn options(self) -> Vec<(&'static str, String)> {
        let text = |all: BTreeSet<String>| all.into_iter().collect::<Vec<_>>().join(";");
        let all = [
            (options::INGRESS_ALLOWED_HOSTS.key(), text(self.domains)),
            (options::INGRESS_ALLOWED_CLASSES.key(), text(self.classes)),
            (options::INGRESS_ALLOWED_ANNOTATIONS.key(), text(self.annotations)),
        ];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Returns the hosts with their places; an empty one matches any host.
fn hosts(ingress: &IngressSpec, name: &str, namespace: &str) -> Vec<(&'static str, String)> {
    let lower = |host: &str| host.trim().trim_end_matches('.').to_ascii_lowercase();
    let template = ingress.template.as_deref().map(|template| {
        let host = render::ingress::host(template, name, namespace).unwrap_or_default();
        ("template", lower(&host))
    });
    let tls = ingress.tls.iter().flatten().flat_map(|tls| tls.hosts.iter().flatten());
    template.into_iter().chain(tls.map(|host| ("tls", lower(host)))).collect()
}

fn is_below(host: &str, domain: &str) -> bool {
    let domain = domain.trim().trim_start_matches("*.").to_ascii_lowercase();
    host.strip_suffix(&*domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn classes(ingress: &IngressSpec) -> BTreeSet<Option<&str>> {
    let annotated = ingress.annotations.as_ref().and_then(|all| all.get(CLASS));
    let named = [ingress.class_name.as_deref(), annotated.map(String::as_str)];
    let named: BTreeSet<_> = named.into_iter().flatten().map(Some).collect();
    if named.is_empty() { BTreeSet::from([None]) } else { named }
}

fn is_dangerous(annotation: &str) -> bool {
    let (domain, name) = annotation.split_once('/').unwrap_or(("", annotation));
    DANGEROUS.iter().any(|(of, part)| {
        of.is_none_or(|of| of == domain)
            && match part {
                Part::Starts(start) => name.starts_with(start),
                Part::Ends(end) => name.ends_with(end),
            }
    })
}

fn may_annotate(annotation: &str, allowed: &[String]) -> bool {
    let mut named = allowed.iter().filter(|start| annotation.starts_with(start.as_str()));
    if is_dangerous(annotation) {
        return named.any(|start| start.split_once('/').is_some_and(|(_, name)| !name.is_empty()));
    }
    allowed.is_empty() || named.next().is_some()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn ingress(value: Value) -> IngressSpec {
        serde_json::from_value(value).unwrap()
    }

    #[track_caller]
    fn check(wanted: Value, last: Option<Value>, limits: &[(&str, &str)], expected: Expect) {
        let keys = limits
            .iter()
            .map(|(key, value)| (format!("kubernetes.operator.ingress.{key}"), *value));
        let operator: FlinkConfig =
            keys.collect::<Vec<_>>().iter().map(|(k, v)| (&**k, *v)).collect();
        let last = last.map(ingress);
        let found = super::check(("job", "ns"), Some(&ingress(wanted)), last.as_ref(), &operator);
        let lines: Vec<String> = found.iter().map(|finding| format!("{finding}\n")).collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn without_limits_only_foreign_configuration_is_refused() {
        let wanted = json!({"template": "anything.example", "className": "any", "annotations": {
            "nginx.ingress.kubernetes.io/configuration-snippet": "x",
            "own.example/auth-url": "x",
            "nginx.org/location-snippets": "x",
            "nginx.ingress.kubernetes.io/server-alias": "others.example",
            "haproxy-ingress.github.io/config-backend": "x",
            "nginx.ingress.kubernetes.io/rewrite-target": "/",
        }});
        check(
            wanted.clone(),
            None,
            &[],
            expect![[r#"
                spec.ingress.annotations.haproxy-ingress.github.io/config-backend: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
                spec.ingress.annotations.nginx.ingress.kubernetes.io/configuration-snippet: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
                spec.ingress.annotations.nginx.ingress.kubernetes.io/server-alias: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
                spec.ingress.annotations.nginx.org/location-snippets: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
                spec.ingress.annotations.own.example/auth-url: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
            "#]],
        );
        check(wanted.clone(), Some(wanted.clone()), &[], expect![""]);
        let mut before = wanted.clone();
        before["annotations"]["own.example/auth-url"] = json!("y");
        check(
            wanted,
            Some(before),
            &[],
            expect![[r#"
            spec.ingress.annotations.own.example/auth-url: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
        "#]],
        );
    }

    #[test]
    fn hosts_are_below_a_domain() {
        let limits = [("allowed-hosts", "example.com;*.shop.test")];
        for host in [
            "example.com",
            "{{name}}.EXAMPLE.com/x",
            "https://a.b.example.com:8/",
            "*.example.com",
            "a.shop.test",
        ] {
            check(json!({"template": host}), None, &limits, expect![""]);
        }
        check(
            json!({"template": "evil-example.com"}),
            None,
            &limits,
            expect![[r#"
            spec.ingress.template: host `evil-example.com` is not below `example.com`, `*.shop.test`: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-hosts`
        "#]],
        );
        check(
            json!({"template": "/x"}),
            None,
            &limits,
            expect![[r#"
            spec.ingress.template: names no host, and only hosts below `example.com`, `*.shop.test` are allowed: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-hosts`
        "#]],
        );
        let tls = json!({"template": "a.example.com", "tls": [{"hosts": ["other.test"]}]});
        check(
            tls.clone(),
            None,
            &limits,
            expect![[r#"
            spec.ingress.tls: host `other.test` is not below `example.com`, `*.shop.test`: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-hosts`
        "#]],
        );
        check(tls.clone(), Some(tls), &limits, expect![""]);
    }

    #[test]
    fn the_limits_of_a_fleet_allow_what_it_has() {
        let fleet = [
            json!({"template": "{{name}}.{{namespace}}.flink.example.com", "className": "public"}),
            json!({"template": "ui-{{NAME}}.shop.test:80/{{namespace}}", "annotations": {
                "kubernetes.io/ingress.class": "internal",
                "nginx.ingress.kubernetes.io/auth-url": "x"}}),
            json!({"template": "one.test", "tls": [{"hosts": ["two.test"]}]}),
            json!({"template": "/path"}),
        ]
        .map(ingress);
        let mut in_use = InUse::default();
        for ingress in &fleet {
            in_use.add(ingress);
        }
        let limits = in_use.options();
        let lines: Vec<_> = limits.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        expect![[r#"
            kubernetes.operator.ingress.allowed-hosts: flink.example.com;one.test;shop.test;two.test
            kubernetes.operator.ingress.allowed-classes: internal;public
            kubernetes.operator.ingress.allowed-annotations: nginx.ingress.kubernetes.io/auth-url
        "#]]
        .assert_eq(&lines.concat());
        let operator: FlinkConfig = limits.iter().map(|(key, value)| (*key, &**value)).collect();
        for ingress in &fleet[..2] {
            assert_eq!(super::check(("job", "ns"), Some(ingress), None, &operator), []);
        }
    }

    #[test]
    fn classes_are_named() {
        let limits = [("allowed-classes", "public")];
        check(json!({"template": "a", "className": "public"}), None, &limits, expect![""]);
        check(
            json!({"template": "a"}),
            None,
            &limits,
            expect![[r#"
            spec.ingress.className: must be one of `public`: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-classes`
        "#]],
        );
        check(json!({"template": "a"}), Some(json!({"template": "b"})), &limits, expect![""]);
        let annotated = json!({"template": "a", "className": "public",
            "annotations": {"kubernetes.io/ingress.class": "internal"}});
        check(
            annotated,
            None,
            &limits,
            expect![[r#"
            spec.ingress.className: class `internal` is not one of `public`: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-classes`
        "#]],
        );
    }

    #[test]
    fn annotations_are_allowed_by_their_beginning() {
        let wanted = json!({"template": "a", "annotations": {
            "nginx.ingress.kubernetes.io/auth-url": "x",
            "nginx.ingress.kubernetes.io/server-snippet": "x",
            "nginx.ingress.kubernetes.io/rewrite-target": "/",
            "other.example/x": "/",
        }});
        let limits = [("allowed-annotations", "nginx.ingress.kubernetes.io/")];
        check(
            wanted.clone(),
            None,
            &limits,
            expect![[r#"
            spec.ingress.annotations.nginx.ingress.kubernetes.io/auth-url: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
            spec.ingress.annotations.nginx.ingress.kubernetes.io/server-snippet: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
            spec.ingress.annotations.other.example/x: is not an allowed annotation: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
        "#]],
        );
        let limits = [(
            "allowed-annotations",
            "nginx.ingress.kubernetes.io/;nginx.ingress.kubernetes.io/auth-;other.example",
        )];
        check(
            wanted,
            None,
            &limits,
            expect![[r#"
            spec.ingress.annotations.nginx.ingress.kubernetes.io/server-snippet: can change configuration, authentication or hosts of an Ingress controller: whoever runs the operator can allow it with `kubernetes.operator.ingress.allowed-annotations`
        "#]],
        );
    }
}
