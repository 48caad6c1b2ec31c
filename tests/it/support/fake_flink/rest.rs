//! The fake's REST endpoints.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};

use super::{
    Cluster, Metrics, Start,
    job::{Done, Job, Operation, STATISTICS_AGE, Triggered, job_not_found, unavailable},
    load::Load,
};

type Answer = (StatusCode, String);

const REST_EXCEPTION: &str = "org.apache.flink.runtime.rest.handler.RestHandlerException";
const NOT_FOUND_EXCEPTION: &str = "org.apache.flink.runtime.rest.NotFoundException";

fn reply(status: StatusCode, body: Value) -> Answer {
    (status, body.to_string())
}

fn ok(body: Value) -> Answer {
    reply(StatusCode::OK, body)
}

pub(super) fn refuse(status: StatusCode, text: &str) -> Answer {
    reply(status, json!({"errors": [text]}))
}

/// Formats an error as Flink does: class, message and a stack trace in one text.
fn throw(status: StatusCode, class: &str, message: &str) -> Answer {
    refuse(status, &format!("{class}: {message}\n\tat org.apache.flink.runtime.rest.X(X.java:1)"))
}

pub(super) fn no_leader() -> Answer {
    let text = "Service temporarily unavailable due to an ongoing leader election. Please refresh.";
    refuse(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// The dispatcher has ended, and nobody else has published an address.
pub(super) fn deposed() -> Answer {
    let class = "org.apache.flink.runtime.rpc.exceptions.RecipientUnreachableException";
    let text =
        "Could not send message [LocalRpcInvocation(RestfulGateway)] to recipient [dispatcher]";
    throw(StatusCode::INTERNAL_SERVER_ERROR, class, text)
}

pub(super) fn handle(
    cluster: &mut Cluster,
    now: i64,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Answer {
    let path = uri.path().strip_prefix("/v1").unwrap_or(uri.path());
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let query = uri.query().unwrap_or_default();
    let posted: Value = serde_json::from_slice(body).unwrap_or_default();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["config"]) => ok(json!({
            "refresh-interval": 3000, "timezone-name": "Coordinated Universal Time",
            "timezone-offset": 0, "flink-version": cluster.version(),
            "flink-revision": "0980485 @ 2026-06-08T09:21:06+02:00",
            "features": {"web-submit": true, "web-cancel": true, "web-rescale": false,
                         "web-history": false},
        })),
        ("GET", ["overview"]) => overview(cluster),
        ("GET", ["taskmanagers"]) => taskmanagers(),
        ("GET", ["jobmanager", "config"]) => {
            let age = format!("{} ms", STATISTICS_AGE.as_millis());
            let own = [("jobmanager.rpc.address", "127.0.0.1"), ("web.refresh-interval", &age)];
            let set = cluster.configuration.iter().map(|(key, value)| (key.as_str(), &**value));
            let all = own.into_iter().chain(set);
            let all = all.map(|(key, value)| json!({"key": key, "value": value}));
            ok(Value::Array(all.collect()))
        }
        ("GET", ["jobmanager", "metrics"]) => {
            ok(named(query, &[("taskSlotsTotal", "4"), ("taskSlotsAvailable", "2")]))
        }
        ("GET", ["taskmanagers", "metrics"]) => ok(aggregated(query, &cluster.process_metrics)),
        ("GET", ["jobs", "overview"]) => {
            let jobs: Vec<Value> = cluster.jobs.values().map(|job| job.overview(now)).collect();
            ok(json!({ "jobs": jobs }))
        }
        ("POST", ["jars", "upload"]) => upload(cluster, headers, body),
        ("POST", ["jars", jar, "run"]) => run(cluster, now, jar, &posted),
        ("DELETE", ["jars", jar]) => match cluster.jars.remove(*jar) {
            Some(_) => ok(json!({})),
            None => throw(
                StatusCode::BAD_REQUEST,
                REST_EXCEPTION,
                &format!("File {jar} does not exist in /tmp/flink-web-upload."),
            ),
        },
        ("POST", ["savepoint-disposal"]) => dispose(cluster, &posted),
        ("GET", ["savepoint-disposal", trigger]) => match cluster.disposals.get(*trigger) {
            None => throw(
                StatusCode::NOT_FOUND,
                NOT_FOUND_EXCEPTION,
                "Operation not found under key: org.apache.flink.runtime.rest.handler.async.OperationKey@1f",
            ),
            Some(None) => ok(json!({"status": {"id": "COMPLETED"}, "operation": {}})),
            Some(Some(failure)) => ok(json!({
                "status": {"id": "COMPLETED"},
                "operation": {"failure-cause": {"class": "org.apache.flink.util.FlinkException",
                              "stack-trace": failure, "serialized-throwable": "rO0AB"}},
            })),
        },
        (_, ["jobs", id, rest @ ..]) => {
            if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                let text = format!(
                    "Bad request, could not parse parameters: Cannot resolve path parameter (jobid) from value \"{id}\"."
                );
                return throw(StatusCode::BAD_REQUEST, REST_EXCEPTION, &text);
            }
            job_endpoint(cluster, now, method, path, id, rest, query, &posted)
        }
        _ => no_endpoint(method, path),
    }
}

