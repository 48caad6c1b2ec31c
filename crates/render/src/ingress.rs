//! The Ingress of the web UI, or a route from a Gateway instead.

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use api::deployment::IngressTls;
use config::option::{GatewayName, InvalidValue};
use config::{FlinkConfig, options};

use super::names;
use super::{Cluster, RenderError, owner};

/// Returns the Ingress if the resource requests one and this operator manages them.
pub(super) fn render(
    cluster: &Cluster,
    config: &FlinkConfig,
) -> Result<Option<Value>, RenderError> {
    let Some(ingress) = &cluster.spec.ingress else { return Ok(None) };
    let of = Exposed {
        name: &cluster.id.name,
        namespace: &cluster.id.namespace,
        owner: owner(&cluster.id.name, &cluster.id.uid, true),
        cluster: &cluster.id.name,
    };
    expose(&of, ingress, config)
}

/// Returns the Ingress of a `FlinkBlueGreenDeployment`, which leads to the child with this name; `config` is the
/// child's.
///
/// # Errors
///
/// If there is no template, or an option cannot be read.
pub fn of_blue_green(
    resource: &ObjectMeta,
    ingress: &api::deployment::IngressSpec,
    child: &str,
    config: &FlinkConfig,
) -> Result<Option<Value>, RenderError> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (name, namespace) = (text(&resource.name), text(&resource.namespace));
    let owner = OwnerReference {
        kind: "FlinkBlueGreenDeployment".to_owned(),
        ..owner(&name, &text(&resource.uid), true)
    };
    let of = Exposed { name: &name, namespace: &namespace, owner, cluster: child };
    expose(&of, ingress, config)
}

/// The owner and target of an Ingress.
struct Exposed<'a> {
    name: &'a str,
    namespace: &'a str,
    owner: OwnerReference,
    /// The cluster of the web UI.
    cluster: &'a str,
}

fn expose(
    of: &Exposed<'_>,
    ingress: &api::deployment::IngressSpec,
    config: &FlinkConfig,
) -> Result<Option<Value>, RenderError> {
    if !config.get(&options::INGRESS_MANAGE)? {
        return Ok(None);
    }
    // An empty one is valid and matches any host and path, as in the Java operator.
    let template = ingress.template.as_deref().ok_or_else(|| {
        let expected = "a URL such as `{{name}}.{{namespace}}.flink.example.com`";
        InvalidValue::new("spec.ingress.template", "", expected)
    })?;
    let (host, path) = host_and_path(&fill(template, of.name, of.namespace));

    let mut labels = ingress.labels.clone().unwrap_or_default();
    let _user_label = labels.insert(names::COMPONENT_LABEL.to_owned(), "ingress".to_owned());
    let metadata = ObjectMeta {
        name: Some(of.name.to_owned()),
        namespace: Some(of.namespace.to_owned()),
        labels: Some(labels),
        annotations: ingress.annotations.clone().filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![of.owner.clone()]),
        ..ObjectMeta::default()
    };
    let service = names::rest_service(of.cluster);
    let port = config.get(&options::REST_PORT)?;
    if let Some(gateway) = config.find(&options::INGRESS_GATEWAY)? {
        let backend = json!({ "name": service, "port": port });
        return Ok(Some(route(&gateway, metadata, (host, path), backend)));
    }
    let port = ServiceBackendPort { number: Some(port.into()), name: None };
    let service = IngressServiceBackend { name: service, port: Some(port) };
    let path = HTTPIngressPath {
        backend: IngressBackend { service: Some(service), resource: None },
        path,
        path_type: "ImplementationSpecific".to_owned(),
    };
    let rule = IngressRule { host, http: Some(HTTPIngressRuleValue { paths: vec![path] }) };
    let entry = |IngressTls { hosts, secret_name }| IngressTLS { hosts, secret_name };
    let tls = ingress.tls.clone().filter(|tls| !tls.is_empty());
    let spec = IngressSpec {
        ingress_class_name: ingress.class_name.clone(),
        rules: Some(vec![rule]),
        tls: tls.map(|tls| tls.into_iter().map(entry).collect()),
        default_backend: None,
    };
    Ok(Some(json!(Ingress { metadata, spec: Some(spec), status: None })))
}

/// Returns the route from a Gateway to the same place. The addresses within the web UI are relative, so the path that
/// leads to it is stripped.
fn route(
    gateway: &GatewayName,
    metadata: ObjectMeta,
    (host, path): (Option<String>, Option<String>),
    backend: Value,
) -> Value {
    let GatewayName { namespace, name, listener } = gateway;
    let mut parent = json!({"name": name});
    if let Some(namespace) = namespace {
        parent["namespace"] = namespace.as_str().into();
    }
    if let Some(listener) = listener {
        parent["sectionName"] = listener.as_str().into();
    }
    let mut rule = json!({"backendRefs": [backend]});
    if let Some(path) = path.filter(|path| path != "/") {
        rule["matches"] = json!([{"path": {"type": "PathPrefix", "value": path}}]);
        rule["filters"] = json!([{
            "type": "URLRewrite",
            "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
        }]);
    }
    let mut spec = json!({"parentRefs": [parent], "rules": [rule]});
    if let Some(host) = host {
        spec["hostnames"] = json!([host]);
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": metadata,
        "spec": spec,
    })
}

/// Returns the host that a template stands for; `None` for any host.
pub fn host(template: &str, name: &str, namespace: &str) -> Option<String> {
    host_and_path(&fill(template, name, namespace)).0
}

/// Fills in name and namespace; the placeholders are not case-sensitive.
pub fn fill(template: &str, name: &str, namespace: &str) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        let inside = from.find("}}").map(|end| (&from[2..end], &from[end + 2..]));
        rest = match inside {
            Some((variable, after)) if variable.eq_ignore_ascii_case("name") => {
                filled.push_str(name);
                after
            }
            Some((variable, after)) if variable.eq_ignore_ascii_case("namespace") => {
                filled.push_str(namespace);
                after
            }
            _ => {
                filled.push_str("{{");
                &from[2..]
            }
        };
    }
    filled.push_str(rest);
    filled
}

/// Returns host and path of a URL whose scheme may be missing. Port, query and fragment are dropped, and the path is
/// kept as it is, because controllers accept patterns there.
fn host_and_path(url: &str) -> (Option<String>, Option<String>) {
    let lower = url.to_ascii_lowercase();
    let scheme = ["http://", "https://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let rest = &url[scheme.map_or(0, str::len)..];
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    let stated = |text: &str| (!text.trim().is_empty()).then(|| text.to_owned());
    (stated(host), stated(path))
}

#[cfg(test)]
mod tests;
