//! `operator install --from-java`: converts the values of an installed release of the Java operator's chart for an
//! installation of this operator.

use anyhow::Context as _;
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};

use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::operator::pod_files::{Deployed, lacking};
use crate::cli::operator::shadow;
use crate::cli::printer::Printer;
use clients::cluster::read::{self, Scope};
use config::{OperatorConfig, options};
use operator::install::from_java::{CHART, Converted, Different, Release, convert};
use operator::install::merge::{defaults, merge, typed};
use validation::ingress::InUse;

/// Helm's annotations that name an object's release.
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Prints the values and notes about them. Changes nothing.
pub(super) async fn run(
    name: Option<&str>,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let connection = global.connect().await?;
    let client = &connection.client;
    let (namespace, name) = match name {
        Some(name) => (connection.namespace, name.to_owned()),
        None => installed(client).await?,
    };
    let release = newest(client, &namespace, &name).await?;
    let Release { chart, .. } = &release;
    if chart.metadata.name != CHART {
        let found = &chart.metadata.name;
        return Err(Failure::new(format!(
            "release `{name}` in namespace `{namespace}` is from chart `{found}`, not `{CHART}`"
        ))
        .into());
    }
    let converted = convert(&release);
    let version = &chart.metadata.version;
    printer.line(format_args!(
        "# Values of release `{name}` in namespace `{namespace}`, chart {CHART} {version}."
    ))?;
    if !converted.values.is_empty() {
        printer.line(serde_yaml::to_string(&converted.values)?.trim_end())?;
    }
    match Fleet::read(client).await {
        Ok(fleet) => {
            report_ingresses(&fleet, printer);
            for remark in fleet.lacks(&converted)? {
                printer.warning(remark);
            }
        }
        Err(error) => printer.warning(format_args!(
            "the fleet's Ingresses and its files in the operator's pod are not known: {error}"
        )),
    }
    print_converted(&converted, &release, printer);
    Ok(())
}

fn print_converted(converted: &Converted, release: &Release, printer: &Printer) {
    let Converted { values: _, defaults, without_effect, unknown, not_converted } = converted;
    for Different { path, java, here } in defaults {
        let is_text = java.as_str().is_some_and(|text| text.contains('\n'));
        let same = if is_text { " the printed value is".to_owned() } else { format!(" {java} is") };
        printer.note(format_args!(
            "value `{path}`:{same} the default of the Java operator's chart and is kept; the default here is {here}"
        ));
    }
    for difference in not_converted {
        printer.note(format_args!("not kept: {difference}"));
    }
    for value in without_effect {
        printer.warning(value);
    }
    for path in unknown {
        printer.warning(format_args!(
            "value `{path}` is left out: there is no value of this name here"
        ));
    }
    let Release { name, namespace, .. } = release;
    printer.hint("keep the values: kubectl flink operator install --from-java > values.yaml");
    printer.hint(format_args!(
        "see what would happen: kubectl flink operator install --values values.yaml -n {namespace} --check"
    ));
    printer.hint(format_args!(
        "then switch over, jobs keep running: helm uninstall {name} -n {namespace}, and helm install {name} \
         kubectl-flink-operator-VERSION.tgz -n {namespace} --values values.yaml"
    ));
}

/// Prints the limits that allow the Ingresses of the fleet and no others.
fn report_ingresses(fleet: &Fleet, printer: &Printer) {
    let mut limits = fleet.ingresses().options();
    if limits.is_empty() {
        limits.push((options::INGRESS_MANAGE.key(), "false".to_owned()));
    }
    printer.hint("allow no Ingresses but those of the fleet, in `defaultConfiguration`:");
    for (key, value) in limits {
        printer.hint(format_args!("  {key}: {value}"));
    }
}

/// What the Java operator runs.
struct Fleet {
    deployments: Vec<FlinkDeployment>,
    blue_greens: Vec<FlinkBlueGreenDeployment>,
}

impl Fleet {
    async fn read(client: &Client) -> Result<Self, clients::cluster::Error> {
        let everywhere = Scope::AllNamespaces;
        let deployments = read::list(client, everywhere, None).await?;
        let blue_greens = match read::list(client, everywhere, None).await {
            // Older operators have none.
            Err(clients::cluster::Error::KindMissing { .. }) => Vec::new(),
            other => other?,
        };
        Ok(Self { deployments, blue_greens })
    }

    fn ingresses(&self) -> InUse {
        let mut in_use = InUse::default();
        let of_deployments = self.deployments.iter().filter_map(|one| one.spec.ingress.as_ref());
        let of_parents = self.blue_greens.iter().filter_map(|one| one.spec.ingress.as_ref());
        of_deployments.chain(of_parents).for_each(|ingress| in_use.add(ingress));
        in_use
    }

    /// Returns remarks about files in the operator's pod that the converted values do not give it.
    fn lacks(&self, converted: &Converted) -> anyhow::Result<Vec<String>> {
        let mut all = defaults();
        merge(&mut all, converted.values.clone());
        let values = typed(all)?;
        let operator = OperatorConfig::new(shadow::files(&values)?.merged());
        // The colours of a blue/green deployment are among the deployments.
        let fleet = self.deployments.iter().map(Deployed::from);
        Ok(lacking(&values, &operator, fleet))
    }
}

/// Returns namespace and name of the release that the installed Java operator belongs to.
async fn installed(client: &Client) -> anyhow::Result<(String, String)> {
    let selector = "app.kubernetes.io/managed-by=Helm";
    let all = read::list::<Deployment>(client, Scope::AllNamespaces, Some(selector)).await?;
    let is_java = |it: &Deployment| {
        let chart = it.labels().get("helm.sh/chart");
        chart.is_some_and(|chart| chart.starts_with(&format!("{CHART}-")))
    };
    let release = |it: &Deployment| {
        let value = |key: &str| it.annotations().get(key).cloned();
        Some((value(RELEASE_NAMESPACE)?, value(RELEASE_NAME)?))
    };
    let mut found: Vec<_> = all.iter().filter(|it| is_java(it)).filter_map(release).collect();
    found.sort();
    found.dedup();
    let named: Vec<String> =
        found.iter().map(|(namespace, name)| format!("--release {name} -n {namespace}")).collect();
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        Some(_) => Err(Failure::new(format!("there are {} releases of {CHART}", named.len()))
            .hint(format!("name one: {}", named.join(", or ")))
            .into()),
        None => Err(Failure::new(format!("no Deployment of a Helm release of {CHART} was found"))
            .hint("name a release that was uninstalled or is not running: --release NAME -n NAMESPACE")
            .hint("values in a file are used as they are: kubectl flink operator install --values FILE")
            .into()),
    }
}

/// Returns the newest revision of a release.
async fn newest(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Release> {
    let selector = format!("owner=helm,name={name}");
    let all = read::list::<Secret>(client, Scope::Namespace(namespace), Some(&selector)).await?;
    let revision =
        |it: &Secret| it.labels().get("version").and_then(|text| text.parse::<u32>().ok());
    let Some(secret) = all.into_iter().max_by_key(revision) else {
        return Err(Failure::new(format!(
            "no Secret of a Helm release `{name}` in namespace `{namespace}`"
        ))
        .hint(format!("list the releases: helm list -n {namespace}"))
        .hint("values in a file are used as they are: kubectl flink operator install --values FILE")
        .into());
    };
    let shown = secret.name_any();
    let entry = secret.data.and_then(|mut data| data.remove("release")).unwrap_or_default().0;
    Release::read(&entry)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("while reading the release in Secret `{namespace}/{shown}`"))
}