fn no_endpoint(method: &Method, path: &str) -> Answer {
    if method == Method::GET {
        refuse(StatusCode::NOT_FOUND, &format!("Unable to load requested file {path}."))
    } else {
        refuse(StatusCode::NOT_FOUND, &format!("Not found: {path}"))
    }
}

fn rescales(job: &Job, id: &str) -> Answer {
    if let Some(rescales) = &job.rescales {
        return ok(rescales.clone());
    }
    if job.load.is_some() {
        // What it says if it remembers none, too.
        return ok(json!([]));
    }
    let class = "org.apache.flink.runtime.rest.handler.job.rescales.RescalesUnavailableException";
    let text = format!(
        "The job `{id}` has not enabled the `Adaptive` scheduler, or it has been enabled but the value of \
         configuration option `web.adaptive-scheduler.rescale-history.size` has not been set to greater than `0`."
    );
    throw(StatusCode::NOT_FOUND, class, &text)
}

/// Formats an error that Flink did not expect.
fn throw_inside(text: &str) -> Answer {
    let text = format!("<Exception on server side:\n{text}\n\nEnd of exception on server side>");
    let errors = json!({"errors": ["Internal server error.", text]});
    reply(StatusCode::INTERNAL_SERVER_ERROR, errors)
}

fn no_such_job(id: &str) -> String {
    format!(
        "org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job ({id})"
    )
}

/// Answers what is asked about a job that the cluster does not have.
fn missing_job(
    orphans: &BTreeSet<(String, String)>,
    method: &Method,
    id: &str,
    rest: &[&str],
    posted: &Value,
) -> Answer {
    let not_found = no_such_job(id);
    match (method.as_str(), rest) {
        ("GET", ["metrics"]) => ok(json!([])),
        ("GET", ["execution-result"]) => throw(StatusCode::NOT_FOUND, REST_EXCEPTION, &not_found),
        ("PATCH", []) => throw(StatusCode::NOT_FOUND, REST_EXCEPTION, "Job could not be found."),
        ("POST", ["checkpoints"]) => {
            reply(StatusCode::ACCEPTED, json!({"request-id": posted["triggerId"]}))
        }
        ("GET", ["checkpoints", trigger]) if *trigger != "config" => {
            trigger_missing("checkpoint", trigger, id)
        }
        (_, ["resource-requirements"]) => throw_inside(&not_found),
        ("GET", ["savepoints", trigger]) => {
            if !orphans.contains(&(id.to_owned(), (*trigger).to_owned())) {
                return trigger_missing("savepoint", trigger, id);
            }
            let result = Some(Err(job_not_found(id)));
            ok(savepoint_status(&Operation { kind: Triggered::Checkpoint, steps_left: 0, result }))
        }
        _ => throw(StatusCode::NOT_FOUND, NOT_FOUND_EXCEPTION, &format!("Job {id} not found")),
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of one request")]
fn job_endpoint(
    cluster: &mut Cluster,
    now: i64,
    method: &Method,
    path: &str,
    id: &str,
    rest: &[&str],
    query: &str,
    posted: &Value,
) -> Answer {
    match (method.as_str(), rest) {
        ("POST", ["savepoints" | "stop"]) => {
            return trigger_savepoint(cluster, now, id, rest, posted);
        }
        ("PATCH", []) if query == "mode=stop" => {
            let text = "The termination mode \"stop\" has been removed.";
            return throw(StatusCode::PERMANENT_REDIRECT, REST_EXCEPTION, text);
        }
        ("GET", ["rescales", "history"]) if !cluster.is_2_3 => return no_endpoint(method, path),
        _ => {}
    }
    let Some(job) = cluster.jobs.get_mut(id) else {
        return missing_job(&cluster.orphans, method, id, rest, posted);
    };
    match (method.as_str(), rest) {
        ("GET", []) => ok(job.details(now)),
        ("PATCH", []) => cancel(job),
        ("GET", ["exceptions"]) => {
            let limit = query.strip_prefix("maxExceptions=").and_then(|text| text.parse().ok());
            ok(job.exceptions(limit.unwrap_or(20)))
        }
        ("GET", ["rescales", "history"]) => rescales(job, id),
        (_, ["resource-requirements"]) if job.load.is_some() => {
            requirements(job, now, method, posted)
        }
        ("GET", ["checkpoints" | "resource-requirements"]) if job.is_initializing() => {
            throw_inside(&unavailable().1)
        }
        ("GET", ["metrics"]) if job.is_initializing() => ok(json!([])),
        ("GET", ["execution-result"]) => ok(job.result()),
        ("GET", ["metrics"]) => {
            let completed = job.checkpoints.len().to_string();
            ok(named(query, &[("numRestarts", "0"), ("numberOfCompletedCheckpoints", &completed)]))
        }
        ("GET", ["vertices", vertex, "subtasks", "metrics"]) => {
            let none = Metrics::new();
            let under_load = job.load.as_ref().map(|load| load.metrics(vertex));
            let metrics = under_load.as_ref().or_else(|| job.metrics.get(*vertex));
            ok(aggregated(query, metrics.unwrap_or(&none)))
        }
        ("GET", ["savepoints", trigger]) => match job.operations.get(*trigger) {
            Some(operation) => ok(savepoint_status(operation)),
            None => trigger_missing("savepoint", trigger, id),
        },
        (_, ["checkpoints", "config"]) if !job.is_checkpointing => {
            let text = format!("Checkpointing is not enabled for this job ({id}).");
            throw(StatusCode::NOT_FOUND, REST_EXCEPTION, &text)
        }
        (_, ["checkpoints", ..]) if !job.is_checkpointing => {
            throw(StatusCode::NOT_FOUND, REST_EXCEPTION, "Checkpointing has not been enabled.")
        }
        ("GET", ["checkpoints"]) => ok(job.statistics()),
        ("GET", ["checkpoints", "config"]) => ok(json!({
            "mode": "exactly_once", "interval": 2000, "timeout": 600_000, "min_pause": 0,
            "max_concurrent": 1,
            "externalization": {"enabled": true, "delete_on_cancellation": job.deletes_checkpoints},
            "state_backend": "HashMapStateBackend",
            "checkpoint_storage": job.checkpoint_storage(),
        })),
        ("GET", ["checkpoints", "details", number]) => match job.checkpoint(number) {
            Some(checkpoint) => ok(checkpoint),
            None => throw(
                StatusCode::NOT_FOUND,
                REST_EXCEPTION,
                &format!("Could not find checkpointing statistics for checkpoint {number}."),
            ),
        },
        ("POST", ["checkpoints"]) => {
            let trigger = posted["triggerId"].as_str().unwrap_or_default().to_owned();
            job.trigger(&trigger, Triggered::Checkpoint, now);
            reply(StatusCode::ACCEPTED, json!({"request-id": trigger}))
        }
        ("GET", ["checkpoints", trigger]) => match job.operations.get(*trigger) {
            Some(operation) => ok(checkpoint_status(operation)),
            None => trigger_missing("checkpoint", trigger, id),
        },
        (_, ["resource-requirements"]) => throw_inside(
            "java.lang.UnsupportedOperationException: The DefaultScheduler does not support changing the parallelism \
             without a job restart. This feature is currently only expected to work with the AdaptiveScheduler.",
        ),
        _ => no_endpoint(method, path),
    }
}

/// Answers about the bounds of a job that can be rescaled.
fn requirements(job: &mut Job, now: i64, method: &Method, posted: &Value) -> Answer {
    if job.is_terminal() {
        return throw_inside(&no_such_job(&job.id));
    }
    if method == Method::PUT {
        job.require(posted, now);
        return ok(json!({}));
    }
    ok(job.load.as_ref().map(Load::requirements).unwrap_or_default())
}

fn cancel(job: &mut Job) -> Answer {
    match job.state.as_str() {
        // Cancelling a cancelled job is accepted.
        "CANCELED" => reply(StatusCode::ACCEPTED, json!({})),
        state @ ("FAILED" | "FINISHED") => throw(
            StatusCode::CONFLICT,
            REST_EXCEPTION,
            &format!(
                "Job cancellation failed because the job has already reached another terminal state ({state})."
            ),
        ),
        _ => {
            job.cancel();
            reply(StatusCode::ACCEPTED, json!({}))
        }
    }
}

fn trigger_missing(what: &str, trigger: &str, job: &str) -> Answer {
    let text = format!("There is no {what} operation with triggerId={trigger} for job {job}.");
    throw(StatusCode::NOT_FOUND, REST_EXCEPTION, &text)
}

fn trigger_savepoint(
    cluster: &mut Cluster,
    now: i64,
    id: &str,
    rest: &[&str],
    posted: &Value,
) -> Answer {
    let is_stop = rest == ["stop"];
    let field = if is_stop { "targetDirectory" } else { "target-directory" };
    let is_old = cluster.is_before_1_15;
    if is_old && (posted["triggerId"].is_string() || posted["formatType"].is_string()) {
        let text = "Request did not match expected format StopWithSavepointRequestBody.";
        return throw(StatusCode::BAD_REQUEST, REST_EXCEPTION, text);
    }
    let directory = posted[field].as_str().map(str::to_owned);
    let Some(directory) = directory.or_else(|| cluster.default_savepoint_directory.clone()) else {
        let text = format!(
            "Config key [execution.checkpointing.savepoint-dir] is not set. Property [{field}] must be provided."
        );
        return throw(StatusCode::BAD_REQUEST, REST_EXCEPTION, &text);
    };
    let chosen = posted["triggerId"].as_str().map(str::to_owned);
    let trigger = chosen.unwrap_or_else(|| format!("{:032x}", cluster.next()));
    let path = format!("{directory}/savepoint-{}-{:012x}", &id[..6], cluster.next());
    let accepted = reply(StatusCode::ACCEPTED, json!({"request-id": trigger}));
    // A missing job shows only in the operation's result.
    let Some(job) = cluster.jobs.get_mut(id) else {
        cluster.orphans.insert((id.to_owned(), trigger));
        return accepted;
    };
    let kind = if is_stop { Triggered::Stop { path } } else { Triggered::Savepoint { path } };
    job.trigger(&trigger, kind, now);
    accepted
}

fn savepoint_status(operation: &Operation) -> Value {
    match &operation.result {
        None => json!({"status": {"id": "IN_PROGRESS"}, "operation": null}),
        Some(Ok(Done::Path(path))) => {
            json!({"status": {"id": "COMPLETED"}, "operation": {"location": path}})
        }
        Some(Ok(Done::Checkpoint(id))) => {
            json!({"status": {"id": "COMPLETED"}, "operation": {"checkpointId": id}})
        }
        Some(Err((class, text))) => json!({
            "status": {"id": "COMPLETED"},
            "operation": {"failure-cause": {"class": class, "stack-trace": text,
                                            "serialized-throwable": "rO0AB"}},
        }),
    }
}

/// The format differs from that of savepoints.
fn checkpoint_status(operation: &Operation) -> Value {
    match &operation.result {
        Some(Err((class, text))) => json!({
            "status": {"id": "COMPLETED"},
            "operation": {"failureCause": {"class": class, "stack-trace": text,
                                           "serialized-throwable": "rO0AB"}},
        }),
        _ => savepoint_status(operation),
    }
}

fn dispose(cluster: &mut Cluster, posted: &Value) -> Answer {
    let path = posted["savepoint-path"].as_str().unwrap_or_default();
    let failure = if cluster.has_savepoint(path) {
        cluster.disposed.insert(path.to_owned());
        None
    } else {
        Some(format!(
            "org.apache.flink.util.FlinkException: Could not dispose savepoint {path}.\n\tat x\nCaused by: java.io.FileNotFoundException: Cannot find checkpoint or savepoint file/directory '{path}' on file system 'file'.\n"
        ))
    };
    let trigger = format!("{:032x}", cluster.next());
    cluster.disposals.insert(trigger.clone(), failure);
    // Flink answers with 200 here, and chooses the id.
    ok(json!({"request-id": trigger}))
}

fn upload(cluster: &mut Cluster, headers: &HeaderMap, body: &[u8]) -> Answer {
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok());
    let boundary =
        content_type.and_then(|value| value.strip_prefix("multipart/form-data; boundary="));
    let text = String::from_utf8_lossy(body);
    let name = text.split("filename=\"").nth(1).and_then(|rest| rest.split('"').next());
    let (Some(boundary), Some(name)) = (boundary, name) else {
        return throw(
            StatusCode::BAD_REQUEST,
            REST_EXCEPTION,
            "Exactly 1 file must be sent, received 0.",
        );
    };
    let is_whole = text.starts_with(&format!("--{boundary}\r\n"))
        && text.ends_with(&format!("\r\n--{boundary}--\r\n"));
    if !is_whole || name.strip_suffix(".jar").is_none() {
        return throw(StatusCode::BAD_REQUEST, REST_EXCEPTION, "Only Jar files are allowed.");
    }
    let id = format!("{:08x}-0000-0000-0000-000000000000_{name}", cluster.next());
    cluster.jars.insert(id.clone(), body.len());
    ok(json!({"filename": format!("/tmp/flink-web-upload/{id}"), "status": "success"}))
}

fn run(cluster: &mut Cluster, now: i64, jar: &str, posted: &Value) -> Answer {
    if !cluster.jars.contains_key(jar) {
        let text = format!(
            "<Exception on server side:\njava.util.concurrent.CompletionException: {REST_EXCEPTION}: Jar file /tmp/flink-web-upload/{jar} does not exist\n\tat x"
        );
        return reply(
            StatusCode::INTERNAL_SERVER_ERROR,
            json!({"errors": ["Internal server error.", text]}),
        );
    }
    let failed = |causes: &str| {
        let text = format!(
            "{REST_EXCEPTION}: Could not execute application.\n\tat x\nCaused by: org.apache.flink.util.FlinkRuntimeException: Could not execute application.\n\t... 1 more\n{causes}"
        );
        refuse(StatusCode::BAD_REQUEST, &text)
    };
    let fresh = format!("{:032x}", cluster.next());
    let id = posted["jobId"].as_str().map_or(fresh, str::to_owned);
    if cluster.jobs.get(&id).is_some_and(|job| !job.is_suspended()) {
        let of = if cluster.is_2_3 { "Application" } else { "Job" };
        return failed(&format!(
            "Caused by: org.apache.flink.runtime.client.Duplicate{of}SubmissionException: {of} has already been submitted.\n",
        ));
    }
    if cluster.gates.fail("main") {
        return failed("Caused by: java.lang.IllegalStateException: told to fail at main\n");
    }
    cluster.submit(&id, posted["savepointPath"].as_str());
    let mut job = Job::submitted(&id, now);
    job.lacks_slots =
        cluster.slots.is_some_and(|slots| posted["parallelism"].as_u64() > Some(slots));
    job.restarts = posted["flinkConfiguration"]["restart-strategy.type"] == "fixed-delay";
    // The job of the conformance tests.
    if let Some([_folder, records]) = posted["programArgsList"].as_array().map(Vec::as_slice) {
        job.checkpoints_by_itself = false;
        job.ends_after = records.as_str().and_then(|it| it.parse().ok()).filter(|it| *it < 1000);
    }
    let parallelism = posted["parallelism"].as_u64().and_then(|it| it.try_into().ok());
    let load = || Load::new(0.0, 1.0, now).with_parallelism(parallelism.unwrap_or(1));
    job.load = cluster.is_adaptive.then(load);
    let mut start = Start { job_id: id.clone(), restored: None };
    let class = "org.apache.flink.runtime.client.JobInitializationException";
    if cluster.gates.fail("graph") {
        let cause = "java.lang.IllegalStateException: told to fail at graph";
        job.fail(class, &format!("Could not start the JobMaster.\nCaused by: {cause}"), now);
        cluster.jobs.insert(id, job);
        return failed(&format!("Caused by: {class}: Could not start the JobMaster.\n"));
    }
    if let Some((path, number)) = cluster.in_metadata.remove(&id) {
        job.restore("CHECKPOINT", number, &path, now);
        start.restored = Some((path, number));
    } else if let Some(path) = posted["savepointPath"].as_str() {
        if let Some(number) = cluster.state_at(path) {
            job.restore("SAVEPOINT", number, path, now);
            start.restored = Some((path.to_owned(), number));
        } else {
            let cause = job.fail_to_restore(path, now);
            cluster.jobs.insert(id, job);
            return failed(&format!(
                "Caused by: {class}: Could not start the JobMaster.\nCaused by: {cause}\n"
            ));
        }
    }
    cluster.starts.push(start);
    cluster.jobs.insert(id.clone(), job);
    ok(json!({ "jobid": id }))
}

/// Returns those of these metrics that the query requests.
fn named(query: &str, metrics: &[(&str, &str)]) -> Value {
    let wanted = query.strip_prefix("get=").unwrap_or_default();
    let found = metrics.iter().filter(|(name, _)| wanted.split(',').any(|one| one == *name));
    found.map(|(name, value)| json!({"id": name, "value": value})).collect()
}

/// Returns the metric names, or the requested metrics; empty if any requested one has no value.
fn aggregated(query: &str, metrics: &Metrics) -> Value {
    let wanted = query.split('&').find_map(|part| part.strip_prefix("get="));
    let Some(wanted) = wanted else {
        return metrics.keys().map(|name| json!({ "id": name })).collect();
    };
    let values: Option<Vec<Value>> = wanted
        .split(',')
        .map(|name| {
            let value = metrics.get(name)?;
            Some(json!({"id": name, "min": value, "max": value, "avg": value, "sum": value}))
        })
        .collect();
    values.unwrap_or_default().into()
}

fn overview(cluster: &Cluster) -> Answer {
    let count = |state: &str| cluster.jobs.values().filter(|job| job.state == state).count();
    ok(json!({
        "taskmanagers": 1, "slots-total": cluster.slots.unwrap_or(4), "slots-available": 2,
        "jobs-running": count("RUNNING"), "jobs-finished": count("FINISHED"),
        "jobs-cancelled": count("CANCELED"), "jobs-failed": count("FAILED"),
        "flink-version": cluster.version(), "flink-commit": "0980485",
    }))
}

fn taskmanagers() -> Answer {
    ok(json!({"taskmanagers": [{
        "id": "127.0.0.1:37391-b3ce1b", "path": "pekko.tcp://flink@127.0.0.1:37391/user/rpc/x",
        "dataPort": 44447, "jmxPort": -1, "timeSinceLastHeartbeat": 1_750_000_000_000_i64,
        "slotsNumber": 4, "freeSlots": 2,
        "totalResource": {"cpuCores": 4.0, "taskHeapMemory": 11, "managedMemory": 220},
        "hardware": {"cpuCores": 2, "physicalMemory": 25_276_510_208_i64, "freeMemory": 146_800_640,
                     "managedMemory": 231_525_584},
        "memoryConfiguration": {"frameworkHeap": 134_217_728, "taskHeap": 12_582_912,
                                "totalFlinkMemory": 578_813_952, "totalProcessMemory": 1_048_576_000},
        "blocked": false,
    }]}))
}
